//! Credits: what a breach owes, from proven downtime alone.
//!
//! Everything is exact until the end; the amount is rounded once, half to even, to the digits that
//! the profile names. Then a cap, a floor ("at least 5") and a minimum ("nothing below 1") apply,
//! in this order. Not here: whether the provider agrees.

use crate::availability::named;
use crate::money::{Money, MoneyError};
use crate::time::{HOUR_MS, Timestamp};

use super::dialect::Outage;
use super::profile::{CreditBase, CreditForm, CreditFormula, CreditRule, Multiplier, Tier};
use super::verdict::{Outcome, Verdict};

/// What a credit is computed from beside the verdict.
#[derive(Debug, Clone, Copy)]
pub struct Charges<'a> {
    /// What the affected unit cost in the window; `None` where it is not known.
    pub unit: Option<Money>,
    /// What the whole lease cost in the window.
    pub lease: Option<Money>,
    /// What the whole lease cost in the window before.
    pub prior_lease: Option<Money>,
    /// The unit's price of an hour.
    pub hourly: Option<Money>,
    /// When the instance was started, in any order; for hours from the last start.
    pub starts: &'a [Timestamp],
}

/// What is owed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credit {
    /// How much, rounded.
    pub amount: Money,
    /// In what it is given.
    pub form: CreditForm,
    /// The time that is credited, in ms, where the formula credits time.
    pub credited_ms: Option<i64>,
    /// The tier that availability fell into, where there are tiers.
    pub tier: Option<Tier>,
    /// The amounts that it was computed from, those of its cap too.
    pub from: Vec<(CreditOf, Money)>,
    /// What changed the amount after the formula, in order.
    pub limits: Vec<Limit>,
}

named! {
    /// What an amount that a credit is computed from is.
    CreditOf {
        /// What the affected unit cost in the window.
        Unit = "unit-charge",
        /// What the whole lease cost in the window.
        Lease = "lease-charge",
        /// What the whole lease cost in the window before.
        PriorLease = "prior-lease-charge",
        /// The unit's price of an hour.
        Hour = "hourly-price",
    }
}

named! {
    /// What changed a credit's amount after its formula.
    Limit {
        /// It was cut to the cap.
        Cap = "cap",
        /// It was raised to the floor.
        Floor = "floor",
        /// It is below what is given at all.
        Minimum = "minimum",
    }
}

/// Why a credit cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreditError {
    /// An amount that the rule needs is not known.
    #[error("the credit needs the {0}, which is not known")]
    Missing(&'static str),
    /// No start of the instance is known before an outage.
    #[error("the credit needs a start of the instance before {0}, and none is known")]
    NoStart(Timestamp),
    /// Amounts do not fit together.
    #[error(transparent)]
    Money(#[from] MoneyError),
}

/// What the rule owes for a verdict; `None` when nothing is owed: no proven downtime, or a target
/// that is not proven to be missed.
///
/// # Errors
/// [`CreditError`] when an amount that the formula needs is not known, or amounts are of different
/// currencies.
pub fn credit(
    rule: &CreditRule,
    verdict: &Verdict,
    charges: &Charges<'_>,
) -> Result<Option<Credit>, CreditError> {
    let owed = match verdict.target {
        Some(_) => verdict.outcome == Outcome::Breached,
        None => verdict.downtime.proven_ms > 0,
    };
    if !owed {
        return Ok(None);
    }
    let mut credited_ms = None;
    let mut tier = None;
    let digits = rule.digits;
    let mut from = Vec::new();
    let amount = match &rule.formula {
        CreditFormula::Tiers(tiers) => {
            let Some(reached) = tier_of(tiers, verdict) else { return Ok(None) };
            tier = Some(reached);
            let share = i128::from(reached.share.ppm());
            charges.base(rule.base, &mut from)?.times_to(share, 1_000_000, digits)?
        }
        CreditFormula::ProRata => {
            let (down, whole) = (verdict.downtime.proven_ms, verdict.whole_ms.max(1));
            let base = charges.base(rule.base, &mut from)?;
            base.times_to(i128::from(down), i128::from(whole), digits)?
        }
        CreditFormula::Multiplier(multiplier) => {
            let milli_ms = multiplied(*multiplier, verdict);
            credited_ms = i64::try_from(milli_ms / 1_000).ok();
            charges.hourly(&mut from)?.times_to(milli_ms, HOUR_MILLI_MS, digits)?
        }
        CreditFormula::HoursFromLastStart { cap_hours } => {
            let ms = since_start_ms(verdict, charges.starts, *cap_hours)?;
            credited_ms = Some(ms);
            charges.hourly(&mut from)?.times_to(i128::from(ms), i128::from(HOUR_MS), digits)?
        }
    };
    let limits = Vec::new();
    let mut credit = Credit { amount, form: rule.form, credited_ms, tier, from, limits };
    limit(&mut credit, rule, charges)?;
    Ok(Some(credit))
}

/// An hour in thousandths of a millisecond: factors are in thousandths.
const HOUR_MILLI_MS: i128 = HOUR_MS as i128 * 1_000;

/// The tier that proven availability fell into: of those whose edge it misses, the lowest.
fn tier_of(tiers: &[Tier], verdict: &Verdict) -> Option<Tier> {
    let good_ms = verdict.whole_ms - verdict.downtime.proven_ms;
    let missed = tiers.iter().filter(|tier| !tier.below.is_reached(good_ms, verdict.whole_ms));
    missed.min_by_key(|tier| tier.below).copied()
}

/// Proven downtime times the factor, in thousandths of a millisecond.
fn multiplied(multiplier: Multiplier, verdict: &Verdict) -> i128 {
    let factor = i128::from(multiplier.factor_milli);
    let Some(step_s) = multiplier.round_up_s else {
        return i128::from(verdict.downtime.proven_ms) * factor;
    };
    let step = i128::from(step_s.max(1)) * 1_000_000;
    let ms = |parts: &[Outage]| parts.iter().map(|part| i128::from(part.period.ms())).sum::<i128>();
    whole_outages(verdict).map(|parts| up_to(ms(parts) * factor, step)).sum()
}

/// Proven outages, each with the parts that are left of it where some of it was claimed before.
fn whole_outages(verdict: &Verdict) -> impl Iterator<Item = &[Outage]> {
    verdict.downtime.outages.chunk_by(|a, b| a.actual == b.actual)
}

/// The next multiple of `step` that is not below `value`.
fn up_to(value: i128, step: i128) -> i128 {
    (value + step - 1).div_euclid(step) * step
}

/// For each proven outage, the time from the last start to it, capped; all of them added up.
fn since_start_ms(
    verdict: &Verdict,
    starts: &[Timestamp],
    cap_hours: i64,
) -> Result<i64, CreditError> {
    let cap_ms = cap_hours.saturating_mul(HOUR_MS);
    let mut sum_ms = 0;
    for parts in whole_outages(verdict) {
        let Some(failed_at) = parts.first().map(|part| part.actual.start) else { continue };
        let start = starts.iter().filter(|start| **start <= failed_at).max();
        let start = start.ok_or(CreditError::NoStart(failed_at))?;
        sum_ms += failed_at.since(*start).min(cap_ms);
    }
    Ok(sum_ms)
}

/// Cap, floor and minimum, in this order.
fn limit(credit: &mut Credit, rule: &CreditRule, charges: &Charges<'_>) -> Result<(), CreditError> {
    let same = |limit: Money, amount: Money| limit.plus(Money::zero(amount.currency));
    if let Some(cap) = rule.cap {
        let most = charges.base(rule.base, &mut credit.from)?;
        let most = most.times_to(i128::from(cap.ppm()), 1_000_000, rule.digits)?;
        if credit.amount.nanos > same(most, credit.amount)?.nanos {
            credit.amount = most;
            credit.limits.push(Limit::Cap);
        }
    }
    if let Some(floor) = rule.floor
        && credit.amount.nanos > 0
        && credit.amount.nanos < same(floor, credit.amount)?.nanos
    {
        credit.amount = floor;
        credit.limits.push(Limit::Floor);
    }
    if let Some(minimum) = rule.minimum
        && credit.amount.nanos < same(minimum, credit.amount)?.nanos
    {
        credit.amount = Money::zero(credit.amount.currency);
        credit.limits.push(Limit::Minimum);
    }
    Ok(())
}

impl Charges<'_> {
    fn base(
        &self,
        base: CreditBase,
        from: &mut Vec<(CreditOf, Money)>,
    ) -> Result<Money, CreditError> {
        let (known, of, name) = match base {
            CreditBase::UnitCharge => (self.unit, CreditOf::Unit, "charge of the unit"),
            CreditBase::LeaseCharge => (self.lease, CreditOf::Lease, "charge of the lease"),
            CreditBase::PriorLeaseCharge => {
                let name = "charge of the lease in the window before";
                (self.prior_lease, CreditOf::PriorLease, name)
            }
        };
        noted(known, of, name, from)
    }

    fn hourly(&self, from: &mut Vec<(CreditOf, Money)>) -> Result<Money, CreditError> {
        noted(self.hourly, CreditOf::Hour, "price of an hour", from)
    }
}

/// An amount that is known, once in the list of those that were used.
fn noted(
    known: Option<Money>,
    of: CreditOf,
    name: &'static str,
    from: &mut Vec<(CreditOf, Money)>,
) -> Result<Money, CreditError> {
    let amount = known.ok_or(CreditError::Missing(name))?;
    if !from.contains(&(of, amount)) {
        from.push((of, amount));
    }
    Ok(amount)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sla::dialect::{Counted, Filings};
    use crate::sla::golden::shipped_objective;
    use crate::sla::unit::{Members, UnitStretch};
    use crate::sla::verdict::{Case, verdict};
    use crate::sla::window::Window;
    use crate::time::{DAY_MS, Period};

    const MINUTE_MS: i64 = 60_000;

    fn minutes(from: i64, to: i64) -> Period {
        Period::new(Timestamp(from * MINUTE_MS), Timestamp(to * MINUTE_MS))
    }

    /// The credit for one outage in minutes 1,000 to 1,041, some of it claimed before.
    fn owed(
        objective: &str,
        claimed: &[Period],
        charges: &Charges<'_>,
    ) -> Result<String, CreditError> {
        let objective = shipped_objective(objective);
        let whole = Period::new(Timestamp(0), Timestamp(30 * DAY_MS));
        let part = |period, counted| UnitStretch {
            period,
            counted,
            members: Members::default(),
            grounds: Vec::new(),
        };
        let timeline = [
            part(minutes(0, 1_000), Counted::Up),
            part(minutes(1_000, 1_041), Counted::Down),
            part(Period::new(minutes(0, 1_041).end, whole.end), Counted::Up),
        ];
        let window = Window { period: whole, whole };
        let filings = Filings { claimed, notices: &[] };
        let case = Case { objective: &objective, window, as_of: whole.end, filings };
        let verdict = verdict(&case, &timeline);
        let credit = credit(objective.credit.as_ref().unwrap(), &verdict, charges)?;
        Ok(credit.map_or("-".to_owned(), |credit| credit.amount.to_string()))
    }

    fn charges(starts: &[Timestamp]) -> Charges<'_> {
        let hourly = Some("2 USD".parse().unwrap());
        Charges { unit: None, lease: None, prior_lease: None, hourly, starts }
    }

    #[test]
    fn what_is_left_of_an_outage_is_one_outage() {
        let starts = [Timestamp(400 * MINUTE_MS)];
        let charges = charges(&starts);
        let middle = [minutes(1_020, 1_021)];
        let owed = |objective, claimed: &[Period]| owed(objective, claimed, &charges).unwrap();
        // 41 min x 1.5 are two started hours, 40 are one; not one for each half.
        assert_eq!(owed("gpuhub/network", &[]), "4.00 USD");
        assert_eq!(owed("gpuhub/network", &middle), "2.00 USD");
        assert_eq!(owed("gpuhub/network", &[minutes(1_000, 1_041)]), "-");
        // 600 min after the start, once.
        assert_eq!(owed("gpuhub/instance-down", &middle), "20.00 USD");
    }

    #[test]
    fn what_is_not_known_is_named() {
        let error = owed("gpuhub/instance-down", &[], &charges(&[])).unwrap_err();
        assert_eq!(error, CreditError::NoStart(Timestamp(1_000 * MINUTE_MS)));
        let error = owed("vultr/instance", &[], &charges(&[])).unwrap_err();
        assert_eq!(error, CreditError::Missing("charge of the unit"));
    }
}
