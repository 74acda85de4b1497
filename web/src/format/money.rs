//! Amounts as people read them: two digits, grouped, with their currency.

use leasewatch_core::money::Money;

use super::{div_half_even, group};

/// `1,234.50 USD`, rounded half to even to hundredths. Exports have every digit.
#[must_use]
pub fn money(amount: Money) -> String {
    let cents = div_half_even(amount.nanos, 10_000_000);
    let sign = if cents < 0 { "\u{2212}" } else { "" };
    let whole = group(cents.unsigned_abs() / 100);
    format!("{sign}{whole}.{:02}\u{a0}{}", cents.unsigned_abs() % 100, amount.currency)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_rounded_once_and_grouped() {
        let text = |amount: &str| money(amount.parse().unwrap());
        assert_eq!(text("1234567.895 USD"), "1,234,567.90\u{a0}USD");
        assert_eq!(text("0.005 CNY"), "0.00\u{a0}CNY");
        assert_eq!(text("-12.5 CNY"), "\u{2212}12.50\u{a0}CNY");
    }
}
