//! A live frame from the sampler's latest values.

use leasewatch_core::sample::{HostMetric, Metric, Reading};
use leasewatch_core::segment::limits;
use leasewatch_proto::convert::{LiveFrame, LiveGpu};

use crate::clock;
use crate::identity::KnownGpu;
use crate::observation::{self, LiveSnapshot};

/// A value this old is not current any more: shown as stale rather than as if it were now.
const STALE_MS: i64 = 60_000;

pub(super) fn live_frame(
    snapshot: &LiveSnapshot,
    known: &[KnownGpu],
    backlog_segments: u64,
) -> LiveFrame {
    let now_boot_ms = clock::boot_ms();
    let host = |metric: HostMetric| {
        let reading = snapshot.host.iter().find(|(other, _)| *other == metric);
        reading.and_then(|(_, reading)| reading.number())
    };
    LiveFrame {
        at: clock::wall(),
        gpus: snapshot
            .gpus
            .iter()
            .take(limits::GPUS)
            .map(|gpu| live_gpu(gpu, known, now_boot_ms))
            .collect(),
        backlog_segments,
        cpu_busy_permille: host(HostMetric::CpuBusy).and_then(|value| value.try_into().ok()),
        host_memory_used_mib: host(HostMetric::MemoryUsed).and_then(|value| value.try_into().ok()),
        host_memory_total_mib: host(HostMetric::MemoryTotal)
            .and_then(|value| value.try_into().ok()),
        agent_rss_kib: rss_kib(),
        nvml_unavailable: !snapshot.nvml_available,
    }
}

/// Whether NVML is there and no GPU keeps a call waiting: what a frame must never wait for, and what
/// one that does would ask.
pub(super) fn has_every_answer(snapshot: &LiveSnapshot) -> bool {
    let answers = |gpu: &observation::LiveGpu| gpu.stalled_since_boot_ms.is_none();
    snapshot.nvml_available && snapshot.gpus.iter().all(answers)
}

fn live_gpu(gpu: &observation::LiveGpu, known: &[KnownGpu], now_boot_ms: i64) -> LiveGpu {
    let is_old = gpu.at_boot_ms.is_none_or(|at| now_boot_ms.saturating_sub(at) > STALE_MS);
    let current = |reading: Reading| match reading {
        Reading::Number(_) if is_old => Reading::Stale,
        other => other,
    };
    let read = |metric: Metric| {
        let found = gpu.readings.iter().find(|(other, _)| *other == metric);
        found.map(|(_, reading)| current(*reading))
    };
    let name = known.iter().find(|known| known.uuid == gpu.uuid).map(|known| known.name.clone());
    LiveGpu {
        uuid: gpu.uuid.clone(),
        bus_id: gpu.bus_id.clone(),
        name: name.unwrap_or_default(),
        busy_pct: gpu.busy.map(current),
        memory_used_mib: read(Metric::MemoryUsed),
        memory_total_mib: read(Metric::MemoryTotal),
        power_draw_mw: read(Metric::PowerDraw),
        power_limit_mw: read(Metric::PowerLimitEnforced),
        temperature_c: read(Metric::Temperature),
        sm_clock_mhz: read(Metric::SmClock),
        clock_event_reasons: read(Metric::ClockEventReasons),
        stalled_ms: gpu
            .stalled_ms(now_boot_ms)
            .map_or(0, |stalled| u32::try_from(stalled.max(1)).unwrap_or(u32::MAX)),
        lost: gpu.lost,
    }
}

/// `VmRSS` of this process, which the kernel prints in KiB.
fn rss_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use leasewatch_core::id::{BusId, GpuUuid};

    use super::*;

    fn snapshot(at_boot_ms: Option<i64>) -> LiveSnapshot {
        let uuid = GpuUuid::new("GPU-1").unwrap();
        let mut gpu = observation::LiveGpu::new(uuid, BusId::new("0:1:0").unwrap());
        gpu.at_boot_ms = at_boot_ms;
        gpu.busy = Some(Reading::Number(0));
        gpu.readings = vec![
            (Metric::MemoryUsed, Reading::Number(7)),
            (Metric::MemoryTemperature, Reading::Unsupported),
        ];
        LiveSnapshot { gpus: vec![gpu], nvml_available: true, ..LiveSnapshot::default() }
    }

    #[test]
    fn zero_missing_and_old_stay_apart() {
        let now = clock::boot_ms();
        let frame = live_frame(&snapshot(Some(now)), &[], 4);
        assert_eq!(frame.gpus[0].busy_pct, Some(Reading::Number(0)));
        assert_eq!(frame.gpus[0].power_draw_mw, None);
        assert_eq!(frame.backlog_segments, 4);
        assert!(frame.agent_rss_kib.is_some());
        let old = live_frame(&snapshot(Some(now - STALE_MS - 1_000)), &[], 0);
        assert_eq!(old.gpus[0].memory_used_mib, Some(Reading::Stale));
    }

    #[test]
    fn a_known_gpu_has_its_name() {
        let frame = live_frame(
            &snapshot(None),
            &[KnownGpu {
                bus_id: BusId::new("0:1:0").unwrap(),
                uuid: GpuUuid::new("GPU-1").unwrap(),
                name: "NVIDIA H100".to_owned(),
            }],
            0,
        );
        assert_eq!(frame.gpus[0].name, "NVIDIA H100");
    }
}
