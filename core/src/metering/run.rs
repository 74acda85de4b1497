//! Runs: the segments of one slot, put in order and grouped by epoch, and what the time around
//! and inside them explains.

use std::collections::BTreeSet;

use crate::evidence::chain::Head;
use crate::id::{ChainId, EpochId, GpuUuid, LifeUnitId, Sequence};
use crate::sample::Reading;
use crate::segment::{Event, EventKind, GpuBlock, LifeUnitKind};
use crate::time::{Period, Timestamp};

use super::gap::{Explanation, GapCause};
use super::track::{ClockQuality, Point, hold_limit_ms};
use super::{MeteredSegment, SlotHour};

/// Up to this clock error a sample's place in time is good.
const CLOCK_GOOD_MS: i64 = 500;
/// Up to this it is usable and flagged; beyond, it is meaningless.
const CLOCK_LIMIT_MS: i64 = 5_000;
/// How far after the start of a run its first reading still belongs to the start.
const START_UP_MS: i64 = 30_000;

/// One epoch of the node, as seen from one slot.
#[derive(Debug)]
pub(super) struct Run<'a> {
    life_unit: LifeUnitId,
    life_kind: LifeUnitKind,
    /// From the first head's start to the last head's end.
    pub(super) span: Period,
    said_goodbye: bool,
    /// Points of the slot in order of the boot clock.
    pub(super) points: Vec<Point<'a>>,
    pub(super) segments: Vec<&'a MeteredSegment<'a>>,
}

/// Groups segments into runs. Order is (chain by first start, sequence), never arrival; the same
/// (chain, sequence) counts once.
pub(super) fn runs<'a>(segments: &'a [MeteredSegment<'a>]) -> Vec<Run<'a>> {
    let mut chain_starts: Vec<(ChainId, Timestamp)> = Vec::new();
    for segment in segments {
        let start = segment.head.period.start;
        match chain_starts.iter_mut().find(|(chain, _)| *chain == segment.head.chain) {
            Some((_, first)) => *first = (*first).min(start),
            None => chain_starts.push((segment.head.chain, start)),
        }
    }
    let chain_start = |chain: ChainId| {
        chain_starts.iter().find(|(c, _)| *c == chain).map_or(Timestamp(i64::MAX), |(_, at)| *at)
    };
    let key = |s: &&MeteredSegment<'_>| (chain_start(s.head.chain), s.head.chain, s.head.sequence);
    let mut ordered: Vec<&MeteredSegment<'_>> = segments.iter().collect();
    ordered.sort_by_key(key);
    ordered.dedup_by_key(|s| (s.head.chain, s.head.sequence));

    let mut runs: Vec<Run<'a>> = Vec::new();
    let mut current: Option<(ChainId, EpochId)> = None;
    for segment in ordered {
        let epoch = (segment.head.chain, segment.head.epoch);
        if current != Some(epoch) {
            runs.push(Run::of(segment));
            current = Some(epoch);
        }
        if let Some(run) = runs.last_mut() {
            run.extend(segment);
        }
    }
    for run in &mut runs {
        run.points.sort_by_key(|p| p.boot_ms);
    }
    runs
}

impl<'a> Run<'a> {
    fn of(first: &'a MeteredSegment<'a>) -> Self {
        Self {
            life_unit: first.head.life_unit,
            life_kind: LifeUnitKind::Host,
            span: first.head.period,
            said_goodbye: false,
            points: Vec::new(),
            segments: Vec::new(),
        }
    }

    fn extend(&mut self, segment: &'a MeteredSegment<'a>) {
        let period = segment.head.period;
        self.span.start = self.span.start.min(period.start);
        self.span.end = self.span.end.max(period.end);
        for event in segment.events {
            match &event.kind {
                EventKind::AgentStarted { life_unit, .. } => self.life_kind = life_unit.kind,
                EventKind::Goodbye { .. } => self.said_goodbye = true,
                _ => {}
            }
        }
        if let Some(block) = segment.block {
            self.points.extend(points_of(segment, block));
        }
        self.segments.push(segment);
    }

    /// The slot's blocks.
    pub(super) fn blocks(&self) -> impl Iterator<Item = &'a GpuBlock> {
        self.segments.iter().filter_map(|segment| segment.block)
    }

    /// Until when silence belongs to the start of the run: its first reading, within bounds.
    fn settled_at(&self) -> Timestamp {
        let start = self.span.start;
        let first = self.points.first().map(|point| point.at.min(start.plus_ms(START_UP_MS)));
        first.unwrap_or(start).max(start)
    }
}

fn points_of<'a>(
    segment: &'a MeteredSegment<'a>,
    block: &'a GpuBlock,
) -> impl Iterator<Item = Point<'a>> {
    let period_ms = i64::from(block.track.period_ms);
    block.track.points.iter().map(move |point| Point {
        busy: point.busy,
        period_ms,
        ..point_at(segment.head, point.at, &block.uuid)
    })
}

/// A point without a value at an instant of a segment.
pub(super) fn point_at<'a>(head: &Head, at: Timestamp, gpu: &'a GpuUuid) -> Point<'a> {
    let clock = &head.clock;
    let to_boot = clock.anchor_boot_ms.saturating_sub(clock.anchor_wall.0);
    Point {
        at,
        boot_ms: at.0.saturating_add(to_boot),
        busy: Reading::Stale,
        period_ms: 0,
        clock: clock_quality(clock.offset_ms, clock.bound_ms),
        gpu,
    }
}

fn clock_quality(offset_ms: Option<i64>, bound_ms: Option<i64>) -> ClockQuality {
    let error = offset_ms.unwrap_or(0).saturating_abs().saturating_add(bound_ms.unwrap_or(0));
    if error <= CLOCK_GOOD_MS {
        ClockQuality::Good
    } else if error <= CLOCK_LIMIT_MS {
        ClockQuality::Flagged
    } else {
        ClockQuality::Invalid
    }
}

/// Everything that explains uncovered time of this slot.
pub(super) fn explanations<'a>(input: &SlotHour<'a>, runs: &[Run<'a>]) -> Vec<Explanation> {
    let mut list: Vec<Explanation> = input
        .drops
        .iter()
        .map(|period| Explanation { period: *period, cause: GapCause::Dropped })
        .collect();
    list.extend(runs.windows(2).map(|pair| between(&pair[0], &pair[1])));
    list.extend(runs.first().map(starting));
    list.extend(after_last(runs));
    list.extend(outside_recording(input, runs));
    list.extend(from_events(input, runs));
    list
}

/// The time between two runs.
fn between(before: &Run<'_>, after: &Run<'_>) -> Explanation {
    let cause = if before.life_unit == after.life_unit || before.said_goodbye {
        GapCause::AgentRestart
    } else {
        match after.life_kind {
            LifeUnitKind::Host => GapCause::NodeReboot,
            LifeUnitKind::Container => GapCause::InstanceRestart,
        }
    };
    let start = before.span.end.plus_ms(-hold_limit_ms(0));
    Explanation { period: Period::new(start, after.settled_at()), cause }
}

/// The first run's own start: the agent was there and had not read yet. It is welcomed before its
/// run begins.
fn starting(first: &Run<'_>) -> Explanation {
    let start = first.span.start.plus_ms(-START_UP_MS);
    Explanation { period: Period::new(start, first.settled_at()), cause: GapCause::AgentRestart }
}

fn after_last(runs: &[Run<'_>]) -> Option<Explanation> {
    let last = runs.last().filter(|run| run.said_goodbye)?;
    let period = Period::new(last.span.end.plus_ms(-hold_limit_ms(0)), Timestamp(i64::MAX));
    Some(Explanation { period, cause: GapCause::AgentRestart })
}

/// The server's own absence, and lost connections, explain only time that no head covers: inside
/// a run the agent was recording, whatever the server did.
fn outside_recording(input: &SlotHour<'_>, runs: &[Run<'_>]) -> Vec<Explanation> {
    let window = input.window();
    let recorded: Vec<Period> = runs.iter().map(|run| run.span).collect();
    let mut list = Vec::new();
    for silent in complement(window, &recorded) {
        for period in complement(silent, input.observer) {
            list.push(Explanation { period, cause: GapCause::ObserverDown });
        }
        if let Some(connected) = input.connected {
            for period in complement(silent, connected) {
                list.push(Explanation { period, cause: GapCause::NetUnreachable });
            }
        }
    }
    list
}

/// What of `window` none of `periods` covers.
pub(super) fn complement(window: Period, periods: &[Period]) -> Vec<Period> {
    let mut sorted: Vec<Period> =
        periods.iter().map(|p| p.intersect(window)).filter(|p| !p.is_empty()).collect();
    sorted.sort_unstable();
    let mut rest = Vec::new();
    let mut at = window.start;
    for period in sorted {
        if period.start > at {
            rest.push(Period::new(at, period.start));
        }
        at = at.max(period.end);
    }
    if at < window.end {
        rest.push(Period::new(at, window.end));
    }
    rest
}

/// Conditions that events open: each reaches back to the last reading before it and holds until
/// an event ends it, the GPU answers again, or another run begins.
fn from_events<'a>(input: &SlotHour<'a>, runs: &[Run<'a>]) -> Vec<Explanation> {
    let mut events: Vec<&Event> = input.prior_events.iter().collect();
    events.extend(runs.iter().flat_map(|run| &run.segments).flat_map(|s| s.events));
    events.sort_by_key(|event| event.at);
    let mut points: Vec<(Timestamp, &GpuUuid)> =
        runs.iter().flat_map(|run| &run.points).map(|p| (p.at, p.gpu)).collect();
    points.sort_unstable();
    let sitters: BTreeSet<&GpuUuid> =
        points.iter().map(|(_, gpu)| *gpu).chain(input.resident_gpu()).collect();
    let mut list: Vec<(Explanation, &Event)> = Vec::new();
    for (index, event) in events.iter().enumerate() {
        let Some(cause) = opens(&event.kind) else { continue };
        let known =
            list.iter().rev().find(|(e, opening)| e.cause == cause && opening.gpu == event.gpu);
        if event.gpu.as_ref().is_some_and(|gpu| !input.is_about_this(gpu, runs))
            || known.is_some_and(|(e, _)| e.period.end > event.at)
        {
            continue;
        }
        // A lost or stalled GPU concerns its own slot and those of its slices; conditions of the
        // node concern every slot.
        let sits_here = event.gpu.as_ref().is_some_and(|own| sitters.contains(own));
        let concerns = |gpu: &GpuUuid| !sits_here || event.gpu.as_ref() == Some(gpu);
        let (earlier, later) = points.split_at(points.partition_point(|(at, _)| *at <= event.at));
        let start = earlier.last().map_or(event.at, |(at, _)| *at);
        let answered = later.iter().find(|(_, gpu)| concerns(gpu)).map(|(at, _)| *at);
        let ended =
            events[index + 1..].iter().find(|later| closes(event, later)).map(|later| later.at);
        let end = [answered, ended].into_iter().flatten().min().unwrap_or(Timestamp(i64::MAX));
        list.push((Explanation { period: Period::new(start, end), cause }, event));
    }
    list.into_iter().map(|(explanation, _)| explanation).collect()
}

/// Names of the event kinds that can hold for hours: an event before the hour may still explain
/// it, so whoever loads an hour looks for the latest of these.
pub const HOLDING_KINDS: [&str; 10] = [
    "gpu_lost",
    "gpu_missing",
    "gpu_back",
    "gpu_seen",
    "partition_removed",
    "no_gpu_attached",
    "nvml_unavailable",
    "collector_stalled",
    "collector_resumed",
    "agent_started",
];

fn opens(kind: &EventKind) -> Option<GapCause> {
    match kind {
        EventKind::GpuLost { .. } | EventKind::GpuMissing { .. } => Some(GapCause::GpuLost),
        EventKind::NoGpuAttached => Some(GapCause::NoGpuAttached),
        EventKind::DriverReloaded => Some(GapCause::DriverReload),
        EventKind::NvmlUnavailable { .. } | EventKind::CollectorStalled => {
            Some(GapCause::NvmlError)
        }
        _ => None,
    }
}

fn closes(opening: &Event, later: &Event) -> bool {
    match &later.kind {
        EventKind::AgentStarted { .. } => true,
        EventKind::GpuBack | EventKind::CollectorResumed { .. } => later.gpu == opening.gpu,
        EventKind::GpuSeen(_) => opening.gpu.is_none() || later.gpu == opening.gpu,
        _ => false,
    }
}

/// First and last sequence of each chain that overlaps `window`, in order.
pub(super) fn sequences(runs: &[Run<'_>], window: Period) -> Vec<(ChainId, Sequence, Sequence)> {
    let mut ranges: Vec<(ChainId, Sequence, Sequence)> = Vec::new();
    for segment in overlapping(runs, window) {
        let (chain, sequence) = (segment.head.chain, segment.head.sequence);
        match ranges.iter_mut().find(|(c, ..)| *c == chain) {
            Some((_, first, last)) => {
                *first = (*first).min(sequence);
                *last = (*last).max(sequence);
            }
            None => ranges.push((chain, sequence, sequence)),
        }
    }
    ranges
}

/// Segments whose head overlaps `window`, in order.
pub(super) fn overlapping<'r, 'a>(
    runs: &'r [Run<'a>],
    window: Period,
) -> impl Iterator<Item = &'a MeteredSegment<'a>> + 'r {
    runs.iter()
        .flat_map(|run| run.segments.iter().copied())
        .filter(move |s| !s.head.period.intersect(window).is_empty())
}
