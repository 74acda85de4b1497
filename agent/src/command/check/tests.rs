//! The checks on what public reports show, as far as one look can have shown it.
//!
//! Numbers are those of `nvidia-smi` captures and dumps that people posted (2018 to 2026); what was
//! not posted is what a healthy board of the product says.

use std::collections::BTreeMap;

use leasewatch_core::id::{BusId, GpuUuid};
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::GpuInventory;

use super::super::finding::{Finding, Outcome};
use super::*;
use crate::source::nvml::{
    ComputeMode, EccMode, FoundGpu, GpuProcess, OpenError, Settings, Versions, Virtualization,
};

/// An H100 SXM at idle, as captured: P0, 345 MHz, 69.85 W.
fn idle_h100() -> Look {
    let (uuid, bus_id) = (GpuUuid::new("GPU-1").unwrap(), BusId::new("00000000:18:00.0").unwrap());
    let inventory = GpuInventory {
        uuid: uuid.clone(),
        bus_id: bus_id.clone(),
        index: 0,
        name: "NVIDIA H100 80GB HBM3".to_owned(),
        pci_device_id: 0x2330_10de,
        serial: None,
        vbios: None,
        part_number: None,
        memory_total_mib: Some(81_559),
        power_limit_default_mw: Some(700_000),
        power_limit_management_mw: Some(700_000),
        pcie_generation_max: Some(5),
        pcie_width_max: Some(16),
        mig: false,
        partition: None,
    };
    let readings = [
        (Metric::MemoryUsed, 0),
        (Metric::MemoryTotal, 81_559),
        (Metric::MemoryReserved, 479),
        (Metric::PowerDraw, 69_850),
        (Metric::Temperature, 30),
        (Metric::MemoryTemperature, 38),
        (Metric::SmClock, 345),
        (Metric::ClockEventReasons, 1),
        (Metric::PerformanceState, 0),
        (Metric::PowerLimitEnforced, 700_000),
        (Metric::PowerLimitManagement, 700_000),
        (Metric::PowerLimitDefault, 700_000),
        (Metric::SmClockMax, 1_980),
        (Metric::PcieGeneration, 5),
        (Metric::PcieWidth, 16),
        (Metric::EccUncorrected, 0),
        (Metric::RemapPending, 0),
        (Metric::RemapFailure, 0),
        (Metric::MigMode, 0),
        (Metric::RecoveryAction, 0),
    ];
    Look {
        gpu: FoundGpu { index: 0, uuid, bus_id, inventory },
        busy: Some(Reading::Number(0)),
        readings: readings.map(|(metric, value)| (metric, Reading::Number(value))).to_vec(),
        slices: Vec::new(),
        settings: Settings {
            ecc: Ok(EccMode { enabled: true, pending: true }),
            retired_pages: Err(3),
            compute_mode: Ok(ComputeMode::Default),
            persistence: Ok(true),
            virtualization: Ok(Virtualization::None),
            processes: Ok(Vec::new()),
            links: Err(3),
            xid_events: Ok(true),
            gpm: Ok(true),
        },
    }
}

/// Another product in the same place.
fn named(name: &str, pci_device_id: i64, memory_mib: i64) -> Look {
    let mut look = idle_h100();
    look.gpu.inventory.name = name.to_owned();
    look.gpu.inventory.pci_device_id = pci_device_id;
    look.gpu.inventory.memory_total_mib = Some(memory_mib);
    set(&mut look, Metric::MemoryTotal, Reading::Number(memory_mib));
    look
}

fn set(look: &mut Look, metric: Metric, reading: Reading) {
    look.readings.retain(|(other, _)| *other != metric);
    look.readings.push((metric, reading));
}

fn set_numbers(look: &mut Look, numbers: &[(Metric, i64)]) {
    for (metric, number) in numbers {
        set(look, *metric, Reading::Number(*number));
    }
}

/// Every finding about one GPU by its id, on a measured node.
fn judged(look: &Look, terms: &Terms, root: &Path) -> BTreeMap<&'static str, Finding> {
    let versions = Versions { driver: "580.95.05".to_owned(), ..Versions::default() };
    let survey =
        Survey { origin: Origin::Measured, versions, gpus: Vec::new(), wiring: Vec::new() };
    let node = [look];
    let subject = Subject::new(look, &node, terms, (&survey, root));
    let all = [board::check(&subject), links::check(&subject), load::check(&subject)];
    let all = all.into_iter().flatten().chain(health::check(&subject));
    all.map(|finding| (finding.id, finding)).collect()
}

fn differing(look: &Look) -> Vec<&'static str> {
    let nowhere = Path::new("/nonexistent");
    let all = judged(look, &Terms::default(), nowhere).into_values();
    all.filter(|finding| finding.outcome == Outcome::Differs).map(|finding| finding.id).collect()
}

fn outcome(look: &Look, id: &str) -> Outcome {
    judged(look, &Terms::default(), Path::new("/nonexistent"))[id].outcome
}

#[test]
fn an_idle_h100_in_p0_at_345_mhz_is_well() {
    let mut look = idle_h100();
    look.settings.links = Err(999);
    assert_eq!(differing(&look), [""; 0]);
    assert_eq!(outcome(&look, "nvlink.links"), Outcome::NotReadable, "18 are expected");
}

#[test]
fn a_geforce_under_cuda_in_p2_and_one_at_idle_on_its_first_generation_are_normal() {
    let mut look = named("NVIDIA GeForce RTX 4090", 0x2684_10de, 24_564);
    look.settings.ecc = Ok(EccMode { enabled: false, pending: false });
    look.settings.persistence = Ok(false);
    for metric in [Metric::MemoryTemperature, Metric::EccUncorrected, Metric::RemapPending] {
        set(&mut look, metric, Reading::Unsupported);
    }
    set_numbers(
        &mut look,
        &[
            (Metric::PowerLimitEnforced, 450_000),
            (Metric::PowerLimitManagement, 450_000),
            (Metric::PowerLimitDefault, 450_000),
            (Metric::FanSpeed, 0),
            (Metric::PcieGeneration, 1),
            (Metric::PerformanceState, 8),
            (Metric::ClockEventReasons, 0x4),
        ],
    );
    look.gpu.inventory.pcie_generation_max = Some(4);
    assert_eq!(differing(&look), [""; 0]);
    assert_eq!(outcome(&look, "pcie.generation"), Outcome::NotReadable);
    look.busy = Some(Reading::Number(100));
    look.settings.processes = Ok(vec![]);
    set_numbers(
        &mut look,
        &[
            (Metric::MemoryUsed, 900),
            (Metric::PowerDraw, 440_000),
            (Metric::PcieGeneration, 4),
            (Metric::PerformanceState, 2),
            (Metric::SmClock, 2_520),
            (Metric::SmClockMax, 3_105),
        ],
    );
    assert_eq!(differing(&look), [""; 0]);
    set(&mut look, Metric::PerformanceState, Reading::Number(8));
    assert_eq!(differing(&look), ["pstate.load"]);
}

#[test]
fn utilization_right_after_a_job_is_no_phantom_and_that_of_a_crashed_one_is() {
    // An L40S seconds after attaching: 100 %, no memory, no process, 145 of 350 W.
    let mut fresh = named("NVIDIA L40S", 0x26b9_10de, 46_068);
    fresh.busy = Some(Reading::Number(100));
    set(&mut fresh, Metric::MemoryTemperature, Reading::Unsupported);
    let limits = [
        (Metric::PowerLimitEnforced, 350_000),
        (Metric::PowerLimitManagement, 350_000),
        (Metric::PowerLimitDefault, 350_000),
        (Metric::SmClock, 2_520),
        (Metric::SmClockMax, 2_520),
        (Metric::PowerDraw, 144_970),
    ];
    set_numbers(&mut fresh, &limits);
    assert_eq!(differing(&fresh), [""; 0]);
    // An RTX 5090 after a crashed NCCL job: 100 %, 0 MiB, P0, 114 of 575 W.
    let mut crashed = fresh;
    set_numbers(
        &mut crashed,
        &[(Metric::PowerLimitEnforced, 575_000), (Metric::PowerDraw, 114_000)],
    );
    assert_eq!(outcome(&crashed, "utilization.phantom"), Outcome::Differs);
    crashed.settings.processes = Ok(vec![GpuProcess { pid: 1, memory_mib: Some(0) }]);
    assert_eq!(outcome(&crashed, "utilization.phantom"), Outcome::Ok);
}

#[test]
fn a_card_that_shows_a_part_of_its_memory_and_memory_that_nobody_holds_are_found() {
    let share = named("NVIDIA L20", 0x26ba_10de, 8_376);
    assert!(differing(&share).contains(&"memory.total"));
    let mut zombie = named("Tesla P100-SXM2-16GB", 0x15f9_10de, 16_280);
    set(&mut zombie, Metric::MemoryUsed, Reading::Number(12_799));
    assert_eq!(differing(&zombie), ["memory.foreign"]);
    assert_eq!(outcome(&zombie, "gpu.model"), Outcome::NotReadable, "not in the catalogue");
    zombie.settings.processes = Ok(vec![GpuProcess { pid: 1, memory_mib: None }]);
    assert_eq!(outcome(&zombie, "memory.foreign"), Outcome::NotReadable, "nobody says how much");
}

#[test]
fn a_gpu_without_known_memory_is_listed_and_nothing_of_it_is_guessed() {
    // GB10, driver 580: memory, used memory and limits are [N/A], utilization and power are not.
    let mut look = named("NVIDIA GB10", 0, 1);
    look.gpu.inventory.memory_total_mib = None;
    for metric in [Metric::MemoryTotal, Metric::MemoryUsed, Metric::MemoryReserved] {
        set(&mut look, metric, Reading::Error);
    }
    assert_eq!(differing(&look), [""; 0]);
    for id in ["memory.total", "memory.reserved", "memory.foreign"] {
        assert_eq!(outcome(&look, id), Outcome::NotReadable, "{id}");
    }
}

#[test]
fn mig_takes_utilization_away_and_hides_nothing() {
    let mut look = idle_h100();
    look.gpu.inventory.mig = true;
    look.busy = Some(Reading::Unsupported);
    look.settings.links = Err(999);
    set_numbers(&mut look, &[(Metric::MigMode, 1), (Metric::MemoryUsed, 11_125)]);
    for metric in [Metric::RemapPending, Metric::RemapFailure] {
        set(&mut look, metric, Reading::Unsupported);
    }
    assert_eq!(differing(&look), [""; 0]);
    look.gpu.inventory.mig = false;
    assert!(differing(&look).contains(&"sensors.masked"), "without MIG it should be there");
}

#[test]
fn a_process_that_this_system_does_not_have_is_somebody_else_s() {
    let temp = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(temp.path().join("proc/4711")).unwrap();
    let mut look = idle_h100();
    let of =
        |look: &Look| judged(look, &Terms::default(), temp.path())["processes.foreign"].outcome;
    let process = |pid| GpuProcess { pid, memory_mib: Some(500) };
    look.settings.processes = Ok(vec![process(4_711)]);
    assert_eq!(of(&look), Outcome::Ok);
    look.settings.processes = Ok(vec![process(4_711), process(4_712)]);
    assert_eq!(of(&look), Outcome::Differs);
}

#[test]
fn a_driver_that_does_not_fit_its_library_differs_and_one_that_is_missing_does_not() {
    let of = |code| {
        let error = SurveyError::Open(OpenError::Unavailable(code));
        let findings = findings(Err(&error), &Terms::default(), Path::new("/nonexistent"));
        (findings.counts().differs, exit_code(&findings, Err(&error)))
    };
    assert_eq!(of(18), (1, 1), "updated without a restart");
    for missing in [9, 12] {
        assert_eq!(of(missing), (0, 4));
    }
}

/// Lines of public reports: a card that fell off a rented node, and programs that faulted.
#[test]
fn xids_of_hardware_differ_and_those_of_programs_are_told() {
    let of = |lines: &str, gpus| {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp.path().join("dev")).unwrap();
        std::fs::write(temp.path().join("dev/kmsg"), lines).unwrap();
        let versions = Versions::default();
        let survey = Survey { origin: Origin::Measured, versions, gpus, wiring: Vec::new() };
        let mut findings = Findings::default();
        node::kernel_xids(&survey, temp.path(), &mut findings);
        (findings.counts().differs, findings.text())
    };
    let program = "NVRM: Xid (PCI:0000:18:00): 13, pid=1, name=pt_main_thread, Graphics\n";
    let (differs, text) = of(&program.repeat(16), vec![Ok(idle_h100())]);
    assert!(differs == 0 && text.contains("XID 13 at 0000:18:00, 16 times"), "{text}");
    let lost = "NVRM: Xid (PCI:0000:a1:00): 79, pid=1, name=x, GPU has fallen off the bus.\n";
    let (differs, text) = of(lost, vec![Ok(idle_h100())]);
    assert!(differs == 1 && text.contains("a place without a GPU now"), "{text}");
    assert_eq!(of("nothing of it\n", Vec::new()).0, 0);
}

#[test]
fn every_id_stands_once_and_in_the_operator_s_document() {
    let document = include_str!("../../../../docs/OPERATIONS.md");
    let ids: Vec<_> = judged(&idle_h100(), &Terms::default(), Path::new("/")).into_keys().collect();
    assert_eq!(ids.len(), 25);
    let of_node = [
        "driver.library",
        "driver.match",
        "gpu.count",
        "gpu.answers",
        "topology.path",
        "kernel.xid",
    ];
    for id in ids.into_iter().chain(of_node) {
        assert!(document.contains(&format!("`{id}`")), "{id} is not in docs/OPERATIONS.md");
    }
}
