//! The hour's shape: 60 minutes of utilization and of the readings that pages draw.
//!
//! For charts only. A minute's mean is over its readings, not over time; exact figures come from
//! the record.

use crate::id::GpuUuid;
use crate::sample::{Metric, Reading};
use crate::time::{Hour, Period, Timestamp};

use super::packed::{Packer, Unpacker};
use super::ratio::divide_half_even;
use super::record::RecordError;
use super::run::Run;
use super::track::{Cell, Stretch};

/// Metrics that a profile keeps, beside utilization.
pub const PROFILE_METRICS: [Metric; 11] = [
    Metric::MemoryBusy,
    Metric::MemoryUsed,
    Metric::PowerDraw,
    Metric::PowerLimitEnforced,
    Metric::Temperature,
    Metric::MemoryTemperature,
    Metric::SmClock,
    Metric::MemoryClock,
    Metric::SmActive,
    Metric::TensorActive,
    Metric::DramActive,
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

/// One GPU's hour, minute by minute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HourProfile {
    /// Per minute: sum of percent x ms, and measured ms.
    pub utilization: Vec<(i64, i64)>,
    /// Per metric of [`PROFILE_METRICS`]: 60 minutes, `None` where nothing was read. Metrics
    /// without any reading are absent.
    pub metrics: Vec<(Metric, Vec<Option<ProfileCell>>)>,
}

pub(super) fn profile(
    gpu: &GpuUuid,
    window: Period,
    runs: &[Run<'_>],
    stretches: &[Stretch<'_>],
) -> HourProfile {
    let start = window.start.hour().start();
    let mut utilization = vec![(0, 0); MINUTES];
    for stretch in stretches.iter().filter(|s| s.gpu == gpu) {
        if let Cell::Busy(percent) = stretch.cell {
            add_busy(&mut utilization, start, stretch.period.intersect(window), percent);
        }
    }
    let metrics = PROFILE_METRICS
        .into_iter()
        .filter_map(|metric| {
            let minutes = minutes_of(metric, gpu, runs, start);
            minutes.iter().any(Option::is_some).then_some((metric, minutes))
        })
        .collect();
    HourProfile { utilization, metrics }
}

fn add_busy(minutes: &mut [(i64, i64)], start: Timestamp, part: Period, percent: u8) {
    if part.is_empty() {
        return;
    }
    let mut at = part.start;
    while at < part.end {
        let Some(index) = minute_of(start, at) else { return };
        let next = start.plus_ms((at.since(start) / MINUTE_MS + 1) * MINUTE_MS).min(part.end);
        let (busy, measured) = &mut minutes[index];
        *busy += i64::from(percent) * next.since(at);
        *measured += next.since(at);
        at = next;
    }
}

fn minute_of(start: Timestamp, at: Timestamp) -> Option<usize> {
    usize::try_from(at.since(start).div_euclid(MINUTE_MS)).ok().filter(|index| *index < MINUTES)
}

fn minutes_of(
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

impl HourProfile {
    /// The profile of an hour in which nothing was read.
    #[must_use]
    pub fn empty() -> Self {
        Self { utilization: vec![(0, 0); MINUTES], metrics: Vec::new() }
    }

    /// Where minute `index` of `hour` lies.
    #[must_use]
    pub fn minute(hour: Hour, index: usize) -> Period {
        let offset = i64::try_from(index).unwrap_or(0) * MINUTE_MS;
        let start = hour.start().plus_ms(offset);
        Period::new(start, start.plus_ms(MINUTE_MS))
    }
}

const VERSION: u8 = 1;

impl HourProfile {
    /// The packed form that the database keeps.
    #[must_use]
    pub fn pack(&self) -> Vec<u8> {
        let mut out = Packer::new(VERSION);
        out.list(self.utilization.iter(), |out, (busy, measured)| {
            out.int(*busy);
            out.int(*measured);
        });
        out.list(self.metrics.iter(), |out, (metric, minutes)| {
            out.byte(metric.code());
            out.list(minutes.iter(), |out, cell| {
                out.optional(cell.map(|cell| cell.mean));
                if let Some(cell) = cell {
                    out.int(cell.mean - cell.min);
                    out.int(cell.max - cell.mean);
                }
            });
        });
        out.finish()
    }

    /// Reads the packed form.
    ///
    /// # Errors
    /// [`RecordError`] for bytes that [`Self::pack`] did not write.
    pub fn unpack(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut input = Unpacker::new(bytes, VERSION)?;
        let mut utilization = Vec::with_capacity(MINUTES);
        for _ in 0..input.count(MINUTES)? {
            utilization.push((input.int()?, input.int()?));
        }
        let mut metrics = Vec::new();
        for _ in 0..input.count(Metric::ALL.len())? {
            let metric = Metric::from_code(input.byte()?).ok_or(RecordError)?;
            let mut minutes = Vec::with_capacity(MINUTES);
            for _ in 0..input.count(MINUTES)? {
                minutes.push(cell(&mut input)?);
            }
            metrics.push((metric, minutes));
        }
        input.finish()?;
        Ok(Self { utilization, metrics })
    }
}

fn cell(input: &mut Unpacker<'_>) -> Result<Option<ProfileCell>, RecordError> {
    let Some(mean) = input.optional()? else { return Ok(None) };
    let min = mean.checked_sub(input.int()?).ok_or(RecordError)?;
    let max = mean.checked_add(input.int()?).ok_or(RecordError)?;
    Ok(Some(ProfileCell { min, mean, max }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_packed_form_round_trips() {
        let mut minutes = vec![None; MINUTES];
        minutes[7] = Some(ProfileCell { min: 100, mean: 250, max: 700_000 });
        let profile = HourProfile {
            utilization: vec![(3_000_000, 60_000); MINUTES],
            metrics: vec![(Metric::PowerDraw, minutes)],
        };
        let bytes = profile.pack();
        assert_eq!(HourProfile::unpack(&bytes), Ok(profile));
        assert_eq!(HourProfile::unpack(&bytes[1..]), Err(RecordError));
    }
}
