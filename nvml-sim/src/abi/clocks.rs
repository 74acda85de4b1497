//! Clocks and what holds them down.

#![expect(unsafe_code, reason = "exports NVML's C interface")]

use leasewatch_core::sample::Metric;

use super::code::{Code, Result};
use super::guard::{guard, put};
use super::layout::{Device, ViolationTime};
use super::read::{Call, View, getters, look, read};
use crate::physics::instant::reason;
use crate::scenario::fault::Group;

const CLOCKS: Call = Call::new(Group::Clocks, 0);
const STATE: Call = CLOCKS.of(Metric::PerformanceState);
const REASONS: Call = Call::new(Group::ClocksEventReasons, 0);
const REASONS_NEW_NAME: Call = Call::new(Group::ClocksEventReasons, 535);

getters! {
    nvmlDeviceGetPerformanceState: u32 = STATE, |view| Ok(view.card.shown.pstate);
    nvmlDeviceGetPowerState: u32 = STATE, |view| Ok(view.card.shown.pstate);
    nvmlDeviceGetCurrentClocksThrottleReasons: u64 = REASONS.of(Metric::ClockEventReasons), |view| {
        Ok(view.card.shown.reasons)
    };
    nvmlDeviceGetCurrentClocksEventReasons: u64 = REASONS_NEW_NAME.of(Metric::ClockEventReasons), |view| {
        Ok(view.card.shown.reasons)
    };
    nvmlDeviceGetSupportedClocksThrottleReasons: u64 = REASONS, |_| Ok(reason::SUPPORTED);
    nvmlDeviceGetSupportedClocksEventReasons: u64 = REASONS_NEW_NAME, |_| Ok(reason::SUPPORTED);
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetClockInfo(
    device: Device,
    domain: u32,
    out: *mut u32,
) -> u32 {
    guard(|| {
        let call = played(domain, Metric::SmClock, Metric::MemoryClock);
        let mhz = read(device, call, |view| {
            let shown = &view.card.shown;
            of_domain(domain, shown.sm_mhz, shown.memory_mhz)
        })?;
        // SAFETY: the caller passes null or a place for one value, as NVML demands.
        unsafe { put(out, mhz) }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetMaxClockInfo(
    device: Device,
    domain: u32,
    out: *mut u32,
) -> u32 {
    guard(|| {
        let call = played(domain, Metric::SmClockMax, Metric::MemoryClockMax);
        let mhz = read(device, call, |view| {
            let board = &view.card.board;
            of_domain(domain, board.max_sm_mhz, board.max_memory_mhz)
        })?;
        // SAFETY: the caller passes null or a place for one value, as NVML demands.
        unsafe { put(out, mhz) }
    })
}

/// Only the current clocks; application clocks are refused as drivers from 590 on do.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetApplicationsClock(
    device: Device,
    domain: u32,
    out: *mut u32,
) -> u32 {
    guard(|| {
        let mhz = look(device, CLOCKS, |view| {
            if view.session.driver.major >= 590 {
                return Err(Code::DEPRECATED);
            }
            let board = &view.card.board;
            of_domain(domain, board.max_sm_mhz, board.max_memory_mhz)
        })?;
        // SAFETY: the caller passes null or a place for one value, as NVML demands.
        unsafe { put(out, mhz) }
    })
}

/// Which clock was recorded of a domain: none of the video's, and one for graphics and SMs.
fn played(domain: u32, sm: Metric, memory: Metric) -> Call {
    match domain {
        0 | 1 => CLOCKS.of(sm),
        2 => CLOCKS.of(memory),
        _ => CLOCKS,
    }
}

fn of_domain(domain: u32, sm_mhz: u32, memory_mhz: u32) -> Result<u32> {
    match domain {
        0 | 1 => Ok(sm_mhz),
        2 => Ok(memory_mhz),
        3 => Ok(sm_mhz * 9 / 10),
        _ => Err(Code::INVALID_ARGUMENT),
    }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetViolationStatus(
    device: Device,
    policy: u32,
    out: *mut ViolationTime,
) -> u32 {
    guard(|| {
        let call = Call::new(Group::Violation, 0).by_call();
        let time = look(device, call, |view| {
            let violation_ns = violation_ns(view, policy)?;
            Ok(ViolationTime { reference_us: view.session.now_us(), violation_ns })
        })?;
        // SAFETY: the caller passes null or a place for one value, as NVML demands.
        unsafe { put(out, time) }
    })
}

/// Time in violation of a performance policy (NVML's numbers; fields 74 to 79 are the first six).
pub(super) fn violation_ns(view: &View<'_>, policy: u32) -> Result<u64> {
    if view.card.replay.is_some() {
        let recorded = |metric| view.recorded_as(metric).unwrap_or(Err(Code::NOT_SUPPORTED));
        return match policy {
            0 => recorded(Metric::ThrottleSwPower),
            1 => recorded(Metric::ThrottleSwThermal),
            2 => recorded(Metric::ThrottleSyncBoost),
            _ => Err(Code::NOT_SUPPORTED),
        };
    }
    let bit_ns = |bit| view.card.totals.reason_ns(bit, view.card.ticks_per_second);
    match policy {
        0 => Ok(bit_ns(reason::SW_POWER_CAP)),
        1 => Ok(bit_ns(reason::SW_THERMAL)),
        4 => Ok(bit_ns(reason::IDLE)),
        2 | 3 | 5 | 10 | 11 => Ok(0),
        _ => Err(Code::INVALID_ARGUMENT),
    }
}
