//! A log of past days is of the very GPUs that the library shows, and says of each metric whether
//! it can be had exactly as the library does.

use std::collections::BTreeMap;

use leasewatch_core::segment::{Event, EventKind, GpuInventory};
use leasewatch_core::time::Timestamp;
use nvidia_ml_sim::history::{History, story_path};
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::structs::device::FieldId;
use serde_json::Value;

use crate::play::{Scene, play};

/// A day of a story: what was seen of each GPU, and the rows of its first part.
struct Log {
    seen: Vec<GpuInventory>,
    rows: BTreeMap<String, Value>,
}

fn log(scenario: &str) -> Log {
    let until = Timestamp(1_796_004_000_000);
    let mut text = Vec::new();
    History { story: story_path(scenario), until, days: 1 }.write(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let header = lines.next().unwrap();
    assert_eq!(header["origin"], "simulated");
    assert_eq!(header["ended_at"], until.0);
    let part = lines.next().unwrap();
    let events = part["events"].as_array().unwrap();
    // Events stand in the form of an events block, which reads them back.
    let events = events.iter().map(|e| Event::from_json(e.to_string().as_bytes()).unwrap());
    let seen = events.filter_map(|event| match event.kind {
        EventKind::GpuSeen(inventory) => Some(inventory),
        _ => None,
    });
    let rows = part["gpus"].as_array().unwrap().iter();
    let rows = rows.map(|rows| (rows["uuid"].as_str().unwrap().to_owned(), rows.clone()));
    Log { seen: seen.collect(), rows: rows.collect() }
}

macro_rules! same_gpus {
    ($($test:ident = $scenario:literal;)+) => {$(
        #[test]
        fn $test() {
            let name = concat!("history::", stringify!($test));
            play(name, Scene::Named($scenario), |stage| check(&stage.init(), &log($scenario)));
        }
    )+};
}

same_gpus! {
    the_h100_of_the_log_are_those_of_the_library = "demo-h100";
    the_a100_of_the_log_are_those_of_the_library = "demo-a100";
    the_rtx4090_of_the_log_are_those_of_the_library = "demo-rtx4090";
    the_l40s_of_the_log_are_those_of_the_library = "demo-l40s";
    the_h20_of_the_log_are_those_of_the_library = "demo-h20";
    the_v100_and_t4_of_the_log_are_those_of_the_library = "demo-v100-t4";
}

fn check(nvml: &nvml_wrapper::Nvml, log: &Log) {
    assert_eq!(u32::try_from(log.seen.len()).unwrap(), nvml.device_count().unwrap());
    for (index, seen) in (0..).zip(&log.seen) {
        let device = nvml.device_by_index(index).unwrap();
        same_inventory(&device, index, seen);
        let rows = &log.rows[seen.uuid.as_str()];
        for (metric, lane, answers) in support(&device) {
            let cell = &rows[lane][metric];
            let first = cell.as_array().map_or(cell, |cells| &cells[0]);
            match answers {
                true => assert!(first.is_i64(), "{metric} of {}: {first}", seen.name),
                false => assert_eq!(first, "unsupported", "{metric} of {}", seen.name),
            }
        }
    }
}

/// As the agent reads it.
fn same_inventory(device: &Device<'_>, index: u32, seen: &GpuInventory) {
    let pci = device.pci_info().unwrap();
    let number = |answer: Result<u32, NvmlError>| answer.ok().map(i64::from);
    assert_eq!(seen.uuid.as_str(), device.uuid().unwrap());
    assert_eq!(seen.bus_id.as_str(), pci.bus_id);
    assert_eq!(seen.index, i64::from(index));
    assert_eq!(seen.name, device.name().unwrap());
    assert_eq!(seen.pci_device_id, i64::from(pci.pci_device_id));
    assert_eq!(seen.serial, device.serial().ok());
    assert_eq!(seen.vbios, device.vbios_version().ok());
    assert_eq!(seen.part_number, device.board_part_number().ok());
    assert_eq!(seen.power_limit_default_mw, number(device.power_management_limit_default()));
    assert_eq!(seen.pcie_generation_max, number(device.max_pcie_link_gen()));
    assert_eq!(seen.pcie_width_max, number(device.max_pcie_link_width()));
    if let Ok(memory) = device.memory_info() {
        assert_eq!(seen.memory_total_mib, i64::try_from(memory.total >> 20).ok());
    }
}

/// Metrics with their lane in the log, and whether the library answers with a number.
fn support(device: &Device<'_>) -> Vec<(&'static str, &'static str, bool)> {
    const ROW: &str = "each_row";
    const MINUTE: &str = "each_minute";
    let ecc = |error, counter| device.total_ecc_errors(error, counter).is_ok();
    let field = |id| device.field_values_for(&[FieldId(id)]).unwrap().remove(0);
    let has = |id| field(id).and_then(|sample| sample.value).is_ok();
    // The wrapper translates 251 to 253 for drivers that renumbered them.
    vec![
        ("memory_used_mib", ROW, device.memory_info().is_ok()),
        ("power_draw_mw", ROW, device.power_usage().is_ok()),
        ("temperature_c", ROW, device.temperature(TemperatureSensor::Gpu).is_ok()),
        ("sm_clock_mhz", ROW, device.clock_info(Clock::SM).is_ok()),
        ("memory_clock_mhz", ROW, device.clock_info(Clock::Memory).is_ok()),
        ("memory_reserved_mib", MINUTE, device.memory_info().is_ok()),
        ("memory_temperature_c", MINUTE, has(82)),
        ("power_limit_enforced_mw", MINUTE, device.enforced_power_limit().is_ok()),
        ("sm_clock_max_mhz", MINUTE, device.max_clock_info(Clock::SM).is_ok()),
        ("energy_mj", MINUTE, device.total_energy_consumption().is_ok()),
        ("fan_speed_pct", MINUTE, device.fan_speed(0).is_ok()),
        ("encoder_busy_pct", MINUTE, device.encoder_utilization().is_ok()),
        ("mig_mode", MINUTE, device.mig_mode().is_ok()),
        ("pcie_generation", MINUTE, device.current_pcie_link_gen().is_ok()),
        ("pcie_width", MINUTE, device.current_pcie_link_width().is_ok()),
        ("pcie_replays", MINUTE, has(94)),
        ("pcie_tx_kib", MINUTE, has(197)),
        ("nvlink_active_links", MINUTE, device.link_wrapper_for(0).is_active().is_ok()),
        ("nvlink_tx_kib", MINUTE, has(138)),
        ("ecc_corrected_volatile", MINUTE, ecc(MemoryError::Corrected, EccCounter::Volatile)),
        ("ecc_uncorrected_aggregate", MINUTE, ecc(MemoryError::Uncorrected, EccCounter::Aggregate)),
        ("remap_pending", MINUTE, has(144)),
        ("recovery_action", MINUTE, has(230)),
        ("throttle_sw_power_ns", MINUTE, has(74)),
        ("throttle_sw_thermal_ns", MINUTE, has(251)),
        ("throttle_hw_thermal_ns", MINUTE, has(252)),
        ("throttle_hw_power_brake_ns", MINUTE, has(253)),
        ("throttle_sync_boost_ns", MINUTE, has(76)),
        ("sm_active_permille", MINUTE, device.gpm_support().is_ok_and(|has| has)),
    ]
}
