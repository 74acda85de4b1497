//! Checks of what the GPU does right now: throttling, P-state, clock, utilization that is none.
//!
//! An instant only. What depends on load is not judged without it.

use leasewatch_core::sample::Metric;

use super::subject::Subject;
use crate::command::finding::Finding;

/// NVML's bits of the reasons that are no normal behaviour at the default limit.
const BAD_REASONS: [(i64, &str); 4] = [
    (0x8, "hardware slowdown"),
    (0x20, "software thermal slowdown"),
    (0x40, "hardware thermal slowdown"),
    (0x80, "external power brake"),
];
/// Reasons that hold a clock down on purpose: applications' clocks, power cap, and those above.
const CLOCK_REASONS: i64 = 0x2 | 0x4 | 0x8 | 0x10 | 0x20 | 0x40 | 0x80 | 0x200 | 0x400;
/// P2 is normal for CUDA on GeForce; from here on a loaded GPU is held back.
const PSTATE_HELD: i64 = 5;
/// Full load, in percent.
const FULL_PCT: i64 = 95;
/// Boost clocks vary; below this share of the highest, under full load and without a reason, the
/// clock is locked.
const CLOCK_PERMILLE: i64 = 700;
/// Work draws more than this share of the limit.
const WORK_PERMILLE: i64 = 350;
/// Work holds more than this share of the memory.
const HELD_PERMILLE: i64 = 10;

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    vec![throttle(subject), pstate(subject), clock(subject), phantom(subject)]
}

fn throttle(subject: &Subject<'_>) -> Finding {
    let id = "throttle.now";
    let Some(reasons) = reasons(subject) else {
        return Finding::not_readable(id, "the driver does not tell reasons");
    };
    let bad: Vec<&str> =
        BAD_REASONS.iter().filter(|(bit, _)| reasons & bit != 0).map(|(_, name)| *name).collect();
    if bad.is_empty() {
        let cap = if reasons & 0x4 == 0 { "" } else { " (the power cap works, which is normal)" };
        return Finding::ok(id, format!("no throttling{cap}"));
    }
    Finding::differs(id, format!("{} (reasons {reasons:#x})", bad.join(", ")))
        .expecting("none")
        .advising("Cooling or power supply of the node: report it to the provider")
}

/// Drivers use the low bits and add one now and then; all bits at once is nonsense.
fn reasons(subject: &Subject<'_>) -> Option<i64> {
    subject.number(Metric::ClockEventReasons).filter(|reasons| *reasons <= i64::from(u32::MAX))
}

fn pstate(subject: &Subject<'_>) -> Finding {
    let id = "pstate.load";
    let Some(state) = subject.number(Metric::PerformanceState) else {
        return Finding::not_readable(id, "the driver does not tell it");
    };
    match subject.is_loaded() {
        Some(true) => Finding::judged(id, state < PSTATE_HELD, format!("P{state} under load"))
            .expecting("P0 to P2")
            .advising("The GPU does not go up under load: check power and temperature"),
        Some(false) => Finding::not_readable(id, "not under load").advising("Check under load"),
        None => Finding::not_readable(id, "utilization is not known"),
    }
}

fn clock(subject: &Subject<'_>) -> Finding {
    let id = "clock.load";
    let (Some(clock), Some(most), Some(busy)) =
        (subject.number(Metric::SmClock), subject.number(Metric::SmClockMax), subject.busy())
    else {
        return Finding::not_readable(id, "clock or utilization is not known");
    };
    if busy < FULL_PCT {
        return Finding::not_readable(id, "not under full load").advising("Check under load");
    }
    let Some(reasons) = reasons(subject) else {
        return Finding::not_readable(id, "the driver does not tell reasons");
    };
    let least = most * CLOCK_PERMILLE / 1_000;
    let found = format!("SM clock {clock} of {most} MHz");
    if reasons & CLOCK_REASONS != 0 {
        return Finding::ok(id, format!("{found}, with a reason ({reasons:#x})"));
    }
    Finding::judged(id, clock >= least, format!("{found} under full load, without a reason"))
        .expecting(format!("at least {least} MHz"))
        .advising("The clock looks locked (nvidia-smi -lgc): reset it with -rgc, or ask")
}

/// 100 % that nothing does: a kernel that hangs, or one that was left behind.
fn phantom(subject: &Subject<'_>) -> Finding {
    let id = "utilization.phantom";
    let Some(busy) = subject.busy() else {
        return Finding::not_readable(id, "utilization is not known");
    };
    if busy < FULL_PCT {
        return Finding::ok(id, "not under full load");
    }
    let (Some(used), Some(total), Some(power), Some(limit), Ok(processes)) = (
        subject.number(Metric::MemoryUsed),
        subject.number(Metric::MemoryTotal),
        subject.number(Metric::PowerDraw),
        subject.number(Metric::PowerLimitEnforced),
        &subject.look.settings.processes,
    ) else {
        return Finding::not_readable(id, "memory, power or processes are not known");
    };
    let holds_memory = used * 1_000 > total * HELD_PERMILLE;
    let draws_power = power * 1_000 >= limit * WORK_PERMILLE;
    if holds_memory || draws_power || !processes.is_empty() {
        return Finding::ok(id, "busy with work");
    }
    let found = format!("{busy} % busy with {used} MiB, no process and {} W", power / 1_000);
    Finding::differs(id, found)
        .expecting("memory, a process or power to go with it")
        .advising("Something hangs on the GPU: look again, then ask for a reset")
}
