//! The sum itself: stretches and gaps of one hour, added up per GPU.

use crate::id::{GpuUuid, Hash};
use crate::segment::{EventKind, Partition, TrackSource};
use crate::time::Period;

use super::SlotHour;
use super::counter::{steps_of, sum};
use super::frozen::frozen_ms;
use super::gap::{Explanation, GapCause};
use super::piece::{Content, Piece, longest_gap_ms, pieces};
use super::presence::absences;
use super::profile::{HourProfile, profile};
use super::record::{HourRecord, SequenceRange};
use super::run::{self, Run, explanations, overlapping, runs};
use super::track::{Cell, Claim, Stretch, claims, resolve};

/// Meters one slot over one hour: a record and a profile for each GPU that sat in it. Their
/// enrolled times add up to the slot's. Empty when the window is empty, or when no GPU was ever
/// seen in the slot.
#[must_use]
pub fn meter(input: &SlotHour<'_>) -> Vec<(HourRecord, HourProfile)> {
    let window = input.window();
    let Resolved { runs, claims, contested, owned, pieces } = Resolved::of(input);
    let mut books: Vec<HourRecord> = Vec::new();
    for piece in &pieces {
        let record = book(&mut books, input, (piece.gpu, &runs));
        record.enrolled_ms += piece.period.ms();
        add(record, piece);
    }
    books
        .into_iter()
        .map(|mut record| {
            record.max_gap_ms = longest_gap_ms(&record.gpu, &pieces);
            count_points(&mut record, window, &claims, &contested);
            attach(&mut record, input, &runs, &owned);
            record.frozen_ms = frozen_ms(&record.gpu, window, &runs);
            let steps = steps_of(&record.gpu, window, &runs);
            record.counters = steps.iter().map(|(metric, steps)| (*metric, sum(steps))).collect();
            let profile = profile(&record.gpu, window, &runs, &pieces, &steps);
            (record, profile)
        })
        .collect()
}

/// A slot's window in pieces, and what they were made of.
pub(super) struct Resolved<'a> {
    pub(super) runs: Vec<Run<'a>>,
    claims: Vec<Claim<'a>>,
    /// For each claim whether another one contradicted it.
    contested: Vec<bool>,
    owned: Vec<(&'a GpuUuid, Period)>,
    pub(super) pieces: Vec<Piece<'a>>,
}

impl<'a> Resolved<'a> {
    pub(super) fn of(input: &'a SlotHour<'a>) -> Self {
        let runs = runs(input.segments);
        let (claims, jumps) = claims(&runs);
        let (stretches, contested) = resolve(&claims);
        let mut explained = explanations(input, &runs);
        explained.extend(jumps);
        explained.extend(replacements(&stretches));
        let absences = absences(input, &runs, &claims);
        let owned = present(input, owned_periods(input, &stretches), &absences);
        let pieces = pieces(&owned, &stretches, explained);
        Self { runs, claims, contested, owned, pieces }
    }
}

/// Books a piece into the histogram or under its cause.
fn add(record: &mut HourRecord, piece: &Piece<'_>) {
    let ms = piece.period.ms();
    match piece.content {
        Content::Busy(percent) => {
            record.histogram.add(percent, ms);
            record.clock_flagged_ms += if piece.flagged { ms } else { 0 };
        }
        Content::Gap(cause) => record.gaps.add(cause, ms),
    }
}

fn book<'b>(
    books: &'b mut Vec<HourRecord>,
    input: &SlotHour<'_>,
    (gpu, runs): (&GpuUuid, &[Run<'_>]),
) -> &'b mut HourRecord {
    let index = books.iter().position(|record| record.gpu == *gpu).unwrap_or_else(|| {
        let partition = partition_of(input, gpu, runs).cloned();
        let empty = HourRecord::empty(input.hour, gpu.clone(), input.origin);
        books.push(HourRecord { partition, ..empty });
        books.len() - 1
    });
    &mut books[index]
}

/// What a GPU is a slice of: what its last block says, else what is known from before.
fn partition_of<'a>(
    input: &SlotHour<'a>,
    gpu: &GpuUuid,
    runs: &[Run<'a>],
) -> Option<&'a Partition> {
    let blocks = runs.iter().flat_map(Run::blocks).filter(|block| block.uuid == *gpu);
    let resident = input.resident.filter(|resident| resident.gpu == gpu);
    match blocks.last() {
        Some(block) => block.partition.as_ref(),
        None => resident.and_then(|resident| resident.partition),
    }
}

/// The owned time in which what owned it was there.
fn present<'a>(
    input: &SlotHour<'_>,
    owned: Vec<(&'a GpuUuid, Period)>,
    absences: &[Period],
) -> Vec<(&'a GpuUuid, Period)> {
    if input.place.instance.is_none() {
        return owned;
    }
    let parts =
        |(gpu, period)| run::complement(period, absences).into_iter().map(move |p| (gpu, p));
    owned.into_iter().flat_map(parts).collect()
}

/// Which GPU owns which part of the window. A slot changes hands where the new GPU's first
/// stretch begins; the time before it belongs to the old one.
fn owned_periods<'a>(
    input: &SlotHour<'a>,
    stretches: &[Stretch<'a>],
) -> Vec<(&'a GpuUuid, Period)> {
    let window = input.window();
    let Some(mut owner) = input.first_owner(stretches).filter(|_| !window.is_empty()) else {
        return Vec::new();
    };
    let mut owned = Vec::new();
    let mut since = window.start;
    for stretch in stretches {
        if stretch.gpu != owner {
            let change = stretch.period.start.max(window.start).min(window.end);
            owned.push((owner, Period::new(since, change)));
            (owner, since) = (stretch.gpu, change);
        }
        if stretch.period.start >= window.end {
            break;
        }
    }
    owned.push((owner, Period::new(since, window.end)));
    owned.retain(|(_, period)| !period.is_empty());
    owned
}

/// Time between two GPUs of one run: the agent was alive and saw the change.
fn replacements(stretches: &[Stretch<'_>]) -> Vec<Explanation> {
    stretches
        .windows(2)
        .filter(|pair| pair[0].run == pair[1].run && pair[0].gpu != pair[1].gpu)
        .map(|pair| Explanation {
            period: Period::new(pair[0].period.end, pair[1].period.start),
            cause: GapCause::GpuReplaced,
        })
        .collect()
}

/// Counts points where their windows end: a point at the very start of an hour describes the
/// hour before.
fn count_points(record: &mut HourRecord, window: Period, claims: &[Claim<'_>], contested: &[bool]) {
    let inside = claims
        .iter()
        .zip(contested)
        .filter(|(claim, _)| *claim.gpu == record.gpu && window.contains(claim.at.plus_ms(-1)));
    for (claim, contested) in inside {
        record.samples += i64::from(matches!(claim.cell, Cell::Busy(_)));
        record.conflicts += i64::from(*contested || claim.period.is_empty());
    }
}

/// What the heads and events of the hour say, and the counters.
fn attach(
    record: &mut HourRecord,
    input: &SlotHour<'_>,
    runs: &[Run<'_>],
    owned: &[(&GpuUuid, Period)],
) {
    let window = input.window();
    let mut hashes: Vec<Hash> = Vec::new();
    let mut sources: Vec<TrackSource> = Vec::new();
    for segment in overlapping(runs, window) {
        let (head, clock) = (segment.head, &segment.head.clock);
        hashes.push(segment.head_hash);
        // Marks only grow: one simulated segment marks the hour.
        record.origin = record.origin.max(head.origin);
        let count = record.gpu_count_min.map_or(head.gpu_count, |min| min.min(head.gpu_count));
        record.gpu_count_min = Some(count);
        let offset = clock.offset_ms.map(i64::saturating_abs);
        record.clock_offset_max_ms = record.clock_offset_max_ms.max(offset);
        record.clock_bound_max_ms = record.clock_bound_max_ms.max(clock.bound_ms);
        sources.extend(segment.block.filter(|b| b.uuid == record.gpu).map(|b| b.track.source));
        record.xids += count_xids(record, segment.events, owned);
    }
    sources.sort_unstable();
    sources.dedup();
    record.sources = sources;
    record.heads = run::sequences(runs, window)
        .into_iter()
        .map(|(chain, first, last)| SequenceRange { chain, first, last })
        .collect();
    record.head_count = i64::try_from(hashes.len()).unwrap_or(i64::MAX);
    record.head_root = crate::evidence::chain::merkle_root(&hashes);
}

fn count_xids(
    record: &HourRecord,
    events: &[crate::segment::Event],
    owned: &[(&GpuUuid, Period)],
) -> i64 {
    let in_time = |at| owned.iter().any(|(gpu, p)| **gpu == record.gpu && p.contains(at));
    let xids = events.iter().filter(|event| {
        matches!(event.kind, EventKind::Xid { .. })
            && event.gpu.as_ref() == Some(&record.gpu)
            && in_time(event.at)
    });
    i64::try_from(xids.count()).unwrap_or(i64::MAX)
}
