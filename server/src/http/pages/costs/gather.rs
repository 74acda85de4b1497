//! What a lease cost each day, and what its slots did.
//!
//! Until availability is judged, nothing is proven down here: such time is unknown.

use std::collections::{BTreeMap, HashMap};

use leasewatch_core::catalogue::gpu as catalogue;
use leasewatch_core::cost::{
    Billable, Charges, MeasuredGpu, Measures, Part, Reference, SlotTime, StateTime, measure,
    over_renting,
};
use leasewatch_core::id::{GpuUuid, NodeId, SlotNo};
use leasewatch_core::lease::{Assignment, contracted};
use leasewatch_core::metering::{HourProfile, HourRecord};
use leasewatch_core::money::{Currency, Money, MoneyError};
use leasewatch_core::sample::Metric;
use leasewatch_core::segment::Origin;
use leasewatch_core::time::{Hour, Period, Zone};
use leasewatch_web::pages::costs::HintLine;

use crate::http::error::Fault;
use crate::store::cost::{CostLease, slots};
use crate::store::{NodeKey, Tx, gpu, hour, node};

/// The latest minutes that a rhythm is looked for in.
const RHYTHM_MINUTES: usize = 48 * 60;

/// What is asked about leases.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) window: Period,
    pub(super) zone: Zone,
    pub(super) has_minutes: bool,
}

/// A lease with its days.
pub(super) struct Gathered {
    pub(super) lease: CostLease,
    pub(super) days: Vec<DayCost>,
    pub(super) hints: Vec<HintLine>,
}

/// A day, or a sum of days.
pub(super) struct DayCost {
    pub(super) day: Period,
    pub(super) paid: Money,
    pub(super) gpus: Money,
    pub(super) fees: Money,
    /// Of `gpus`, what contracted time was paid with.
    pub(super) spread: Money,
    /// It by part, in the order of [`Part::ALL`].
    pub(super) costs: Vec<Money>,
    pub(super) unpriced_ms: i64,
    pub(super) measures: Measures,
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
            costs: vec![zero; Part::COUNT],
            unpriced_ms: 0,
            measures: Measures::default(),
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
        self.origin = self.origin.max(other.origin);
        Ok(())
    }

    /// A day's amounts over its measures. GPU time that was billed and not contracted is left over.
    fn of(day: Period, charges: &Charges, contracted_ms: i64, measures: Measures) -> Self {
        let mut cost = Self::empty(day, charges.currency);
        cost.paid = charges.within(day);
        cost.gpus = charges.gpus_within(day);
        cost.fees = Money { nanos: cost.paid.nanos - cost.gpus.nanos, ..cost.paid };
        cost.unpriced_ms = charges.unpriced_ms(day);
        let billed_ms = charges.billed_ms(day).max(contracted_ms);
        cost.spread = cost.gpus.times(contracted_ms, billed_ms.max(1)).unwrap_or(cost.gpus);
        match measures.parts.costs(cost.spread) {
            Some(costs) => cost.costs = costs.map(|(_, cost)| cost).into(),
            None => cost.spread = Money::zero(charges.currency),
        }
        cost.measures = measures;
        cost
    }
}

/// Reads what the lease's slots did in the window, and adds it up by day.
pub(super) async fn gather(tx: &mut Tx, lease: CostLease, asked: Asked) -> Result<Gathered, Fault> {
    let window = asked.window;
    let billable = Billable { terms: &lease.terms, sessions: &lease.sessions, until: window.end };
    let out_of_range = |_| Fault::BadRequest("month".to_owned());
    let charges = billable.charges().map_err(out_of_range)?;
    let mut by_day: BTreeMap<Period, Measures> = BTreeMap::new();
    let (mut hints, mut origin) = (Vec::new(), None);
    for (key, slot) in slots(&lease) {
        let seen = Seen::read(tx, (key, slot), &lease, asked).await?;
        seen.measure(&lease, asked, &mut by_day);
        hints.extend(seen.hint(tx, &lease).await?);
        let origins = seen.records.values().flatten().map(|record| record.origin);
        origin = origin.max(origins.max());
    }
    let mut days = Vec::new();
    let whole = of_lease(&lease);
    let mut at = window.start;
    while at < window.end {
        let end = asked.zone.day(at).map_or(window.end, |day| day.end.min(window.end));
        let day = Period::new(at, end);
        let parts = contracted(&lease.terms, &lease.sessions, &whole, day);
        let contracted_ms: i64 = parts.iter().map(|part| part.ms()).sum();
        let mut measures = by_day.remove(&day).unwrap_or_default();
        // GPUs in the contract that no slot is assigned to: nobody knows what they did.
        let all_ms = contracted_ms * i64::from(lease.terms.gpu_count);
        let missing_ms = (all_ms - measures.contracted_ms).max(0);
        measures.contracted_ms += missing_ms;
        measures.parts.add(Part::Unknown, missing_ms * 100);
        days.push(DayCost { origin, ..DayCost::of(day, &charges, contracted_ms, measures) });
        at = end;
    }
    Ok(Gathered { lease, days, hints })
}

/// An assignment that covers the lease as a whole.
fn of_lease(lease: &CostLease) -> Assignment {
    Assignment {
        lease: lease.terms.name.clone(),
        node: NodeId([0; 16]),
        slot: SlotNo(0),
        starts_at: lease.terms.starts_at,
        ends_at: None,
    }
}

/// What was seen of a slot.
struct Seen {
    key: NodeKey,
    slot: SlotNo,
    contracted: Vec<Period>,
    records: BTreeMap<Hour, Vec<HourRecord>>,
    profiles: HashMap<(Hour, GpuUuid), HourProfile>,
    gpus: Vec<gpu::GpuRow>,
}

impl Seen {
    async fn read(
        tx: &mut Tx,
        (key, slot): (NodeKey, SlotNo),
        lease: &CostLease,
        asked: Asked,
    ) -> Result<Self, Fault> {
        let own = lease.assignments.iter().filter(|(node, a)| *node == key && a.slot == slot);
        let mut periods = Vec::new();
        for (_, assignment) in own {
            periods.extend(contracted(&lease.terms, &lease.sessions, assignment, asked.window));
        }
        let hours = (asked.window.start.hour(), asked.window.end.plus_ms(-1).hour().next());
        let mut records: BTreeMap<Hour, Vec<HourRecord>> = BTreeMap::new();
        for row in hour::of_slot(tx, key, slot, hours).await? {
            records.entry(row.record.hour).or_default().push(row.record);
        }
        let mut profiles = HashMap::new();
        if asked.has_minutes {
            for (at, gpu, profile) in hour::profiles(tx, key, slot, hours).await? {
                profiles.insert((at, gpu), profile);
            }
        }
        let mut gpus = gpu::of_node(tx, key).await?;
        gpus.retain(|row| row.slot == slot);
        Ok(Self { key, slot, contracted: periods, records, profiles, gpus })
    }

    /// Adds each hour to the days that it touches.
    fn measure(&self, lease: &CostLease, asked: Asked, by_day: &mut BTreeMap<Period, Measures>) {
        let model = catalogue::by_key(&lease.terms.gpu_model);
        let boost = model.and_then(|model| model.boost_mhz);
        let reference = Reference {
            sm_clock_mhz: lease.terms.minima.sm_clock_mhz.or(boost),
            power_limit_mw: lease.terms.minima.power_limit_mw,
        };
        for at in asked.window.hours() {
            let gpu = |record| self.gpu(record, lease);
            let gpus: Vec<_> = self.records.get(&at).into_iter().flatten().map(gpu).collect();
            let hour = at.period().intersect(asked.window);
            let mut from = hour.start;
            while from < hour.end {
                let local = asked.zone.day(from).unwrap_or(asked.window);
                let day = local.intersect(asked.window);
                let part = Period::new(from, day.end.min(hour.end).max(from.plus_ms(1)));
                let contracted: Vec<_> =
                    self.contracted.iter().map(|period| period.intersect(part)).collect();
                let states = StateTime::default();
                let slot =
                    SlotTime { hour: at, contracted: &contracted, gpus: &gpus, states, reference };
                by_day.entry(day).or_default().merge(&measure(&slot));
                from = part.end;
            }
        }
    }

    fn gpu<'a>(&'a self, record: &'a HourRecord, lease: &CostLease) -> MeasuredGpu<'a> {
        MeasuredGpu {
            record,
            profile: self.profiles.get(&(record.hour, record.gpu.clone())),
            is_as_contracted: self.is_as_contracted(&record.gpu, lease),
            // Fatal conditions are findings, and not part of a record.
            unhealthy_ms: 0,
        }
    }

    /// Whether a GPU is of the model in the contract; what is not known is.
    fn is_as_contracted(&self, uuid: &GpuUuid, lease: &CostLease) -> bool {
        let wanted = catalogue::by_key(&lease.terms.gpu_model);
        let row = self.gpus.iter().find(|row| row.uuid == *uuid && row.partition.is_none());
        let found = row.and_then(|row| row.catalogue_key.as_deref());
        wanted.zip(found).is_none_or(|(wanted, found)| wanted.key == found)
    }

    /// A hint that a smaller GPU would do, from the minutes of the latest GPU in the slot.
    async fn hint(&self, tx: &mut Tx, lease: &CostLease) -> Result<Option<HintLine>, Fault> {
        let Some(gpu) = self.gpus.first() else { return Ok(None) };
        let model = gpu.catalogue_key.as_deref().and_then(catalogue::by_key);
        let Some(total) = model.and_then(|model| model.memory_mib) else { return Ok(None) };
        let mut hours: Vec<_> =
            self.profiles.iter().filter(|((_, uuid), _)| *uuid == gpu.uuid).collect();
        hours.sort_by_key(|((at, _), _)| *at);
        let Some(peak) = hours.iter().filter_map(|(_, profile)| memory_peak(profile)).max() else {
            return Ok(None);
        };
        let minutes = hours.iter().rev().flat_map(|(_, profile)| profile.utilization.iter().rev());
        let known = minutes.take_while(|(_, ms)| *ms > 0).take(RHYTHM_MINUTES);
        let mut load: Vec<i64> = known.map(|(busy, ms)| busy / ms).collect();
        load.reverse();
        let Some(hint) = over_renting(&load, peak, total) else { return Ok(None) };
        let Some(row) = node::by_key(tx, self.key).await? else { return Ok(None) };
        Ok(Some(HintLine {
            lease: lease.terms.name.to_string(),
            node: row.id.to_string(),
            node_name: row.name,
            slot: self.slot.0,
            need_pct: hint.need.percent(),
            memory_peak_mib: hint.memory_peak_mib,
            memory_total_mib: total,
            period_minutes: i64::try_from(hint.period_minutes).unwrap_or(0),
        }))
    }
}

fn memory_peak(profile: &HourProfile) -> Option<i64> {
    let (_, cells) = profile.metrics.iter().find(|(metric, _)| *metric == Metric::MemoryUsed)?;
    cells.iter().flatten().map(|cell| cell.max).max()
}
