//! Init, shutdown, versions, and finding devices.

#![expect(unsafe_code, reason = "exports NVML's C interface")]

use std::ffi::c_char;

use super::code::{Code, Result};
use super::guard::{get_text, guard, put, put_text};
use super::layout::Device;
use crate::physics::card::Card;
use crate::physics::mig::MigSlice;
use crate::scenario::fault::Group;
use crate::state::{self, Session, Target};

/// Marks the library as simulated: no real driver has this symbol.
#[unsafe(no_mangle)]
pub(super) extern "C" fn leasewatch_nvml_sim_version() -> u32 {
    crate::VERSION
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn nvmlInit() -> u32 {
    guard(state::init)
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn nvmlInit_v2() -> u32 {
    guard(state::init)
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn nvmlInitWithFlags(_flags: u32) -> u32 {
    guard(state::init)
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn nvmlShutdown() -> u32 {
    guard(state::shutdown)
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn nvmlErrorString(code: u32) -> *const c_char {
    Code(code).text().as_ptr()
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlSystemGetDriverVersion(out: *mut c_char, length: u32) -> u32 {
    guard(|| {
        let session = state::current()?;
        // SAFETY: the caller passes null or `length` bytes, as NVML demands.
        unsafe { put_text(out, length, &session.driver.version) }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlSystemGetNVMLVersion(out: *mut c_char, length: u32) -> u32 {
    guard(|| {
        let driver = &state::current()?.driver;
        let version = format!("{}.{}", driver.cuda / 1_000, driver.version);
        // SAFETY: the caller passes null or `length` bytes, as NVML demands.
        unsafe { put_text(out, length, &version) }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlSystemGetCudaDriverVersion(out: *mut i32) -> u32 {
    guard(|| {
        let session = state::current()?;
        // SAFETY: the caller passes null or a place for one value, as NVML demands.
        unsafe { put(out, session.driver.cuda) }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(out: *mut i32) -> u32 {
    // SAFETY: same contract.
    unsafe { nvmlSystemGetCudaDriverVersion(out) }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlSystemGetProcessName(
    pid: u32,
    out: *mut c_char,
    length: u32,
) -> u32 {
    guard(|| {
        let session = state::current()?;
        let name = super::processes::name(&session, pid).ok_or(Code::NOT_FOUND)?;
        // SAFETY: the caller passes null or `length` bytes, as NVML demands.
        unsafe { put_text(out, length, name) }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetCount_v2(out: *mut u32) -> u32 {
    guard(|| {
        let count = state::current()?.device_count();
        // SAFETY: the caller passes null or a place for one value, as NVML demands.
        unsafe { put(out, u32::try_from(count).map_err(|_| Code::UNKNOWN)?) }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetCount(out: *mut u32) -> u32 {
    // SAFETY: same contract.
    unsafe { nvmlDeviceGetCount_v2(out) }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlGetExcludedDeviceCount(out: *mut u32) -> u32 {
    guard(|| {
        state::current()?.require(450)?;
        // SAFETY: the caller passes null or a place for one value, as NVML demands.
        unsafe { put(out, 0) }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetHandleByIndex_v2(index: u32, out: *mut Device) -> u32 {
    guard(|| {
        let session = state::current()?;
        let slot = usize::try_from(index).ok().and_then(|index| session.slot_at(index));
        let target = opened(&session, slot.ok_or(Code::INVALID_ARGUMENT)?)?;
        // SAFETY: the caller passes null or a place for one handle, as NVML demands.
        unsafe { put(out, target.handle()) }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetHandleByIndex(index: u32, out: *mut Device) -> u32 {
    // SAFETY: same contract.
    unsafe { nvmlDeviceGetHandleByIndex_v2(index, out) }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetHandleByUUID(
    uuid: *const c_char,
    out: *mut Device,
) -> u32 {
    guard(|| {
        let session = state::current()?;
        // SAFETY: the caller passes null or a text, as NVML demands.
        let uuid = unsafe { get_text(uuid) }?;
        let target = match session.find(|card| card.identity.uuid == uuid) {
            Some(slot) => opened(&session, slot)?,
            None => slice_by_uuid(&session, uuid).ok_or(Code::NOT_FOUND)?,
        };
        // SAFETY: the caller passes null or a place for one handle, as NVML demands.
        unsafe { put(out, target.handle()) }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(
    bus_id: *const c_char,
    out: *mut Device,
) -> u32 {
    guard(|| {
        let session = state::current()?;
        // SAFETY: the caller passes null or a text, as NVML demands.
        let bus_id = unsafe { get_text(bus_id) }?;
        let slot = session.find(|card| card.identity.sits_at(bus_id)).ok_or(Code::NOT_FOUND)?;
        let target = opened(&session, slot)?;
        // SAFETY: the caller passes null or a place for one handle, as NVML demands.
        unsafe { put(out, target.handle()) }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetHandleByPciBusId(
    bus_id: *const c_char,
    out: *mut Device,
) -> u32 {
    // SAFETY: same contract.
    unsafe { nvmlDeviceGetHandleByPciBusId_v2(bus_id, out) }
}

/// A handle is only given for a card that answers.
fn opened(session: &Session, slot: usize) -> Result<Target> {
    session.enter(slot, Group::Identity).map(|_| Target::card(slot))
}

fn slice_by_uuid(session: &Session, uuid: &str) -> Option<Target> {
    let matching = |card: &Card| {
        let cut = card.cut()?;
        let named = |slice: &MigSlice| card.slice_uuid(slice) == uuid;
        let (index, slice) = cut.slices().find(|(_, slice)| named(slice))?;
        Some(Target::slice(card.slot, index, slice))
    };
    let slot = session.find(|card| matching(card).is_some())?;
    session.enter(slot, Group::Identity).ok().and_then(|card| matching(&card))
}
