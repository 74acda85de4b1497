//! Makes the partitions of the coming days, so that ingest never meets a missing one.

use leasewatch_core::time::{DAY_MS, Period};

use super::{Jobs, pause};
use crate::store::partition;

/// How far ahead.
const AHEAD_MS: i64 = 14 * DAY_MS;
/// How far back: nodes deliver what they recorded while the server was away.
const BACK_MS: i64 = 7 * DAY_MS;

/// Runs for ever, each hour.
pub async fn run(jobs: Jobs) {
    loop {
        let now = jobs.clock.now();
        let period = Period::new(now.plus_ms(-BACK_MS), now.plus_ms(AHEAD_MS));
        let result = partition::ensure(&jobs.db, period).await.map(u64::from);
        jobs.report("partitions", now, &result).await;
        pause(if result.is_ok() { 3_600 } else { 10 }).await;
    }
}
