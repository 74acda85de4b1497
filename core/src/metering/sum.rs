//! Sums over hours: what days, months, nodes and fleets show.
//!
//! Aggregates are sums of milliseconds, never averages of ratios; a ratio is taken once, at the
//! end. Formulas are in `docs/METERING.md`.

use super::gap::Gaps;
use super::histogram::Histogram;
use super::ratio::{Grade, Ppm};
use super::record::HourRecord;

/// Utilization of any set of hour records.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UtilizationSum {
    /// Enrolled GPU-milliseconds.
    pub enrolled_ms: i64,
    /// Measured GPU-milliseconds by percent.
    pub histogram: Histogram,
    /// Missing GPU-milliseconds by cause.
    pub gaps: Gaps,
}

impl UtilizationSum {
    /// Adds one record.
    pub fn add(&mut self, record: &HourRecord) {
        self.enrolled_ms += record.enrolled_ms;
        self.histogram.merge(&record.histogram);
        self.gaps.merge(&record.gaps);
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        self.enrolled_ms += other.enrolled_ms;
        self.histogram.merge(&other.histogram);
        self.gaps.merge(&other.gaps);
    }

    /// Measured GPU-milliseconds.
    #[must_use]
    pub fn measured_ms(&self) -> i64 {
        self.histogram.measured_ms()
    }

    /// Mean utilization, 1,000,000 = always busy; `None`, not 0, when nothing was measured.
    #[must_use]
    pub fn mean(&self) -> Option<Ppm> {
        let measured = i128::from(self.measured_ms()) * 100;
        Ppm::of(i128::from(self.histogram.busy_pct_ms()), measured)
    }

    /// Measured share of enrolled time.
    #[must_use]
    pub fn coverage(&self) -> Option<Ppm> {
        Ppm::of(i128::from(self.measured_ms()), i128::from(self.enrolled_ms))
    }

    /// Data completeness.
    #[must_use]
    pub fn grade(&self) -> Option<Grade> {
        Grade::of(self.measured_ms(), self.enrolled_ms)
    }

    /// What the mean over enrolled time would be if every gap had been idle, and if every gap had
    /// been fully busy.
    #[must_use]
    pub fn bounds(&self) -> Option<(Ppm, Ppm)> {
        let busy = i128::from(self.histogram.busy_pct_ms());
        let enrolled = i128::from(self.enrolled_ms) * 100;
        let high = busy + i128::from(self.gaps.total_ms()) * 100;
        Some((Ppm::of(busy, enrolled)?, Ppm::of(high, enrolled)?))
    }

    /// Law M.
    #[must_use]
    pub fn is_conserved(&self) -> bool {
        self.enrolled_ms == self.measured_ms() + self.gaps.total_ms()
    }
}
