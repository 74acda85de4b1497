//! The slots that a segment's GPUs and their slices sit in.

use std::collections::BTreeMap;

use leasewatch_core::id::{GpuUuid, SlotNo};
use leasewatch_core::segment::{EventKind, GpuInventory, Partition, Place};
use leasewatch_core::time::Timestamp;

use crate::grpc::check::{BlockOf, CheckedSegment};
use crate::store::{NodeKey, StoreError, Tx, slot};

/// Places that one node may ever show. A host has 64 GPUs at most, and each can be cut into slices
/// of some twenty instances; the rest is room for moved boards, and the end of it keeps a node that
/// invents places from growing tables without end.
const PLACES_MAX: usize = 1_024;

/// Slot numbers by place.
pub(super) type Slots = BTreeMap<Place, SlotNo>;

/// The GPUs and slices of a segment, where they sit and what they are slices of: those with a
/// block, and those that an event names.
pub(super) fn gpus(segment: &CheckedSegment) -> BTreeMap<&GpuUuid, (Place, Option<&Partition>)> {
    let named =
        inventories(segment).map(|(_, gpu)| (&gpu.uuid, (gpu.place(), gpu.partition.as_ref())));
    let blocks = segment.blocks.iter().filter_map(|block| match &block.of {
        BlockOf::Gpu(gpu) => Some((&gpu.uuid, (gpu.place.clone(), gpu.partition.as_ref()))),
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

/// Adds the slots of those places that are new, each with a number. False when the node has shown
/// too many, and then nothing was written.
pub(super) async fn bind(
    tx: &mut Tx,
    node: NodeKey,
    slots: &mut Slots,
    places: impl Iterator<Item = &Place>,
    at: Timestamp,
) -> Result<bool, StoreError> {
    let mut new: Vec<&Place> = places.filter(|place| !slots.contains_key(*place)).collect();
    // Whole GPUs first, then by place, so that the slots of a new node have the order of their bus
    // ids, and slices the numbers behind them.
    new.sort_unstable_by_key(|place| (place.instance.is_some(), *place));
    new.dedup();
    if slots.len() + new.len() > PLACES_MAX {
        return Ok(false);
    }
    for place in new {
        let number = slot::bind(tx, node, place, at).await?;
        slots.insert(place.clone(), number);
    }
    Ok(true)
}
