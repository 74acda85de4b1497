use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::time::{Period, Timestamp, Zone};

use super::*;

const A100: &str = include_str!("../../../tests/fixtures/smi-a100-mig-535.xml");
const A10G: &str = include_str!("../../../tests/fixtures/smi-a10g-515.xml");
const RTX: &str = include_str!("../../../tests/fixtures/smi-rtxpro6000-580.xml");

fn reader() -> Reader<'static> {
    let credible = Period::new(Timestamp(1_500_000_000_000), Timestamp(1_800_000_000_000));
    Reader { columns: None, zone: Zone::UTC, credible, progress: None }
}

fn read(text: &str) -> ImportLog {
    assert!(is_xml(text));
    parse(text, reader()).unwrap()
}

/// MIG devices are no GPUs, and a file that lists fewer GPUs than it says is not complete.
#[test]
fn a_mig_gpu_is_one_gpu_with_unknown_utilization() {
    let log = read(A100);
    let [gpu] = log.gpus.as_slice() else { panic!("{log:?}") };
    let row = &gpu.rows[0];
    assert_eq!(row.at.to_string(), "2023-08-04T11:44:30.000Z");
    assert_eq!(row.busy, Reading::Unsupported);
    assert_eq!(row.reading(Metric::MemoryTotal), Some(Reading::Number(81_920)));
    assert_eq!(row.reading(Metric::PowerDraw), Some(Reading::Number(67_000)));
    assert_eq!(row.reading(Metric::PowerLimitEnforced), Some(Reading::Number(500_000)));
    assert_eq!(row.reading(Metric::ClockEventReasons), Some(Reading::Number(0)));
    assert_eq!(gpu.inventory.name, "NVIDIA A100-SXM4-80GB");
    assert_eq!(gpu.inventory.bus_id.as_str(), "00000000:01:00.0");
    assert_eq!(gpu.inventory.vbios.as_deref(), Some("92.00.36.00.02"));
    assert_eq!(gpu.inventory.serial.as_deref(), Some("0000000000000"));
    assert_eq!(gpu.inventory.part_number.as_deref(), Some("692-2G506-0212-002"));
    assert_eq!(gpu.inventory.pci_device_id, 0x20b2_10de);
    assert_eq!(gpu.inventory.pcie_generation_max, Some(4));
    assert_eq!(gpu.inventory.pcie_width_max, Some(16));
    assert_eq!(gpu.inventory.power_limit_default_mw, Some(500_000));
    assert!(gpu.inventory.mig);
    assert_eq!(log.problems.count, 1);
    assert!(
        log.problems.first[0].fault.to_string().contains("says 4 GPUs and lists 1"),
        "{}",
        log.problems
    );
}

/// the schema before, with its names for throttle reasons and power.
#[test]
fn the_schema_of_older_drivers_is_read() {
    let log = read(A10G);
    let row = &log.gpus[0].rows[0];
    assert_eq!(row.busy, Reading::Number(0));
    assert_eq!(row.reading(Metric::ClockEventReasons), Some(Reading::Number(1)), "idle");
    assert_eq!(row.reading(Metric::PerformanceState), Some(Reading::Number(8)));
    assert_eq!(row.reading(Metric::FanSpeed), Some(Reading::Number(0)), "0 % is a reading");
    assert_eq!(row.reading(Metric::PowerDraw), Some(Reading::Number(25_600)));
    assert_eq!(row.reading(Metric::PowerLimitEnforced), Some(Reading::Number(300_000)));
    assert_eq!(row.reading(Metric::PcieWidth), Some(Reading::Number(8)));
    assert_eq!(log.gpus[0].inventory.pcie_width_max, Some(16));
    assert!(!log.gpus[0].inventory.mig);
}

/// A snapshot that has no time of its own cannot be a row; with one, its power is the instant one,
/// and margins to limits are no temperatures.
#[test]
fn only_the_instant_power_is_there() {
    let log = read(RTX);
    assert!(log.gpus.is_empty());
    assert!(log.problems.first[0].fault.to_string().contains("no timestamp"), "{}", log.problems);
    let timed = RTX.replace(
        "<nvidia_smi_log>",
        "<nvidia_smi_log><timestamp>Sat Aug  1 03:59:40 2026</timestamp>",
    );
    let log = read(&timed);
    let row = &log.gpus[0].rows[0];
    assert_eq!(row.reading(Metric::PowerDraw), Some(Reading::Number(66_800)));
    assert_eq!(row.reading(Metric::Temperature), Some(Reading::Number(37)));
    assert_eq!(row.reading(Metric::MemoryTemperature), Some(Reading::Unsupported));
    assert_eq!(row.reading(Metric::FanSpeed), Some(Reading::Number(40)));
    assert_eq!(row.busy, Reading::Unsupported);
    assert_eq!(log.gpus[0].inventory.bus_id.as_str(), "00000000:01:00.0");
}

#[test]
fn snapshots_behind_each_other_are_a_series() {
    let later = A10G.replace("16:11:51", "16:12:51");
    let log = read(&format!("{A10G}\n{later}"));
    assert_eq!(log.gpus[0].rows.len(), 2);
}

#[test]
fn a_snapshot_cut_anywhere_gives_what_is_whole() {
    let whole = read(A10G);
    let end = A10G.find("</gpu>").unwrap();
    for at in (0..A10G.len()).step_by(7).filter(|at| A10G.is_char_boundary(*at)) {
        let log = parse(&A10G[..at], reader()).unwrap();
        if at >= end + "</gpu>".len() {
            assert_eq!(log.gpus, whole.gpus, "{at}");
        } else {
            assert!(log.gpus.is_empty(), "{at}");
        }
        assert!(log.problems.count > 0 || at < 60 || at >= A10G.trim_end().len(), "{at}");
    }
}

#[test]
fn hostile_documents_end() {
    let deep = "<a>".repeat(100_000);
    assert_eq!(parse(&deep, reader()).unwrap().problems.first[0].fault, LineFault::XmlTooDeep);
    let bomb =
        "<!DOCTYPE l [<!ENTITY a \"b\"><!ENTITY c \"&a;&a;\">]><l><gpu><uuid>&c;</uuid></gpu></l>";
    assert!(parse(bomb, reader()).unwrap().gpus.is_empty());
}
