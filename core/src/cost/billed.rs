//! What a lease should be billed, by its terms and its sessions.
//!
//! A price per GPU-hour is one whole card's; a share costs its part of it. A price per month is the
//! whole lease's, and a part of a month costs its part of that month's length in the lease's zone.
//! The latest price that has begun counts, also inside a started hour. Fees for running and stopped
//! hours go by the millisecond.
//!
//! Not here: what of the billed time was delivered (`measures`).

use crate::lease::{BillingSession, FeeCycle, LeaseTerms, Price, PriceUnit};
use crate::metering::divide_half_even;
use crate::money::{Currency, Money, MoneyError};
use crate::time::{HOUR_MS, Period, Timestamp, Zone};

use super::stretch::{billing_months, ms_within};

/// A lease as far as its bill depends on it.
#[derive(Debug, Clone, Copy)]
pub struct Billable<'a> {
    /// Its terms.
    pub terms: &'a LeaseTerms,
    /// Its billing sessions.
    pub sessions: &'a [BillingSession],
    /// What runs still is billed up to here.
    pub until: Timestamp,
}

/// What something is charged for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChargeKind {
    /// GPUs.
    Gpu,
    /// The fee of this name.
    Fee(String),
}

/// An amount that grows evenly over a stretch of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charge {
    /// For what.
    pub kind: ChargeKind,
    /// When it grows.
    pub period: Period,
    /// 10^-9 units for each millisecond are `nanos / per_ms`.
    nanos: i128,
    per_ms: i128,
}

/// Everything that a lease is charged, from its start on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Charges {
    /// In which currency.
    pub currency: Currency,
    /// Tax on top, in millionths; `None` when not known.
    pub tax_ppm: Option<u32>,
    /// Each charge. Two may hold at one time.
    pub list: Vec<Charge>,
    /// What is billed at a price that nobody entered.
    pub unpriced: Vec<Period>,
    /// What is billed for GPUs, rounded up to the unit; an hour that was started twice is here
    /// twice.
    pub billed: Vec<Period>,
}

/// What a day is charged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DayAmount {
    /// The day, or as much of it as the window holds.
    pub day: Period,
    /// Without tax.
    pub net: Money,
    /// The tax; `None` when it is not known.
    pub tax: Option<Money>,
}

impl Billable<'_> {
    /// Every charge.
    ///
    /// # Errors
    /// [`MoneyError::Range`] for amounts beyond all reason.
    pub fn charges(&self) -> Result<Charges, MoneyError> {
        let terms = self.terms;
        let billed = self.billed();
        let (mut list, mut unpriced) = (Vec::new(), Vec::new());
        for stretch in &billed {
            let first = terms.prices.first().map_or(stretch.end, |price| price.from);
            let before = Period::new(stretch.start, first.min(stretch.end));
            if !before.is_empty() {
                unpriced.push(before);
            }
            for (index, price) in terms.prices.iter().enumerate() {
                let next = terms.prices.get(index + 1).map_or(stretch.end, |next| next.from);
                let part = stretch.intersect(Period::new(price.from, next));
                self.price(price, part, &mut list)?;
            }
        }
        self.fees(&mut list)?;
        list.retain(|charge| !charge.period.is_empty());
        Ok(Charges { currency: terms.currency, tax_ppm: terms.tax_ppm, list, unpriced, billed })
    }

    fn price(&self, price: &Price, part: Period, list: &mut Vec<Charge>) -> Result<(), MoneyError> {
        let terms = self.terms;
        if part.is_empty() {
            return Ok(());
        }
        match price.unit {
            PriceUnit::GpuHour => {
                let cards = i128::from(terms.gpu_count) * i128::from(terms.share.ppm);
                let nanos = price.amount.nanos.checked_mul(cards).ok_or(MoneyError::Range)?;
                let per_ms = i128::from(HOUR_MS) * 1_000_000;
                list.push(Charge::new(ChargeKind::Gpu, part, nanos, per_ms)?);
            }
            PriceUnit::Month => self.monthly(&ChargeKind::Gpu, price.amount, part, list)?,
        }
        Ok(())
    }

    fn monthly(
        &self,
        kind: &ChargeKind,
        amount: Money,
        part: Period,
        list: &mut Vec<Charge>,
    ) -> Result<(), MoneyError> {
        for month in billing_months(part, self.terms.zone, self.terms.billing.month_day) {
            let share = part.intersect(month);
            list.push(Charge::new(kind.clone(), share, amount.nanos, i128::from(month.ms()))?);
        }
        Ok(())
    }

    fn fees(&self, list: &mut Vec<Charge>) -> Result<(), MoneyError> {
        let hour = i128::from(HOUR_MS);
        for fee in &self.terms.fees {
            let kind = ChargeKind::Fee(fee.name.clone());
            let start = self.terms.starts_at;
            match fee.cycle {
                FeeCycle::Once if start < self.until => {
                    let moment = Period::new(start, start.plus_ms(1));
                    list.push(Charge::new(kind, moment, fee.amount.nanos, 1)?);
                }
                FeeCycle::Once => {}
                FeeCycle::Month => self.monthly(&kind, fee.amount, self.span(), list)?,
                FeeCycle::RunningHour => {
                    for part in self.running() {
                        list.push(Charge::new(kind.clone(), part, fee.amount.nanos, hour)?);
                    }
                }
                FeeCycle::StoppedHour => {
                    for part in self.stopped() {
                        list.push(Charge::new(kind.clone(), part, fee.amount.nanos, hour)?);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Charge {
    fn new(
        kind: ChargeKind,
        period: Period,
        nanos: i128,
        per_ms: i128,
    ) -> Result<Self, MoneyError> {
        // Later products with a part of the period are smaller; rounding doubles a remainder.
        let most = nanos.checked_mul(i128::from(period.ms()));
        most.and_then(|most| most.checked_mul(2)).ok_or(MoneyError::Range)?;
        Ok(Self { kind, period, nanos, per_ms })
    }

    /// What it comes to within `window`, in 10^-9 units.
    fn nanos_within(&self, window: Period) -> i128 {
        let by = |at: Timestamp| {
            let ms = Period::new(self.period.start, at.min(self.period.end)).ms();
            divide_half_even(self.nanos * i128::from(ms), self.per_ms)
        };
        if window.is_empty() { 0 } else { by(window.end) - by(window.start) }
    }
}

impl Charges {
    /// What is charged within `window`, without tax.
    #[must_use]
    pub fn within(&self, window: Period) -> Money {
        self.sum(window, |_| true)
    }

    /// What is charged for GPUs alone.
    #[must_use]
    pub fn gpus_within(&self, window: Period) -> Money {
        self.sum(window, |kind| *kind == ChargeKind::Gpu)
    }

    fn sum(&self, window: Period, wanted: impl Fn(&ChargeKind) -> bool) -> Money {
        let charges = self.list.iter().filter(|charge| wanted(&charge.kind));
        let nanos = charges.map(|charge| charge.nanos_within(window));
        Money { nanos: nanos.fold(0_i128, i128::saturating_add), currency: self.currency }
    }

    /// Tax on what is charged within `window`; `None` when its rate is not known.
    ///
    /// # Errors
    /// [`MoneyError::Range`] if it does not fit.
    pub fn tax_within(&self, window: Period) -> Result<Option<Money>, MoneyError> {
        let tax = |ppm: u32| self.within(window).times(i64::from(ppm), 1_000_000);
        self.tax_ppm.map(tax).transpose()
    }

    /// Billed milliseconds within `window`, of the lease and not of each GPU.
    #[must_use]
    pub fn billed_ms(&self, window: Period) -> i64 {
        ms_within(&self.billed, window)
    }

    /// Of them, those without a price.
    #[must_use]
    pub fn unpriced_ms(&self, window: Period) -> i64 {
        ms_within(&self.unpriced, window)
    }

    /// Day by day in a zone. The days add up to [`Self::within`] and [`Self::tax_within`] exactly.
    ///
    /// # Errors
    /// [`MoneyError::Range`] if a tax does not fit.
    pub fn days(&self, window: Period, zone: Zone) -> Result<Vec<DayAmount>, MoneyError> {
        let mut days = Vec::new();
        let (mut at, mut taxed) = (window.start, Money::zero(self.currency));
        while at < window.end {
            let end = zone.day(at).map_or(window.end, |day| day.end.min(window.end));
            let day = Period::new(at, end);
            // Tax is rounded on the sum so far, so that no day rounds by itself.
            let so_far = self.tax_within(Period::new(window.start, end))?;
            let tax = so_far.map(|sum| Money { nanos: sum.nanos - taxed.nanos, ..sum });
            taxed = so_far.unwrap_or(taxed);
            days.push(DayAmount { day, net: self.within(day), tax });
            at = end;
        }
        Ok(days)
    }

    /// What one hour at `at` is charged for GPUs that run then: the running cost.
    #[must_use]
    pub fn per_hour_at(&self, at: Timestamp) -> Money {
        let holds = self.list.iter().filter(|charge| charge.period.contains(at));
        let gpus = holds.filter(|charge| charge.kind == ChargeKind::Gpu);
        let nanos = gpus.map(|charge| {
            divide_half_even(charge.nanos.saturating_mul(i128::from(HOUR_MS)), charge.per_ms)
        });
        Money { nanos: nanos.fold(0_i128, i128::saturating_add), currency: self.currency }
    }
}

#[cfg(test)]
mod tests;
