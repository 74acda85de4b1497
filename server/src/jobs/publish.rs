//! Publishes: puts what was committed into the log of its tenant and provider, and signs the state.
//!
//! One log is one transaction: what leaves the queues, the leaves that come of it and the checkpoint
//! over them are stored together or not at all, so the job may end at any instant. Leaves are first
//! the statements that waited, then the minutes of heads. Not here: the arithmetic of the tree
//! (`core::evidence::log`), and who is shown what of it.

use ed25519_dalek::SigningKey;
use leasewatch_core::evidence::chain::{Checkpoint, leaf_hash};
use leasewatch_core::evidence::log::checkpoint::{self, LogOrigin};
use leasewatch_core::evidence::log::leaf::{Minute, head_leaf};
use leasewatch_core::id::Hash;
use leasewatch_core::time::{Period, Timestamp};

use super::{Jobs, pause};
use crate::store::log::{self, CheckpointRow, Due, LogRow, MinuteRow, NewLog, Window};
use crate::store::segment::HeadRow;
use crate::store::{Scope, StoreError, Tx, liveness};

const JOB: &str = "publish";
const MINUTE_MS: i64 = 60_000;
/// After a minute's end, time for the server's own liveness to be written.
const DELAY_MS: i64 = 15_000;
/// A head that was received so far ahead of the clock was received before the clock was put back.
const BEYOND_MS: i64 = 5 * MINUTE_MS;
/// Leaves and minutes of one transaction.
const WORK_LIMIT: u32 = 4_096;
const MINUTES_LIMIT: u32 = 64;
/// Heads of one minute, so that its line in a bundle stays short; further ones go into the next.
const HEADS_LIMIT: u32 = 16_384;
/// Transactions of one turn for each log.
const ROUNDS_LIMIT: u32 = 256;

/// The job, with the key that signs.
#[derive(Debug, Clone)]
pub struct Publisher {
    /// What jobs work with.
    pub jobs: Jobs,
    /// The server's identity key.
    pub key: SigningKey,
    /// Names the server in the names of its logs: 16 hex digits of its first identity key's id.
    pub server: String,
}

impl Publisher {
    /// Runs for ever: at the end of each minute.
    pub async fn run(self) {
        loop {
            let started_at = self.jobs.clock.now();
            let result = self.turn().await;
            self.jobs.report(JOB, started_at, &result).await;
            let wait_ms = match result {
                Ok(_) => MINUTE_MS - (self.jobs.clock.now().0 - DELAY_MS).rem_euclid(MINUTE_MS),
                Err(_) => 10_000,
            };
            pause(u64::try_from(wait_ms).unwrap_or(0).div_ceil(1_000)).await;
        }
    }

    /// Publishes what waits; returns how many leaves were added. A log that cannot be added to keeps
    /// no other one from being.
    ///
    /// # Errors
    /// The first [`StoreError`], after the turn.
    pub async fn turn(&self) -> Result<u64, StoreError> {
        let window = window(self.jobs.clock.now());
        let mut tx = self.jobs.db.begin(Scope::Worker).await?;
        let due = log::due(&mut tx, window).await?;
        tx.rollback().await?;
        let (mut added, mut failed) = (0, None);
        for due in &due {
            match self.publish(due).await {
                Ok(leaves) => added += leaves,
                Err(error) => {
                    let (tenant, provider) = (&due.tenant_slug, &due.provider_slug);
                    tracing::error!(%tenant, %provider, error = error.in_full(), "a log could not be added to");
                    failed = failed.or(Some(error));
                }
            }
        }
        failed.map_or(Ok(added), Err)
    }

    async fn publish(&self, due: &Due) -> Result<u64, StoreError> {
        let mut added = 0;
        for _ in 0..ROUNDS_LIMIT {
            match self.add(due).await? {
                0 => break,
                leaves => added += leaves,
            }
        }
        Ok(added)
    }

    /// One transaction.
    async fn add(&self, due: &Due) -> Result<u64, StoreError> {
        let now = self.jobs.clock.now();
        let mut tx = self.jobs.db.begin(Scope::Worker).await?;
        let log = self.open(&mut tx, due, now).await?;
        let mut leaves = log::take_work(&mut tx, due, WORK_LIMIT).await?;
        for _ in 0..MINUTES_LIMIT {
            match minute(&mut tx, &log, due, now).await? {
                Some(leaf) => leaves.push(leaf),
                None => break,
            }
        }
        if leaves.is_empty() {
            tx.rollback().await?;
            return Ok(0);
        }
        self.append(&mut tx, &log, &leaves, now).await?;
        tx.commit().await?;
        Ok(u64::try_from(leaves.len()).unwrap_or(u64::MAX))
    }

    /// The log that goes on, or its beginning.
    async fn open(&self, tx: &mut Tx, due: &Due, at: Timestamp) -> Result<LogRow, StoreError> {
        if let Some(log) = log::current(tx, due.tenant, due.provider).await? {
            return Ok(log);
        }
        let origin = LogOrigin::new(&self.server, &due.tenant_slug, &due.provider_slug, 1);
        let origin = origin.ok_or(StoreError::OutOfRange { what: "the name of the server" })?;
        let new = NewLog {
            tenant: due.tenant,
            provider: due.provider,
            generation: 1,
            origin: &origin,
            first_statement: None,
            at,
        };
        log::open(tx, new).await?;
        let opened = log::current(tx, due.tenant, due.provider).await?;
        opened.ok_or(StoreError::OutOfRange { what: "a new log" })
    }

    /// Adds leaves and signs the state. Nothing is built on a log whose hashes are not those that
    /// were signed.
    async fn append(
        &self,
        tx: &mut Tx,
        log: &LogRow,
        leaves: &[Hash],
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let mut range = log::range(tx, log.key).await?;
        let before = range.leaves().to;
        let signed = log::checkpoint(tx, log.key, None).await?.map(|row| row.state);
        let found = range.root().map(|root| Checkpoint { size: before, root });
        if signed != found.filter(|state| state.size > 0) {
            return Err(StoreError::Inconsistent {
                table: "log_checkpoint",
                column: "root",
                problem: format!("{} has other leaves than were signed", log.origin.as_str()),
            });
        }
        leaves.iter().for_each(|leaf| range.push(*leaf));
        log::append(tx, log.key, before, leaves).await?;
        let root = range.root().ok_or(StoreError::OutOfRange { what: "a root" })?;
        let state = Checkpoint { size: range.leaves().to, root };
        let note = checkpoint::sign(&log.origin, state, &self.key).to_text();
        log::put_checkpoint(tx, log.key, &CheckpointRow { state, at, note }).await
    }
}

fn whole_minute(at: Timestamp) -> Timestamp {
    Timestamp(at.0.div_euclid(MINUTE_MS) * MINUTE_MS)
}

/// Heads of minutes that are over.
fn window(now: Timestamp) -> Window {
    (whole_minute(now.plus_ms(-DELAY_MS)), now.plus_ms(BEYOND_MS))
}

/// Makes the next minute of a log, if heads wait for one; returns its leaf. Minutes ascend in a log:
/// a head that was durable only after its minute was published belongs to the next one. A clock that
/// was put back stops no log: its minutes then count on.
async fn minute(
    tx: &mut Tx,
    log: &LogRow,
    due: &Due,
    now: Timestamp,
) -> Result<Option<Hash>, StoreError> {
    let (end, beyond) = window(now);
    let Some(oldest) = log::oldest_head(tx, due, (end, beyond)).await? else { return Ok(None) };
    let last = log::last_minute(tx, log.key).await?;
    let next = last.map_or(Timestamp::MIN, |last| last.plus_ms(MINUTE_MS));
    let at = whole_minute(oldest).min(end.plus_ms(-MINUTE_MS)).max(next);
    let is_put_back = next > end;
    if at >= end && !is_put_back {
        return Ok(None);
    }
    let until = if is_put_back { end } else { at.plus_ms(MINUTE_MS) };
    let heads = log::take_heads(tx, due, (until, beyond), HEADS_LIMIT).await?;
    let recorded = liveness::periods(tx, Period::new(at, at.plus_ms(MINUTE_MS))).await?;
    let recorded_ms = recorded.into_iter().map(Period::ms).sum();
    let (minute, heads) = minute_of(at, recorded_ms, heads);
    let row = MinuteRow { at, statement: minute.statement(), heads };
    log::put_minute(tx, log.key, &row).await?;
    Ok(Some(leaf_hash(&row.statement)))
}

/// The minute, and the leaves of its tree in their order.
fn minute_of(at: Timestamp, recorded_ms: i64, heads: Vec<HeadRow>) -> (Minute, Vec<Hash>) {
    let mut leaves: Vec<_> = heads
        .iter()
        .map(|row| {
            let leaf = head_leaf(&row.head.statement(), &row.signature);
            (row.head.node, row.head.sequence, leaf)
        })
        .collect();
    leaves.sort_unstable();
    let minute = Minute::of(at, recorded_ms, leaves.clone());
    (minute, leaves.into_iter().map(|(.., leaf)| leaf).collect())
}
