//! The last check before a reading leaves the sampler: in range, and a multiple of its resolution.
//!
//! Pure. A number that cannot be true becomes `Error` and is counted; it is not clamped, because a
//! clamped number would look measured.

use std::collections::BTreeMap;

use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::EventKind;

/// The name under which implausible utilization is counted.
const TRACK_NAME: &str = "busy_pct";

/// A reading as it may be recorded; `None` when it was an implausible number.
fn recordable(metric: Metric, reading: Reading) -> Option<Reading> {
    let Reading::Number(value) = reading else { return Some(reading) };
    let range = metric.lowest()..=metric.highest();
    let rounded = reading.rounded_to(metric.resolution()).number()?;
    let step = metric.resolution();
    let fits = range.contains(&value) && range.contains(&rounded) && rounded.rem_euclid(step) == 0;
    fits.then_some(Reading::Number(rounded))
}

/// The same for a point of the track, in percent.
fn recordable_busy(reading: Reading) -> Option<Reading> {
    match reading {
        Reading::Number(busy) => (0..=100).contains(&busy).then_some(reading),
        reason => Some(reason),
    }
}

/// Counts of implausible numbers by name, between two tellings.
#[derive(Debug, Default)]
pub(super) struct Implausible(BTreeMap<&'static str, i64>);

impl Implausible {
    /// Readings as they may be recorded.
    pub(super) fn readings(&mut self, read: Vec<(Metric, Reading)>) -> Vec<(Metric, Reading)> {
        let mut checked = |metric: Metric, reading| {
            (metric, self.counted(recordable(metric, reading), metric.name()))
        };
        read.into_iter().map(|(metric, reading)| checked(metric, reading)).collect()
    }

    /// Points of the track that are newer than the last one, which they become.
    pub(super) fn points(
        &mut self,
        read: Vec<(i64, Reading)>,
        last_ms: &mut i64,
    ) -> Vec<(i64, Reading)> {
        let mut points = Vec::with_capacity(read.len());
        for (at, busy) in read {
            let busy = self.counted(recordable_busy(busy), TRACK_NAME);
            if at > *last_ms {
                *last_ms = at;
                points.push((at, busy));
            }
        }
        points
    }

    /// Events that tell the counts, which begin anew.
    pub(super) fn take(&mut self) -> Vec<EventKind> {
        let counts = std::mem::take(&mut self.0).into_iter();
        counts
            .map(|(metric, count)| EventKind::ReadingsDropped { metric: metric.to_owned(), count })
            .collect()
    }

    fn counted(&mut self, checked: Option<Reading>, name: &'static str) -> Reading {
        checked.unwrap_or_else(|| {
            *self.0.entry(name).or_default() += 1;
            Reading::Error
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_range_are_rounded() {
        let number = Reading::Number;
        assert_eq!(recordable(Metric::PowerDraw, number(311_649)), Some(number(311_600)));
        assert_eq!(recordable(Metric::Temperature, number(-20)), Some(number(-20)));
        assert_eq!(recordable(Metric::ClockEventReasons, number(0x400)), Some(number(0x400)));
    }

    #[test]
    fn implausible_numbers_are_no_readings() {
        for (metric, value) in [
            (Metric::MemoryBusy, 101),
            (Metric::PowerDraw, 10_000_001),
            (Metric::PowerDraw, -1),
            (Metric::Temperature, 201),
            (Metric::MemoryTemperature, 255),
            (Metric::SmClock, i64::MAX),
            (Metric::Energy, i64::MAX),
        ] {
            assert_eq!(recordable(metric, Reading::Number(value)), None, "{metric} {value}");
        }
        for busy in [-1, 101, i64::MAX] {
            assert_eq!(recordable_busy(Reading::Number(busy)), None);
        }
    }

    #[test]
    fn reasons_pass_unchanged() {
        for reason in [Reading::Unsupported, Reading::Error, Reading::Stale] {
            assert_eq!(recordable(Metric::PowerDraw, reason), Some(reason));
            assert_eq!(recordable_busy(reason), Some(reason));
        }
    }
}
