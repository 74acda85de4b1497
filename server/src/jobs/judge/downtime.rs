//! Incidents of kind down: the unbroken stretches of proven downtime that availability rows show.
//!
//! What all slots of a node that the lease covers share is one incident of the node. A stored one
//! that rows do not show any more is withdrawn.

use std::collections::BTreeMap;

use leasewatch_core::availability::{DownCause, EvidenceClass, Ground, State};
use leasewatch_core::id::{Hash, SlotNo};
use leasewatch_core::time::{Period, Timestamp};

use super::Case;
use crate::store::availability::{self, AvailabilityRow};
use crate::store::contracted::ContractedLease;
use crate::store::incident::{self, Attribution, Down};
use crate::store::{NodeKey, StoreError, Tx};

/// Rows that are named at each end of a long incident.
const EVIDENCE_ENDS: usize = 32;

/// Brings the lease's incidents in line with its rows; returns how many changed.
pub(super) async fn put(tx: &mut Tx, case: &Case) -> Result<u64, StoreError> {
    let lease = case.lease.key;
    let rows = availability::with_downtime(tx, lease).await?;
    let mut wanted = of_nodes(outages(&rows), &case.lease);
    let always = Period::new(Timestamp::MIN, Timestamp::MAX);
    let mut changed = 0;
    for stored in incident::of_lease(tx, lease, always).await? {
        let same = |down: &Down| {
            (down.node, down.slot, down.period.start, down.ground)
                == (
                    stored.down.node,
                    stored.down.slot,
                    stored.down.period.start,
                    stored.down.ground,
                )
        };
        match wanted.iter().position(same) {
            Some(index) => {
                let down = wanted.swap_remove(index);
                if down != stored.down {
                    let (end, evidence) = (down.period.end, &down.evidence);
                    incident::extend(tx, lease, stored.number, (end, evidence)).await?;
                    changed += 1;
                }
            }
            None => {
                incident::withdraw(tx, lease, stored.number, case.now).await?;
                changed += 1;
            }
        }
    }
    wanted.sort_by_key(|down| (down.period.start, down.node, down.slot));
    for down in &wanted {
        incident::insert(tx, lease, down, case.now).await?;
        changed += 1;
    }
    Ok(changed)
}

/// Unbroken stretches of one slot with one ground; `rows` are in the order of node, slot, hour.
fn outages(rows: &[AvailabilityRow]) -> Vec<Down> {
    let mut out: Vec<Down> = Vec::new();
    for row in rows {
        let (node, slot) = (row.judged.node, Some(row.judged.slot));
        for stretch in &row.judged.stretches {
            let State::Down(ground) = stretch.state else { continue };
            match out.last_mut() {
                Some(last)
                    if (last.node, last.slot, last.ground) == (node, slot, ground)
                        && last.period.end == stretch.period.start =>
                {
                    last.period.end = stretch.period.end;
                    if last.evidence.last() != Some(&row.hash) {
                        last.evidence.push(row.hash);
                    }
                }
                _ => out.push(Down {
                    node,
                    slot,
                    period: stretch.period,
                    ground,
                    attribution: attribution(ground),
                    evidence: vec![row.hash],
                }),
            }
        }
    }
    out.iter_mut().for_each(|down| keep_ends(&mut down.evidence));
    out
}

/// Puts together what every contracted slot of a node shares.
fn of_nodes(outages: Vec<Down>, lease: &ContractedLease) -> Vec<Down> {
    let mut alike: BTreeMap<(NodeKey, Ground, Period), Vec<Down>> = BTreeMap::new();
    for down in outages {
        alike.entry((down.node, down.ground, down.period)).or_default().push(down);
    }
    let mut out = Vec::new();
    for ((node, _, period), downs) in alike {
        if downs.len() < 2 || downs.len() < contracted_slots(lease, node, period) {
            out.extend(downs);
            continue;
        }
        let mut evidence: Vec<Hash> = downs.iter().flat_map(|d| d.evidence.clone()).collect();
        keep_ends(&mut evidence);
        out.extend(downs.into_iter().next().map(|down| Down { slot: None, evidence, ..down }));
    }
    out
}

fn contracted_slots(lease: &ContractedLease, node: NodeKey, period: Period) -> usize {
    let own = lease.assignments.iter().filter(|(key, _)| *key == node);
    let mut slots: Vec<SlotNo> = own
        .map(|(_, assignment)| assignment.slot)
        .filter(|slot| !lease.of_slot(node, *slot, period).is_empty())
        .collect();
    slots.sort_unstable();
    slots.dedup();
    slots.len()
}

fn keep_ends(evidence: &mut Vec<Hash>) {
    if evidence.len() > 2 * EVIDENCE_ENDS {
        let last = evidence.split_off(evidence.len() - EVIDENCE_ENDS);
        evidence.truncate(EVIDENCE_ENDS);
        evidence.extend(last);
    }
}

/// Whose doing it is, by what the evidence itself shows. Why a host booted by itself, it does not.
fn attribution(ground: Ground) -> Attribution {
    match (ground.class, ground.cause) {
        (EvidenceClass::E5, _) => Attribution::Provider,
        (_, DownCause::Connectivity) => Attribution::Network,
        (_, DownCause::Reboot) => Attribution::Unknown,
        _ => Attribution::Provider,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_evidence_keeps_its_ends() {
        let hash = |n: usize| Hash([u8::try_from(n % 251).unwrap(); 32]);
        let mut evidence: Vec<Hash> = (0..200).map(hash).collect();
        keep_ends(&mut evidence);
        assert_eq!(evidence.len(), 64);
        assert_eq!((evidence[0], evidence[31], evidence[32]), (hash(0), hash(31), hash(168)));
        let mut short: Vec<Hash> = (0..64).map(hash).collect();
        keep_ends(&mut short);
        assert_eq!(short.len(), 64);
    }
}
