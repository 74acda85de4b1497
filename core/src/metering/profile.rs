//! The hour's shape: 60 minutes of everything that pages draw, and its exact stretches.
//!
//! Minutes are for charts only; exact figures come from the record, and when time was measured
//! comes from the stretches. What is a sum (utilization, gaps, growth
//! of counters) adds up to the record's to the millisecond and to the unit. A minute's mean of a
//! gauge is over its readings, not over time, and reasons are times of one bit each, which overlap
//! and are never added.

mod minutes;
mod packed;
mod stretch;

use crate::id::GpuUuid;
use crate::sample::Metric;
use crate::time::{Hour, Period, Timestamp};

use super::counter::{CounterDelta, Step};
use super::gap::GapCause;
use super::piece::Piece;
use super::run::Run;

pub use stretch::HourStretch;

/// Gauges and states that a profile keeps, beside utilization.
pub const PROFILE_METRICS: [Metric; 12] = [
    Metric::MemoryBusy,
    Metric::MemoryUsed,
    Metric::PowerDraw,
    Metric::PowerLimitEnforced,
    Metric::PowerLimitManagement,
    Metric::Temperature,
    Metric::MemoryTemperature,
    Metric::SmClock,
    Metric::MemoryClock,
    Metric::SmActive,
    Metric::TensorActive,
    Metric::DramActive,
];

/// Counters whose growth a profile keeps.
pub const PROFILE_COUNTERS: [Metric; 10] = [
    Metric::Energy,
    Metric::PcieTx,
    Metric::PcieRx,
    Metric::NvlinkTx,
    Metric::NvlinkRx,
    Metric::ThrottleSwPower,
    Metric::ThrottleSwThermal,
    Metric::ThrottleHwThermal,
    Metric::ThrottleHwPowerBrake,
    Metric::ThrottleSyncBoost,
];

const MINUTE_MS: i64 = 60_000;
const MINUTES: usize = 60;

/// Readings of one metric in one minute, in the metric's unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProfileCell {
    /// The lowest.
    pub min: i64,
    /// Their mean, rounded half to even.
    pub mean: i64,
    /// The highest.
    pub max: i64,
}

/// One GPU's hour, minute by minute. Every inner list has 60 entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HourProfile {
    /// Per minute: sum of percent x ms, and measured ms.
    pub utilization: Vec<(i64, i64)>,
    /// Per metric of [`PROFILE_METRICS`]: 60 minutes, `None` where nothing was read. Metrics
    /// without any reading are absent.
    pub metrics: Vec<(Metric, Vec<Option<ProfileCell>>)>,
    /// What adds up to the record. `None` in a profile of the first version, which kept none of
    /// it: there it is not known, and not zero.
    pub sums: Option<MinuteSums>,
    /// What of the hour was measured and what was not, to the millisecond. `None` in a profile of
    /// the first two versions: there the minute is the grain.
    pub stretches: Option<Vec<HourStretch>>,
}

/// What of a minute adds up to the hour's record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MinuteSums {
    /// Least and most percent of utilization in each minute; (0, 0) where nothing was measured.
    pub busy_range: Vec<(u8, u8)>,
    /// Growth per minute, of the counters of [`PROFILE_COUNTERS`] that have any covered time.
    pub counters: Vec<(Metric, Vec<CounterDelta>)>,
    /// Clock event reasons; `None` when they were never read.
    pub reasons: Option<ReasonMinutes>,
    /// Time that was not measured, by minute and cause. A minute's enrolled time is its measured
    /// time and these.
    pub gaps: Vec<MinuteGap>,
}

/// Milliseconds of each clock event reason by minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReasonMinutes {
    /// For how much of each minute the reasons are known.
    pub known_ms: Vec<i64>,
    /// Per bit of NVML's mask that was set at all, ascending: milliseconds in each minute.
    pub bits: Vec<(u8, Vec<i64>)>,
}

/// Time of a minute that was not measured for one cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MinuteGap {
    /// The minute, 0 to 59.
    pub minute: u8,
    /// Why.
    pub cause: GapCause,
    /// How long.
    pub ms: i64,
}

pub(super) fn profile(
    gpu: &GpuUuid,
    window: Period,
    runs: &[Run<'_>],
    pieces: &[Piece<'_>],
    steps: &[(Metric, Vec<Step>)],
) -> HourProfile {
    let start = window.start.hour().start();
    let metrics = PROFILE_METRICS
        .into_iter()
        .filter_map(|metric| {
            let minutes = minutes::of_metric(metric, gpu, runs, start);
            minutes.iter().any(Option::is_some).then_some((metric, minutes))
        })
        .collect();
    let utilization = minutes::of_busy(gpu, pieces, start);
    let busy_range = minutes::of_range(gpu, pieces, start);
    let gaps = minutes::of_gaps(gpu, pieces, start);
    let counters = minutes::of_counters(start, steps);
    let reasons = minutes::of_reasons(gpu, window, runs);
    let sums = MinuteSums { busy_range, counters, reasons, gaps };
    let stretches = Some(stretch::of_pieces(gpu, pieces, start));
    HourProfile { utilization, metrics, sums: Some(sums), stretches }
}

/// The parts of `period` by minute of the hour that begins at `start`.
fn by_minute(start: Timestamp, period: Period) -> impl Iterator<Item = (usize, Period)> {
    let mut at = period.start;
    std::iter::from_fn(move || {
        let index = minute_of(start, at).filter(|_| at < period.end)?;
        let next = start.plus_ms((at.since(start) / MINUTE_MS + 1) * MINUTE_MS).min(period.end);
        let part = Period::new(at, next);
        at = next;
        Some((index, part))
    })
}

fn minute_of(start: Timestamp, at: Timestamp) -> Option<usize> {
    usize::try_from(at.since(start).div_euclid(MINUTE_MS)).ok().filter(|index| *index < MINUTES)
}

impl HourProfile {
    /// The profile of an hour in which nothing was read.
    #[must_use]
    pub fn empty() -> Self {
        let sums = Some(MinuteSums { busy_range: vec![(0, 0); MINUTES], ..MinuteSums::default() });
        let stretches = Some(Vec::new());
        Self { utilization: vec![(0, 0); MINUTES], metrics: Vec::new(), sums, stretches }
    }

    /// Where minute `index` of `hour` lies.
    #[must_use]
    pub fn minute(hour: Hour, index: usize) -> Period {
        let offset = i64::try_from(index).unwrap_or(0) * MINUTE_MS;
        let start = hour.start().plus_ms(offset);
        Period::new(start, start.plus_ms(MINUTE_MS))
    }
}
