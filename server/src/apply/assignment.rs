//! `[[assignment]]`: slots of a node that a lease covers. Lease, node, slot and start name one.

use leasewatch_core::id::SlotNo;
use leasewatch_core::lease::written::AssignmentEntry;
use leasewatch_core::time::Timestamp;

use super::{Fault, Run, Verb, Wrong};
use crate::store::LeaseKey;
use crate::store::assignment::{self, AssignmentRow, NewAssignment};

const CORRECTED: &str = "corrected";

/// Assigns slots, or ends, corrects or withdraws their assignments.
pub(super) async fn apply(run: &mut Run<'_>, entry: &AssignmentEntry) -> Result<(), Fault> {
    let lease = run.lease(&entry.lease).await?;
    let node = run.node(&entry.node).await?;
    let starts_at = entry.starts_at.unwrap_or(lease.terms.starts_at);
    if entry.ends_at.is_some_and(|end| end <= starts_at) {
        return Err(Wrong::new("ends_at", "must be after the start").into());
    }
    if entry.slots.is_empty() {
        return Err(Wrong::new("slots", "need one number each").into());
    }
    if entry.withdrawn.as_deref().is_some_and(|why| !(1..=200).contains(&why.chars().count())) {
        return Err(Wrong::new("withdrawn", "must be a reason of 1 to 200 characters").into());
    }
    let mut known = assignment::of_lease(run.tx, lease.key).await?;
    known.retain(|row| row.withdrawn_at.is_none() && row.node == node.key);
    for slot in &entry.slots {
        if i16::try_from(*slot).is_err() {
            return Err(Wrong::new("slots", "must be numbers of slots").into());
        }
        let of_slot = |row: &&AssignmentRow| {
            let is_start = row.assignment.starts_at == starts_at;
            // Without a start, what is there is meant, also when the lease began elsewhere then.
            row.assignment.slot.0 == *slot && (is_start || entry.starts_at.is_none())
        };
        let new = NewAssignment {
            node: node.key,
            slot: SlotNo(*slot),
            starts_at,
            ends_at: entry.ends_at,
        };
        let verb = one(run, lease.key, (known.iter().find(of_slot), new), entry).await?;
        let what = format!("assignment of GPU {slot} of {} to {}", node.name, entry.lease);
        run.did(verb, what);
    }
    Ok(())
}

async fn one(
    run: &mut Run<'_>,
    lease: LeaseKey,
    (known, new): (Option<&AssignmentRow>, NewAssignment),
    entry: &AssignmentEntry,
) -> Result<Verb, Fault> {
    let times = |row: &AssignmentRow| (row.assignment.starts_at, row.assignment.ends_at);
    Ok(match (known, &entry.withdrawn) {
        (None, Some(_)) => Verb::Keep,
        (Some(row), Some(reason)) => {
            withdraw(run, row, reason).await?;
            Verb::Withdraw
        }
        (Some(row), None) if times(row) == (new.starts_at, new.ends_at) => Verb::Keep,
        (Some(row), None) => {
            match end_of(row, &new) {
                Some(end) => assignment::end(run.tx, row, end, run.written).await?,
                None => {
                    withdraw(run, row, CORRECTED).await?;
                    put(run, lease, new).await?;
                }
            }
            Verb::Change
        }
        (None, None) => {
            put(run, lease, new).await?;
            Verb::Add
        }
    })
}

/// The end, where that is all that is new.
fn end_of(row: &AssignmentRow, new: &NewAssignment) -> Option<Timestamp> {
    let is_new = row.assignment.ends_at.is_none() && row.assignment.starts_at == new.starts_at;
    new.ends_at.filter(|_| is_new)
}

async fn withdraw(run: &mut Run<'_>, row: &AssignmentRow, reason: &str) -> Result<(), Fault> {
    let written = crate::store::lease::Written { reason: Some(reason), ..run.written };
    Ok(assignment::withdraw(run.tx, row, written).await?)
}

async fn put(run: &mut Run<'_>, lease: LeaseKey, new: NewAssignment) -> Result<(), Fault> {
    let put = assignment::put(run.tx, lease, new, run.written).await?;
    put.map_err(|overlap| Wrong::of(&overlap))?;
    Ok(())
}
