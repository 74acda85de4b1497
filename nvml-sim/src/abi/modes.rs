//! Modes that an administrator sets, and fans.

#![expect(unsafe_code, reason = "exports NVML's C interface")]

use std::ffi::c_char;

use leasewatch_core::sample::Metric;

use super::code::Code;
use super::guard::{guard, put, put_text};
use super::layout::Device;
use super::read::{Call, View, getters, look, read, supported};
use crate::scenario::fault::Group;

const MODES: Call = Call::new(Group::Modes, 0);
const FAN: Call = Call::new(Group::Fan, 0);
/// Room for a firmware version that NVML demands of the caller.
const GSP_VERSION_BYTES: u32 = 0x40;

getters! {
    nvmlDeviceGetPersistenceMode: u32 = MODES, |_| Ok(1);
    nvmlDeviceGetComputeMode: u32 = MODES, |_| Ok(0);
    nvmlDeviceGetVirtualizationMode: u32 = MODES, |view| {
        Ok(view.session.virtualization(view.card.slot))
    };
    nvmlDeviceGetFanSpeed: u32 = FAN.of(Metric::FanSpeed), |view| supported(view.card.board.model.has_fan(), fan(view));
    nvmlDeviceGetNumFans: u32 = FAN, |view| Ok(if view.card.board.model.has_fan() { 2 } else { 0 });
}

/// Off below 50 degrees, then in step with the temperature.
fn fan(view: &View<'_>) -> u32 {
    let celsius = view.card.shown.temperature_milli_c / 1_000;
    if celsius < 50 { 0 } else { (celsius - 35).min(100) }
}

/// Both fans turn at the same speed.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetFanSpeed_v2(
    device: Device,
    which: u32,
    out: *mut u32,
) -> u32 {
    guard(|| {
        let call = if which == 0 { FAN.of(Metric::FanSpeed) } else { FAN };
        let speed = read(device, call, |view| {
            supported(view.card.board.model.has_fan(), ())?;
            if which < 2 { Ok(fan(view)) } else { Err(Code::INVALID_ARGUMENT) }
        })?;
        // SAFETY: the caller passes null or a place for one value, as NVML demands.
        unsafe { put(out, speed) }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetGspFirmwareMode(
    device: Device,
    enabled: *mut u32,
    default_mode: *mut u32,
) -> u32 {
    guard(|| {
        look(device, Call::new(Group::Modes, 510), |_| Ok(()))?;
        // SAFETY: the caller passes null or places for one value each, as NVML demands.
        unsafe {
            put(enabled, 1)?;
            put(default_mode, 1)
        }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetGspFirmwareVersion(
    device: Device,
    out: *mut c_char,
) -> u32 {
    guard(|| {
        let call = Call::new(Group::Modes, 510);
        let version = look(device, call, |view| Ok(view.session.driver.version.clone()))?;
        // SAFETY: the caller passes null or 64 bytes, as NVML demands.
        unsafe { put_text(out, GSP_VERSION_BYTES, &version) }
    })
}
