//! Where a state directory was used last, so that a copy that wakes up elsewhere is noticed.
//!
//! A machine is known by its GPUs, its name and its machine id. Each of them may change on one and
//! the same machine: a container has another name in each life, a card is replaced, a disk image
//! brings its machine id along. So nothing is asked while name and machine id are the same; when
//! one differs the GPUs decide, and without GPUs to compare both have to differ. A copy that looks
//! the same in all of it is noticed by the server instead, which counts the streams of a key.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use leasewatch_core::id::{GpuUuid, clean_text};
use serde::{Deserialize, Serialize};

use super::{INSTANCE, IdentityError, LOCK, StateDir, write_atomically};

const TEXT_CHARS: usize = 128;
/// Folders for states that were put aside are named so, and numbered.
const ASIDE: &str = "elsewhere-";

/// What a machine is known by, GPUs aside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Instance {
    /// Its name.
    pub host_name: String,
    /// `/etc/machine-id`; absent where there is none, as in most containers.
    pub machine_id: Option<String>,
}

impl Instance {
    /// The machine whose file system is at `root`.
    #[must_use]
    pub fn observe(root: &Path) -> Self {
        let line = |path: &str| {
            let text = fs::read_to_string(root.join(path)).ok()?;
            let text = clean_text(text.trim(), TEXT_CHARS);
            Some(text).filter(|text| !text.is_empty())
        };
        Self {
            host_name: line("proc/sys/kernel/hostname").unwrap_or_default(),
            machine_id: line("etc/machine-id"),
        }
    }

    /// Where the directory was used last; `None` before it was, or when that cannot be read.
    #[must_use]
    pub fn last(dir: &StateDir) -> Option<Self> {
        let text = fs::read_to_string(dir.path().join(INSTANCE)).ok()?;
        toml::from_str(&text).ok()
    }

    /// Notes that the directory is used here.
    ///
    /// # Errors
    /// [`IdentityError::Io`].
    pub fn keep(&self, dir: &StateDir) -> Result<(), IdentityError> {
        let path = dir.path().join(INSTANCE);
        let text = toml::to_string(self).map_err(|error| IdentityError::Io {
            path: path.clone(),
            source: std::io::Error::other(error),
        })?;
        write_atomically(&path, text.as_bytes())
    }

    /// Whether this is another machine than `last`, as far as can be seen. `gpus` are asked for
    /// only when it matters: those that were seen last, and those that are there now.
    #[must_use]
    pub fn is_elsewhere(
        &self,
        last: &Self,
        gpus: impl FnOnce() -> (BTreeSet<GpuUuid>, BTreeSet<GpuUuid>),
    ) -> bool {
        if self == last {
            return false;
        }
        let (then, now) = gpus();
        if !then.is_empty() && !now.is_empty() {
            return then.is_disjoint(&now);
        }
        let machine_differs = match (&self.machine_id, &last.machine_id) {
            (Some(now), Some(then)) => now != then,
            _ => false,
        };
        machine_differs && self.host_name != last.host_name
    }
}

/// Moves everything in the directory but its lock into a folder in it. Nothing is deleted.
///
/// # Errors
/// [`IdentityError::Io`].
pub fn put_aside(dir: &StateDir) -> Result<PathBuf, IdentityError> {
    let number = (1_u32..).find(|n| !dir.path().join(format!("{ASIDE}{n}")).exists());
    let aside = dir.path().join(format!("{ASIDE}{}", number.unwrap_or(u32::MAX)));
    let moved = || -> std::io::Result<()> {
        fs::create_dir(&aside)?;
        for entry in fs::read_dir(dir.path())? {
            let name = entry?.file_name();
            let is_aside = name.to_str().is_some_and(|name| name.starts_with(ASIDE));
            if name != LOCK && !is_aside {
                fs::rename(dir.path().join(&name), aside.join(&name))?;
            }
        }
        fs::File::open(dir.path())?.sync_all()
    };
    moved().map_err(IdentityError::io(&aside))?;
    Ok(aside)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(host_name: &str, machine_id: Option<&str>) -> Instance {
        Instance { host_name: host_name.to_owned(), machine_id: machine_id.map(str::to_owned) }
    }

    fn gpus(seeds: &[u8]) -> BTreeSet<GpuUuid> {
        seeds.iter().map(|seed| GpuUuid::new(&format!("GPU-{seed}")).unwrap()).collect()
    }

    #[test]
    fn only_what_cannot_be_one_machine_is_elsewhere() {
        let here = instance("a", Some("m"));
        let is_elsewhere = |now: &Instance, last: &Instance, then: &[u8], there: &[u8]| {
            now.is_elsewhere(last, || (gpus(then), gpus(there)))
        };
        // A card was replaced; nobody asks.
        assert!(!here.is_elsewhere(&here, || panic!("asked")));
        // A container's next life, a renamed host, a new machine id: the cards are the same.
        assert!(!is_elsewhere(&instance("b", Some("m")), &here, &[1, 2], &[2, 3]));
        assert!(!is_elsewhere(&instance("b", Some("n")), &here, &[1], &[1]));
        // A frozen image wakes up on other cards; it brings its machine id along.
        assert!(is_elsewhere(&instance("b", Some("m")), &here, &[1], &[2]));
        assert!(is_elsewhere(&instance("a", Some("n")), &here, &[1], &[2]));
        // Nothing to compare.
        assert!(is_elsewhere(&instance("b", Some("n")), &here, &[1], &[]));
        assert!(!is_elsewhere(&instance("b", Some("m")), &here, &[], &[1]));
        assert!(!is_elsewhere(&instance("b", None), &instance("a", None), &[1], &[]));
    }

    #[test]
    fn a_state_is_put_aside_whole_and_again() {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::open(temp.path()).unwrap();
        instance("a", None).keep(&dir).unwrap();
        assert_eq!(Instance::last(&dir), Some(instance("a", None)));
        fs::create_dir(temp.path().join("spool")).unwrap();
        fs::write(temp.path().join("spool/1"), "segments").unwrap();
        let first = put_aside(&dir).unwrap();
        assert_eq!(Instance::last(&dir), None);
        assert_eq!(fs::read_to_string(first.join("spool/1")).unwrap(), "segments");
        fs::write(temp.path().join("node.key"), "second").unwrap();
        let second = put_aside(&dir).unwrap();
        assert_ne!(first, second);
        assert!(first.join(INSTANCE).exists() && second.join("node.key").exists());
        assert!(temp.path().join(LOCK).exists());
    }
}
