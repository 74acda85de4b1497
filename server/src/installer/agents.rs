//! The folder of agents: names are checked, and each file is compared with its sum.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use leasewatch_core::id::Hash;
use sha2::{Digest as _, Sha256};

const SUMS: &str = "SHA256SUMS";
const SUMS_BYTES_MAX: u64 = 65_536;
const PREFIX: &str = "leasewatch-agent-";
/// As `uname -m` says them.
const ARCHITECTURES: [&str; 2] = ["x86_64", "aarch64"];
const CHUNK_BYTES: usize = 65_536;

/// An agent whose file has the sum that was written down for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// The file: `leasewatch-agent-0.1.0-x86_64`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// For which machines, as `uname -m` says it.
    pub architecture: &'static str,
    /// SHA-256 of the file.
    pub digest: Hash,
    /// Length of the file.
    pub bytes: u64,
}

/// Why there is nothing to install.
#[derive(Debug, thiserror::Error)]
pub enum AgentsError {
    /// Nobody has put agents there.
    #[error(
        "{0} is not there: fill its folder with scripts/agent-dir, or name another one with --agent-dir"
    )]
    Absent(PathBuf),
    /// A file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A line is not a sum and the name of an agent.
    #[error(
        "{path}, line {line}: it must be a SHA-256, two spaces, and leasewatch-agent-VERSION-ARCHITECTURE"
    )]
    Malformed {
        /// The file with the sums.
        path: PathBuf,
        /// From 1.
        line: usize,
    },
    /// Two files for one architecture.
    #[error("{path} names two agents for {architecture}: leave one of them")]
    Twice {
        /// The file with the sums.
        path: PathBuf,
        /// Which.
        architecture: &'static str,
    },
    /// A file is not what was written down.
    #[error("{0} does not have the SHA-256 of {SUMS}, so no agent is handed out: make it anew")]
    Sum(PathBuf),
}

/// Every agent of a folder.
///
/// # Errors
/// [`AgentsError`]; then none of them is to be used.
pub(super) fn read(folder: &Path) -> Result<Vec<Agent>, AgentsError> {
    let path = folder.join(SUMS);
    let fail = |source: io::Error| match source.kind() {
        io::ErrorKind::NotFound => AgentsError::Absent(path.clone()),
        _ => AgentsError::Io { path: path.clone(), source },
    };
    let mut text = String::new();
    let file = fs::File::open(&path).map_err(fail)?;
    file.take(SUMS_BYTES_MAX).read_to_string(&mut text).map_err(fail)?;
    let mut agents: Vec<Agent> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let malformed = || AgentsError::Malformed { path: path.clone(), line: index + 1 };
        let named = named(line).ok_or_else(malformed)?;
        if agents.iter().any(|agent| agent.architecture == named.architecture) {
            return Err(AgentsError::Twice { path, architecture: named.architecture });
        }
        agents.push(compared(folder, named)?);
    }
    if agents.is_empty() { Err(AgentsError::Absent(path)) } else { Ok(agents) }
}

/// What a line says; the length is not known yet.
fn named(line: &str) -> Option<Agent> {
    let (digits, name) = line.split_once("  ")?;
    let digest = digits.parse().ok().filter(|_| digits.len() == 64)?;
    let (version, architecture) = name.strip_prefix(PREFIX)?.rsplit_once('-')?;
    let architecture = ARCHITECTURES.into_iter().find(|known| *known == architecture)?;
    let allowed = |c: char| c.is_ascii_alphanumeric() || ".-+".contains(c);
    let is_version = version.starts_with(|c: char| c.is_ascii_digit())
        && version.len() <= 40
        && version.chars().all(allowed);
    let (name, version) = (name.to_owned(), version.to_owned());
    is_version.then_some(Agent { name, version, architecture, digest, bytes: 0 })
}

fn compared(folder: &Path, agent: Agent) -> Result<Agent, AgentsError> {
    let path = folder.join(&agent.name);
    match summed(&path) {
        Ok((digest, bytes)) if digest == agent.digest => Ok(Agent { bytes, ..agent }),
        Ok(_) => Err(AgentsError::Sum(path)),
        Err(source) => Err(AgentsError::Io { path, source }),
    }
}

fn summed(path: &Path) -> io::Result<(Hash, u64)> {
    let mut file = fs::File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no plain file"));
    }
    let (mut hasher, mut bytes) = (Sha256::new(), 0);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let read = file.read(&mut chunk)?;
        if read == 0 {
            return Ok((Hash(hasher.finalize().into()), bytes));
        }
        hasher.update(&chunk[..read]);
        bytes += u64::try_from(read).unwrap_or(0);
    }
}
