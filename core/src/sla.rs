//! SLA: from states of contracted time to verdicts, credits, budgets and claims.
//!
//! Invariants:
//! 1. **Two verdicts, never mixed**: what the contract counts (`dialect` of a provider's
//!    [`profile`]) and what was delivered (own objectives). A GPU that is there and bad mostly is
//!    no contract downtime.
//! 2. **Only what is proven is claimed**: credits come from proven downtime, and a verdict that
//!    unknown time could turn is *indeterminate*. No data never reads as met.
//! 3. **Facts first, then the dialect**: exact intervals are built, then a contract's minimum
//!    outage, whole minutes and buffers are applied to them; never to hour averages.
//! 4. **Rounded once**: ratios are compared exactly; money is rounded once, at its end.
//!
//! The way of a verdict: stretches of each slot (`availability`) -> what the contract counts
//! ([`dialect`]) -> one timeline of the unit of loss ([`unit`]) -> downtime of a [`window`] ->
//! [`verdict`] -> [`credit`], and [`claim`] with its deadline. [`budget`] looks at the same
//! timeline while the window runs. Terms are data, never constants of this module. Not legal
//! advice.

pub mod budget;
pub mod claim;
pub mod claim_facts;
pub mod credit;
pub mod dialect;
pub mod judgement;
pub mod profile;
pub mod unit;
pub mod verdict;
pub mod window;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod laws;

use std::fmt;

/// An availability, as parts per million of one: `999_500` is 99.95 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target(u32);

/// The text is not a percentage between 0 and 100 with at most four digits after the point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a percentage is a number from 0 to 100 with at most 4 digits after the point, as text")]
pub struct PercentError;

impl Target {
    /// One: never down.
    pub const ALWAYS: Self = Self(1_000_000);

    /// Reads a percentage such as `99.95`, without a sign and without `%`.
    ///
    /// # Errors
    /// [`PercentError`] for anything else.
    pub fn parse(text: &str) -> Result<Self, PercentError> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let number = |part: &str, max: usize| -> Option<u32> {
            let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            (digits && part.len() <= max).then(|| part.parse().ok())?
        };
        let whole = number(whole, 3).ok_or(PercentError)?;
        let parts = number(&format!("{fraction:0<4}"), 4).ok_or(PercentError)?;
        let ppm = whole * 10_000 + parts;
        if fraction.is_empty() || ppm > Self::ALWAYS.0 { Err(PercentError) } else { Ok(Self(ppm)) }
    }

    /// From parts per million; `None` above one.
    #[must_use]
    pub fn from_ppm(ppm: u32) -> Option<Self> {
        (ppm <= Self::ALWAYS.0).then_some(Self(ppm))
    }

    /// Parts per million.
    #[must_use]
    pub fn ppm(self) -> i64 {
        i64::from(self.0)
    }

    /// Whether `good_ms` of `whole_ms` reach it, compared without rounding.
    #[must_use]
    pub fn is_reached(self, good_ms: i64, whole_ms: i64) -> bool {
        i128::from(good_ms) * 1_000_000 >= i128::from(whole_ms) * i128::from(self.0)
    }

    /// How much of `whole_ms` may be down without missing it, in ms, rounded down.
    #[must_use]
    pub fn allowed_ms(self, whole_ms: i64) -> i64 {
        let allowed = i128::from(whole_ms) * i128::from(1_000_000 - self.0) / 1_000_000;
        i64::try_from(allowed).unwrap_or(i64::MAX)
    }
}

impl fmt::Display for Target {
    /// The percentage in its shortest form: `99.95`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, parts) = (self.0 / 10_000, self.0 % 10_000);
        if parts == 0 {
            return write!(f, "{whole}");
        }
        let fraction = format!("{parts:04}");
        write!(f, "{whole}.{}", fraction.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentages_are_read_exactly() {
        let ppm = |text| Target::parse(text).map(Target::ppm);
        assert_eq!(ppm("99.975"), Ok(999_750));
        assert_eq!(ppm("100"), Ok(1_000_000));
        assert_eq!(ppm("0.0001"), Ok(1));
        for text in ["", "99.", ".5", "-1", "+1", "100.0001", "99.99999", "1e2", "99,9", "99.9 %"] {
            assert_eq!(ppm(text), Err(PercentError), "{text}");
        }
        for text in ["99.975", "100", "0", "99.9", "0.0001"] {
            assert_eq!(Target::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn a_target_is_reached_without_rounding() {
        let target = Target::parse("99.9").unwrap();
        assert!(target.is_reached(999, 1_000));
        assert!(!target.is_reached(2_589_407_999, 2_592_000_000));
        assert!(target.is_reached(2_589_408_000, 2_592_000_000));
        assert_eq!(target.allowed_ms(2_592_000_000), 2_592_000);
    }
}
