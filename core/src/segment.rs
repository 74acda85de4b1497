//! The segment: at most 60 s of one node as exact bytes.
//!
//! A segment is a signed [`crate::evidence::chain::Head`] and its blocks: one [`GpuBlock`] per
//! GPU and per slice of one, one [`HostBlock`] at most, one [`EventsBlock`]. Each block is a byte string of its own
//! that can be decoded, stored and disclosed alone; the head carries the Merkle root over their
//! hashes. Format version 1; the layout with test vectors is `docs/EVIDENCE.md`.
//!
//! Invariants, kept by [`Block::decode`]:
//! 1. **Canonical**: one encoding per content. Bytes that decode but are not what the encoder
//!    would write are refused, so a hash names a content and not a spelling.
//! 2. **Bounded**: every count is checked against [`limits`] before anything is allocated.
//! 3. **Panic-free** on any input.
//!
//! Not here: what the values mean (`metering`), who signed them (`evidence`).

mod bits;
mod codec;
mod column;
mod event;
#[cfg(test)]
pub(crate) mod fixture;
mod list;
mod pack;
mod partition;
mod wiring;

use crate::id::{BusId, GpuUuid};
use crate::sample::{HostMetric, Metric, Reading};
use crate::time::Timestamp;

pub use codec::DecodeError;
pub use event::{
    Event, EventKind, GpuInventory, HostInventory, JobEnd, LifeUnit, LifeUnitKind, StopReason,
};
pub(crate) use list::{put_list, take_list};
pub use partition::{MigInstance, Partition, Place, Seat, SeatClash};
pub use wiring::{
    DiskMedium, Found, GpuPaths, GpuWiring, NvlinkGroup, NvlinkRemote, PathLevel, Unread, WorkDisk,
};

/// Bounds of format v1.
pub mod limits {
    /// GPUs in a segment, slices of them counted too: 8 GPUs of 7 slices each fit exactly.
    pub const GPUS: usize = 64;
    /// Ticks in a block: 60 s at 1 Hz, with room for a faster cadence.
    pub const TICKS: usize = 512;
    /// Points of a utilization track in a block (driver samples come up to 6 a second).
    pub const TRACK_POINTS: usize = 2_048;
    /// Events in a segment.
    pub const EVENTS: usize = 1_024;
    /// Characters of a free text in an event or a head.
    pub const TEXT_CHARS: usize = 128;
    /// Milliseconds of a cadence or of a track's period.
    pub const PERIOD_MS: u32 = 3_600_000;
    /// Bytes of one encoded block.
    pub const BLOCK_BYTES: usize = 128 * 1_024;
    /// Bytes of all blocks of a segment.
    pub const SEGMENT_BYTES: usize = 1_024 * 1_024;
    /// Milliseconds that a segment may span, the hold of its first sample not counted.
    pub const SPAN_MS: i64 = 120_000;
    /// The same for an imported segment, whose cadence may be minutes.
    pub const IMPORTED_SPAN_MS: i64 = 86_400_000;
}

/// Where data came from. It stands in the head and stays with every row, page and export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
    /// Read from a driver by the agent.
    Measured,
    /// Read from `nvml-sim`, or made by a generator.
    Simulated,
    /// Taken from a log that somebody else's tool wrote.
    Imported,
}

impl Origin {
    /// `measured`, `simulated` or `imported`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Simulated => "simulated",
            Self::Imported => "imported",
        }
    }

    /// The origin with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Measured, Self::Simulated, Self::Imported].into_iter().find(|o| o.name() == name)
    }
}

/// Where the points of a utilization track came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum TrackSource {
    /// `nvmlDeviceGetUtilizationRates`, one point a tick.
    Poll = 1,
    /// `nvmlDeviceGetSamples`: the driver's own buffer, without blind spots.
    DriverSamples = 2,
    /// GPM graphics activity, for MIG slices.
    Gpm = 3,
    /// An imported log.
    Import = 4,
}

impl TrackSource {
    /// Every source, by ascending code.
    pub const ALL: [Self; 4] = [Self::Poll, Self::DriverSamples, Self::Gpm, Self::Import];

    /// Its code in the segment format.
    #[must_use]
    pub fn code(self) -> u8 {
        self as u8
    }

    /// The source with this code.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|source| source.code() == code)
    }

    /// Its name in statements and exports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Poll => "poll",
            Self::DriverSamples => "driver_samples",
            Self::Gpm => "gpm",
            Self::Import => "import",
        }
    }
}

/// One point of a utilization track: `busy` (percent, 0 to 100) describes the time that ends at
/// `at`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrackPoint {
    /// End of the described window.
    pub at: Timestamp,
    /// Share of it in which at least one kernel ran, in percent.
    pub busy: Reading,
}

/// The utilization of one GPU with its own times. One source per epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UtilizationTrack {
    /// Where the points come from.
    pub source: TrackSource,
    /// The source's period P in milliseconds (1 to 3,600,000).
    pub period_ms: u32,
    /// Strictly ascending by time.
    pub points: Vec<TrackPoint>,
}

/// The readings of one metric at a block's ticks. `None` = not read at that tick (slow lane).
/// At least one is `Some`; the length is the block's number of ticks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column<M> {
    /// What was read.
    pub metric: M,
    /// One entry per tick.
    pub readings: Vec<Option<Reading>>,
}

/// One GPU's part of a segment, or one slice's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuBlock {
    /// The physical device, or the slice.
    pub uuid: GpuUuid,
    /// The place it sits in; a slice's is that of its parent.
    pub bus_id: BusId,
    /// What it is a slice of; `None` for a whole GPU.
    pub partition: Option<Partition>,
    /// When readings were taken, strictly ascending; may be empty (a GPU that never answered).
    pub ticks: Vec<Timestamp>,
    /// Its utilization.
    pub track: UtilizationTrack,
    /// Ascending by metric code, each metric at most once.
    pub columns: Vec<Column<Metric>>,
}

impl GpuBlock {
    /// What of it must fit the other blocks of a segment.
    #[must_use]
    pub fn seat(&self) -> Seat<'_> {
        Seat { uuid: &self.uuid, bus_id: &self.bus_id, partition: self.partition.as_ref() }
    }
}

/// The host's part of a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostBlock {
    /// When readings were taken, strictly ascending, not empty.
    pub ticks: Vec<Timestamp>,
    /// Ascending by metric code, each metric at most once.
    pub columns: Vec<Column<HostMetric>>,
}

/// What happened during the segment, ascending by time (ties keep their order), not empty: a
/// segment in which nothing happened has no such block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventsBlock {
    /// The events.
    pub events: Vec<Event>,
}

/// A decoded block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Block {
    /// One GPU.
    Gpu(GpuBlock),
    /// The host.
    Host(HostBlock),
    /// Events.
    Events(EventsBlock),
}

impl Block {
    /// The canonical bytes, with numbers rounded to each metric's declared resolution already.
    ///
    /// # Errors
    /// [`EncodeError`] when the content breaks an invariant of its struct or a bound.
    pub fn encode(&self) -> Result<Vec<u8>, EncodeError> {
        codec::encode(self)
    }

    /// Reads a block back.
    ///
    /// # Errors
    /// [`DecodeError`] for anything that is not exactly what [`Block::encode`] writes.
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        codec::decode(bytes)
    }
}

/// Why a block cannot be encoded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// A count or length is over its bound.
    #[error("{what}: {got} is over the bound of {max}")]
    TooMany {
        /// What is bounded.
        what: &'static str,
        /// The count found.
        got: usize,
        /// The bound.
        max: usize,
    },
    /// Times do not ascend strictly, or lie outside the accepted range.
    #[error("{what}: times must ascend strictly and lie between 2000 and 2200")]
    Times {
        /// Which times.
        what: &'static str,
    },
    /// Columns are not ascending by metric, not as long as the ticks, or empty.
    #[error("column {metric}: columns must ascend, match the ticks and hold a reading")]
    Column {
        /// Name of the metric.
        metric: &'static str,
    },
    /// A number is not a multiple of the declared resolution, or outside the metric's range.
    #[error("{metric}: {value} is out of range or not a multiple of the declared resolution")]
    Value {
        /// Name of the metric.
        metric: &'static str,
        /// The number.
        value: i64,
    },
    /// A block that must hold something holds nothing.
    #[error("{what} is empty")]
    Empty {
        /// What is empty.
        what: &'static str,
    },
    /// The track's period is not 1 to 3,600,000 ms.
    #[error("a track period of {got} ms is out of range")]
    Period {
        /// The period found.
        got: u32,
    },
    /// A slice of itself, or of no share.
    #[error("a partition's {field} is not possible")]
    Partition {
        /// The field that is wrong.
        field: &'static str,
    },
    /// An event breaks an invariant: a text that is not clean or too long, a number out of range,
    /// a `gpu` that does not fit the kind, or events that do not ascend by time.
    #[error("an event cannot be written: {0}")]
    Event(#[from] crate::evidence::statement::StatementError),
}
