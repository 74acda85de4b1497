//! The last check before a reading leaves the sampler: in range, and a multiple of its resolution.
//!
//! Pure. A number that cannot be true becomes `Error` and is counted; it is not clamped, because a
//! clamped number would look measured.

use leasewatch_core::sample::{Metric, Reading};

/// The name under which implausible utilization is counted.
pub(super) const TRACK_NAME: &str = "busy_pct";

/// A reading as it may be recorded; `None` when it was an implausible number.
pub(super) fn recordable(metric: Metric, reading: Reading) -> Option<Reading> {
    let Reading::Number(value) = reading else { return Some(reading) };
    let range = metric.lowest()..=metric.highest();
    let rounded = reading.rounded_to(metric.resolution()).number()?;
    let step = metric.resolution();
    let fits = range.contains(&value) && range.contains(&rounded) && rounded.rem_euclid(step) == 0;
    fits.then_some(Reading::Number(rounded))
}

/// The same for a point of the track, in percent.
pub(super) fn recordable_busy(reading: Reading) -> Option<Reading> {
    match reading {
        Reading::Number(busy) => (0..=100).contains(&busy).then_some(reading),
        reason => Some(reason),
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
