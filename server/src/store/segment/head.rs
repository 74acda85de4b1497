//! From the columns of a segment back to the head that was signed.

use leasewatch_core::evidence::chain::{Checkpoint, ClockSource, ClockState, Head};
use leasewatch_core::id::{ChainId, EpochId, Hash, LifeUnitId, NodeId, Sequence};
use leasewatch_core::time::{Period, Timestamp};

use super::HeadRow;
use crate::sabotage;
use crate::store::StoreError;
use crate::store::column::Column;

/// A segment with the names of its node and tenant.
pub(super) struct Row {
    pub(super) tenant: String,
    pub(super) public_id: Vec<u8>,
    pub(super) chain_id: Vec<u8>,
    pub(super) epoch_id: Vec<u8>,
    pub(super) life_unit_id: Vec<u8>,
    pub(super) sequence: i64,
    pub(super) started_at: i64,
    pub(super) ended_at: i64,
    pub(super) cadence_ms: i32,
    pub(super) origin: String,
    pub(super) gpu_count: i32,
    pub(super) block_count: i32,
    pub(super) root: Vec<u8>,
    pub(super) previous: Option<Vec<u8>>,
    pub(super) clock_wall_at: i64,
    pub(super) clock_boot_ms: i64,
    pub(super) clock_offset_ms: Option<i64>,
    pub(super) clock_bound_ms: Option<i64>,
    pub(super) clock_source: String,
    pub(super) checkpoint_size: Option<i64>,
    pub(super) checkpoint_root: Option<Vec<u8>>,
    pub(super) agent_version: String,
    pub(super) agent_digest: Option<Vec<u8>>,
    pub(super) head_hash: Vec<u8>,
    pub(super) signature: Vec<u8>,
    pub(super) received_at: i64,
}

impl TryFrom<Row> for HeadRow {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let head_hash = column("head_hash");
        let hash = Hash(head_hash.array(&row.head_hash)?);
        let signature = column("signature").array(&row.signature)?;
        let received_at = Timestamp(row.received_at);
        let mut head = head(row)?;
        if head.hash() != hash {
            return Err(head_hash.wrong("the columns do not give the statement that was signed"));
        }
        if sabotage::is("clocks_believed") {
            (head.clock.offset_ms, head.clock.bound_ms) = (None, None);
        }
        Ok(Self { head, hash, signature, received_at })
    }
}

fn head(row: Row) -> Result<Head, StoreError> {
    let clock = clock(&row)?;
    let checkpoint = checkpoint(&row)?;
    Ok(Head {
        tenant: Column("tenant", "slug").parsed(&row.tenant)?,
        node: NodeId(Column("node", "public_id").array(&row.public_id)?),
        chain: ChainId(column("chain_id").array(&row.chain_id)?),
        epoch: EpochId(column("epoch_id").array(&row.epoch_id)?),
        life_unit: LifeUnitId(column("life_unit_id").array(&row.life_unit_id)?),
        sequence: Sequence(column("sequence").number(row.sequence)?),
        period: Period::new(Timestamp(row.started_at), Timestamp(row.ended_at)),
        cadence_ms: column("cadence_ms").number(row.cadence_ms)?,
        origin: column("origin").origin(&row.origin)?,
        gpu_count: column("gpu_count").number(row.gpu_count)?,
        block_count: column("block_count").number(row.block_count)?,
        root: Hash(column("root").array(&row.root)?),
        previous: optional_hash("previous", row.previous.as_deref())?,
        clock,
        checkpoint,
        agent_version: row.agent_version,
        agent_digest: optional_hash("agent_digest", row.agent_digest.as_deref())?,
    })
}

fn clock(row: &Row) -> Result<ClockState, StoreError> {
    Ok(ClockState {
        anchor_wall: Timestamp(row.clock_wall_at),
        anchor_boot_ms: row.clock_boot_ms,
        offset_ms: row.clock_offset_ms,
        bound_ms: row.clock_bound_ms,
        source: column("clock_source").named(&row.clock_source, ClockSource::from_name)?,
    })
}

fn checkpoint(row: &Row) -> Result<Option<Checkpoint>, StoreError> {
    let Some(size) = row.checkpoint_size else { return Ok(None) };
    let root = optional_hash("checkpoint_root", row.checkpoint_root.as_deref())?;
    let root = root.ok_or_else(|| column("checkpoint_root").wrong("missing beside a size"))?;
    Ok(Some(Checkpoint { size: column("checkpoint_size").number(size)?, root }))
}

fn optional_hash(name: &'static str, bytes: Option<&[u8]>) -> Result<Option<Hash>, StoreError> {
    bytes.map(|bytes| column(name).array(bytes).map(Hash)).transpose()
}

fn column(name: &'static str) -> Column {
    Column("segment", name)
}
