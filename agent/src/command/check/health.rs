//! Checks of errors and of what is hidden: ECC, pages, rows, sensors, processes of others.

use leasewatch_core::catalogue::gpu::EccSupport;
use leasewatch_core::sample::{Metric, Reading};

use super::subject::Subject;
use crate::command::finding::Finding;
use crate::source::host::is_container;
use crate::source::nvml::code_text;

/// Counts beyond this are nonsense.
const COUNT_MAX: i64 = 1 << 53;
/// Drivers from this branch on tell memory in use apart from what they reserve.
const MEMORY_V2_BRANCH: u32 = 510;
/// Drivers up to this branch (535.113) tell process ids of the host to a container.
const HOST_PIDS_BRANCH: u32 = 535;
/// Memory that drivers and displays hold without a process, at most.
const UNLISTED_MIB: i64 = 1_024;
/// Readings that every board offers.
const ALWAYS: [Metric; 6] = [
    Metric::PowerDraw,
    Metric::Temperature,
    Metric::SmClock,
    Metric::ClockEventReasons,
    Metric::PowerLimitEnforced,
    Metric::PcieWidth,
];

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    vec![
        ecc_uncorrected(subject),
        pages(subject),
        rows(subject),
        recovery(subject),
        sensors(subject),
        failing(subject),
        memory_foreign(subject),
        processes_foreign(subject),
    ]
}

fn ecc_uncorrected(subject: &Subject<'_>) -> Finding {
    let id = "ecc.uncorrected";
    let counted = |metric| subject.number(metric).filter(|count| *count <= COUNT_MAX);
    let Some(now) = counted(Metric::EccUncorrected) else {
        return Finding::not_readable(id, "not offered by this board or driver");
    };
    let ever = counted(Metric::EccUncorrectedAggregate);
    let ever = ever.map(|count| format!(", {count} in the board's life")).unwrap_or_default();
    Finding::judged(id, now == 0, format!("{now} since the driver was loaded{ever}"))
        .expecting("0")
        .advising("Memory of the GPU is faulty: ask the provider for a reset or another card")
}

/// Boards before Ampere.
fn pages(subject: &Subject<'_>) -> Finding {
    let id = "memory.pages";
    let pages = match subject.look.settings.retired_pages {
        Ok(pages) => pages,
        Err(code) => {
            return Finding::not_readable(id, format!("{}; newer boards remap", code_text(code)));
        }
    };
    let pending = if pages.pending { ", one waits for a reload" } else { "" };
    Finding::judged(id, !pages.pending, format!("{} retired{pending}", pages.count))
        .advising("The driver has to be loaded anew before the page is out of use")
}

/// Boards from Ampere on.
fn rows(subject: &Subject<'_>) -> Finding {
    let id = "memory.rows";
    let (Some(pending), Some(failure)) =
        (subject.number(Metric::RemapPending), subject.number(Metric::RemapFailure))
    else {
        return Finding::not_readable(id, "not offered by this board or driver");
    };
    let count = [Metric::RemappedCorrected, Metric::RemappedUncorrected]
        .iter()
        .filter_map(|metric| subject.number(*metric))
        .sum::<i64>();
    let (state, advice) = match (failure, pending) {
        (0, 0) => ("", ""),
        (0, _) => (", one waits for a reset", "Ask for a reset of the GPU"),
        _ => (", a remap failed", "The card has to be replaced: show it to the provider"),
    };
    Finding::judged(id, state.is_empty(), format!("{count} remapped{state}")).advising(advice)
}

/// What the driver asks for after an error.
fn recovery(subject: &Subject<'_>) -> Finding {
    let id = "recovery.action";
    let Some(action) = subject.number(Metric::RecoveryAction) else {
        return Finding::not_readable(id, "not offered by this driver");
    };
    let words = match action {
        0 => "none",
        1 => "a reset of the GPU",
        2 => "a reboot of the node",
        3 => "draining of peers",
        4 => "draining and a reset",
        5 => "recovery of the IMEX domain",
        _ => "an action that this version does not know",
    };
    Finding::judged(id, action == 0, format!("the driver asks for {words}"))
        .advising("The GPU is not to be trusted until then: report it to the provider")
}

/// Sensors that this class of board has, and that are not offered here.
fn sensors(subject: &Subject<'_>) -> Finding {
    let id = "sensors.masked";
    if subject.is_vgpu() {
        return Finding::not_readable(id, "a virtual GPU, whose driver offers less");
    }
    let hidden = masked(subject);
    if hidden.is_empty() {
        return Finding::ok(id, "none that this class of board offers");
    }
    Finding::differs(id, hidden.join(", "))
        .expecting("readings that this class of board offers")
        .advising("The platform hides them, so nobody can see throttling or heat: ask for them")
}

/// Readings that the driver fails to give, or gives as nonsense.
fn failing(subject: &Subject<'_>) -> Finding {
    let id = "sensors.error";
    let names = failed(subject);
    if names.is_empty() {
        return Finding::ok(id, "none");
    }
    Finding::not_readable(id, names.join(", ")).advising("Look again; see the kernel's log")
}

/// Names of the readings that are errors.
pub(crate) fn failed(subject: &Subject<'_>) -> Vec<&'static str> {
    let is_failed = |reading: Reading| matches!(reading, Reading::Error | Reading::Stale);
    let readings = subject.look.readings.iter().filter(|(_, reading)| is_failed(*reading));
    let busy = subject.look.busy.filter(|busy| is_failed(*busy)).map(|_| "utilization");
    busy.into_iter().chain(readings.map(|(metric, _)| metric.name())).collect()
}

/// Names of the masked sensors.
pub(crate) fn masked(subject: &Subject<'_>) -> Vec<&'static str> {
    let is_hidden = |metric: &Metric| subject.look.reading(*metric) == Some(Reading::Unsupported);
    let mut hidden: Vec<&'static str> =
        expected(subject).iter().filter(|m| is_hidden(m)).map(|m| m.name()).collect();
    if !subject.is_mig() && subject.look.busy == Some(Reading::Unsupported) {
        hidden.insert(0, "utilization");
    }
    hidden
}

fn expected(subject: &Subject<'_>) -> Vec<Metric> {
    let mut expected = ALWAYS.to_vec();
    if subject.driver_branch >= MEMORY_V2_BRANCH {
        expected.insert(0, Metric::MemoryUsed);
    }
    if let Some(model) = subject.model {
        if model.memory_temperature_readable() == Some(true) {
            expected.push(Metric::MemoryTemperature);
        }
        if model.ecc == Some(EccSupport::OnByDefault)
            && subject.look.settings.ecc.is_ok_and(|mode| mode.enabled)
        {
            expected.push(Metric::EccUncorrected);
        }
    }
    expected
}

/// Memory that no listed process holds: another tenant's, or left behind by a process that died.
fn memory_foreign(subject: &Subject<'_>) -> Finding {
    let id = "memory.foreign";
    if subject.is_mig() {
        return Finding::not_readable(id, "in MIG mode processes belong to slices");
    }
    let processes = match &subject.look.settings.processes {
        Ok(processes) => processes,
        Err(code) => return Finding::not_readable(id, code_text(*code)),
    };
    let Some(used) = subject.number(Metric::MemoryUsed) else {
        return Finding::not_readable(id, "the driver does not tell what is used");
    };
    let held: Option<i64> = processes.iter().map(|process| process.memory_mib).sum();
    let Some(held) = held else {
        return Finding::not_readable(id, "the driver does not tell what processes hold");
    };
    let unlisted = used - held;
    let count = processes.len();
    let fits = unlisted <= UNLISTED_MIB;
    let found = match fits {
        true => "what is used is held by listed processes".to_owned(),
        false => format!("{unlisted} MiB of {used} are held by none of {count} listed processes"),
    };
    Finding::judged(id, fits, found)
        .advising("Another tenant uses the card, or memory was left behind: ask for a reset")
}

/// Processes that NVML lists and this system does not have.
fn processes_foreign(subject: &Subject<'_>) -> Finding {
    let id = "processes.foreign";
    if subject.is_simulated {
        return Finding::not_readable(id, "simulated processes");
    }
    let processes = match &subject.look.settings.processes {
        Ok(processes) => processes,
        Err(code) => return Finding::not_readable(id, code_text(*code)),
    };
    if subject.driver_branch <= HOST_PIDS_BRANCH && is_container(subject.root) {
        return Finding::not_readable(
            id,
            "this driver names processes as the container's host does",
        );
    }
    let is_here = |pid: u32| subject.root.join(format!("proc/{pid}")).exists();
    let foreign = processes.iter().filter(|process| !is_here(process.pid)).count();
    let found = format!("{foreign} of {} are not of this system", processes.len());
    Finding::judged(id, foreign == 0, found).expecting("0").advising(
        "Somebody else works on the card, or a container does not see the processes of another",
    )
}
