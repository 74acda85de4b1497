//! Jobs: work that no request asks for.
//!
//! A job takes no input, is idempotent, does a bounded piece of work per turn, and runs on a timer
//! and on a nudge. It does not retry by itself: the next turn does. Each turn leaves a status that
//! people can see.

pub mod close_hours;
pub mod expand_schedules;
pub mod judge;
pub mod open_hours;
pub mod partitions;

use std::time::Duration;

use leasewatch_core::time::Timestamp;

use crate::clock::Clock;
use crate::live::Live;
use crate::store::job_status::{self, JobOutcome, JobStatus};
use crate::store::{Db, Scope, StoreError};

/// What every job works with.
#[derive(Debug, Clone)]
pub struct Jobs {
    /// The database.
    pub db: Db,
    /// Nudges, node states, and the snapshot of open hours.
    pub live: Live,
    /// Time.
    pub clock: Clock,
}

impl Jobs {
    /// Starts every job; each runs until the process ends.
    pub fn spawn(self) {
        tokio::spawn(close_hours::run(self.clone()));
        tokio::spawn(expand_schedules::run(self.clone()));
        tokio::spawn(judge::run(self.clone()));
        tokio::spawn(open_hours::run(self.clone()));
        tokio::spawn(partitions::run(self));
    }

    /// Stores how a turn went. A turn that did nothing leaves the last status alone, so that a
    /// quiet server does not write.
    async fn report(
        &self,
        job: &'static str,
        started_at: Timestamp,
        result: &Result<u64, StoreError>,
    ) {
        let (outcome, message, items) = match result {
            Ok(0) => return,
            Ok(items) => (JobOutcome::Ok, None, *items),
            Err(error) => {
                tracing::warn!(
                    job,
                    error = error.in_full(),
                    "the job stops here and tries again at its next turn"
                );
                (JobOutcome::Failed, Some(error.to_string()), 0)
            }
        };
        let finished_at = Some(self.clock.now());
        let status =
            JobStatus { job: job.to_owned(), started_at, finished_at, outcome, message, items };
        if let Err(error) = self.write_status(&status).await {
            tracing::warn!(job, error = error.in_full(), "the status of a job could not be stored");
        }
    }

    async fn write_status(&self, status: &JobStatus) -> Result<(), StoreError> {
        let mut tx = self.db.begin(Scope::Worker).await?;
        job_status::write(&mut tx, status).await?;
        tx.commit().await
    }
}

async fn pause(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}
