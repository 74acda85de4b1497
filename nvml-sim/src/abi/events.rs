//! Event sets.

#![expect(unsafe_code, reason = "exports NVML's C interface")]

use super::code::{Code, Result};
use super::guard::{guard, put};
use super::layout::{Device, EventData, EventSetHandle};
use super::read::{Call, getters, look};
use crate::physics::card::event_type;
use crate::scenario::fault::Group;
use crate::state;

const EVENTS: Call = Call::new(Group::Events, 0).by_call();

getters! {
    nvmlDeviceGetSupportedEventTypes: u64 = EVENTS, |_| Ok(event_type::SUPPORTED);
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlEventSetCreate(out: *mut EventSetHandle) -> u32 {
    guard(|| {
        let session = state::current()?;
        if out.is_null() {
            return Err(Code::INVALID_ARGUMENT);
        }
        // SAFETY: the caller passes null or a place for one handle, as NVML demands.
        unsafe { put(out, session.events.create()) }
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn nvmlEventSetFree(set: EventSetHandle) -> u32 {
    guard(|| state::current()?.events.free(set))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn nvmlDeviceRegisterEvents(
    device: Device,
    types: u64,
    set: EventSetHandle,
) -> u32 {
    guard(|| {
        if types & !event_type::SUPPORTED != 0 {
            return Err(Code::NOT_SUPPORTED);
        }
        let slot = look(device, EVENTS, |view| Ok(view.card.slot))?;
        state::current()?.events.register(set, slot, types)
    })
}

/// Blocks until an event comes or the time is over. The first form, without MIG instances.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlEventSetWait(
    set: EventSetHandle,
    out: *mut EventData,
    timeout_ms: u32,
) -> u32 {
    // SAFETY: same contract; the instances are written as "none".
    guard(|| unsafe { wait(set, out, timeout_ms, false) })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlEventSetWait_v2(
    set: EventSetHandle,
    out: *mut EventData,
    timeout_ms: u32,
) -> u32 {
    guard(|| {
        state::current()?.require(450)?;
        // SAFETY: same contract.
        unsafe { wait(set, out, timeout_ms, true) }
    })
}

/// # Safety
/// `out` is null or points to a place for one event.
unsafe fn wait(
    set: EventSetHandle,
    out: *mut EventData,
    timeout_ms: u32,
    instances: bool,
) -> Result<()> {
    if out.is_null() {
        return Err(Code::INVALID_ARGUMENT);
    }
    let (target, event) = state::current()?.wait_event(set, timeout_ms)?;
    let data = EventData {
        device: target.handle(),
        kind: event.kind,
        data: event.data,
        gpu_instance: if instances { event.gpu_instance } else { u32::MAX },
        compute_instance: if instances { event.compute_instance } else { u32::MAX },
    };
    // SAFETY: as promised.
    unsafe { put(out, data) }
}
