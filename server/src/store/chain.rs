//! Each chain of heads: how it began, how far it is stored, drops, contradictions.

mod start;

use leasewatch_core::evidence::chain::{Drop as DropNotice, leaf_hash};
use leasewatch_core::id::{ChainId, Hash, Sequence};
use leasewatch_core::time::{Period, Timestamp};

use super::column::{Column, fitted};
use super::{NodeKey, StoreError, Tx};
pub use start::{StartRow, breaks, has_any, insert_start, start_hash, starts};

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

/// What is stored of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainRow {
    /// How far it got; `None` before its first segment or drop.
    pub cursor: Option<CursorRow>,
    /// Hash of its start. Not looked up where there is a cursor.
    pub start: Option<Hash>,
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

/// Reads chains and holds their nodes until the transaction ends, so that nobody else moves a
/// cursor; one row for each key, in their order. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn lock(tx: &mut Tx, keys: &[(NodeKey, ChainId)]) -> Result<Vec<ChainRow>, StoreError> {
    let (tenants, nodes): (Vec<i32>, Vec<i32>) = keys.iter().map(|(key, _)| key.columns()).unzip();
    let chains: Vec<&[u8]> = keys.iter().map(|(_, chain)| &chain.0[..]).collect();
    // The nodes' rows, in one order for everybody, so that two writers never wait for each other
    // in a circle: they also serialise the start and the first segment of a chain, which has no
    // cursor to lock yet, and slots, which are numbered per node. Cursors are read by a statement
    // of their own: this one sees them as they were before it waited.
    sqlx::query!(
        "select n.node_id from node n
        where (n.tenant_id, n.node_id) in (select * from unnest($1::int[], $2::int[]))
        order by n.tenant_id, n.node_id for no key update of n",
        &tenants,
        &nodes
    )
    .fetch_all(tx.connection())
    .await?;
    let rows = sqlx::query!(
        r#"select c.sequence as "sequence?", c.head_hash as "head_hash?", c.first_at as "first_at?",
            c.ended_at as "ended_at?", s.statement as "statement?"
        from unnest($1::int[], $2::int[], $3::bytea[])
            with ordinality as k (tenant_id, node_id, chain_id, place)
        left join chain_cursor c using (tenant_id, node_id, chain_id)
        left join chain_start s on c.sequence is null and s.tenant_id = k.tenant_id
            and s.node_id = k.node_id and s.chain_id = k.chain_id
        order by k.place"#,
        &tenants,
        &nodes,
        &chains as &[&[u8]]
    )
    .fetch_all(tx.connection())
    .await?;
    rows.into_iter()
        .map(|row| {
            let cursor = (row.sequence, row.head_hash, row.first_at, row.ended_at);
            let cursor = match cursor {
                (Some(sequence), Some(hash), Some(first_at), Some(ended_at)) => {
                    Some(cursor_row((sequence, &hash), (first_at, ended_at))?)
                }
                _ => None,
            };
            Ok(ChainRow { cursor, start: row.statement.as_deref().map(leaf_hash) })
        })
        .collect()
}

fn cursor_row(
    (sequence, hash): (i64, &[u8]),
    (first_at, ended_at): (i64, i64),
) -> Result<CursorRow, StoreError> {
    Ok(CursorRow {
        sequence: Sequence(Column("chain_cursor", "sequence").number(sequence)?),
        head_hash: Hash(Column("chain_cursor", "head_hash").array(hash)?),
        first_at: Timestamp(first_at),
        ended_at: Timestamp(ended_at),
    })
}

/// Reads a chain without a lock.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn read(tx: &mut Tx, key: NodeKey, chain: ChainId) -> Result<ChainRow, StoreError> {
    let cursor = cursor(tx, key, chain).await?;
    // A chain with a cursor has begun, so each segment does not ask for its start again.
    let start = match cursor {
        Some(_) => None,
        None => start_hash(tx, key, chain).await?,
    };
    Ok(ChainRow { cursor, start })
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
    row.map(|row| cursor_row((row.sequence, &row.head_hash), (row.first_at, row.ended_at)))
        .transpose()
}

/// Moves cursors forward, or makes them, each at most once in one call. A step that is not forward
/// changes nothing. Scope: ingest, after [`lock`].
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn advance(
    tx: &mut Tx,
    steps: &[(NodeKey, ChainId, CursorStep)],
) -> Result<(), StoreError> {
    let (tenants, nodes): (Vec<i32>, Vec<i32>) =
        steps.iter().map(|(key, ..)| key.columns()).unzip();
    let chains: Vec<&[u8]> = steps.iter().map(|(_, chain, _)| &chain.0[..]).collect();
    let sequences = steps.iter().map(|(.., step)| sequence_column(step.sequence));
    let hashes: Vec<&[u8]> = steps.iter().map(|(.., step)| &step.head_hash.0[..]).collect();
    let starts: Vec<i64> = steps.iter().map(|(.., step)| step.period.start.0).collect();
    let ends: Vec<i64> = steps.iter().map(|(.., step)| step.period.end.0).collect();
    sqlx::query!(
        "insert into chain_cursor (tenant_id, node_id, chain_id, sequence, head_hash, first_at, ended_at)
        select * from unnest($1::int[], $2::int[], $3::bytea[], $4::bigint[], $5::bytea[],
            $6::bigint[], $7::bigint[])
        on conflict (tenant_id, node_id, chain_id) do update set
            sequence = excluded.sequence, head_hash = excluded.head_hash,
            ended_at = greatest(chain_cursor.ended_at, excluded.ended_at)
        where chain_cursor.sequence < excluded.sequence",
        &tenants,
        &nodes,
        &chains as &[&[u8]],
        &sequences.collect::<Result<Vec<_>, _>>()?,
        &hashes as &[&[u8]],
        &starts,
        &ends
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
