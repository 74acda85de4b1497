//! A bill against terms, sessions and proven down time: every difference with its amount.
//!
//! The law, in each currency: `sum of differences = billed - (expected - dead)`, where `expected` is
//! what the terms charge in the time of the bill and `dead` its part for time that was proven
//! down. Whether down time has to be paid is for the contract to say; it is listed, and kept apart.
//!
//! A line is taken apart in one order, each step against the one before: quantity times rate, the
//! price in the terms, billed time in the terms, down time. So nothing is counted twice.

use crate::id::Slug;
use crate::lease::{BillingUnit, PriceUnit};
use crate::metering::divide_half_even;
use crate::money::{Money, MoneyError};
use crate::time::{HOUR_MS, Period};

use super::read::{BillLine, Quantity, QuantityUnit};
use crate::cost::amounts::Amounts;
use crate::cost::billed::{Billable, Charges};
use crate::cost::stretch::{billing_months, ms_within, total_ms, union, without};

/// A difference below half a cent is the rounding of an amount.
const CRUMB_NANOS: i128 = 5_000_000;
/// Time that differs by less than a minute is the rounding of a quantity.
const CRUMB_MS: i64 = 60_000;
/// 10^-9.
const NANO: i128 = 1_000_000_000;

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

/// What is known of a lease while its lines are gone through.
struct Account<'a> {
    lease: &'a BilledLease<'a>,
    charges: Charges,
    with_tax: bool,
    /// What lines have billed so far, in order and without touching.
    covered: Vec<Period>,
    /// What would be billed in other units.
    roundings: Vec<Vec<Period>>,
    fees_billed: Money,
    fee_line: Option<u64>,
}

/// What the terms say of a stretch: what it costs, and its billed milliseconds.
#[derive(Clone, Copy)]
struct Due {
    nanos: i128,
    ms: i64,
}

impl<'a> Account<'a> {
    fn open(lease: &'a BilledLease<'a>, with_tax: bool) -> Result<Self, MoneyError> {
        let charges = lease.billable.charges()?;
        let units = [
            BillingUnit::Second,
            BillingUnit::Minute,
            BillingUnit::StartedHour,
            BillingUnit::PrepaidHour,
        ];
        let rounded = units.map(|unit| {
            let mut terms = lease.billable.terms.clone();
            terms.billing.unit = unit;
            Billable { terms: &terms, ..lease.billable }.billed()
        });
        Ok(Self {
            lease,
            fees_billed: Money::zero(charges.currency),
            charges,
            with_tax,
            covered: Vec::new(),
            roundings: rounded.into(),
            fee_line: None,
        })
    }

    fn money(&self, nanos: i128) -> Money {
        Money { nanos, currency: self.charges.currency }
    }

    /// As the bill would show it.
    fn shown(&self, net: Money) -> Result<i128, MoneyError> {
        let ppm = self.charges.tax_ppm.filter(|_| self.with_tax).map_or(0, i64::from);
        Ok(net.plus(net.times(ppm, 1_000_000)?)?.nanos)
    }

    fn due(&self, parts: &[Period]) -> Result<Due, MoneyError> {
        let mut due = Due { nanos: 0, ms: 0 };
        for part in parts {
            due.nanos += self.shown(self.charges.gpus_within(*part))?;
            due.ms += self.charges.billed_ms(*part);
        }
        Ok(due)
    }

    fn line(&mut self, line: &BillLine, found: &mut Comparison) -> Result<(), MoneyError> {
        let own = without(line.period, &self.covered);
        let due = self.due(&own)?;
        found.expected.add(self.money(due.nanos))?;
        let unpriced = |parts: &[Period]| parts.iter().any(|p| self.charges.unpriced_ms(*p) > 0);
        if due.nanos == 0 && unpriced(&own) {
            found.whole(line, Some(self.lease.name), DifferenceKind::NoPrice);
        } else {
            self.steps(line, &own, due, found)?;
        }
        self.covered = union(self.covered.iter().copied().chain([line.period]));
        Ok(())
    }

    /// From the billed amount to the expected one, one step for each kind.
    fn steps(
        &self,
        line: &BillLine,
        own: &[Period],
        due: Due,
        found: &mut Comparison,
    ) -> Result<(), MoneyError> {
        let mut note = |kind, nanos: i128| {
            if nanos != 0 {
                found.differences.push(Difference {
                    line: Some(line.line),
                    lease: Some(self.lease.name.clone()),
                    kind,
                    period: line.period,
                    amount: self.money(nanos),
                });
            }
        };
        let crumb = |nanos: i128, kind| {
            if nanos.abs() <= CRUMB_NANOS { DifferenceKind::Rounding } else { kind }
        };
        let billed = line.amount.nanos;
        let product = line.quantity.zip(line.rate).map(|(quantity, rate)| {
            divide_half_even(quantity.nanos.saturating_mul(rate.nanos), NANO)
        });
        let multiplied = product.unwrap_or(billed);
        note(crumb(billed - multiplied, DifferenceKind::Arithmetic), billed - multiplied);
        let price = self.price_near(line.period, due)?;
        let billed_ms = self.billed_ms(line, multiplied, price);
        let at_terms = match (price, billed_ms) {
            (Some(price), Some(ms)) if line.quantity.is_some() || line.rate.is_some() => {
                divide_half_even(price.nanos.saturating_mul(i128::from(ms)), i128::from(price.ms))
            }
            _ => multiplied,
        };
        note(crumb(multiplied - at_terms, DifferenceKind::Price), multiplied - at_terms);
        let surplus_ms = billed_ms.map(|ms| ms - due.ms);
        for (kind, nanos) in self.time_kinds(line, own, surplus_ms, at_terms - due.nanos) {
            note(crumb(nanos, kind), nanos);
        }
        let dead = self.dead(own, due);
        note(DifferenceKind::Dead, dead);
        found.dead.add(self.money(dead))
    }

    /// What the terms charge for time like this: the line's own, else its whole period, else the
    /// latest price that has begun. Its time is never 0.
    fn price_near(&self, period: Period, own: Due) -> Result<Option<Due>, MoneyError> {
        let is_priced = |due: &Due| due.ms > 0 && due.nanos > 0;
        if is_priced(&own) {
            return Ok(Some(own));
        }
        let whole = self.due(&[period])?;
        if is_priced(&whole) {
            return Ok(Some(whole));
        }
        let terms = self.lease.billable.terms;
        let latest = terms.prices.iter().rev().find(|price| price.from < period.end);
        let Some(price) = latest.or(terms.prices.first()) else { return Ok(None) };
        let nanos = self.shown(price.amount)?;
        Ok(match price.unit {
            PriceUnit::GpuHour => {
                let cards = nanos.checked_mul(self.cards_ppm()).ok_or(MoneyError::Range)?;
                Some(Due { nanos: divide_half_even(cards, 1_000_000), ms: HOUR_MS })
            }
            PriceUnit::Month => self.month_ms(period).map(|ms| Due { nanos, ms }),
        })
    }

    fn cards_ppm(&self) -> i128 {
        let terms = self.lease.billable.terms;
        i128::from(terms.gpu_count) * i128::from(terms.share.ppm)
    }

    fn month_ms(&self, period: Period) -> Option<i64> {
        let terms = self.lease.billable.terms;
        let months = billing_months(period, terms.zone, terms.billing.month_day);
        months.first().map(|month| month.ms())
    }

    /// The lease's milliseconds that a line bills: as it says, else from its rate, else at the
    /// price of the terms; `None` when nothing tells.
    fn billed_ms(&self, line: &BillLine, amount: i128, price: Option<Due>) -> Option<i64> {
        let said = |quantity: Quantity| {
            let hour = i128::from(HOUR_MS);
            let (ms, of) = match quantity.unit {
                QuantityUnit::GpuHour => (hour * 1_000_000, self.cards_ppm().max(1)),
                QuantityUnit::Hour => (hour, 1),
                QuantityUnit::Second => (1_000, 1),
                QuantityUnit::Day => (hour * 24, 1),
                QuantityUnit::Month => (i128::from(self.month_ms(line.period)?), 1),
                QuantityUnit::Other => return None,
            };
            let all = quantity.nanos.checked_mul(ms)?;
            i64::try_from(divide_half_even(all, of * NANO)).ok()
        };
        if let Some(quantity) = line.quantity {
            return said(quantity);
        }
        let at = |price: Due| {
            let all = amount.checked_mul(i128::from(price.ms))?;
            (price.nanos > 0).then(|| divide_half_even(all, price.nanos))
        };
        price.and_then(at).and_then(|ms| i64::try_from(ms).ok())
    }

    /// What billed time is more or less than there was, and why: it adds up to `nanos`.
    fn time_kinds(
        &self,
        line: &BillLine,
        own: &[Period],
        surplus_ms: Option<i64>,
        nanos: i128,
    ) -> Vec<(DifferenceKind, i128)> {
        let by_sign =
            if nanos < 0 { DifferenceKind::LessTime } else { DifferenceKind::MoreTime };
        let Some(surplus_ms) = surplus_ms.filter(|ms| *ms != 0) else {
            return vec![(by_sign, nanos)];
        };
        let billed_ms = surplus_ms + own.iter().map(|p| self.charges.billed_ms(*p)).sum::<i64>();
        let in_unit = |stretches: &Vec<Period>| {
            own.iter().map(|part| ms_within(stretches, *part)).sum::<i64>()
        };
        let is_near = |ms: i64| (ms - billed_ms).abs() < CRUMB_MS;
        let has_time = own.iter().any(|part| self.charges.billed_ms(*part) > 0);
        let is_rounded = has_time && self.roundings.iter().map(in_unit).any(is_near);
        if surplus_ms.abs() < CRUMB_MS || is_rounded {
            return vec![(DifferenceKind::Rounding, nanos)];
        }
        if surplus_ms < 0 {
            return vec![(by_sign, nanos)];
        }
        let mut kinds = Vec::new();
        let (mut taken_ms, mut told) = (0, 0);
        for (kind, free_ms) in self.room(line.period, own) {
            taken_ms += free_ms.min(surplus_ms - taken_ms);
            let all = nanos.saturating_mul(i128::from(taken_ms));
            let sum = divide_half_even(all, i128::from(surplus_ms));
            kinds.push((kind, sum - told));
            told = sum;
        }
        kinds.push((by_sign, nanos - told));
        kinds
    }

    /// Time of a line that the terms do not charge to it, by why.
    fn room(&self, period: Period, own: &[Period]) -> [(DifferenceKind, i64); 3] {
        let release = self.lease.billable.span().end;
        let after: i64 = own.iter().map(|p| Period::new(release.max(p.start), p.end).ms()).sum();
        let charged = union(self.charges.billed.iter().copied());
        let charged_ms: i64 = own.iter().map(|part| ms_within(&charged, *part)).sum();
        [
            (DifferenceKind::Double, period.ms() - total_ms(own)),
            (DifferenceKind::AfterRelease, after),
            (DifferenceKind::OutsideSession, (total_ms(own) - after - charged_ms).max(0)),
        ]
    }

    /// What the terms charge for the time that was proven down.
    fn dead(&self, own: &[Period], due: Due) -> i128 {
        let cards = i64::from(self.lease.billable.terms.gpu_count);
        let charged = union(self.charges.billed.iter().copied());
        let down = self.lease.down.iter().flat_map(|down| {
            own.iter().map(|part| ms_within(&charged, down.intersect(*part)))
        });
        let whole = i128::from(due.ms) * i128::from(cards);
        if whole == 0 {
            return 0;
        }
        let down_ms = i128::from(down.sum::<i64>()).min(whole);
        divide_half_even(due.nanos.saturating_mul(down_ms), whole)
    }

    /// What no line has billed, and fees.
    fn close(&mut self, window: Period, found: &mut Comparison) -> Result<(), MoneyError> {
        let rest = without(window, &self.covered);
        let due = self.due(&rest)?;
        let net = self.charges.within(window).nanos - self.charges.gpus_within(window).nanos;
        let fees = self.shown(self.money(net))?;
        found.expected.add(self.money(due.nanos))?;
        found.expected.add(self.money(fees))?;
        let mut note = |line, kind, period, nanos: i128| {
            if nanos != 0 {
                let (lease, amount) = (Some(self.lease.name.clone()), self.money(nanos));
                found.differences.push(Difference { line, lease, kind, period, amount });
            }
        };
        let hull = rest.first().zip(rest.last()).map(|(a, b)| Period::new(a.start, b.end));
        note(None, DifferenceKind::MissingLine, hull.unwrap_or(window), -due.nanos);
        note(self.fee_line, DifferenceKind::Fee, window, self.fees_billed.nanos - fees);
        Ok(())
    }
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
