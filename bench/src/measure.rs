//! Repeated measurements: the median is the result, the spread says how far to trust it.

use std::fmt;

use anyhow::Context as _;

/// Results of the same measurement, repeated.
#[derive(Debug, Clone, Default)]
pub struct Runs(Vec<f64>);

impl Runs {
    /// No result yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Another result; one that is no number is left out.
    pub fn add(&mut self, result: f64) {
        if result.is_finite() {
            self.0.push(result);
            self.0.sort_by(f64::total_cmp);
        }
    }

    /// How many.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// The middle one, or the mean of the two in the middle; `None` without results.
    #[must_use]
    pub fn median(&self) -> Option<f64> {
        let middle = self.0.len() / 2;
        match self.0.len() % 2 {
            1 => self.0.get(middle).copied(),
            _ => Some(f64::midpoint(*self.0.get(middle.checked_sub(1)?)?, *self.0.get(middle)?)),
        }
    }

    /// The value that `per_mille` thousandths of the results do not exceed.
    #[must_use]
    pub fn percentile(&self, per_mille: usize) -> Option<f64> {
        let place = (self.0.len() * per_mille).div_ceil(1_000).saturating_sub(1);
        self.0.get(place).copied()
    }

    /// Lowest and highest.
    #[must_use]
    pub fn spread(&self) -> Option<(f64, f64)> {
        Some((*self.0.first()?, *self.0.last()?))
    }
}

impl FromIterator<f64> for Runs {
    fn from_iter<I: IntoIterator<Item = f64>>(results: I) -> Self {
        let mut runs = Self::new();
        results.into_iter().for_each(|result| runs.0.push(result));
        runs.0.retain(|result| result.is_finite());
        runs.0.sort_by(f64::total_cmp);
        runs
    }
}

impl fmt::Display for Runs {
    /// `12.3 (n 5, 11.9 to 12.8)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(median), Some((low, high))) = (self.median(), self.spread()) else {
            return f.write_str("not measured");
        };
        let show = |value: f64| short(value);
        match self.count() {
            1 => write!(f, "{} (n 1)", show(median)),
            n => write!(f, "{} (n {n}, {} to {})", show(median), show(low), show(high)),
        }
    }
}

/// Three or four digits that count; millions and thousands with a letter.
#[must_use]
pub fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 1e9 => format!("{:.2} G", value / 1e9),
        v if v >= 1e6 => format!("{:.2} M", value / 1e6),
        v if v >= 1e4 => format!("{:.1} k", value / 1e3),
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        0.0 => "0".to_owned(),
        _ => format!("{value:.4}"),
    }
}

/// A count as a number to calculate with. Exact below 2^53, which no run reaches.
#[must_use]
pub fn real(count: impl TryInto<u32> + Copy + Into<u64>) -> f64 {
    let wide: u64 = count.into();
    let (high, low) = (wide >> 32, wide & 0xffff_ffff);
    let part = |part: u64| u32::try_from(part).map_or(0.0, f64::from);
    part(high) * 4_294_967_296.0 + part(low)
}

/// [`real`] of a length.
#[must_use]
pub fn length(count: usize) -> f64 {
    real(u64::try_from(count).unwrap_or(u64::MAX))
}

/// Processor time of this thread, to a few milliseconds: what a step costs, whoever else runs on
/// the machine.
///
/// # Errors
/// When the kernel does not tell.
pub fn thread_cpu_s() -> anyhow::Result<f64> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let ns: u64 = told.split(' ').next().context("an empty schedstat")?.parse()?;
    Ok(std::time::Duration::from_nanos(ns).as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle_and_nothing_is_not_zero() {
        assert_eq!(Runs::new().median(), None);
        assert_eq!(Runs::new().to_string(), "not measured");
        let runs: Runs = [5.0, 1.0, f64::NAN, 3.0].into_iter().collect();
        assert_eq!((runs.count(), runs.median(), runs.spread()), (3, Some(3.0), Some((1.0, 5.0))));
        let mut runs: Runs = [4.0, 1.0].into_iter().collect();
        assert_eq!(runs.median(), Some(2.5));
        runs.add(f64::INFINITY);
        assert_eq!(runs.to_string(), "2.50 (n 2, 1.00 to 4.00)");
    }

    #[test]
    fn percentiles_are_results_that_were_seen() {
        let runs: Runs = (1..=200_u32).map(f64::from).collect();
        assert_eq!(runs.percentile(500), Some(100.0));
        assert_eq!(runs.percentile(990), Some(198.0));
        assert_eq!(runs.percentile(1_000), Some(200.0));
    }

    #[test]
    fn counts_become_numbers_without_loss() {
        assert!((real(0_u64)).abs() < f64::EPSILON);
        assert!((real((1_u64 << 40) + 7) - (2_f64.powi(40) + 7.0)).abs() < f64::EPSILON);
    }
}
