//! Faults of the driver and the node: no GPU, no library, another library, a driver that goes.

use std::os::unix::fs::symlink;

use leasewatch_agent::observation::{EventObservation, Observation};
use leasewatch_agent::source::Source;
use leasewatch_core::id::{BusId, GpuUuid};
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::{EventKind, Origin};

use crate::case::{
    Case, FIRST, FIRST_BUS, SECOND, SECOND_BUS, fault, fault_free, id, library, play, scenario,
    set_control,
};

fn bus(text: &str) -> BusId {
    BusId::new(text).unwrap()
}

fn is_unavailable(event: &EventObservation, nvml_code: i64) -> bool {
    event.kind == EventKind::NvmlUnavailable { nvml_code }
}

fn gpus_seen(case: &Case) -> usize {
    case.seen.iter().filter(|seen| matches!(seen, Observation::Gpu(_))).count()
}

#[test]
fn no_devices_is_a_state_and_no_reading() {
    play(&fault("kind = \"zero_devices\""), |case| {
        case.until_event("state", |event| event.kind == EventKind::NoGpuAttached);
        case.until("ticks", |case| case.ticks() >= 10);
        assert_eq!(gpus_seen(case), 0);
        assert!(case.live.snapshot().nvml_available);
        case.check_order();
    });
}

#[test]
fn a_driver_that_is_not_loaded_is_told_and_found_once_it_is() {
    play(&fault_free(), |case| {
        // The scenario's own time begins at each attempt, so the fault is in the control file.
        set_control("[[faults]]\nkind = \"driver_not_loaded\"\n");
        case.restart(|_| {});
        case.until_event("state", |event| is_unavailable(event, 9));
        case.until_event("host", |event| matches!(event.kind, EventKind::HostSeen(_)));
        assert_eq!(gpus_seen(case), 0);
        set_control("");
        case.until_reads(FIRST, 3);
        case.until_reads(SECOND, 3);
        assert_eq!(case.happened(&EventKind::DriverReloaded), 0);
        case.check_second_is_well();
    });
}

#[test]
fn a_missing_library_is_told_and_the_host_is_read_anyway() {
    play(&fault_free(), |case| {
        let nowhere = tempfile::tempdir().unwrap();
        case.restart(|options| options.source = Source::open(&nowhere.path().join("nvml.so")));
        case.until_event("state", |event| is_unavailable(event, 12));
        case.until("host readings", |case| {
            case.seen.iter().any(|seen| matches!(seen, Observation::Host(_)))
        });
        assert_eq!(gpus_seen(case), 0);
        assert!(!case.live.snapshot().nvml_available);
    });
}

#[test]
fn the_simulator_cannot_stand_in_for_a_driver() {
    play(&fault_free(), |case| {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("libnvidia-ml.so.1");
        let source = Source::open(&path);
        assert_eq!(source.origin(), Origin::Measured, "nothing is there yet");
        symlink(library(), &path).unwrap();
        assert_eq!(Source::open(&path).origin(), Origin::Simulated);
        case.restart(|options| options.source = source);
        case.until_event("refusal", |event| is_unavailable(event, 12));
        case.until("ticks", |case| case.ticks() >= 10);
        assert_eq!(gpus_seen(case), 0);
    });
}

#[test]
fn a_driver_that_goes_away_stops_all_and_its_return_is_a_reload() {
    let plan = fault("kind = \"nvml_error\"\nat_s = 603\nuntil_s = 605\ncode = 1");
    play(&plan, |case| {
        case.until_event("loss", |event| is_unavailable(event, 1));
        let lost = case.time_of(|kind| matches!(kind, EventKind::NvmlUnavailable { .. }));
        case.until_event("reload", |event| event.kind == EventKind::DriverReloaded);
        let back = case.time_of(|kind| *kind == EventKind::DriverReloaded);
        case.until_reads(FIRST, 3);
        case.until_reads(SECOND, 3);
        for uuid in [FIRST, SECOND] {
            let inside = |at| at > lost && at < back;
            assert!(!case.reads(uuid).iter().any(|read| inside(read.at_boot_ms)));
        }
        case.check_second_is_well();
    });
}

#[test]
fn counters_that_go_back_are_a_reload_of_each_gpu() {
    let plan = fault("kind = \"driver_reload\"\nat_s = 603");
    play(&plan, |case| {
        for uuid in [FIRST, SECOND] {
            case.until_event("reload", |event| {
                event.kind == EventKind::DriverReloaded && event.gpu == Some(id(uuid))
            });
        }
        case.check_second_is_well();
    });
}

#[test]
fn an_old_driver_gives_what_it_has() {
    let plan = scenario("V100-SXM2-32GB", "590.48.01", "[[faults]]\nkind = \"old_driver\"\n");
    play(&plan, |case| {
        case.until_reads(FIRST, 6);
        case.until_reads(SECOND, 3);
        for metric in [Metric::MemoryUsed, Metric::SmActive] {
            let column = case.column(FIRST, metric);
            assert!(!column.is_empty() && column.iter().all(|r| *r == Reading::Unsupported));
        }
        for metric in [Metric::MemoryTotal, Metric::ClockEventReasons, Metric::PowerDraw] {
            assert!(case.column(FIRST, metric)[0].number().is_some(), "{metric}");
        }
        case.check_second_is_well();
    });
}

#[test]
fn gpus_of_before_that_are_not_there_are_missing_or_replaced() {
    let plan = fault("kind = \"missing_after_restart\"\ncard = 0");
    play(&plan, |case| {
        let old = GpuUuid::new("GPU-99999999-0000-0000-0000-000000000009").unwrap();
        let known = vec![(bus(FIRST_BUS), id(FIRST)), (bus(SECOND_BUS), old.clone())];
        case.restart(|options| options.known = known);
        case.until_reads(SECOND, 3);
        let missing = EventKind::GpuMissing { bus_id: bus(FIRST_BUS) };
        let replaced = EventKind::GpuReplaced { bus_id: bus(SECOND_BUS), old, new: id(SECOND) };
        assert_eq!((case.happened(&missing), case.happened(&replaced)), (1, 1));
        assert_eq!(case.reads(FIRST).len(), 0);
        case.check_second_is_well();
    });
}
