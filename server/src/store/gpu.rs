//! Physical GPUs: where each was seen last, and what it said of itself.

use leasewatch_core::id::{GpuUuid, SlotNo};
use leasewatch_core::segment::{Event, EventKind, GpuInventory};
use leasewatch_core::time::Timestamp;

use super::column::Column;
use super::slot::{slot_column, slot_no};
use super::{NodeKey, StoreError, Tx, event};

const INVENTORY: Column = Column("gpu", "inventory");

/// A GPU of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuRow {
    /// NVML's UUID.
    pub uuid: GpuUuid,
    /// Where it was seen last.
    pub slot: SlotNo,
    /// As NVML reports it; `None` before its inventory arrived.
    pub name: Option<String>,
    /// The catalogue's entry for that name.
    pub catalogue_key: Option<String>,
    /// Its last inventory.
    pub inventory: Option<GpuInventory>,
    /// First and last sight, by the node's clock.
    pub first_seen_at: Timestamp,
    /// See `first_seen_at`.
    pub last_seen_at: Timestamp,
}

/// Notes that a GPU was seen in a slot. An older sight than the last one moves nothing. Scope:
/// ingest.
///
/// # Errors
/// [`StoreError::Constraint`] for a slot that is not bound.
pub async fn see(
    tx: &mut Tx,
    key: NodeKey,
    slot: SlotNo,
    uuid: &GpuUuid,
    at: Timestamp,
) -> Result<(), StoreError> {
    let (tenant, node) = key.columns();
    sqlx::query!(
        "insert into gpu (tenant_id, node_id, uuid, slot_no, first_seen_at, last_seen_at)
        values ($1, $2, $3, $4, $5, $5)
        on conflict (tenant_id, node_id, uuid) do update set
            slot_no = case when excluded.last_seen_at >= gpu.last_seen_at then excluded.slot_no else gpu.slot_no end,
            first_seen_at = least(gpu.first_seen_at, excluded.first_seen_at),
            last_seen_at = greatest(gpu.last_seen_at, excluded.last_seen_at)",
        tenant,
        node,
        uuid.as_str(),
        slot_column(slot)?,
        at.0
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// Stores what a GPU said of itself; [`see`] was called for it before. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn describe(
    tx: &mut Tx,
    key: NodeKey,
    inventory: &GpuInventory,
    catalogue_key: Option<&str>,
    at: Timestamp,
) -> Result<(), StoreError> {
    let (tenant, node) = key.columns();
    let uuid = inventory.uuid.clone();
    let seen = Event::new(at, Some(uuid), EventKind::GpuSeen(inventory.clone()));
    sqlx::query!(
        "update gpu set name = $4, catalogue_key = $5, inventory = $6::text::json
        where tenant_id = $1 and node_id = $2 and uuid = $3",
        tenant,
        node,
        inventory.uuid.as_str(),
        inventory.name,
        catalogue_key,
        event::to_json(&seen)?
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// The GPUs that a node ever had, by slot, the latest in a slot first.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn of_node(tx: &mut Tx, key: NodeKey) -> Result<Vec<GpuRow>, StoreError> {
    let (tenant, node) = key.columns();
    let rows = sqlx::query!(
        r#"select uuid, slot_no, name, catalogue_key, inventory::text as inventory, first_seen_at,
            last_seen_at
        from gpu where tenant_id = $1 and node_id = $2
        order by slot_no, last_seen_at desc, uuid"#,
        tenant,
        node
    )
    .fetch_all(tx.connection())
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(GpuRow {
                uuid: Column("gpu", "uuid").parsed(&row.uuid)?,
                slot: slot_no(row.slot_no)?,
                name: row.name,
                catalogue_key: row.catalogue_key,
                inventory: row.inventory.as_deref().map(inventory).transpose()?,
                first_seen_at: Timestamp(row.first_seen_at),
                last_seen_at: Timestamp(row.last_seen_at),
            })
        })
        .collect()
}

fn inventory(json: &str) -> Result<GpuInventory, StoreError> {
    match event::from_json(json, INVENTORY)?.kind {
        EventKind::GpuSeen(inventory) => Ok(inventory),
        other => Err(INVENTORY.wrong(format!("{} instead of gpu_seen", other.name()))),
    }
}
