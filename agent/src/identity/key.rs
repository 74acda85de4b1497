//! The node's Ed25519 key.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use ed25519_dalek::SigningKey;
use leasewatch_core::id::Hash;

use super::{IdentityError, KEY, StateDir, write_atomically};

/// Reads the node's key, or makes one when the directory has none.
///
/// The file holds the 32-byte seed as 64 hex digits. It must be a plain file of the user that
/// runs the agent, and of nobody else.
///
/// # Errors
/// [`IdentityError::Key`] says what is wrong with the file and how to fix it.
pub fn load_or_create_key(dir: &StateDir) -> Result<SigningKey, IdentityError> {
    let path = dir.path().join(KEY);
    match fs::symlink_metadata(&path) {
        Ok(found) => {
            check(&path, &found)?;
            read(&path)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => create(&path),
        Err(error) => Err(IdentityError::io(&path)(error)),
    }
}

fn check(path: &Path, found: &fs::Metadata) -> Result<(), IdentityError> {
    let refuse = |problem, fix| Err(IdentityError::Key { path: path.to_owned(), problem, fix });
    if found.file_type().is_symlink() {
        return refuse("is a symbolic link", "put the file itself in its place");
    }
    if !found.is_file() {
        return refuse("is not a file", "move it away; the agent then makes a new node");
    }
    if found.mode() & 0o077 != 0 {
        return refuse("can be read by others", "run: chmod 600 on it");
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return refuse("belongs to another user", "run the agent as its owner, or chown it");
    }
    if found.len() == 0 {
        return refuse("is empty", "restore it from a backup, or remove it to join as a new node");
    }
    Ok(())
}

fn read(path: &Path) -> Result<SigningKey, IdentityError> {
    let mut text = String::new();
    OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(path)
        .and_then(|file| file.take(256).read_to_string(&mut text))
        .map_err(IdentityError::io(path))?;
    let seed: Hash = text.trim_end().parse().map_err(|_| IdentityError::Key {
        path: path.to_owned(),
        problem: "does not hold 64 hex digits",
        fix: "restore it from a backup, or remove it to join as a new node",
    })?;
    Ok(SigningKey::from_bytes(&seed.0))
}

fn create(path: &Path) -> Result<SigningKey, IdentityError> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| IdentityError::Io {
        path: path.to_owned(),
        source: std::io::Error::other(error.to_string()),
    })?;
    // Written beside and linked in, so that a crash never leaves half a key.
    write_atomically(path, format!("{}\n", Hash(seed)).as_bytes())?;
    Ok(SigningKey::from_bytes(&seed))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn dir() -> (tempfile::TempDir, StateDir) {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::open(temp.path()).unwrap();
        (temp, dir)
    }

    fn problem(dir: &StateDir) -> &'static str {
        match load_or_create_key(dir) {
            Err(IdentityError::Key { problem, fix, .. }) => {
                assert!(!fix.is_empty());
                problem
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_key_is_made_once_and_private() {
        let (temp, dir) = dir();
        let first = load_or_create_key(&dir).unwrap();
        assert_eq!(load_or_create_key(&dir).unwrap(), first);
        let mode = fs::metadata(temp.path().join(KEY)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn keys_that_others_can_read_are_refused() {
        let (temp, dir) = dir();
        load_or_create_key(&dir).unwrap();
        for mode in [0o644, 0o640, 0o601] {
            fs::set_permissions(temp.path().join(KEY), fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(problem(&dir), "can be read by others");
        }
    }

    #[test]
    fn links_directories_and_rubbish_are_refused() {
        let (temp, dir) = dir();
        let path = temp.path().join(KEY);
        symlink("/dev/null", &path).unwrap();
        assert_eq!(problem(&dir), "is a symbolic link");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(problem(&dir), "is not a file");
        fs::remove_dir(&path).unwrap();
        for (content, expected) in [
            ("", "is empty"),
            ("not a key", "does not hold 64 hex digits"),
            (&"0".repeat(65), "does not hold 64 hex digits"),
        ] {
            write_atomically(&path, content.as_bytes()).unwrap();
            assert_eq!(problem(&dir), expected);
        }
    }
}
