//! How far each chain of heads is stored: cursors, drops, contradictions.

use leasewatch_core::evidence::chain::Drop as DropNotice;
use leasewatch_core::id::{ChainId, Hash, Sequence};
use leasewatch_core::time::{Period, Timestamp};

use super::column::{Column, fitted};
use super::{NodeKey, StoreError, Tx};

/// Up to where a chain is durable or covered by a drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CursorRow {
    /// The last sequence.
    pub sequence: Sequence,
    /// The hash of its head.
    pub head_hash: Hash,
    /// Start of the chain's first segment.
    pub first_at: Timestamp,
    /// End of the last one.
    pub ended_at: Timestamp,
}

/// Where a cursor moves to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CursorStep {
    /// The new last sequence: of a segment, or the last of a drop.
    pub sequence: Sequence,
    /// The hash of its head.
    pub head_hash: Hash,
    /// What the segment or drop covers.
    pub period: Period,
}

/// Reads a cursor and holds it until the transaction ends, so that nobody else moves it. Scope:
/// ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn lock_cursor(
    tx: &mut Tx,
    key: NodeKey,
    chain: ChainId,
) -> Result<Option<CursorRow>, StoreError> {
    let (tenant, node) = key.columns();
    // The node's row first: it also serialises the first segment of a chain, which has no cursor
    // to lock yet, and slots, which are numbered per node.
    sqlx::query!(
        "select node_id from node where tenant_id = $1 and node_id = $2 for no key update",
        tenant,
        node
    )
    .fetch_optional(tx.connection())
    .await?;
    cursor(tx, key, chain).await
}

/// Reads a cursor without a lock.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn cursor(
    tx: &mut Tx,
    key: NodeKey,
    chain: ChainId,
) -> Result<Option<CursorRow>, StoreError> {
    let (tenant, node) = key.columns();
    let row = sqlx::query!(
        "select sequence, head_hash, first_at, ended_at from chain_cursor
        where tenant_id = $1 and node_id = $2 and chain_id = $3",
        tenant,
        node,
        &chain.0
    )
    .fetch_optional(tx.connection())
    .await?;
    row.map(|row| {
        Ok(CursorRow {
            sequence: Sequence(Column("chain_cursor", "sequence").number(row.sequence)?),
            head_hash: Hash(Column("chain_cursor", "head_hash").array(&row.head_hash)?),
            first_at: Timestamp(row.first_at),
            ended_at: Timestamp(row.ended_at),
        })
    })
    .transpose()
}

/// Moves a cursor forward, or makes it. A step that is not forward changes nothing. Scope: ingest,
/// after [`lock_cursor`].
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn advance_cursor(
    tx: &mut Tx,
    key: NodeKey,
    chain: ChainId,
    step: CursorStep,
) -> Result<(), StoreError> {
    let (tenant, node) = key.columns();
    sqlx::query!(
        "insert into chain_cursor (tenant_id, node_id, chain_id, sequence, head_hash, first_at, ended_at)
        values ($1, $2, $3, $4, $5, $6, $7)
        on conflict (tenant_id, node_id, chain_id) do update set
            sequence = excluded.sequence, head_hash = excluded.head_hash,
            ended_at = greatest(chain_cursor.ended_at, excluded.ended_at)
        where chain_cursor.sequence < excluded.sequence",
        tenant,
        node,
        &chain.0,
        sequence_column(step.sequence)?,
        &step.head_hash.0,
        step.period.start.0,
        step.period.end.0
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// Stores a signed drop. Repeating it changes nothing. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn insert_drop(
    tx: &mut Tx,
    key: NodeKey,
    drop: &DropNotice,
    signature: &[u8; 64],
) -> Result<(), StoreError> {
    let (tenant, node) = key.columns();
    sqlx::query!(
        "insert into dropped_range (tenant_id, node_id, chain_id, first_sequence, last_sequence,
            started_at, ended_at, reason, statement, signature)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) on conflict do nothing",
        tenant,
        node,
        &drop.chain.0,
        sequence_column(drop.first)?,
        sequence_column(drop.last)?,
        drop.period.start.0,
        drop.period.end.0,
        drop.reason.name(),
        drop.statement(),
        signature
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// The drops of a node whose time meets `period`, by time.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn drops(
    tx: &mut Tx,
    key: NodeKey,
    period: Period,
) -> Result<Vec<DropNotice>, StoreError> {
    let (tenant, node) = key.columns();
    let statements = sqlx::query_scalar!(
        "select statement from dropped_range
        where tenant_id = $1 and node_id = $2 and ended_at > $3 and started_at < $4
        order by started_at, chain_id, first_sequence",
        tenant,
        node,
        period.start.0,
        period.end.0
    )
    .fetch_all(tx.connection())
    .await?;
    let column = Column("dropped_range", "statement");
    statements
        .iter()
        .map(|bytes| DropNotice::from_statement(bytes).map_err(|error| column.wrong(error)))
        .collect()
}

/// Notes that a node signed two heads for one sequence. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn note_equivocation(
    tx: &mut Tx,
    key: NodeKey,
    chain: ChainId,
    (sequence, other): (Sequence, Hash),
    at: Timestamp,
) -> Result<(), StoreError> {
    let (tenant, node) = key.columns();
    sqlx::query!(
        "insert into equivocation (tenant_id, node_id, chain_id, sequence, head_hash, seen_at)
        values ($1, $2, $3, $4, $5, $6) on conflict do nothing",
        tenant,
        node,
        &chain.0,
        sequence_column(sequence)?,
        &other.0,
        at.0
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// How many contradicting heads are known of a node.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn equivocations(tx: &mut Tx, key: NodeKey) -> Result<u32, StoreError> {
    let (tenant, node) = key.columns();
    let count = sqlx::query_scalar!(
        r#"select count(*) as "count!" from equivocation where tenant_id = $1 and node_id = $2"#,
        tenant,
        node
    )
    .fetch_one(tx.connection())
    .await?;
    fitted(count, "number of contradictions")
}

pub(super) fn sequence_column(sequence: Sequence) -> Result<i64, StoreError> {
    fitted(sequence.0, "sequence")
}
