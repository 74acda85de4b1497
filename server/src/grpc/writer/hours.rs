//! Which hours have to be metered again when a node's record grows.

use std::collections::BTreeSet;

use leasewatch_core::time::{Hour, Period, Timestamp};

/// Hours that one item queues at most, counted back from its end: what is kept of raw data.
const HOURS_MAX: i64 = 100 * 24;

/// The hours of `period`, those since the record ended before it, and the hour in which it ended:
/// what lies between two segments is only known when the second is there. A record that ended on
/// the hour ended in the hour before, whose last weight the second segment may hold.
pub(super) fn touched(recorded_before: Option<Timestamp>, period: Period) -> Vec<Hour> {
    let (first, last) = (period.start.hour(), period.end.hour());
    let before = recorded_before.map(|end| end.plus_ms(-1).hour());
    let from = before.map_or(first, |before| before.min(first)).0;
    let bounded = from.max(last.0.saturating_sub(HOURS_MAX - 1));
    let hours: BTreeSet<Hour> = (bounded..=last.0).map(Hour).chain(before).collect();
    hours.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touched_hours(before: Option<i64>, start: i64, end: i64) -> Vec<i64> {
        let at = |hour: i64| Hour(hour).start().plus_ms(60_000);
        let hours = touched(before.map(at), Period::new(at(start), at(end)));
        hours.into_iter().map(|hour| hour.0).collect()
    }

    #[test]
    fn the_hours_between_two_segments_are_touched_by_the_second() {
        assert_eq!(touched_hours(None, 100, 100), [100]);
        assert_eq!(touched_hours(Some(100), 100, 100), [100]);
        assert_eq!(touched_hours(Some(97), 100, 101), [97, 98, 99, 100, 101]);
    }

    #[test]
    fn data_from_before_the_record_touches_its_own_hours_and_the_end() {
        assert_eq!(touched_hours(Some(100), 90, 91), [90, 91, 100]);
    }

    #[test]
    fn a_long_silence_is_bounded_but_its_beginning_is_not_forgotten() {
        let hours = touched_hours(Some(100), 9_000, 9_000);
        assert_eq!((hours.len(), hours[0], hours[1], hours[2_400]), (2_401, 100, 6_601, 9_000));
    }

    #[test]
    fn an_end_on_the_hour_touches_the_hour_that_begins() {
        let period = Period::new(Hour(5).start(), Hour(6).start());
        assert_eq!(touched(None, period), [Hour(5), Hour(6)]);
    }

    #[test]
    fn a_record_that_ended_on_the_hour_touches_the_hour_that_ended() {
        let period = Period::new(Hour(6).start(), Hour(6).start().plus_ms(60_000));
        assert_eq!(touched(Some(Hour(6).start()), period), [Hour(5), Hour(6)]);
    }
}
