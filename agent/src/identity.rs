//! What the agent keeps on disk: its key, the server it trusts, where its chain stands.
//!
//! Everything lies in one state directory that one agent holds at a time. Files are replaced
//! atomically. A key that others could read, or that is no plain file, is refused with the way to
//! fix it: going on with a new key would make a new node. Not here: segments (the spool's).

mod instance;
mod key;
mod server;
mod session;
mod state;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

pub use instance::{Instance, put_aside};
pub use key::load_or_create_key;
pub use server::{
    KeptNotice, accept_server, forget_addresses, keep_notice, pin_server_key, server_trust,
};
pub use session::{keep_session, last_session};
pub use state::{Beginning, Enrolled, KnownGpu, State};

/// File names in the state directory.
const LOCK: &str = "lock";
const KEY: &str = "node.key";
const SERVER_KEY: &str = "server.pub";
const NOTICE: &str = "notice.toml";
const STATE: &str = "state.toml";
const SESSION: &str = "session";
const INSTANCE: &str = "instance.toml";

/// Why the state directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// Another agent holds the directory.
    #[error("another agent already uses {}; stop it, or give this one another --state-dir", .0.display())]
    InUse(PathBuf),
    /// Reading or writing failed.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file with the node's key must not be used as it is.
    #[error("the node key {} {problem}; {fix}", .path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
        /// What to do.
        fix: &'static str,
    },
    /// The directory was used on another machine, and there is nothing to join with here.
    #[error(
        "the state in {} was made on another machine (named {host_name}, with other GPUs), which may \
         still use its key; to join this machine as a node of its own, start with a join string \
         (--join-file); to go on as that node, remove {}", .path.display(), .path.join(INSTANCE).display()
    )]
    Elsewhere {
        /// The directory.
        path: PathBuf,
        /// Name of the machine where it was used last.
        host_name: String,
    },
    /// The file with the server's key cannot be read as one.
    #[error("{} does not hold a server key; remove it to trust the server's key anew", .0.display())]
    ServerKey(PathBuf),
}

impl IdentityError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { path: path.to_owned(), source }
    }
}

/// A state directory that this process holds. The lock ends with the process.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    _lock: File,
}

impl StateDir {
    /// Creates the directory (mode 0700) if it is not there, and takes its lock.
    ///
    /// # Errors
    /// [`IdentityError::InUse`] when another process holds it; [`IdentityError::Io`].
    pub fn open(path: &Path) -> Result<Self, IdentityError> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(IdentityError::io(path))?;
        let lock_path = path.join(LOCK);
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .mode(0o600)
            .open(&lock_path)
            .or_else(|error| match error.kind() {
                // A node that was there before records all the same, in memory.
                ErrorKind::ReadOnlyFilesystem => File::open(&lock_path).map_err(|_| error),
                _ => Err(error),
            })
            .map_err(IdentityError::io(&lock_path))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Self { path: path.to_owned(), _lock: lock }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(IdentityError::InUse(path.to_owned())),
            Err(errno) => Err(IdentityError::Io { path: lock_path, source: errno.into() }),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Replaces a file as a whole: written beside it, synced, renamed, the directory synced.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), IdentityError> {
    let beside = path.with_extension("new");
    let replace = || -> io::Result<()> {
        let mut file =
            OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        match path.parent() {
            Some(directory) => File::open(directory)?.sync_all(),
            None => Ok(()),
        }
    };
    replace().map_err(IdentityError::io(path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn one_agent_holds_a_directory_at_a_time() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("state");
        let held = StateDir::open(&path).unwrap();
        assert!(matches!(StateDir::open(&path), Err(IdentityError::InUse(_))));
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        drop(held);
        assert!(StateDir::open(&path).is_ok());
    }

    #[test]
    fn files_are_replaced_whole_and_private() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("file.toml");
        write_atomically(&path, b"one, and long").unwrap();
        write_atomically(&path, b"two").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"two");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 1);
    }
}
