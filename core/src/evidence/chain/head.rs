//! The head: what a node signs about one segment.

use crate::evidence::canonical::INT_MAX;
use crate::evidence::statement::{
    Fields, StatementBuilder, StatementError, StatementKind, leaf_hash,
};
use crate::id::{ChainId, EpochId, Hash, LifeUnitId, NodeId, Sequence, Slug};
use crate::segment::{Origin, limits};
use crate::time::{Period, Timestamp};

/// The signed header of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The tenant that the node belongs to.
    pub tenant: Slug,
    /// The node.
    pub node: NodeId,
    /// The chain that this head stands in.
    pub chain: ChainId,
    /// The run of the agent.
    pub epoch: EpochId,
    /// The boot of the host or life of the container.
    pub life_unit: LifeUnitId,
    /// Its place in the chain.
    pub sequence: Sequence,
    /// From the start of the first weight to the last time. Every tick, track point and event
    /// lies in it, an instant equal to the end included.
    pub period: Period,
    /// Agreed time between samples, 1 to 3,600,000 ms.
    pub cadence_ms: u32,
    /// Where the data came from.
    pub origin: Origin,
    /// Devices that NVML saw at the end of the segment.
    pub gpu_count: u16,
    /// Blocks of the segment.
    pub block_count: u16,
    /// RFC 6962 root over the leaf hashes of the encoded blocks.
    pub root: Hash,
    /// [`Head::hash`] of the head before; `None` at the first sequence and only there.
    pub previous: Option<Hash>,
    /// What is known of the clock.
    pub clock: ClockState,
    /// The last checkpoint that the node saw; `None` while it has seen none.
    pub checkpoint: Option<Checkpoint>,
    /// Version of the agent program, at most [`limits::TEXT_CHARS`] characters.
    pub agent_version: String,
    /// SHA-256 of the agent's binary, if it could read it.
    pub agent_digest: Option<Hash>,
}

/// A head before its blocks are encoded: the fields of [`Head`] of the same names.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(missing_docs, reason = "each field is documented at `Head`")]
pub struct HeadDraft {
    pub tenant: Slug,
    pub node: NodeId,
    pub chain: ChainId,
    pub epoch: EpochId,
    pub life_unit: LifeUnitId,
    pub sequence: Sequence,
    pub period: Period,
    pub cadence_ms: u32,
    pub origin: Origin,
    pub gpu_count: u16,
    pub previous: Option<Hash>,
    pub clock: ClockState,
    pub checkpoint: Option<Checkpoint>,
    pub agent_version: String,
    pub agent_digest: Option<Hash>,
}

/// Wall clock against boot clock, and against the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockState {
    /// The wall clock at an instant during the segment ..
    pub anchor_wall: Timestamp,
    /// .. and the boot clock at the same instant, in milliseconds.
    pub anchor_boot_ms: i64,
    /// Server time minus node time, if it was measured.
    pub offset_ms: Option<i64>,
    /// Half of the delay of that measurement: the offset is right within this, not negative.
    pub bound_ms: Option<i64>,
    /// What keeps the wall clock right.
    pub source: ClockSource,
}

/// What disciplines a node's wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClockSource {
    /// NTP.
    Ntp,
    /// PTP.
    Ptp,
    /// Nothing does.
    None,
    /// Not known.
    Unknown,
}

impl ClockSource {
    /// `ntp`, `ptp`, `none` or `unknown`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ntp => "ntp",
            Self::Ptp => "ptp",
            Self::None => "none",
            Self::Unknown => "unknown",
        }
    }

    /// The source with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Ntp, Self::Ptp, Self::None, Self::Unknown].into_iter().find(|s| s.name() == name)
    }
}

/// A state of the log that the node has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checkpoint {
    /// Leaves.
    pub size: u64,
    /// Root over them.
    pub root: Hash,
}

impl HeadDraft {
    pub(super) fn with_blocks(self, block_count: u16, root: Hash) -> Head {
        Head {
            tenant: self.tenant,
            node: self.node,
            chain: self.chain,
            epoch: self.epoch,
            life_unit: self.life_unit,
            sequence: self.sequence,
            period: self.period,
            cadence_ms: self.cadence_ms,
            origin: self.origin,
            gpu_count: self.gpu_count,
            block_count,
            root,
            previous: self.previous,
            clock: self.clock,
            checkpoint: self.checkpoint,
            agent_version: self.agent_version,
            agent_digest: self.agent_digest,
        }
    }
}

impl Head {
    /// The most bytes of a head's statement.
    pub const BYTES_MAX: usize = 4_096;

    /// The canonical statement of kind `head`. A function of the fields alone, so it can be made
    /// again from stored columns.
    #[must_use]
    pub fn statement(&self) -> Vec<u8> {
        let mut statement = StatementBuilder::new(StatementKind::Head)
            .id("tenant", &self.tenant)
            .id("node", self.node)
            .id("chain", self.chain)
            .id("epoch", self.epoch)
            .id("life_unit", self.life_unit)
            .int("sequence", saturated(self.sequence.0))
            .time("started_at", self.period.start)
            .time("ended_at", self.period.end)
            .int("cadence_ms", self.cadence_ms)
            .text("origin", self.origin.name())
            .int("gpu_count", self.gpu_count)
            .int("block_count", self.block_count)
            .id("root", self.root)
            .opt_id("previous", self.previous)
            .object("clock", self.clock.fields())
            .text("agent_version", &self.agent_version)
            .opt_id("agent_digest", self.agent_digest);
        if let Some(Checkpoint { size, root }) = self.checkpoint {
            let object =
                StatementBuilder::object_of().int("size", saturated(size)).id("root", root);
            statement = statement.object("checkpoint", object);
        }
        statement.to_bytes()
    }

    /// Reads a statement of kind `head`.
    ///
    /// # Errors
    /// [`StatementError`] for another spelling, kind or set of fields, and for fields out of range.
    pub fn from_statement(bytes: &[u8]) -> Result<Self, StatementError> {
        let mut fields = Fields::of_statement(StatementKind::Head, bytes, Self::BYTES_MAX)?;
        let head = Self {
            tenant: fields.id("tenant")?,
            node: fields.id("node")?,
            chain: fields.id("chain")?,
            epoch: fields.id("epoch")?,
            life_unit: fields.id("life_unit")?,
            sequence: sequence(&mut fields, "sequence")?,
            period: period(&mut fields)?,
            cadence_ms: cadence(&mut fields)?,
            origin: fields.name("origin", Origin::from_name)?,
            gpu_count: fields.unsigned("gpu_count")?,
            block_count: fields.unsigned("block_count")?,
            root: fields.id("root")?,
            previous: fields.opt_id("previous")?,
            clock: ClockState::from_fields(fields.object("clock")?)?,
            checkpoint: fields
                .opt_object("checkpoint")?
                .map(Checkpoint::from_fields)
                .transpose()?,
            agent_version: fields.text("agent_version", limits::TEXT_CHARS)?,
            agent_digest: fields.opt_id("agent_digest")?,
        };
        fields.finish()?;
        if head.previous.is_none() == (head.sequence == Sequence::FIRST) {
            Ok(head)
        } else {
            Err(StatementError::Invalid { field: "previous" })
        }
    }

    /// The leaf hash of the statement: what the next head names as `previous`.
    #[must_use]
    pub fn hash(&self) -> Hash {
        leaf_hash(&self.statement())
    }
}

impl ClockState {
    fn fields(&self) -> StatementBuilder {
        StatementBuilder::object_of()
            .time("anchor_wall", self.anchor_wall)
            .int("anchor_boot_ms", self.anchor_boot_ms)
            .opt_int("offset_ms", self.offset_ms)
            .opt_int("bound_ms", self.bound_ms)
            .text("source", self.source.name())
    }

    fn from_fields(mut fields: Fields) -> Result<Self, StatementError> {
        let clock = Self {
            anchor_wall: fields.time("anchor_wall")?,
            anchor_boot_ms: fields.count("anchor_boot_ms")?,
            offset_ms: fields.opt_int("offset_ms", -INT_MAX..=INT_MAX)?,
            bound_ms: fields.opt_count("bound_ms")?,
            source: fields.name("source", ClockSource::from_name)?,
        };
        fields.finish()?;
        Ok(clock)
    }
}

impl Checkpoint {
    fn from_fields(mut fields: Fields) -> Result<Self, StatementError> {
        let checkpoint = Self { size: fields.unsigned("size")?, root: fields.id("root")? };
        fields.finish()?;
        Ok(checkpoint)
    }
}

/// Beyond the range of statements a number stays beyond it, so that reading refuses it.
pub(super) fn saturated(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn sequence(
    fields: &mut Fields,
    field: &'static str,
) -> Result<Sequence, StatementError> {
    match fields.unsigned(field)? {
        0 => Err(StatementError::Invalid { field }),
        number => Ok(Sequence(number)),
    }
}

/// `started_at` and `ended_at`, which may be equal.
pub(super) fn period(fields: &mut Fields) -> Result<Period, StatementError> {
    let period = Period::new(fields.time("started_at")?, fields.time("ended_at")?);
    if period.start <= period.end {
        Ok(period)
    } else {
        Err(StatementError::Invalid { field: "ended_at" })
    }
}

fn cadence(fields: &mut Fields) -> Result<u32, StatementError> {
    match fields.unsigned("cadence_ms")? {
        cadence @ 1..=limits::PERIOD_MS => Ok(cadence),
        _ => Err(StatementError::Invalid { field: "cadence_ms" }),
    }
}
