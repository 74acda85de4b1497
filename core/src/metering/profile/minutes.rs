//! From readings, pieces and growth to minutes.

use std::collections::BTreeMap;

use crate::id::GpuUuid;
use crate::sample::{Metric, Reading};
use crate::time::{Period, Timestamp};

use super::super::counter::{CounterDelta, Step};
use super::super::piece::{Content, Piece};
use super::super::ratio::divide_half_even;
use super::super::reason::reasons;
use super::super::run::Run;
use super::{
    MINUTES, MinuteGap, PROFILE_COUNTERS, ProfileCell, ReasonMinutes, by_minute, minute_of,
};

/// Percent x ms and measured ms of each minute.
pub(super) fn of_busy(gpu: &GpuUuid, pieces: &[Piece<'_>], start: Timestamp) -> Vec<(i64, i64)> {
    let mut minutes = vec![(0, 0); MINUTES];
    for (minute, percent, ms) in busy(gpu, pieces, start) {
        let (busy, measured) = &mut minutes[minute];
        *busy += i64::from(percent) * ms;
        *measured += ms;
    }
    minutes
}

/// Least and most percent of each minute.
pub(super) fn of_range(gpu: &GpuUuid, pieces: &[Piece<'_>], start: Timestamp) -> Vec<(u8, u8)> {
    let mut minutes: Vec<Option<(u8, u8)>> = vec![None; MINUTES];
    for (minute, percent, _) in busy(gpu, pieces, start) {
        let (least, most) = minutes[minute].unwrap_or((percent, percent));
        minutes[minute] = Some((least.min(percent), most.max(percent)));
    }
    minutes.into_iter().map(Option::unwrap_or_default).collect()
}

/// Minute, percent and ms of what was measured.
fn busy<'a>(
    gpu: &'a GpuUuid,
    pieces: &'a [Piece<'a>],
    start: Timestamp,
) -> impl Iterator<Item = (usize, u8, i64)> + 'a {
    let own = pieces.iter().filter(move |piece| piece.gpu == gpu);
    own.flat_map(move |piece| {
        let percent = match piece.content {
            Content::Busy(percent) => Some(percent),
            Content::Gap(_) => None,
        };
        percent.into_iter().flat_map(move |percent| {
            let parts = by_minute(start, piece.period);
            parts.map(move |(minute, part)| (minute, percent, part.ms()))
        })
    })
}

/// What was not measured of each minute.
pub(super) fn of_gaps(gpu: &GpuUuid, pieces: &[Piece<'_>], start: Timestamp) -> Vec<MinuteGap> {
    let mut gaps = BTreeMap::new();
    for piece in pieces.iter().filter(|piece| piece.gpu == gpu) {
        let Content::Gap(cause) = piece.content else { continue };
        for (minute, part) in by_minute(start, piece.period) {
            *gaps.entry((minute, cause)).or_insert(0) += part.ms();
        }
    }
    let gaps = gaps.into_iter().map(|((minute, cause), ms)| MinuteGap {
        // Below 60.
        minute: u8::try_from(minute).unwrap_or(u8::MAX),
        cause,
        ms,
    });
    gaps.collect()
}

/// Least, mean and most of a metric in each minute.
pub(super) fn of_metric(
    metric: Metric,
    gpu: &GpuUuid,
    runs: &[Run<'_>],
    start: Timestamp,
) -> Vec<Option<ProfileCell>> {
    let mut sums: Vec<Option<(i64, i128, i64, i128)>> = vec![None; MINUTES];
    for segment in runs.iter().flat_map(|run| &run.segments) {
        let Some(block) = segment.block.filter(|block| block.uuid == *gpu) else { continue };
        let Some(column) = block.columns.iter().find(|c| c.metric == metric) else { continue };
        for (at, reading) in block.ticks.iter().zip(&column.readings) {
            // A reading at the very start of a minute describes the minute before.
            let minute = minute_of(start, at.plus_ms(-1));
            if let (Some(index), Some(value)) = (minute, reading.and_then(Reading::number)) {
                let (min, sum, max, n) = sums[index].unwrap_or((value, 0, value, 0));
                sums[index] =
                    Some((min.min(value), sum + i128::from(value), max.max(value), n + 1));
            }
        }
    }
    let cell = |(min, sum, max, n): (i64, i128, i64, i128)| ProfileCell {
        min,
        // A mean lies between the extremes, so it fits.
        mean: i64::try_from(divide_half_even(sum, n)).unwrap_or(max),
        max,
    };
    sums.into_iter().map(|sum| sum.map(cell)).collect()
}

/// Growth of each counter in each minute, cut on the straight line between readings.
pub(super) fn of_counters(
    start: Timestamp,
    steps: &[(Metric, Vec<Step>)],
) -> Vec<(Metric, Vec<CounterDelta>)> {
    let kept = steps.iter().filter(|(metric, _)| PROFILE_COUNTERS.contains(metric));
    let minutes = kept.map(|(metric, steps)| {
        let mut minutes = vec![CounterDelta::default(); MINUTES];
        for step in steps {
            for (minute, part) in by_minute(start, step.inside) {
                minutes[minute].add(step.within(part), part.ms());
            }
        }
        (*metric, minutes)
    });
    minutes.collect()
}

/// Time of each clock event reason in each minute.
pub(super) fn of_reasons(gpu: &GpuUuid, window: Period, runs: &[Run<'_>]) -> Option<ReasonMinutes> {
    let start = window.start.hour().start();
    let mut known_ms = vec![0; MINUTES];
    let mut bits: BTreeMap<u8, Vec<i64>> = BTreeMap::new();
    for (period, mask) in reasons(gpu, window, runs) {
        for (minute, part) in by_minute(start, period) {
            known_ms[minute] += part.ms();
            for bit in (0..63).filter(|bit| mask >> bit & 1 == 1) {
                bits.entry(bit).or_insert_with(|| vec![0; MINUTES])[minute] += part.ms();
            }
        }
    }
    let is_known = known_ms.iter().any(|ms| *ms > 0);
    is_known.then(|| ReasonMinutes { known_ms, bits: bits.into_iter().collect() })
}
