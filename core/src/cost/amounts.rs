//! Sums of money that keep currencies apart.

use std::collections::BTreeMap;

use crate::money::{Currency, Money, MoneyError};

/// One sum for each currency.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Amounts(BTreeMap<Currency, Money>);

impl Amounts {
    /// Adds an amount to the sum of its currency.
    ///
    /// # Errors
    /// [`MoneyError::Range`] if the sum does not fit.
    pub fn add(&mut self, amount: Money) -> Result<(), MoneyError> {
        let sum = self.0.entry(amount.currency).or_insert(Money::zero(amount.currency));
        *sum = sum.plus(amount)?;
        Ok(())
    }

    /// The sum in a currency; `None` when nothing was added in it.
    #[must_use]
    pub fn of(&self, currency: Currency) -> Option<Money> {
        self.0.get(&currency).copied()
    }

    /// Every sum, by currency.
    pub fn iter(&self) -> impl Iterator<Item = Money> + '_ {
        self.0.values().copied()
    }

    /// True when nothing was added.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn currencies_stay_apart() {
        let mut sums = Amounts::default();
        for text in ["1.50 USD", "7.00 CNY", "0.25 USD"] {
            sums.add(text.parse().unwrap()).unwrap();
        }
        let texts: Vec<_> = sums.iter().map(|sum| sum.to_string()).collect();
        assert_eq!(texts, ["7.00 CNY", "1.75 USD"]);
        assert_eq!(sums.of("EUR".parse().unwrap()), None);
    }
}
