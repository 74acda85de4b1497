//! When a node had a stream open, by the server's clock.

use leasewatch_core::time::{Period, Timestamp};

use super::{NodeKey, StoreError, Tx};

/// An open session, to close it by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionKey {
    node: NodeKey,
    opened_at: Timestamp,
}

/// A stream opens. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn open(
    tx: &mut Tx,
    key: NodeKey,
    agent_version: &str,
    at: Timestamp,
) -> Result<SessionKey, StoreError> {
    let (tenant, node) = key.columns();
    // A second stream in the same millisecond shares the row; the later one closes it.
    sqlx::query!(
        "insert into node_session (tenant_id, node_id, opened_at, agent_version)
        values ($1, $2, $3, $4)
        on conflict (tenant_id, node_id, opened_at) do update set closed_at = null",
        tenant,
        node,
        at.0,
        agent_version
    )
    .execute(tx.connection())
    .await?;
    Ok(SessionKey { node: key, opened_at: at })
}

/// A stream ends. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn close(tx: &mut Tx, session: SessionKey, at: Timestamp) -> Result<(), StoreError> {
    let (tenant, node) = session.node.columns();
    sqlx::query!(
        "update node_session set closed_at = greatest(opened_at, $4)
        where tenant_id = $1 and node_id = $2 and opened_at = $3",
        tenant,
        node,
        session.opened_at.0,
        at.0
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// Closes what a server that ended without a word left open, at `at`: the last instant at which it
/// is known to have been recording. Returns how many. Scope: ingest or worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn close_all_open(tx: &mut Tx, at: Timestamp) -> Result<u64, StoreError> {
    let closed = sqlx::query!(
        "update node_session set closed_at = greatest(opened_at, $1) where closed_at is null",
        at.0
    )
    .execute(tx.connection())
    .await?;
    Ok(closed.rows_affected())
}

/// When the node had a stream open within `period`: ascending, merged. An open session lasts to the
/// period's end.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn periods(tx: &mut Tx, key: NodeKey, period: Period) -> Result<Vec<Period>, StoreError> {
    let (tenant, node) = key.columns();
    let rows = sqlx::query!(
        "select opened_at, closed_at from node_session
        where tenant_id = $1 and node_id = $2 and opened_at < $4
            and (closed_at is null or closed_at > $3)
        order by opened_at",
        tenant,
        node,
        period.start.0,
        period.end.0
    )
    .fetch_all(tx.connection())
    .await?;
    let stretches = rows.into_iter().map(|row| {
        let end = row.closed_at.map_or(period.end, Timestamp);
        Period::new(Timestamp(row.opened_at), end).intersect(period)
    });
    Ok(merged(stretches))
}

/// Joins stretches that touch or overlap; they come ascending by start.
pub(super) fn merged(stretches: impl Iterator<Item = Period>) -> Vec<Period> {
    stretches.filter(|stretch| !stretch.is_empty()).fold(Vec::new(), |mut all, stretch| {
        match all.last_mut() {
            Some(last) if stretch.start <= last.end => last.end = last.end.max(stretch.end),
            _ => all.push(stretch),
        }
        all
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_that_touch_or_overlap_become_one() {
        let period = |start, end| Period::new(Timestamp(start), Timestamp(end));
        let stretches = [period(0, 5), period(5, 7), period(6, 6), period(6, 9), period(11, 12)];
        assert_eq!(merged(stretches.into_iter()), [period(0, 9), period(11, 12)]);
    }
}
