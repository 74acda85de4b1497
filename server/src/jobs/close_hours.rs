//! Closes hours: takes them from the queue, meters them from segments, writes what changed.
//!
//! One hour of one node is one transaction: the queue's row goes and the records come together.
//! The rule of what becomes of a record is `core::metering::decide`; nothing here knows more.

use leasewatch_core::metering::{Current, SEAL_AFTER_MS, SETTLED_AFTER_MS, Write, decide};
use leasewatch_core::time::{HOUR_MS, Hour, Timestamp};

use super::load::{MeteredSlot, NodeHour, load, statement_hash};
use super::{Jobs, pause};
use crate::live::Changed;
use crate::store::hour::{self, NewHour};
use crate::store::hour_work::{self, WorkReason};
use crate::store::{Scope, StoreError, Tx, node, segment};

const JOB: &str = "close_hours";
/// After an hour's end, time for the server's own liveness to be written.
const CLOSE_DELAY_MS: i64 = 15_000;
/// Hours per look for those that can be sealed.
const SEAL_LIMIT: u32 = 64;

/// Runs for ever: on each nudge, and each ten seconds.
pub async fn run(jobs: Jobs) {
    let mut ended = None;
    loop {
        let started_at = jobs.clock.now();
        let last = started_at.plus_ms(-CLOSE_DELAY_MS - HOUR_MS).hour();
        let mut result = enqueue(&jobs, last, ended != Some(last)).await;
        if result.is_ok() {
            ended = Some(last);
            result = turn(&jobs).await;
        }
        jobs.report(JOB, started_at, &result).await;
        if matches!(result, Ok(0) | Err(_)) {
            tokio::select! {
                () = jobs.live.hour_work() => {}
                () = pause(10) => {}
            }
        }
    }
}

/// Puts hours that are due to be sealed into the queue and, when an hour has ended, those of
/// silent nodes up to `last`.
async fn enqueue(jobs: &Jobs, last: Hour, has_ended: bool) -> Result<u64, StoreError> {
    let mut tx = jobs.db.begin(Scope::Worker).await?;
    let mut added = 0;
    if has_ended {
        added += hour_work::add_ended(&mut tx, last).await?;
    }
    let due = jobs.clock.now().plus_ms(-SEAL_AFTER_MS).hour();
    for (key, hour) in hour::due_to_seal(&mut tx, due, SEAL_LIMIT).await? {
        hour_work::add(&mut tx, key, &[hour], WorkReason::Again).await?;
        added += 1;
    }
    tx.commit().await?;
    Ok(added)
}

/// Closes every hour that waits and has ended; returns how many records were written. Hours that
/// have to be looked at again go back into the queue at the end of the turn.
///
/// # Errors
/// [`StoreError`] of the first hour that could not be closed; it stays in the queue.
pub async fn turn(jobs: &Jobs) -> Result<u64, StoreError> {
    let mut written = 0;
    let mut again = Vec::new();
    loop {
        let before = jobs.clock.now().plus_ms(-CLOSE_DELAY_MS).hour();
        let mut tx = jobs.db.begin(Scope::Worker).await?;
        let Some((key, hour)) = hour_work::take(&mut tx, before, 1).await?.pop() else { break };
        if let Some(row) = node::by_key(&mut tx, key).await? {
            let id = row.id;
            let outcome = close(&mut tx, row, hour, jobs.clock.now()).await?;
            tx.commit().await?;
            written += outcome.written;
            if outcome.wait {
                again.push((key, hour));
            }
            if outcome.written > 0 {
                jobs.live.announce(id, Changed::Hours);
            }
        } else {
            // The node was removed after its hour was queued.
            tx.commit().await?;
        }
    }
    let mut tx = jobs.db.begin(Scope::Worker).await?;
    for (key, hour) in again {
        hour_work::add(&mut tx, key, &[hour], WorkReason::Again).await?;
    }
    tx.commit().await?;
    Ok(written)
}

#[derive(Default)]
struct Outcome {
    written: u64,
    wait: bool,
}

async fn close(
    tx: &mut Tx,
    row: node::NodeRow,
    hour: Hour,
    now: Timestamp,
) -> Result<Outcome, StoreError> {
    let last = segment::head_before(tx, row.key, Timestamp::MAX).await?;
    let settled = last.is_none_or(|last| {
        last.head.period.end >= hour.end() || now.since(last.received_at) >= SETTLED_AFTER_MS
    });
    let loaded = load(tx, row, hour).await?;
    let mut outcome = Outcome::default();
    for slot in loaded.meter(loaded.enrolled(now)) {
        write_slot(tx, &loaded, &slot, (now, settled), &mut outcome).await?;
    }
    Ok(outcome)
}

async fn write_slot(
    tx: &mut Tx,
    loaded: &NodeHour,
    slot: &MeteredSlot,
    (now, settled): (Timestamp, bool),
    outcome: &mut Outcome,
) -> Result<(), StoreError> {
    let Some(hour) = slot.records.first().map(|(record, _)| record.hour) else { return Ok(()) };
    let key = loaded.node().key;
    let stored = hour::current(tx, key, slot.slot, hour).await?;
    for (record, profile) in &slot.records {
        let row = stored.iter().find(|row| row.record.gpu == record.gpu);
        let current = row.map(|row| Current {
            state: row.state,
            revision: row.revision,
            record: &row.record,
        });
        let (state, revision) = match decide(current, record, hour, now, settled) {
            Write::Keep => continue,
            Write::Wait => {
                outcome.wait = true;
                continue;
            }
            Write::Put { state, revision } => (state, revision),
        };
        // A replaced revision keeps its predecessor; a new one follows the stored one.
        let previous =
            row.and_then(|row| if row.revision < revision { Some(row.hash) } else { row.previous });
        let hash = statement_hash(loaded.node(), slot.slot, record, (revision, previous));
        let new = NewHour {
            node: key,
            slot: slot.slot,
            revision,
            state,
            record,
            profile,
            hash,
            previous,
            written_at: now,
        };
        hour::put(tx, &new).await?;
        outcome.written += 1;
    }
    let present: Vec<_> = slot.records.iter().map(|(record, _)| record.gpu.clone()).collect();
    hour::remove_provisional_except(tx, key, slot.slot, hour, &present).await
}
