//! Meters the hour that is not over yet, for pages: a snapshot in memory, never stored.
//!
//! It is remade for a node whenever segments of it were committed, so it is at most a minute
//! behind; a restart remakes it for all.

use std::sync::Arc;

use leasewatch_core::id::{NodeId, SlotNo};
use leasewatch_core::metering::HourRecord;
use leasewatch_core::time::{Period, Timestamp};
use tokio::sync::broadcast::error::RecvError;

use super::load::load;
use super::{Jobs, pause};
use crate::live::Changed;
use crate::store::{Scope, StoreError, node};

const JOB: &str = "open_hours";
/// A node that recorded this lately has more on its way: time after its last segment is not a gap
/// yet.
const ON_ITS_WAY_MS: i64 = 150_000;

/// Runs for ever.
pub async fn run(jobs: Jobs) {
    let mut changes = jobs.live.changes();
    loop {
        let started_at = jobs.clock.now();
        let all = turn(&jobs).await;
        jobs.report(JOB, started_at, &all).await;
        let hour = started_at.hour();
        // A new hour, or changes that were missed: everything anew.
        while jobs.clock.now().hour() == hour {
            let change = tokio::select! {
                change = changes.recv() => change,
                () = pause(60) => break,
            };
            match change {
                Ok(change) if change.what == Changed::Segment => {
                    if let Err(error) = remake(&jobs, change.node).await {
                        tracing::warn!(node.id = %change.node, error = %error, "an open hour could not be metered");
                    }
                }
                Ok(_) => {}
                Err(RecvError::Lagged(_)) => break,
                Err(RecvError::Closed) => return,
            }
        }
    }
}

/// Remakes every node's open hour. One that cannot be metered keeps no other one from being shown;
/// the first error is reported after the walk. Returns how many were made.
///
/// # Errors
/// The first [`StoreError`], after the walk.
pub async fn turn(jobs: &Jobs) -> Result<u64, StoreError> {
    let mut tx = jobs.db.begin(Scope::Operator).await?;
    let nodes = node::list(&mut tx).await?;
    tx.commit().await?;
    let known: Vec<NodeId> = nodes.iter().map(|row| row.id).collect();
    jobs.live.retain_open_hours(&known);
    let (mut made, mut failed) = (0, None);
    for row in nodes {
        match remake(jobs, row.id).await {
            Ok(()) => made += 1,
            Err(error) => {
                tracing::warn!(node.id = %row.id, error = %error, "an open hour could not be metered");
                failed = failed.or(Some(error));
            }
        }
    }
    failed.map_or(Ok(made), Err)
}

/// Remakes the open hour of one node.
async fn remake(jobs: &Jobs, id: NodeId) -> Result<(), StoreError> {
    let now = jobs.clock.now();
    let mut tx = jobs.db.begin(Scope::Operator).await?;
    let Some(row) = node::by_public_id(&mut tx, id).await? else { return Ok(()) };
    let loaded = load(&mut tx, row, now.hour()).await?;
    tx.commit().await?;
    let mut enrolled = loaded.enrolled(now);
    if let Some(end) = loaded.recorded_until() {
        enrolled = until(enrolled, end, now);
    }
    let records: Vec<(SlotNo, HourRecord)> = loaded
        .meter(enrolled)
        .into_iter()
        .flat_map(|slot| slot.records.into_iter().map(move |(record, _)| (slot.slot, record)))
        .collect();
    jobs.live.set_open_hour(id, now.hour(), Arc::new(records));
    Ok(())
}

fn until(enrolled: Period, recorded: Timestamp, now: Timestamp) -> Period {
    let on_its_way = now.since(recorded) < ON_ITS_WAY_MS;
    let end = if on_its_way { enrolled.end.min(recorded) } else { enrolled.end };
    Period::new(enrolled.start, end)
}
