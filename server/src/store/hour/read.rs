//! Reading hour records, whole.

use leasewatch_core::id::{GpuUuid, Hash, SlotNo};
use leasewatch_core::metering::{HourProfile, HourRecord, HourState};
use leasewatch_core::time::{Hour, Timestamp};

use super::{PROVISIONAL, SEALED};
use crate::store::column::{Column, fitted, hour_column};
use crate::store::slot::{slot_column, slot_no};
use crate::store::{NodeKey, StoreError, Tx};

/// A stored revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HourRow {
    /// Whose it is.
    pub node: NodeKey,
    /// In which slot.
    pub slot: SlotNo,
    /// From 1.
    pub revision: u32,
    /// Provisional or sealed.
    pub state: HourState,
    /// Its content, with hour and GPU.
    pub record: HourRecord,
    /// Hash of its statement.
    pub hash: Hash,
    /// Hash of the revision before.
    pub previous: Option<Hash>,
    /// When it was written, by the server's clock.
    pub written_at: Timestamp,
}

/// Where a page of hours ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HourCursor {
    hour: i32,
    node: NodeKey,
    slot: i16,
    gpu: String,
}

impl HourCursor {
    /// After this row.
    ///
    /// # Errors
    /// Never for a row that came from the database.
    pub fn after(row: &HourRow) -> Result<Self, StoreError> {
        Ok(Self {
            hour: hour_column(row.record.hour)?,
            node: row.node,
            slot: slot_column(row.slot)?,
            gpu: row.record.gpu.as_str().to_owned(),
        })
    }

    fn first() -> Self {
        Self { hour: i32::MIN, node: NodeKey::new(0, 0), slot: 0, gpu: String::new() }
    }
}

struct Row {
    tenant_id: i32,
    node_id: i32,
    slot_no: i16,
    hour: i32,
    gpu_uuid: String,
    revision: i32,
    state: i16,
    busy_pct_ms: i64,
    body: Vec<u8>,
    hash: Vec<u8>,
    previous_hash: Option<Vec<u8>>,
    written_at: i64,
}

impl TryFrom<Row> for HourRow {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let body = column("body");
        let hour = Hour(i64::from(row.hour));
        let gpu = column("gpu_uuid").parsed(&row.gpu_uuid)?;
        let record = HourRecord::unpack(hour, gpu, &row.body).map_err(|error| body.wrong(error))?;
        if record.histogram.busy_pct_ms() != row.busy_pct_ms {
            return Err(column("busy_pct_ms").wrong("differs from the packed record"));
        }
        let previous = row.previous_hash.as_deref();
        Ok(Self {
            node: NodeKey::new(row.tenant_id, row.node_id),
            slot: slot_no(row.slot_no)?,
            revision: column("revision").number(row.revision)?,
            state: state(row.state)?,
            record,
            hash: Hash(column("hash").array(&row.hash)?),
            previous: previous.map(|h| column("previous_hash").array(h).map(Hash)).transpose()?,
            written_at: Timestamp(row.written_at),
        })
    }
}

/// The latest revision of each GPU that sat in one of these slots in an hour.
///
/// # Errors
/// [`StoreError::Inconsistent`] for a row that does not unpack.
pub async fn current(
    tx: &mut Tx,
    key: NodeKey,
    slots: &[SlotNo],
    hour: Hour,
) -> Result<Vec<HourRow>, StoreError> {
    let (tenant, node) = key.columns();
    let slots = slots.iter().map(|slot| slot_column(*slot)).collect::<Result<Vec<_>, _>>()?;
    let rows = sqlx::query_as!(
        Row,
        "select distinct on (slot_no, gpu_uuid) tenant_id, node_id, slot_no, hour, gpu_uuid, revision,
            state, busy_pct_ms, body, hash, previous_hash, written_at
        from hour_record
        where tenant_id = $1 and node_id = $2 and slot_no = any ($3) and hour = $4
        order by slot_no, gpu_uuid, revision desc",
        tenant,
        node,
        &slots,
        hour_column(hour)?
    );
    collect(rows.fetch_all(tx.connection()).await?)
}

/// All revisions of a slot and hour, by GPU and number.
///
/// # Errors
/// As [`current`].
pub async fn revisions(
    tx: &mut Tx,
    key: NodeKey,
    slot: SlotNo,
    hour: Hour,
) -> Result<Vec<HourRow>, StoreError> {
    let (tenant, node) = key.columns();
    let rows = sqlx::query_as!(
        Row,
        "select tenant_id, node_id, slot_no, hour, gpu_uuid, revision, state, busy_pct_ms, body, hash,
            previous_hash, written_at
        from hour_record
        where tenant_id = $1 and node_id = $2 and slot_no = $3 and hour = $4
        order by gpu_uuid, revision",
        tenant,
        node,
        slot_column(slot)?,
        hour_column(hour)?
    );
    collect(rows.fetch_all(tx.connection()).await?)
}

/// The latest revisions of a node's hours `[from, to)`, by hour, slot and GPU.
///
/// # Errors
/// As [`current`].
pub async fn of_node(
    tx: &mut Tx,
    key: NodeKey,
    from: Hour,
    to: Hour,
) -> Result<Vec<HourRow>, StoreError> {
    let (tenant, node) = key.columns();
    let rows = sqlx::query_as!(
        Row,
        "select distinct on (hour, slot_no, gpu_uuid) tenant_id, node_id, slot_no, hour, gpu_uuid,
            revision, state, busy_pct_ms, body, hash, previous_hash, written_at
        from hour_record
        where tenant_id = $1 and node_id = $2 and hour >= $3 and hour < $4
        order by hour, slot_no, gpu_uuid, revision desc",
        tenant,
        node,
        hour_column(from)?,
        hour_column(to)?
    );
    collect(rows.fetch_all(tx.connection()).await?)
}

/// The latest revisions of a slot's hours `[from, to)`, by hour and GPU.
///
/// # Errors
/// As [`current`].
pub async fn of_slot(
    tx: &mut Tx,
    key: NodeKey,
    slot: SlotNo,
    (from, to): (Hour, Hour),
) -> Result<Vec<HourRow>, StoreError> {
    let (tenant, node) = key.columns();
    let rows = sqlx::query_as!(
        Row,
        "select distinct on (hour, gpu_uuid) tenant_id, node_id, slot_no, hour, gpu_uuid, revision,
            state, busy_pct_ms, body, hash, previous_hash, written_at
        from hour_record
        where tenant_id = $1 and node_id = $2 and slot_no = $3 and hour >= $4 and hour < $5
        order by hour, gpu_uuid, revision desc",
        tenant,
        node,
        slot_column(slot)?,
        hour_column(from)?,
        hour_column(to)?
    );
    collect(rows.fetch_all(tx.connection()).await?)
}

/// Up to `limit` latest revisions of the hours `[from, to)`, of one node or of all that the scope may
/// see, in the order hour, node, slot, GPU, beginning after a cursor. For exports that must not
/// hold everything at once.
///
/// # Errors
/// As [`current`].
pub async fn page(
    tx: &mut Tx,
    (from, to): (Hour, Hour),
    only: Option<NodeKey>,
    after: Option<&HourCursor>,
    limit: u32,
) -> Result<Vec<HourRow>, StoreError> {
    let first = HourCursor::first();
    let after = after.unwrap_or(&first);
    let (only_tenant, only_node) = only.map(NodeKey::columns).unzip();
    let (tenant, node) = after.node.columns();
    let rows = sqlx::query_as!(
        Row,
        "select distinct on (hour, tenant_id, node_id, slot_no, gpu_uuid) tenant_id, node_id, slot_no,
            hour, gpu_uuid, revision, state, busy_pct_ms, body, hash, previous_hash, written_at
        from hour_record
        where hour >= $1 and hour < $2 and hour >= $3
            and (hour, tenant_id, node_id, slot_no, gpu_uuid) > ($3, $4, $5, $6, $7)
            and ($9::int is null or (tenant_id = $9 and node_id = $10))
        order by hour, tenant_id, node_id, slot_no, gpu_uuid, revision desc limit $8",
        hour_column(from)?,
        hour_column(to)?,
        after.hour,
        tenant,
        node,
        after.slot,
        after.gpu,
        i64::from(limit),
        only_tenant,
        only_node
    );
    collect(rows.fetch_all(tx.connection()).await?)
}

/// Up to `limit` sealed revisions of a node's hours `[from, to)`, every one of them, by slot, hour, GPU
/// and number, behind `after`.
///
/// # Errors
/// As [`current`].
pub async fn sealed(
    tx: &mut Tx,
    key: NodeKey,
    (from, to): (Hour, Hour),
    after: Option<&HourRow>,
    limit: u32,
) -> Result<Vec<HourRow>, StoreError> {
    let (tenant, node) = key.columns();
    let (slot, hour, gpu, revision) = match after {
        Some(row) => (
            slot_column(row.slot)?,
            hour_column(row.record.hour)?,
            row.record.gpu.as_str(),
            fitted(row.revision, "revision")?,
        ),
        None => (i16::MIN, 0, "", 0),
    };
    let rows = sqlx::query_as!(
        Row,
        r#"select tenant_id, node_id, slot_no, hour, gpu_uuid, revision, state, busy_pct_ms, body, hash,
            previous_hash, written_at
        from hour_record
        where tenant_id = $1 and node_id = $2 and hour >= $3 and hour < $4 and state = 2
            and (slot_no, hour, gpu_uuid collate "C", revision) > ($5, $6, $7, $8)
        order by slot_no, hour, gpu_uuid collate "C", revision limit $9"#,
        tenant,
        node,
        hour_column(from)?,
        hour_column(to)?,
        slot,
        hour,
        gpu,
        revision,
        i64::from(limit)
    );
    collect(rows.fetch_all(tx.connection()).await?)
}

/// The profiles of a slot's hours `[from, to)`, by hour and GPU.
///
/// # Errors
/// As [`current`].
pub async fn profiles(
    tx: &mut Tx,
    key: NodeKey,
    slot: SlotNo,
    (from, to): (Hour, Hour),
) -> Result<Vec<(Hour, GpuUuid, HourProfile)>, StoreError> {
    let (tenant, node) = key.columns();
    let rows = sqlx::query!(
        "select hour, gpu_uuid, body from hour_profile
        where tenant_id = $1 and node_id = $2 and slot_no = $3 and hour >= $4 and hour < $5
        order by hour, gpu_uuid",
        tenant,
        node,
        slot_column(slot)?,
        hour_column(from)?,
        hour_column(to)?
    )
    .fetch_all(tx.connection())
    .await?;
    let body = Column("hour_profile", "body");
    rows.into_iter()
        .map(|row| {
            let profile = HourProfile::unpack(&row.body).map_err(|error| body.wrong(error))?;
            let gpu = Column("hour_profile", "gpu_uuid").parsed(&row.gpu_uuid)?;
            Ok((Hour(i64::from(row.hour)), gpu, profile))
        })
        .collect()
}

fn collect(rows: Vec<Row>) -> Result<Vec<HourRow>, StoreError> {
    rows.into_iter().map(TryInto::try_into).collect()
}

fn state(code: i16) -> Result<HourState, StoreError> {
    match code {
        PROVISIONAL => Ok(HourState::Provisional),
        SEALED => Ok(HourState::Sealed),
        _ => Err(column("state").wrong("neither 1 nor 2")),
    }
}

fn column(name: &'static str) -> Column {
    Column("hour_record", name)
}
