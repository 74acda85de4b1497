//! Telling the live state what the store knows, at the server's start.

use leasewatch_core::segment::EventKind;
use leasewatch_core::time::Timestamp;

use crate::live::{Introduction, Live};
use crate::store::node::NodeRow;
use crate::store::{Db, Scope, StoreError, Tx, chain, event, node, node_key, segment};

/// Introduces every node, so that those which were seen before the start get their grace. To be
/// awaited before the port opens.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn introduce_nodes(db: &Db, live: &Live) -> Result<(), StoreError> {
    let mut tx = db.begin(Scope::Ingest).await?;
    for row in node::list(&mut tx).await? {
        live.introduce(row.id, introduction(&mut tx, &row).await?);
    }
    tx.commit().await
}

/// What is stored of a node.
pub(super) async fn introduction(tx: &mut Tx, node: &NodeRow) -> Result<Introduction, StoreError> {
    Ok(Introduction {
        ever_seen: segment::recorded_until(tx, node.key).await?.is_some(),
        said_goodbye: said_goodbye(tx, node).await?,
        revoked: !node_key::has_good_one(tx, node.key).await?,
        contested: chain::equivocations(tx, node.key).await? > 0
            || node_key::contested_sessions(tx, node.key).await? > 0,
    })
}

/// A goodbye counts while nothing came after the segment that holds it.
async fn said_goodbye(tx: &mut Tx, node: &NodeRow) -> Result<bool, StoreError> {
    let last = event::before(tx, node.key, Timestamp::MAX, 1).await?;
    let Some(last) = last.into_iter().next() else { return Ok(false) };
    if !matches!(last.event.kind, EventKind::Goodbye { .. }) {
        return Ok(false);
    }
    let cursor = chain::cursor(tx, node.key, last.chain).await?;
    Ok(cursor.is_some_and(|cursor| cursor.sequence == last.sequence))
}
