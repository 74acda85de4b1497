//! How far each GPU of an imported node is recorded.
//!
//! The server knows the end of what it has of a node. A log that was cut between the rows of two
//! GPUs needs to know it for each. That is kept beside the node's key, and believed only while the
//! chain still ends where it ended then; otherwise the server's word counts for all.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use leasewatch_core::id::Hash;
use leasewatch_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use super::log::ImportLog;

const FILE: &str = "covered.json";

/// The file.
#[derive(Debug, Default, Serialize, Deserialize, PartialEq, Eq)]
struct Ends {
    /// Hash of the last head of the chain.
    head: String,
    /// Last row of each GPU, in milliseconds.
    gpus: BTreeMap<String, i64>,
    /// Last event.
    event: Option<i64>,
}

/// What of a node is recorded.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Covered {
    /// Nothing.
    Nothing,
    /// Everything up to a time.
    Until(Timestamp),
    /// Each GPU up to its own time.
    Each(Ledger),
}

/// The last row of each GPU, and the last event.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ledger {
    ends: Ends,
}

impl Covered {
    /// What is recorded of the node whose key lies in `keys` and whose chain ends with `head`.
    pub(super) fn load(keys: &Path, head: Option<Hash>, until: Option<Timestamp>) -> Self {
        let Some(until) = until else { return Self::Nothing };
        let ends = std::fs::read(keys.join(FILE)).ok();
        let ends: Option<Ends> = ends.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        match (ends, head) {
            (Some(ends), Some(head)) if ends.head == head.to_string() => {
                Self::Each(Ledger { ends })
            }
            _ => Self::Until(until),
        }
    }

    fn of_gpu(&self, uuid: &str) -> Option<Timestamp> {
        match self {
            Self::Nothing => None,
            Self::Until(end) => Some(*end),
            Self::Each(ledger) => ledger.ends.gpus.get(uuid).copied().map(Timestamp),
        }
    }

    fn of_events(&self) -> Option<Timestamp> {
        match self {
            Self::Nothing => None,
            Self::Until(end) => Some(*end),
            Self::Each(ledger) => ledger.ends.event.map(Timestamp),
        }
    }

    /// The rows and events that are not recorded yet, and how many rows are.
    pub(super) fn uncovered(&self, log: ImportLog) -> (ImportLog, usize) {
        let mut fresh = log;
        let mut covered = 0;
        for gpu in &mut fresh.gpus {
            let end = self.of_gpu(gpu.inventory.uuid.as_str());
            let first = gpu.rows.partition_point(|row| Some(row.at) <= end);
            covered += first;
            gpu.rows.drain(..first);
        }
        let end = self.of_events();
        fresh.events.retain(|event| Some(event.at) > end);
        (fresh, covered)
    }

    /// Keeps what is recorded now that `fresh` is.
    ///
    /// # Errors
    /// The file cannot be written. The next import then goes by the server's word.
    pub(super) fn store(self, keys: &Path, head: Hash, fresh: &ImportLog) -> io::Result<()> {
        let mut ends = match self {
            Self::Each(ledger) => ledger.ends,
            // What was recorded before is not known by GPU: each counts up to the same end.
            Self::Until(until) => Ends {
                gpus: fresh
                    .gpus
                    .iter()
                    .map(|gpu| (gpu.inventory.uuid.to_string(), until.0))
                    .collect(),
                event: Some(until.0),
                ..Ends::default()
            },
            Self::Nothing => Ends::default(),
        };
        ends.head = head.to_string();
        for gpu in &fresh.gpus {
            if let Some(last) = gpu.rows.last() {
                ends.gpus.insert(gpu.inventory.uuid.to_string(), last.at.0);
            }
        }
        ends.event = ends.event.max(fresh.events.last().map(|event| event.at.0));
        let bytes = serde_json::to_vec_pretty(&ends).map_err(io::Error::other)?;
        let draft = keys.join("covered.json.new");
        std::fs::write(&draft, bytes)?;
        std::fs::rename(draft, keys.join(FILE))
    }
}
