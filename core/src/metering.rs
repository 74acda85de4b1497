//! Metering: from segments to exact hour records.
//!
//! Invariants, in the order in which a reader should doubt them:
//! 1. **Law M**: `enrolled_ms = measured_ms + sum of gaps by cause`, `measured_ms = sum of the
//!    histogram`. Every millisecond of enrolled time is in exactly one place.
//! 2. **Additivity**: any split of a period into hours adds up to the period; a weight that
//!    crosses a boundary is cut there and its value goes to both sides.
//! 3. **Order does not matter**: permuting, repeating or re-batching segments changes nothing.
//! 4. **Nothing is estimated**: time without a reading is a gap with one cause, never a value.
//!
//! The steps: points claim time backwards (`track`), claims become stretches that never overlap
//! (`track::resolve`), what remains of the window is a gap and gets the strongest explanation
//! (`gap`, `run`, `piece`), and everything is added up per GPU that sat in the slot (`meter`). A
//! slice of a GPU has a slot of its own, which is enrolled while the slice is there (`presence`). All of it
//! is a pure function of the signed segments, the drops, and what the server knows of itself, so
//! a verifier that holds the same bytes computes the same record.
//!
//! Not here: leases, states and verdicts. A record knows nothing of who pays.

mod counter;
mod detail;
mod frozen;
mod gap;
mod grain;
mod histogram;
mod meter;
mod packed;
mod piece;
mod presence;
mod profile;
mod ratio;
mod reason;
mod record;
mod revision;
mod run;
mod stated;
mod sum;
mod track;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod laws;

use crate::evidence::chain::Head;
use crate::id::{GpuUuid, Hash};
use crate::segment::{Event, GpuBlock, Origin, Partition, Place};
use crate::time::{Hour, Period, Timestamp};

pub use counter::{CounterDelta, Counters};
pub use detail::{GpuDetail, SlotDetail, detail};
pub use gap::{Explanation, GapCause, Gaps};
pub use grain::{Grain, laid_out};
pub use histogram::Histogram;
pub use meter::meter;
pub use piece::{Content, Piece};
pub use profile::{
    HourProfile, HourStretch, MinuteGap, MinuteSums, PROFILE_COUNTERS, PROFILE_METRICS,
    ProfileCell, ReasonMinutes,
};
pub use ratio::{Grade, Ppm, divide_half_even};
pub use record::{HourNames, HourRecord, RecordError, SequenceRange};
pub use revision::{Current, HourState, SEAL_AFTER_MS, SETTLED_AFTER_MS, Write, decide};
pub use run::HOLDING_KINDS;
pub use stated::{StatedError, StatedHour};
pub use sum::UtilizationSum;

/// One segment as metering sees it from one slot.
#[derive(Debug, Clone, Copy)]
pub struct MeteredSegment<'a> {
    /// The verified head.
    pub head: &'a Head,
    /// The head's hash.
    pub head_hash: Hash,
    /// The block of the GPU that sat in the slot, if the segment has one.
    pub block: Option<&'a GpuBlock>,
    /// The segment's events, of all GPUs.
    pub events: &'a [Event],
}

/// What is known of one slot around one hour.
///
/// `segments` holds those that overlap the hour and, where they exist, the nearest one before and
/// after it: the one after decides about the weight that crosses the hour's end, both decide
/// about causes.
#[derive(Debug, Clone, Copy)]
pub struct SlotHour<'a> {
    /// The hour.
    pub hour: Hour,
    /// Where the node's data comes from; an hour without any segment carries the mark too.
    pub origin: Origin,
    /// The place that the slot stands for.
    pub place: &'a Place,
    /// When the slot was enrolled, cut at "now" while the hour is open. The slot of a slice is
    /// enrolled for as much of it as the slice was there.
    pub enrolled: Period,
    /// The GPU that was last seen in the slot before these segments.
    pub resident: Option<Resident<'a>>,
    /// In any order, repeats allowed.
    pub segments: &'a [MeteredSegment<'a>],
    /// The latest events before `segments` that may still hold, such as a GPU lost hours ago.
    pub prior_events: &'a [Event],
    /// Periods covered by signed drops.
    pub drops: &'a [Period],
    /// When the server was recording. Outside of it nothing is known by silence.
    pub observer: &'a [Period],
    /// When the node had a stream open; `None` where there never is one (imports).
    pub connected: Option<&'a [Period]>,
}

/// Who sat in a slot before the segments that are metered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident<'a> {
    /// The GPU, or the slice.
    pub gpu: &'a GpuUuid,
    /// What it is a slice of.
    pub partition: Option<&'a Partition>,
}

impl<'a> SlotHour<'a> {
    /// The enrolled part of the hour.
    #[must_use]
    pub fn window(&self) -> Period {
        self.hour.period().intersect(self.enrolled)
    }

    fn resident_gpu(&self) -> Option<&'a GpuUuid> {
        self.resident.map(|resident| resident.gpu)
    }

    /// Whether what happened to `gpu` concerns this slot: it sat here, or what sat here was a slice
    /// of it.
    fn is_about_this(&self, gpu: &GpuUuid, runs: &[run::Run<'a>]) -> bool {
        let is_parent = |partition: Option<&Partition>| partition.is_some_and(|p| p.parent == *gpu);
        self.resident_gpu() == Some(gpu)
            || self.resident.is_some_and(|resident| is_parent(resident.partition))
            || runs.iter().flat_map(|run| run.blocks()).any(|block| {
                is_parent(block.partition.as_ref())
                    || (block.uuid == *gpu && !block.track.points.is_empty())
            })
    }

    /// The GPU that owns the window's start.
    fn first_owner(&self, stretches: &[track::Stretch<'a>]) -> Option<&'a GpuUuid> {
        let before = stretches.iter().rev().find(|s| s.period.start < self.window().start);
        let first = || stretches.first().map(|s| s.gpu);
        before.map(|s| s.gpu).or(self.resident_gpu()).or_else(first)
    }
}

/// Where a weight or a counter difference is cut: the value at `at` on the straight line between
/// two readings, rounded down, so that both sides of a boundary use the same number.
fn on_line(from: (Timestamp, i64), to: (Timestamp, i64), at: Timestamp) -> i64 {
    let span = i128::from(to.0.since(from.0));
    if span <= 0 || at == from.0 {
        return from.1;
    }
    // Nearly every part ends at a reading; dividing 128 bits for it is most of metering's time.
    if at == to.0 {
        return to.1;
    }
    let rise = (i128::from(to.1) - i128::from(from.1)) * i128::from(at.since(from.0));
    let value = i128::from(from.1) + rise.div_euclid(span);
    i64::try_from(value).unwrap_or(from.1)
}
