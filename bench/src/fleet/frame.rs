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

#[cfg(test)]
mod tests {
    use leasewatch_core::segment::Origin;
    use leasewatch_proto::convert::SegmentParts;
    use leasewatch_proto::v1::AgentMessage;
    use leasewatch_proto::v1::agent_message::Kind;
    use prost::Message as _;

    use super::*;
    use crate::data::SimulatedNode;
    use crate::node::BenchNode;

    const NODES: u64 = 20;
    const MINUTES: i64 = 6;
    const START_MS: i64 = 1_785_556_800_000;
    /// Measured: 12,879,360.
    const SEGMENTS_MAX: usize = 13_500_000;
    /// Measured: 19,958,400.
    const FRAMES_MAX: usize = 20_900_000;

    /// Bytes of the segments and of the live frames of a node with 8 GPUs in a day, at a segment
    /// each minute and a frame each 5 s.
    fn bytes_of_a_day() -> (usize, usize) {
        let (mut segments, mut frames) = (0, 0);
        let bytes = |kind| AgentMessage { kind: Some(kind) }.encoded_len();
        for number in 0..NODES {
            let mut node = BenchNode::new(number, 8, Origin::Simulated);
            let mut samples = SimulatedNode::new(number, 8);
            for minute in 0..MINUTES {
                let made = samples.seconds(START_MS + minute * 60_000, 60);
                let sealed = node.seal(&node.blocks(&made, false).unwrap()).unwrap();
                segments += bytes(Kind::Segment(SegmentParts::from(&sealed).into_wire()));
                let at = Timestamp(START_MS + minute * 60_000);
                frames += bytes(Kind::Live(live_frame((number, at), &made, 0).unwrap().to_wire()));
            }
        }
        let minutes = usize::try_from(NODES).unwrap() * usize::try_from(MINUTES).unwrap();
        (segments / minutes * 1_440, frames / minutes * 17_280)
    }

    /// What docs/PERFORMANCE.md says, and a twentieth more.
    #[test]
    fn a_day_of_a_node_takes_no_more_on_the_wire_than_is_written_down() {
        let (segments, frames) = bytes_of_a_day();
        eprintln!("{segments} bytes of segments, {frames} of live frames");
        assert!(segments <= SEGMENTS_MAX, "{segments}");
        assert!(frames <= FRAMES_MAX, "{frames}");
    }
}
