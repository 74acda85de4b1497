//! Closes hours: takes them from the queue, meters them from segments, writes what changed.
//!
//! One hour of one node is one transaction: the queue's row goes and the records come together, and
//! leases that cover the node are queued for judgement.
//! The rule of what becomes of a record is `core::metering::decide`; nothing here knows more.

use std::collections::BTreeSet;

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
use crate::store::{NodeKey, Scope, StoreError, Tx, judge_work, node, partition, segment};

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
    if !due.is_empty() {
        hour_work::add(&mut tx, &due, WorkReason::Again).await?;
        added += u64::try_from(due.len()).unwrap_or(u64::MAX);
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
    let (mut written, mut failed, mut days) = (0, None, BTreeSet::new());
    for (key, hour) in waiting {
        let ready = ensure_partitions(jobs, hour, &mut days).await;
        let closed = match ready {
            Ok(()) => close_one(jobs, key, hour).await,
            Err(error) => Err(error),
        };
        match closed {
            Ok(records) => written += records,
            Err(error) => {
                tracing::error!(%hour, error = error.in_full(), "an hour could not be closed and stays in the queue");
                failed = failed.or(Some(error));
            }
        }
    }
    failed.map_or(Ok(written), Err)
}

/// Before the transactions that close hours, and once for all hours of a day in a turn.
async fn ensure_partitions(
    jobs: &Jobs,
    hour: Hour,
    days: &mut BTreeSet<i64>,
) -> Result<(), StoreError> {
    let day = hour.0.div_euclid(24);
    if !days.contains(&day) {
        partition::ensure(&jobs.db, hour.period()).await?;
        days.insert(day);
    }
    Ok(())
}

async fn close_one(jobs: &Jobs, key: NodeKey, hour: Hour) -> Result<u64, StoreError> {
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
        hour_work::add(&mut tx, &[(key, hour)], WorkReason::Again).await?;
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
    let metered = loaded.meter(loaded.enrolled(now));
    write(tx, &loaded, metered, (now, settled)).await
}

/// A record that an hour should have.
struct Wanted {
    slot: SlotNo,
    record: HourRecord,
    profile: HourProfile,
}

/// Writes what changed, and takes back what later data showed to be wrong: a GPU that never sat in
/// a slot in this hour. A provisional record of it goes; a sealed one gets a revision of nothing,
/// so that the rows of a slot always add up to its enrolled time.
async fn write(
    tx: &mut Tx,
    loaded: &NodeHour,
    metered: Vec<MeteredSlot>,
    (now, settled): (Timestamp, bool),
) -> Result<Outcome, StoreError> {
    let (key, hour) = (loaded.node().key, loaded.hour());
    let slots: Vec<SlotNo> = metered.iter().map(|slot| slot.slot).collect();
    let stored = hour::current(tx, key, &slots, hour).await?;
    let mut wanted: Vec<Wanted> = metered.into_iter().flat_map(wanted_of).collect();
    let is_wanted = |row: &HourRow, wanted: &[Wanted]| {
        wanted.iter().any(|of| (of.slot, &of.record.gpu) == (row.slot, &row.record.gpu))
    };
    let (displaced, _): (Vec<&HourRow>, Vec<_>) =
        stored.iter().partition(|row| !is_wanted(row, &wanted));
    for row in &displaced {
        let (slot, gpu) = (row.slot, row.record.gpu.clone());
        if row.state == HourState::Sealed {
            let record = HourRecord::empty(hour, gpu, loaded.node().origin);
            wanted.push(Wanted { slot, record, profile: HourProfile::empty() });
        }
    }
    let (mut outcome, mut new) = (Outcome::default(), Vec::new());
    for wanted in &wanted {
        let of = (wanted.slot, &wanted.record.gpu);
        let row = stored.iter().find(|row| (row.slot, &row.record.gpu) == of);
        let current = row.map(|row| Current {
            state: row.state,
            revision: row.revision,
            record: &row.record,
        });
        match decide(current, &wanted.record, hour, now, settled) {
            Write::Keep => {}
            Write::Wait => outcome.wait = true,
            Write::Put { state, revision } => {
                new.push(new_hour(loaded.node(), wanted, row, (state, revision, now)));
            }
        }
    }
    if !new.is_empty() {
        hour::put(tx, &new).await?;
    }
    let gone = displaced.iter().filter(|row| row.state == HourState::Provisional);
    let gone: Vec<_> = gone.map(|row| (row.slot, &row.record.gpu)).collect();
    if !gone.is_empty() {
        hour::remove_provisional(tx, key, hour, &gone).await?;
    }
    if !new.is_empty() || !gone.is_empty() {
        judge_work::add_hour(tx, key, hour).await?;
    }
    outcome.written = u64::try_from(new.len()).unwrap_or(u64::MAX);
    Ok(outcome)
}

fn wanted_of(metered: MeteredSlot) -> impl Iterator<Item = Wanted> {
    let slot = metered.slot;
    metered.records.into_iter().map(move |(record, profile)| Wanted { slot, record, profile })
}

fn new_hour<'a>(
    node: &node::NodeRow,
    wanted: &'a Wanted,
    row: Option<&HourRow>,
    (state, revision, now): (HourState, u32, Timestamp),
) -> NewHour<'a> {
    // A replaced revision keeps its predecessor; a new one follows the stored one.
    let previous = row.and_then(|row| match row.revision < revision {
        true => Some(row.hash),
        false => row.previous,
    });
    let Wanted { slot, record, profile } = wanted;
    NewHour {
        node: node.key,
        slot: *slot,
        revision,
        state,
        record,
        profile,
        hash: statement_hash(node, *slot, record, (revision, previous)),
        previous,
        written_at: now,
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
