//! Faults of one GPU: each must show, and the other GPU must not notice.

use leasewatch_agent::observation::EventObservation;
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::EventKind;

use crate::case::{FIRST, SECOND, fault, id, is_child, play, scenario};

#[test]
fn a_lost_gpu_is_an_event_and_then_silence_until_it_answers() {
    let plan = fault("kind = \"gpu_lost\"\ncard = 0\nat_s = 602\nuntil_s = 605");
    play(&plan, |case| {
        case.until_event("loss", |event| event.kind == EventKind::GpuLost { nvml_code: 15 });
        let before = case.reads(FIRST).len();
        assert!(case.live.snapshot().gpus[0].lost);
        case.until_reads(SECOND, 5);
        assert_eq!(case.reads(FIRST).len(), before);
        case.until_event("return", |event| event.kind == EventKind::GpuBack);
        case.until_reads(FIRST, 2);
        assert_eq!(case.happened(&EventKind::GpuLost { nvml_code: 15 }), 1);
        case.check_second_is_well();
        let points = case.points(FIRST);
        assert!(points.iter().all(|(_, busy)| *busy == Reading::Number(40)), "{points:?}");
        let (lost, back) = (
            case.time_of(|kind| matches!(kind, EventKind::GpuLost { .. })),
            case.time_of(|kind| *kind == EventKind::GpuBack),
        );
        assert!(!case.reads(FIRST).iter().any(|r| r.at_boot_ms > lost && r.at_boot_ms < back));
    });
}

#[test]
fn a_gpu_that_needs_a_reset_is_lost_too() {
    let plan = fault("kind = \"reset_required\"\ncard = 0\nat_s = 602");
    play(&plan, |case| {
        case.until_event("loss", |event| event.kind == EventKind::GpuLost { nvml_code: 16 });
        case.until_reads(SECOND, 5);
        case.check_no_numbers_from(FIRST, case.time_of(|k| matches!(k, EventKind::GpuLost { .. })));
        case.check_second_is_well();
    });
}

#[test]
fn a_gpu_that_is_lost_at_the_start_does_not_hide_the_other() {
    let plan = fault("kind = \"gpu_lost\"\ncard = 0");
    play(&plan, |case| {
        case.until_event("loss", |event| event.kind == EventKind::GpuLost { nvml_code: 15 });
        case.until_reads(SECOND, 5);
        assert_eq!(case.reads(FIRST).len(), 0);
        case.check_second_is_well();
    });
}

#[test]
fn a_hung_gpu_is_stale_and_the_other_goes_on() {
    let plan = fault("kind = \"hang\"\ncard = 0\nat_s = 603\nuntil_s = 607");
    play(&plan, |case| {
        case.until_event("stall", |event| event.kind == EventKind::CollectorStalled);
        case.until_reads(SECOND, 5);
        assert!(case.live.snapshot().gpus[0].stalled_since_boot_ms.is_some());
        let stale = case.points(FIRST).iter().filter(|(_, b)| *b == Reading::Stale).count();
        assert!(stale >= 5, "the ticks before the watchdog are stale too: {stale}");
        case.until_event("end of the stall", |event| {
            event.gpu == Some(id(FIRST)) && matches!(event.kind, EventKind::CollectorResumed { .. })
        });
        case.until_reads(FIRST, 3);
        let points = case.points(FIRST);
        assert_eq!(points.last().map(|(_, busy)| *busy), Some(Reading::Number(40)));
        assert!(points.iter().all(|(_, b)| matches!(b, Reading::Stale | Reading::Number(40))));
        case.check_second_is_well();
    });
}

#[test]
fn a_gpu_that_hangs_at_the_start_does_not_hide_the_other() {
    let plan = fault("kind = \"hang\"\ncard = 0");
    play(&plan, |case| {
        case.until_event("stall", |event| event.kind == EventKind::CollectorStalled);
        case.until_reads(SECOND, 10);
        assert_eq!(case.reads(FIRST).len(), 0);
        case.check_second_is_well();
        // Stopping waits for nobody that hangs.
        case.stop();
    });
}

#[test]
fn impossible_values_are_errors_and_counted() {
    play(&fault("kind = \"garbage\"\ncard = 0"), |case| {
        case.until_reads(FIRST, 6);
        case.until_reads(SECOND, 3);
        case.stop();
        let points = case.points(FIRST);
        assert!(points.iter().all(|(_, busy)| *busy == Reading::Error), "{points:?}");
        for read in case.reads(FIRST) {
            for (metric, reading) in &read.readings {
                let fits = |n| (metric.lowest()..=metric.highest()).contains(&n);
                assert!(reading.number().is_none_or(fits), "{metric} {reading:?}");
            }
        }
        let dropped = |event: &&&EventObservation| {
            event.gpu == Some(id(FIRST)) && matches!(event.kind, EventKind::ReadingsDropped { .. })
        };
        assert!(case.events().iter().filter(dropped).count() >= 2, "{:?}", case.events());
        case.check_second_is_well();
    });
}

#[test]
fn masked_metrics_are_unsupported_never_zero() {
    let plan = fault(
        "kind = \"masked\"\ncard = 0\nmetrics = [\"power\", \"energy\", \"memory_temperature\", \"samples\", \"utilization\"]",
    );
    play(&plan, |case| {
        case.until_reads(FIRST, 6);
        case.until_reads(SECOND, 3);
        let masked =
            [Metric::PowerDraw, Metric::Energy, Metric::MemoryTemperature, Metric::MemoryBusy];
        for metric in masked {
            let column = case.column(FIRST, metric);
            assert!(!column.is_empty() && column.iter().all(|r| *r == Reading::Unsupported));
        }
        let points = case.points(FIRST);
        assert!(points.iter().all(|(_, b)| *b == Reading::Unsupported) && points.len() >= 6);
        assert!(case.column(FIRST, Metric::SmClock).iter().all(|r| r.number().is_some()));
        case.check_second_is_well();
    });
}

#[test]
fn each_unusual_code_is_a_reason() {
    let metrics = r#"["utilization", "samples", "power", "ecc", "gpm", "fields"]"#;
    for code in [23, 24, 25, 26, 27, 28, 29, 30, 999] {
        let plan =
            fault(&format!("kind = \"nvml_error\"\ncard = 0\ncode = {code}\nmetrics = {metrics}"));
        play(&plan, |case| {
            case.until_reads(FIRST, 5);
            case.until_reads(SECOND, 3);
            let unsupported = ["code = 25", "code = 26"].iter().any(|c| case.scenario.contains(c));
            let reason = if unsupported { Reading::Unsupported } else { Reading::Error };
            assert!(case.points(FIRST).iter().all(|(_, busy)| *busy == reason));
            for metric in [
                Metric::PowerDraw,
                Metric::EccCorrected,
                Metric::MemoryTemperature,
                Metric::SmActive,
                Metric::PcieTx,
            ] {
                let column = case.column(FIRST, metric);
                let all = column.iter().all(|reading| *reading == reason);
                assert!(all && !column.is_empty(), "{metric} {column:?}");
            }
            case.check_second_is_well();
        });
        if is_child() {
            return;
        }
    }
}

#[test]
fn a_gpu_that_answers_nothing_but_errors_is_there_and_unmeasured() {
    let plan = fault("kind = \"nvml_error\"\ncard = 0\nat_s = 602\ncode = 999");
    play(&plan, |case| {
        case.until("an error", |case| {
            case.points(FIRST).last().is_some_and(|(_, busy)| *busy == Reading::Error)
        });
        let first = case.reads(FIRST).last().map_or(i64::MAX, |read| read.at_boot_ms);
        case.until_reads(FIRST, 4);
        case.check_no_numbers_from(FIRST, first);
        assert!(!case.events().iter().any(|e| matches!(e.kind, EventKind::GpuLost { .. })));
        case.check_second_is_well();
    });
}

#[test]
fn a_gpu_in_mig_mode_has_no_utilization_at_each_tick() {
    play(&fault("kind = \"mig_on\"\ncard = 0"), |case| {
        case.until_reads(FIRST, 5);
        case.until_reads(SECOND, 3);
        let points = case.points(FIRST);
        assert_eq!(points.len(), case.reads(FIRST).len(), "the gap has its cause at each tick");
        assert!(points.iter().all(|(_, busy)| *busy == Reading::Unsupported), "{points:?}");
        assert_eq!(case.column(FIRST, Metric::MigMode)[0], Reading::Number(1));
        case.check_second_is_well();
    });
}

#[test]
fn mig_mode_that_is_switched_on_is_an_event() {
    let plan = fault("kind = \"mig_on\"\ncard = 0\nat_s = 603");
    play(&plan, |case| {
        case.until_event("change", |event| event.kind == EventKind::MigChanged { enabled: true });
        case.until_reads(FIRST, 4);
        let points = case.points(FIRST);
        assert_eq!(points.first().map(|(_, busy)| *busy), Some(Reading::Number(40)));
        assert_eq!(points.last().map(|(_, busy)| *busy), Some(Reading::Unsupported));
        case.check_second_is_well();
    });
}

#[test]
fn xids_are_passed_on_with_their_code() {
    let plan = fault("kind = \"xid\"\ncard = 0\nat_s = 603\ncode = 79");
    play(&plan, |case| {
        case.until_event("xid", |event| {
            event.kind == EventKind::Xid { code: 79 }
                && event.gpu == Some(id(FIRST))
                && event.urgent
        });
        case.until_reads(SECOND, 3);
        case.check_second_is_well();
    });
}

#[test]
fn uncorrected_errors_and_limits_are_events_with_their_numbers() {
    let plan = fault(
        "kind = \"ecc_uncorrected\"\ncard = 0\nat_s = 603\ncount = 2\n[[faults]]\nkind = \"power_limit\"\ncard = 0\nat_s = 603\nlimit_mw = 400000",
    );
    play(&plan, |case| {
        case.until_event("error", |event| event.kind == EventKind::EccUncorrected { count: 2 });
        let limit = EventKind::PowerLimitChanged { from_mw: 700_000, to_mw: 400_000 };
        case.until_event("limit", |event| event.kind == limit);
        assert_eq!(case.happened(&EventKind::EccUncorrected { count: 2 }), 1);
        case.until_reads(SECOND, 3);
        case.check_second_is_well();
    });
}

#[test]
fn throttle_counters_are_right_on_both_sides_of_the_renumbering() {
    for driver in ["580.65.06", "580.82.07"] {
        let hot = "[[faults]]\nkind = \"thermal_throttle\"\ncard = 0\n";
        let plan = scenario("H100-SXM5-80GB", driver, hot);
        play(&plan, |case| {
            case.until_reads(FIRST, 12);
            let growth = |uuid, metric| {
                let column: Vec<_> =
                    case.column(uuid, metric).iter().filter_map(|r| r.number()).collect();
                assert!(column.len() >= 4, "{metric} {column:?}");
                column[column.len() - 1] - column[0]
            };
            for metric in [Metric::ThrottleSwThermal, Metric::ThrottleHwThermal] {
                assert!(growth(FIRST, metric) > 0, "{metric}");
                assert_eq!(growth(SECOND, metric), 0, "{metric}");
            }
            assert_eq!(growth(FIRST, Metric::ThrottleHwPowerBrake), 0);
            case.check_order();
        });
        if is_child() {
            return;
        }
    }
}
