//! A bill against terms, sessions and proven down time: every difference with its amount.
//!
//! The law, in each currency: `sum of differences = billed - (expected - dead)`, where `expected` is
//! what the terms charge in the time of the bill and `dead` its part for time that was proven
//! down. Whether down time has to be paid is for the contract to say; it is listed, and kept apart.
//!
//! A line is taken apart in one order, each step against the one before: quantity times rate, the
//! price in the terms, billed time in the terms, down time. So nothing is counted twice.

mod account;

use crate::id::Slug;
use crate::money::{Money, MoneyError};
use crate::time::Period;

use super::read::{BillLine, QuantityUnit};
use crate::cost::amounts::Amounts;
use crate::cost::billed::Billable;
use account::Account;

/// What a difference is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DifferenceKind {
    /// Billed although it was proven down.
    Dead,
    /// Billed after the lease's end or release.
    AfterRelease,
    /// Billed outside of billing sessions, or before the lease's start.
    OutsideSession,
    /// Another price than in the terms.
    Price,
    /// Quantity times rate is not the amount.
    Arithmetic,
    /// Rounded to another unit than in the terms, or to the cent.
    Rounding,
    /// The same time is billed twice.
    Double,
    /// No lease has this key.
    UnknownLease,
    /// Charged by the terms, and no line bills it.
    MissingLine,
    /// More time than there was, for no reason above.
    MoreTime,
    /// Less time than the terms charge.
    LessTime,
    /// Fees that are not for GPUs.
    Fee,
    /// The terms have no price for this time.
    NoPrice,
    /// The lease is paid in another currency.
    OtherCurrency,
}

/// A lease that a bill may be about.
#[derive(Debug, Clone, Copy)]
pub struct BilledLease<'a> {
    /// Its name.
    pub name: &'a Slug,
    /// What bills may call it: its name, the instance's id, the machine, the order.
    pub keys: &'a [&'a str],
    /// Its terms and sessions.
    pub billable: Billable<'a>,
    /// Time that was proven down, one stretch for each slot.
    pub down: &'a [Period],
}

/// A difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The line of the bill; `None` where no line is meant.
    pub line: Option<u64>,
    /// The lease; `None` where none is known.
    pub lease: Option<Slug>,
    /// What it is.
    pub kind: DifferenceKind,
    /// When.
    pub period: Period,
    /// How much more was billed than is due; negative: less.
    pub amount: Money,
}

/// A bill and what was expected.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Comparison {
    /// What was billed.
    pub billed: Amounts,
    /// What the terms charge from the bill's first to its last moment.
    pub expected: Amounts,
    /// Of billed and expected time, what was proven down.
    pub dead: Amounts,
    /// In the order of lines, then of leases.
    pub differences: Vec<Difference>,
}

/// Compares a bill's lines with the leases of its provider. `with_tax`: the bill's amounts and
/// rates include tax.
///
/// # Errors
/// [`MoneyError::Range`] for amounts beyond all reason.
pub fn compare(
    lines: &[BillLine],
    leases: &[BilledLease<'_>],
    with_tax: bool,
) -> Result<Comparison, MoneyError> {
    let mut found = Comparison::default();
    let bounds = |pick: fn(&BillLine) -> Period| lines.iter().map(pick);
    let start = bounds(|line| line.period).map(|period| period.start).min();
    let end = bounds(|line| line.period).map(|period| period.end).max();
    let Some(window) = start.zip(end).map(|(start, end)| Period::new(start, end)) else {
        return Ok(found);
    };
    let mut accounts = leases
        .iter()
        .map(|lease| Account::open(lease, with_tax))
        .collect::<Result<Vec<_>, MoneyError>>()?;
    for line in lines {
        found.billed.add(line.amount)?;
        let wanted = |account: &&mut Account<'_>| account.lease.keys.contains(&line.key.as_str());
        match accounts.iter_mut().find(wanted) {
            None => found.whole(line, None, DifferenceKind::UnknownLease),
            Some(account) if account.charges.currency != line.amount.currency => {
                found.whole(line, Some(account.lease.name), DifferenceKind::OtherCurrency);
            }
            Some(account) if line.quantity.is_some_and(|q| q.unit == QuantityUnit::Other) => {
                account.fees_billed = account.fees_billed.plus(line.amount)?;
                account.fee_line = account.fee_line.or(Some(line.line));
            }
            Some(account) => account.line(line, &mut found)?,
        }
    }
    for account in &mut accounts {
        account.close(window, &mut found)?;
    }
    Ok(found)
}

impl Comparison {
    /// A line that is a difference as a whole.
    fn whole(&mut self, line: &BillLine, lease: Option<&Slug>, kind: DifferenceKind) {
        self.differences.push(Difference {
            line: Some(line.line),
            lease: lease.cloned(),
            kind,
            period: line.period,
            amount: line.amount,
        });
    }
}

impl DifferenceKind {
    /// Every kind.
    pub const ALL: [Self; 14] = [
        Self::Dead,
        Self::AfterRelease,
        Self::OutsideSession,
        Self::Price,
        Self::Arithmetic,
        Self::Rounding,
        Self::Double,
        Self::UnknownLease,
        Self::MissingLine,
        Self::MoreTime,
        Self::LessTime,
        Self::Fee,
        Self::NoPrice,
        Self::OtherCurrency,
    ];

    /// Its name in exports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Dead => "billed_while_down",
            Self::AfterRelease => "after_release",
            Self::OutsideSession => "outside_session",
            Self::Price => "price",
            Self::Arithmetic => "arithmetic",
            Self::Rounding => "rounding",
            Self::Double => "double",
            Self::UnknownLease => "unknown_lease",
            Self::MissingLine => "missing_line",
            Self::MoreTime => "more_time",
            Self::LessTime => "less_time",
            Self::Fee => "fee",
            Self::NoPrice => "no_price",
            Self::OtherCurrency => "other_currency",
        }
    }
}

#[cfg(test)]
mod tests;
