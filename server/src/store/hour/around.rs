//! What metering needs to know of one node around one hour, loaded once for whoever meters it: the
//! job that closes hours, the open hour, and the page that shows single readings.

use std::collections::HashMap;

use leasewatch_core::evidence::chain::Head;
use leasewatch_core::id::{ChainId, GpuUuid, Sequence, SlotNo};
use leasewatch_core::metering::{
    HOLDING_KINDS, HourProfile, HourRecord, MeteredSegment, Resident, SlotHour, meter,
};
use leasewatch_core::segment::{Block, Event, GpuBlock, Origin, Partition};
use leasewatch_core::time::{Hour, Period, Timestamp};

use crate::store::node::NodeRow;
use crate::store::segment::{self, HeadRow, Place};
use crate::store::slot::SlotRow;
use crate::store::{NodeKey, StoreError, Tx, chain, event, gpu, liveness, session, slot};

/// The longest hold of an agent's point: within it, a segment beyond the hour's edge may hold the
/// point of a slot that the nearest segment says nothing of.
const NEAR_MS: i64 = 180_000;
/// Events before the first loaded segment that may still hold.
const PRIOR_EVENTS: u32 = 256;
/// What shows that a slice is there, or not any more, and how many of these before the first loaded
/// segment are looked at: the last one decides.
const SIGHT_KINDS: [&str; 2] = ["gpu_seen", "partition_removed"];
const SIGHTS: u32 = 4;
/// A slot that was first seen within this time of the node's enrolment was there from the start.
const FIRST_SIGHT_MS: i64 = 300_000;
/// A node that recorded this lately has more on its way: time after its last segment is not a gap
/// yet.
const ON_ITS_WAY_MS: i64 = 150_000;

type SegmentKey = (ChainId, Sequence);

/// A node around an hour.
#[derive(Debug)]
pub struct NodeHour {
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

#[derive(Debug)]
struct LoadedSlot {
    row: SlotRow,
    /// When the slot's last GPU was seen there for the last time, if it sits elsewhere now.
    vacated_at: Option<Timestamp>,
    resident: Option<GpuUuid>,
    /// What the resident is a slice of.
    partition: Option<Partition>,
    /// Of a slice's slot: the node's events that may still hold, and the last sights of its slices.
    prior_events: Option<Vec<Event>>,
    blocks: HashMap<SegmentKey, GpuBlock>,
}

/// A metered slot.
#[derive(Debug)]
pub struct MeteredSlot {
    /// Which.
    pub slot: SlotNo,
    /// A record and a profile for each GPU that sat in it.
    pub records: Vec<(HourRecord, HourProfile)>,
}

/// Reads everything that overlaps the hour, and the nearest segment before and after it; of all
/// slots, or of one.
///
/// # Errors
/// [`StoreError::Inconsistent`] for a row that was changed since it was stored.
pub async fn around(
    tx: &mut Tx,
    node: NodeRow,
    hour: Hour,
    only: Option<SlotNo>,
) -> Result<NodeHour, StoreError> {
    let (key, period) = (node.key, hour.period());
    let near = Period::new(period.start.plus_ms(-NEAR_MS), period.end.plus_ms(NEAR_MS));
    let mut heads = segment::heads(tx, key, near).await?;
    heads.extend(segment::head_before(tx, key, near.start).await?);
    heads.extend(segment::head_after(tx, key, near.end).await?);
    let first_at = heads.iter().map(|row| row.head.period.start).min().unwrap_or(period.start);
    let prior = event::before_of_kinds(tx, key, first_at, &HOLDING_KINDS, PRIOR_EVENTS).await?;
    let imported = node.origin == Origin::Imported;
    let connected = session::periods(tx, key, period).await?;
    let always = vec![Period::new(Timestamp::MIN, Timestamp::MAX)];
    let drops = chain::drops(tx, key, period).await?;
    let gpus = gpu::of_node(tx, key).await?;
    let wanted = |row: &SlotRow| only.is_none_or(|only| row.slot == only);
    let rows: Vec<SlotRow> = slot::of_node(tx, key).await?.into_iter().filter(wanted).collect();
    let Loaded { mut blocks, events } = load_blocks(tx, key, &rows, &heads).await?;
    let numbers: Vec<SlotNo> = rows.iter().map(|row| row.slot).collect();
    let mut residents = segment::residents_before(tx, key, &numbers, first_at).await?;
    let mut slots = Vec::new();
    for row in rows {
        let resident = residents.remove(&row.slot);
        let sat_here = gpus.iter().filter(|gpu| gpu.slot == row.slot);
        let known = sat_here.clone().find(|gpu| Some(&gpu.uuid) == resident.as_ref());
        let partition = known.and_then(|gpu| gpu.partition.clone());
        let mut prior_events = None;
        if row.place.instance.is_some() {
            let slices: Vec<GpuUuid> = sat_here.clone().map(|gpu| gpu.uuid.clone()).collect();
            let sights = (&SIGHT_KINDS[..], &slices[..]);
            let sights = event::before_of_gpus(tx, key, first_at, sights, SIGHTS).await?;
            let events = sights.into_iter().chain(prior.iter().cloned()).map(|row| row.event);
            prior_events = Some(events.collect());
        }
        let vacated_at = match sat_here.count() {
            0 => segment::last_block_end(tx, key, row.slot).await?,
            _ => None,
        };
        let blocks = blocks.remove(&row.slot).unwrap_or_default();
        slots.push(LoadedSlot { row, vacated_at, resident, partition, prior_events, blocks });
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

/// What was decoded of the segments around the hour.
#[derive(Default)]
struct Loaded {
    blocks: HashMap<SlotNo, HashMap<SegmentKey, GpuBlock>>,
    events: HashMap<SegmentKey, Vec<Event>>,
}

async fn load_blocks(
    tx: &mut Tx,
    node: NodeKey,
    slots: &[SlotRow],
    heads: &[HeadRow],
) -> Result<Loaded, StoreError> {
    let slots = slots.iter().map(|row| Place::Slot(row.slot));
    let places: Vec<Place> = slots.chain([Place::Events]).collect();
    let mut loaded = Loaded::default();
    for row in segment::blocks_of(tx, node, &places, heads).await? {
        let key = (row.chain, row.sequence);
        match (row.place, segment::decode(&row.body)?) {
            (Place::Slot(slot), Block::Gpu(block)) => {
                loaded.blocks.entry(slot).or_default().insert(key, block);
            }
            (Place::Events, Block::Events(block)) => {
                loaded.events.insert(key, block.events);
            }
            _ => {}
        }
    }
    Ok(loaded)
}

impl NodeHour {
    /// The time in which the node was enrolled, open at `now`.
    #[must_use]
    pub fn enrolled(&self, now: Timestamp) -> Period {
        self.node.enrolled(now)
    }

    /// The same without what is still on its way. That begins with the last point of the latest
    /// segment: what follows it is told by the first point of the next one.
    #[must_use]
    pub fn enrolled_so_far(&self, now: Timestamp) -> Period {
        let enrolled = self.enrolled(now);
        let latest = self.heads.iter().map(|row| &row.head).max_by_key(|head| head.period.end);
        let lately = latest.filter(|head| now.since(head.period.end) < ON_ITS_WAY_MS);
        let end = lately.map_or(enrolled.end, |head| self.told_until(head));
        Period::new(enrolled.start, end.clamp(enrolled.start, enrolled.end))
    }

    /// The end of a segment, or the last point of the slot that was read first in its last tick.
    fn told_until(&self, head: &Head) -> Timestamp {
        let end = head.period.end;
        let key = (head.chain, head.sequence);
        let blocks = self.slots.iter().filter_map(|slot| slot.blocks.get(&key));
        let last = blocks.filter_map(|block| block.track.points.last()).map(|point| point.at);
        // A slot that stopped earlier has a gap.
        let still_read = |at: &Timestamp| end.since(*at) < 2 * i64::from(head.cadence_ms);
        last.filter(still_read).min().map_or(end, |at| at.min(end))
    }

    /// The hour.
    #[must_use]
    pub fn hour(&self) -> Hour {
        self.hour
    }

    /// The node.
    #[must_use]
    pub fn node(&self) -> &NodeRow {
        &self.node
    }

    /// End of the latest segment that was loaded.
    #[must_use]
    pub fn recorded_until(&self) -> Option<Timestamp> {
        self.heads.iter().map(|row| row.head.period.end).max()
    }

    /// Whether any segment overlaps the hour.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        let hour = self.hour.period();
        self.heads.iter().any(|row| !row.head.period.intersect(hour).is_empty())
    }

    /// Meters every slot that was loaded, with enrolled time cut at `enrolled`.
    #[must_use]
    pub fn meter(&self, enrolled: Period) -> Vec<MeteredSlot> {
        let mut metered = Vec::new();
        self.each_slot(enrolled, |slot, input| {
            metered.push(MeteredSlot { slot, records: meter(input) });
        });
        metered
    }

    /// Hands over each slot that was loaded, as metering sees it.
    pub fn each_slot(&self, enrolled: Period, mut see: impl FnMut(SlotNo, &SlotHour<'_>)) {
        for slot in &self.slots {
            let segments = self.segments(slot);
            let first_seen_at = slot.row.first_seen_at;
            // When a slice was there follows from its events, to the millisecond.
            let is_slice = slot.row.place.instance.is_some();
            let joined_later = !is_slice && first_seen_at.since(enrolled.start) > FIRST_SIGHT_MS;
            let start = if joined_later { first_seen_at } else { enrolled.start };
            let resident = |gpu| Resident { gpu, partition: slot.partition.as_ref() };
            let end = slot.vacated_at.unwrap_or(enrolled.end).min(enrolled.end);
            let input = SlotHour {
                hour: self.hour,
                origin: self.node.origin,
                place: &slot.row.place,
                enrolled: Period::new(start, end),
                resident: slot.resident.as_ref().map(resident),
                segments: &segments,
                prior_events: slot.prior_events.as_ref().unwrap_or(&self.prior_events),
                drops: &self.drops,
                observer: &self.observer,
                connected: self.connected.as_deref(),
            };
            see(slot.row.slot, &input);
        }
    }

    fn segments<'a>(&'a self, slot: &'a LoadedSlot) -> Vec<MeteredSegment<'a>> {
        let none: &[Event] = &[];
        let segments = self.heads.iter().map(|row| {
            let key = (row.head.chain, row.head.sequence);
            MeteredSegment {
                head: &row.head,
                head_hash: row.hash,
                block: slot.blocks.get(&key),
                events: self.events.get(&key).map_or(none, Vec::as_slice),
            }
        });
        segments.collect()
    }
}
