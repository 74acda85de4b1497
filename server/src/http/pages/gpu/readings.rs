//! A range from single readings: the same pieces, growth and reasons that metering adds up.

use std::collections::BTreeMap;

use leasewatch_core::id::{GpuUuid, SlotNo};
use leasewatch_core::metering::{Content, PROFILE_COUNTERS, PROFILE_METRICS, SlotDetail, detail};
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::time::{Hour, Period, Timestamp};
use leasewatch_web::format::Measured;
use leasewatch_web::pages::gpu::SeriesKey;

use super::plan::Plan;
use super::trace::Trace;
use crate::store::node::NodeRow;
use crate::store::{StoreError, Tx, hour};

/// The longest time for which a reading of a slow lane or log is held back.
const HOLD_MS_MAX: i64 = 300_000;

type Readings = BTreeMap<(GpuUuid, Metric), Vec<(Timestamp, Reading)>>;

/// Draws the hours of the range; `None` when one that was recorded is not kept in readings any
/// more.
pub(super) async fn draw(
    tx: &mut Tx,
    node: &NodeRow,
    slot: SlotNo,
    plan: Plan,
    now: Timestamp,
) -> Result<Option<Trace>, StoreError> {
    let mut trace = Trace::new(plan);
    let mut readings = Readings::new();
    for hour in plan.range.intersect(node.enrolled(now)).hours() {
        let loaded = hour::around(tx, node.clone(), hour, Some(slot)).await?;
        if !loaded.is_recorded() && was_recorded(tx, node, slot, hour).await? {
            return Ok(None);
        }
        loaded.each_slot(loaded.enrolled_so_far(now), |_, input| {
            add(&mut trace, &mut readings, &detail(input));
        });
    }
    for ((gpu, metric), list) in readings {
        trace.add_stretches(&gpu, SeriesKey::Gauge(metric), held(&list));
    }
    Ok(Some(trace))
}

async fn was_recorded(
    tx: &mut Tx,
    node: &NodeRow,
    slot: SlotNo,
    hour: Hour,
) -> Result<bool, StoreError> {
    let rows = hour::current(tx, node.key, &[slot], hour).await?;
    Ok(rows.iter().any(|row| row.record.measured_ms() > 0))
}

fn add(trace: &mut Trace, readings: &mut Readings, detail: &SlotDetail<'_>) {
    for piece in &detail.pieces {
        let period = piece.period.intersect(trace.plan.range);
        let mut measured = Measured { enrolled_ms: period.ms(), ..Measured::default() };
        match piece.content {
            Content::Busy(percent) => {
                measured.measured_ms = period.ms();
                measured.busy_pct_ms = i64::from(percent) * period.ms();
                let busy = (period, i64::from(percent) * 10);
                trace.add_stretches(piece.gpu, SeriesKey::Busy, std::iter::once(busy));
            }
            Content::Gap(cause) => trace.add_gap(period, cause),
        }
        trace.sums = trace.sums.plus(measured);
    }
    for gpu in &detail.gpus {
        for (metric, growth) in &gpu.growth {
            if PROFILE_COUNTERS.contains(metric) {
                trace.add_growth(gpu.gpu, *metric, growth.iter().copied());
            }
        }
        for (period, mask) in &gpu.reasons {
            trace.add_reasons(*period, *mask);
        }
        for (metric, list) in &gpu.readings {
            if PROFILE_METRICS.contains(metric) {
                readings.entry((gpu.gpu.clone(), *metric)).or_default().extend(list);
            }
        }
    }
}

/// Readings held backwards to the one before: over up to three of the list's own median distance,
/// else over that distance. What is read more rarely than a bucket is wide stays a line, and what
/// was not read stays a break.
fn held(list: &[(Timestamp, Reading)]) -> impl Iterator<Item = (Period, i64)> {
    let distances = list.windows(2).map(|pair| pair[1].0.since(pair[0].0));
    let mut distances: Vec<i64> = distances.filter(|ms| *ms > 0).collect();
    distances.sort_unstable();
    let usual = distances.get(distances.len() / 2).copied().unwrap_or(1_000).min(HOLD_MS_MAX);
    let longest = (3 * usual).clamp(3_000, HOLD_MS_MAX.max(usual));
    let before = std::iter::once(None).chain(list.iter().map(|(at, _)| Some(*at)));
    list.iter().zip(before).filter_map(move |((at, reading), before)| {
        let near = before.filter(|before| at.since(*before) <= longest);
        let start = near.unwrap_or(at.plus_ms(-usual));
        Some((Period::new(start, *at), reading.number()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_held_to_the_one_before_and_not_over_silence() {
        let list = [(15, 1), (30, 2), (45, 3), (200, 4), (215, 5)]
            .map(|(s, value)| (Timestamp(s * 1_000), Reading::Number(value)));
        let stretches: Vec<_> = held(&list)
            .map(|(period, value)| (period.start.0 / 1_000, period.end.0 / 1_000, value))
            .collect();
        assert_eq!(stretches, [(0, 15, 1), (15, 30, 2), (30, 45, 3), (185, 200, 4), (200, 215, 5)]);
    }

    #[test]
    fn a_reading_without_a_number_speaks_for_no_time() {
        let list = [(1, Reading::Number(1)), (2, Reading::Error), (3, Reading::Number(3))]
            .map(|(s, reading)| (Timestamp(s * 1_000), reading));
        let times: Vec<_> = held(&list).map(|(period, _)| period.end.0).collect();
        assert_eq!(times, [1_000, 3_000]);
    }
}
