//! The values of a series by buckets, in finished words, for the reading of a crosshair.
//!
//! The browser formats nothing: it shows the word of the bucket that the crosshair is in. Words are
//! separated by `|`; none stands where there is no value.

use super::point::{Band, Grid, Point};
use leasewatch_core::time::Period;

/// The word of each bucket. Between two readings of a metric that is read more rarely than a
/// bucket is wide, the earlier one is said; after a break, nothing.
#[must_use]
pub fn series_words(points: &[Point], grid: Grid, say: impl Fn(Band) -> String) -> String {
    let mut columns: Vec<Option<Band>> = vec![None; grid.columns()];
    let mut inside = points.iter().filter_map(|point| Some((grid.column(point.at)?, point.band)));
    let mut now = inside.next();
    while let Some((column, band)) = now {
        now = inside.next();
        let until = now.map_or(column + 1, |(next, _)| next.max(column + 1));
        if let (Some(_), Some(held)) = (band, columns.get_mut(column..until)) {
            held.fill(band);
        }
    }
    joined(columns.into_iter().map(|band| band.map(&say)))
}

/// The word of each bucket whose middle lies in a stretch.
#[must_use]
pub fn lane_words(stretches: &[(Period, i64)], grid: Grid, say: impl Fn(i64) -> String) -> String {
    let mut rest = stretches.iter().peekable();
    let mut words = Vec::with_capacity(grid.columns());
    for column in 0..grid.columns() {
        let middle = grid.start(column).plus_ms(grid.bucket_ms / 2);
        while rest.next_if(|(period, _)| period.end <= middle).is_some() {}
        let here = rest.peek().filter(|(period, _)| period.contains(middle));
        words.push(here.map(|(_, share)| say(*share)));
    }
    joined(words.into_iter())
}

/// A word for each bucket.
#[must_use]
pub fn column_words(grid: Grid, say: impl Fn(usize) -> String) -> String {
    joined((0..grid.columns()).map(|column| Some(say(column))))
}

fn joined(words: impl Iterator<Item = Option<String>>) -> String {
    let words: Vec<String> = words.map(|word| word.unwrap_or_default().replace('|', "/")).collect();
    words.join("|")
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasewatch_core::time::Timestamp;

    fn point(at: i64, value: Option<i64>) -> Point {
        let band = value.map(|v| Band { min: v, mean: v, max: v });
        Point { at: Timestamp(at * 1_000), band }
    }

    #[test]
    fn a_rare_reading_is_held_and_a_break_is_not() {
        let period = Period::new(Timestamp(0), Timestamp(8_000));
        let grid = Grid { period, bucket_ms: 1_000 };
        let points = [
            point(1, Some(5)),
            point(3, Some(6)),
            point(4, None),
            point(5, Some(0)),
            point(9, Some(7)),
        ];
        let words = series_words(&points, grid, |band| band.mean.to_string());
        assert_eq!(words, "|5|5|6||0||");
        assert_eq!(series_words(&[], grid, |_| String::new()), "|||||||");
    }

    #[test]
    fn a_lane_speaks_in_its_stretches() {
        let second =
            |from: i64, to: i64| Period::new(Timestamp(from * 1_000), Timestamp(to * 1_000));
        let grid = Grid { period: second(0, 6), bucket_ms: 1_000 };
        let words = lane_words(&[(second(1, 2), 10), (second(2, 4), 20)], grid, |s| s.to_string());
        assert_eq!(words, "|10|20|20||");
        assert_eq!(column_words(grid, |column| column.to_string()), "0|1|2|3|4|5");
    }
}
