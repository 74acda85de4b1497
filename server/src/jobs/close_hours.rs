//! Closes hours: takes them from the queue, meters them from segments, writes what changed.
//!
//! One hour of one node is one transaction: the queue's row goes and the records come together.
//! The rule of what becomes of a record is `core::metering::decide`; nothing here knows more.

use leasewatch_core::id::{Hash, SlotNo};
use leasewatch_core::metering::{
    Current, HourNames, HourProfile, HourRecord, HourState, SEAL_AFTER_MS, SETTLED_AFTER_MS, Write,
    decide,
};
use leasewatch_core::time::{HOUR_MS, Hour, Timestamp};

use super::{Jobs, pause};
use crate::live::Changed;
use crate::store::hour::{self, HourRow, MeteredSlot, NewHour, NodeHour};
use crate::store::hour_work::{self, WorkReason};
use crate::store::{NodeKey, Scope, StoreError, Tx, node, partition, segment};

const JOB: &str = "close_hours";
/// After an hour's end, time for the server's own liveness to be written.
const CLOSE_DELAY_MS: i64 = 15_000;
/// Hours of one turn, and hours per look for those that can be sealed.
const TURN_LIMIT: u32 = 256;
const SEAL_LIMIT: u32 = 256;
/// Between two looks at hours that came back, in milliseconds.
const AGAIN_MS: i64 = 10_000;

/// What the job remembers between turns. All of it may be lost: the queue is in the database.
#[derive(Debug, Default)]
struct Walk {
    /// The last hour that silent nodes were queued for.
    ended: Option<Hour>,
    /// Where the walk over hours that are due to be sealed stands.
    sealed_to: Option<(NodeKey, Hour)>,
    looked_again_at: Timestamp,
}

/// Runs for ever: on each nudge, and each ten seconds.
pub async fn run(jobs: Jobs) {
    let mut walk = Walk::default();
    loop {
        let started_at = jobs.clock.now();
        let again = started_at.since(walk.looked_again_at) >= AGAIN_MS;
        let mut result = Ok(0);
        if again {
            walk.looked_again_at = started_at;
            result = enqueue(&jobs, &mut walk).await;
        }
        if result.is_ok() {
            result = turn(&jobs, again).await;
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
/// silent nodes.
async fn enqueue(jobs: &Jobs, walk: &mut Walk) -> Result<u64, StoreError> {
    let now = jobs.clock.now();
    let mut tx = jobs.db.begin(Scope::Worker).await?;
    let mut added = 0;
    let last = now.plus_ms(-CLOSE_DELAY_MS - HOUR_MS).hour();
    if walk.ended != Some(last) {
        added += hour_work::add_ended(&mut tx, last).await?;
    }
    let before = now.plus_ms(-SEAL_AFTER_MS).hour();
    let due = hour::due_to_seal(&mut tx, before, walk.sealed_to, SEAL_LIMIT).await?;
    for (key, hour) in &due {
        hour_work::add(&mut tx, *key, &[*hour], WorkReason::Again).await?;
        added += 1;
    }
    tx.commit().await?;
    walk.ended = Some(last);
    // At the end of the walk it begins anew.
    walk.sealed_to = due.last().copied();
    Ok(added)
}

/// Closes the hours that wait and have ended, also those that came back if `again`; returns how
/// many records were written. An hour that cannot be closed stays in the queue and keeps no other
/// one from being closed.
///
/// # Errors
/// The first [`StoreError`], after the turn.
pub async fn turn(jobs: &Jobs, again: bool) -> Result<u64, StoreError> {
    let before = jobs.clock.now().plus_ms(-CLOSE_DELAY_MS).hour();
    let mut tx = jobs.db.begin(Scope::Worker).await?;
    let waiting = hour_work::list(&mut tx, before, again, TURN_LIMIT).await?;
    tx.commit().await?;
    let (mut written, mut failed) = (0, None);
    for (key, hour) in waiting {
        match close_one(jobs, key, hour).await {
            Ok(records) => written += records,
            Err(error) => {
                tracing::error!(%hour, error = %error, "an hour could not be closed and stays in the queue");
                failed = failed.or(Some(error));
            }
        }
    }
    failed.map_or(Ok(written), Err)
}

async fn close_one(jobs: &Jobs, key: NodeKey, hour: Hour) -> Result<u64, StoreError> {
    partition::ensure(&jobs.db, hour.period()).await?;
    let mut tx = jobs.db.begin(Scope::Worker).await?;
    if !hour_work::take(&mut tx, key, hour).await? {
        return Ok(0);
    }
    // Without a row the node was removed after its hour was queued.
    let Some(row) = node::by_key(&mut tx, key).await? else {
        tx.commit().await?;
        return Ok(0);
    };
    let id = row.id;
    let outcome = close(&mut tx, row, hour, jobs.clock.now()).await?;
    if outcome.wait {
        hour_work::add(&mut tx, key, &[hour], WorkReason::Again).await?;
    }
    tx.commit().await?;
    if outcome.written > 0 {
        jobs.live.announce(id, Changed::Hours);
    }
    Ok(outcome.written)
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
        last.head.period.end > hour.end() || now.since(last.received_at) >= SETTLED_AFTER_MS
    });
    let loaded = hour::around(tx, row, hour, None).await?;
    let mut outcome = Outcome::default();
    for slot in loaded.meter(loaded.enrolled(now)) {
        write_slot(tx, &loaded, &slot, (now, settled), &mut outcome).await?;
    }
    Ok(outcome)
}

/// Writes what changed of one slot, and takes back what later data showed to be wrong: a GPU that
/// never sat there in this hour. A provisional record of it goes; a sealed one gets a revision of
/// nothing, so that the rows of a slot always add up to its enrolled time.
async fn write_slot(
    tx: &mut Tx,
    loaded: &NodeHour,
    slot: &MeteredSlot,
    (now, settled): (Timestamp, bool),
    outcome: &mut Outcome,
) -> Result<(), StoreError> {
    let (key, hour) = (loaded.node().key, loaded.hour());
    let stored = hour::current(tx, key, slot.slot, hour).await?;
    let is_present = |row: &HourRow| slot.records.iter().any(|(r, _)| r.gpu == row.record.gpu);
    let displaced: Vec<(HourRecord, HourProfile)> = stored
        .iter()
        .filter(|row| row.state == HourState::Sealed && !is_present(row))
        .map(|row| HourRecord::empty(hour, row.record.gpu.clone(), loaded.node().origin))
        .map(|record| (record, HourProfile::empty()))
        .collect();
    for (record, profile) in slot.records.iter().chain(&displaced) {
        let row = stored.iter().find(|row| row.record.gpu == record.gpu);
        let current = row.map(|row| Current {
            state: row.state,
            revision: row.revision,
            record: &row.record,
        });
        match decide(current, record, hour, now, settled) {
            Write::Keep => {}
            Write::Wait => outcome.wait = true,
            Write::Put { state, revision } => {
                let new = Put { loaded, slot: slot.slot, row, now };
                new.put(tx, (state, revision), (record, profile)).await?;
                outcome.written += 1;
            }
        }
    }
    let present: Vec<_> = slot.records.iter().map(|(record, _)| record.gpu.clone()).collect();
    hour::remove_provisional_except(tx, key, slot.slot, hour, &present).await
}

/// Where a record is put.
struct Put<'a> {
    loaded: &'a NodeHour,
    slot: SlotNo,
    /// What is stored of it.
    row: Option<&'a HourRow>,
    now: Timestamp,
}

impl Put<'_> {
    async fn put(
        &self,
        tx: &mut Tx,
        (state, revision): (HourState, u32),
        (record, profile): (&HourRecord, &HourProfile),
    ) -> Result<(), StoreError> {
        // A replaced revision keeps its predecessor; a new one follows the stored one.
        let previous = self.row.and_then(|row| match row.revision < revision {
            true => Some(row.hash),
            false => row.previous,
        });
        let node = self.loaded.node();
        let hash = statement_hash(node, self.slot, record, (revision, previous));
        let new = NewHour {
            node: node.key,
            slot: self.slot,
            revision,
            state,
            record,
            profile,
            hash,
            previous,
            written_at: self.now,
        };
        hour::put(tx, &new).await
    }
}

/// The statement hash that a record is committed under.
fn statement_hash(
    node: &node::NodeRow,
    slot: SlotNo,
    record: &HourRecord,
    (revision, previous): (u32, Option<Hash>),
) -> Hash {
    record.statement_hash(&HourNames {
        tenant: &node.tenant,
        node: node.id,
        slot,
        revision,
        previous,
    })
}
