//! Clock event reasons over time: which bits held, by weights held backwards as utilization's are.
//!
//! For charts only. Reasons overlap, so their times are never added up; what a driver's own
//! counters say about throttled time is in `counter`.

use crate::id::GpuUuid;
use crate::sample::{Metric, Reading};
use crate::time::{Period, Timestamp};

use super::MeteredSegment;
use super::run::{Run, point_at};
use super::track::{ClockQuality, Point, follow};

/// Stretches with the bits that the reading at their end said, in order and without overlap.
pub(super) fn reasons(gpu: &GpuUuid, window: Period, runs: &[Run<'_>]) -> Vec<(Period, i64)> {
    let mut claims: Vec<(Period, i64)> = Vec::new();
    let mut measured_end = Timestamp(i64::MIN);
    for run in runs {
        let mut points: Vec<Point<'_>> =
            run.segments.iter().flat_map(|segment| masks(segment, gpu)).collect();
        points.sort_by_key(|point| point.boot_ms);
        let mut previous: Option<Point<'_>> = None;
        for point in points {
            let start = match previous {
                // A jump of the clock is told by the track, which has the same times.
                Some(before) => follow(before, point, &mut Vec::new()),
                None => point.at.plus_ms(-point.period_ms).max(measured_end),
            };
            if let (Some(bits), true) = (point.busy.number(), point.clock != ClockQuality::Invalid)
            {
                claims.push((Period::new(start.min(point.at), point.at), bits));
            }
            measured_end = measured_end.max(point.at);
            previous = Some(point);
        }
    }
    without_overlap(claims, window)
}

/// The readings of the mask as points of a track whose value is the mask.
fn masks<'a>(
    segment: &'a MeteredSegment<'a>,
    gpu: &'a GpuUuid,
) -> impl Iterator<Item = Point<'a>> + 'a {
    let block = segment.block.filter(|block| block.uuid == *gpu);
    let column = block.and_then(|block| {
        let column = block.columns.iter().find(|c| c.metric == Metric::ClockEventReasons)?;
        Some(block.ticks.iter().zip(&column.readings))
    });
    let period_ms = i64::from(segment.head.cadence_ms);
    column.into_iter().flatten().filter_map(move |(at, reading)| {
        let busy: Reading = (*reading)?;
        Some(Point { busy, period_ms, gpu, ..point_at(segment.head, *at, gpu) })
    })
}

/// Of claims on the same time the first counts, so that no minute holds more than a minute.
fn without_overlap(mut claims: Vec<(Period, i64)>, window: Period) -> Vec<(Period, i64)> {
    claims.sort_by_key(|(period, _)| *period);
    let mut taken = window.start;
    let mut out = Vec::with_capacity(claims.len());
    for (period, bits) in claims {
        let free = Period::new(period.start.max(taken), period.end.min(window.end));
        if !free.is_empty() {
            taken = free.end;
            out.push((free, bits));
        }
    }
    out
}
