//! The state directory of the agent whose past is imported: its key, its chain, its lock.
//!
//! The files are the agent's, in its form (`agent/src/identity`): `node.key`, and `state.toml` with
//! the chain. Not here: what an agent that has run keeps beside them; such a directory is refused.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use leasewatch_core::evidence::chain::Head;
use leasewatch_core::id::{ChainId, Hash, Sequence};
use leasewatch_core::time::Timestamp;
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use crate::identity::Identity;
use crate::import::ImportError;

const LOCK: &str = "lock";
const KEY: &str = "node.key";
const STATE: &str = "state.toml";
const VERSION: u32 = 1;

/// The directory, held until this is dropped.
pub(super) struct AgentState {
    pub(super) identity: Identity,
    /// The chain that the agent will go on with.
    pub(super) chain: ChainId,
    path: PathBuf,
    _lock: File,
}

/// Where a chain ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChainEnd {
    sequence: Sequence,
    head: Hash,
    ended_at: Timestamp,
}

impl ChainEnd {
    pub(super) fn of(head: &Head) -> Self {
        Self { sequence: head.sequence, head: head.hash(), ended_at: head.period.end }
    }
}

/// The file of an agent that was never welcomed. One that was has more in it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateFile {
    version: u32,
    chain: ChainFile,
    #[serde(default, skip_serializing)]
    gpu: Vec<toml::Value>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChainFile {
    id: String,
    sequence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    head: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended_at_ms: Option<i64>,
}

impl AgentState {
    /// Takes the directory, and makes what is missing in it.
    ///
    /// # Errors
    /// [`ImportError::HasRecorded`] when an agent or an import was here before;
    /// [`ImportError::State`] for everything else.
    pub(super) fn open(path: &Path) -> Result<Self, ImportError> {
        let fail = |source: io::Error| state_error(path, &source);
        DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(fail)?;
        let mut options = OpenOptions::new();
        options.create(true).truncate(false).write(true).mode(0o600);
        let lock = options.open(path.join(LOCK)).map_err(fail)?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Err(state_error(path, &"an agent uses it; stop it first"));
        }
        let identity = Identity::load_or_create_as(path, KEY)
            .map_err(|error| ImportError::State(error.to_string()))?;
        let chain = match fs::read_to_string(path.join(STATE)) {
            Ok(text) => unused_chain(&text).ok_or(ImportError::HasRecorded)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let mut id = [0; 16];
                getrandom::fill(&mut id).map_err(|error| state_error(path, &error))?;
                write(path, ChainId(id), None).map_err(fail)?;
                ChainId(id)
            }
            Err(error) => return Err(fail(error)),
        };
        Ok(Self { identity, chain, path: path.to_owned(), _lock: lock })
    }

    /// The agent goes on behind `end`, and no other past is taken.
    ///
    /// # Errors
    /// [`ImportError::State`] when the file cannot be written.
    pub(super) fn finish(self, end: ChainEnd) -> Result<(), ImportError> {
        let written = write(&self.path, self.chain, Some(end));
        written.map_err(|source| state_error(&self.path, &source))
    }
}

/// The chain of a state in which nothing was recorded.
fn unused_chain(text: &str) -> Option<ChainId> {
    let file: StateFile = toml::from_str(text).ok()?;
    let unused = file.version == VERSION && file.chain.sequence == 0 && file.gpu.is_empty();
    file.chain.id.parse().ok().filter(|_| unused)
}

/// Written beside and renamed: a crash leaves the file as it was.
fn write(path: &Path, chain: ChainId, end: Option<ChainEnd>) -> io::Result<()> {
    let file = StateFile {
        version: VERSION,
        chain: ChainFile {
            id: chain.to_string(),
            sequence: end.map_or(0, |end| end.sequence.0),
            head: end.map(|end| end.head.to_string()),
            ended_at_ms: end.map(|end| end.ended_at.0),
        },
        gpu: Vec::new(),
    };
    let text = toml::to_string(&file).map_err(io::Error::other)?;
    let beside = path.join("state.toml.new");
    let mut options = OpenOptions::new();
    let mut file = options.create(true).truncate(true).write(true).mode(0o600).open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(beside, path.join(STATE))?;
    File::open(path)?.sync_all()
}

fn state_error(path: &Path, what: &dyn std::fmt::Display) -> ImportError {
    ImportError::State(format!("{}: {what}", path.display()))
}
