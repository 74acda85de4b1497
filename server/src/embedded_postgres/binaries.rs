//! Finding `postgres` and `initdb`.
//!
//! The order is: the option, Debian's and PGDG's directories (newest major first), PATH. A data
//! directory that exists decides the major version before "newest" does.

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
    /// The newest there is, or the one in `given`.
    ///
    /// # Errors
    /// [`EmbeddedError::NotFound`] says where it was looked for.
    pub fn find(given: Option<&Path>) -> Result<Self, EmbeddedError> {
        candidates(given).into_iter().next().ok_or_else(|| not_found(given))
    }

    pub(super) fn find_major(
        given: Option<&Path>,
        major: u32,
        cluster: &Cluster,
    ) -> Result<Self, EmbeddedError> {
        let all = candidates(given);
        let newest = all.first().map(|binaries| binaries.major).ok_or_else(|| not_found(given))?;
        all.into_iter().find(|binaries| binaries.major == major).ok_or_else(|| {
            let data = cluster.data_dir().display().to_string();
            EmbeddedError::OtherMajor { data, found: major, available: newest }
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

fn candidates(given: Option<&Path>) -> Vec<Binaries> {
    if let Some(directory) = given {
        return Binaries::in_directory(directory).into_iter().collect();
    }
    let mut installed: Vec<Binaries> = versioned_directories("/usr/lib/postgresql", "")
        .chain(versioned_directories("/usr", "pgsql-"))
        .filter_map(|directory| Binaries::in_directory(&directory))
        .collect();
    installed.sort_by_key(|binaries| std::cmp::Reverse(binaries.major));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
    installed.extend(on_path.filter_map(|directory| Binaries::in_directory(&directory)));
    installed
}

/// `PARENT/PREFIX*/bin`.
fn versioned_directories(parent: &str, prefix: &'static str) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let name = entry.file_name();
        let version = name.to_str()?.strip_prefix(prefix)?;
        version.parse::<u32>().ok().map(|_| entry.path().join("bin"))
    })
}

/// `postgres (PostgreSQL) 15.18 (Debian ..)` -> 15; `18beta1` -> 18.
fn parse_major(version: &str) -> Option<u32> {
    let (_, rest) = version.split_once("(PostgreSQL) ")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn not_found(given: Option<&Path>) -> EmbeddedError {
    let searched = given.map_or_else(
        || "searched /usr/lib/postgresql/*/bin, /usr/pgsql-*/bin and PATH".to_owned(),
        |directory| format!("looked into {}", directory.display()),
    );
    EmbeddedError::NotFound { searched }
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
        let error = Binaries::find(Some(directory.path())).unwrap_err().to_string();
        assert!(error.contains("apt install postgresql") && error.contains("--pg-bin"), "{error}");
        assert!(error.contains(&directory.path().display().to_string()), "{error}");
    }
}
