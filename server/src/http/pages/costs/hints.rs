//! Hints that a smaller GPU would do.

use std::collections::BTreeMap;

use leasewatch_core::catalogue::gpu as catalogue;
use leasewatch_core::cost::over_renting;
use leasewatch_core::id::SlotNo;
use leasewatch_core::time::Hour;
use leasewatch_web::pages::costs::HintLine;

use crate::http::pages::spent::Spent;
use crate::store::contracted::ContractedLease;
use crate::store::{NodeKey, StoreError, Tx, gpu, hour, node};

/// The latest hours that a rhythm is looked for in.
const RHYTHM_HOURS: i64 = 48;
/// Share of its memory beyond which no smaller GPU is offered, whatever the rhythm.
const MEMORY_MOST_PCT: i64 = 60;

/// What of a slot decides about a hint.
#[derive(Clone, Copy)]
struct Peak {
    memory_mib: i64,
    last: Hour,
}

/// By node and slot.
pub(super) async fn of_lease(
    tx: &mut Tx,
    lease: &ContractedLease,
    spent: &Spent,
) -> Result<Vec<HintLine>, StoreError> {
    let mut peaks: BTreeMap<(NodeKey, SlotNo), Peak> = BTreeMap::new();
    for part in &spent.parts {
        let last = part.period.start.hour();
        for (slot, memory_mib) in part.spent.memory_peaks_mib.iter().copied() {
            let own = peaks.entry((part.node, slot)).or_insert(Peak { memory_mib, last });
            *own = Peak { memory_mib: own.memory_mib.max(memory_mib), last: own.last.max(last) };
        }
    }
    let mut hints = Vec::new();
    let peaks: Vec<_> = peaks.into_iter().collect();
    for of_node in peaks.chunk_by(|a, b| a.0.0 == b.0.0) {
        let gpus = gpu::of_node(tx, of_node[0].0.0).await?;
        for ((node, slot), peak) in of_node.iter().copied() {
            let Some(gpu) = gpus.iter().find(|row| row.slot == slot) else { continue };
            let model = gpu.catalogue_key.as_deref().and_then(catalogue::by_key);
            let Some(total) = model.and_then(|model| model.memory_mib) else { continue };
            if peak.memory_mib * 100 <= total * MEMORY_MOST_PCT {
                hints.extend(hint(tx, lease, (node, gpu), (peak, total)).await?);
            }
        }
    }
    Ok(hints)
}

async fn hint(
    tx: &mut Tx,
    lease: &ContractedLease,
    (key, gpu): (NodeKey, &gpu::GpuRow),
    (peak, total): (Peak, i64),
) -> Result<Option<HintLine>, StoreError> {
    let hours = (Hour(peak.last.0 - RHYTHM_HOURS + 1), peak.last.next());
    let mut profiles = hour::profiles(tx, key, gpu.slot, hours).await?;
    profiles.retain(|(_, uuid, _)| *uuid == gpu.uuid);
    let minutes =
        profiles.iter().rev().flat_map(|(_, _, profile)| profile.utilization.iter().rev());
    let known = minutes.take_while(|(_, ms)| *ms > 0);
    let mut load: Vec<i64> = known.map(|(busy, ms)| busy / ms).collect();
    load.reverse();
    let Some(hint) = over_renting(&load, peak.memory_mib, total) else { return Ok(None) };
    let Some(row) = node::by_key(tx, key).await? else { return Ok(None) };
    Ok(Some(HintLine {
        lease: lease.terms.name.to_string(),
        node: row.id.to_string(),
        node_name: row.name,
        slot: gpu.slot.0,
        need_pct: hint.need.percent(),
        memory_peak_mib: hint.memory_peak_mib,
        memory_total_mib: total,
        period_minutes: i64::try_from(hint.period_minutes).unwrap_or(0),
    }))
}
