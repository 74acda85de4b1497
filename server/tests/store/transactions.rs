//! Cancelled callers and the pool.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use leasewatch_server::store::job_status::{self, JobOutcome, JobStatus};
use leasewatch_server::store::{Db, Scope, StoreError};

use crate::fixture::{AT, connect, number};
use crate::support;

fn status(job: &str) -> JobStatus {
    JobStatus {
        job: job.to_owned(),
        started_at: AT,
        finished_at: None,
        outcome: JobOutcome::Running,
        message: None,
        items: 0,
    }
}

async fn write(db: &Db, job: &str) -> Result<(), StoreError> {
    let mut tx = db.begin(Scope::Worker).await?;
    job_status::write(&mut tx, &status(job)).await?;
    tx.commit().await
}

/// Drops a future at its `times`-th wait, or lets it finish if it waits less often.
async fn cancel_at(work: impl Future, times: usize) {
    let mut work = pin!(work);
    let mut waits = 0;
    poll_fn(|context| {
        if waits < times && work.as_mut().poll(context).is_pending() {
            waits += 1;
            if waits < times {
                return Poll::Pending;
            }
        }
        Poll::Ready(())
    })
    .await;
}

/// sqlx 0.9 forgets a `begin` that is cancelled before its answer, and whoever comes next works
/// inside that transaction. With a pool of one the next is known, and the cancelled one was read
/// only, so it shows.
#[tokio::test]
async fn an_acknowledged_row_is_there_whatever_was_cancelled_before_it() {
    let test = support::database().await;
    let single = Db::connect(&test.url, 1).await.unwrap();
    let mut admin = connect(&test.admin_url).await;
    let mut acknowledged = Vec::new();
    for times in 0..60 {
        cancel_at(single.begin(Scope::Operator), times % 12).await;
        cancel_at(write(&single, "cancelled"), times).await;
        let job = format!("job_{times:02}");
        write(&single, &job).await.unwrap();
        let stored = format!("select count(*) from job_status where job = '{job}'");
        assert_eq!(number(&mut admin, &stored).await, 1, "{job}");
        acknowledged.push(job);
    }
    let mut tx = test.db.begin(Scope::Operator).await.unwrap();
    let rows = job_status::list(&mut tx).await.unwrap();
    let stored: Vec<_> =
        rows.into_iter().map(|row| row.job).filter(|job| job != "cancelled").collect();
    assert_eq!(stored, acknowledged);
}

#[tokio::test]
async fn a_commit_goes_through_although_its_caller_is_gone() {
    let test = support::database().await;
    let single = Db::connect(&test.url, 1).await.unwrap();
    let mut tx = single.begin(Scope::Worker).await.unwrap();
    job_status::write(&mut tx, &status("orphan")).await.unwrap();
    cancel_at(tx.commit(), 1).await;
    // The pool has one connection, so this waits until the commit is over.
    let mut tx = single.begin(Scope::Operator).await.unwrap();
    assert_eq!(job_status::list(&mut tx).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_dropped_transaction_is_rolled_back() {
    let test = support::database().await;
    let single = Db::connect(&test.url, 1).await.unwrap();
    let mut tx = single.begin(Scope::Worker).await.unwrap();
    job_status::write(&mut tx, &status("dropped")).await.unwrap();
    drop(tx);
    let mut tx = single.begin(Scope::Operator).await.unwrap();
    assert!(job_status::list(&mut tx).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_scope_that_may_not_write_is_told_so() {
    let test = support::database().await;
    let mut tx = test.db.begin(Scope::Ingest).await.unwrap();
    let refused = job_status::write(&mut tx, &status("x")).await;
    assert!(matches!(refused, Err(StoreError::Denied(_))), "{refused:?}");
}
