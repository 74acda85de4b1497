//! The parts of an open segment: one per GPU and per slice of one, and the host's.

use std::collections::BTreeMap;

use leasewatch_core::id::{BusId, GpuUuid};
use leasewatch_core::sample::{HostMetric, Metric, Reading};
use leasewatch_core::segment::{
    Block, Column, GpuBlock, HostBlock, Partition, Seat, TrackPoint, TrackSource, UtilizationTrack,
    limits,
};

use crate::clock::Anchor;
use crate::observation::{GpuObservation, HostObservation, TrackObservation};

/// A block closes early at this many ticks; the format's bound is a little more.
const TICKS_FULL: usize = limits::TICKS - 32;
/// The same for track points.
const POINTS_FULL: usize = limits::TRACK_POINTS - 128;
/// A value takes eight bytes at worst, and a block has room for this many.
const VALUES_FULL: usize = limits::BLOCK_BYTES / 8 - 2_048;

/// Ticks and the columns over them. A column is as long as its last reading; what is missing at
/// its end was not read.
#[derive(Debug)]
struct Table<M> {
    ticks: Vec<i64>,
    columns: BTreeMap<M, Vec<Option<Reading>>>,
    values: usize,
}

impl<M> Default for Table<M> {
    fn default() -> Self {
        Self { ticks: Vec::new(), columns: BTreeMap::new(), values: 0 }
    }
}

impl<M: Copy + Ord> Table<M> {
    fn add(&mut self, at_boot_ms: i64, readings: Vec<(M, Reading)>) {
        let tick = self.ticks.len();
        self.ticks.push(at_boot_ms);
        for (metric, reading) in readings {
            let column = self.columns.entry(metric).or_default();
            column.resize(tick, None);
            column.push(Some(reading));
            self.values += 1;
        }
    }

    fn is_full(&self) -> bool {
        self.ticks.len() >= TICKS_FULL || self.values >= VALUES_FULL
    }

    fn columns(&self) -> Vec<Column<M>> {
        let whole = |(metric, readings): (&M, &Vec<Option<Reading>>)| {
            let mut readings = readings.clone();
            readings.resize(self.ticks.len(), None);
            Column { metric: *metric, readings }
        };
        self.columns.iter().map(whole).collect()
    }
}

#[derive(Debug)]
struct GpuPart {
    bus_id: BusId,
    partition: Option<Partition>,
    source: TrackSource,
    period_ms: u32,
    points: Vec<(i64, Reading)>,
    table: Table<Metric>,
}

impl GpuPart {
    fn seat<'a>(&'a self, uuid: &'a GpuUuid) -> Seat<'a> {
        Seat { uuid, bus_id: &self.bus_id, partition: self.partition.as_ref() }
    }

    fn is_full(&self) -> bool {
        self.points.len() >= POINTS_FULL || self.table.is_full()
    }
}

/// The GPUs of an open segment.
#[derive(Debug, Default)]
pub(super) struct GpuParts {
    parts: BTreeMap<GpuUuid, GpuPart>,
    is_crowded: bool,
}

impl GpuParts {
    /// False when the observation has to wait for the next segment.
    pub(super) fn fits(&self, gpu: &GpuObservation) -> bool {
        if let Some(part) = self.parts.get(&gpu.uuid) {
            let TrackObservation { source, period_ms, points } = &gpu.track;
            return (&part.bus_id, &part.partition) == (&gpu.bus_id, &gpu.partition)
                && (part.source, part.period_ms) == (*source, *period_ms)
                && part.points.len() + points.len() <= limits::TRACK_POINTS
                && part.table.ticks.len() < limits::TICKS;
        }
        let seat = Seat { uuid: &gpu.uuid, bus_id: &gpu.bus_id, partition: gpu.partition.as_ref() };
        self.parts.iter().all(|(uuid, part)| seat.clash(part.seat(uuid)).is_none())
    }

    pub(super) fn add(&mut self, gpu: GpuObservation) {
        if self.parts.len() >= limits::GPUS && !self.parts.contains_key(&gpu.uuid) {
            if !self.is_crowded {
                tracing::error!(gpu.uuid = %gpu.uuid, "more than {} GPUs: not recorded", limits::GPUS);
            }
            self.is_crowded = true;
            return;
        }
        let TrackObservation { source, period_ms, points } = gpu.track;
        let part = self.parts.entry(gpu.uuid).or_insert_with(|| GpuPart {
            bus_id: gpu.bus_id,
            partition: gpu.partition,
            source,
            period_ms,
            points: Vec::new(),
            table: Table::default(),
        });
        part.points.extend(points);
        part.table.add(gpu.at_boot_ms, gpu.readings);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.parts.values().any(GpuPart::is_full)
    }

    pub(super) fn values(&self) -> usize {
        self.parts.values().map(|part| part.points.len() + part.table.values).sum()
    }

    /// The outermost times of each GPU.
    pub(super) fn times(&self) -> impl Iterator<Item = i64> {
        self.parts.values().flat_map(|part| {
            let points = [part.points.first(), part.points.last()];
            let ticks = [part.table.ticks.first(), part.table.ticks.last()];
            points
                .into_iter()
                .flatten()
                .map(|(at, _)| *at)
                .chain(ticks.into_iter().flatten().copied())
        })
    }

    /// Where the window of each GPU's first point begins.
    pub(super) fn weight_starts(&self) -> impl Iterator<Item = i64> {
        self.parts.values().filter_map(|part| {
            part.points.first().map(|(at, _)| at.saturating_sub(i64::from(part.period_ms)))
        })
    }

    pub(super) fn blocks(&self, anchor: Anchor) -> Vec<Block> {
        let block = |(uuid, part): (&GpuUuid, &GpuPart)| {
            let point =
                |(at, busy): &(i64, Reading)| TrackPoint { at: anchor.wall_of(*at), busy: *busy };
            Block::Gpu(GpuBlock {
                uuid: uuid.clone(),
                bus_id: part.bus_id.clone(),
                partition: part.partition.clone(),
                ticks: part.table.ticks.iter().map(|at| anchor.wall_of(*at)).collect(),
                track: UtilizationTrack {
                    source: part.source,
                    period_ms: part.period_ms,
                    points: part.points.iter().map(point).collect(),
                },
                columns: part.table.columns(),
            })
        };
        self.parts.iter().map(block).collect()
    }
}

/// The host's part of an open segment.
#[derive(Debug, Default)]
pub(super) struct HostPart(Table<HostMetric>);

impl HostPart {
    pub(super) fn add(&mut self, host: HostObservation) {
        self.0.add(host.at_boot_ms, host.readings);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.ticks.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.0.is_full()
    }

    pub(super) fn values(&self) -> usize {
        self.0.values
    }

    pub(super) fn times(&self) -> impl Iterator<Item = i64> {
        [self.0.ticks.first(), self.0.ticks.last()].into_iter().flatten().copied()
    }

    pub(super) fn block(&self, anchor: Anchor) -> Option<HostBlock> {
        if self.is_empty() {
            return None;
        }
        let ticks = self.0.ticks.iter().map(|at| anchor.wall_of(*at)).collect();
        Some(HostBlock { ticks, columns: self.0.columns() })
    }
}
