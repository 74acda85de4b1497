//! `state.toml`: which chain is written and how far at least, what the server said first, which GPUs
//! there were.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use leasewatch_core::evidence::chain::ChainStartReason;
use leasewatch_core::id::{BusId, ChainId, GpuUuid, LifeUnitId, NodeId, Sequence, Slug};
use leasewatch_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::{IdentityError, KEY, STATE, StateDir, write_atomically};
use crate::spool::ChainEnd;

/// What one run of the agent leaves for the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    /// What the first welcome said; `None` = never welcomed, nothing is recorded.
    pub enrolled: Option<Enrolled>,
    /// The chain.
    pub chain: ChainId,
    /// Why and when it began.
    pub beginning: Beginning,
    /// The last head that was sealed in it, delivered or not, when this was written. The spool may
    /// know of later ones; the chain goes on behind the last of both.
    pub end: ChainEnd,
    /// The life in which `gpus` were seen.
    pub life_unit: Option<LifeUnitId>,
    /// GPUs by place, as last seen.
    pub gpus: Vec<KnownGpu>,
}

/// Why and when a chain began: what its signed start says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beginning {
    /// Why.
    pub reason: ChainStartReason,
    /// When; `None` until a server asks for the start, for nothing is recorded before.
    pub at: Option<Timestamp>,
}

/// What the first welcome said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrolled {
    /// The node's public id.
    pub node: NodeId,
    /// The tenant it belongs to.
    pub tenant: Slug,
    /// The cadence that the server wants, in milliseconds.
    pub cadence_ms: u32,
}

/// A GPU as it was last seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownGpu {
    /// Its place.
    pub bus_id: BusId,
    /// The device.
    pub uuid: GpuUuid,
    /// Its product name.
    pub name: String,
}

/// The file. Ids are text in it; unknown fields are refused, so that an older agent does not
/// forget what a newer one wrote.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StateFile {
    version: u32,
    life_unit: Option<String>,
    chain: ChainFile,
    enrolled: Option<EnrolledFile>,
    #[serde(default)]
    gpu: Vec<GpuFile>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChainFile {
    id: String,
    /// Absent in files of before there were reasons: their chains are first ones, as far as
    /// anybody knows.
    reason: Option<String>,
    begun_at_ms: Option<i64>,
    sequence: u64,
    head: Option<String>,
    ended_at_ms: Option<i64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EnrolledFile {
    node: String,
    tenant: String,
    cadence_ms: u32,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GpuFile {
    bus_id: String,
    uuid: String,
    name: String,
}

const VERSION: u32 = 1;

impl State {
    /// The state at the beginning of a chain, of a node that was not welcomed since.
    #[must_use]
    pub fn new(chain: ChainId, reason: ChainStartReason) -> Self {
        Self {
            enrolled: None,
            chain,
            beginning: Beginning { reason, at: None },
            end: ChainEnd::START,
            life_unit: None,
            gpus: Vec::new(),
        }
    }

    /// Reads the file; to be called before the node's key is made. A file that is not there, or
    /// that cannot be understood, gives a new chain: the agent always starts. Beside a key that
    /// is there already this is lost state, else a node that has just come to be. The file that
    /// was not understood is kept.
    ///
    /// # Errors
    /// [`IdentityError::Io`] when the file is there and cannot be read.
    pub fn load(dir: &StateDir, new_chain: ChainId) -> Result<Self, IdentityError> {
        let path = dir.path().join(STATE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Self::begin(dir, new_chain));
            }
            Err(error) if error.kind() == ErrorKind::InvalidData => String::new(),
            Err(error) => return Err(IdentityError::io(&path)(error)),
        };
        if let Some(state) = parse(&text) {
            return Ok(state);
        }
        let aside = path.with_extension("toml.refused");
        fs::rename(&path, &aside).map_err(IdentityError::io(&path))?;
        tracing::error!(
            file = %aside.display(),
            chain.id = %new_chain,
            "the state file was not understood and was put aside; a new chain begins"
        );
        Ok(Self::begin(dir, new_chain))
    }

    /// A new chain, on disk at once: a file that is missing later was lost.
    fn begin(dir: &StateDir, chain: ChainId) -> Self {
        let reason = if dir.path().join(KEY).exists() {
            tracing::error!(chain.id = %chain, "the node has a key and no state: a new chain begins");
            ChainStartReason::LostState
        } else {
            ChainStartReason::Joined
        };
        let state = Self::new(chain, reason);
        if let Err(error) = state.save(dir.path()) {
            tracing::error!(error = %error, "the beginning of the chain could not be written");
        }
        state
    }

    /// Writes the file.
    ///
    /// # Errors
    /// [`IdentityError::Io`].
    pub fn save(&self, dir: &Path) -> Result<(), IdentityError> {
        let path = dir.join(STATE);
        let text = toml::to_string(&self.to_file()).map_err(|error| IdentityError::Io {
            path: path.clone(),
            source: std::io::Error::other(error),
        })?;
        write_atomically(&path, text.as_bytes())
    }

    fn to_file(&self) -> StateFile {
        StateFile {
            version: VERSION,
            life_unit: self.life_unit.map(|id| id.to_string()),
            chain: ChainFile {
                id: self.chain.to_string(),
                reason: Some(self.beginning.reason.name().to_owned()),
                begun_at_ms: self.beginning.at.map(|at| at.0),
                sequence: self.end.sequence.0,
                head: self.end.head.map(|head| head.to_string()),
                ended_at_ms: self.end.ended_at.map(|at| at.0),
            },
            enrolled: self.enrolled.as_ref().map(|enrolled| EnrolledFile {
                node: enrolled.node.to_string(),
                tenant: enrolled.tenant.to_string(),
                cadence_ms: enrolled.cadence_ms,
            }),
            gpu: self
                .gpus
                .iter()
                .map(|gpu| GpuFile {
                    bus_id: gpu.bus_id.to_string(),
                    uuid: gpu.uuid.to_string(),
                    name: gpu.name.clone(),
                })
                .collect(),
        }
    }
}

/// `None` for anything that this version would not have written.
fn parse(text: &str) -> Option<State> {
    let file: StateFile = toml::from_str(text).ok()?;
    let end = ChainEnd {
        sequence: Sequence(file.chain.sequence),
        head: file.chain.head.map(|head| head.parse()).transpose().ok()?,
        ended_at: file.chain.ended_at_ms.map(Timestamp),
    };
    let reason = file.chain.reason.as_deref();
    let beginning = Beginning {
        reason: reason.map_or(Some(ChainStartReason::Joined), ChainStartReason::from_name)?,
        at: file.chain.begun_at_ms.map(Timestamp),
    };
    let is_start = end.sequence.0 == 0;
    if file.version != VERSION
        || end.head.is_none() != is_start
        || end.ended_at.is_none() != is_start
    {
        return None;
    }
    let enrolled = match file.enrolled {
        None => None,
        Some(enrolled) => Some(Enrolled {
            node: enrolled.node.parse().ok()?,
            tenant: enrolled.tenant.parse().ok()?,
            cadence_ms: enrolled.cadence_ms,
        }),
    };
    let known = |gpu: GpuFile| {
        let (bus_id, uuid) = (gpu.bus_id.parse().ok()?, gpu.uuid.parse().ok()?);
        Some(KnownGpu { bus_id, uuid, name: gpu.name })
    };
    Some(State {
        enrolled,
        chain: file.chain.id.parse().ok()?,
        beginning,
        end,
        life_unit: file.life_unit.map(|id| id.parse()).transpose().ok()?,
        gpus: file.gpu.into_iter().map(known).collect::<Option<_>>()?,
    })
}

#[cfg(test)]
mod tests {
    use leasewatch_core::id::Hash;

    use super::*;

    const NEW: ChainId = ChainId([9; 16]);

    fn state() -> State {
        State {
            enrolled: Some(Enrolled {
                node: NodeId([1; 16]),
                tenant: Slug::new("default").unwrap(),
                cadence_ms: 1_000,
            }),
            chain: ChainId([2; 16]),
            beginning: Beginning {
                reason: ChainStartReason::Refused,
                at: Some(Timestamp(1_790_000_000_000)),
            },
            end: ChainEnd {
                sequence: Sequence(7),
                head: Some(Hash([3; 32])),
                ended_at: Some(Timestamp(1_800_000_000_000)),
            },
            life_unit: Some(LifeUnitId([4; 16])),
            gpus: vec![KnownGpu {
                bus_id: BusId::new("00000000:18:00.0").unwrap(),
                uuid: GpuUuid::new("GPU-1").unwrap(),
                name: "NVIDIA \"H100\"\n".to_owned(),
            }],
        }
    }

    fn joined(chain: ChainId) -> State {
        State::new(chain, ChainStartReason::Joined)
    }

    #[test]
    fn a_state_survives_the_disk() {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::open(temp.path()).unwrap();
        assert_eq!(State::load(&dir, NEW).unwrap(), joined(NEW));
        // What was begun is begun, whatever the next process would have called it.
        assert_eq!(State::load(&dir, ChainId([8; 16])).unwrap(), joined(NEW));
        for state in [joined(ChainId([5; 16])), state()] {
            state.save(dir.path()).unwrap();
            assert_eq!(State::load(&dir, NEW).unwrap(), state);
        }
    }

    #[test]
    fn a_file_of_before_there_were_reasons_is_understood() {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::open(temp.path()).unwrap();
        state().save(dir.path()).unwrap();
        let text = fs::read_to_string(temp.path().join(STATE)).unwrap();
        let old: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with("reason") && !line.starts_with("begun_at_ms"))
            .collect();
        fs::write(temp.path().join(STATE), old.join("\n")).unwrap();
        let beginning = Beginning { reason: ChainStartReason::Joined, at: None };
        assert_eq!(State::load(&dir, NEW).unwrap(), State { beginning, ..state() });
    }

    #[test]
    fn a_missing_file_beside_a_key_is_lost_state_and_stays_it() {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::open(temp.path()).unwrap();
        let before = State::load(&dir, ChainId([5; 16])).unwrap();
        crate::identity::load_or_create_key(&dir).unwrap();
        assert_eq!(State::load(&dir, NEW).unwrap(), before);
        fs::remove_file(temp.path().join(STATE)).unwrap();
        let lost = State::new(NEW, ChainStartReason::LostState);
        assert_eq!(State::load(&dir, NEW).unwrap(), lost);
        assert_eq!(State::load(&dir, ChainId([5; 16])).unwrap(), lost);
    }

    #[test]
    fn a_file_that_is_not_understood_is_kept_aside() {
        let temp = tempfile::tempdir().unwrap();
        let dir = StateDir::open(temp.path()).unwrap();
        crate::identity::load_or_create_key(&dir).unwrap();
        let unknown_reason = {
            state().save(dir.path()).unwrap();
            fs::read_to_string(temp.path().join(STATE)).unwrap().replace("refused", "whim")
        };
        for text in ["version = 2", "{", "version = 1\nunknown = 3", "\u{0}", &unknown_reason] {
            fs::write(temp.path().join(STATE), text).unwrap();
            let lost = State::new(NEW, ChainStartReason::LostState);
            assert_eq!(State::load(&dir, NEW).unwrap(), lost);
            assert_eq!(fs::read_to_string(temp.path().join("state.toml.refused")).unwrap(), text);
        }
    }
}
