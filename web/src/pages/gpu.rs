//! One GPU over a stretch of time, from seconds to two years: why was it slow?
//!
//! The view says what is known, by a common grid of buckets; which chart a series belongs to, its
//! words and its scale are made by the parts below. Not here: where points come from and how they
//! are thinned (`server::http`).

mod drawn;
mod page;
mod plan;
mod zoom;

use askama::Template;
use leasewatch_core::metering::GapCause;
use leasewatch_core::sample::Metric;
use leasewatch_core::segment::Event;
use leasewatch_core::time::{Period, Timestamp};
use serde::Serialize;

use super::{GpuRow, NodeName, NodeStatus};
use crate::chart::Point;
use crate::context::Context;
use crate::format::Measured;
use crate::wire;

/// Everything a GPU's page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuView {
    /// The node it sits in.
    #[serde(flatten)]
    pub name: NodeName,
    /// Where that node stands.
    #[serde(flatten)]
    pub status: NodeStatus,
    /// The GPU now, and its last 24 hours.
    pub gpu: GpuRow,
    /// The tenant's slug; `None` when the server has only one.
    pub tenant: Option<String>,
    /// The provider's slug.
    pub provider: String,
    /// Since when the node should be measured.
    #[serde(serialize_with = "wire::at")]
    pub enrolled_at: Timestamp,
    /// Until when; `None` while it goes on.
    #[serde(serialize_with = "wire::maybe_at")]
    pub ended_at: Option<Timestamp>,
    /// What is shown: [`crate::path::RangeState::period`], cut at now.
    #[serde(serialize_with = "wire::period")]
    pub range: Period,
    /// Where the points come from.
    pub detail: Detail,
    /// Width of the buckets that every point, lane and gap share belongs to. Buckets begin at
    /// multiples of it since `range.start`; at most about 420 are in the range.
    pub bucket_ms: i64,
    /// Busy, measured and enrolled time of the range; `None` while it cannot be told exactly.
    pub sums: Option<Measured>,
    /// Its clock under load beside its own past; `None` where no whole GPU sits there.
    pub clock: Option<ClockView>,
    /// Time without a measurement, neighbours of one cause merged, in order of time.
    #[serde(serialize_with = "wire::stretches")]
    pub gaps: Vec<(Period, GapCause)>,
    /// Buckets of which only the amount of missing time is known, in order of time.
    pub gap_shares: Vec<GapShare>,
    /// Metrics with at least one number in the range.
    pub series: Vec<Series>,
    /// Clock event reasons that held in the range, by ascending bit; empty when none did.
    pub lanes: Vec<ReasonLane>,
    /// Lines that values are read against.
    pub limits: Vec<Limit>,
    /// Metrics without any number in the range, and why.
    pub masked: Vec<Masked>,
    /// Events of this GPU and of its node in the range, latest first.
    #[serde(serialize_with = "wire::events")]
    pub events: Vec<Event>,
    /// How many more events the range has than `events` holds.
    pub events_left_out: i64,
}

/// The SM clock of minutes under full load, beside the median of the GPU's own 30 days before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum ClockView {
    /// There is enough to compare.
    Known {
        /// The latest hour under load.
        #[serde(serialize_with = "wire::at")]
        hour: Timestamp,
        /// Its median.
        clock_mhz: i64,
        /// The median of the hours before.
        past_mhz: i64,
        /// How many those are.
        past_hours: i64,
        /// One over the other.
        ratio_ppm: i64,
    },
    /// Fewer than 24 hours under load are known.
    TooLittle {
        /// How many.
        past_hours: i64,
    },
}

/// Where the points of a range come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Detail {
    /// Single readings.
    Readings,
    /// Minutes of profiles.
    Minutes,
    /// Hour records, and profiles reduced to hours.
    Hours,
}

/// Missing time of a bucket whose place inside the bucket is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct GapShare {
    /// The bucket.
    #[serde(serialize_with = "wire::period")]
    pub period: Period,
    /// Why.
    #[serde(serialize_with = "wire::gap_cause")]
    pub cause: GapCause,
    /// How much of it.
    pub ms: i64,
}

/// One metric over the range.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Series {
    /// Which, in which unit.
    #[serde(rename = "metric")]
    pub what: SeriesKey,
    /// Ascending, each at the start of its bucket; drawn in the bucket's middle. A point whose
    /// band is `None` breaks the line; a bucket without a point (a metric that is read more rarely
    /// than a bucket is wide) does not.
    pub points: Vec<Point>,
}

/// What a series is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SeriesKey {
    /// Utilization in per mille, so that the mean of a bucket keeps a digit.
    Busy,
    /// A gauge or a state in the metric's own unit.
    Gauge(Metric),
    /// Growth of a counter per second: KiB/s for kibibytes, per mille for nanoseconds (ms per s),
    /// milliwatts for millijoules, a count per second otherwise.
    Rate(Metric),
}

/// One reason why clocks were below their maximum.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReasonLane {
    /// The bit of NVML's mask, 0 to 62.
    pub bit: u8,
    /// When it held, in order of time, neighbours of one share merged.
    pub stretches: Vec<ReasonStretch>,
}

/// A stretch in which a reason held for a share of the time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ReasonStretch {
    /// The stretch: exact where readings are shown, whole buckets otherwise.
    #[serde(serialize_with = "wire::period")]
    pub period: Period,
    /// The share of the read time in which it held, 1 to 1000.
    pub share_permille: i64,
}

/// A fixed value that a chart is read against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Limit {
    /// Of what.
    pub what: LimitKind,
    /// In the unit that the kind names.
    pub value: i64,
    /// Who says so.
    pub source: LimitSource,
}

/// What a limit is a limit of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    /// Device memory in all, in MiB.
    MemoryTotal,
    /// Power limit of the VBIOS, in mW. Not given when the series has it.
    PowerDefault,
    /// Highest SM clock, in MHz.
    SmClockMax,
    /// Highest memory clock, in MHz.
    MemoryClockMax,
    /// Highest operating temperature of the core, in degrees Celsius.
    MaxOperating,
    /// Temperature at which clocks are slowed down, in degrees Celsius.
    Slowdown,
    /// Temperature at which the board shuts down, in degrees Celsius.
    Shutdown,
    /// Highest operating temperature of the memory, in degrees Celsius.
    MemoryMaxOperating,
}

/// Who says what a limit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitSource {
    /// The driver of this GPU.
    Driver,
    /// The catalogue of models.
    Catalogue,
}

/// A metric without a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Masked {
    /// Which.
    #[serde(serialize_with = "wire::metric")]
    pub metric: Metric,
    /// Why.
    pub why: MaskedWhy,
}

/// Why a metric has no number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MaskedWhy {
    /// GPUs of this class do not offer it.
    NotOnClass,
    /// This driver, host or sharing mode does not offer it.
    NotOffered,
    /// It was not recorded: an import without the column, or data that is kept less finely.
    NotRecorded,
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &GpuView, context: &Context) -> Result<String, askama::Error> {
    Ok(super::inert(&page::Page::new(view, context).render()?))
}

impl Serialize for SeriesKey {
    /// Its name with the unit: `busy_permille`, `power_draw_mw`, `pcie_tx_kib_per_s`.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.name())
    }
}

impl SeriesKey {
    /// Its name in JSON and in the head of a CSV column, unit included.
    #[must_use]
    pub fn name(self) -> String {
        use leasewatch_core::sample::Unit;
        match self {
            Self::Busy => "busy_permille".to_owned(),
            Self::Gauge(metric) => metric.name().to_owned(),
            Self::Rate(metric) => match metric.unit() {
                Unit::Nanosecond => format!("{}_permille", metric.name().trim_end_matches("_ns")),
                Unit::Millijoule => format!("{}_mw", metric.name().trim_end_matches("_mj")),
                _ => format!("{}_per_s", metric.name()),
            },
        }
    }
}

impl GpuView {
    /// Six hours of a GPU with everything to read, among them a capped and a hot stretch, a gap
    /// and a fault.
    #[must_use]
    pub fn sample() -> Self {
        super::sample_gpu::day()
    }

    /// Three months by hours, where only the amount of missing time is known.
    #[must_use]
    pub fn months_sample() -> Self {
        super::sample_gpu::months()
    }

    /// A minute of an imported log with few columns.
    #[must_use]
    pub fn imported_sample() -> Self {
        super::sample_gpu::imported()
    }

    /// A range before the node joined.
    #[must_use]
    pub fn empty_sample() -> Self {
        super::sample_gpu::empty()
    }
}
