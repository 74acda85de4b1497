//! Segments: the head's columns and signature, and the blocks as exact bytes.

mod block;
mod head;

use leasewatch_core::evidence::chain::Head;
use leasewatch_core::id::{ChainId, Hash, Sequence};
use leasewatch_core::time::{Period, Timestamp};

pub(super) use block::decode;
pub use block::{
    BlockRow, NewBlock, Place, blocks, blocks_of, insert_blocks, last_block, last_block_end,
    residents_before,
};
use head::Row;

use super::chain::sequence_column;
use super::column::{Column, fitted};
use super::{NodeKey, StoreError, TenantKey, Tx};

/// A verified head to store.
#[derive(Debug, Clone, Copy)]
pub struct NewSegment<'a> {
    /// Whose it is. The head's tenant, node and origin were compared with its row.
    pub node: NodeKey,
    /// What was signed.
    pub head: &'a Head,
    /// [`Head::hash`] of it.
    pub hash: Hash,
    /// Over the head's statement.
    pub signature: &'a [u8; 64],
    /// Server time.
    pub received_at: Timestamp,
}

/// A stored head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeadRow {
    /// What was signed, regenerated from the columns: its statement is byte for byte what came.
    pub head: Head,
    /// Its hash, compared with the regenerated statement.
    pub hash: Hash,
    /// The signature.
    pub signature: [u8; 64],
    /// When it was stored, by the server's clock.
    pub received_at: Timestamp,
}

/// The columns of a [`Row`], with the condition and order that follow them.
macro_rules! select_heads {
    ($rest:literal, $($argument:expr),*) => {
        sqlx::query_as!(
            Row,
            "select t.slug as tenant, n.public_id, s.chain_id, s.epoch_id, s.life_unit_id, s.sequence,
                s.started_at, s.ended_at, s.cadence_ms, s.origin, s.gpu_count, s.block_count, s.root,
                s.previous, s.clock_wall_at, s.clock_boot_ms, s.clock_offset_ms, s.clock_bound_ms,
                s.clock_source, s.checkpoint_size, s.checkpoint_root, s.agent_version, s.agent_digest,
                s.head_hash, s.signature, s.received_at
            from segment s
            join node n on n.tenant_id = s.tenant_id and n.node_id = s.node_id
            join tenant t on t.tenant_id = s.tenant_id " + $rest,
            $($argument),*
        )
    };
}

/// Stores heads, of any nodes, and queues them for their log. Scope: ingest, after `chain::lock`.
///
/// # Errors
/// [`StoreError::NoPartition`] for a day that nobody ensured; [`StoreError::Constraint`] for a
/// segment that is stored already.
pub async fn insert(tx: &mut Tx, new: &[NewSegment<'_>]) -> Result<(), StoreError> {
    let heads = || new.iter().map(|new| new.head);
    let (tenants, nodes): (Vec<i32>, Vec<i32>) = new.iter().map(|new| new.node.columns()).unzip();
    let sequences = heads().map(|head| sequence_column(head.sequence));
    let cadences = heads().map(|head| fitted::<_, i32>(head.cadence_ms, "cadence"));
    let checkpoints = heads().map(|head| head.checkpoint.as_ref());
    let checkpoint_sizes = checkpoints
        .clone()
        .map(|at| at.map(|at| fitted::<_, i64>(at.size, "checkpoint size")).transpose());
    sqlx::query!(
        "with stored as (
        insert into segment (tenant_id, node_id, chain_id, sequence, started_at, ended_at, epoch_id,
            life_unit_id, cadence_ms, origin, gpu_count, block_count, root, previous, clock_wall_at,
            clock_boot_ms, clock_offset_ms, clock_bound_ms, clock_source, checkpoint_size,
            checkpoint_root, agent_version, agent_digest, head_hash, signature, received_at)
        select * from unnest($1::int[], $2::int[], $3::bytea[], $4::bigint[], $5::bigint[],
            $6::bigint[], $7::bytea[], $8::bytea[], $9::int[], $10::text[], $11::int[], $12::int[],
            $13::bytea[], $14::bytea[], $15::bigint[], $16::bigint[], $17::bigint[], $18::bigint[],
            $19::text[], $20::bigint[], $21::bytea[], $22::text[], $23::bytea[], $24::bytea[],
            $25::bytea[], $26::bigint[])
        returning tenant_id, node_id, chain_id, sequence, ended_at, received_at
        )
        insert into head_work (tenant_id, node_id, chain_id, sequence, ended_at, received_at)
        select * from stored",
        &tenants,
        &nodes,
        &column(heads(), |head| &head.chain.0[..]) as &[&[u8]],
        &sequences.collect::<Result<Vec<_>, _>>()?,
        &column(heads(), |head| head.period.start.0),
        &column(heads(), |head| head.period.end.0),
        &column(heads(), |head| &head.epoch.0[..]) as &[&[u8]],
        &column(heads(), |head| &head.life_unit.0[..]) as &[&[u8]],
        &cadences.collect::<Result<Vec<_>, _>>()?,
        &column(heads(), |head| head.origin.name()) as &[&str],
        &column(heads(), |head| i32::from(head.gpu_count)),
        &column(heads(), |head| i32::from(head.block_count)),
        &column(heads(), |head| &head.root.0[..]) as &[&[u8]],
        &column(heads(), |head| head.previous.as_ref().map(|hash| &hash.0[..]))
            as &[Option<&[u8]>],
        &column(heads(), |head| head.clock.anchor_wall.0),
        &column(heads(), |head| head.clock.anchor_boot_ms),
        &column(heads(), |head| head.clock.offset_ms) as &[Option<i64>],
        &column(heads(), |head| head.clock.bound_ms) as &[Option<i64>],
        &column(heads(), |head| head.clock.source.name()) as &[&str],
        &checkpoint_sizes.collect::<Result<Vec<_>, _>>()? as &[Option<i64>],
        &column(checkpoints, |at| at.map(|at| &at.root.0[..])) as &[Option<&[u8]>],
        &column(heads(), |head| head.agent_version.as_str()) as &[&str],
        &column(heads(), |head| head.agent_digest.as_ref().map(|hash| &hash.0[..]))
            as &[Option<&[u8]>],
        &column(new.iter(), |new| &new.hash.0[..]) as &[&[u8]],
        &column(new.iter(), |new| &new.signature[..]) as &[&[u8]],
        &column(new.iter(), |new| new.received_at.0)
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// One column of many rows.
fn column<R, T>(rows: impl Iterator<Item = R>, of: impl FnMut(R) -> T) -> Vec<T> {
    rows.map(of).collect()
}

/// The heads whose time overlaps `period`, by time. A head that only touches it is not among them:
/// it is what [`head_before`] or [`head_after`] finds.
///
/// # Errors
/// [`StoreError::Inconsistent`] when a row does not regenerate the statement that was signed.
pub async fn heads(tx: &mut Tx, key: NodeKey, period: Period) -> Result<Vec<HeadRow>, StoreError> {
    let (tenant, node) = key.columns();
    select_heads!(
        "where s.tenant_id = $1 and s.node_id = $2 and s.ended_at > $3 and s.ended_at <= $5 and s.started_at < $4
        order by s.started_at, s.ended_at, s.chain_id, s.sequence",
        tenant,
        node,
        period.start.0,
        period.end.0,
        latest_end(period)
    )
    .fetch_all(tx.connection())
    .await?
    .into_iter()
    .map(TryInto::try_into)
    .collect()
}

/// Up to `limit` heads whose time overlaps `period`, by chain and sequence, behind `after`.
///
/// # Errors
/// As [`heads`].
pub async fn page(
    tx: &mut Tx,
    key: NodeKey,
    period: Period,
    after: Option<&Head>,
    limit: u32,
) -> Result<Vec<HeadRow>, StoreError> {
    let (tenant, node) = key.columns();
    let chain = after.map_or(&[][..], |head| &head.chain.0);
    let sequence = after.map_or(Ok(0), |head| sequence_column(head.sequence))?;
    select_heads!(
        "where s.tenant_id = $1 and s.node_id = $2 and s.ended_at > $3 and s.ended_at <= $5
            and s.started_at < $4 and (s.chain_id, s.sequence) > ($6, $7)
        order by s.chain_id, s.sequence limit $8",
        tenant,
        node,
        period.start.0,
        period.end.0,
        latest_end(period),
        chain,
        sequence,
        i64::from(limit)
    )
    .fetch_all(tx.connection())
    .await?
    .into_iter()
    .map(TryInto::try_into)
    .collect()
}

/// Heads of one tenant by what leads to their rows.
#[derive(Debug, Default)]
pub(super) struct Names {
    nodes: Vec<i32>,
    ends: Vec<i64>,
    chains: Vec<Vec<u8>>,
    sequences: Vec<i64>,
}

impl Names {
    pub(super) fn push(&mut self, node: i32, ended_at: i64, chain: Vec<u8>, sequence: i64) {
        self.nodes.push(node);
        self.ends.push(ended_at);
        self.chains.push(chain);
        self.sequences.push(sequence);
    }
}

/// These heads, by time, as far as they are kept.
///
/// # Errors
/// As [`heads`].
pub(super) async fn named(
    tx: &mut Tx,
    tenant: TenantKey,
    names: &Names,
) -> Result<Vec<HeadRow>, StoreError> {
    select_heads!(
        "join unnest($2::int[], $3::bigint[], $4::bytea[], $5::bigint[])
            as w (node_id, ended_at, chain_id, sequence)
            on s.node_id = w.node_id and s.ended_at = w.ended_at and s.chain_id = w.chain_id
                and s.sequence = w.sequence
        where s.tenant_id = $1 order by s.ended_at, s.node_id, s.chain_id, s.sequence",
        tenant.number(),
        &names.nodes,
        &names.ends,
        &names.chains,
        &names.sequences
    )
    .fetch_all(tx.connection())
    .await?
    .into_iter()
    .map(TryInto::try_into)
    .collect()
}

/// The head that ends last among those that end at or before `at`.
///
/// # Errors
/// As [`heads`].
pub async fn head_before(
    tx: &mut Tx,
    key: NodeKey,
    at: Timestamp,
) -> Result<Option<HeadRow>, StoreError> {
    let (tenant, node) = key.columns();
    select_heads!(
        "where s.tenant_id = $1 and s.node_id = $2 and s.ended_at <= $3 order by s.ended_at desc, s.chain_id desc, s.sequence desc limit 1",
        tenant,
        node,
        at.0
    )
    .fetch_optional(tx.connection())
    .await?
    .map(TryInto::try_into)
    .transpose()
}

/// The head that ends first among those that start at or after `at`.
///
/// # Errors
/// As [`heads`].
pub async fn head_after(
    tx: &mut Tx,
    key: NodeKey,
    at: Timestamp,
) -> Result<Option<HeadRow>, StoreError> {
    let (tenant, node) = key.columns();
    select_heads!(
        "where s.tenant_id = $1 and s.node_id = $2 and s.ended_at >= $3 and s.started_at >= $3
        order by s.ended_at, s.chain_id, s.sequence limit 1",
        tenant,
        node,
        at.0
    )
    .fetch_optional(tx.connection())
    .await?
    .map(TryInto::try_into)
    .transpose()
}

/// The hash of the head that is stored under a sequence; `None` when it was dropped, never came or
/// is no longer kept.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn hash_at(
    tx: &mut Tx,
    key: NodeKey,
    chain: ChainId,
    sequence: Sequence,
) -> Result<Option<Hash>, StoreError> {
    let (tenant, node) = key.columns();
    let hash = sqlx::query_scalar!(
        "select head_hash from segment
        where tenant_id = $1 and node_id = $2 and chain_id = $3 and sequence = $4",
        tenant,
        node,
        &chain.0,
        sequence_column(sequence)?
    )
    .fetch_optional(tx.connection())
    .await?;
    hash.map(|hash| Column("segment", "head_hash").array(&hash).map(Hash)).transpose()
}

/// The end of what is stored of a node.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn recorded_until(tx: &mut Tx, key: NodeKey) -> Result<Option<Timestamp>, StoreError> {
    let (tenant, node) = key.columns();
    let end = sqlx::query_scalar!(
        "select ended_at from segment where tenant_id = $1 and node_id = $2
        order by ended_at desc limit 1",
        tenant,
        node
    );
    Ok(end.fetch_optional(tx.connection()).await?.map(Timestamp))
}

/// When a node was recording within `period`: the time of its stored segments, in order, merged.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn periods(tx: &mut Tx, key: NodeKey, period: Period) -> Result<Vec<Period>, StoreError> {
    let (tenant, node) = key.columns();
    let rows = sqlx::query!(
        "select started_at, ended_at from segment
        where tenant_id = $1 and node_id = $2 and ended_at > $3 and ended_at <= $5
            and started_at < $4
        order by started_at",
        tenant,
        node,
        period.start.0,
        period.end.0,
        latest_end(period)
    )
    .fetch_all(tx.connection())
    .await?;
    let rows = rows.into_iter();
    Ok(super::session::merged(rows.map(|row| {
        Period::new(Timestamp(row.started_at), Timestamp(row.ended_at)).intersect(period)
    })))
}

/// The latest end that a segment overlapping `period` can have. Without it the database would look
/// into each later partition. A segment spans a day at most, and its first weight some hours.
fn latest_end(period: Period) -> i64 {
    const LONGEST_MS: i64 = 2 * leasewatch_core::time::DAY_MS;
    period.end.plus_ms(LONGEST_MS).0
}
