//! The slots that a segment's GPUs sit in.

use std::collections::BTreeMap;

use leasewatch_core::id::{BusId, GpuUuid, SlotNo};
use leasewatch_core::segment::{EventKind, GpuInventory};
use leasewatch_core::time::Timestamp;

use crate::grpc::check::{BlockOf, CheckedSegment};
use crate::store::{NodeKey, StoreError, Tx, slot};

/// Places that one node may ever show. A host has 64 at most; the rest is room for moved boards,
/// and the end of it keeps a node that invents places from growing tables without end.
const PLACES_MAX: usize = 256;

/// Slot numbers by place.
pub(super) type Slots = BTreeMap<BusId, SlotNo>;

/// The GPUs of a segment and where they sit: those with a block, and those that an event names.
pub(super) fn gpus(segment: &CheckedSegment) -> BTreeMap<&GpuUuid, &BusId> {
    let named = inventories(segment).map(|(_, gpu)| (&gpu.uuid, &gpu.bus_id));
    let blocks = segment.blocks.iter().filter_map(|block| match &block.of {
        BlockOf::Gpu(uuid, bus_id) => Some((uuid, bus_id)),
        BlockOf::Host | BlockOf::Events => None,
    });
    // A block wins: an inventory may be of the moment before the board moved.
    named.chain(blocks).collect()
}

/// What GPUs said of themselves in a segment, and when.
pub(super) fn inventories(
    segment: &CheckedSegment,
) -> impl Iterator<Item = (Timestamp, &GpuInventory)> {
    segment.events.iter().filter_map(|event| match &event.kind {
        EventKind::GpuSeen(inventory) => Some((event.at, inventory)),
        _ => None,
    })
}

/// The slots of these places; places that are new get a number. `None` when the node has shown too
/// many, and then nothing was written.
pub(super) async fn bind(
    tx: &mut Tx,
    node: NodeKey,
    places: impl Iterator<Item = &BusId>,
    at: Timestamp,
) -> Result<Option<Slots>, StoreError> {
    let known = slot::of_node(tx, node).await?;
    let mut slots: Slots = known.into_iter().map(|row| (row.bus_id, row.slot)).collect();
    let mut new: Vec<&BusId> = places.filter(|place| !slots.contains_key(*place)).collect();
    // By place, so that the slots of a new node have the order of their bus ids.
    new.sort_unstable();
    new.dedup();
    if slots.len() + new.len() > PLACES_MAX {
        return Ok(None);
    }
    for place in new {
        let number = slot::bind(tx, node, place, at).await?;
        slots.insert(place.clone(), number);
    }
    Ok(Some(slots))
}
