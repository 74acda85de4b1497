//! Loads what metering needs to know of one node around one hour.

use std::collections::HashMap;

use leasewatch_core::id::{ChainId, GpuUuid, Hash, Sequence, SlotNo};
use leasewatch_core::metering::{
    HOLDING_KINDS, HourProfile, HourRecord, MeteredSegment, SlotHour, meter,
};
use leasewatch_core::segment::{Block, Event, GpuBlock, Origin};
use leasewatch_core::time::{Hour, Period, Timestamp};

use crate::store::node::NodeRow;
use crate::store::segment::{self, BlockRow, HeadRow, Place};
use crate::store::slot::SlotRow;
use crate::store::{StoreError, Tx, chain, event, gpu, liveness, session, slot};

/// The longest hold of an agent's point: within it, a segment beyond the hour's edge may hold the
/// point of a slot that the nearest segment says nothing of.
const NEAR_MS: i64 = 180_000;
/// Events before the first loaded segment that may still hold.
const PRIOR_EVENTS: u32 = 256;
/// A slot that was first seen within this time of the node's enrolment was there from the start.
const FIRST_SIGHT_MS: i64 = 300_000;

type SegmentKey = (ChainId, Sequence);

/// A node around an hour.
pub(super) struct NodeHour {
    node: NodeRow,
    hour: Hour,
    heads: Vec<HeadRow>,
    events: HashMap<SegmentKey, Vec<Event>>,
    prior_events: Vec<Event>,
    drops: Vec<Period>,
    observer: Vec<Period>,
    connected: Option<Vec<Period>>,
    slots: Vec<LoadedSlot>,
}

struct LoadedSlot {
    row: SlotRow,
    /// When the slot's last GPU was seen there for the last time, if it sits elsewhere now.
    vacated_at: Option<Timestamp>,
    resident: Option<GpuUuid>,
    blocks: HashMap<SegmentKey, GpuBlock>,
}

/// A metered slot.
pub(super) struct MeteredSlot {
    pub(super) slot: SlotNo,
    pub(super) records: Vec<(HourRecord, HourProfile)>,
}

/// Reads everything that overlaps the hour, and the nearest segment before and after it.
pub(super) async fn load(tx: &mut Tx, node: NodeRow, hour: Hour) -> Result<NodeHour, StoreError> {
    let (key, period) = (node.key, hour.period());
    let near = Period::new(period.start.plus_ms(-NEAR_MS), period.end.plus_ms(NEAR_MS));
    let mut heads = segment::heads(tx, key, near).await?;
    heads.extend(segment::head_before(tx, key, near.start).await?);
    heads.extend(segment::head_after(tx, key, near.end).await?);
    let first_at = heads.iter().map(|row| row.head.period.start).min().unwrap_or(period.start);
    let mut events = HashMap::new();
    for row in segment::blocks_of(tx, key, Place::Events, &heads).await? {
        if let Some(Block::Events(block)) = decoded(&row)? {
            events.insert((row.chain, row.sequence), block.events);
        }
    }
    let prior = event::before_of_kinds(tx, key, first_at, &HOLDING_KINDS, PRIOR_EVENTS).await?;
    let imported = node.origin == Origin::Imported;
    let connected = session::periods(tx, key, period).await?;
    let always = vec![Period::new(Timestamp::MIN, Timestamp::MAX)];
    let drops = chain::drops(tx, key, period).await?;
    let gpus = gpu::of_node(tx, key).await?;
    let mut slots = Vec::new();
    for row in slot::of_node(tx, key).await? {
        let mut slot = load_slot(tx, &node, row, &heads, first_at).await?;
        if !gpus.iter().any(|gpu| gpu.slot == slot.row.slot) {
            slot.vacated_at = segment::last_block_end(tx, key, slot.row.slot).await?;
        }
        slots.push(slot);
    }
    Ok(NodeHour {
        hour,
        events,
        prior_events: prior.into_iter().map(|row| row.event).collect(),
        drops: drops.into_iter().map(|row| row.period).collect(),
        // A log needs no witness of its own recording, and never had a connection.
        observer: if imported { always } else { liveness::periods(tx, period).await? },
        connected: (!imported).then_some(connected),
        slots,
        heads,
        node,
    })
}

async fn load_slot(
    tx: &mut Tx,
    node: &NodeRow,
    row: SlotRow,
    heads: &[HeadRow],
    first_at: Timestamp,
) -> Result<LoadedSlot, StoreError> {
    let mut blocks = HashMap::new();
    for stored in segment::blocks_of(tx, node.key, Place::Slot(row.slot), heads).await? {
        if let Some(Block::Gpu(block)) = decoded(&stored)? {
            blocks.insert((stored.chain, stored.sequence), block);
        }
    }
    let resident = segment::resident_before(tx, node.key, row.slot, first_at).await?;
    Ok(LoadedSlot { row, vacated_at: None, resident, blocks })
}

/// Stored blocks were checked before they were stored; one that does not decode was changed since.
fn decoded(row: &BlockRow) -> Result<Option<Block>, StoreError> {
    Block::decode(&row.body).map(Some).map_err(|error| StoreError::Inconsistent {
        table: "segment_block",
        column: "body",
        problem: error.to_string(),
    })
}

impl NodeHour {
    /// The time in which the node was enrolled, open at `now`.
    pub(super) fn enrolled(&self, now: Timestamp) -> Period {
        self.node.enrolled(now)
    }

    pub(super) fn hour(&self) -> Hour {
        self.hour
    }

    pub(super) fn node(&self) -> &NodeRow {
        &self.node
    }

    /// End of the latest segment that was loaded.
    pub(super) fn recorded_until(&self) -> Option<Timestamp> {
        self.heads.iter().map(|row| row.head.period.end).max()
    }

    /// Meters every slot, with enrolled time cut at `enrolled`.
    pub(super) fn meter(&self, enrolled: Period) -> Vec<MeteredSlot> {
        self.slots.iter().map(|slot| self.meter_slot(slot, enrolled)).collect()
    }

    fn meter_slot(&self, slot: &LoadedSlot, enrolled: Period) -> MeteredSlot {
        let none: &[Event] = &[];
        let segments: Vec<MeteredSegment<'_>> = self
            .heads
            .iter()
            .map(|row| {
                let key = (row.head.chain, row.head.sequence);
                MeteredSegment {
                    head: &row.head,
                    head_hash: row.hash,
                    block: slot.blocks.get(&key),
                    events: self.events.get(&key).map_or(none, Vec::as_slice),
                }
            })
            .collect();
        let first_seen_at = slot.row.first_seen_at;
        let joined_later = first_seen_at.since(enrolled.start) > FIRST_SIGHT_MS;
        let start = if joined_later { first_seen_at } else { enrolled.start };
        let records = meter(&SlotHour {
            hour: self.hour,
            origin: self.node.origin,
            enrolled: Period::new(start, slot.vacated_at.unwrap_or(enrolled.end).min(enrolled.end)),
            resident: slot.resident.as_ref(),
            segments: &segments,
            prior_events: &self.prior_events,
            drops: &self.drops,
            observer: &self.observer,
            connected: self.connected.as_deref(),
        });
        MeteredSlot { slot: slot.row.slot, records }
    }
}

/// The statement hash that a record is committed under.
pub(super) fn statement_hash(
    node: &NodeRow,
    slot: SlotNo,
    record: &HourRecord,
    (revision, previous): (u32, Option<Hash>),
) -> Hash {
    record.statement_hash(&leasewatch_core::metering::HourNames {
        tenant: &node.tenant,
        node: node.id,
        slot,
        revision,
        previous,
    })
}
