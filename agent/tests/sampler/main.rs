//! The sampler through the real C interface, on `nvml-sim`.
//!
//! NVML is a singleton of its process, so each test plays its scenario in a child: it runs this
//! binary again with the scenario in the environment and the same test selected. Every failure of
//! a GPU must end in a reason, an event or missing points; never in a number.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod allocations;
mod case;
mod gpu_faults;
mod mig;
mod node_faults;
mod survey;
mod wiring;

use case::{FIRST, FIRST_BUS, SECOND, fault_free, library, play};
use leasewatch_agent::source::Source;
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::{EventKind, Origin, TrackSource};

#[test]
fn healthy_gpus_are_measured_exactly_and_marked_as_simulated() {
    play(&fault_free(), |case| {
        assert_eq!(Source::open(&library()).origin(), Origin::Simulated);
        case.until_reads(FIRST, 12);
        case.until_reads(SECOND, 1);
        case.check_second_is_well();
        let points = case.points(FIRST);
        assert!(points.iter().all(|(_, busy)| *busy == Reading::Number(40)), "{points:?}");
        let read = case.reads(FIRST)[0];
        assert_eq!(read.bus_id.as_str(), FIRST_BUS);
        assert_eq!(read.track.source, TrackSource::DriverSamples);
        assert_eq!(read.track.period_ms, 167);
        let total = case.column(FIRST, Metric::MemoryTotal);
        assert_eq!(total[0], Reading::Number(81_559));
        let gauges = [Metric::PowerDraw, Metric::SmClock, Metric::Temperature, Metric::SmActive];
        for metric in gauges {
            let column = case.column(FIRST, metric);
            assert!(!column.is_empty(), "{metric}");
            assert!(
                column.iter().all(|r| r.number().is_some_and(|n| n > 0)),
                "{metric} {column:?}"
            );
        }
        for counter in [Metric::Energy, Metric::PcieTx, Metric::NvlinkTx] {
            let column: Vec<_> =
                case.column(FIRST, counter).iter().filter_map(|r| r.number()).collect();
            assert!(
                column.len() >= 3 && column.is_sorted() && column[0] > 0,
                "{counter} {column:?}"
            );
        }
        assert_eq!(case.column(FIRST, Metric::NvlinkActive)[0], Reading::Number(18));
        assert_eq!(case.column(FIRST, Metric::ComputeProcesses), [], "not asked by default");
        let seen = case.events().iter().filter(|e| matches!(e.kind, EventKind::GpuSeen(_))).count();
        assert_eq!(seen, 2);
        assert!(case.events().iter().any(|event| matches!(
            &event.kind,
            EventKind::HostSeen(host) if host.driver_version == "590.48.01"
        )));
        let live = case.live.snapshot();
        assert!(live.nvml_available && live.gpus.len() == 2 && !live.host.is_empty());
        assert_eq!(live.gpus[1].busy, Some(Reading::Number(70)));
    });
}

#[test]
fn a_polled_track_has_a_point_a_tick() {
    play(&fault_free(), |case| {
        case.restart(|options| {
            options.driver_samples = false;
            options.process_counts = true;
        });
        case.until_reads(FIRST, 5);
        for read in case.reads(FIRST) {
            assert_eq!((read.track.source, read.track.period_ms), (TrackSource::Poll, 200));
            assert_eq!(read.track.points, [(read.at_boot_ms, Reading::Number(40))]);
        }
        assert!(case.column(FIRST, Metric::ComputeProcesses)[0].number().is_some());
    });
}
