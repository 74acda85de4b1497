//! One transaction for many items; one by one when that fails; answers after the commit.

use std::collections::HashSet;
use std::time::Duration;

use leasewatch_core::time::{DAY_MS, Period, Timestamp};

use super::put::{self, Stored};
use super::{Item, Outcome, Submission, WriteError};
use crate::clock::Clock;
use crate::grpc::ProvenNode;
use crate::grpc::check::Refused;
use crate::live::Live;
use crate::sabotage;
use crate::store::{Db, Scope, StoreError, Tx, partition};

/// Days that are remembered as having partitions, before the memory starts anew.
const DAYS_KEPT: usize = 8_192;

/// Writes batches. It remembers nothing that a restart could lose.
pub(super) struct Batcher {
    db: Db,
    live: Live,
    clock: Clock,
    days: HashSet<i64>,
}

/// Where a transaction failed.
enum Failure {
    /// Before the commit: nothing of it is stored.
    Undone(StoreError),
    /// In the commit: nobody knows.
    Unknown(StoreError),
}

impl Batcher {
    pub(super) fn new(db: Db, live: Live, clock: Clock) -> Self {
        Self { db, live, clock, days: HashSet::new() }
    }

    /// Writes a batch and answers each item.
    pub(super) async fn write(&mut self, batch: Vec<Submission>) {
        self.ensure_partitions(&batch).await;
        let references: Vec<&Submission> = batch.iter().collect();
        match self.transact(&references).await {
            Ok(stored) => self.answer_all(batch, stored),
            Err(Failure::Undone(error)) => {
                tracing::warn!(
                    error = error.in_full(),
                    items = batch.len(),
                    "a batch failed and is written one by one"
                );
                for submission in batch {
                    self.write_alone(submission).await;
                }
            }
            Err(Failure::Unknown(error)) => {
                tracing::error!(
                    error = error.in_full(),
                    items = batch.len(),
                    "a commit has no known outcome; nothing is acknowledged"
                );
                for submission in batch {
                    let _ = submission.answer.send(Err(WriteError::Unavailable));
                }
            }
        }
    }

    async fn write_alone(&mut self, submission: Submission) {
        let mut attempt = self.transact(&[&submission]).await;
        if let Err(Failure::Undone(StoreError::Collision(_))) = attempt {
            attempt = self.transact(&[&submission]).await;
        }
        let error = match attempt {
            Ok(stored) => return self.answer_all(vec![submission], stored),
            Err(Failure::Undone(error) | Failure::Unknown(error)) => error,
        };
        let node = submission.node.facts.id;
        tracing::error!(node.id = %node, error = error.in_full(), "an item could not be stored");
        let _ = submission.answer.send(match error {
            // It would be the same next time, and the chain must go on.
            StoreError::Constraint { .. } | StoreError::OutOfRange { .. } => {
                Ok(not_storable(&submission.item))
            }
            _ => Err(WriteError::Unavailable),
        });
    }

    async fn transact(&self, batch: &[&Submission]) -> Result<Vec<Stored>, Failure> {
        let mut tx = self.db.begin(Scope::Ingest).await.map_err(Failure::Undone)?;
        let now = self.clock.now();
        let items: Vec<(&ProvenNode, &Item)> =
            batch.iter().map(|submission| (&*submission.node, &submission.item)).collect();
        let stored = put::all(&mut tx, &items, now).await.map_err(Failure::Undone)?;
        commit(tx).await.map_err(Failure::Unknown)?;
        Ok(stored)
    }

    fn answer_all(&self, batch: Vec<Submission>, stored: Vec<Stored>) {
        if stored.iter().any(|stored| stored.queued_hours) {
            self.live.nudge_hour_work();
        }
        for (submission, stored) in batch.into_iter().zip(stored) {
            let node = submission.node.facts.id;
            match &submission.item {
                Item::Segment(segment) if stored.queued_hours => {
                    self.live.segment(node, segment.head.period.end, segment.says_goodbye());
                }
                _ => {}
            }
            if stored.contested {
                tracing::warn!(node.id = %node, "two different heads were signed for one sequence");
                self.live.contested(node);
            }
            // Nobody waits any more: the stream ended, the item is stored.
            let _ = submission.answer.send(Ok(stored.outcome));
        }
    }

    /// Partitions are made in transactions of their own, before the batch holds locks. A failure
    /// shows again in the batch, where it has an answer.
    async fn ensure_partitions(&mut self, batch: &[Submission]) {
        let mut missing: Vec<i64> = batch.iter().flat_map(days).collect();
        missing.retain(|day| !self.days.contains(day));
        missing.sort_unstable();
        missing.dedup();
        if self.days.len() + missing.len() > DAYS_KEPT {
            self.days.clear();
        }
        for day in missing {
            let start = Timestamp(day.saturating_mul(DAY_MS));
            match partition::ensure(&self.db, Period::new(start, start.plus_ms(DAY_MS))).await {
                Ok(_) => {
                    self.days.insert(day);
                }
                Err(error) => {
                    tracing::error!(error = error.in_full(), "no partition for {start}")
                }
            }
        }
    }
}

/// Returns when what was written is durable.
async fn commit(tx: Tx) -> Result<(), StoreError> {
    if sabotage::is("ack_before_commit") {
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_secs(1)).await;
            tx.commit().await
        });
        return Ok(());
    }
    tx.commit().await
}

/// The days since 1970 in which an item has rows.
fn days(submission: &Submission) -> std::ops::RangeInclusive<i64> {
    let period = match &submission.item {
        // It has no rows in partitioned tables, and makes no hours.
        #[expect(clippy::reversed_empty_ranges, reason = "no day at all")]
        Item::Start(_) => return 0..=-1,
        Item::Segment(segment) => segment.head.period,
        // A drop has no rows in partitioned tables, but its hours will.
        Item::Drop(drop) => Period::new(drop.credible.end, drop.credible.end),
    };
    period.start.0.div_euclid(DAY_MS)..=period.end.0.div_euclid(DAY_MS)
}

fn not_storable(item: &Item) -> Outcome {
    let sequence = match item {
        Item::Start(_) => return Outcome::Ends("the store cannot hold this start of a chain"),
        Item::Segment(segment) => segment.head.sequence,
        Item::Drop(drop) => drop.drop.first,
    };
    let message = "the store cannot hold this".to_owned();
    Outcome::Refused(Refused { sequence, code: "not_storable", message })
}
