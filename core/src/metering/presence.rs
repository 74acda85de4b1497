//! When a slice was there: its slot is enrolled for that time only.
//!
//! A slice exists from the event that shows it, or from its first reading, until the event that
//! says it is gone. Readings come at ticks and events with them, so an edge is moved to the reading
//! next to it when that is no further away than a reading is held: a slice that was read up to its
//! end leaves no gap of a second behind. A whole GPU is never absent; its slot is enrolled with the
//! node.

use crate::id::GpuUuid;
use crate::segment::{Event, EventKind};
use crate::time::{Period, Timestamp};

use super::SlotHour;
use super::run::Run;
use super::track::{Claim, hold_limit_ms};

/// Periods in which the slot's slice was not there, ascending.
pub(super) fn absences<'a>(
    input: &SlotHour<'a>,
    runs: &[Run<'a>],
    claims: &[Claim<'a>],
) -> Vec<Period> {
    if input.place.instance.is_none() {
        return Vec::new();
    }
    let edges = Edges::of(runs, claims);
    let mut absences = Vec::new();
    let mut absent_since = input.resident.is_none().then_some(Timestamp(i64::MIN));
    for (at, is_there) in sights(input, runs, claims) {
        match (absent_since, is_there) {
            (Some(since), true) => {
                absences.push(Period::new(since, edges.next_reading(at).max(since)));
                absent_since = None;
            }
            (None, false) => absent_since = Some(edges.last_reading(at)),
            (Some(_), false) | (None, true) => {}
        }
    }
    absences.extend(absent_since.map(|since| Period::new(since, Timestamp(i64::MAX))));
    absences
}

/// What shows that the slice is there (true) or gone, by time; of one instant, gone comes first.
fn sights(input: &SlotHour<'_>, runs: &[Run<'_>], claims: &[Claim<'_>]) -> Vec<(Timestamp, bool)> {
    let told = || {
        let segments = runs.iter().flat_map(|run| &run.segments);
        input.prior_events.iter().chain(segments.flat_map(|segment| segment.events))
    };
    let seen_here = |event: &&Event| match &event.kind {
        EventKind::GpuSeen(inventory) => inventory.place() == *input.place,
        _ => false,
    };
    let seen: Vec<_> = told().filter(seen_here).collect();
    let sat_here = |gpu: &GpuUuid| {
        input.resident_gpu() == Some(gpu)
            || claims.iter().any(|claim| claim.gpu == gpu)
            || seen.iter().any(|event| event.gpu.as_ref() == Some(gpu))
    };
    let removed = told()
        .filter(|event| event.kind == EventKind::PartitionRemoved)
        .filter(|event| event.gpu.as_ref().is_some_and(sat_here));
    let mut sights: Vec<(Timestamp, bool)> = removed
        .map(|event| (event.at, false))
        .chain(seen.iter().map(|event| (event.at, true)))
        .chain(claims.iter().map(|claim| (claim.period.start, true)))
        .collect();
    sights.sort_unstable();
    sights
}

/// The readings next to an instant.
struct Edges<'c, 'a> {
    claims: &'c [Claim<'a>],
    /// The longest distance that still is "next to".
    near_ms: i64,
}

impl<'c, 'a> Edges<'c, 'a> {
    fn of(runs: &[Run<'a>], claims: &'c [Claim<'a>]) -> Self {
        let periods = runs.iter().flat_map(|run| &run.points).map(|point| point.period_ms);
        Self { claims, near_ms: hold_limit_ms(periods.max().unwrap_or(0)) }
    }

    /// Where a slice that was shown at `at` begins.
    fn next_reading(&self, at: Timestamp) -> Timestamp {
        let near = Period::new(at, at.plus_ms(self.near_ms));
        let starts = self.claims.iter().map(|claim| claim.period.start);
        starts.filter(|start| near.contains(*start)).min().unwrap_or(at)
    }

    /// Where a slice that was gone at `at` ends.
    fn last_reading(&self, at: Timestamp) -> Timestamp {
        let near = Period::new(at.plus_ms(-self.near_ms), at.plus_ms(1));
        let ends = self.claims.iter().map(|claim| claim.period.end);
        ends.filter(|end| near.contains(*end)).max().unwrap_or(at)
    }
}
