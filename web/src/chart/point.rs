//! Values over time on a common grid of buckets.

use std::fmt;

use leasewatch_core::time::{Period, Timestamp};
use serde::Serialize;

use crate::format::div_half_even;
use crate::markup::Milli;
use crate::wire;

/// Least, mean and most of a point, in the chart's base unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Band {
    /// The least value.
    pub min: i64,
    /// The mean.
    pub mean: i64,
    /// The most.
    pub max: i64,
}

/// What is known of a bucket; `None` where there is nothing, which breaks the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Point {
    /// Where the bucket begins.
    #[serde(serialize_with = "wire::at")]
    pub at: Timestamp,
    /// What.
    pub band: Option<Band>,
}

/// The time axis that all charts of a page share.
#[derive(Debug, Clone, Copy)]
pub struct Grid {
    /// What the width stands for.
    pub period: Period,
    /// Width of a bucket; buckets begin at multiples of it since the period's start.
    pub bucket_ms: i64,
}

impl Grid {
    /// How many buckets the period touches.
    #[must_use]
    pub fn columns(self) -> usize {
        let bucket = self.bucket_ms.max(1);
        usize::try_from(self.period.ms() / bucket + i64::from(self.period.ms() % bucket > 0))
            .unwrap_or(0)
    }

    /// The bucket of an instant; `None` outside of the period.
    #[must_use]
    pub fn column(self, at: Timestamp) -> Option<usize> {
        let index = at.since(self.period.start) / self.bucket_ms.max(1);
        self.period.contains(at).then(|| usize::try_from(index).ok())?
    }

    /// Where a bucket begins.
    #[must_use]
    pub fn start(self, column: usize) -> Timestamp {
        let ms = self.bucket_ms.max(1).saturating_mul(i64::try_from(column).unwrap_or(i64::MAX));
        self.period.start.plus_ms(ms)
    }

    /// The width of a drawing whose unit is half a bucket, so that the middles of buckets are
    /// whole numbers.
    pub(super) fn width(self) -> Milli {
        let halves = i128::from(self.period.ms()) * 2_000;
        Milli(div_half_even(halves, self.bucket_ms.max(1).into()))
    }

    /// The middle of a bucket in that unit.
    pub(super) fn middle(self, column: usize) -> i64 {
        i64::try_from(column).unwrap_or(i64::MAX / 4).saturating_mul(2).saturating_add(1)
    }

    /// The place of an instant as a share of the width.
    pub(super) fn place(self, at: Timestamp) -> Part {
        let part = i128::from(at.since(self.period.start)) * 100_000;
        Part(div_half_even(part, self.period.ms().max(1).into()).clamp(0, 100_000))
    }
}

/// A length of a drawing that fills its place, in thousandths of a percent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part(pub(super) i64);

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Milli(self.0).fmt(f)?;
        f.write_str("%")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_instant_has_its_bucket(
            start in 0_i64..1_000_000,
            ms in 1_i64..100_000,
            bucket_ms in 1_i64..7_000,
            at in 0_i64..100_000,
        ) {
            let period = Period::new(Timestamp(start), Timestamp(start + ms));
            let grid = Grid { period, bucket_ms };
            let at = Timestamp(start + at);
            match grid.column(at) {
                Some(column) => {
                    prop_assert!(column < grid.columns());
                    prop_assert!(grid.start(column) <= at && at < grid.start(column + 1));
                }
                None => prop_assert!(!period.contains(at)),
            }
        }
    }
}
