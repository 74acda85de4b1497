//! Ratios as integers: parts per million, rounded half to even once, at the end.

/// A ratio in parts per million.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Ppm(pub i64);

impl Ppm {
    /// One.
    pub const ONE: Self = Self(1_000_000);

    /// `numerator / denominator`; `None` for a denominator of zero or below, because a ratio of
    /// nothing is not zero.
    #[must_use]
    pub fn of(numerator: i128, denominator: i128) -> Option<Self> {
        if denominator <= 0 {
            return None;
        }
        i64::try_from(divide_half_even(numerator * 1_000_000, denominator)).ok().map(Self)
    }
}

/// `numerator / denominator` rounded half to even; `denominator` must be above zero.
#[must_use]
pub fn divide_half_even(numerator: i128, denominator: i128) -> i128 {
    let quotient = numerator.div_euclid(denominator);
    let twice_rest = numerator.rem_euclid(denominator) * 2;
    let up = match twice_rest.cmp(&denominator) {
        std::cmp::Ordering::Less => 0,
        std::cmp::Ordering::Equal => quotient.rem_euclid(2),
        std::cmp::Ordering::Greater => 1,
    };
    quotient + up
}

/// Data completeness: how much of the enrolled time was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Grade {
    /// At least 99 %.
    A,
    /// At least 95 %.
    B,
    /// At least 80 %.
    C,
    /// Below; printed, but not offered as utilization evidence.
    D,
}

impl Grade {
    /// The grade of `measured_ms` out of `enrolled_ms`, compared without rounding; `None` when
    /// nothing was enrolled.
    #[must_use]
    pub fn of(measured_ms: i64, enrolled_ms: i64) -> Option<Self> {
        if enrolled_ms <= 0 {
            return None;
        }
        let at_least =
            |percent: i128| i128::from(measured_ms) * 100 >= i128::from(enrolled_ms) * percent;
        Some(match () {
            () if at_least(99) => Self::A,
            () if at_least(95) => Self::B,
            () if at_least(80) => Self::C,
            () => Self::D,
        })
    }

    /// `A` to `D`.
    #[must_use]
    pub fn letter(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::C => "C",
            Self::D => "D",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_of_nothing_is_not_a_number() {
        assert_eq!(Ppm::of(0, 0), None);
        assert_eq!(Ppm::of(1, 3), Some(Ppm(333_333)));
        assert_eq!(Ppm::of(2, 3), Some(Ppm(666_667)));
        assert_eq!(Ppm::of(1, 2_000_000), Some(Ppm(0)));
        assert_eq!(Ppm::of(3, 2_000_000), Some(Ppm(2)));
    }

    #[test]
    fn grades_change_at_their_edges_exactly() {
        let grade = |measured| Grade::of(measured, 3_600_000).map(Grade::letter);
        assert_eq!(grade(3_564_000), Some("A"));
        assert_eq!(grade(3_563_999), Some("B"));
        assert_eq!(grade(3_420_000), Some("B"));
        assert_eq!(grade(3_419_999), Some("C"));
        assert_eq!(grade(2_879_999), Some("D"));
        assert_eq!(Grade::of(0, 0), None);
    }
}
