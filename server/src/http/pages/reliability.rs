//! How reliable the nodes of leases were in a window: interruptions that the provider answers for,
//! and GPUs that were slower than their peers.

use std::collections::BTreeMap;

use leasewatch_core::cost::Measures;
use leasewatch_core::cost::interruption::{Between, Interruption, rate};
use leasewatch_core::cost::straggler::{CohortHour, GpuPlace, Slowness, stragglers};
use leasewatch_core::time::{DAY_MS, Hour, Period, Zone};
use leasewatch_web::context::Context;
use leasewatch_web::pages::reliability::{RateCell, ReliabilityView, StragglerLine, StragglerView};

use super::spent::{self, Asked, Spent};
use crate::store::contracted::{self, ContractedLease};
use crate::store::incident::{self, Attribution};
use crate::store::{LeaseKey, StoreError, Tx, node};

/// Days that a lease's page looks back on.
const DAYS: i64 = 30;

/// How a lease's nodes were in the last days; `None` without contracted time in them.
pub(super) async fn of_lease(
    tx: &mut Tx,
    key: LeaseKey,
    context: &Context,
) -> Result<Option<ReliabilityView>, StoreError> {
    let Some(lease) = contracted::by_key(tx, key).await? else { return Ok(None) };
    // Hours up to the one that runs, so that no day is cut.
    let end = context.now.hour().start();
    let window = Period::new(end.plus_ms(-DAYS * DAY_MS), end);
    // Days of UTC end with hours.
    let spent = spent::read(tx, &lease, Asked { window, zone: Zone::UTC }).await?;
    if spent.parts.is_empty() {
        return Ok(None);
    }
    let (mut measures, mut node_ms, mut origin) = (Measures::default(), 0, None);
    for part in &spent.parts {
        measures.merge(&part.spent.measures);
        node_ms += part.spent.node_ms;
        origin = origin.max(part.spent.origin);
    }
    let list = interruptions(tx, &lease, window).await?;
    let rate = cell(&list, node_ms, &measures);
    let slow = slow(tx, &lease, &spent).await?;
    Ok(Some(ReliabilityView { window, rate, slow, origin }))
}

/// Interruptions of a lease that began in the window, by time.
pub(super) async fn interruptions(
    tx: &mut Tx,
    lease: &ContractedLease,
    window: Period,
) -> Result<Vec<Interruption>, StoreError> {
    let rows = incident::of_lease(tx, lease.key, window).await?;
    let is_counted = |down: &incident::Down| {
        down.attribution == Attribution::Provider && down.period.start >= window.start
    };
    let own = rows.into_iter().map(|row| row.down).filter(is_counted);
    let named = own.filter_map(|down| {
        Some(Interruption { node: lease.node_id(down.node)?, period: down.period })
    });
    Ok(named.collect())
}

/// Their rate; `None` when no node was delivered.
pub(super) fn cell(list: &[Interruption], node_ms: i64, measures: &Measures) -> Option<RateCell> {
    let rate = rate(list, node_ms)?;
    let (between_ms, is_at_least) = match rate.between {
        Between::Mean(ms) => (ms, false),
        Between::MoreThan(ms) => (ms, true),
    };
    Some(RateCell {
        interruptions: rate.count,
        node_ms,
        rate_milli: rate.rate_milli,
        low_milli: rate.interval_milli.0,
        high_milli: rate.interval_milli.1,
        between_ms,
        is_at_least,
        repair_ms: rate.repair_ms,
        measured_pct_ms: measures.parts.measured(),
        contracted_ms: measures.contracted_ms,
    })
}

/// Slow GPUs of one lease, with how much was compared.
pub(super) async fn slow(
    tx: &mut Tx,
    lease: &ContractedLease,
    spent: &Spent,
) -> Result<StragglerView, StoreError> {
    let mut cohorts: BTreeMap<Hour, BTreeMap<GpuPlace, i64>> = BTreeMap::new();
    for part in &spent.parts {
        let Some(node) = lease.node_id(part.node) else { continue };
        let hour = cohorts.entry(part.period.start.hour()).or_default();
        hour.extend(part.spent.clocks_mhz.iter().map(|(slot, clock)| ((node, *slot), *clock)));
    }
    let cohorts: Vec<CohortHour> = cohorts
        .into_iter()
        .map(|(hour, clocks)| CohortHour { hour, clocks_mhz: clocks.into_iter().collect() })
        .collect();
    let Slowness { stragglers, compared_hours } = stragglers(&cohorts);
    let mut lines = Vec::new();
    for found in stragglers {
        let (id, slot) = found.gpu;
        let row = node::by_public_id(tx, id).await?;
        lines.push(StragglerLine {
            lease: lease.terms.name.to_string(),
            node: id.to_string(),
            node_name: row.map_or_else(|| id.to_string(), |row| row.name),
            slot: slot.0,
            found_at: found.found_at.start(),
            clock_mhz: found.clock_mhz,
            peers_mhz: found.peers_mhz,
            slow_hours: found.slow_hours,
            compared_hours: found.compared_hours,
        });
    }
    Ok(StragglerView { stragglers: lines, compared_hours })
}
