//! Finding `postgres` and `initdb`.
//!
//! The order is: the option, Debian's and PGDG's directories (newest major first), PATH, and last
//! the cache below the data directory, which `./run` fills where a machine has no package for it.
//! A data directory that exists decides the major version before this order does.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::EmbeddedError;
use super::cluster::Cluster;

/// The oldest major version that the schema is written for.
const OLDEST_MAJOR: u32 = 15;

/// A directory with `postgres` and `initdb` of one major version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    directory: PathBuf,
    major: u32,
}

impl Binaries {
    /// The first in the order above, or the one in `given`. `base_dir` is the data directory.
    ///
    /// # Errors
    /// [`EmbeddedError::NotFound`] says where it was looked for.
    pub fn find(given: Option<&Path>, base_dir: &Path) -> Result<Self, EmbeddedError> {
        let places = Places::of_this_machine(given, base_dir);
        places.candidates().into_iter().next().ok_or_else(|| places.not_found())
    }

    pub(super) fn find_major(
        given: Option<&Path>,
        base_dir: &Path,
        major: u32,
        cluster: &Cluster,
    ) -> Result<Self, EmbeddedError> {
        let places = Places::of_this_machine(given, base_dir);
        let all = places.candidates();
        let first = all.first().map(|binaries| binaries.major).ok_or_else(|| places.not_found())?;
        all.into_iter().find(|binaries| binaries.major == major).ok_or_else(|| {
            let data = cluster.data_dir().display().to_string();
            EmbeddedError::OtherMajor { data, found: major, available: first }
        })
    }

    /// The path of one of the programs.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn in_directory(directory: &Path) -> Option<Self> {
        if !directory.join("initdb").is_file() {
            return None;
        }
        let output = Command::new(directory.join("postgres")).arg("--version").output().ok()?;
        let major = parse_major(&String::from_utf8_lossy(&output.stdout))?;
        (major >= OLDEST_MAJOR).then(|| Self { directory: directory.to_owned(), major })
    }
}

/// Where to look.
struct Places {
    given: Option<PathBuf>,
    /// Parents of versioned directories, with the prefix of their names.
    system: Vec<(PathBuf, &'static str)>,
    path: OsString,
    cache: PathBuf,
}

impl Places {
    fn of_this_machine(given: Option<&Path>, base_dir: &Path) -> Self {
        Self {
            given: given.map(Path::to_owned),
            system: vec![("/usr/lib/postgresql".into(), ""), ("/usr".into(), "pgsql-")],
            path: std::env::var_os("PATH").unwrap_or_default(),
            cache: base_dir.join("postgresql"),
        }
    }

    fn candidates(&self) -> Vec<Binaries> {
        if let Some(directory) = &self.given {
            return Binaries::in_directory(directory).into_iter().collect();
        }
        let found = |directory: PathBuf| Binaries::in_directory(&directory);
        let system = self.system.iter().flat_map(|(at, prefix)| versioned_directories(at, prefix));
        let mut all: Vec<Binaries> = system.filter_map(found).collect();
        all.sort_by_key(|binaries| std::cmp::Reverse(binaries.major));
        let path = std::env::split_paths(&self.path).filter(|directory| directory.is_absolute());
        all.extend(path.filter_map(found));
        // Its libraries are found from where the programs really lie, so links are followed here.
        let cached = versioned_directories(&self.cache, "").into_iter();
        all.extend(cached.flat_map(fs::canonicalize).filter_map(found));
        all
    }

    fn not_found(&self) -> EmbeddedError {
        let cache = self.cache.display();
        let searched = self.given.as_ref().map_or_else(
            || {
                format!(
                    "searched /usr/lib/postgresql/*/bin, /usr/pgsql-*/bin, PATH and {cache}/*/bin"
                )
            },
            |directory| format!("looked into {}", directory.display()),
        );
        EmbeddedError::NotFound { searched }
    }
}

/// `PARENT/PREFIXversion/bin`, the highest version first. What is no version, such as a folder that
/// is still being filled, is left out.
fn versioned_directories(parent: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let mut found: Vec<(Vec<u32>, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let numbers = name.to_str()?.strip_prefix(prefix)?.split('.').map(str::parse);
            Some((numbers.collect::<Result<_, _>>().ok()?, entry.path().join("bin")))
        })
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, directory)| directory).collect()
}

/// `postgres (PostgreSQL) 15.18 (Debian ..)` -> 15; `18beta1` -> 18.
fn parse_major(version: &str) -> Option<u32> {
    let (_, rest) = version.split_once("(PostgreSQL) ")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_postgres_prints_them() {
        assert_eq!(parse_major("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"), Some(15));
        assert_eq!(parse_major("postgres (PostgreSQL) 18beta1\n"), Some(18));
        assert_eq!(parse_major("postgres 15"), None);
    }

    #[test]
    fn an_empty_directory_is_an_error_that_says_what_to_install() {
        let directory = tempfile::tempdir().unwrap();
        let error = Binaries::find(Some(directory.path()), Path::new("/nowhere")).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("apt install postgresql") && error.contains("--pg-bin"), "{error}");
        assert!(error.contains(&directory.path().display().to_string()), "{error}");
    }

    /// `DIRECTORY` with two programs that answer as PostgreSQL `version` does.
    fn install(directory: &Path, version: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        fs::create_dir_all(directory).unwrap();
        for program in ["postgres", "initdb"] {
            let script = format!("#!/bin/sh\necho '{program} (PostgreSQL) {version}'\n");
            fs::write(directory.join(program), script).unwrap();
            let executable = fs::Permissions::from_mode(0o755);
            fs::set_permissions(directory.join(program), executable).unwrap();
        }
    }

    #[test]
    fn the_cache_is_looked_at_last_and_its_newest_first() {
        let base = tempfile::tempdir().unwrap();
        let places = Places {
            given: None,
            system: vec![(base.path().join("system"), "")],
            path: OsString::new(),
            cache: base.path().join("cache"),
        };
        let found = || -> Vec<PathBuf> {
            let root = fs::canonicalize(base.path()).unwrap();
            let directories = places.candidates().into_iter().map(|found| found.directory);
            directories.map(|d| d.strip_prefix(&root).unwrap().to_owned()).collect()
        };
        let error = places.not_found().to_string();
        assert!(found().is_empty() && error.contains("cache/*/bin"), "{error}");

        install(&base.path().join("cache/18.6.3/bin"), "18.6");
        install(&base.path().join("cache/18.10.0/bin"), "18.10");
        // Unfinished, and too old.
        install(&base.path().join("cache/18.11.0.new/bin"), "18.11");
        install(&base.path().join("cache/14.1/bin"), "14.1");
        assert_eq!(found(), ["cache/18.10.0/bin", "cache/18.6.3/bin"].map(PathBuf::from));

        install(&base.path().join("system/15/bin"), "15.18");
        assert_eq!(found().first().map(PathBuf::as_path), Some(Path::new("system/15/bin")));
        assert_eq!(found().len(), 3);
    }
}
