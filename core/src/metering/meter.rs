//! The sum itself: stretches and gaps of one hour, added up per GPU.

use crate::id::{GpuUuid, Hash};
use crate::segment::{EventKind, TrackSource};
use crate::time::{Period, Timestamp};

use super::SlotHour;
use super::counter::counters;
use super::frozen::frozen_ms;
use super::gap::{Explanation, GapCause, classify};
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
    let runs = runs(input.segments);
    let (claims, jumps) = claims(&runs);
    let (stretches, contested) = resolve(&claims);
    let mut explained = explanations(input, &runs);
    explained.extend(jumps);
    explained.extend(replacements(&stretches));
    let owned = owned_periods(input, &stretches);
    let mut books: Vec<HourRecord> = Vec::new();
    for (gpu, period) in &owned {
        let record = book(&mut books, input, gpu);
        record.enrolled_ms += period.ms();
        fill(record, *period, &stretches, &explained);
    }
    books
        .into_iter()
        .map(|mut record| {
            count_points(&mut record, window, &claims, &contested);
            attach(&mut record, input, &runs, &owned);
            record.frozen_ms = frozen_ms(&record.gpu, window, &runs);
            let profile = profile(&record.gpu, window, &runs, &stretches);
            (record, profile)
        })
        .collect()
}

fn book<'b>(
    books: &'b mut Vec<HourRecord>,
    input: &SlotHour<'_>,
    gpu: &GpuUuid,
) -> &'b mut HourRecord {
    let index = books.iter().position(|record| record.gpu == *gpu).unwrap_or_else(|| {
        books.push(HourRecord::empty(input.hour, gpu.clone(), input.origin));
        books.len() - 1
    });
    &mut books[index]
}

/// Which GPU owns which part of the window. A slot changes hands where the new GPU's first
/// stretch begins; the time before it belongs to the old one.
fn owned_periods<'a>(
    input: &'a SlotHour<'a>,
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

/// Books every millisecond of `period` into the histogram or under a cause.
fn fill(
    record: &mut HourRecord,
    period: Period,
    stretches: &[Stretch<'_>],
    explained: &[Explanation],
) {
    let mut longest = Longest::default();
    let mut at = period.start;
    let first = stretches.partition_point(|s| s.period.end <= period.start);
    for stretch in &stretches[first..] {
        let part = stretch.period.intersect(period);
        if stretch.period.start >= period.end {
            break;
        }
        if part.is_empty() {
            continue;
        }
        book_gap(record, Period::new(at, part.start), explained, &mut longest);
        match stretch.cell {
            Cell::Busy(percent) => {
                record.histogram.add(percent, part.ms());
                record.clock_flagged_ms += if stretch.flagged { part.ms() } else { 0 };
            }
            Cell::Gap(cause) => {
                record.gaps.add(cause, part.ms());
                longest.extend(part);
            }
        }
        at = part.end;
    }
    book_gap(record, Period::new(at, period.end), explained, &mut longest);
    record.max_gap_ms = record.max_gap_ms.max(longest.max_ms);
}

fn book_gap(
    record: &mut HourRecord,
    gap: Period,
    explained: &[Explanation],
    longest: &mut Longest,
) {
    if gap.is_empty() {
        return;
    }
    longest.extend(gap);
    for part in classify(gap, explained) {
        record.gaps.add(part.cause, part.period.ms());
    }
}

/// The longest unbroken time without a measurement, whatever its causes.
#[derive(Default)]
struct Longest {
    start: Timestamp,
    end: Timestamp,
    max_ms: i64,
}

impl Longest {
    fn extend(&mut self, gap: Period) {
        if self.end != gap.start || self.max_ms == 0 {
            self.start = gap.start;
        }
        self.end = gap.end;
        self.max_ms = self.max_ms.max(self.end.since(self.start));
    }
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
    record.counters = counters(&record.gpu, window, runs);
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
