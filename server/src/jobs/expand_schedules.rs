//! Turns weekly rules of leases into billing sessions, some days ahead.

use super::{Jobs, pause};
use crate::store::lease::Written;
use crate::store::{Scope, StoreError, billing_schedule};

const JOB: &str = "expand_schedules";

/// Runs for ever, each hour.
pub async fn run(jobs: Jobs) {
    loop {
        let now = jobs.clock.now();
        let result = turn(&jobs).await;
        jobs.report(JOB, now, &result).await;
        pause(if result.is_ok() { 3_600 } else { 60 }).await;
    }
}

/// Writes what is due; returns how many sessions.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn turn(jobs: &Jobs) -> Result<u64, StoreError> {
    let now = jobs.clock.now();
    let mut tx = jobs.db.begin(Scope::Worker).await?;
    let mut added = 0;
    for row in billing_schedule::due(&mut tx, now).await? {
        let written = Written { at: now, by: None, reason: None };
        added += billing_schedule::expand(&mut tx, &row, written).await?;
    }
    tx.commit().await?;
    Ok(added)
}
