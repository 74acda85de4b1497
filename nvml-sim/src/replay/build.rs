//! From the segments of a capture to one recording for each GPU.
//!
//! Pure. Segments may come in any order and overlap: what is older than what was taken already is
//! passed over, as the same time is not played twice.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasewatch_core::evidence::capture::CapturedSegment;
use leasewatch_core::id::{BusId, GpuUuid};
use leasewatch_core::segment::{Block, Event, EventKind, GpuBlock, TrackSource};

use super::recording::{Absence, AbsenceKind, Held, Incident, Recording, Run};
use super::slices::Slice;
use super::{Capture, ReplayError, Timeline};

/// A reading is held no longer than this, however short the cadence is.
const SHORTEST_HOLD_MS: i64 = 3_000;
const GPU_IS_LOST: u32 = 15;
const DRIVER_NOT_LOADED: u32 = 9;

type Cards = BTreeMap<GpuUuid, Recording>;

/// # Errors
/// [`ReplayError`] when no segment has a GPU, or one has too many slices.
pub(super) fn capture(
    segments: &[CapturedSegment],
    speed: u32,
    repeat: bool,
) -> Result<Capture, ReplayError> {
    let mut ordered: Vec<&CapturedSegment> = segments.iter().collect();
    ordered.sort_by_key(|segment| (segment.head.period.start, segment.head.sequence));
    let mut cards = BTreeMap::new();
    let mut events = Vec::new();
    for segment in &ordered {
        let cadence_ms = i64::from(segment.head.cadence_ms);
        for block in &segment.blocks {
            match block {
                Block::Gpu(gpu) => add_gpu(&mut cards, gpu, cadence_ms),
                Block::Events(block) => events.extend(&block.events),
                Block::Host(_) => {}
            }
        }
    }
    events.sort_by_key(|event| event.at);
    events.iter().for_each(|event| add_event(&mut cards, event));
    for card in cards.values_mut() {
        if !card.live(&removals(card, &events)) {
            return Err(ReplayError::Slices(card.uuid.clone()));
        }
    }
    let mut cards: Vec<Recording> = cards.into_values().collect();
    cards.sort_by(|a, b| (&a.bus_id, &a.uuid).cmp(&(&b.bus_id, &b.uuid)));
    let start_ms = ordered.iter().map(|segment| segment.head.period.start.0).min();
    let end_ms = ordered.iter().map(|segment| segment.head.period.end.0).max();
    match start_ms.zip(end_ms) {
        Some((start_ms, end_ms)) if !cards.is_empty() => {
            cards.iter_mut().for_each(|card| begin(card, start_ms));
            Ok(Capture {
                cards: cards.into_iter().map(Arc::new).collect(),
                timeline: Timeline { start_ms, end_ms, speed, repeat },
            })
        }
        _ => Err(ReplayError::Empty),
    }
}

/// Whoever asks as soon as the capture begins is answered like an instant later.
fn begin(card: &mut Recording, start_ms: i64) {
    if let Some(first) =
        card.runs.first_mut().filter(|run| run.from_ms < start_ms + SHORTEST_HOLD_MS)
    {
        first.from_ms = first.from_ms.min(start_ms);
    }
}

fn empty(uuid: &GpuUuid, bus_id: &BusId) -> Recording {
    Recording {
        uuid: uuid.clone(),
        bus_id: bus_id.clone(),
        inventory: None,
        runs: Vec::new(),
        metrics: BTreeMap::new(),
        busy: Vec::new(),
        points: Vec::new(),
        absences: Vec::new(),
        incidents: Vec::new(),
        slices: Vec::new(),
    }
}

/// A slice belongs to its parent, which has a card even when the capture lacks its own blocks.
fn add_gpu(cards: &mut Cards, gpu: &GpuBlock, cadence_ms: i64) {
    let Some(partition) = &gpu.partition else {
        let card = cards.entry(gpu.uuid.clone()).or_insert_with(|| empty(&gpu.uuid, &gpu.bus_id));
        add_block(card, gpu, cadence_ms);
        return;
    };
    let parent = &partition.parent;
    let card = cards.entry(parent.clone()).or_insert_with(|| empty(parent, &gpu.bus_id));
    let is_it = |slice: &Slice| slice.is(&gpu.uuid, partition);
    let at = card.slices.iter().position(is_it).unwrap_or_else(|| {
        let (partition, recording) = (partition.clone(), empty(&gpu.uuid, &gpu.bus_id));
        card.slices.push(Slice { partition, recording, openings: Vec::new(), lives: Vec::new() });
        card.slices.len() - 1
    });
    let opened = add_block(&mut card.slices[at].recording, gpu, cadence_ms);
    card.slices[at].openings.extend(opened);
}

/// Returns the ticks with which runs begin.
fn add_block(card: &mut Recording, gpu: &GpuBlock, cadence_ms: i64) -> Vec<i64> {
    let last_ms = card.runs.last().map_or(i64::MIN, |run| run.until_ms);
    let known = gpu.ticks.partition_point(|tick| tick.0 <= last_ms);
    let mut opened = Vec::new();
    for tick in &gpu.ticks[known..] {
        if extend(&mut card.runs, tick.0, cadence_ms) {
            opened.push(tick.0);
        }
    }
    let runs = &card.runs;
    for column in &gpu.columns {
        let held = card.metrics.entry(column.metric).or_default();
        for (tick, reading) in gpu.ticks.iter().zip(&column.readings).skip(known) {
            if let Some(reading) = reading {
                hold(held, runs, Held { until_ms: tick.0, reading: *reading });
            }
        }
    }
    let last_point_ms = card.busy.last().map_or(i64::MIN, |held| held.until_ms);
    for point in gpu.track.points.iter().filter(|point| point.at.0 > last_point_ms) {
        hold(&mut card.busy, runs, Held { until_ms: point.at.0, reading: point.busy });
        if gpu.track.source == TrackSource::DriverSamples {
            card.points.push((point.at.0, point.busy));
        }
    }
    opened
}

/// The rule of metering: a reading describes the time since the one before, or one cadence when
/// that is too long ago. True when a run begins.
fn extend(runs: &mut Vec<Run>, tick_ms: i64, cadence_ms: i64) -> bool {
    let longest_ms = (3 * cadence_ms).max(SHORTEST_HOLD_MS);
    if let Some(run) = runs.last_mut().filter(|run| tick_ms - run.until_ms <= longest_ms) {
        run.until_ms = tick_ms;
        return false;
    }
    let after = runs.last().map_or(i64::MIN, |run| run.until_ms);
    runs.push(Run { from_ms: (tick_ms - cadence_ms).max(after), until_ms: tick_ms });
    true
}

/// Equal readings of one run become one, which changes no answer.
fn hold(held: &mut Vec<Held>, runs: &[Run], next: Held) {
    let began = |run: &Run| run.from_ms;
    let run = runs.partition_point(|run| began(run) < next.until_ms).checked_sub(1);
    let since_ms = run.map_or(i64::MIN, |run| runs[run].from_ms);
    match held.last_mut() {
        Some(last) if last.reading == next.reading && last.until_ms > since_ms => {
            last.until_ms = next.until_ms;
        }
        _ => held.push(next),
    }
}

/// When slices of a card were removed: the time, and which of its slices.
fn removals(card: &Recording, events: &[&Event]) -> Vec<(i64, usize)> {
    let removed = events.iter().filter(|event| event.kind == EventKind::PartitionRemoved);
    let of_card = removed.flat_map(|event| {
        let named = |slice: &Slice| Some(&slice.recording.uuid) == event.gpu.as_ref();
        let numbered = card.slices.iter().enumerate();
        numbered.filter(move |(_, slice)| named(slice)).map(|(number, _)| (event.at.0, number))
    });
    of_card.collect()
}

fn add_event(cards: &mut Cards, event: &Event) {
    let at_ms = event.at.0;
    if let EventKind::GpuSeen(inventory) = &event.kind
        && let Some(partition) = &inventory.partition
    {
        let card = cards.get_mut(&partition.parent);
        let slices = card.into_iter().flat_map(|card| &mut card.slices);
        if let Some(slice) = slices.into_iter().find(|slice| slice.is(&inventory.uuid, partition)) {
            slice.recording.inventory.get_or_insert_with(|| inventory.clone());
        }
    }
    let kind = match &event.kind {
        EventKind::NvmlUnavailable { nvml_code } => {
            let code = u32::try_from(*nvml_code).ok().filter(|code| *code > 0);
            Some(AbsenceKind::NoDriver(code.unwrap_or(DRIVER_NOT_LOADED)))
        }
        EventKind::NoGpuAttached => Some(AbsenceKind::Missing),
        _ => None,
    };
    if let Some(kind) = kind {
        let answers = cards.values().filter_map(|card| next_run_ms(card, at_ms)).min();
        for card in cards.values_mut() {
            card.absences.push(Absence {
                from_ms: at_ms,
                until_ms: answers.unwrap_or(i64::MAX),
                kind,
            });
        }
    }
    if let Some(card) = event.gpu.as_ref().and_then(|uuid| cards.get_mut(uuid)) {
        add_card_event(card, at_ms, &event.kind);
    }
}

fn add_card_event(card: &mut Recording, at_ms: i64, kind: &EventKind) {
    let until_ms = next_run_ms(card, at_ms).unwrap_or(i64::MAX);
    let mut absent = |kind| card.absences.push(Absence { from_ms: at_ms, until_ms, kind });
    match kind {
        EventKind::GpuSeen(inventory) if inventory.partition.is_none() => {
            card.inventory.get_or_insert_with(|| inventory.clone());
        }
        EventKind::GpuLost { nvml_code } => {
            let code = u32::try_from(*nvml_code).ok().filter(|code| *code > 0);
            absent(AbsenceKind::Lost(code.unwrap_or(GPU_IS_LOST)));
        }
        EventKind::GpuMissing { .. } => absent(AbsenceKind::Missing),
        // However short it was: readings alone would not tell a loss of a second.
        EventKind::GpuBack => {
            let lost = |absence: &&mut Absence| matches!(absence.kind, AbsenceKind::Lost(_));
            if let Some(loss) = card.absences.iter_mut().rfind(lost) {
                loss.until_ms = at_ms;
            }
        }
        EventKind::Xid { code } => {
            let code = u64::try_from(*code).unwrap_or(0);
            card.incidents.push((at_ms, Incident::Xid(code)));
        }
        EventKind::EccUncorrected { .. } => card.incidents.push((at_ms, Incident::EccUncorrected)),
        _ => {}
    }
}

/// When readings begin again after an instant that no reading follows at once.
fn next_run_ms(card: &Recording, at_ms: i64) -> Option<i64> {
    let next = card.runs.partition_point(|run| run.until_ms <= at_ms);
    card.runs.get(next).map(|run| run.from_ms.max(at_ms))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A card of which nothing was recorded.
    pub(in crate::replay) fn empty_card() -> Recording {
        let uuid = GpuUuid::new("GPU-1").unwrap();
        empty(&uuid, &BusId::new("0:1").unwrap())
    }
}
