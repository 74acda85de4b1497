//! What a lease cost each day, and what its slots did.

use std::collections::BTreeMap;

use leasewatch_core::cost::interruption::Interruption;
use leasewatch_core::cost::{Billable, Charges, Measures, Part as UsePart};
use leasewatch_core::id::{NodeId, SlotNo, Slug};
use leasewatch_core::lease::{Assignment, contracted};
use leasewatch_core::money::{Currency, Money, MoneyError};
use leasewatch_core::segment::Origin;
use leasewatch_core::time::{Period, Timestamp};
use leasewatch_web::pages::costs::HintLine;
use leasewatch_web::pages::reliability::StragglerView;

use super::hints;
use crate::http::error::Fault;
use crate::http::pages::reliability;
use crate::http::pages::spent::{self, Asked, Part};
use crate::store::Tx;
use crate::store::contracted::ContractedLease;

/// A lease with its days.
pub(super) struct Gathered {
    pub(super) tenant_slug: Slug,
    pub(super) lease: ContractedLease,
    pub(super) days: Vec<DayCost>,
    pub(super) hints: Vec<HintLine>,
    pub(super) slow: StragglerView,
    pub(super) has_minutes: bool,
}

/// A day, or a sum of days.
pub(super) struct DayCost {
    pub(super) day: Period,
    pub(super) paid: Money,
    pub(super) gpus: Money,
    pub(super) fees: Money,
    /// Of `gpus`, what contracted time was paid with.
    pub(super) spread: Money,
    /// It by part, in the order of [`UsePart::ALL`].
    pub(super) costs: Vec<Money>,
    pub(super) unpriced_ms: i64,
    pub(super) measures: Measures,
    /// Time in which nodes were delivered.
    pub(super) node_ms: i64,
    /// Interruptions that began in it.
    pub(super) interruptions: Vec<Interruption>,
    /// The least trustworthy source of its hours.
    pub(super) origin: Option<Origin>,
}

impl DayCost {
    pub(super) fn empty(day: Period, currency: Currency) -> Self {
        let zero = Money::zero(currency);
        Self {
            day,
            paid: zero,
            gpus: zero,
            fees: zero,
            spread: zero,
            costs: vec![zero; UsePart::COUNT],
            unpriced_ms: 0,
            measures: Measures::default(),
            node_ms: 0,
            interruptions: Vec::new(),
            origin: None,
        }
    }

    pub(super) fn merge(&mut self, other: &Self) -> Result<(), MoneyError> {
        for (sum, more) in [
            (&mut self.paid, other.paid),
            (&mut self.gpus, other.gpus),
            (&mut self.fees, other.fees),
            (&mut self.spread, other.spread),
        ] {
            *sum = sum.plus(more)?;
        }
        for (sum, more) in self.costs.iter_mut().zip(&other.costs) {
            *sum = sum.plus(*more)?;
        }
        self.unpriced_ms += other.unpriced_ms;
        self.measures.merge(&other.measures);
        self.node_ms += other.node_ms;
        self.interruptions.extend(&other.interruptions);
        self.origin = self.origin.max(other.origin);
        Ok(())
    }

    /// A day's amounts over its measures. GPU time that was billed and not contracted is left over.
    fn of(day: Period, charges: &Charges, contracted_ms: i64, sum: DaySum) -> Self {
        let mut cost = Self::empty(day, charges.currency);
        cost.paid = charges.within(day);
        cost.gpus = charges.gpus_within(day);
        cost.fees = Money { nanos: cost.paid.nanos - cost.gpus.nanos, ..cost.paid };
        cost.unpriced_ms = charges.unpriced_ms(day);
        let billed_ms = charges.billed_ms(day).max(contracted_ms);
        cost.spread = cost.gpus.times(contracted_ms, billed_ms.max(1)).unwrap_or(cost.gpus);
        match sum.measures.parts.costs(cost.spread) {
            Some(costs) => cost.costs = costs.map(|(_, cost)| cost).into(),
            None => cost.spread = Money::zero(charges.currency),
        }
        (cost.measures, cost.node_ms, cost.origin) = (sum.measures, sum.node_ms, sum.origin);
        cost
    }
}

/// Reads what the lease's slots did in the window, and adds it up by day.
pub(super) async fn gather(
    tx: &mut Tx,
    (tenant_slug, lease): (Slug, ContractedLease),
    asked: Asked,
) -> Result<Gathered, Fault> {
    let window = asked.window;
    let billable = Billable { terms: &lease.terms, sessions: &lease.sessions, until: window.end };
    let out_of_range = |_| Fault::BadRequest("month".to_owned());
    let charges = billable.charges().map_err(out_of_range)?;
    let spent = spent::read(tx, &lease, asked).await?;
    let mut by_day: BTreeMap<Timestamp, Vec<&Part>> = BTreeMap::new();
    for part in &spent.parts {
        let start = part.period.start;
        let day = asked.zone.day(start).map_or(window.start, |day| day.start.max(window.start));
        by_day.entry(day).or_default().push(part);
    }
    let interruptions = reliability::interruptions(tx, &lease, window).await?;
    let mut days = Vec::new();
    let whole = of_lease(&lease);
    let mut at = window.start;
    while at < window.end {
        let end = asked.zone.day(at).map_or(window.end, |day| day.end.min(window.end));
        let day = Period::new(at, end);
        let parts = contracted(&lease.terms, &lease.sessions, &whole, day);
        let contracted_ms: i64 = parts.iter().map(|part| part.ms()).sum();
        let mut sum = DaySum::of(&by_day.remove(&at).unwrap_or_default());
        // GPUs in the contract that no slot is assigned to: nobody knows what they did.
        let all_ms = contracted_ms * i64::from(lease.terms.gpu_count);
        let missing_ms = (all_ms - sum.measures.contracted_ms).max(0);
        sum.measures.contracted_ms += missing_ms;
        sum.measures.parts.add(UsePart::Unknown, missing_ms * 100);
        let mut cost = DayCost::of(day, &charges, contracted_ms, sum);
        let began = interruptions.iter().filter(|one| day.contains(one.period.start));
        cost.interruptions.extend(began);
        days.push(cost);
        at = end;
    }
    let slow = reliability::slow(tx, &lease, &spent).await?;
    let hints = hints::of_lease(tx, &lease, &spent).await?;
    let has_minutes = spent.has_minutes;
    Ok(Gathered { tenant_slug, lease, days, hints, slow, has_minutes })
}

/// What nodes of the lease did on a day.
#[derive(Default)]
struct DaySum {
    measures: Measures,
    node_ms: i64,
    origin: Option<Origin>,
}

impl DaySum {
    fn of(parts: &[&Part]) -> Self {
        let mut sum = Self::default();
        for part in parts {
            sum.measures.merge(&part.spent.measures);
            sum.node_ms += part.spent.node_ms;
            sum.origin = sum.origin.max(part.spent.origin);
        }
        sum
    }
}

/// An assignment that covers the lease as a whole.
fn of_lease(lease: &ContractedLease) -> Assignment {
    Assignment {
        lease: lease.terms.name.clone(),
        node: NodeId([0; 16]),
        slot: SlotNo(0),
        starts_at: lease.terms.starts_at,
        ends_at: None,
    }
}
