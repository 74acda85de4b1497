//! One item inside the writer's transaction: lock the cursor, decide, write.

use leasewatch_core::catalogue::gpu as catalogue;
use leasewatch_core::delivery::{
    DropDecision, IncomingDrop, IncomingSegment, SegmentDecision, StartDecision,
};
use leasewatch_core::evidence::chain::leaf_hash;
use leasewatch_core::id::Sequence;
use leasewatch_core::segment::Origin;
use leasewatch_core::time::{Period, Timestamp};

use super::place::{self, Slots};
use super::{Item, Outcome, hours};
use crate::grpc::beginning::CheckedStart;
use crate::grpc::check::{BlockOf, CheckedBlock, CheckedDrop, CheckedSegment, Refused};
use crate::grpc::{ProvenNode, stored_chain};
use crate::store::chain::{self, CursorRow, CursorStep, StartRow};
use crate::store::hour_work::{self, WorkReason};
use crate::store::segment::{NewBlock, NewSegment, Place};
use crate::store::{StoreError, Tx, event, gpu, node, segment};

/// What an item did to the transaction.
#[derive(Debug)]
pub(super) struct Stored {
    /// What to answer after the commit.
    pub(super) outcome: Outcome,
    /// Whether it was new, so that hours have to be metered.
    pub(super) queued_hours: bool,
    /// Whether it shows two users of one key.
    pub(super) contested: bool,
}

impl Stored {
    fn nothing(outcome: Outcome) -> Self {
        Self { outcome, queued_hours: false, contested: false }
    }
}

/// # Errors
/// [`StoreError`]; the transaction is of no more use then.
pub(super) async fn item(
    tx: &mut Tx,
    node: &ProvenNode,
    item: &Item,
    now: Timestamp,
) -> Result<Stored, StoreError> {
    match item {
        Item::Start(start) => put_start(tx, node, start, now).await,
        Item::Segment(segment) => put_segment(tx, node, segment, now).await,
        Item::Drop(drop) => put_drop(tx, node, drop).await,
    }
}

/// What a stream ends with whose chain has no start.
const NOT_BEGUN: &str =
    "a chain begins with its signed chain_start, and this one has none; nothing of it is taken";

async fn put_start(
    tx: &mut Tx,
    node: &ProvenNode,
    new: &CheckedStart,
    now: Timestamp,
) -> Result<Stored, StoreError> {
    let mut row = chain::lock(tx, node.key, node.facts.chain).await?;
    row.start = chain::start_hash(tx, node.key, node.facts.chain).await?;
    let stored = stored_chain(&row);
    let durable = Outcome::Durable(stored.cursor.sequence);
    let outcome = match stored.on_start(leaf_hash(&new.statement)) {
        StartDecision::AlreadyStored => durable,
        StartDecision::Contradiction => Outcome::Ends("another start of this chain is stored"),
        StartDecision::Late => Outcome::Ends("the chain has begun already, without a start"),
        StartDecision::Store
            if !new.start.reason.is_break() && chain::has_any(tx, node.key).await? =>
        {
            Outcome::Ends("the node has begun a chain before: a new one has to say what broke it")
        }
        StartDecision::Store => {
            let CheckedStart { start, statement, signature } = new.clone();
            let row = StartRow { start, statement, signature, received_at: now };
            chain::insert_start(tx, node.key, &row).await?;
            durable
        }
    };
    Ok(Stored::nothing(outcome))
}

async fn put_segment(
    tx: &mut Tx,
    node: &ProvenNode,
    new: &CheckedSegment,
    now: Timestamp,
) -> Result<Stored, StoreError> {
    let row = chain::lock(tx, node.key, node.facts.chain).await?;
    let stored = stored_chain(&row);
    let (cursor, sequence) = (stored.cursor, new.head.sequence);
    let kept = if sequence <= cursor.sequence {
        segment::hash_at(tx, node.key, node.facts.chain, sequence).await?
    } else {
        None
    };
    let incoming = IncomingSegment { sequence, head: new.hash, previous: new.head.previous };
    match stored.on_segment(&incoming, kept) {
        SegmentDecision::NotBegun => Ok(Stored::nothing(Outcome::Ends(NOT_BEGUN))),
        SegmentDecision::AlreadyStored => Ok(Stored::nothing(Outcome::Durable(cursor.sequence))),
        SegmentDecision::Ahead => Ok(Stored::nothing(Outcome::Rewind(cursor.sequence))),
        SegmentDecision::ChainBroken => {
            let message = "the segment does not follow the head that is stored before it";
            Ok(Stored::nothing(refused(sequence, "chain_broken", message)))
        }
        SegmentDecision::Equivocation => {
            let other = (sequence, new.hash);
            chain::note_equivocation(tx, node.key, node.facts.chain, other, now).await?;
            let message = "another head is stored under this sequence";
            let outcome = refused(sequence, "equivocation", message);
            Ok(Stored { outcome, queued_hours: false, contested: true })
        }
        SegmentDecision::Store(_) => {
            let before = recorded_before(tx, node, row.cursor).await?;
            store_segment(tx, node, new, now, before).await
        }
    }
}

async fn store_segment(
    tx: &mut Tx,
    node: &ProvenNode,
    new: &CheckedSegment,
    now: Timestamp,
    recorded_before: Option<Timestamp>,
) -> Result<Stored, StoreError> {
    let (head, key) = (&new.head, node.key);
    let places = place::gpus(new);
    let slots =
        place::bind(tx, key, places.values().map(|(place, _)| place), head.period.start).await?;
    let Some(slots) = slots else {
        let message = "the node has shown more places for gpus than a host can have";
        return Ok(Stored::nothing(refused(head.sequence, "too_many_slots", message)));
    };
    let row =
        NewSegment { node: key, head, hash: new.hash, signature: &new.signature, received_at: now };
    segment::insert(tx, &row).await?;
    let blocks: Vec<NewBlock<'_>> =
        new.blocks.iter().filter_map(|block| new_block(block, &slots)).collect();
    segment::insert_blocks(tx, key, head, &blocks).await?;
    event::insert_many(tx, key, (head.chain, head.sequence), &new.events).await?;
    see_gpus(tx, node, new, &slots).await?;
    let step = CursorStep { sequence: head.sequence, head_hash: new.hash, period: head.period };
    chain::advance_cursor(tx, key, node.facts.chain, step).await?;
    match node.facts.origin {
        Origin::Imported => node::extend_imported(tx, key, head.period).await?,
        Origin::Simulated if new.is_of_log => {
            node::reach_back_simulated(tx, key, head.period.start).await?;
        }
        Origin::Measured | Origin::Simulated => {}
    }
    queue_hours(tx, node, recorded_before, head.period).await?;
    let outcome = Outcome::Durable(head.sequence);
    Ok(Stored { outcome, queued_hours: true, contested: false })
}

/// Every place was bound a moment ago, so no block is left out.
fn new_block<'a>(block: &'a CheckedBlock, slots: &Slots) -> Option<NewBlock<'a>> {
    let body = &block.bytes[..];
    Some(match &block.of {
        BlockOf::Gpu(gpu) => {
            NewBlock { place: Place::Slot(*slots.get(&gpu.place)?), gpu: Some(&gpu.uuid), body }
        }
        BlockOf::Host => NewBlock { place: Place::Host, gpu: None, body },
        BlockOf::Events => NewBlock { place: Place::Events, gpu: None, body },
    })
}

async fn see_gpus(
    tx: &mut Tx,
    node: &ProvenNode,
    new: &CheckedSegment,
    slots: &Slots,
) -> Result<(), StoreError> {
    for (uuid, (place, partition)) in place::gpus(new) {
        if let Some(slot) = slots.get(&place) {
            gpu::see(tx, node.key, *slot, (uuid, partition), new.head.period.end).await?;
        }
    }
    for (at, inventory) in place::inventories(new) {
        let pci = u32::try_from(inventory.pci_device_id).ok().filter(|id| *id != 0);
        // A slice is no model of the catalogue: what stands there is true of the whole card.
        let is_whole = inventory.partition.is_none();
        let model = catalogue::find(pci, &inventory.name, inventory.memory_total_mib);
        let model = model.filter(|_| is_whole);
        let key = model.map(|model| model.key.as_str());
        gpu::describe(tx, node.key, inventory, key, at).await?;
    }
    Ok(())
}

async fn put_drop(tx: &mut Tx, node: &ProvenNode, new: &CheckedDrop) -> Result<Stored, StoreError> {
    let row = chain::lock(tx, node.key, node.facts.chain).await?;
    let stored = stored_chain(&row);
    let cursor = stored.cursor;
    let (first, last, last_head) = (new.drop.first, new.drop.last, new.drop.last_head);
    match stored.on_drop(&IncomingDrop { first, last, last_head }) {
        DropDecision::NotBegun => Ok(Stored::nothing(Outcome::Ends(NOT_BEGUN))),
        DropDecision::AlreadyCovered => Ok(Stored::nothing(Outcome::Durable(cursor.sequence))),
        DropDecision::Rewind => Ok(Stored::nothing(Outcome::Rewind(cursor.sequence))),
        DropDecision::Malformed => {
            let message = "the drop ends before it starts";
            Ok(Stored::nothing(refused(first, "malformed_drop", message)))
        }
        DropDecision::MoveCursor(_) => {
            let before = recorded_before(tx, node, row.cursor).await?;
            chain::insert_drop(tx, node.key, &new.drop, &new.signature).await?;
            let step = CursorStep { sequence: last, head_hash: last_head, period: new.credible };
            chain::advance_cursor(tx, node.key, node.facts.chain, step).await?;
            queue_hours(tx, node, before, new.credible).await?;
            let outcome = Outcome::Durable(last);
            Ok(Stored { outcome, queued_hours: true, contested: false })
        }
    }
}

/// Where the record ended before this item: the chain's end, or the node's when a chain begins.
async fn recorded_before(
    tx: &mut Tx,
    node: &ProvenNode,
    cursor: Option<CursorRow>,
) -> Result<Option<Timestamp>, StoreError> {
    match cursor {
        Some(cursor) => Ok(Some(cursor.ended_at)),
        None => segment::recorded_until(tx, node.key).await,
    }
}

async fn queue_hours(
    tx: &mut Tx,
    node: &ProvenNode,
    recorded_before: Option<Timestamp>,
    period: Period,
) -> Result<(), StoreError> {
    let hours = hours::touched(recorded_before, period);
    hour_work::add(tx, node.key, &hours, WorkReason::Data).await
}

fn refused(sequence: Sequence, code: &'static str, message: &str) -> Outcome {
    Outcome::Refused(Refused { sequence, code, message: message.to_owned() })
}
