//! Seals the rows of a log into segments of origin *imported*.

use leasewatch_core::evidence::chain::{ClockSource, ClockState, HeadDraft, SealedSegment, seal};
use leasewatch_core::id::{ChainId, EpochId, Hash, LifeUnitId, NodeId, Sequence, Slug, clean_text};
use leasewatch_core::sample::Metric;
use leasewatch_core::segment::{
    Block, Column, Event, EventKind, EventsBlock, GpuBlock, GpuInventory, LifeUnit, LifeUnitKind,
    Origin, StopReason, TrackPoint, TrackSource, UtilizationTrack,
};
use leasewatch_core::time::{Period, Timestamp};

use super::smi::{SmiGpu, SmiLog, SmiRow};

/// Rows of one GPU in one segment: below the bound on ticks, so that jitter never exceeds it.
const ROWS_PER_SEGMENT: i64 = 400;
/// The longest segment of a slow log.
const SEGMENT_MS_MAX: i64 = 6 * leasewatch_core::time::HOUR_MS;

/// Who records, and where in the chain.
pub struct Recorder<'a> {
    /// Key of the imported node.
    pub key: &'a ed25519_dalek::SigningKey,
    /// From the server's welcome.
    pub node: NodeId,
    /// From the server's welcome.
    pub tenant: Slug,
    /// The chain of the imported node.
    pub chain: ChainId,
    /// This import.
    pub epoch: EpochId,
    /// The last durable sequence and its head, if any.
    pub cursor: Option<(Sequence, Hash)>,
    /// P of the utilization track.
    pub cadence_ms: u32,
}

/// The median distance of rows of one GPU, in milliseconds; `None` for a log of single rows.
#[must_use]
pub fn median_cadence_ms(log: &SmiLog) -> Option<u32> {
    let pairs = log.gpus.iter().flat_map(|gpu| gpu.rows.windows(2));
    let mut distances: Vec<i64> = pairs.map(|pair| pair[1].at.since(pair[0].at)).collect();
    distances.sort_unstable();
    u32::try_from(*distances.get(distances.len() / 2)?).ok().filter(|ms| *ms <= 3_600_000)
}

impl Recorder<'_> {
    /// Seals the whole log. Rows up to `recorded_until` are left out by the caller.
    ///
    /// # Errors
    /// What the seal refuses, in words.
    pub fn seal_all(&self, log: &SmiLog) -> Result<Vec<SealedSegment>, String> {
        let times = || log.gpus.iter().flat_map(|gpu| &gpu.rows).map(|row| row.at);
        let (Some(first), Some(last)) = (times().min(), times().max()) else {
            return Ok(Vec::new());
        };
        let cadence = i64::from(self.cadence_ms);
        let span = (cadence * ROWS_PER_SEGMENT).min(SEGMENT_MS_MAX);
        let mut sealed: Vec<SealedSegment> = Vec::new();
        let mut window_start = first;
        let mut recorded_to: Option<Timestamp> = None;
        while window_start <= last {
            let window = Period::new(window_start, window_start.plus_ms(span));
            window_start = window.end;
            let Some((from, to)) = bounds(log, window) else { continue };
            let hold = from.plus_ms(-cadence);
            let start = recorded_to
                .map_or(hold, |end| if from.since(end) <= 3 * cadence { end } else { hold });
            let period = Period::new(start, to);
            let blocks = self.blocks(log, window, period, (recorded_to.is_none(), to == last));
            let segment = self.seal_one(sealed.last(), period, log.gpus.len(), &blocks)?;
            sealed.push(segment);
            recorded_to = Some(to);
        }
        Ok(sealed)
    }

    fn seal_one(
        &self,
        before: Option<&SealedSegment>,
        period: Period,
        gpus: usize,
        blocks: &[Block],
    ) -> Result<SealedSegment, String> {
        let (sequence, previous) = match (before, self.cursor) {
            (Some(before), _) => {
                let head = &before.signed.head;
                (head.sequence.next().ok_or("the chain is full")?, Some(head.hash()))
            }
            (None, Some((cursor, hash))) => (cursor.next().ok_or("the chain is full")?, Some(hash)),
            (None, None) => (Sequence::FIRST, None),
        };
        let draft = HeadDraft {
            tenant: self.tenant.clone(),
            node: self.node,
            chain: self.chain,
            epoch: self.epoch,
            life_unit: self.life_unit_id(),
            sequence,
            period,
            cadence_ms: self.cadence_ms,
            origin: Origin::Imported,
            gpu_count: u16::try_from(gpus).map_err(|_| "too many gpus")?,
            previous,
            // A log has one clock: its own.
            clock: ClockState {
                anchor_wall: period.start,
                anchor_boot_ms: period.start.0,
                offset_ms: None,
                bound_ms: None,
                source: ClockSource::Unknown,
            },
            checkpoint: None,
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            agent_digest: None,
        };
        seal(draft, blocks, self.key).map_err(|error| error.to_string())
    }

    fn blocks(
        &self,
        log: &SmiLog,
        window: Period,
        period: Period,
        (first, last): (bool, bool),
    ) -> Vec<Block> {
        let mut events = Vec::new();
        if first {
            events.push(self.started(period.start));
            events.extend(
                log.gpus.iter().zip(0..).map(|(gpu, index)| seen(gpu, index, period.start)),
            );
        }
        if last {
            let kind = EventKind::Goodbye { reason: StopReason::ImportEnd };
            events.push(Event::new(period.end, None, kind));
        }
        let gpus = log.gpus.iter().filter_map(|gpu| self.gpu_block(gpu, window)).map(Block::Gpu);
        gpus.chain([Block::Events(EventsBlock { events })]).collect()
    }

    fn gpu_block(&self, gpu: &SmiGpu, window: Period) -> Option<GpuBlock> {
        let rows = rows_in(gpu, window);
        if rows.is_empty() {
            return None;
        }
        Some(GpuBlock {
            uuid: gpu.uuid.clone(),
            bus_id: gpu.bus_id.clone(),
            ticks: rows.iter().map(|row| row.at).collect(),
            track: UtilizationTrack {
                source: TrackSource::Import,
                period_ms: self.cadence_ms,
                points: rows.iter().map(|row| TrackPoint { at: row.at, busy: row.busy }).collect(),
            },
            columns: Metric::ALL.iter().filter_map(|metric| column(*metric, rows)).collect(),
        })
    }

    /// An imported node has one life: nobody knows of its reboots.
    fn life_unit_id(&self) -> LifeUnitId {
        LifeUnitId(self.node.0)
    }

    fn started(&self, at: Timestamp) -> Event {
        let life_unit = LifeUnit {
            id: self.life_unit_id(),
            kind: LifeUnitKind::Host,
            boot_id: "imported".to_owned(),
            started_at: at,
        };
        let kind = EventKind::AgentStarted {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            life_unit,
            clock_source: "imported".to_owned(),
        };
        Event::new(at, None, kind)
    }
}

fn bounds(log: &SmiLog, window: Period) -> Option<(Timestamp, Timestamp)> {
    let times = || log.gpus.iter().flat_map(|gpu| rows_in(gpu, window)).map(|row| row.at);
    Some((times().min()?, times().max()?))
}

fn rows_in(gpu: &SmiGpu, window: Period) -> &[SmiRow] {
    let from = gpu.rows.partition_point(|row| row.at < window.start);
    let to = gpu.rows.partition_point(|row| row.at < window.end);
    &gpu.rows[from..to]
}

fn column(metric: Metric, rows: &[SmiRow]) -> Option<Column<Metric>> {
    let readings: Vec<_> = rows
        .iter()
        .map(|row| row.readings.iter().find(|(m, _)| *m == metric).map(|(_, reading)| *reading))
        .collect();
    readings.iter().any(Option::is_some).then_some(Column { metric, readings })
}

fn seen(gpu: &SmiGpu, index: i64, at: Timestamp) -> Event {
    let total = gpu.rows.first().and_then(|row| {
        row.readings.iter().find(|(metric, _)| *metric == Metric::MemoryTotal).map(|(_, r)| *r)
    });
    let inventory = GpuInventory {
        uuid: gpu.uuid.clone(),
        bus_id: gpu.bus_id.clone(),
        index,
        name: clean_text(gpu.name.as_deref().unwrap_or_default(), 120),
        pci_device_id: 0,
        serial: None,
        vbios: None,
        part_number: None,
        memory_total_mib: total.and_then(leasewatch_core::sample::Reading::number),
        power_limit_default_mw: None,
        power_limit_management_mw: None,
        pcie_generation_max: None,
        pcie_width_max: None,
        mig: false,
    };
    Event::new(at, Some(gpu.uuid.clone()), EventKind::GpuSeen(inventory))
}
