//! Utilization as a 101-bin histogram in integer milliseconds: exact, merges by addition, and
//! gives the mean and every percentile without sketches.

/// Milliseconds spent at each integer percent of utilization.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram([i64; 101]);

impl Default for Histogram {
    fn default() -> Self {
        Self([0; 101])
    }
}

impl Histogram {
    /// Adds `ms` at `percent`. Values above 100 cannot come from a decoded track; they would count
    /// as 100.
    pub fn add(&mut self, percent: u8, ms: i64) {
        self.0[usize::from(percent.min(100))] += ms;
    }

    /// Adds everything of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    /// Milliseconds in all bins: what was measured.
    #[must_use]
    pub fn measured_ms(&self) -> i64 {
        self.0.iter().sum()
    }

    /// Sum over bins of percent x milliseconds; divided by [`Self::measured_ms`] it is the mean.
    #[must_use]
    pub fn busy_pct_ms(&self) -> i64 {
        (0_i64..).zip(self.0).map(|(percent, ms)| percent * ms).sum()
    }

    /// Milliseconds at one percent value.
    #[must_use]
    pub fn ms_at(&self, percent: u8) -> i64 {
        self.0.get(usize::from(percent)).copied().unwrap_or(0)
    }

    /// Nearest-rank percentile: the smallest k whose cumulative time reaches
    /// `ceil(per_mille / 1000 x measured)`. `None` when nothing was measured.
    #[must_use]
    pub fn percentile(&self, per_mille: u16) -> Option<u8> {
        let measured = i128::from(self.measured_ms());
        if measured == 0 {
            return None;
        }
        let rank = (measured * i128::from(per_mille.min(1_000)) + 999) / 1_000;
        let mut cumulated = 0_i128;
        (0_u8..=100).zip(self.0).find_map(|(percent, ms)| {
            cumulated += i128::from(ms);
            (ms > 0 && cumulated >= rank).then_some(percent)
        })
    }

    /// Bins that hold time, ascending.
    pub fn iter(&self) -> impl Iterator<Item = (u8, i64)> + '_ {
        (0_u8..=100).zip(self.0).filter(|(_, ms)| *ms != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn percentiles_are_nearest_rank() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.percentile(500), None);
        histogram.add(0, 50);
        histogram.add(100, 50);
        assert_eq!(histogram.percentile(0), Some(0));
        assert_eq!(histogram.percentile(500), Some(0));
        assert_eq!(histogram.percentile(501), Some(100));
        assert_eq!(histogram.percentile(1_000), Some(100));
    }

    proptest! {
        #[test]
        fn percentiles_agree_with_sorting(cells in proptest::collection::vec((0_u8..=100, 1_i64..20), 1..40), per_mille in 0_u16..=1_000) {
            let mut histogram = Histogram::default();
            let mut sorted = Vec::new();
            for (percent, ms) in cells {
                histogram.add(percent, ms);
                sorted.extend((0..ms).map(|_| percent));
            }
            sorted.sort_unstable();
            let rank = (sorted.len() * usize::from(per_mille)).div_ceil(1_000).max(1);
            prop_assert_eq!(histogram.percentile(per_mille), Some(sorted[rank - 1]));
        }
    }
}
