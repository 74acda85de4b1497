//! Seals the rows of a log into segments of origin *imported*.

use leasewatch_core::evidence::chain::{
    ChainStart, ChainStartReason, ClockSource, ClockState, HeadDraft, SealedSegment, seal,
};
use leasewatch_core::evidence::statement::{StatementKind, sign};
use leasewatch_core::id::{ChainId, EpochId, Hash, LifeUnitId, NodeId, Sequence, Slug};
use leasewatch_core::sample::Metric;
use leasewatch_core::segment::{
    Block, Column, Event, EventKind, EventsBlock, GpuBlock, LifeUnit, LifeUnitKind, Origin,
    StopReason, TrackPoint, TrackSource, UtilizationTrack,
};
use leasewatch_core::time::{Period, Timestamp};
use leasewatch_proto::convert::ChainStartParts;

use super::log::{ImportLog, LoggedGpu, LoggedRow};
use crate::intake::{Progress, Step};

/// Rows of one GPU in one segment: below the bound on ticks, so that jitter never exceeds it.
const ROWS_PER_SEGMENT: usize = 400;
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
pub fn median_cadence_ms(log: &ImportLog) -> Option<u32> {
    let pairs = log.gpus.iter().flat_map(|gpu| gpu.rows.windows(2));
    let mut distances: Vec<i64> = pairs.map(|pair| pair[1].at.since(pair[0].at)).collect();
    distances.sort_unstable();
    u32::try_from(*distances.get(distances.len() / 2)?).ok().filter(|ms| *ms <= 3_600_000)
}

impl Recorder<'_> {
    /// Signs the start of the node's chain, which begins with the record and not with the import.
    #[must_use]
    pub fn start(&self, at: Timestamp) -> ChainStartParts {
        let reason = ChainStartReason::Joined;
        let start = ChainStart { node: self.node, chain: self.chain, at, reason };
        let statement = start.statement();
        let signature = sign(StatementKind::ChainStart, &statement, self.key);
        ChainStartParts { statement, signature }
    }

    /// Seals the whole log. What is recorded already is left out by the caller.
    ///
    /// # Errors
    /// What the seal refuses, in words.
    pub fn seal_all(
        &self,
        log: &ImportLog,
        progress: &Progress,
    ) -> Result<Vec<SealedSegment>, String> {
        let Some(whole) = log.bounds(Period::new(Timestamp::MIN, Timestamp::MAX)) else {
            return Ok(Vec::new());
        };
        let cadence = i64::from(self.cadence_ms);
        let swaps = log.swaps();
        let mut sealed: Vec<SealedSegment> = Vec::new();
        let rows = log.rows_up_to(Timestamp::MAX);
        let mut window_start = whole.start;
        let mut recorded_to: Option<Timestamp> = None;
        while window_start <= whole.end {
            let window = Period::new(window_start, self.window_end(log, &swaps, window_start));
            window_start = window.end;
            let Some(found) = log.bounds(window) else { continue };
            let hold = found.start.plus_ms(-cadence);
            let start = recorded_to
                .filter(|end| found.start.since(*end) <= 3 * cadence && *end <= found.start)
                .unwrap_or(hold);
            let period = Period::new(start, found.end);
            let ends = (recorded_to.is_none(), window.end > whole.end);
            let blocks = self.blocks(log, window, period, ends);
            let segment = self.seal_one(sealed.last(), period, log.gpus.len(), &blocks)?;
            sealed.push(segment);
            recorded_to = Some(found.end);
            progress.set(Step::Sealing(log.rows_up_to(window.end), rows));
        }
        Ok(sealed)
    }

    /// Where a segment that begins at `start` has to end: full, long, or before a GPU takes the
    /// place of another one, for a segment has one GPU in each place.
    fn window_end(&self, log: &ImportLog, swaps: &[Timestamp], start: Timestamp) -> Timestamp {
        let rows = i64::try_from(ROWS_PER_SEGMENT).unwrap_or(i64::MAX);
        let span = (i64::from(self.cadence_ms).saturating_mul(rows)).min(SEGMENT_MS_MAX);
        let full = log.gpus.iter().filter_map(|gpu| {
            let first = gpu.rows.partition_point(|row| row.at < start);
            gpu.rows.get(first + ROWS_PER_SEGMENT).map(|row| row.at)
        });
        let swap = swaps.iter().copied().find(|swap| *swap > start);
        full.chain(swap).fold(start.plus_ms(span.max(1)), Timestamp::min)
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
            clock: log_clock(period.start),
            checkpoint: None,
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            agent_digest: None,
        };
        seal(draft, blocks, self.key).map_err(|error| error.to_string())
    }

    fn blocks(
        &self,
        log: &ImportLog,
        window: Period,
        period: Period,
        (first, last): (bool, bool),
    ) -> Vec<Block> {
        let mut events = Vec::new();
        if first {
            events.push(self.started(period.start));
            events.extend(log.gpus.iter().map(|gpu| seen(gpu, period.start)));
        }
        events.extend(log.events.iter().filter(|event| window.contains(event.at)).cloned());
        if last {
            let kind = EventKind::Goodbye { reason: StopReason::ImportEnd };
            events.push(Event::new(period.end, None, kind));
        }
        let gpus = log.gpus.iter().filter_map(|gpu| self.gpu_block(gpu, window)).map(Block::Gpu);
        gpus.chain([Block::Events(EventsBlock { events })]).collect()
    }

    fn gpu_block(&self, gpu: &LoggedGpu, window: Period) -> Option<GpuBlock> {
        let rows = rows_in(gpu, window);
        if rows.is_empty() {
            return None;
        }
        Some(GpuBlock {
            uuid: gpu.inventory.uuid.clone(),
            bus_id: gpu.inventory.bus_id.clone(),
            partition: None,
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

/// A log has one clock: its own.
pub(super) fn log_clock(at: Timestamp) -> ClockState {
    ClockState {
        anchor_wall: at,
        anchor_boot_ms: at.0,
        offset_ms: None,
        bound_ms: None,
        source: ClockSource::Unknown,
    }
}

impl ImportLog {
    fn rows_up_to(&self, end: Timestamp) -> u64 {
        let before = |gpu: &LoggedGpu| gpu.rows.partition_point(|row| row.at < end);
        self.gpus.iter().map(|gpu| u64::try_from(before(gpu)).unwrap_or(u64::MAX)).sum()
    }

    /// First and last time of what lies in `window`.
    fn bounds(&self, window: Period) -> Option<Period> {
        let rows = || self.gpus.iter().map(|gpu| rows_in(gpu, window));
        let events = || self.events.iter().map(|e| e.at).filter(|at| window.contains(*at));
        let first =
            rows().filter_map(|rows| rows.first()).map(|row| row.at).chain(events()).min()?;
        let last = rows().filter_map(|rows| rows.last()).map(|row| row.at).chain(events()).max()?;
        Some(Period::new(first, last))
    }

    /// When a GPU appears in a place where another one sat, ascending.
    fn swaps(&self) -> Vec<Timestamp> {
        let first = |gpu: &LoggedGpu| gpu.rows.first().map(|row| row.at);
        let mut swaps: Vec<Timestamp> = self
            .gpus
            .iter()
            .filter_map(|gpu| {
                let place = &gpu.inventory.bus_id;
                let mut others = self.gpus.iter().filter(|o| o.inventory.bus_id == *place);
                first(gpu).filter(|at| others.any(|other| first(other) < Some(*at)))
            })
            .collect();
        swaps.sort_unstable();
        swaps
    }
}

fn rows_in(gpu: &LoggedGpu, window: Period) -> &[LoggedRow] {
    let from = gpu.rows.partition_point(|row| row.at < window.start);
    let to = gpu.rows.partition_point(|row| row.at < window.end);
    &gpu.rows[from..to]
}

fn column(metric: Metric, rows: &[LoggedRow]) -> Option<Column<Metric>> {
    let readings: Vec<_> = rows.iter().map(|row| row.reading(metric)).collect();
    readings.iter().any(Option::is_some).then_some(Column { metric, readings })
}

fn seen(gpu: &LoggedGpu, at: Timestamp) -> Event {
    let inventory = gpu.inventory.clone();
    Event::new(at, Some(inventory.uuid.clone()), EventKind::GpuSeen(inventory))
}
