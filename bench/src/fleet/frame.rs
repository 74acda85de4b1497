//! Live frames as an agent sends them, from the samples of a stretch.

use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::time::Timestamp;
use leasewatch_proto::convert::{LiveFrame, LiveGpu};

use crate::data::{self, METRICS, NodeSamples, Sample};

/// What a node shows at `at`, with the samples of second `second` of a stretch.
pub(super) fn live_frame(
    (node, at): (u64, Timestamp),
    shown: &NodeSamples,
    second: usize,
) -> anyhow::Result<LiveFrame> {
    let mut gpus = Vec::with_capacity(shown.gpus.len());
    for (gpu, samples) in shown.gpus.iter().enumerate() {
        if let Some(sample) = samples.get(second % samples.len().max(1)) {
            gpus.push(live_gpu((node, gpu), sample)?);
        }
    }
    Ok(LiveFrame {
        at,
        gpus,
        backlog_segments: 0,
        cpu_busy_permille: Some(210),
        host_memory_used_mib: Some(412_000),
        host_memory_total_mib: Some(2_063_000),
        agent_rss_kib: Some(9_000),
        nvml_unavailable: false,
    })
}

fn live_gpu((node, gpu): (u64, usize), sample: &Sample) -> anyhow::Result<LiveGpu> {
    let (uuid, bus_id) = data::gpu_names(node, gpu)?;
    let read = |metric: Metric| {
        let place = METRICS.iter().position(|other| *other == metric)? + 1;
        Some(Reading::Number(data::declared(place, sample.values[place])))
    };
    Ok(LiveGpu {
        uuid,
        bus_id,
        name: "NVIDIA H100 80GB HBM3".to_owned(),
        busy_pct: Some(Reading::Number(sample.values[0])),
        memory_used_mib: read(Metric::MemoryUsed),
        memory_total_mib: read(Metric::MemoryTotal),
        power_draw_mw: read(Metric::PowerDraw),
        power_limit_mw: read(Metric::PowerLimitEnforced),
        temperature_c: read(Metric::Temperature),
        sm_clock_mhz: read(Metric::SmClock),
        clock_event_reasons: read(Metric::ClockEventReasons),
        stalled_ms: 0,
        lost: false,
    })
}
