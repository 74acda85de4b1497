//! The one task that writes segments.
//!
//! Streams hand over what they have checked and wait; this task gathers for a moment, writes
//! segments of many nodes in one transaction, commits, and only then answers. It runs apart from
//! every RPC, so a cancelled call cannot cancel a transaction.
//!
//! Invariants:
//! 1. An answer is given after the commit that it speaks of. A commit whose outcome is not known
//!    gives no answer at all.
//! 2. Items of one stream are written in the order in which they were handed over.
//! 3. What one item does wrong hurts no other: a batch that fails is written again one by one.
//! 4. Bounded: what waits has a budget of bytes and of items.
//!
//! Not here: the decision about each item (`core::delivery`), its checks (`check`), SQL (`store`).

mod batch;
mod hours;
mod place;
mod put;
mod rows;

use std::sync::Arc;
use std::time::Duration;

use leasewatch_core::id::Sequence;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use super::beginning::CheckedStart;
use super::check::{CheckedDrop, CheckedSegment, Refused};
use super::session::ProvenNode;
use crate::clock::Clock;
use crate::live::Live;
use crate::store::Db;

use batch::Batcher;

/// How long and how much the writer gathers, and how much may wait.
#[derive(Debug, Clone, Copy)]
pub struct WriterOptions {
    /// Longest time for which an item waits for others.
    pub gather: Duration,
    /// Bytes at which a batch is full.
    pub batch_bytes: usize,
    /// Items at which a batch is full.
    pub batch_items: usize,
    /// Bytes that may wait in all; more are held back at their streams.
    pub queue_bytes: usize,
    /// How long a stream waits for room before it is turned away.
    pub patience: Duration,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            gather: Duration::from_millis(100),
            batch_bytes: 8 * 1_024 * 1_024,
            batch_items: 512,
            queue_bytes: 64 * 1_024 * 1_024,
            patience: Duration::from_secs(10),
        }
    }
}

/// Something to write.
#[derive(Debug)]
pub enum Item {
    /// The start of a chain.
    Start(Box<CheckedStart>),
    /// A segment.
    Segment(Box<CheckedSegment>),
    /// A drop.
    Drop(Box<CheckedDrop>),
}

/// What became of an item, after the commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Everything up to this sequence is durable or covered.
    Durable(Sequence),
    /// Something between is missing: send again behind this sequence.
    Rewind(Sequence),
    /// It was refused for good.
    Refused(Refused),
    /// It has no place in its chain, and nothing behind it has: the stream ends with this.
    Ends(&'static str),
}

/// Why an item has no outcome: nothing is known to be stored, and nothing may be acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// There was no room in time.
    #[error("too much is waiting to be written")]
    Busy,
    /// The database did not take it, or did not say whether it did.
    #[error("the store is not available")]
    Unavailable,
}

/// The writer's end for streams. Cheap to clone; the task ends when all clones are gone.
#[derive(Debug, Clone)]
pub struct Writer {
    queue: mpsc::Sender<Submission>,
    budget: Arc<Semaphore>,
    options: WriterOptions,
}

/// An item in the queue.
#[derive(Debug)]
struct Submission {
    node: Arc<ProvenNode>,
    item: Item,
    answer: oneshot::Sender<Result<Outcome, WriteError>>,
    /// Gives its bytes back to the budget when the item is done.
    _permit: OwnedSemaphorePermit,
}

/// The outcome of an item, once there is one. Dropping it changes nothing: the item is written.
#[derive(Debug)]
pub struct Receipt(oneshot::Receiver<Result<Outcome, WriteError>>);

impl Receipt {
    /// Waits for the outcome. Safe to cancel and to call again until it returns.
    ///
    /// # Errors
    /// [`WriteError::Unavailable`].
    pub async fn outcome(&mut self) -> Result<Outcome, WriteError> {
        (&mut self.0).await.unwrap_or(Err(WriteError::Unavailable))
    }

    /// The outcome, if it is there.
    pub fn ready(&mut self) -> Option<Result<Outcome, WriteError>> {
        match self.0.try_recv() {
            Ok(outcome) => Some(outcome),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(Err(WriteError::Unavailable)),
        }
    }
}

impl Writer {
    /// Starts the task.
    #[must_use]
    pub fn spawn(db: Db, live: Live, clock: Clock, options: WriterOptions) -> Self {
        let (queue, submissions) = mpsc::channel(options.batch_items.max(1) * 2);
        let batcher = Batcher::new(db, live, clock);
        tokio::spawn(run(submissions, batcher, options));
        Self { queue, budget: Arc::new(Semaphore::new(units(options.queue_bytes))), options }
    }

    /// Hands an item over. When this returns, the item will be written whatever happens to the
    /// caller; when it is cancelled before, the item was never there.
    ///
    /// # Errors
    /// [`WriteError::Busy`] when there was no room in time; [`WriteError::Unavailable`] when the
    /// writer is gone.
    pub async fn submit(&self, node: &Arc<ProvenNode>, item: Item) -> Result<Receipt, WriteError> {
        let deadline = Instant::now() + self.options.patience;
        let weight = units(weight_bytes(&item)).min(units(self.options.queue_bytes));
        let weight = u32::try_from(weight).unwrap_or(u32::MAX);
        let room = Arc::clone(&self.budget).acquire_many_owned(weight);
        let permit = timeout_at(deadline, room)
            .await
            .map_err(|_| WriteError::Busy)?
            .map_err(|_| WriteError::Unavailable)?;
        let place = timeout_at(deadline, self.queue.reserve())
            .await
            .map_err(|_| WriteError::Busy)?
            .map_err(|_| WriteError::Unavailable)?;
        let (answer, receipt) = oneshot::channel();
        place.send(Submission { node: Arc::clone(node), item, answer, _permit: permit });
        Ok(Receipt(receipt))
    }
}

async fn run(
    mut submissions: mpsc::Receiver<Submission>,
    mut batcher: Batcher,
    options: WriterOptions,
) {
    while let Some(first) = submissions.recv().await {
        let batch = gather(first, &mut submissions, options).await;
        batcher.write(batch).await;
    }
}

/// Waits for company until the time is up or the batch is full.
async fn gather(
    first: Submission,
    submissions: &mut mpsc::Receiver<Submission>,
    options: WriterOptions,
) -> Vec<Submission> {
    let end = Instant::now() + options.gather;
    let mut bytes = weight_bytes(&first.item);
    let mut batch = vec![first];
    while batch.len() < options.batch_items && bytes < options.batch_bytes {
        let next = match submissions.try_recv() {
            Ok(next) => next,
            Err(_) => {
                let wait = end.saturating_duration_since(Instant::now());
                match timeout(wait, submissions.recv()).await {
                    Ok(Some(next)) => next,
                    Ok(None) | Err(_) => break,
                }
            }
        };
        bytes += weight_bytes(&next.item);
        batch.push(next);
    }
    batch
}

/// The budget is counted in KiB, so that it fits a semaphore on every platform.
fn units(bytes: usize) -> usize {
    bytes.div_ceil(1_024).clamp(1, Semaphore::MAX_PERMITS)
}

fn weight_bytes(item: &Item) -> usize {
    match item {
        Item::Start(start) => start.statement.len(),
        Item::Segment(segment) => segment.weight_bytes(),
        Item::Drop(drop) => drop.statement.len(),
    }
}
