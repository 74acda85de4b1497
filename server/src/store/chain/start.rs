//! How chains begin: their signed starts.

use leasewatch_core::evidence::chain::{ChainStart, leaf_hash};
use leasewatch_core::id::{ChainId, Hash};
use leasewatch_core::time::{Period, Timestamp};

use crate::store::column::{Column, fitted};
use crate::store::{NodeKey, StoreError, Tx};

/// The signed start of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartRow {
    /// What it says.
    pub start: ChainStart,
    /// Its canonical bytes.
    pub statement: Vec<u8>,
    /// The node's signature over them.
    pub signature: [u8; 64],
    /// Server time of the commit.
    pub received_at: Timestamp,
}

/// The hash of a chain's start, if one is stored.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn start_hash(
    tx: &mut Tx,
    key: NodeKey,
    chain: ChainId,
) -> Result<Option<Hash>, StoreError> {
    let (tenant, node) = key.columns();
    let statement = sqlx::query_scalar!(
        "select statement from chain_start
        where tenant_id = $1 and node_id = $2 and chain_id = $3",
        tenant,
        node,
        &chain.0
    )
    .fetch_optional(tx.connection())
    .await?;
    Ok(statement.map(|statement| leaf_hash(&statement)))
}

/// Whether the node has begun any chain, with a start or before there were any.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn has_any(tx: &mut Tx, key: NodeKey) -> Result<bool, StoreError> {
    let (tenant, node) = key.columns();
    let found = sqlx::query_scalar!(
        r#"select exists (select from chain_start where tenant_id = $1 and node_id = $2)
            or exists (select from chain_cursor where tenant_id = $1 and node_id = $2) as "found!""#,
        tenant,
        node
    )
    .fetch_one(tx.connection())
    .await?;
    Ok(found)
}

/// Stores the start of a chain that has none. Scope: ingest, after [`lock`].
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn insert_start(tx: &mut Tx, key: NodeKey, row: &StartRow) -> Result<(), StoreError> {
    let (tenant, node) = key.columns();
    sqlx::query!(
        "insert into chain_start (tenant_id, node_id, chain_id, at, reason, statement, signature,
            received_at)
        values ($1, $2, $3, $4, $5, $6, $7, $8)",
        tenant,
        node,
        &row.start.chain.0,
        row.start.at.0,
        row.start.reason.name(),
        row.statement,
        &row.signature,
        row.received_at.0
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// The starts of a node's chains within `period`, the latest first, at most `limit`.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn starts(
    tx: &mut Tx,
    key: NodeKey,
    period: Period,
    limit: u32,
) -> Result<Vec<StartRow>, StoreError> {
    let (tenant, node) = key.columns();
    let rows = sqlx::query!(
        "select statement, signature, received_at from chain_start
        where tenant_id = $1 and node_id = $2 and at >= $3 and at < $4
        order by at desc, chain_id limit $5",
        tenant,
        node,
        period.start.0,
        period.end.0,
        i64::from(limit)
    )
    .fetch_all(tx.connection())
    .await?;
    let column = Column("chain_start", "statement");
    rows.into_iter()
        .map(|row| {
            Ok(StartRow {
                start: ChainStart::from_statement(&row.statement)
                    .map_err(|error| column.wrong(error))?,
                statement: row.statement,
                signature: Column("chain_start", "signature").array(&row.signature)?,
                received_at: Timestamp(row.received_at),
            })
        })
        .collect()
}

/// How often the record of a node broke off and began anew, in its whole life.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn breaks(tx: &mut Tx, key: NodeKey) -> Result<u32, StoreError> {
    let (tenant, node) = key.columns();
    let count = sqlx::query_scalar!(
        r#"select count(*) as "count!" from chain_start
        where tenant_id = $1 and node_id = $2 and reason <> 'joined'"#,
        tenant,
        node
    )
    .fetch_one(tx.connection())
    .await?;
    fitted(count, "number of breaks")
}
