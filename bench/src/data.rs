//! The samples that everybody is measured with: a fleet that behaves like real ones, made by
//! fixed arithmetic, so that two programs and two runs see the same numbers.
//!
//! The shape is that of two published clusters (Acme, 2023-2024: 34 % of samples at most 1 % busy,
//! 54 % above 95 %, little between; its distribution of GPU utilization is [`BUSY_QUANTILES`]).
//! Power, temperature, clocks and activity follow utilization; counters grow with them. A node's
//! GPUs work on one job, as they do in training. Values are native: milliwatts, millijoules and
//! nanoseconds as a driver gives them; [`declared`] rounds as the agent does.
//!
//! Not here: faults, gaps, events and other kinds of GPUs.

mod gpu;
mod noise;

use leasewatch_core::id::{BusId, GpuUuid};
use leasewatch_core::sample::{HostMetric, Metric, Reading};
use leasewatch_core::segment::{
    Column, GpuBlock, HostBlock, TrackPoint, TrackSource, UtilizationTrack,
};
use leasewatch_core::time::Timestamp;

pub use gpu::SimulatedNode;

/// Readings of a GPU at one instant: utilization and 39 metrics, all numbers.
pub const READINGS: usize = 40;
/// The metrics behind utilization, by ascending code.
pub const METRICS: [Metric; READINGS - 1] = [
    Metric::MemoryBusy,
    Metric::MemoryUsed,
    Metric::MemoryTotal,
    Metric::MemoryReserved,
    Metric::PowerDraw,
    Metric::Temperature,
    Metric::MemoryTemperature,
    Metric::SmClock,
    Metric::MemoryClock,
    Metric::ClockEventReasons,
    Metric::PerformanceState,
    Metric::PowerLimitEnforced,
    Metric::PowerLimitManagement,
    Metric::SmClockMax,
    Metric::MemoryClockMax,
    Metric::Energy,
    Metric::PcieGeneration,
    Metric::PcieWidth,
    Metric::PcieReplays,
    Metric::PcieTx,
    Metric::PcieRx,
    Metric::NvlinkActive,
    Metric::NvlinkTx,
    Metric::NvlinkRx,
    Metric::EccCorrected,
    Metric::EccUncorrected,
    Metric::EccUncorrectedAggregate,
    Metric::RemappedCorrected,
    Metric::RemappedUncorrected,
    Metric::RemapPending,
    Metric::ThrottleSwPower,
    Metric::ThrottleSwThermal,
    Metric::ThrottleHwThermal,
    Metric::SmActive,
    Metric::TensorActive,
    Metric::DramActive,
    Metric::ComputeProcesses,
    Metric::RecoveryAction,
    Metric::MigMode,
];

/// Utilization at each twentieth of the samples of the Kalos cluster (Acme trace).
pub const BUSY_QUANTILES: [i64; 21] =
    [0, 0, 0, 0, 0, 0, 0, 16, 82, 95, 97, 98, 99, 99, 100, 100, 100, 100, 100, 100, 100];

/// One instant of one GPU: when, and what each reading says, native.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// Utilization in percent, then [`METRICS`].
    pub values: [i64; READINGS],
}

/// A stretch of a node: the same seconds of each of its GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSamples {
    /// By GPU, then by second.
    pub gpus: Vec<Vec<Sample>>,
}

/// `value` as the agent records it: rounded to the declared resolution of its reading.
#[must_use]
pub fn declared(reading: usize, value: i64) -> i64 {
    match reading.checked_sub(1).and_then(|place| METRICS.get(place)) {
        Some(metric) => {
            Reading::Number(value).rounded_to(metric.resolution()).number().unwrap_or(value)
        }
        None => value,
    }
}

/// Name of a reading, for programs that name their series.
#[must_use]
pub fn name(reading: usize) -> &'static str {
    reading.checked_sub(1).map_or("busy_pct", |place| METRICS[place].name())
}

/// The name of a GPU of the simulated fleet.
///
/// # Errors
/// For numbers that do not fit.
pub fn gpu_names(node: u64, gpu: usize) -> anyhow::Result<(GpuUuid, BusId)> {
    let uuid = GpuUuid::new(&format!("GPU-{node:08x}-bea7-4000-8000-{gpu:012x}"))?;
    Ok((uuid, BusId::new(&format!("00000000:{:02X}:00.0", 0x18 + gpu * 8))?))
}

/// The block of one GPU with all readings at each tick.
///
/// # Errors
/// As [`gpu_names`].
pub fn gpu_block(
    (node, gpu): (u64, usize),
    samples: &[Sample],
    source: TrackSource,
) -> anyhow::Result<GpuBlock> {
    let (uuid, bus_id) = gpu_names(node, gpu)?;
    let ticks: Vec<Timestamp> = samples.iter().map(|sample| Timestamp(sample.at_ms)).collect();
    let busy = samples.iter().map(|sample| Reading::Number(sample.values[0]));
    let points = ticks.iter().zip(busy).map(|(at, busy)| TrackPoint { at: *at, busy }).collect();
    let columns = METRICS.iter().enumerate().map(|(place, metric)| Column {
        metric: *metric,
        readings: samples
            .iter()
            .map(|sample| Some(Reading::Number(declared(place + 1, sample.values[place + 1]))))
            .collect(),
    });
    let track = UtilizationTrack { source, period_ms: 1_000, points };
    Ok(GpuBlock { uuid, bus_id, partition: None, columns: columns.collect(), ticks, track })
}

/// What an agent says of the host in the same time: four metrics each 15 s.
#[must_use]
pub fn host_block(node: u64, samples: &[Sample]) -> HostBlock {
    let ticks: Vec<Timestamp> =
        samples.iter().step_by(15).map(|sample| Timestamp(sample.at_ms)).collect();
    let mut noise = noise::Noise::new(node, 99);
    let mut column = |metric, of: fn(i64, &mut noise::Noise) -> i64| Column {
        metric,
        readings: ticks.iter().map(|at| Some(Reading::Number(of(at.0, &mut noise)))).collect(),
    };
    let columns = vec![
        column(HostMetric::CpuBusy, |_, noise| 210 + noise.bell(40)),
        column(HostMetric::MemoryUsed, |_, noise| 412_000 + noise.bell(900)),
        column(HostMetric::MemoryTotal, |_, _| 2_063_000),
        column(HostMetric::NetworkRx, |at, noise| at / 50 + noise.below(9_000)),
    ];
    HostBlock { ticks, columns }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasewatch_core::segment::Block;

    const START_MS: i64 = 1_785_556_800_000;

    fn minutes(count: usize) -> Vec<NodeSamples> {
        (0..count as u64).map(|node| SimulatedNode::new(node, 8).seconds(START_MS, 60)).collect()
    }

    #[test]
    fn samples_are_the_same_each_time() {
        assert_eq!(minutes(2), minutes(2));
        assert_ne!(minutes(2)[0], minutes(2)[1]);
    }

    /// Shares of the Kalos cluster: 34 % at most 1 % busy, 54 % above 95 %.
    #[test]
    fn utilization_has_two_peaks_as_in_the_trace() {
        let all = minutes(400);
        let busy: Vec<i64> =
            all.iter().flat_map(|m| &m.gpus).flatten().map(|s| s.values[0]).collect();
        let share = |of: &dyn Fn(i64) -> bool| {
            busy.iter().filter(|value| of(**value)).count() * 100 / busy.len()
        };
        let (idle, full) = (share(&|value| value <= 1), share(&|value| value > 95));
        assert!((28..=40).contains(&idle), "{idle} % idle");
        assert!((46..=60).contains(&full), "{full} % full");
    }

    #[test]
    fn every_block_can_be_encoded_and_holds_all_readings() {
        for (node, samples) in (0..).zip(minutes(20)) {
            for (gpu, samples) in samples.gpus.iter().enumerate() {
                let block = gpu_block((node, gpu), samples, TrackSource::Poll).unwrap();
                assert_eq!(block.columns.len() + 1, READINGS);
                let bytes = Block::Gpu(block.clone()).encode().unwrap();
                assert_eq!(Block::decode(&bytes).unwrap(), Block::Gpu(block));
            }
            Block::Host(host_block(node, &samples.gpus[0])).encode().unwrap();
        }
    }

    #[test]
    fn counters_never_go_back_and_native_values_are_finer_than_declared_ones() {
        let mut node = SimulatedNode::new(3, 1);
        let mut last = node.seconds(START_MS, 60).gpus[0][59];
        let mut finer = false;
        for minute in 1..30 {
            for sample in &node.seconds(START_MS + minute * 60_000, 60).gpus[0] {
                for (place, metric) in METRICS.iter().enumerate() {
                    if metric.kind() == leasewatch_core::sample::MetricKind::Counter {
                        assert!(sample.values[place + 1] >= last.values[place + 1], "{metric}");
                    }
                }
                let power = 1 + METRICS.iter().position(|m| *m == Metric::PowerDraw).unwrap();
                finer |= sample.values[power] != declared(power, sample.values[power]);
                assert!(sample.at_ms > last.at_ms);
                last = *sample;
            }
        }
        assert!(finer);
    }
}
