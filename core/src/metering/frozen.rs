//! Frozen values: a source that repeats itself exactly, under load, for minutes.
//!
//! Real power, temperature and clocks move together with work. Where all of them and utilization
//! stay bit for bit the same for more than five minutes, and utilization is above 0, the source is
//! stuck or made up. The time stays measured; it is only said. Where one of the readings is not
//! offered (a vGPU, an imported log), nothing can be said.

use crate::id::GpuUuid;
use crate::sample::{Metric, Reading};
use crate::segment::GpuBlock;
use crate::time::{Period, Timestamp};

use super::run::Run;

/// How long a source may repeat itself.
const FROZEN_AFTER_MS: i64 = 300_000;
/// Ticks further apart than this do not continue each other.
const MAX_DISTANCE_MS: i64 = 60_000;
const VECTOR: [Metric; 4] =
    [Metric::PowerDraw, Metric::Temperature, Metric::SmClock, Metric::MemoryClock];

/// Utilization and the readings of [`VECTOR`].
type Vector = [i64; 5];

/// Milliseconds of `window` that lie in frozen stretches of `gpu`. A stretch that began in a
/// segment that is not at hand counts from where it is seen.
pub(super) fn frozen_ms(gpu: &GpuUuid, window: Period, runs: &[Run<'_>]) -> i64 {
    let mut stretches: Vec<(Vector, Period)> = Vec::new();
    for segment in runs.iter().flat_map(|run| &run.segments) {
        let Some(block) = segment.block.filter(|block| block.uuid == *gpu) else { continue };
        for (at, vector) in vectors(block) {
            match stretches.last_mut() {
                Some((last, period))
                    if *last == vector && at.since(period.end) <= MAX_DISTANCE_MS =>
                {
                    period.end = at;
                }
                _ => stretches.push((vector, Period::new(at, at))),
            }
        }
    }
    let frozen = stretches
        .into_iter()
        .filter(|(vector, period)| vector[0] > 0 && period.ms() > FROZEN_AFTER_MS);
    frozen.map(|(_, period)| period.intersect(window).ms()).sum()
}

/// The vector at each tick that has one whole.
fn vectors(block: &GpuBlock) -> impl Iterator<Item = (Timestamp, Vector)> + '_ {
    let columns = VECTOR.map(|metric| block.columns.iter().find(|column| column.metric == metric));
    let points = &block.track.points;
    block.ticks.iter().enumerate().filter_map(move |(index, at)| {
        let before = points.partition_point(|point| point.at <= *at);
        let mut vector = [points.get(before.checked_sub(1)?)?.busy.number()?, 0, 0, 0, 0];
        for (value, column) in vector[1..].iter_mut().zip(columns) {
            *value = column?.readings.get(index).copied().flatten().and_then(Reading::number)?;
        }
        Some((*at, vector))
    })
}
