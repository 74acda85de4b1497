//! What a node signs about its chain beside heads: sequences that will never come, and beginnings.

use super::head::{period, saturated, sequence};
use crate::evidence::statement::{
    Fields, StatementBuilder, StatementError, StatementKind, leaf_hash,
};
use crate::id::{ChainId, Hash, NodeId, Sequence};
use crate::time::{Period, Timestamp};

/// The most bytes of a notice.
const BYTES_MAX: usize = 4_096;

/// A range of sequences that will never come, because the node had to let them go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drop {
    /// The node.
    pub node: NodeId,
    /// Its chain.
    pub chain: ChainId,
    /// First sequence dropped.
    pub first: Sequence,
    /// Last sequence dropped, not below `first`.
    pub last: Sequence,
    /// From the start of the first dropped head's period to the end of the last one's.
    pub period: Period,
    /// Why.
    pub reason: DropReason,
    /// [`super::Head::hash`] of the last dropped head: what the head after it names as `previous`.
    pub last_head: Hash,
}

/// Why segments were let go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DropReason {
    /// The spool was full.
    Quota,
    /// The server refused them for good.
    Refused,
    /// They could not be read back from disk.
    Corrupt,
    /// The disk did not confirm that it has them.
    Fsync,
    /// The agent ended while they were in its memory only.
    Lost,
}

impl DropReason {
    /// Every reason.
    pub const ALL: [Self; 5] = [Self::Quota, Self::Refused, Self::Corrupt, Self::Fsync, Self::Lost];

    /// `quota`, `refused`, `corrupt`, `fsync` or `lost`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Quota => "quota",
            Self::Refused => "refused",
            Self::Corrupt => "corrupt",
            Self::Fsync => "fsync",
            Self::Lost => "lost",
        }
    }

    /// The reason with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

impl Drop {
    /// The canonical statement of kind `drop`.
    #[must_use]
    pub fn statement(&self) -> Vec<u8> {
        StatementBuilder::new(StatementKind::Drop)
            .id("node", self.node)
            .id("chain", self.chain)
            .int("first", saturated(self.first.0))
            .int("last", saturated(self.last.0))
            .time("started_at", self.period.start)
            .time("ended_at", self.period.end)
            .text("reason", self.reason.name())
            .id("last_head", self.last_head)
            .to_bytes()
    }

    /// Reads a statement of kind `drop`.
    ///
    /// # Errors
    /// [`StatementError`], also when `last` is below `first`.
    pub fn from_statement(bytes: &[u8]) -> Result<Self, StatementError> {
        let mut fields = Fields::of_statement(StatementKind::Drop, bytes, BYTES_MAX)?;
        let drop = Self {
            node: fields.id("node")?,
            chain: fields.id("chain")?,
            first: sequence(&mut fields, "first")?,
            last: sequence(&mut fields, "last")?,
            period: period(&mut fields)?,
            reason: fields.name("reason", DropReason::from_name)?,
            last_head: fields.id("last_head")?,
        };
        fields.finish()?;
        if drop.first <= drop.last {
            Ok(drop)
        } else {
            Err(StatementError::Invalid { field: "last" })
        }
    }

    /// The leaf hash of the statement.
    #[must_use]
    pub fn hash(&self) -> Hash {
        leaf_hash(&self.statement())
    }
}

/// A chain begins: the node's first, or one that takes the place of a chain that cannot go on.
///
/// Nothing of a chain is taken before its start is stored, so no chain begins silently. What a
/// node still held of the chain before stands in a drop with the reason [`DropReason::Lost`] that
/// covers the first sequences of the new one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainStart {
    /// The node.
    pub node: NodeId,
    /// The new chain.
    pub chain: ChainId,
    /// When, by the node's clock; by the server's where the node knows its own to be wrong.
    pub at: Timestamp,
    /// Why.
    pub reason: ChainStartReason,
}

/// Why a chain begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChainStartReason {
    /// The node has just joined.
    Joined,
    /// The node's delivery state is gone, was not understood, or was an older copy that
    /// contradicts what the server holds.
    LostState,
    /// The server refused a drop that the chain before needed to go on.
    Refused,
}

impl ChainStartReason {
    /// Every reason.
    pub const ALL: [Self; 3] = [Self::Joined, Self::LostState, Self::Refused];

    /// `joined`, `lost_state` or `refused`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Joined => "joined",
            Self::LostState => "lost_state",
            Self::Refused => "refused",
        }
    }

    /// The reason with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }

    /// Whether the record before broke off: every chain but a node's first.
    #[must_use]
    pub fn is_break(self) -> bool {
        self != Self::Joined
    }
}

impl ChainStart {
    /// The canonical statement of kind `chain_start`.
    #[must_use]
    pub fn statement(&self) -> Vec<u8> {
        StatementBuilder::new(StatementKind::ChainStart)
            .id("node", self.node)
            .id("chain", self.chain)
            .time("at", self.at)
            .text("reason", self.reason.name())
            .to_bytes()
    }

    /// Reads a statement of kind `chain_start`.
    ///
    /// # Errors
    /// [`StatementError`].
    pub fn from_statement(bytes: &[u8]) -> Result<Self, StatementError> {
        let mut fields = Fields::of_statement(StatementKind::ChainStart, bytes, BYTES_MAX)?;
        let start = Self {
            node: fields.id("node")?,
            chain: fields.id("chain")?,
            at: fields.time("at")?,
            reason: fields.name("reason", ChainStartReason::from_name)?,
        };
        fields.finish()?;
        Ok(start)
    }

    /// The leaf hash of the statement.
    #[must_use]
    pub fn hash(&self) -> Hash {
        leaf_hash(&self.statement())
    }
}
