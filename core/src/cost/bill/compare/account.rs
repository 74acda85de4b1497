//! One lease's account: its lines, taken apart against its terms.

use crate::lease::{BillingUnit, PriceUnit};
use crate::metering::divide_half_even;
use crate::money::{Money, MoneyError};
use crate::time::{HOUR_MS, Period};

use super::{BilledLease, Comparison, Difference, DifferenceKind};
use crate::cost::bill::read::{BillLine, Quantity, QuantityUnit};
use crate::cost::billed::{Billable, Charges};
use crate::cost::stretch::{billing_months, ms_within, total_ms, union, without};

/// A difference below half a cent is the rounding of an amount.
const CRUMB_NANOS: i128 = 5_000_000;
/// Time that differs by less than a minute is the rounding of a quantity.
const CRUMB_MS: i64 = 60_000;
/// 10^-9.
const NANO: i128 = 1_000_000_000;

/// What is known of a lease while its lines are gone through.
pub(super) struct Account<'a> {
    pub(super) lease: &'a BilledLease<'a>,
    pub(super) charges: Charges,
    with_tax: bool,
    /// What lines have billed so far, in order and without touching.
    covered: Vec<Period>,
    /// What would be billed in other units.
    roundings: Vec<Vec<Period>>,
    pub(super) fees_billed: Money,
    pub(super) fee_line: Option<u64>,
}

/// What the terms say of a stretch: what it costs, and its billed milliseconds.
#[derive(Clone, Copy)]
struct Due {
    nanos: i128,
    ms: i64,
}

impl<'a> Account<'a> {
    pub(super) fn open(lease: &'a BilledLease<'a>, with_tax: bool) -> Result<Self, MoneyError> {
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

    pub(super) fn line(
        &mut self,
        line: &BillLine,
        found: &mut Comparison,
    ) -> Result<(), MoneyError> {
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
        // One difference for each kind; dust of two roundings goes away again.
        let mut steps: Vec<(DifferenceKind, i128)> = Vec::new();
        let mut note = |kind, nanos: i128| match steps.iter_mut().find(|(known, _)| *known == kind)
        {
            Some((_, sum)) => *sum += nanos,
            None => steps.push((kind, nanos)),
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
        let steps = steps.into_iter().filter(|(_, nanos)| *nanos != 0);
        found.differences.extend(steps.map(|(kind, nanos)| Difference {
            line: Some(line.line),
            lease: Some(self.lease.name.clone()),
            kind,
            period: line.period,
            amount: self.money(nanos),
        }));
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
        let by_sign = if nanos < 0 { DifferenceKind::LessTime } else { DifferenceKind::MoreTime };
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
        let down = self
            .lease
            .down
            .iter()
            .flat_map(|down| own.iter().map(|part| ms_within(&charged, down.intersect(*part))));
        let whole = i128::from(due.ms) * i128::from(cards);
        if whole == 0 {
            return 0;
        }
        let down_ms = i128::from(down.sum::<i64>()).min(whole);
        divide_half_even(due.nanos.saturating_mul(down_ms), whole)
    }

    /// What no line has billed, and fees.
    pub(super) fn close(
        &mut self,
        window: Period,
        found: &mut Comparison,
    ) -> Result<(), MoneyError> {
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
