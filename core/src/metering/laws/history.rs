//! Histories for the laws: epochs laid out in time and cut into segments.

use proptest::prelude::*;

use super::super::run::complement;
use super::super::*;
use crate::evidence::chain::{ClockSource, ClockState};
use crate::id::{BusId, ChainId, EpochId, LifeUnitId, NodeId, Sequence, Slug};
use crate::sample::Reading;
use crate::segment::{
    EventKind, GpuInventory, LifeUnit, LifeUnitKind, MigInstance, Origin, Partition, StopReason,
    TrackPoint, TrackSource, UtilizationTrack,
};

/// From enrolment to the first run, which was starting then.
pub(super) const START_MS: i64 = 500;
pub(super) const START: i64 = 490_000 * crate::time::HOUR_MS;

/// A segment that owns its parts.
#[derive(Debug, Clone)]
pub(super) struct Owned {
    pub(super) head: Head,
    pub(super) block: Option<GpuBlock>,
    pub(super) events: Vec<Event>,
}

/// One epoch: points of a GPU at a cadence, some of them missing.
#[derive(Debug, Clone)]
pub(super) struct EpochPlan {
    pub(super) pause_ms: i64,
    pub(super) period_ms: i64,
    /// Distance to the point before, and the reading.
    pub(super) points: Vec<(i64, Reading)>,
    pub(super) same_life: bool,
    pub(super) goodbye: bool,
    pub(super) gpu: u8,
}

pub(super) fn gpu(number: u8) -> GpuUuid {
    GpuUuid::new(&format!("GPU-{number}")).unwrap()
}

pub(super) fn bus_id() -> BusId {
    BusId::new("00000000:18:00.0").unwrap()
}

/// The GPU that every slice of a history is a part of.
pub(super) fn parent() -> GpuUuid {
    gpu(200)
}

/// The same history of a slice: each epoch shows it first, and it is removed at the end of the
/// segments that `removed` names, to come back with the next reading or epoch.
pub(super) fn sliced(mut segments: Vec<Owned>, removed: &[usize]) -> Vec<Owned> {
    let count = segments.len();
    for (index, segment) in segments.iter_mut().enumerate() {
        let Some(block) = &mut segment.block else { continue };
        let uuid = block.uuid.clone();
        block.partition = Some(Partition {
            parent: parent(),
            instance: MigInstance { gpu_instance: 9, compute_instance: 0 },
            slices: 1,
            slices_of: 7,
        });
        if let Some(started) = segment.events.first().filter(|e| is_start(e)).map(|e| e.at) {
            let kind = EventKind::GpuSeen(inventory(block));
            segment.events.insert(1, Event { at: started, gpu: Some(uuid.clone()), kind });
        }
        if removed.iter().any(|number| number % count == index) {
            let at = segment.head.period.end;
            segment.events.push(Event { at, gpu: Some(uuid), kind: EventKind::PartitionRemoved });
        }
    }
    segments
}

pub(super) fn is_start(event: &Event) -> bool {
    matches!(event.kind, EventKind::AgentStarted { .. })
}

fn inventory(block: &GpuBlock) -> GpuInventory {
    GpuInventory {
        uuid: block.uuid.clone(),
        bus_id: block.bus_id.clone(),
        index: 0,
        name: "MIG 1g.10gb".to_owned(),
        pci_device_id: 0,
        serial: None,
        vbios: None,
        part_number: None,
        memory_total_mib: None,
        power_limit_default_mw: None,
        power_limit_management_mw: None,
        pcie_generation_max: None,
        pcie_width_max: None,
        mig: true,
        partition: block.partition.clone(),
    }
}

fn reading() -> impl Strategy<Value = Reading> {
    prop_oneof![
        20 => (0_i64..=100).prop_map(Reading::Number),
        1 => Just(Reading::Stale),
        1 => Just(Reading::Error),
        1 => Just(Reading::Unsupported),
    ]
}

pub(super) fn epoch() -> impl Strategy<Value = EpochPlan> {
    let distance =
        prop_oneof![15 => 990_i64..1_010, 2 => 1_900_i64..2_100, 1 => 3_001_i64..400_000];
    (
        0_i64..900_000,
        prop_oneof![Just(167_i64), Just(1_000)],
        proptest::collection::vec((distance, reading()), 1..200),
        any::<bool>(),
        any::<bool>(),
        0_u8..2,
    )
        .prop_map(|(pause_ms, period_ms, points, same_life, goodbye, gpu)| EpochPlan {
            pause_ms,
            period_ms,
            points,
            same_life,
            goodbye,
            gpu,
        })
}

pub(super) fn head(epoch: u8, life: u8, sequence: u64, period: Period) -> Head {
    Head {
        tenant: Slug::new("tenant-a").unwrap(),
        node: NodeId([1; 16]),
        chain: ChainId([2; 16]),
        epoch: EpochId([epoch; 8]),
        life_unit: LifeUnitId([life; 16]),
        sequence: Sequence(sequence),
        period,
        cadence_ms: 1_000,
        origin: Origin::Measured,
        gpu_count: 1,
        block_count: 1,
        root: Hash([0; 32]),
        previous: None,
        clock: ClockState {
            anchor_wall: Timestamp(0),
            anchor_boot_ms: 0,
            offset_ms: Some(2),
            bound_ms: Some(1),
            source: ClockSource::Ntp,
        },
        checkpoint: None,
        agent_version: "1".to_owned(),
        agent_digest: None,
    }
}

/// Lays the epochs out in time and cuts them into segments of `batch` points.
pub(super) fn lay_out(plans: &[EpochPlan], batch: usize) -> Vec<Owned> {
    let mut segments = Vec::new();
    let (mut at, mut life) = (START + 500, 0_u8);
    for (number, plan) in (0_u8..).zip(plans) {
        at += plan.pause_ms;
        life += u8::from(!plan.same_life);
        let started = Timestamp(at);
        let mut points = Vec::new();
        for (distance, busy) in &plan.points {
            at += distance;
            points.push(TrackPoint { at: Timestamp(at), busy: *busy });
        }
        let chunks = points.chunks(batch).count();
        let mut from = started;
        for (index, chunk) in points.chunks(batch).enumerate() {
            let end = chunk.last().unwrap().at;
            let mut events = Vec::new();
            if index == 0 {
                events.push(started_event(started, life));
            }
            if index + 1 == chunks && plan.goodbye {
                let kind = EventKind::Goodbye { reason: StopReason::Upgrade };
                events.push(Event { at: end, gpu: None, kind });
            }
            let sequence = u64::try_from(segments.len()).unwrap() + 1;
            segments.push(Owned {
                head: head(number, life, sequence, Period::new(from, end)),
                block: Some(block(plan, chunk)),
                events,
            });
            from = end;
        }
    }
    segments
}

pub(super) fn started_event(at: Timestamp, life: u8) -> Event {
    let life_unit = LifeUnit {
        id: LifeUnitId([life; 16]),
        kind: LifeUnitKind::Host,
        boot_id: "b".to_owned(),
        started_at: at,
    };
    let (version, clock_source) = ("1".to_owned(), "tsc".to_owned());
    Event { at, gpu: None, kind: EventKind::AgentStarted { version, life_unit, clock_source } }
}

pub(super) fn block(plan: &EpochPlan, points: &[TrackPoint]) -> GpuBlock {
    GpuBlock {
        uuid: gpu(plan.gpu),
        bus_id: bus_id(),
        partition: None,
        ticks: Vec::new(),
        track: UtilizationTrack {
            source: TrackSource::Poll,
            period_ms: u32::try_from(plan.period_ms).unwrap(),
            points: points.to_vec(),
        },
        columns: Vec::new(),
    }
}

/// What surrounds the segments when they are metered.
#[derive(Debug, Clone, Default)]
pub(super) struct World {
    pub(super) enrolled: Option<Period>,
    pub(super) drops: Vec<Period>,
    /// When the server was not recording.
    pub(super) blind: Vec<Period>,
    /// When the node had no connection.
    pub(super) cut_off: Vec<Period>,
    pub(super) prior_events: Vec<Event>,
}

impl World {
    /// Meters every enrolled hour.
    pub(super) fn meter(&self, segments: &[Owned]) -> Vec<HourRecord> {
        let end = segments.iter().map(|s| s.head.period.end).max().unwrap();
        let enrolled = self.enrolled.unwrap_or(Period::new(Timestamp(START), end));
        let views: Vec<MeteredSegment<'_>> = segments.iter().map(Owned::view).collect();
        let block = segments.iter().find_map(|segment| segment.block.as_ref());
        let place = Place::of(&bus_id(), block.and_then(|block| block.partition.as_ref()));
        let always = Period::new(Timestamp(0), Timestamp(i64::MAX));
        let (observer, connected) =
            (complement(always, &self.blind), complement(always, &self.cut_off));
        let meter_hour = |hour| {
            meter(&SlotHour {
                hour,
                origin: Origin::Measured,
                place: &place,
                enrolled,
                resident: None,
                segments: &views,
                prior_events: &self.prior_events,
                drops: &self.drops,
                observer: &observer,
                connected: Some(&connected),
            })
        };
        enrolled.hours().flat_map(meter_hour).map(|(record, _)| record).collect()
    }
}

impl Owned {
    pub(super) fn view(&self) -> MeteredSegment<'_> {
        MeteredSegment {
            head: &self.head,
            head_hash: Hash([0; 32]),
            block: self.block.as_ref(),
            events: &self.events,
        }
    }
}

/// Meters every hour of a history in which the server saw everything.
pub(super) fn meter_all(segments: &[Owned]) -> Vec<HourRecord> {
    World::default().meter(segments)
}

pub(super) fn total(records: &[HourRecord]) -> UtilizationSum {
    let mut sum = UtilizationSum::default();
    records.iter().for_each(|record| sum.add(record));
    sum
}

/// An epoch of one reading at one distance.
pub(super) fn steady(period_ms: i64, distance: i64, count: usize, busy: i64) -> EpochPlan {
    EpochPlan {
        pause_ms: 0,
        period_ms,
        points: vec![(distance, Reading::Number(busy)); count],
        same_life: true,
        goodbye: false,
        gpu: 0,
    }
}
