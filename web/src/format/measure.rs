//! A quantity or the reason why there is none, and the sums behind a mean.

use leasewatch_core::metering::UtilizationSum;
use leasewatch_core::sample::Reading;
use serde::Serialize;

use super::quantity::Quantity;
use crate::i18n::{Language, Text};

/// Why a value cannot be shown. It is shown in words, never as zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    /// The hardware, driver or sharing mode does not offer it.
    Unsupported,
    /// Nothing was recorded.
    NoData,
    /// The driver answered with an error.
    ReadError,
    /// The driver did not answer in time.
    NotAnswering,
}

impl Missing {
    /// Its words.
    #[must_use]
    pub fn text(self) -> Text {
        match self {
            Self::Unsupported => Text::MissingUnsupported,
            Self::NoData => Text::MissingNoData,
            Self::ReadError => Text::MissingReadError,
            Self::NotAnswering => Text::MissingNotAnswering,
        }
    }
}

/// A number of a view struct, in the unit that the field's name says, or why there is none.
/// In JSON an integer, or `{"missing": "no_data"}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
pub enum Datum {
    /// The number.
    Number(i64),
    /// The reason.
    Missing {
        /// Why there is no number.
        missing: Missing,
    },
}

impl Datum {
    /// Nothing was recorded.
    pub const NO_DATA: Self = Self::Missing { missing: Missing::NoData };

    /// The number, if there is one.
    #[must_use]
    pub fn number(self) -> Option<i64> {
        match self {
            Self::Number(value) => Some(value),
            Self::Missing { .. } => None,
        }
    }

    /// The quantity that `unit` makes of the number.
    #[must_use]
    pub fn measure(self, unit: fn(i64) -> Quantity) -> Measure {
        match self {
            Self::Number(value) => Measure::Known(unit(value)),
            Self::Missing { missing } => Measure::Missing(missing),
        }
    }
}

impl From<Reading> for Datum {
    fn from(reading: Reading) -> Self {
        let missing = match reading {
            Reading::Number(value) => return Self::Number(value),
            Reading::Unsupported => Missing::Unsupported,
            Reading::Error => Missing::ReadError,
            Reading::Stale => Missing::NotAnswering,
        };
        Self::Missing { missing }
    }
}

impl From<Option<Reading>> for Datum {
    /// `None` = never read.
    fn from(reading: Option<Reading>) -> Self {
        reading.map_or(Self::NO_DATA, Self::from)
    }
}

impl From<Option<i64>> for Datum {
    fn from(value: Option<i64>) -> Self {
        value.map_or(Self::NO_DATA, Self::Number)
    }
}

/// What stands in a cell: a quantity or a reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// A quantity.
    Known(Quantity),
    /// Why there is none.
    Missing(Missing),
}

impl Measure {
    /// The words in `language`.
    #[must_use]
    pub fn text(self, language: Language) -> String {
        match self {
            Self::Known(quantity) => quantity.text(language),
            Self::Missing(missing) => missing.text().words(language).to_owned(),
        }
    }

    /// True when there is no quantity.
    #[must_use]
    pub fn is_missing(self) -> bool {
        matches!(self, Self::Missing(_))
    }
}

impl From<Option<Quantity>> for Measure {
    fn from(quantity: Option<Quantity>) -> Self {
        quantity.map_or(Self::Missing(Missing::NoData), Self::Known)
    }
}

/// The sums behind a mean and its coverage: of one hour, a day, a fleet. Sums add up, shares do
/// not, so only this is ever added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Measured {
    /// Busy time in percent-milliseconds: the sum of k x (milliseconds at k %).
    pub busy_pct_ms: i64,
    /// Measured time.
    pub measured_ms: i64,
    /// Time that should have been measured.
    pub enrolled_ms: i64,
}

impl Measured {
    /// Mean utilization over measured time; no data when nothing was measured.
    #[must_use]
    pub fn mean(self) -> Measure {
        Quantity::share(self.busy_pct_ms, self.measured_ms.saturating_mul(100)).into()
    }

    /// Measured share of enrolled time; no data when nothing was enrolled. It says 100.0 % only
    /// when it is all of it, and 0.0 % only when it is nothing.
    #[must_use]
    pub fn coverage(self) -> Measure {
        Quantity::open_share(self.measured_ms, self.enrolled_ms).into()
    }

    /// Least and most that the mean over enrolled time can be, whatever the gaps hid.
    #[must_use]
    pub fn bounds(self) -> Option<(Quantity, Quantity)> {
        let whole = self.enrolled_ms.saturating_mul(100);
        let high = self.busy_pct_ms.saturating_add(self.gap_ms().saturating_mul(100));
        Some((Quantity::share(self.busy_pct_ms, whole)?, Quantity::share(high, whole)?))
    }

    /// Measured GPU-hours.
    #[must_use]
    pub fn measured_hours(self) -> Measure {
        if self.enrolled_ms > 0 {
            Measure::Known(Quantity::gpu_hours_ms(self.measured_ms))
        } else {
            Measure::Missing(Missing::NoData)
        }
    }

    /// Enrolled time without a measurement.
    #[must_use]
    pub fn gap_ms(self) -> i64 {
        self.enrolled_ms.saturating_sub(self.measured_ms).max(0)
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            busy_pct_ms: self.busy_pct_ms.saturating_add(other.busy_pct_ms),
            measured_ms: self.measured_ms.saturating_add(other.measured_ms),
            enrolled_ms: self.enrolled_ms.saturating_add(other.enrolled_ms),
        }
    }
}

impl From<&UtilizationSum> for Measured {
    fn from(sum: &UtilizationSum) -> Self {
        Self {
            busy_pct_ms: sum.histogram.busy_pct_ms(),
            measured_ms: sum.measured_ms(),
            enrolled_ms: sum.enrolled_ms,
        }
    }
}

impl std::iter::Sum for Measured {
    fn sum<I: Iterator<Item = Self>>(items: I) -> Self {
        items.fold(Self::default(), Self::plus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_measured_is_no_data_and_not_zero() {
        let gap = Measured { busy_pct_ms: 0, measured_ms: 0, enrolled_ms: 3_600_000 };
        assert_eq!(gap.mean(), Measure::Missing(Missing::NoData));
        assert_eq!(gap.coverage().text(Language::En), "0.0\u{202f}%");
        assert_eq!(Measured::default().coverage(), Measure::Missing(Missing::NoData));
        assert_eq!(Measured::default().bounds(), None);
    }

    #[test]
    fn coverage_is_full_only_when_it_is() {
        let text = |measured_ms| {
            let hour = Measured { busy_pct_ms: 0, measured_ms, enrolled_ms: 3_600_000 };
            hour.coverage().text(Language::En).replace('\u{202f}', " ")
        };
        assert_eq!(text(3_600_000), "100.0 %");
        assert_eq!(text(3_599_999), "99.9 %");
        assert_eq!(text(1), "0.1 %");
        assert_eq!(text(0), "0.0 %");
    }

    #[test]
    fn bounds_hold_the_gap() {
        let hour = Measured {
            busy_pct_ms: 1_800_000 * 100,
            measured_ms: 2_700_000,
            enrolled_ms: 3_600_000,
        };
        let (low, high) = hour.bounds().unwrap();
        assert_eq!(low.text(Language::En), "50.0\u{202f}%");
        assert_eq!(high.text(Language::En), "75.0\u{202f}%");
    }

    #[test]
    fn sums_add_up_where_ratios_would_not() {
        let full =
            Measured { busy_pct_ms: 360_000_000, measured_ms: 3_600_000, enrolled_ms: 3_600_000 };
        let minute = Measured { busy_pct_ms: 0, measured_ms: 60_000, enrolled_ms: 3_600_000 };
        let both: Measured = [full, minute].into_iter().sum();
        assert_eq!(both.mean().text(Language::En), "98.4\u{202f}%");
        assert_eq!(both.coverage().text(Language::En), "50.8\u{202f}%");
    }

    #[test]
    fn a_reading_keeps_its_reason() {
        for (reading, words) in [
            (Reading::Unsupported, "硬件不支持"),
            (Reading::Error, "读取出错"),
            (Reading::Stale, "驱动无响应"),
        ] {
            let measure = Datum::from(reading).measure(Quantity::percent);
            assert_eq!(measure.text(Language::ZhCn), words);
        }
        let json = serde_json::to_string(&[Datum::Number(0), Datum::NO_DATA]).unwrap();
        assert_eq!(json, r#"[0,{"missing":"no_data"}]"#);
    }
}
