//! The queue of hours to meter. A node and hour stands in it once.

use leasewatch_core::time::Hour;

use super::column::{fitted, hour_column};
use super::{NodeKey, StoreError, Tx};

/// Why an hour has to be metered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum WorkReason {
    /// Data arrived.
    Data = 1,
    /// The hour ended.
    Ended = 2,
    /// It was looked at and has to be looked at again.
    Again = 3,
}

/// Puts hours of nodes into the queue, each at most once in one call. A row that is in it is written
/// again, so that it is locked: whoever takes the hour waits for this transaction's data. Scope:
/// ingest or worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn add(
    tx: &mut Tx,
    hours: &[(NodeKey, Hour)],
    reason: WorkReason,
) -> Result<(), StoreError> {
    // One order for everybody, so that two writers never wait for each other in a circle.
    let mut rows: Vec<_> = hours.iter().map(|(key, hour)| (key.columns(), *hour)).collect();
    rows.sort_unstable();
    let (tenants, nodes): (Vec<i32>, Vec<i32>) = rows.iter().map(|(key, _)| *key).unzip();
    let hours = rows.iter().map(|(_, hour)| hour_column(*hour)).collect::<Result<Vec<_>, _>>()?;
    sqlx::query!(
        "insert into hour_work (tenant_id, node_id, hour, reason)
        select w.tenant_id, w.node_id, w.hour, $4
        from unnest($1::int[], $2::int[], $3::int[]) as w (tenant_id, node_id, hour)
        on conflict (tenant_id, node_id, hour) do update set reason = excluded.reason",
        &tenants,
        &nodes,
        &hours,
        i16::from(reason as u8)
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// Up to `limit` hours before `before` that wait, the latest first, so that the past of one node
/// does not keep the present of the others waiting; `again` says whether those that were looked at
/// and came back are there too, behind the others. Nothing is taken.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn list(
    tx: &mut Tx,
    before: Hour,
    again: bool,
    limit: u32,
) -> Result<Vec<(NodeKey, Hour)>, StoreError> {
    let rows = sqlx::query!(
        "select tenant_id, node_id, hour from hour_work
        where hour < $1 and ($2 or reason <> $3)
        order by reason = $3, hour desc, tenant_id, node_id limit $4",
        hour_column(before)?,
        again,
        i16::from(WorkReason::Again as u8),
        i64::from(limit)
    )
    .fetch_all(tx.connection())
    .await?;
    let rows = rows.into_iter();
    Ok(rows
        .map(|row| (NodeKey::new(row.tenant_id, row.node_id), Hour(i64::from(row.hour))))
        .collect())
}

/// Takes one hour out of the queue. False when it is not in it any more, or when another
/// transaction writes or takes it at this moment. Rolled back, it is in it again. Keep the
/// transaction short: an insert of the same hour waits for its end. Scope: worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn take(tx: &mut Tx, key: NodeKey, hour: Hour) -> Result<bool, StoreError> {
    let (tenant, node) = key.columns();
    let taken = sqlx::query!(
        "with taken as materialized (
            select tenant_id, node_id, hour from hour_work
            where tenant_id = $1 and node_id = $2 and hour = $3 for update skip locked
        )
        delete from hour_work w using taken t
        where w.tenant_id = t.tenant_id and w.node_id = t.node_id and w.hour = t.hour",
        tenant,
        node,
        hour_column(hour)?
    )
    .execute(tx.connection())
    .await?;
    Ok(taken.rows_affected() == 1)
}

/// Puts the ended hours of nodes that are expected to report into the queue: those from a node's
/// last record (or its enrolment) up to `last`, at most 100 days. This is how the hours of a silent
/// node are metered. Scope: worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn add_ended(tx: &mut Tx, last: Hour) -> Result<u64, StoreError> {
    const DAYS_MAX: i32 = 100;
    let last = hour_column(last)?;
    let added = sqlx::query!(
        "insert into hour_work (tenant_id, node_id, hour, reason)
        select n.tenant_id, n.node_id, ended.hour, $2
        from node n
        cross join lateral (
            select max(r.hour) as hour from hour_record r
            where r.tenant_id = n.tenant_id and r.node_id = n.node_id and r.hour >= $3
        ) as closed
        cross join lateral generate_series(
            greatest((n.enrolled_at / 3600000)::int, closed.hour + 1, $3), $1
        ) as ended (hour)
        where n.retired_at is null
        on conflict do nothing",
        last,
        i16::from(WorkReason::Ended as u8),
        last - DAYS_MAX * 24
    )
    .execute(tx.connection())
    .await?;
    Ok(added.rows_affected())
}

/// How many hours wait.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn waiting(tx: &mut Tx) -> Result<u64, StoreError> {
    let count = sqlx::query_scalar!(r#"select count(*) as "count!" from hour_work"#);
    let count = count.fetch_one(tx.connection()).await?;
    fitted(count, "number of hours")
}
