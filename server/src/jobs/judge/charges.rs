//! What a unit and its lease cost in a window, as far as the lease's price history says, and what
//! is owed by it. For credits alone, which are estimates; costs have their own rule.
//!
//! The window before a verdict's is looked up: in the provider's own bill where one covers it from
//! end to end, else by the lease's terms. Who said so is kept beside the amount.

use leasewatch_core::availability::StateStretch;
use leasewatch_core::cost::Billable;
use leasewatch_core::lease::{LeaseTerms, Price, PriceUnit};
use leasewatch_core::money::{Money, MoneyError};
use leasewatch_core::sla::claim_facts::{CreditDetail, UsedAmount};
use leasewatch_core::sla::credit::{Charges, Credit, CreditOf, credit};
use leasewatch_core::sla::profile::{CreditBase, CreditForm, CreditRule, Objective};
use leasewatch_core::sla::verdict::Verdict;
use leasewatch_core::sla::window::{BillingCycle, LeaseTime, Window};
use leasewatch_core::time::{HOUR_MS, Period, Timestamp};

use super::Case;
use crate::store::{StoreError, Tx, bill};

/// An amount, and in what it is given.
pub(super) type Owed = (Money, CreditForm);

/// What a lease cost in the window before another one.
pub(super) struct Prior {
    /// The window that it is before.
    before: Window,
    /// That time.
    period: Period,
    amount: Money,
    source: &'static str,
}

const BY_TERMS: &str = "terms";
const BY_BILL: &str = "bill";

/// Amounts of one window.
struct Amounts {
    /// What the unit cost.
    unit: Option<Money>,
    /// What the lease cost.
    lease: Option<Money>,
    /// The unit's price of an hour.
    hourly: Option<Money>,
}

/// What a verdict owes by its rule, and how it came about. `unit` are the states of its slots.
pub(super) fn owed(
    case: &Case,
    (rule, verdict): (&CreditRule, &Verdict),
    (unit, nodes): (&[&[StateStretch]], &[Vec<Vec<StateStretch>>]),
    prior: &[Prior],
) -> (Option<Owed>, CreditDetail) {
    let all: Vec<&[StateStretch]> = nodes.iter().flatten().map(Vec::as_slice).collect();
    let amounts = amounts(case.terms(), verdict.window, unit, &all);
    let mut starts: Vec<Timestamp> = case.lease.sessions.iter().map(|s| s.starts_at).collect();
    starts.push(case.terms().starts_at);
    let prior = prior.iter().find(|prior| prior.before == verdict.window);
    let charges = Charges {
        unit: amounts.unit,
        lease: amounts.lease,
        prior_lease: prior.map(|prior| prior.amount),
        hourly: amounts.hourly,
        starts: &starts,
    };
    let none = CreditDetail::default();
    match credit(rule, verdict, &charges) {
        Ok(None) => (None, none),
        Ok(Some(owed)) => {
            let detail = detail(&owed, verdict.window, prior);
            (Some((owed.amount, owed.form)), detail)
        }
        Err(error) => (None, CreditDetail { missing: Some(error.to_string()), ..none }),
    }
}

fn detail(owed: &Credit, window: Window, prior: Option<&Prior>) -> CreditDetail {
    let used = owed.from.iter().map(|(of, amount)| {
        let prior = prior.filter(|_| *of == CreditOf::PriorLease);
        let period = prior.map_or(window.period, |prior| prior.period);
        UsedAmount {
            of: of.name().to_owned(),
            amount: amount.to_string(),
            source: prior.map_or(BY_TERMS, |prior| prior.source).to_owned(),
            window: (period.start.0, period.end.0),
        }
    });
    CreditDetail {
        below_ppm: owed.tier.map(|tier| tier.below.ppm()),
        share_ppm: owed.tier.map(|tier| tier.share.ppm()),
        credited_ms: owed.credited_ms,
        limits: owed.limits.iter().map(|limit| limit.name().to_owned()).collect(),
        missing: None,
        used: used.collect(),
    }
}

/// Whether a credit depends on what the lease cost in the window before.
pub(super) fn looks_back(objective: &Objective) -> bool {
    objective.credit.as_ref().is_some_and(|rule| rule.base == CreditBase::PriorLeaseCharge)
}

/// What the lease cost in the window before; `None` when it did not run then, or nobody says.
pub(super) async fn before(
    tx: &mut Tx,
    case: &Case,
    (objective, window): (&Objective, Window),
) -> Result<Option<Prior>, StoreError> {
    let terms = case.terms();
    let end = terms.ends_at.unwrap_or(Timestamp::MAX);
    let day = u32::from(terms.billing.month_day);
    let billing = BillingCycle { day, zone: terms.zone };
    let lease = LeaseTime { period: Period::new(terms.starts_at, end), billing };
    let edge = window.whole.start;
    let asked = Period::new(edge.plus_ms(-1), edge);
    let Some(earlier) = objective.window.windows(&lease, asked).pop() else { return Ok(None) };
    let period = earlier.period.intersect(lease.period);
    let billed = billed(tx, case, period).await?;
    let (amount, source) = match billed {
        Some(amount) => (Some(amount), BY_BILL),
        None => (by_terms(case, period), BY_TERMS),
    };
    Ok(amount.map(|amount| Prior { before: window, period, amount, source }))
}

/// What the terms say; `None` where a part of it has no price.
fn by_terms(case: &Case, period: Period) -> Option<Money> {
    let sessions = &case.lease.sessions;
    let billable = Billable { terms: case.terms(), sessions, until: period.end };
    let charges = billable.charges().ok()?;
    (charges.unpriced_ms(period) == 0).then(|| charges.within(period))
}

/// What the latest bill says that covers the time from end to end, without tax, in the lease's
/// currency; `None` where there is no such bill. A bill over a part would make a cap too low.
async fn billed(tx: &mut Tx, case: &Case, period: Period) -> Result<Option<Money>, StoreError> {
    let terms = case.terms();
    let named = [&terms.instance, &terms.machine, &terms.order].into_iter().flatten();
    let keys: Vec<&str> = named.map(String::as_str).chain([terms.name.as_str()]).collect();
    for bill in bill::list(tx).await? {
        let is_own = bill.key.tenant == case.lease.key.tenant && bill.provider == terms.provider;
        if !is_own || bill.with_tax {
            continue;
        }
        let lines = bill::lines(tx, bill.key).await?.into_iter();
        let inside = lines.filter(|line| {
            keys.contains(&line.key.as_str()) && line.period.intersect(period) == line.period
        });
        let inside: Vec<_> = inside.collect();
        let from = inside.iter().map(|line| line.period.start).min();
        let to = inside.iter().map(|line| line.period.end).max();
        let zero = Money::zero(terms.currency);
        let sum = inside.iter().try_fold(zero, |sum, line| sum.plus(line.amount));
        if (from, to) == (Some(period.start), Some(period.end)) {
            return Ok(sum.ok());
        }
    }
    Ok(None)
}

/// `unit` and `all` are the states of the unit's slots and of every slot of the lease. An amount
/// that the terms do not say, or that does not fit, is not known.
fn amounts(
    terms: &LeaseTerms,
    window: Window,
    unit: &[&[StateStretch]],
    all: &[&[StateStretch]],
) -> Amounts {
    let at = window.period.start.max(terms.starts_at);
    let hourly = in_force(&terms.prices, at).and_then(|price| hourly(terms, price, window));
    let slots = i64::try_from(unit.len()).unwrap_or(i64::MAX);
    Amounts {
        unit: charge(terms, window, unit, all).ok().flatten(),
        lease: charge(terms, window, all, all).ok().flatten(),
        hourly: hourly.and_then(|money| money.times(slots, 1).ok()),
    }
}

/// The price that holds at `at`.
fn in_force(prices: &[Price], at: Timestamp) -> Option<&Price> {
    prices.iter().rev().find(|price| price.from <= at)
}

/// The price of one slot for one hour.
fn hourly(terms: &LeaseTerms, price: &Price, window: Window) -> Option<Money> {
    match price.unit {
        PriceUnit::GpuHour => Some(price.amount),
        PriceUnit::Month => {
            let slots = i64::from(terms.gpu_count.max(1));
            price.amount.times(HOUR_MS, window.whole.ms().max(1).checked_mul(slots)?).ok()
        }
    }
}

/// What these slots cost: GPU-hours by the price that held then; of a monthly price, their share of
/// the contracted time.
fn charge(
    terms: &LeaseTerms,
    window: Window,
    slots: &[&[StateStretch]],
    all: &[&[StateStretch]],
) -> Result<Option<Money>, MoneyError> {
    let mut sum = None;
    for (index, price) in terms.prices.iter().enumerate() {
        let until = terms.prices.get(index + 1).map_or(Timestamp::MAX, |next| next.from);
        let part = Period::new(price.from, until).intersect(window.period);
        let ms = contracted_ms(slots, part);
        if ms == 0 {
            continue;
        }
        let amount = match price.unit {
            PriceUnit::GpuHour => price.amount.times(ms, HOUR_MS)?,
            PriceUnit::Month => {
                let time = price.amount.times(part.ms(), window.whole.ms().max(1))?;
                time.times(ms, contracted_ms(all, part).max(1))?
            }
        };
        sum = Some(match sum {
            Some(sum) => amount.plus(sum)?,
            None => amount,
        });
    }
    Ok(sum)
}

fn contracted_ms(slots: &[&[StateStretch]], period: Period) -> i64 {
    slots.iter().flat_map(|slot| slot.iter()).map(|s| s.period.intersect(period).ms()).sum()
}
