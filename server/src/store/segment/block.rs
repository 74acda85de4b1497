//! The blocks of segments, each alone.

use leasewatch_core::evidence::chain::Head;
use leasewatch_core::id::{ChainId, GpuUuid, Sequence, SlotNo};
use leasewatch_core::segment::{Block, GpuBlock};
use leasewatch_core::time::{Period, Timestamp};

use super::{HeadRow, latest_end};
use crate::store::chain::sequence_column;
use crate::store::column::Column;
use crate::store::slot::slot_column;
use crate::store::{NodeKey, StoreError, Tx};

/// What a block is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// The GPU in a slot.
    Slot(SlotNo),
    /// The host.
    Host,
    /// The segment's events.
    Events,
}

impl Place {
    fn column(self) -> Result<i16, StoreError> {
        match self {
            Self::Slot(slot) => slot_column(slot),
            Self::Host => Ok(-1),
            Self::Events => Ok(-2),
        }
    }
}

/// A block to store.
#[derive(Debug, Clone, Copy)]
pub struct NewBlock<'a> {
    /// What it is about.
    pub place: Place,
    /// The GPU in the slot; `Some` exactly for [`Place::Slot`].
    pub gpu: Option<&'a GpuUuid>,
    /// The exact bytes.
    pub body: &'a [u8],
}

/// A stored block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockRow {
    /// Its segment.
    pub chain: ChainId,
    /// Its segment's place in the chain.
    pub sequence: Sequence,
    /// Its segment's time.
    pub period: Period,
    /// The GPU; `None` for host and events.
    pub gpu: Option<GpuUuid>,
    /// The exact bytes.
    pub body: Vec<u8>,
}

struct Row {
    chain_id: Vec<u8>,
    sequence: i64,
    started_at: i64,
    ended_at: i64,
    gpu_uuid: Option<String>,
    body: Vec<u8>,
}

impl TryFrom<Row> for BlockRow {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let gpu = row.gpu_uuid.map(|uuid| column("gpu_uuid").parsed(&uuid)).transpose()?;
        Ok(Self {
            chain: ChainId(column("chain_id").array(&row.chain_id)?),
            sequence: Sequence(column("sequence").number(row.sequence)?),
            period: Period::new(Timestamp(row.started_at), Timestamp(row.ended_at)),
            gpu,
            body: row.body,
        })
    }
}

/// Stores the blocks of the segment with this head, in one statement. Scope: ingest.
///
/// # Errors
/// [`StoreError::NoPartition`] for a day that nobody ensured.
pub async fn insert_blocks(
    tx: &mut Tx,
    key: NodeKey,
    head: &Head,
    blocks: &[NewBlock<'_>],
) -> Result<(), StoreError> {
    let (tenant, node) = key.columns();
    let places = blocks.iter().map(|block| block.place.column()).collect::<Result<Vec<_>, _>>()?;
    let gpus: Vec<Option<&str>> =
        blocks.iter().map(|block| block.gpu.map(GpuUuid::as_str)).collect();
    let bodies: Vec<&[u8]> = blocks.iter().map(|block| block.body).collect();
    sqlx::query!(
        "insert into segment_block (tenant_id, node_id, started_at, ended_at, chain_id, sequence,
            slot_no, gpu_uuid, body)
        select $1, $2, $3, $4, $5, $6, b.slot_no, b.gpu_uuid, b.body
        from unnest($7::smallint[], $8::text[], $9::bytea[]) as b (slot_no, gpu_uuid, body)",
        tenant,
        node,
        head.period.start.0,
        head.period.end.0,
        &head.chain.0,
        sequence_column(head.sequence)?,
        &places,
        &gpus as &[Option<&str>],
        &bodies as &[&[u8]]
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// The blocks of one place whose segments overlap `period`, by time.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn blocks(
    tx: &mut Tx,
    key: NodeKey,
    place: Place,
    period: Period,
) -> Result<Vec<BlockRow>, StoreError> {
    let (tenant, node) = key.columns();
    sqlx::query_as!(
        Row,
        "select chain_id, sequence, started_at, ended_at, gpu_uuid, body from segment_block
        where tenant_id = $1 and node_id = $2 and slot_no = $3
            and ended_at > $4 and ended_at <= $6 and started_at < $5
        order by started_at, ended_at, chain_id, sequence",
        tenant,
        node,
        place.column()?,
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

/// The blocks of one place that belong to these heads, by time. Heads without one are passed over.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn blocks_of(
    tx: &mut Tx,
    key: NodeKey,
    place: Place,
    heads: &[HeadRow],
) -> Result<Vec<BlockRow>, StoreError> {
    let (tenant, node) = key.columns();
    let ends: Vec<i64> = heads.iter().map(|row| row.head.period.end.0).collect();
    let chains: Vec<&[u8]> = heads.iter().map(|row| &row.head.chain.0[..]).collect();
    let sequences = heads.iter().map(|row| sequence_column(row.head.sequence));
    sqlx::query_as!(
        Row,
        "select b.chain_id, b.sequence, b.started_at, b.ended_at, b.gpu_uuid, b.body
        from unnest($4::bigint[], $5::bytea[], $6::bigint[]) as h (ended_at, chain_id, sequence)
        join segment_block b on b.tenant_id = $1 and b.node_id = $2 and b.slot_no = $3
            and b.ended_at = h.ended_at and b.chain_id = h.chain_id and b.sequence = h.sequence
            and b.ended_at between $7 and $8
        order by b.started_at, b.ended_at, b.chain_id, b.sequence",
        tenant,
        node,
        place.column()?,
        &ends,
        &chains as &[&[u8]],
        &sequences.collect::<Result<Vec<_>, _>>()?,
        ends.iter().min().copied().unwrap_or(0),
        ends.iter().max().copied().unwrap_or(0)
    )
    .fetch_all(tx.connection())
    .await?
    .into_iter()
    .map(TryInto::try_into)
    .collect()
}

/// The end of the last segment that has a block of a slot.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn last_block_end(
    tx: &mut Tx,
    key: NodeKey,
    slot: SlotNo,
) -> Result<Option<Timestamp>, StoreError> {
    let (tenant, node) = key.columns();
    let end = sqlx::query_scalar!(
        "select ended_at from segment_block
        where tenant_id = $1 and node_id = $2 and slot_no = $3 order by ended_at desc limit 1",
        tenant,
        node,
        slot_column(slot)?
    );
    Ok(end.fetch_optional(tx.connection()).await?.map(Timestamp))
}

/// The last block of a slot whose segment ended at or before `at`.
///
/// # Errors
/// [`StoreError::Inconsistent`] for a block that was changed since it was stored.
pub async fn last_block(
    tx: &mut Tx,
    key: NodeKey,
    slot: SlotNo,
    at: Timestamp,
) -> Result<Option<GpuBlock>, StoreError> {
    let (tenant, node) = key.columns();
    let body = sqlx::query_scalar!(
        "select body from segment_block
        where tenant_id = $1 and node_id = $2 and slot_no = $3 and ended_at <= $4
        order by ended_at desc limit 1",
        tenant,
        node,
        slot_column(slot)?,
        at.0
    )
    .fetch_optional(tx.connection())
    .await?;
    match body.as_deref().map(decode).transpose()? {
        Some(Block::Gpu(block)) => Ok(Some(block)),
        Some(_) => Err(column("body").wrong("no block of a gpu")),
        None => Ok(None),
    }
}

/// Stored blocks were checked before they were stored; one that does not decode was changed since.
pub(in crate::store) fn decode(body: &[u8]) -> Result<Block, StoreError> {
    Block::decode(body).map_err(|error| column("body").wrong(error))
}

/// The GPU that the last block of a slot before `at` was about.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn resident_before(
    tx: &mut Tx,
    key: NodeKey,
    slot: SlotNo,
    at: Timestamp,
) -> Result<Option<GpuUuid>, StoreError> {
    let (tenant, node) = key.columns();
    let uuid = sqlx::query_scalar!(
        r#"select gpu_uuid as "gpu_uuid!" from segment_block
        where tenant_id = $1 and node_id = $2 and slot_no = $3 and ended_at <= $4
        order by ended_at desc limit 1"#,
        tenant,
        node,
        slot_column(slot)?,
        at.0
    )
    .fetch_optional(tx.connection())
    .await?;
    uuid.map(|uuid| column("gpu_uuid").parsed(&uuid)).transpose()
}

fn column(name: &'static str) -> Column {
    Column("segment_block", name)
}
