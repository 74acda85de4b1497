//! What a range is shown from, and on which grid.

use leasewatch_core::time::{DAY_MS, HOUR_MS, Period, Timestamp};
use leasewatch_web::pages::gpu::Detail;

/// The longest range that is shown from single readings.
const READINGS_MS_MAX: i64 = 6 * HOUR_MS;
/// The longest range that is shown from minutes.
const MINUTES_MS_MAX: i64 = 14 * DAY_MS;
/// The most buckets of a range.
const BUCKETS_MAX: i64 = 420;
const MINUTE_MS: i64 = 60_000;

/// Widths of a bucket of single readings, in milliseconds.
const READING_STEPS: [i64; 13] =
    [100, 200, 300, 500, 1_000, 2_000, 3_000, 5_000, 10_000, 15_000, 20_000, 30_000, 60_000];
/// Widths of a bucket of minutes, in minutes.
const MINUTE_STEPS: [i64; 9] = [1, 2, 3, 5, 10, 15, 20, 30, 60];
/// Widths of a bucket of hours, in hours.
const HOUR_STEPS: [i64; 9] = [1, 2, 3, 4, 6, 8, 12, 24, 48];

/// A range on a grid of buckets that begin with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) range: Period,
    pub(super) detail: Detail,
    pub(super) bucket_ms: i64,
}

impl Plan {
    /// The finest detail that a range of this length is shown in.
    pub(super) fn detail_of(period: Period) -> Detail {
        if period.ms() <= READINGS_MS_MAX {
            Detail::Readings
        } else if period.ms() <= MINUTES_MS_MAX {
            Detail::Minutes
        } else {
            Detail::Hours
        }
    }

    /// The grid of a period that is not empty. From minutes and hours it is shown in whole ones:
    /// it is widened to their edges, but never beyond `latest`.
    pub(super) fn of(period: Period, detail: Detail, latest: Timestamp) -> Self {
        let (unit, steps): (i64, &[i64]) = match detail {
            Detail::Readings => (1, &READING_STEPS),
            Detail::Minutes => (MINUTE_MS, &MINUTE_STEPS),
            Detail::Hours => (HOUR_MS, &HOUR_STEPS),
        };
        let floor = |at: Timestamp| at.0.div_euclid(unit) * unit;
        let end = Timestamp(floor(period.end.plus_ms(unit - 1)));
        let range = Period::new(Timestamp(floor(period.start)), end.min(latest).max(period.end));
        let fits = |step: &&i64| range.ms() <= **step * unit * BUCKETS_MAX;
        let step = steps.iter().find(fits).or(steps.last()).copied().unwrap_or(1);
        Self { range, detail, bucket_ms: step * unit }
    }

    /// How many buckets there are.
    pub(super) fn count(self) -> usize {
        let whole = self.range.ms().saturating_add(self.bucket_ms - 1) / self.bucket_ms;
        usize::try_from(whole).unwrap_or(0)
    }

    /// The bucket that holds an instant of the range.
    pub(super) fn index(self, at: Timestamp) -> Option<usize> {
        let inside = self.range.contains(at);
        let index = usize::try_from(at.since(self.range.start) / self.bucket_ms).ok()?;
        inside.then_some(index)
    }

    /// The bucket's time within the range.
    pub(super) fn bucket(self, index: usize) -> Period {
        let offset = i64::try_from(index).unwrap_or(0).saturating_mul(self.bucket_ms);
        let start = self.range.start.plus_ms(offset);
        Period::new(start, start.plus_ms(self.bucket_ms)).intersect(self.range)
    }

    /// The parts of a period by bucket.
    pub(super) fn parts(self, period: Period) -> impl Iterator<Item = (usize, Period)> {
        let inside = period.intersect(self.range);
        let first = if inside.is_empty() { None } else { self.index(inside.start) };
        let buckets = first.into_iter().flat_map(move |first| first..self.count());
        let parts = buckets.map(move |index| (index, self.bucket(index).intersect(inside)));
        parts.take_while(|(_, part)| !part.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn plan(start: i64, ms: i64) -> Plan {
        let period = Period::new(Timestamp(start), Timestamp(start + ms));
        Plan::of(period, Plan::detail_of(period), Timestamp(start + ms))
    }

    #[test]
    fn presets_get_round_buckets() {
        let start = 495_900 * HOUR_MS;
        let widths = [900_000, HOUR_MS, 6 * HOUR_MS, DAY_MS, 7 * DAY_MS, 30 * DAY_MS, 365 * DAY_MS]
            .map(|ms| (plan(start, ms).detail, plan(start, ms).bucket_ms));
        assert_eq!(
            widths,
            [
                (Detail::Readings, 3_000),
                (Detail::Readings, 10_000),
                (Detail::Readings, 60_000),
                (Detail::Minutes, 300_000),
                (Detail::Minutes, 1_800_000),
                (Detail::Hours, 2 * HOUR_MS),
                (Detail::Hours, 24 * HOUR_MS),
            ]
        );
    }

    proptest! {
        #[test]
        fn buckets_cover_the_range_end_to_end_and_are_few(
            start in 946_684_800_000_i64..4_000_000_000_000,
            ms in prop_oneof![1_i64..100_000, 100_000_i64..2_000_000_000, 1_i64..731 * DAY_MS],
        ) {
            let plan = plan(start, ms);
            prop_assert!(plan.count() <= 421, "{plan:?}");
            prop_assert!(plan.range.start.0 <= start && plan.range.end.0 == start + ms);
            let parts: Vec<_> = plan.parts(plan.range).collect();
            prop_assert_eq!(parts.len(), plan.count());
            let mut at = plan.range.start;
            for (index, part) in parts {
                prop_assert_eq!(part.start, at);
                prop_assert_eq!(plan.index(part.start), Some(index));
                at = part.end;
            }
            prop_assert_eq!(at, plan.range.end);
        }
    }
}
