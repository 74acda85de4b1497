//! One slot reading by reading: what the sums of an hour are made of, for pages that draw it.
//!
//! Nothing is computed a second way here: pieces, growth and reasons are those that the hour's
//! record and profile add up.

use crate::id::GpuUuid;
use crate::sample::{Metric, MetricKind, Reading};
use crate::time::{Period, Timestamp};

use super::SlotHour;
use super::counter::steps_of;
use super::meter::Resolved;
use super::piece::Piece;
use super::reason::reasons;
use super::run::Run;

/// What a slot held in one hour. Times lie within the enrolled part of the hour.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SlotDetail<'a> {
    /// All of its time, by what it holds.
    pub pieces: Vec<Piece<'a>>,
    /// Each GPU that owned some of that time.
    pub gpus: Vec<GpuDetail<'a>>,
}

/// What one GPU said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuDetail<'a> {
    /// The GPU.
    pub gpu: &'a GpuUuid,
    /// Readings of gauges and states in order of time, by metric. A reading at the very start of
    /// the hour describes the hour before and is not among them.
    pub readings: Vec<(Metric, Vec<(Timestamp, Reading)>)>,
    /// What counters grew by between neighbouring readings of one counter life.
    pub growth: Vec<(Metric, Vec<(Period, i64)>)>,
    /// NVML's clock event reason bits, by weights held backwards.
    pub reasons: Vec<(Period, i64)>,
}

/// Takes one slot and hour apart. Empty where [`super::meter`] is.
#[must_use]
pub fn detail<'a>(input: &'a SlotHour<'a>) -> SlotDetail<'a> {
    let resolved = Resolved::of(input);
    let window = input.window();
    let mut gpus: Vec<&GpuUuid> = Vec::new();
    for piece in &resolved.pieces {
        if !gpus.contains(&piece.gpu) {
            gpus.push(piece.gpu);
        }
    }
    let gpus = gpus.into_iter().map(|gpu| GpuDetail {
        gpu,
        readings: readings(gpu, window, &resolved.runs),
        growth: growth(gpu, window, &resolved.runs),
        reasons: reasons(gpu, window, &resolved.runs),
    });
    SlotDetail { gpus: gpus.collect(), pieces: resolved.pieces }
}

fn growth(gpu: &GpuUuid, window: Period, runs: &[Run<'_>]) -> Vec<(Metric, Vec<(Period, i64)>)> {
    let counters = steps_of(gpu, window, runs).into_iter();
    let parts = counters.map(|(metric, steps)| {
        let parts = steps.iter().map(|step| (step.inside, step.within(step.inside)));
        (metric, parts.collect())
    });
    parts.collect()
}

fn readings(
    gpu: &GpuUuid,
    window: Period,
    runs: &[Run<'_>],
) -> Vec<(Metric, Vec<(Timestamp, Reading)>)> {
    let kinds = [MetricKind::Gauge, MetricKind::State];
    let metrics = Metric::ALL.iter().filter(|metric| kinds.contains(&metric.kind()));
    metrics
        .map(|metric| (*metric, readings_of(*metric, gpu, window, runs)))
        .filter(|(_, readings)| !readings.is_empty())
        .collect()
}

fn readings_of(
    metric: Metric,
    gpu: &GpuUuid,
    window: Period,
    runs: &[Run<'_>],
) -> Vec<(Timestamp, Reading)> {
    let mut list = Vec::new();
    for segment in runs.iter().flat_map(|run| &run.segments) {
        let Some(block) = segment.block.filter(|block| block.uuid == *gpu) else { continue };
        let Some(column) = block.columns.iter().find(|c| c.metric == metric) else { continue };
        let ticks = block.ticks.iter().zip(&column.readings);
        list.extend(ticks.filter_map(|(at, reading)| Some((*at, (*reading)?))));
    }
    list.retain(|(at, _)| window.contains(at.plus_ms(-1)));
    list.sort_by_key(|(at, _)| *at);
    list
}
