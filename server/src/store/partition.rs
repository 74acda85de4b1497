//! Partitions by time, made ahead.

use leasewatch_core::time::{DAY_MS, Period, Timestamp};

use super::column::fitted;
use super::{Db, Scope, StoreError};

/// Days of one transaction: each new table keeps several locks until its end.
const DAYS_AT_ONCE: i64 = 32;
/// Days of one call: no import needs more, and a hostile time must not fill the catalogue.
const DAYS_MAX: i64 = 4_000;

/// Makes the partitions that rows in `period` need and that are missing; returns how many. Days of
/// segments and blocks, months of events and hours.
///
/// It works in transactions of its own. Call it *before* the transaction that inserts: inside one
/// it would wait for locks that the caller holds.
///
/// # Errors
/// [`StoreError::PartitionRange`] for an empty period, one outside of 2000 to 2200, or one of more
/// than 4,000 days.
pub async fn ensure(db: &Db, period: Period) -> Result<u32, StoreError> {
    if period.ms() > DAYS_MAX * DAY_MS {
        let message = format!("partitions are made for at most {DAYS_MAX} days a call");
        return Err(StoreError::PartitionRange(message));
    }
    let mut made = 0;
    let mut start = period.start;
    loop {
        let end = start.plus_ms(DAYS_AT_ONCE * DAY_MS).min(period.end);
        made += ensure_some(db, start, end).await?;
        if end >= period.end {
            return Ok(made);
        }
        start = end;
    }
}

async fn ensure_some(db: &Db, start: Timestamp, end: Timestamp) -> Result<u32, StoreError> {
    let mut tx = db.begin(Scope::Ingest).await?;
    let made = sqlx::query_scalar!(
        r#"select leasewatch_ensure_partitions($1, $2) as "made!""#,
        start.0,
        end.0
    )
    .fetch_one(tx.connection())
    .await?;
    tx.commit().await?;
    fitted(made, "number of partitions")
}
