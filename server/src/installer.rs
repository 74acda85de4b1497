//! What nodes install: the agents of a folder, and the script that fetches one of them.
//!
//! The folder holds files `leasewatch-agent-VERSION-ARCHITECTURE` and their `SHA256SUMS`. It is read
//! when somebody asks and something in it has changed since. Where one file does not have its sum,
//! nothing of the folder is handed out. Not here: making agents (`scripts/agent-dir`), and HTTP.

mod agents;
mod script;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use leasewatch_core::id::Hash;
use leasewatch_core::join::JoinAddress;

pub use agents::{Agent, AgentsError};

/// Names of more files are not looked at.
const FILES_MAX: usize = 64;

/// The folder with the agents, and where nodes find this server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Installers(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    addresses: Vec<JoinAddress>,
    kept: Mutex<Option<(Seen, Answer)>>,
}

type Answer = Result<Arc<Installer>, Arc<AgentsError>>;

/// A folder as it was read: the script for it, and the agents that the script knows.
#[derive(Debug)]
pub struct Installer {
    /// For a POSIX shell; ends with a newline, holds no secret.
    pub script: String,
    /// SHA-256 of the script.
    pub digest: Hash,
    /// One for each architecture.
    pub agents: Vec<Agent>,
    folder: PathBuf,
    seen: Seen,
}

impl Installers {
    /// Reads nothing yet.
    #[must_use]
    pub fn new(folder: PathBuf, addresses: Vec<JoinAddress>) -> Self {
        Self(Arc::new(Inner { folder, addresses, kept: Mutex::default() }))
    }

    /// What there is to install now. Reads every agent whenever a file has changed, so ask where
    /// blocking is no harm.
    ///
    /// # Errors
    /// [`AgentsError`] names the file and what to do.
    pub fn current(&self) -> Answer {
        let Inner { folder, addresses, kept } = &*self.0;
        let seen = Seen::of(folder);
        // Held while reading, so that it is read once for all who ask.
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((before, answer)) = &*kept
            && *before == seen
        {
            return answer.clone();
        }
        let answer = agents::read(folder).map_err(Arc::new).map(|agents| {
            let script = script::render(&agents, addresses);
            let digest = Hash::of(script.as_bytes());
            let (folder, seen) = (folder.clone(), seen.clone());
            Arc::new(Installer { script, digest, agents, folder, seen })
        });
        *kept = Some((seen, answer.clone()));
        answer
    }

    /// Where nodes find the script; `None` without an address.
    #[must_use]
    pub fn url(&self) -> Option<String> {
        self.0.addresses.first().map(|address| format!("{}/install.sh", address.as_str()))
    }
}

impl Installer {
    /// Opens the agent with this SHA-256; `None` when there is none.
    ///
    /// # Errors
    /// Of the file system; and when the file is not the one any more whose sum was compared.
    pub fn open(&self, digest: &Hash) -> io::Result<Option<(&Agent, File)>> {
        let Some(agent) = self.agents.iter().find(|agent| agent.digest == *digest) else {
            return Ok(None);
        };
        let file = File::open(self.folder.join(&agent.name))?;
        if !self.seen.holds(&agent.name, &file.metadata()?) {
            return Err(io::Error::other(format!("{} has changed", agent.name)));
        }
        Ok(Some((agent, file)))
    }
}

/// Names, sizes and times of the files of a folder, by which a change is noticed.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen(Vec<(String, [i64; 2], [u64; 2])>);

impl Seen {
    fn of(folder: &Path) -> Self {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten().take(FILES_MAX);
        let mut files: Vec<_> = entries
            .filter_map(|entry| {
                let (name, metadata) = (entry.file_name(), fs::metadata(entry.path()).ok()?);
                Some(Self::line(&name.to_string_lossy(), &metadata))
            })
            .collect();
        files.sort();
        Self(files)
    }

    fn line(name: &str, metadata: &fs::Metadata) -> (String, [i64; 2], [u64; 2]) {
        let changed = [metadata.mtime(), metadata.mtime_nsec()];
        (name.to_owned(), changed, [metadata.len(), metadata.ino()])
    }

    fn holds(&self, name: &str, metadata: &fs::Metadata) -> bool {
        self.0.contains(&Self::line(name, metadata))
    }
}

#[cfg(test)]
mod tests;
