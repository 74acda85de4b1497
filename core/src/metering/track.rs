//! From points of utilization to claims on time: weights held backwards.
//!
//! NVML's utilization describes the period *before* the read, so a point at `t_i` claims
//! `(t_{i-1}, t_i]`, written here as the half-open `[t_{i-1}, t_i)`. With P the source's period
//! and H = max(3 P, 3 s): a distance up to H is held whole; after a longer one the point speaks
//! only for the P before it, and the rest is a gap. Nothing is ever held forwards: that would
//! turn an outage into "100 % busy".

use crate::id::GpuUuid;
use crate::sample::Reading;
use crate::time::{Period, Timestamp};

use super::gap::{Explanation, GapCause};
use super::run::Run;

/// What a stretch of time holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell {
    /// Measured: utilization in percent.
    Busy(u8),
    /// The source said that there is no value, or the value cannot be placed.
    Gap(GapCause),
}

/// A point and the time that it speaks for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Claim<'a> {
    pub(super) period: Period,
    pub(super) cell: Cell,
    pub(super) gpu: &'a GpuUuid,
    /// Index of its run.
    pub(super) run: usize,
    /// The point's own time: the end of its window, also where the claim was cut to nothing.
    pub(super) at: Timestamp,
    /// Usable, but its clock was off by more than is good.
    pub(super) flagged: bool,
}

/// How well a point's place in time is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClockQuality {
    /// Offset and bound together at most 500 ms, or never measured.
    Good,
    /// Up to 5 s: usable, flagged.
    Flagged,
    /// Beyond: its place in time means nothing.
    Invalid,
}

/// A point of a track with what is needed to weigh it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point<'a> {
    pub(super) at: Timestamp,
    /// The same instant on the boot clock, which never steps.
    pub(super) boot_ms: i64,
    pub(super) busy: Reading,
    pub(super) period_ms: i64,
    pub(super) clock: ClockQuality,
    pub(super) gpu: &'a GpuUuid,
}

/// The longest distance between two points that is held whole.
pub(super) fn hold_limit_ms(period_ms: i64) -> i64 {
    (3 * period_ms).max(3_000)
}

/// Claims of all runs of one slot, and the stretches that a jump of the wall clock skipped.
pub(super) fn claims<'a>(runs: &[Run<'a>]) -> (Vec<Claim<'a>>, Vec<Explanation>) {
    let mut claims: Vec<Claim<'a>> = Vec::new();
    let mut jumps = Vec::new();
    let mut measured_end = Timestamp(i64::MIN);
    for (run, points) in runs.iter().map(|run| &run.points).enumerate() {
        let mut previous: Option<Point<'a>> = None;
        for point in points {
            let follows = previous.filter(|p| p.gpu == point.gpu);
            let start = match follows {
                Some(before) => follow(before, *point, &mut jumps),
                None => point.at.plus_ms(-point.period_ms).max(measured_end),
            };
            claims.push(Claim {
                period: Period::new(start.min(point.at), point.at),
                cell: cell(*point),
                gpu: point.gpu,
                run,
                at: point.at,
                flagged: point.clock == ClockQuality::Flagged,
            });
            measured_end = measured_end.max(point.at);
            previous = Some(*point);
        }
    }
    (claims, jumps)
}

/// Where the claim of a point begins that follows another of the same run and GPU.
pub(super) fn follow(
    before: Point<'_>,
    point: Point<'_>,
    jumps: &mut Vec<Explanation>,
) -> Timestamp {
    let limit = hold_limit_ms(point.period_ms);
    let (wall_ms, boot_ms) = (point.at.since(before.at), point.boot_ms - before.boot_ms);
    if (1..=limit).contains(&wall_ms) && (1..=limit).contains(&boot_ms) {
        return before.at;
    }
    let alone = point.at.plus_ms(-point.period_ms);
    if wall_ms <= 0 {
        // The wall clock was set back: both points claim the same time, which is a conflict.
        return alone;
    }
    if boot_ms <= limit {
        // The wall clock was set forward: nobody lived through the time between.
        let period = Period::new(before.at, alone.max(before.at));
        jumps.push(Explanation { period, cause: GapCause::ClockInvalid });
    }
    alone.max(before.at)
}

fn cell(point: Point<'_>) -> Cell {
    match point.busy {
        _ if point.clock == ClockQuality::Invalid => Cell::Gap(GapCause::ClockInvalid),
        Reading::Number(percent) => match u8::try_from(percent) {
            Ok(percent @ 0..=100) => Cell::Busy(percent),
            // A decoded track holds 0 to 100 only; anything else is no measurement.
            _ => Cell::Gap(GapCause::NvmlError),
        },
        Reading::Unsupported => Cell::Gap(GapCause::Unsupported),
        Reading::Error | Reading::Stale => Cell::Gap(GapCause::NvmlError),
    }
}

/// A stretch of time with one content; stretches of a slot never overlap.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch<'a> {
    pub(super) period: Period,
    pub(super) cell: Cell,
    pub(super) gpu: &'a GpuUuid,
    pub(super) run: usize,
    pub(super) flagged: bool,
}

/// Stretches in order, and for each claim whether another one contradicted it.
///
/// Where several claims hold the same content they agree; where they differ, the time is a gap
/// with cause `conflict`: nobody can say which of them is true.
pub(super) fn resolve<'a>(claims: &[Claim<'a>]) -> (Vec<Stretch<'a>>, Vec<bool>) {
    let mut edges: Vec<(Timestamp, bool, usize)> = claims
        .iter()
        .enumerate()
        .filter(|(_, claim)| !claim.period.is_empty())
        .flat_map(|(i, claim)| [(claim.period.start, true, i), (claim.period.end, false, i)])
        .collect();
    edges.sort_unstable();
    let mut contested = vec![false; claims.len()];
    let mut stretches: Vec<Stretch<'a>> = Vec::with_capacity(claims.len());
    let mut active: Vec<usize> = Vec::new();
    let mut since = Timestamp(i64::MIN);
    for (at, opens, index) in edges {
        if let Some(first) = active.iter().min().filter(|_| at > since) {
            let claim = &claims[*first];
            let differ =
                active.iter().any(|i| claims[*i].cell != claim.cell || claims[*i].gpu != claim.gpu);
            if differ {
                active.iter().for_each(|i| contested[*i] = true);
            }
            let cell = if differ { Cell::Gap(GapCause::Conflict) } else { claim.cell };
            stretches.push(Stretch {
                period: Period::new(since, at),
                cell,
                gpu: claim.gpu,
                run: claim.run,
                flagged: active.iter().all(|i| claims[*i].flagged),
            });
        }
        since = at;
        if opens {
            active.push(index);
        } else {
            active.retain(|i| *i != index);
        }
    }
    (stretches, contested)
}
