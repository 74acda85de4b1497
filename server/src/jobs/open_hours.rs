//! Meters the hour that is not over yet, for pages: a snapshot in memory, never stored.
//!
//! It is remade for a node when segments of it were committed; a restart remakes it for all. Each
//! time the whole hour is metered anew, so the job rests between nodes: with few of them it is a
//! minute behind, with thousands some minutes.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use leasewatch_core::id::{NodeId, SlotNo};
use leasewatch_core::metering::HourRecord;
use leasewatch_core::time::Hour;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Instant, sleep};

use super::{Jobs, pause};
use crate::live::{Change, Changed};
use crate::store::{Scope, StoreError, hour, node};

const JOB: &str = "open_hours";

/// After a node was remade the job rests this many times as long: a large fleet's open hours fall
/// minutes behind rather than take the processor from ingest.
const REST: u32 = 3;

/// Runs for ever.
pub async fn run(jobs: Jobs) {
    let mut changes = jobs.live.changes();
    loop {
        let started_at = jobs.clock.now();
        let all = turn(&jobs).await;
        jobs.report(JOB, started_at, &all).await;
        if !follow(&jobs, &mut changes, started_at.hour()).await {
            return;
        }
    }
}

/// Remakes what changes, until the hour ends, nothing changes for a minute, or changes were missed:
/// then everything has to be remade. False when the server ends.
async fn follow(jobs: &Jobs, changes: &mut broadcast::Receiver<Change>, hour: Hour) -> bool {
    let mut waiting = Waiting::default();
    while jobs.clock.now().hour() == hour {
        // What came meanwhile; a node that waits already waits once.
        loop {
            match changes.try_recv() {
                Ok(change) => waiting.add(change),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Lagged(_)) => return true,
                Err(TryRecvError::Closed) => return false,
            }
        }
        if let Some(node) = waiting.next() {
            if let Err(error) = remake_and_rest(jobs, node).await {
                tracing::warn!(node.id = %node, error = error.in_full(), "an open hour could not be metered");
            }
            continue;
        }
        let change = tokio::select! {
            change = changes.recv() => change,
            () = pause(60) => return true,
        };
        match change {
            Ok(change) => waiting.add(change),
            Err(RecvError::Lagged(_)) => return true,
            Err(RecvError::Closed) => return false,
        }
    }
    true
}

/// Nodes whose segments were committed since they were remade, in order.
#[derive(Debug, Default)]
struct Waiting {
    order: VecDeque<NodeId>,
    known: HashSet<NodeId>,
}

impl Waiting {
    fn add(&mut self, change: Change) {
        if change.what == Changed::Segment && self.known.insert(change.node) {
            self.order.push_back(change.node);
        }
    }

    fn next(&mut self) -> Option<NodeId> {
        let node = self.order.pop_front()?;
        self.known.remove(&node);
        Some(node)
    }
}

async fn remake_and_rest(jobs: &Jobs, node: NodeId) -> Result<(), StoreError> {
    let began = Instant::now();
    let made = remake(jobs, node).await;
    sleep(began.elapsed() * REST).await;
    made
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
        match remake_and_rest(jobs, row.id).await {
            Ok(()) => made += 1,
            Err(error) => {
                tracing::warn!(node.id = %row.id, error = error.in_full(), "an open hour could not be metered");
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
    let loaded = hour::around(&mut tx, row, now.hour(), None).await?;
    tx.commit().await?;
    let records: Vec<(SlotNo, HourRecord)> = loaded
        .meter(loaded.enrolled_so_far(now))
        .into_iter()
        .flat_map(|slot| slot.records.into_iter().map(move |(record, _)| (slot.slot, record)))
        .collect();
    jobs.live.set_open_hour(id, now.hour(), Arc::new(records));
    Ok(())
}
