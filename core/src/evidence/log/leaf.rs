//! Leaves that only a log has: which heads were committed in a minute, and that a log succeeds
//! another.

use sha2::{Digest as _, Sha256};

use super::checkpoint::LogOrigin;
use super::tree::CompactRange;
use crate::evidence::chain::Checkpoint;
use crate::evidence::statement::{Fields, StatementBuilder, StatementError, StatementKind};
use crate::id::{Hash, NodeId, Sequence};
use crate::time::Timestamp;

/// Most bytes of these statements.
const BYTES_MAX: usize = 4_096;
const MINUTE_MS: i64 = 60_000;

/// What was committed in one minute of the server's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Minute {
    /// Its start, a whole minute.
    pub at: Timestamp,
    /// How many heads.
    pub heads: u64,
    /// RFC 6962 root over [`head_leaf`] of them, by node and sequence; `None` when there are none.
    pub root: Option<Hash>,
    /// For how much of the minute the server was recording.
    pub recorded_ms: i64,
}

/// The leaf of a head in the tree of its minute: the hash over its statement and its signature.
#[must_use]
pub fn head_leaf(statement: &[u8], signature: &[u8; 64]) -> Hash {
    let hash = Sha256::new().chain_update([0]).chain_update(statement).chain_update(signature);
    Hash(hash.finalize().into())
}

impl Minute {
    /// The minute in which these heads were committed, in any order.
    #[must_use]
    pub fn of(at: Timestamp, recorded_ms: i64, mut heads: Vec<(NodeId, Sequence, Hash)>) -> Self {
        heads.sort_unstable();
        let mut tree = CompactRange::new(0);
        for (_, _, leaf) in &heads {
            tree.push(*leaf);
        }
        let root = tree.root().filter(|_| !heads.is_empty());
        Self { at, heads: tree.leaves().to, root, recorded_ms }
    }

    /// The canonical statement of kind `minute`.
    #[must_use]
    pub fn statement(&self) -> Vec<u8> {
        StatementBuilder::new(StatementKind::Minute)
            .time("at", self.at)
            .int("heads", i64::try_from(self.heads).unwrap_or(i64::MAX))
            .opt_id("root", self.root)
            .int("recorded_ms", self.recorded_ms)
            .to_bytes()
    }

    /// Reads a statement of kind `minute`.
    ///
    /// # Errors
    /// [`StatementError`], also for a time that is no whole minute, and for heads without a root or
    /// the reverse.
    pub fn from_statement(bytes: &[u8]) -> Result<Self, StatementError> {
        let mut fields = Fields::of_statement(StatementKind::Minute, bytes, BYTES_MAX)?;
        let minute = Self {
            at: fields.time("at")?,
            heads: fields.unsigned("heads")?,
            root: fields.opt_id("root")?,
            recorded_ms: fields.int("recorded_ms", 0..=MINUTE_MS)?,
        };
        fields.finish()?;
        if minute.at.0 % MINUTE_MS != 0 {
            return Err(StatementError::Invalid { field: "at" });
        }
        if (minute.heads == 0) != minute.root.is_none() {
            return Err(StatementError::Invalid { field: "root" });
        }
        Ok(minute)
    }
}

/// Why a log ended before its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BreakReason {
    /// Somebody held a checkpoint of more than the server has: it was restored from an older copy.
    Restored,
    /// The operator ended it.
    Operator,
}

impl BreakReason {
    fn name(self) -> &'static str {
        match self {
            Self::Restored => "restored",
            Self::Operator => "operator",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Restored, Self::Operator].into_iter().find(|reason| reason.name() == name)
    }
}

/// The first leaf of a log that succeeds another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogBreak {
    /// The log before.
    pub old: LogOrigin,
    /// What the server still has of it.
    pub state: Checkpoint,
    /// The highest checkpoint that an agent or a witness presented, if that is another.
    pub presented: Option<Checkpoint>,
    /// Why.
    pub reason: BreakReason,
    /// When, by the server's clock.
    pub at: Timestamp,
}

impl LogBreak {
    /// The canonical statement of kind `log_break`.
    #[must_use]
    pub fn statement(&self) -> Vec<u8> {
        StatementBuilder::new(StatementKind::LogBreak)
            .text("old", self.old.as_str())
            .object("state", state(&self.state))
            .opt_object("presented", self.presented.as_ref().map(state))
            .text("reason", self.reason.name())
            .time("at", self.at)
            .to_bytes()
    }

    /// Reads a statement of kind `log_break`.
    ///
    /// # Errors
    /// [`StatementError`].
    pub fn from_statement(bytes: &[u8]) -> Result<Self, StatementError> {
        let mut fields = Fields::of_statement(StatementKind::LogBreak, bytes, BYTES_MAX)?;
        let found = Self {
            old: fields.name("old", LogOrigin::from_text)?,
            state: read_state(fields.object("state")?)?,
            presented: fields.opt_object("presented")?.map(read_state).transpose()?,
            reason: fields.name("reason", BreakReason::from_name)?,
            at: fields.time("at")?,
        };
        fields.finish()?;
        Ok(found)
    }
}

fn state(state: &Checkpoint) -> StatementBuilder {
    StatementBuilder::object_of()
        .int("size", i64::try_from(state.size).unwrap_or(i64::MAX))
        .id("root", state.root)
}

fn read_state(mut fields: Fields) -> Result<Checkpoint, StatementError> {
    let state = Checkpoint { size: fields.unsigned("size")?, root: fields.id("root")? };
    fields.finish()?;
    Ok(state)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::log::checkpoint::LogOrigin;

    const AT: Timestamp = Timestamp(1_785_556_800_000);

    fn minute() -> Minute {
        let leaf = |n| (NodeId([n; 16]), Sequence(u64::from(n)), head_leaf(&[n], &[n; 64]));
        Minute::of(AT, 59_000, vec![leaf(2), leaf(1), leaf(3)])
    }

    #[test]
    fn a_minute_does_not_depend_on_the_order_of_its_heads_and_reads_back() {
        let leaf = |n| (NodeId([n; 16]), Sequence(u64::from(n)), head_leaf(&[n], &[n; 64]));
        assert_eq!(Minute::of(AT, 59_000, vec![leaf(3), leaf(2), leaf(1)]), minute());
        assert_eq!(Minute::from_statement(&minute().statement()), Ok(minute()));
        let silent = Minute::of(AT, 0, Vec::new());
        assert_eq!((silent.heads, silent.root), (0, None));
        assert_eq!(Minute::from_statement(&silent.statement()), Ok(silent));
    }

    #[test]
    fn a_minute_that_contradicts_itself_is_refused() {
        let refused = |minute: Minute, field| {
            let read = Minute::from_statement(&minute.statement());
            assert_eq!(read, Err(StatementError::Invalid { field }));
        };
        refused(Minute { at: AT.plus_ms(1), ..minute() }, "at");
        refused(Minute { root: None, ..minute() }, "root");
        refused(Minute { heads: 0, ..minute() }, "root");
        let long = Minute { recorded_ms: 60_001, ..minute() };
        assert!(Minute::from_statement(&long.statement()).is_err());
    }

    #[test]
    fn a_break_reads_back() {
        let state = |size| Checkpoint { size, root: Hash([u8::try_from(size).unwrap(); 32]) };
        let old = LogOrigin::from_text("leasewatch/0123456789abcdef/a/b").unwrap();
        for (presented, reason) in
            [(Some(state(9)), BreakReason::Restored), (None, BreakReason::Operator)]
        {
            let found = LogBreak { old: old.clone(), state: state(7), presented, reason, at: AT };
            assert_eq!(LogBreak::from_statement(&found.statement()), Ok(found));
        }
    }
}
