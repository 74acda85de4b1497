//! GPUs and slices of them: where each was seen last, and what it said of itself.

use leasewatch_core::id::{GpuUuid, SlotNo};
use leasewatch_core::segment::{Event, EventKind, GpuInventory, MigInstance, Partition};
use leasewatch_core::time::Timestamp;

use super::column::Column;
use super::slot::{instance, slot_column, slot_no};
use super::{NodeKey, StoreError, Tx, event};

const INVENTORY: Column = Column("gpu", "inventory");

/// A GPU of a node, or a slice of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuRow {
    /// NVML's UUID.
    pub uuid: GpuUuid,
    /// Where it was seen last.
    pub slot: SlotNo,
    /// What it is a slice of; `None` for a whole GPU.
    pub partition: Option<Partition>,
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

/// A GPU, or a slice of one, as it was seen in a slot.
#[derive(Debug, Clone, Copy)]
pub struct Sight<'a> {
    /// On which node.
    pub node: NodeKey,
    /// Which.
    pub uuid: &'a GpuUuid,
    /// In which slot.
    pub slot: SlotNo,
    /// What it is a slice of.
    pub partition: Option<&'a Partition>,
    /// For the first and the last time, by the node's clock.
    pub first_at: Timestamp,
    /// See `first_at`.
    pub last_at: Timestamp,
}

/// Notes that GPUs and slices were seen, each at most once in one call. A sight that is older than
/// the last one changes no slot. Scope: ingest.
///
/// # Errors
/// [`StoreError::Constraint`] for a slot that is not bound.
pub async fn see(tx: &mut Tx, sights: &[Sight<'_>]) -> Result<(), StoreError> {
    let (tenants, nodes): (Vec<i32>, Vec<i32>) =
        sights.iter().map(|sight| sight.node.columns()).unzip();
    let uuids: Vec<&str> = sights.iter().map(|sight| sight.uuid.as_str()).collect();
    let slots = sights.iter().map(|sight| slot_column(sight.slot));
    let first: Vec<i64> = sights.iter().map(|sight| sight.first_at.0).collect();
    let last: Vec<i64> = sights.iter().map(|sight| sight.last_at.0).collect();
    let partitions = || sights.iter().map(|sight| sight.partition);
    let parents: Vec<Option<&str>> =
        partitions().map(|of| of.map(|of| of.parent.as_str())).collect();
    let slices: Vec<Option<i16>> = partitions().map(|of| of.map(|of| of.slices.into())).collect();
    let slices_of: Vec<Option<i16>> =
        partitions().map(|of| of.map(|of| of.slices_of.into())).collect();
    sqlx::query!(
        "insert into gpu (tenant_id, node_id, uuid, slot_no, first_seen_at, last_seen_at, parent_uuid,
            slices, slices_of)
        select * from unnest($1::int[], $2::int[], $3::text[], $4::smallint[], $5::bigint[],
            $6::bigint[], $7::text[], $8::smallint[], $9::smallint[])
        on conflict (tenant_id, node_id, uuid) do update set
            (slot_no, parent_uuid, slices, slices_of) = (select
                case when later then excluded.slot_no else gpu.slot_no end,
                case when later then excluded.parent_uuid else gpu.parent_uuid end,
                case when later then excluded.slices else gpu.slices end,
                case when later then excluded.slices_of else gpu.slices_of end
                from (select excluded.last_seen_at >= gpu.last_seen_at as later) as sight),
            first_seen_at = least(gpu.first_seen_at, excluded.first_seen_at),
            last_seen_at = greatest(gpu.last_seen_at, excluded.last_seen_at)",
        &tenants,
        &nodes,
        &uuids as &[&str],
        &slots.collect::<Result<Vec<_>, _>>()?,
        &first,
        &last,
        &parents as &[Option<&str>],
        &slices as &[Option<i16>],
        &slices_of as &[Option<i16>]
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
        r#"select g.uuid, g.slot_no, g.name, g.catalogue_key, g.inventory::text as inventory,
            g.first_seen_at, g.last_seen_at, g.parent_uuid, g.slices, g.slices_of, s.gpu_instance,
            s.compute_instance
        from gpu g join slot s using (tenant_id, node_id, slot_no)
        where tenant_id = $1 and node_id = $2
        order by slot_no, g.last_seen_at desc, g.uuid"#,
        tenant,
        node
    )
    .fetch_all(tx.connection())
    .await?;
    rows.into_iter()
        .map(|row| {
            let share = (row.parent_uuid, row.slices, row.slices_of);
            let instance = instance(row.gpu_instance, row.compute_instance)?;
            Ok(GpuRow {
                partition: partition(share, instance)?,
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

fn partition(
    share: (Option<String>, Option<i16>, Option<i16>),
    instance: Option<MigInstance>,
) -> Result<Option<Partition>, StoreError> {
    let (Some(instance), (Some(parent), Some(slices), Some(slices_of))) = (instance, share) else {
        return Ok(None);
    };
    Ok(Some(Partition {
        parent: Column("gpu", "parent_uuid").parsed(&parent)?,
        instance,
        slices: Column("gpu", "slices").number(slices)?,
        slices_of: Column("gpu", "slices_of").number(slices_of)?,
    }))
}

fn inventory(json: &str) -> Result<GpuInventory, StoreError> {
    match event::from_json(json, INVENTORY)?.kind {
        EventKind::GpuSeen(inventory) => Ok(inventory),
        other => Err(INVENTORY.wrong(format!("{} instead of gpu_seen", other.name()))),
    }
}
