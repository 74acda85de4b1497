//! Faults that end in a gap or an event.

use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::EventKind;

use super::modes::{Mode, mode};
use super::recorded::Recorded;

pub(super) fn modes() -> Vec<Mode> {
    vec![
        mode("gpu-lost", lost).gap(Some("gpu_lost"), "gpu_lost"),
        mode("reset-required", lost).gap(Some("gpu_lost"), "gpu_lost"),
        mode("hang", hung).gap(Some("collector_stalled"), "nvml_error"),
        mode("nvml-error", |r| silent_as(r, Reading::Error)).gap(None, "nvml_error"),
        mode("mig-on", mig).gap(None, "unsupported"),
        mode("garbage", garbage).gap(None, "nvml_error"),
        mode("xid", xid).urgent("xid"),
        // Late enough for a first reading before it.
        mode("ecc", ecc).quick().begins(8).urgent("ecc_uncorrected"),
        mode("driver-reload", reloaded).quick().begins(608).until(616),
        mode("zero-devices", |r| nothing_attached(r, "no_gpu_attached"))
            .urgent("no_gpu_attached")
            .blind(),
        mode("driver-not-loaded", |r| nothing_attached(r, "nvml_unavailable"))
            .urgent("nvml_unavailable")
            .blind(),
    ]
}

/// The GPU is gone with its event: not one number after it.
fn lost(recorded: &Recorded) {
    let code = if recorded.name == "gpu-lost" { 15 } else { 16 };
    assert_eq!(recorded.kinds("gpu_lost"), [&EventKind::GpuLost { nvml_code: code }]);
    let at = recorded.time_of("gpu_lost");
    let slot = &recorded.slots[0];
    assert!(slot.track().iter().all(|point| point.at <= at || point.busy.number().is_none()));
    for metric in Metric::ALL {
        let numbers = slot.column(*metric).into_iter().filter(|(_, r)| r.number().is_some());
        assert!(numbers.map(|(tick, _)| tick).all(|tick| tick <= at), "{metric}");
    }
    assert!(slot.measured_ms() > 500, "it was measured before: {:?}", slot.rows);
}

fn hung(recorded: &Recorded) {
    let stale = recorded.slots[0].track().iter().filter(|p| p.busy == Reading::Stale).count();
    assert!(stale >= 3, "{stale} stale points");
    silent_as(recorded, Reading::Stale);
}

/// From some second on each reading of the fast lane is this reason and no number.
fn silent_as(recorded: &Recorded, reason: Reading) {
    let slot = &recorded.slots[0];
    let track = slot.track();
    let silent = track.iter().position(|p| p.busy == reason).unwrap();
    assert!(track[silent..].iter().all(|p| p.busy == reason), "{track:?}");
    for metric in [Metric::PowerDraw, Metric::Temperature, Metric::MemoryUsed, Metric::SmClock] {
        let column = slot.column(metric);
        let since = column.iter().position(|(_, r)| *r == reason).unwrap();
        assert!(column[since..].iter().all(|(_, r)| *r == reason), "{metric}: {column:?}");
    }
}

fn mig(recorded: &Recorded) {
    let slot = &recorded.slots[0];
    slot.assert_always(Metric::MigMode, 1);
    slot.assert_unsupported(Metric::MemoryBusy);
    let track = slot.track();
    assert!(!track.is_empty() && track.iter().all(|point| point.busy == Reading::Unsupported));
    assert_eq!((slot.measured_ms(), slot.cell("util_mean_ppm")), (0, None), "no data is not 0 %");
    assert_eq!(slot.cell("util_p50_pct"), None);
}

/// Nothing impossible is stored, and that it came is counted.
fn garbage(recorded: &Recorded) {
    let slot = &recorded.slots[0];
    assert_eq!((slot.busy().len(), slot.cell("util_mean_ppm")), (0, None));
    assert!(slot.track().iter().all(|point| point.busy == Reading::Error));
    for metric in [Metric::PowerDraw, Metric::Temperature, Metric::SmClock] {
        assert_eq!(slot.numbers(metric), Vec::<i64>::new(), "{metric}: {:?}", slot.column(metric));
        assert!(!slot.column(metric).is_empty(), "{metric}");
    }
    let named = |event: &EventKind, name: &str| matches!(event, EventKind::ReadingsDropped { metric, count } if metric == name && *count > 0);
    for name in ["busy_pct", "power_draw_mw"] {
        let dropped = recorded.kinds("readings_dropped");
        assert!(dropped.iter().any(|kind| named(kind, name)), "{name}: {dropped:?}");
    }
}

fn xid(recorded: &Recorded) {
    assert_eq!(recorded.kinds("xid"), [&EventKind::Xid { code: 79 }]);
    let counts: Vec<_> = recorded.slots.iter().map(|slot| slot.cell("xid_count")).collect();
    assert_eq!(counts, [Some(1), Some(0)]);
}

fn ecc(recorded: &Recorded) {
    assert_eq!(recorded.kinds("ecc_uncorrected"), [&EventKind::EccUncorrected { count: 1 }]);
    for (metric, count) in [
        (Metric::EccCorrected, 12),
        (Metric::EccUncorrected, 1),
        (Metric::EccUncorrectedAggregate, 1),
    ] {
        assert_eq!(recorded.slots[0].growth(metric).0, count, "{metric}");
        assert_eq!(recorded.slots[1].growth(metric).0, 0, "{metric}");
    }
    let cells = |column: &str| [0, 1].map(|slot: usize| recorded.slots[slot].cell(column));
    assert_eq!(cells("ecc_corrected"), [Some(12), Some(0)]);
    assert_eq!(cells("ecc_uncorrected"), [Some(1), Some(0)]);
}

/// The counters began anew: an event for each GPU, and the hour counts neither the step back nor
/// the ten minutes before.
fn reloaded(recorded: &Recorded) {
    assert_eq!(recorded.kinds("driver_reloaded").len(), 2, "{:?}", recorded.events);
    for slot in &recorded.slots {
        let energy = slot.numbers(Metric::Energy);
        assert!(energy.windows(2).any(|pair| pair[1] < pair[0]), "{energy:?}");
        let (counted, covered_ms) =
            (slot.cell("energy_mj").unwrap(), slot.cell("energy_covered_ms").unwrap());
        // 700 W for as long as the growth is known.
        assert!(counted > 0 && counted <= 700 * covered_ms, "{counted} mJ in {covered_ms} ms");
    }
}

/// A node that sees no GPU has no GPU hours: no row, so no zero.
fn nothing_attached(recorded: &Recorded, event: &str) {
    assert!(!recorded.kinds(event).is_empty());
    assert!(recorded.slots.is_empty());
    assert_eq!(recorded.page["gpus"].as_array().unwrap().len(), 0);
    if event == "nvml_unavailable" {
        assert_eq!(recorded.kinds(event)[0], &EventKind::NvmlUnavailable { nvml_code: 9 });
    }
}
