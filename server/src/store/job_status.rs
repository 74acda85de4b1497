//! The last run of each job.

use leasewatch_core::time::Timestamp;

use super::column::{Column, fitted};
use super::{StoreError, Tx};

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobOutcome {
    /// It has not.
    Running,
    /// It did what there was to do.
    Ok,
    /// It stopped at an error, and tries again at its next turn.
    Failed,
}

impl JobOutcome {
    /// `running`, `ok` or `failed`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ok => "ok",
            Self::Failed => "failed",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Running, Self::Ok, Self::Failed].into_iter().find(|outcome| outcome.name() == name)
    }
}

/// The last run of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobStatus {
    /// Name of the job.
    pub job: String,
    /// When it began.
    pub started_at: Timestamp,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// How.
    pub outcome: JobOutcome,
    /// What a person should know of it.
    pub message: Option<String>,
    /// Pieces of work done.
    pub items: u64,
}

/// Stores a status in place of the last one. Scope: worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn write(tx: &mut Tx, status: &JobStatus) -> Result<(), StoreError> {
    sqlx::query!(
        "insert into job_status (job, started_at, finished_at, outcome, message, items)
        values ($1, $2, $3, $4, $5, $6)
        on conflict (job) do update set started_at = excluded.started_at,
            finished_at = excluded.finished_at, outcome = excluded.outcome,
            message = excluded.message, items = excluded.items",
        status.job,
        status.started_at.0,
        status.finished_at.map(|at| at.0),
        status.outcome.name(),
        status.message,
        fitted::<_, i64>(status.items, "number of items")?
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// The status of each job that ever ran, by name. Scope: operator or worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn list(tx: &mut Tx) -> Result<Vec<JobStatus>, StoreError> {
    let rows = sqlx::query!(
        "select job, started_at, finished_at, outcome, message, items from job_status order by job"
    )
    .fetch_all(tx.connection())
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(JobStatus {
                job: row.job,
                started_at: Timestamp(row.started_at),
                finished_at: row.finished_at.map(Timestamp),
                outcome: Column("job_status", "outcome")
                    .named(&row.outcome, JobOutcome::from_name)?,
                message: row.message,
                items: Column("job_status", "items").number(row.items)?,
            })
        })
        .collect()
}
