//! Power, its limits, energy and temperatures.

#![expect(unsafe_code, reason = "exports NVML's C interface")]

use leasewatch_core::sample::Metric;

use super::code::{Code, Result};
use super::guard::{get, guard, put};
use super::layout::{Device, MarginTemperature};
use super::read::{Call, View, getters, look, read, supported};
use crate::physics::board::Board;
use crate::physics::instant::{enforced_limit_mw, management_limit_mw};
use crate::scenario::fault::Group;

const LIMITS: Call = Call::new(Group::PowerLimits, 0);

getters! {
    nvmlDeviceGetPowerUsage: u32 = Call::new(Group::Power, 0).of(Metric::PowerDraw), |view| {
        Ok(view.card.shown.power_mw)
    };
    nvmlDeviceGetPowerManagementMode: u32 = LIMITS, |_| Ok(1);
    nvmlDeviceGetPowerManagementLimit: u32 = LIMITS.of(Metric::PowerLimitManagement), |view| {
        Ok(management_limit_mw(&view.card.board, &view.card.active))
    };
    nvmlDeviceGetPowerManagementDefaultLimit: u32 = LIMITS.of(Metric::PowerLimitDefault), |view| {
        Ok(view.card.board.default_limit_mw)
    };
    nvmlDeviceGetEnforcedPowerLimit: u32 = LIMITS.of(Metric::PowerLimitEnforced), |view| {
        Ok(enforced_limit_mw(&view.card.board, &view.card.active))
    };
    nvmlDeviceGetTotalEnergyConsumption: u64 = Call::new(Group::Energy, 384).of(Metric::Energy), |view| {
        Ok(view.card.totals.energy_mj(view.card.ticks_per_second))
    };
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetPowerManagementLimitConstraints(
    device: Device,
    min_mw: *mut u32,
    max_mw: *mut u32,
) -> u32 {
    guard(|| {
        let limits =
            |view: &View<'_>| Ok((view.card.board.min_limit_mw, view.card.board.max_limit_mw));
        let (min, max) = look(device, LIMITS, limits)?;
        // SAFETY: the caller passes null or places for one value each, as NVML demands.
        unsafe {
            put(min_mw, min)?;
            put(max_mw, max)
        }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetTemperature(
    device: Device,
    sensor: u32,
    out: *mut u32,
) -> u32 {
    guard(|| {
        if sensor != 0 {
            return Err(Code::INVALID_ARGUMENT);
        }
        let call = Call::new(Group::Temperature, 0).of(Metric::Temperature);
        let celsius = read(device, call, |view| Ok(view.card.shown.temperature_milli_c / 1_000))?;
        // SAFETY: the caller passes null or a place for one value, as NVML demands.
        unsafe { put(out, celsius) }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetTemperatureThreshold(
    device: Device,
    which: u32,
    out: *mut u32,
) -> u32 {
    guard(|| {
        let call = Call::new(Group::Temperature, 0);
        let celsius = read(device, call, |view| threshold(&view.card.board, which))?;
        // SAFETY: the caller passes null or a place for one value, as NVML demands.
        unsafe { put(out, celsius) }
    })
}

/// Boards that tell margins have no absolute thresholds, except that of their memory.
fn threshold(board: &Board, which: u32) -> Result<u32> {
    const MEMORY_MAX_C: u32 = 95;
    let absolute = !board.tells_margins();
    match which {
        0 => supported(absolute, board.shutdown_c),
        1 => supported(absolute, board.slowdown_c),
        2 => supported(board.model.memory_temperature_readable() == Some(true), MEMORY_MAX_C),
        3 => supported(absolute, board.max_operating_c),
        4..=7 => Err(Code::NOT_SUPPORTED),
        _ => Err(Code::INVALID_ARGUMENT),
    }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetMarginTemperature(
    device: Device,
    out: *mut MarginTemperature,
) -> u32 {
    guard(|| {
        let margin = look(device, Call::new(Group::Temperature, 555), |view| {
            supported(view.card.board.tells_margins(), margin_c(view))
        })?;
        // SAFETY: the caller passes null or a struct with its version set, as NVML demands.
        unsafe {
            let version = get(out)?.version;
            put(out, MarginTemperature { version, margin_c: margin })
        }
    })
}

/// Degrees to the highest operating temperature, negative above it.
fn margin_c(view: &View<'_>) -> i32 {
    let now = i32::try_from(view.card.shown.temperature_milli_c / 1_000).unwrap_or(0);
    i32::try_from(view.card.board.max_operating_c).unwrap_or(0) - now
}
