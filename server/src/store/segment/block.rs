//! The blocks of segments, each alone.

use std::collections::{HashMap, HashSet};

use leasewatch_core::evidence::chain::Head;
use leasewatch_core::id::{ChainId, GpuUuid, Sequence, SlotNo};
use leasewatch_core::segment::{Block, GpuBlock};
use leasewatch_core::time::{Period, Timestamp};

use super::{HeadRow, latest_end};
use crate::store::chain::sequence_column;
use crate::store::column::Column;
use crate::store::slot::{slot_column, slot_no};
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

    fn of_column(number: i16) -> Result<Self, StoreError> {
        match number {
            -1 => Ok(Self::Host),
            -2 => Ok(Self::Events),
            _ => slot_no(number).map(Self::Slot),
        }
    }
}

/// A block to store.
#[derive(Debug, Clone, Copy)]
pub struct NewBlock<'a> {
    /// Whose it is.
    pub node: NodeKey,
    /// Its segment.
    pub head: &'a Head,
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
    /// What it is about.
    pub place: Place,
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
    slot_no: i16,
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
            place: Place::of_column(row.slot_no)?,
            chain: ChainId(column("chain_id").array(&row.chain_id)?),
            sequence: Sequence(column("sequence").number(row.sequence)?),
            period: Period::new(Timestamp(row.started_at), Timestamp(row.ended_at)),
            gpu,
            body: row.body,
        })
    }
}

/// Stores blocks, of any segments, in one statement. Scope: ingest.
///
/// # Errors
/// [`StoreError::NoPartition`] for a day that nobody ensured.
pub async fn insert_blocks(tx: &mut Tx, new: &[NewBlock<'_>]) -> Result<(), StoreError> {
    let (tenants, nodes): (Vec<i32>, Vec<i32>) = new.iter().map(|new| new.node.columns()).unzip();
    let places = new.iter().map(|new| new.place.column()).collect::<Result<Vec<_>, _>>()?;
    let starts: Vec<i64> = new.iter().map(|new| new.head.period.start.0).collect();
    let ends: Vec<i64> = new.iter().map(|new| new.head.period.end.0).collect();
    let chains: Vec<&[u8]> = new.iter().map(|new| &new.head.chain.0[..]).collect();
    let sequences = new.iter().map(|new| sequence_column(new.head.sequence));
    let gpus: Vec<Option<&str>> = new.iter().map(|new| new.gpu.map(GpuUuid::as_str)).collect();
    let bodies: Vec<&[u8]> = new.iter().map(|new| new.body).collect();
    sqlx::query!(
        "insert into segment_block (tenant_id, node_id, slot_no, started_at, ended_at, chain_id,
            sequence, gpu_uuid, body)
        select * from unnest($1::int[], $2::int[], $3::smallint[], $4::bigint[], $5::bigint[],
            $6::bytea[], $7::bigint[], $8::text[], $9::bytea[])",
        &tenants,
        &nodes,
        &places,
        &starts,
        &ends,
        &chains as &[&[u8]],
        &sequences.collect::<Result<Vec<_>, _>>()?,
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
        "select slot_no, chain_id, sequence, started_at, ended_at, gpu_uuid, body from segment_block
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

/// The blocks of these places that belong to these heads, by place and time. Heads without one are
/// passed over.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn blocks_of(
    tx: &mut Tx,
    key: NodeKey,
    places: &[Place],
    heads: &[HeadRow],
) -> Result<Vec<BlockRow>, StoreError> {
    let (tenant, node) = key.columns();
    let places = places.iter().map(|place| place.column()).collect::<Result<Vec<_>, _>>()?;
    let ends = || heads.iter().map(|row| row.head.period.end.0);
    // One stretch of the index for each place; that other segments end within it is rare.
    let rows = sqlx::query_as!(
        Row,
        "select slot_no, chain_id, sequence, started_at, ended_at, gpu_uuid, body from segment_block
        where tenant_id = $1 and node_id = $2 and slot_no = any ($3) and ended_at between $4 and $5
        order by slot_no, started_at, ended_at, chain_id, sequence",
        tenant,
        node,
        &places,
        ends().min().unwrap_or(0),
        ends().max().unwrap_or(0)
    )
    .fetch_all(tx.connection())
    .await?;
    let wanted: HashSet<(ChainId, Sequence)> =
        heads.iter().map(|row| (row.head.chain, row.head.sequence)).collect();
    let rows = rows.into_iter().map(BlockRow::try_from);
    let is_wanted = |row: &BlockRow| wanted.contains(&(row.chain, row.sequence));
    rows.filter(|row| row.as_ref().map_or(true, is_wanted)).collect()
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

/// The GPUs that the last blocks of these slots before `at` were about; a slot without one is not
/// among them.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn residents_before(
    tx: &mut Tx,
    key: NodeKey,
    slots: &[SlotNo],
    at: Timestamp,
) -> Result<HashMap<SlotNo, GpuUuid>, StoreError> {
    let (tenant, node) = key.columns();
    let slots = slots.iter().map(|slot| slot_column(*slot)).collect::<Result<Vec<_>, _>>()?;
    let rows = sqlx::query!(
        r#"select s.slot_no as "slot_no!", last.gpu_uuid as "gpu_uuid!"
        from unnest($3::smallint[]) as s (slot_no)
        cross join lateral (
            select b.gpu_uuid from segment_block b
            where b.tenant_id = $1 and b.node_id = $2 and b.slot_no = s.slot_no and b.ended_at <= $4
            order by b.ended_at desc limit 1
        ) as last"#,
        tenant,
        node,
        &slots,
        at.0
    )
    .fetch_all(tx.connection())
    .await?;
    rows.into_iter()
        .map(|row| Ok((slot_no(row.slot_no)?, column("gpu_uuid").parsed(&row.gpu_uuid)?)))
        .collect()
}

fn column(name: &'static str) -> Column {
    Column("segment_block", name)
}
