//! A range from profiles and records: minutes, or minutes reduced to hours.

use std::collections::BTreeMap;

use leasewatch_core::id::{GpuUuid, SlotNo};
use leasewatch_core::metering::{GapCause, HourProfile, HourRecord, MinuteSums};
use leasewatch_core::time::{HOUR_MS, Hour, Period, Timestamp};
use leasewatch_web::format::Measured;
use leasewatch_web::pages::gpu::{Detail, SeriesKey};

use super::plan::Plan;
use super::trace::{Sum, Trace};
use crate::store::node::NodeRow;
use crate::store::slot::SlotRow;
use crate::store::{StoreError, Tx, hour};

/// Hours of one read: a year is gathered in pieces, never held at once.
const HOURS_PER_READ: i64 = 31 * 24;
/// Up to this long after its end an hour without a record is metered for the page.
const UNCLOSED_MS: i64 = 2 * HOUR_MS;
const MINUTE_MS: i64 = 60_000;

/// One GPU's hour as it is drawn. A record may be there without a profile.
type Metered = (HourRecord, Option<HourProfile>);

/// Draws the hours of the range; `None` when minutes are asked for and records are there without
/// profiles.
pub(super) async fn draw(
    tx: &mut Tx,
    node: &NodeRow,
    slot: &SlotRow,
    plan: Plan,
    now: Timestamp,
) -> Result<Option<Trace>, StoreError> {
    let mut trace = Trace::new(plan);
    let mut hours = plan.range.intersect(node.enrolled(now)).hours().peekable();
    while let Some(first) = hours.next() {
        let mut read = vec![first];
        while hours.peek().is_some_and(|hour| hour.0 - first.0 < HOURS_PER_READ) {
            read.extend(hours.next());
        }
        let mut metered = closed(tx, node, slot.slot, &read).await?;
        for hour in read {
            let mut of_hour = metered.remove(&hour).unwrap_or_default();
            if of_hour.is_empty() && now.since(hour.end()) <= UNCLOSED_MS {
                of_hour = unclosed(tx, node, slot.slot, hour, now).await?;
            }
            let lacks_profile = |(record, profile): &Metered| {
                record.measured_ms() > 0 && profile.is_none() && plan.detail == Detail::Minutes
            };
            if of_hour.iter().any(lacks_profile) {
                return Ok(None);
            }
            // Before the slot was first seen there may be no record at all.
            trace.is_whole &= !of_hour.is_empty() || hour < slot.first_seen_at.hour();
            for (record, profile) in of_hour {
                add(&mut trace, &record, profile.as_ref());
            }
        }
    }
    Ok(Some(trace))
}

/// Records with their profiles, from the store.
async fn closed(
    tx: &mut Tx,
    node: &NodeRow,
    slot: SlotNo,
    hours: &[Hour],
) -> Result<BTreeMap<Hour, Vec<Metered>>, StoreError> {
    let (Some(first), Some(last)) = (hours.first(), hours.last()) else {
        return Ok(BTreeMap::new());
    };
    let range = (*first, last.next());
    // Records first: each is committed with its profile, so none is read without it while the job
    // closes hours.
    let records = hour::of_slot(tx, node.key, slot, range).await?;
    let profiles = hour::profiles(tx, node.key, slot, range).await?;
    let mut profiles: BTreeMap<(Hour, GpuUuid), HourProfile> =
        profiles.into_iter().map(|(hour, gpu, profile)| ((hour, gpu), profile)).collect();
    let mut metered: BTreeMap<Hour, Vec<Metered>> = BTreeMap::new();
    for row in records {
        let profile = profiles.remove(&(row.record.hour, row.record.gpu.clone()));
        metered.entry(row.record.hour).or_default().push((row.record, profile));
    }
    Ok(metered)
}

/// An hour that is open, or over and not closed yet.
async fn unclosed(
    tx: &mut Tx,
    node: &NodeRow,
    slot: SlotNo,
    hour: Hour,
    now: Timestamp,
) -> Result<Vec<Metered>, StoreError> {
    let loaded = hour::around(tx, node.clone(), hour, Some(slot)).await?;
    let metered = loaded.meter(loaded.enrolled_so_far(now)).into_iter();
    let records = metered.flat_map(|slot| slot.records);
    Ok(records.map(|(record, profile)| (record, Some(profile))).collect())
}

fn add(trace: &mut Trace, record: &HourRecord, profile: Option<&HourProfile>) {
    match profile {
        Some(profile) => add_minutes(trace, record, profile),
        None => add_record(trace, record),
    }
    let minutes = profile.and_then(|profile| profile.sums.as_ref());
    match (trace.plan.detail, minutes) {
        (Detail::Minutes, Some(sums)) => {
            add_minute_gaps(trace, record.hour, sums);
            add_minute_sums(trace, record, profile);
        }
        _ => {
            add_hour_gaps(trace, record);
            trace.sums = trace.sums.plus(Measured::from(&record.sum()));
            // Where minutes are not kept, only whole hours can be told.
            let is_inside =
                record.hour.period().intersect(trace.plan.range) == record.hour.period();
            trace.is_whole &= is_inside || trace.plan.detail == Detail::Hours;
        }
    }
}

fn minutes_of(hour: Hour) -> impl Iterator<Item = (usize, Period)> {
    (0..60).map(move |index| (index, HourProfile::minute(hour, index)))
}

fn add_minutes(trace: &mut Trace, record: &HourRecord, profile: &HourProfile) {
    let (gpu, hour) = (&record.gpu, record.hour);
    let sums = profile.sums.as_ref();
    let busy = minutes_of(hour).map(|(index, minute)| {
        let (weighted, measured) = profile.utilization.get(index).copied().unwrap_or_default();
        (minute, busy_of(weighted, measured, sums.and_then(|sums| sums.busy_range.get(index))))
    });
    trace.add_cells(gpu, SeriesKey::Busy, busy);
    for (metric, cells) in &profile.metrics {
        let cells = minutes_of(hour).map(|(index, minute)| {
            let cell = cells.get(index).copied().flatten();
            (minute, cell.map(|cell| Sum { min: cell.min, max: cell.max, ..Sum::of(cell.mean, 1) }))
        });
        trace.add_cells(gpu, SeriesKey::Gauge(*metric), cells);
    }
    let Some(sums) = sums else { return };
    for (metric, growth) in &sums.counters {
        let cells = minutes_of(hour).map(|(index, minute)| {
            let growth = growth.get(index).copied().unwrap_or_default();
            (minute, Sum::of_growth(*metric, growth.delta, growth.covered_ms))
        });
        trace.add_cells(gpu, SeriesKey::Rate(*metric), cells);
    }
    let Some(reasons) = &sums.reasons else { return };
    for (index, minute) in minutes_of(hour) {
        trace.add_known(minute, reasons.known_ms.get(index).copied().unwrap_or(0));
        for (bit, held) in &reasons.bits {
            trace.add_held(minute, *bit, held.get(index).copied().unwrap_or(0));
        }
    }
}

/// Utilization in per mille of measured time.
fn busy_of(busy_pct_ms: i64, measured_ms: i64, range: Option<&(u8, u8)>) -> Option<Sum> {
    let (weighted, weight) = (i128::from(busy_pct_ms) * 10, i128::from(measured_ms));
    let mean = leasewatch_core::metering::divide_half_even;
    let mean = (measured_ms > 0).then(|| mean(weighted, weight))?;
    let mean = i64::try_from(mean).ok()?;
    let (min, max) =
        range.map_or((mean, mean), |(least, most)| (i64::from(*least) * 10, i64::from(*most) * 10));
    Some(Sum { min, max, weighted, weight })
}

/// An hour of which only the record is kept.
fn add_record(trace: &mut Trace, record: &HourRecord) {
    let hour = record.hour.period();
    let percents = || record.histogram.iter().filter(|(_, ms)| *ms > 0).map(|(percent, _)| percent);
    let range = percents().min().zip(percents().max());
    let busy = busy_of(record.histogram.busy_pct_ms(), record.measured_ms(), range.as_ref());
    trace.add_cells(&record.gpu, SeriesKey::Busy, std::iter::once((hour, busy)));
    for (metric, growth) in &record.counters {
        let sum = Sum::of_growth(*metric, growth.delta, growth.covered_ms);
        if leasewatch_core::metering::PROFILE_COUNTERS.contains(metric) {
            let cell = std::iter::once((hour, sum));
            trace.add_cells(&record.gpu, SeriesKey::Rate(*metric), cell);
        }
    }
}

/// A minute that is missing whole for one cause is a gap; of others the amount is known.
fn add_minute_gaps(trace: &mut Trace, hour: Hour, sums: &MinuteSums) {
    for gap in &sums.gaps {
        add_gap(trace, HourProfile::minute(hour, usize::from(gap.minute)), gap.cause, gap.ms);
    }
}

fn add_hour_gaps(trace: &mut Trace, record: &HourRecord) {
    for (cause, ms) in record.gaps.iter() {
        add_gap(trace, record.hour.period(), cause, ms);
    }
}

fn add_gap(trace: &mut Trace, cell: Period, cause: GapCause, ms: i64) {
    if ms >= cell.ms() {
        trace.add_gap(cell, cause);
    } else {
        trace.add_gap_share(cell, cause, ms);
    }
}

fn add_minute_sums(trace: &mut Trace, record: &HourRecord, profile: Option<&HourProfile>) {
    let Some(profile) = profile else { return };
    let gaps = profile.sums.iter().flat_map(|sums| &sums.gaps);
    let mut missing_ms = [0; 60];
    gaps.for_each(|gap| missing_ms[usize::from(gap.minute) % 60] += gap.ms);
    for ((index, minute), (busy, measured)) in minutes_of(record.hour).zip(&profile.utilization) {
        let inside = minute.intersect(trace.plan.range).ms();
        if inside == 0 {
            continue;
        }
        let enrolled_ms = measured + missing_ms[index];
        trace.is_whole &= enrolled_ms <= inside || inside == MINUTE_MS;
        let minute = Measured { busy_pct_ms: *busy, measured_ms: *measured, enrolled_ms };
        trace.sums = trace.sums.plus(minute);
    }
}
