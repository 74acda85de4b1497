//! Money: exact decimal amounts of one currency.
//!
//! An amount is an integer number of 10^-9 currency units, so sums are exact and prices per GPU-hour
//! keep their digits. The only operation that rounds is [`Money::times`], once and at its end.
//! Not here: exchange rates; two currencies never meet.

use std::fmt;
use std::str::FromStr;

/// Digits after the point.
const SCALE: usize = 9;
/// Parts of a currency unit.
const PARTS: u128 = 1_000_000_000;

/// A currency by its three letters as in ISO 4217 (`USD`, `CNY`); that it exists is not checked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Currency([u8; 3]);

/// An amount of one currency, exact to 10^-9 units.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Money {
    /// Amount in 10^-9 currency units; may be negative.
    pub nanos: i128,
    /// Of which currency.
    pub currency: Currency,
}

/// Why an amount cannot be read or computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MoneyError {
    /// A currency is not three capital letters.
    #[error("a currency is three letters A-Z")]
    Currency,
    /// The text is not a decimal number with at most nine digits after the point.
    #[error("an amount is a decimal number with at most 9 digits after the point")]
    Amount,
    /// Two currencies were added.
    #[error("{left} and {right} cannot be added")]
    Mixed {
        /// Currency of the left amount.
        left: Currency,
        /// Currency of the right amount.
        right: Currency,
    },
    /// The result does not fit.
    #[error("the amount is out of range")]
    Range,
    /// A ratio has the denominator 0.
    #[error("a ratio needs a denominator above 0")]
    Ratio,
}

impl Money {
    /// Nothing, in this currency.
    #[must_use]
    pub fn zero(currency: Currency) -> Self {
        Self { nanos: 0, currency }
    }

    /// Reads a decimal such as `2.49` or `-0.000000001` as an amount of `currency`.
    ///
    /// # Errors
    /// [`MoneyError::Amount`] for anything else, exponents, signs alone and a tenth digit after the
    /// point included; [`MoneyError::Range`] if it does not fit.
    pub fn parse(text: &str, currency: Currency) -> Result<Self, MoneyError> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !is_number(whole) || !is_number(fraction) || fraction.len() > SCALE {
            return Err(MoneyError::Amount);
        }
        let sign = if negative { "-" } else { "" };
        let nanos = format!("{sign}{whole}{fraction:0<SCALE$}").parse();
        Ok(Self { nanos: nanos.map_err(|_| MoneyError::Range)?, currency })
    }

    /// The sum of two amounts of one currency.
    ///
    /// # Errors
    /// [`MoneyError::Mixed`] for two currencies, [`MoneyError::Range`] if it does not fit.
    pub fn plus(self, other: Self) -> Result<Self, MoneyError> {
        if self.currency != other.currency {
            return Err(MoneyError::Mixed { left: self.currency, right: other.currency });
        }
        let nanos = self.nanos.checked_add(other.nanos).ok_or(MoneyError::Range)?;
        Ok(Self { nanos, ..self })
    }

    /// This amount times `numerator / denominator`, rounded once, half to even.
    ///
    /// # Errors
    /// [`MoneyError::Ratio`] for a denominator below 1, [`MoneyError::Range`] if the product does
    /// not fit.
    pub fn times(self, numerator: i64, denominator: i64) -> Result<Self, MoneyError> {
        self.times_to(i128::from(numerator), i128::from(denominator), SCALE)
    }

    /// The same, rounded once to `digits` (0 to 9, more counts as 9) after the point: what a bill
    /// shows.
    ///
    /// # Errors
    /// As [`Self::times`].
    pub fn times_to(
        self,
        numerator: i128,
        denominator: i128,
        digits: usize,
    ) -> Result<Self, MoneyError> {
        if denominator < 1 {
            return Err(MoneyError::Ratio);
        }
        let step = (digits..SCALE).fold(1_i128, |step, _| step * 10);
        let product = self.nanos.checked_mul(numerator).ok_or(MoneyError::Range)?;
        let divisor = denominator.checked_mul(step).ok_or(MoneyError::Range)?;
        let quotient = product.div_euclid(divisor);
        let rest = product.rem_euclid(divisor);
        let up = match rest.cmp(&(divisor - rest)) {
            std::cmp::Ordering::Less => 0,
            std::cmp::Ordering::Greater => 1,
            std::cmp::Ordering::Equal => quotient.rem_euclid(2),
        };
        let nanos = (quotient + up).checked_mul(step).ok_or(MoneyError::Range)?;
        Ok(Self { nanos, ..self })
    }

    /// The decimal number alone, shortest form with at least two digits after the point: `2.49`.
    #[must_use]
    pub fn amount_text(&self) -> String {
        let sign = if self.nanos < 0 { "-" } else { "" };
        let parts = self.nanos.unsigned_abs();
        let fraction = format!("{:0SCALE$}", parts % PARTS);
        let kept = fraction.trim_end_matches('0').len().max(2);
        format!("{sign}{}.{}", parts / PARTS, &fraction[..kept])
    }
}

impl fmt::Display for Money {
    /// The number and its currency: `2.49 USD`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.amount_text(), self.currency)
    }
}

impl FromStr for Money {
    type Err = MoneyError;

    /// Reads what `Display` writes.
    fn from_str(text: &str) -> Result<Self, MoneyError> {
        let (amount, currency) = text.split_once(' ').ok_or(MoneyError::Amount)?;
        Self::parse(amount, currency.parse()?)
    }
}

impl Currency {
    /// Its three letters.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl FromStr for Currency {
    type Err = MoneyError;

    fn from_str(text: &str) -> Result<Self, MoneyError> {
        match <[u8; 3]>::try_from(text.as_bytes()) {
            Ok(letters) if letters.iter().all(u8::is_ascii_uppercase) => Ok(Self(letters)),
            _ => Err(MoneyError::Currency),
        }
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Currency({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn usd(nanos: i128) -> Money {
        Money { nanos, currency: "USD".parse().unwrap() }
    }

    #[test]
    fn text_of_known_amounts() {
        assert_eq!("2.49 USD".parse(), Ok(usd(2_490_000_000)));
        assert_eq!("-0.000000001 USD".parse(), Ok(usd(-1)));
        assert_eq!(usd(2_490_000_000).to_string(), "2.49 USD");
        assert_eq!(usd(0).to_string(), "0.00 USD");
        assert_eq!(usd(-1).to_string(), "-0.000000001 USD");
        assert_eq!(usd(i128::MIN).to_string().parse(), Ok(usd(i128::MIN)));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in
            ["", "-", ".", "1.", ".5", "+1", "1e3", "1,5", "0.0000000001", "1.-5", "٣", "NaN"]
        {
            assert_eq!(Money::parse(text, usd(0).currency), Err(MoneyError::Amount), "{text}");
        }
        let long = "9".repeat(60);
        assert_eq!(Money::parse(&long, usd(0).currency), Err(MoneyError::Range));
        for text in ["usd", "US", "USDT", "U D", "ÄB"] {
            assert_eq!(text.parse::<Currency>(), Err(MoneyError::Currency), "{text}");
        }
    }

    #[test]
    fn currencies_do_not_mix_and_overflow_is_an_error() {
        let yuan = Money::zero("CNY".parse().unwrap());
        assert!(matches!(usd(1).plus(yuan), Err(MoneyError::Mixed { .. })));
        assert_eq!(usd(i128::MAX).plus(usd(1)), Err(MoneyError::Range));
        assert_eq!(usd(i128::MAX).times(2, 2), Err(MoneyError::Range));
        assert_eq!(usd(1).times(1, 0), Err(MoneyError::Ratio));
    }

    #[test]
    fn halves_go_to_even() {
        let halves = |nanos| usd(nanos).times(1, 2).unwrap().nanos;
        assert_eq!([1, 3, 5, -1, -3, -5].map(halves), [0, 2, 2, 0, -2, -2]);
        assert_eq!(usd(2).times(2, 3).unwrap().nanos, 1);
        assert_eq!(usd(-2).times(2, 3).unwrap().nanos, -1);
    }

    proptest! {
        #[test]
        fn text_round_trips(nanos in any::<i128>()) {
            prop_assert_eq!(usd(nanos).to_string().parse(), Ok(usd(nanos)));
        }

        #[test]
        fn rounding_is_off_by_half_a_part_at_most(
            nanos in -1_000_000_000_000_000_000_i128..1_000_000_000_000_000_000,
            numerator in any::<i64>(),
            denominator in 1_i64..,
        ) {
            let rounded = usd(nanos).times(numerator, denominator).unwrap().nanos;
            let exact = nanos * i128::from(numerator);
            let error = rounded * i128::from(denominator) - exact;
            prop_assert!(error.abs() * 2 <= i128::from(denominator));
            // The sign of an amount never changes how far it is rounded.
            prop_assert_eq!(usd(-nanos).times(numerator, denominator).unwrap().nanos, -rounded);
        }

        #[test]
        fn a_sum_does_not_depend_on_its_order(a in any::<i64>(), b in any::<i64>(), c in any::<i64>()) {
            let [a, b, c] = [a, b, c].map(|nanos| usd(i128::from(nanos)));
            let left = a.plus(b).unwrap().plus(c).unwrap();
            prop_assert_eq!(left, c.plus(a.plus(b).unwrap()).unwrap());
            prop_assert_eq!(a.plus(Money::zero(a.currency)), Ok(a));
        }
    }
}
