//! The places of a node that GPUs, and slices of them, sit in.

use leasewatch_core::id::SlotNo;
use leasewatch_core::segment::{MigInstance, Place};
use leasewatch_core::time::Timestamp;

use super::column::{Column, fitted};
use super::{NodeKey, StoreError, Tx};

const SLOT_NO: Column = Column("slot", "slot_no");

/// A slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotRow {
    /// Its number within the node.
    pub slot: SlotNo,
    /// The place.
    pub place: Place,
    /// When it was first seen, by the node's clock.
    pub first_seen_at: Timestamp,
}

/// The number of a place; a new place gets the next number. The caller holds a lock of the node's
/// chain, so two transactions never number slots of one node at once. Scope: ingest.
///
/// # Errors
/// [`StoreError::Constraint`] when two transactions did so all the same.
pub async fn bind(
    tx: &mut Tx,
    key: NodeKey,
    place: &Place,
    at: Timestamp,
) -> Result<SlotNo, StoreError> {
    let (tenant, node) = key.columns();
    let instance = place.instance.map(|of| (of.gpu_instance.into(), of.compute_instance.into()));
    let (gpu_instance, compute_instance): (Option<i16>, Option<i16>) = instance.unzip();
    let known = sqlx::query_scalar!(
        "select slot_no from slot where tenant_id = $1 and node_id = $2 and bus_id = $3
            and gpu_instance is not distinct from $4 and compute_instance is not distinct from $5",
        tenant,
        node,
        place.bus_id.as_str(),
        gpu_instance,
        compute_instance
    )
    .fetch_optional(tx.connection())
    .await?;
    let number = match known {
        Some(number) => number,
        None => {
            sqlx::query_scalar!(
                "insert into slot (tenant_id, node_id, slot_no, bus_id, first_seen_at, gpu_instance,
                    compute_instance)
                select $1, $2, (coalesce(max(slot_no), -1) + 1)::smallint, $3, $4, $5::smallint,
                    $6::smallint
                from slot where tenant_id = $1 and node_id = $2
                returning slot_no",
                tenant,
                node,
                place.bus_id.as_str(),
                at.0,
                gpu_instance,
                compute_instance
            )
            .fetch_one(tx.connection())
            .await?
        }
    };
    slot_no(number)
}

/// The slots of a node, by number.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn of_node(tx: &mut Tx, key: NodeKey) -> Result<Vec<SlotRow>, StoreError> {
    let slots = of_nodes(tx, &[key]).await?;
    Ok(slots.into_iter().map(|(_, slot)| slot).collect())
}

/// The slots of these nodes, those of one node by number.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn of_nodes(
    tx: &mut Tx,
    keys: &[NodeKey],
) -> Result<Vec<(NodeKey, SlotRow)>, StoreError> {
    let (tenants, nodes): (Vec<i32>, Vec<i32>) = keys.iter().map(|key| key.columns()).unzip();
    let rows = sqlx::query!(
        "select tenant_id, node_id, slot_no, bus_id, first_seen_at, gpu_instance, compute_instance
        from slot where (tenant_id, node_id) in (select * from unnest($1::int[], $2::int[]))
        order by tenant_id, node_id, slot_no",
        &tenants,
        &nodes
    )
    .fetch_all(tx.connection())
    .await?;
    rows.into_iter()
        .map(|row| {
            let slot = SlotRow {
                slot: slot_no(row.slot_no)?,
                place: Place {
                    bus_id: Column("slot", "bus_id").parsed(&row.bus_id)?,
                    instance: instance(row.gpu_instance, row.compute_instance)?,
                },
                first_seen_at: Timestamp(row.first_seen_at),
            };
            Ok((NodeKey::new(row.tenant_id, row.node_id), slot))
        })
        .collect()
}

/// The instance of a slice's slot.
pub(super) fn instance(
    gpu_instance: Option<i16>,
    compute_instance: Option<i16>,
) -> Result<Option<MigInstance>, StoreError> {
    let (Some(gpu), Some(compute)) = (gpu_instance, compute_instance) else { return Ok(None) };
    Ok(Some(MigInstance {
        gpu_instance: Column("slot", "gpu_instance").number(gpu)?,
        compute_instance: Column("slot", "compute_instance").number(compute)?,
    }))
}

pub(super) fn slot_no(number: i16) -> Result<SlotNo, StoreError> {
    SLOT_NO.number(number).map(SlotNo)
}

pub(super) fn slot_column(slot: SlotNo) -> Result<i16, StoreError> {
    fitted(slot.0, "slot number")
}
