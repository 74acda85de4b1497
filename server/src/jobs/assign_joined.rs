//! Assigns the GPUs of nodes that joined with a token of a lease to that lease, once they are known.
//!
//! A node names no lease: the token does. A node that never shows a GPU waits, and is never assigned.

use leasewatch_core::id::SlotNo;
use leasewatch_core::time::Timestamp;

use super::{Jobs, pause};
use crate::store::audit::{self, Action, Entry, Who};
use crate::store::enrollment::{self, LeasedJoin};
use crate::store::{Scope, StoreError, Tx, lease};

/// Seconds between two looks.
const EVERY: u64 = 5;

/// Runs for ever.
pub async fn run(jobs: Jobs) {
    loop {
        let now = jobs.clock.now();
        let result = turn(&jobs).await;
        jobs.report("assign_joined", now, &result).await;
        pause(EVERY).await;
    }
}

/// Assigns what there is to assign. Returns of how many nodes.
///
/// # Errors
/// [`StoreError`] of the database; what came before is done.
pub async fn turn(jobs: &Jobs) -> Result<u64, StoreError> {
    let mut tx = jobs.db.begin(Scope::Worker).await?;
    let waiting = enrollment::unassigned(&mut tx).await?;
    tx.commit().await?;
    let mut done = 0;
    for join in waiting {
        done += u64::from(one(jobs, &join).await?);
    }
    Ok(done)
}

/// False where somebody assigned a slot at the same moment; the next turn looks again.
async fn one(jobs: &Jobs, join: &LeasedJoin) -> Result<bool, StoreError> {
    let at = jobs.clock.now();
    let tenant = join.node.tenant();
    let mut tx = jobs.db.begin(Scope::Tenant(tenant)).await?;
    let Some(row) = lease::by_key(&mut tx, join.lease).await? else { return Ok(false) };
    let slots = match enrollment::assign(&mut tx, join, at).await? {
        Ok(slots) => slots,
        Err(overlap) => {
            tracing::warn!(node.id = %join.id, reason = %overlap, "GPUs are not assigned yet");
            return Ok(false);
        }
    };
    // What is covered already stays where it is, and nothing was changed then.
    if !slots.is_empty() {
        let object = row.terms.name.as_str();
        note(&mut tx, (join, object), &slots, at).await?;
    }
    tx.commit().await?;
    Ok(true)
}

async fn note(
    tx: &mut Tx,
    (join, object): (&LeasedJoin, &str),
    slots: &[SlotNo],
    at: Timestamp,
) -> Result<(), StoreError> {
    let numbers: Vec<String> = slots.iter().map(|slot| slot.0.to_string()).collect();
    let entry = Entry {
        at,
        tenant: Some(join.node.tenant()),
        // The node did, by joining: nobody is signed in.
        who: &Who::outside(None),
        action: Action::LeaseChanged,
        object,
        detail: &[
            ("node", join.id.to_string()),
            ("assigned_gpus", numbers.join(" ")),
            ("from", join.joined_at.to_string()),
            ("join_token", join.token.to_string()),
            ("join_token_made_by", join.created_by.clone()),
        ],
    };
    audit::write(tx, entry).await
}
