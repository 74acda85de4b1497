//! What a batch adds to the tables: gathered item by item, written with few statements.
//!
//! A statement costs the database much the same for one row as for twenty, so what a batch of
//! segments has to say goes table by table. Until it is written, the rows here are part of what is
//! stored: whoever decides about a later item of the batch asks them too.

use std::collections::{BTreeMap, BTreeSet};

use leasewatch_core::catalogue::gpu as catalogue;
use leasewatch_core::id::{ChainId, GpuUuid, Hash, Sequence};
use leasewatch_core::segment::{GpuInventory, Origin};
use leasewatch_core::time::{Hour, Period, Timestamp};

use super::place::{self, Slots};
use crate::grpc::ProvenNode;
use crate::grpc::check::{BlockOf, CheckedBlock, CheckedSegment};
use crate::store::chain::{self, CursorStep};
use crate::store::event::{self, NewEvents};
use crate::store::gpu::{self, Sight};
use crate::store::hour_work::{self, WorkReason};
use crate::store::segment::{self, NewBlock, NewSegment, Place};
use crate::store::{NodeKey, StoreError, Tx, node};

/// Rows that are not written yet.
#[derive(Debug, Default)]
pub(super) struct Rows<'a> {
    segments: Vec<NewSegment<'a>>,
    blocks: Vec<NewBlock<'a>>,
    events: Vec<NewEvents<'a>>,
    sights: BTreeMap<(NodeKey, &'a GpuUuid), Sight<'a>>,
    inventories: Vec<(NodeKey, Timestamp, &'a GpuInventory)>,
    steps: BTreeMap<(NodeKey, ChainId), CursorStep>,
    hours: BTreeSet<(NodeKey, Hour)>,
    /// Of nodes whose enrolled time follows what is recorded.
    recorded: BTreeMap<(NodeKey, bool), Period>,
}

impl<'a> Rows<'a> {
    /// Adds a segment whose places have these slots.
    pub(super) fn add_segment(
        &mut self,
        node: &ProvenNode,
        new: &'a CheckedSegment,
        slots: &Slots,
        now: Timestamp,
    ) {
        let (head, key) = (&new.head, node.key);
        let CheckedSegment { hash, signature, .. } = new;
        self.segments.push(NewSegment {
            node: key,
            head,
            hash: *hash,
            signature,
            received_at: now,
        });
        let blocks = new.blocks.iter().filter_map(|block| new_block(key, new, block, slots));
        self.blocks.extend(blocks);
        let (chain, sequence, events) = (head.chain, head.sequence, &new.events[..]);
        self.events.push(NewEvents { node: key, chain, sequence, events });
        self.see(key, new, slots);
        self.inventories.extend(place::inventories(new).map(|(at, gpu)| (key, at, gpu)));
        let is_imported = node.facts.origin == Origin::Imported;
        if is_imported || (node.facts.origin == Origin::Simulated && new.is_of_log) {
            let hull = self.recorded.entry((key, is_imported)).or_insert(head.period);
            *hull = Period::new(hull.start.min(head.period.start), hull.end.max(head.period.end));
        }
    }

    fn see(&mut self, node: NodeKey, new: &'a CheckedSegment, slots: &Slots) {
        let at = new.head.period.end;
        for (uuid, (place, partition)) in place::gpus(new) {
            // Every place was bound a moment ago.
            let Some(slot) = slots.get(&place).copied() else { continue };
            let seen = Sight { node, uuid, slot, partition, first_at: at, last_at: at };
            let sight = self.sights.entry((node, uuid)).or_insert(seen);
            let first_at = sight.first_at.min(at);
            if at >= sight.last_at {
                *sight = seen;
            }
            sight.first_at = first_at;
        }
    }

    /// Moves a cursor.
    pub(super) fn advance(&mut self, node: NodeKey, chain: ChainId, step: CursorStep) {
        let last = self.steps.entry((node, chain)).or_insert(step);
        let end = last.period.end.max(step.period.end);
        let period = Period::new(last.period.start, end);
        *last = CursorStep { period, ..step };
    }

    /// Queues hours to be metered.
    pub(super) fn queue(&mut self, node: NodeKey, hours: impl IntoIterator<Item = Hour>) {
        self.hours.extend(hours.into_iter().map(|hour| (node, hour)));
    }

    /// The hash of a head that is not written yet.
    pub(super) fn hash_at(
        &self,
        node: NodeKey,
        chain: ChainId,
        sequence: Sequence,
    ) -> Option<Hash> {
        let mut segments = self.segments.iter();
        let is_it = |new: &&NewSegment<'_>| {
            (new.node, new.head.chain, new.head.sequence) == (node, chain, sequence)
        };
        segments.find(is_it).map(|new| new.hash)
    }

    /// The end of what is not written yet of a node.
    pub(super) fn recorded_until(&self, node: NodeKey) -> Option<Timestamp> {
        let segments = self.segments.iter().filter(|new| new.node == node);
        segments.map(|new| new.head.period.end).max()
    }

    /// Whether a cursor of the node is not written yet.
    pub(super) fn has_chain(&self, node: NodeKey) -> bool {
        self.steps.keys().any(|(of, _)| *of == node)
    }

    /// # Errors
    /// [`StoreError`]; the transaction is of no more use then.
    pub(super) async fn write(self, tx: &mut Tx) -> Result<(), StoreError> {
        if !self.segments.is_empty() {
            segment::insert(tx, &self.segments).await?;
            segment::insert_blocks(tx, &self.blocks).await?;
            event::insert(tx, &self.events).await?;
            gpu::see(tx, &self.sights.into_values().collect::<Vec<_>>()).await?;
        }
        for (key, at, inventory) in self.inventories {
            describe(tx, key, at, inventory).await?;
        }
        for ((key, is_imported), period) in self.recorded {
            if is_imported {
                node::extend_imported(tx, key, period).await?;
            } else {
                node::reach_back_simulated(tx, key, period.start).await?;
            }
        }
        if !self.steps.is_empty() {
            let steps = self.steps.into_iter().map(|((key, chain), step)| (key, chain, step));
            chain::advance(tx, &steps.collect::<Vec<_>>()).await?;
        }
        if !self.hours.is_empty() {
            let hours: Vec<_> = self.hours.into_iter().collect();
            hour_work::add(tx, &hours, WorkReason::Data).await?;
        }
        Ok(())
    }
}

/// Every place was bound a moment ago, so no block is left out.
fn new_block<'a>(
    node: NodeKey,
    segment: &'a CheckedSegment,
    block: &'a CheckedBlock,
    slots: &Slots,
) -> Option<NewBlock<'a>> {
    let (place, gpu) = match &block.of {
        BlockOf::Gpu(gpu) => (Place::Slot(*slots.get(&gpu.place)?), Some(&gpu.uuid)),
        BlockOf::Host => (Place::Host, None),
        BlockOf::Events => (Place::Events, None),
    };
    Some(NewBlock { node, head: &segment.head, place, gpu, body: &block.bytes })
}

async fn describe(
    tx: &mut Tx,
    key: NodeKey,
    at: Timestamp,
    inventory: &GpuInventory,
) -> Result<(), StoreError> {
    let pci = u32::try_from(inventory.pci_device_id).ok().filter(|id| *id != 0);
    // A slice is no model of the catalogue: what stands there is true of the whole card.
    let is_whole = inventory.partition.is_none();
    let model = catalogue::find(pci, &inventory.name, inventory.memory_total_mib);
    let model = model.filter(|_| is_whole).map(|model| model.key.as_str());
    gpu::describe(tx, key, inventory, model, at).await
}
