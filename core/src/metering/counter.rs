//! Counters over an hour: differences of readings, never across a reset.
//!
//! A counter belongs to one GPU, one life unit and one load of the driver. A decrease, a new life
//! unit or a reported reload starts anew: what was counted between the last old and the first new
//! reading is not known, so it is not covered. A difference that crosses the hour's edge is cut
//! on the straight line between its readings; both hours use the same value at the edge, so hours
//! add up to the whole.

use crate::id::{GpuUuid, LifeUnitId};
use crate::sample::{Metric, MetricKind};
use crate::segment::EventKind;
use crate::time::{Period, Timestamp};

use super::on_line;
use super::run::Run;

/// Readings further apart than this say nothing about when their difference grew.
const MAX_DISTANCE_MS: i64 = 300_000;

/// What a counter grew by in covered time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CounterDelta {
    /// The growth, in the metric's unit.
    pub delta: i64,
    /// Milliseconds that lie between readings of one counter life.
    pub covered_ms: i64,
}

/// Deltas by metric, ascending; a metric without any covered time is absent.
pub type Counters = Vec<(Metric, CounterDelta)>;

#[derive(Debug, Clone, Copy)]
struct CounterReading {
    at: Timestamp,
    value: i64,
    life: LifeUnitId,
}

fn reloads(runs: &[Run<'_>]) -> Vec<Timestamp> {
    let mut times: Vec<Timestamp> = runs
        .iter()
        .flat_map(|run| &run.segments)
        .flat_map(|segment| segment.events)
        .filter(|event| event.kind == EventKind::DriverReloaded)
        .map(|event| event.at)
        .collect();
    times.sort_unstable();
    times
}

fn readings(metric: Metric, gpu: &GpuUuid, runs: &[Run<'_>]) -> Vec<CounterReading> {
    let ticks = runs.iter().flat_map(|run| &run.segments).filter_map(|segment| segment.block);
    let mut list = Vec::with_capacity(ticks.map(|block| block.ticks.len()).sum());
    for segment in runs.iter().flat_map(|run| &run.segments) {
        let Some(block) = segment.block.filter(|block| block.uuid == *gpu) else { continue };
        let Some(column) = block.columns.iter().find(|c| c.metric == metric) else { continue };
        for (at, reading) in block.ticks.iter().zip(&column.readings) {
            if let Some(value) = reading.and_then(crate::sample::Reading::number) {
                list.push(CounterReading { at: *at, value, life: segment.head.life_unit });
            }
        }
    }
    list.sort_by_key(|reading| reading.at);
    list
}

/// Growth between two neighbouring readings of one counter life, cut to the window.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// The time between the readings, as far as it is inside.
    pub(super) inside: Period,
    from: (Timestamp, i64),
    to: (Timestamp, i64),
}

impl Step {
    /// The growth in a part of [`Step::inside`].
    pub(super) fn within(&self, part: Period) -> i64 {
        let value_at = |at| on_line(self.from, self.to, at);
        value_at(part.end) - value_at(part.start)
    }
}

/// Steps of every counter of `gpu` that has some within `window`.
pub(super) fn steps_of(
    gpu: &GpuUuid,
    window: Period,
    runs: &[Run<'_>],
) -> Vec<(Metric, Vec<Step>)> {
    let resets = reloads(runs);
    Metric::ALL
        .iter()
        .filter(|metric| metric.kind() == MetricKind::Counter)
        .map(|metric| (*metric, steps(&readings(*metric, gpu, runs), window, &resets)))
        .filter(|(_, steps)| !steps.is_empty())
        .collect()
}

fn steps(readings: &[CounterReading], window: Period, resets: &[Timestamp]) -> Vec<Step> {
    let pairs = readings.windows(2).map(|pair| (pair[0], pair[1]));
    let known = pairs.filter_map(|(from, to)| {
        let span = Period::new(from.at, to.at);
        let inside = span.intersect(window);
        let reset = to.value < from.value
            || to.life != from.life
            || resets.iter().any(|at| from.at < *at && *at <= to.at);
        let is_known = !inside.is_empty() && !reset && span.ms() <= MAX_DISTANCE_MS;
        let (from, to) = ((from.at, from.value), (to.at, to.value));
        is_known.then_some(Step { inside, from, to })
    });
    let mut steps = Vec::with_capacity(readings.len());
    steps.extend(known);
    steps
}

/// The growth of all steps.
pub(super) fn sum(steps: &[Step]) -> CounterDelta {
    let mut sum = CounterDelta::default();
    for step in steps {
        sum.add(step.within(step.inside), step.inside.ms());
    }
    sum
}

impl CounterDelta {
    pub(super) fn add(&mut self, growth: i64, covered_ms: i64) {
        self.delta = self.delta.saturating_add(growth);
        self.covered_ms += covered_ms;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::Hour;

    fn delta(readings: &[CounterReading], window: Period, resets: &[Timestamp]) -> CounterDelta {
        sum(&steps(readings, window, resets))
    }

    fn reading(at: i64, value: i64) -> CounterReading {
        CounterReading { at: Timestamp(at), value, life: LifeUnitId([0; 16]) }
    }

    fn window(start: i64, end: i64) -> Period {
        Period::new(Timestamp(start), Timestamp(end))
    }

    #[test]
    fn hours_add_up_across_the_edge() {
        let edge = Hour(1).start().0;
        let readings = [reading(edge - 7, 100), reading(edge + 3, 107), reading(edge + 10, 120)];
        let whole = delta(&readings, window(0, edge * 2), &[]);
        let before = delta(&readings, window(0, edge), &[]);
        let after = delta(&readings, window(edge, edge * 2), &[]);
        assert_eq!(whole, CounterDelta { delta: 20, covered_ms: 17 });
        assert_eq!(before, CounterDelta { delta: 4, covered_ms: 7 });
        assert_eq!(before.delta + after.delta, whole.delta);
    }

    #[test]
    fn a_reset_is_not_covered_and_not_negative() {
        let readings = [reading(0, 500), reading(10, 600), reading(20, 5), reading(30, 8)];
        assert_eq!(
            delta(&readings, window(0, 100), &[]),
            CounterDelta { delta: 103, covered_ms: 20 }
        );
    }

    #[test]
    fn a_reported_reload_splits_even_where_the_value_grew() {
        let readings = [reading(0, 5), reading(10, 600)];
        assert_eq!(delta(&readings, window(0, 100), &[Timestamp(4)]), CounterDelta::default());
    }

    proptest! {
        /// Counters that reset at any reading, metered over any split of their time.
        #[test]
        fn any_split_adds_up_and_no_reset_is_crossed(
            steps in proptest::collection::vec((1_i64..400_000, 0_i64..1_000_000, 0_u8..10), 1..60),
            cuts in proptest::collection::vec(0_i64..20_000_000, 0..6),
        ) {
            let (mut at, mut value, mut life) = (0, 0, 0_u8);
            let mut readings = vec![reading(0, 0)];
            let (mut counted, mut covered, mut resets) = (0, 0, Vec::new());
            for (distance, growth, what) in steps {
                at += distance;
                match what {
                    0 => value = growth.min(value),
                    1 => life += 1,
                    2 => resets.push(Timestamp(at)),
                    _ => {}
                }
                let goes_on = what > 2 && distance <= MAX_DISTANCE_MS;
                if what > 0 {
                    value += growth;
                }
                if goes_on || (what == 0 && value == readings.last().unwrap().value && distance <= MAX_DISTANCE_MS) {
                    counted += if what == 0 { 0 } else { growth };
                    covered += distance;
                }
                readings.push(CounterReading { at: Timestamp(at), value, life: LifeUnitId([life; 16]) });
            }
            let whole = delta(&readings, window(0, at), &resets);
            prop_assert_eq!(whole, CounterDelta { delta: counted, covered_ms: covered });
            let mut bounds: Vec<i64> = cuts.into_iter().map(|cut| cut.min(at)).chain([0, at]).collect();
            bounds.sort_unstable();
            let mut parts = CounterDelta::default();
            for pair in bounds.windows(2) {
                let part = delta(&readings, window(pair[0], pair[1]), &resets);
                prop_assert!(part.delta >= 0);
                parts.delta += part.delta;
                parts.covered_ms += part.covered_ms;
            }
            prop_assert_eq!(parts, whole);
        }
    }
}
