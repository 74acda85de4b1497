//! When the server itself was recording. Time that is not here is nobody's fault but ours.

use leasewatch_core::time::{Period, Timestamp};

use super::session::merged;
use super::{StoreError, Tx};

const MINUTE_MS: i64 = 60_000;

/// The server was recording during `stretch`, which continues the last one or begins anew after a
/// pause. Called each 10 s or so; touching stretches of one minute share a row. Scope: worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn record(tx: &mut Tx, stretch: Period) -> Result<(), StoreError> {
    if stretch.is_empty() {
        return Ok(());
    }
    let minute = stretch.start.0.div_euclid(MINUTE_MS) * MINUTE_MS;
    let grown = sqlx::query!(
        "update server_liveness set ended_at = $2 where started_at >= $3 and started_at < $1 and ended_at = $1",
        stretch.start.0,
        stretch.end.0,
        minute
    )
    .execute(tx.connection())
    .await?;
    if grown.rows_affected() == 0 {
        sqlx::query!(
            "insert into server_liveness (started_at, ended_at) values ($1, $2)
            on conflict (started_at) do update set
                ended_at = greatest(server_liveness.ended_at, excluded.ended_at)",
            stretch.start.0,
            stretch.end.0
        )
        .execute(tx.connection())
        .await?;
    }
    Ok(())
}

/// When the server was recording within `period`: ascending, merged.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn periods(tx: &mut Tx, period: Period) -> Result<Vec<Period>, StoreError> {
    let rows = sqlx::query!(
        "select started_at, ended_at from server_liveness
        where started_at < $2 and ended_at > $1 order by started_at",
        period.start.0,
        period.end.0
    )
    .fetch_all(tx.connection())
    .await?;
    let stretches = rows.into_iter().map(|row| {
        Period::new(Timestamp(row.started_at), Timestamp(row.ended_at)).intersect(period)
    });
    Ok(merged(stretches))
}

/// The last instant at which the server is known to have been recording.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn last(tx: &mut Tx) -> Result<Option<Timestamp>, StoreError> {
    let last = sqlx::query_scalar!(
        "select ended_at from server_liveness order by started_at desc limit 1"
    );
    Ok(last.fetch_optional(tx.connection()).await?.map(Timestamp))
}
