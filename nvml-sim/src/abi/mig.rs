//! MIG: mode, slices and their handles.

#![expect(unsafe_code, reason = "exports NVML's C interface")]

use super::code::Code;
use super::guard::{guard, put};
use super::layout::{Device, DeviceAttributes};
use super::read::{Call, View, getters, look, supported};
use crate::scenario::fault::Group;
use crate::state::{self, Target};

const MIG: Call = Call::new(Group::Mig, 450);
const SLICE: Call = Call::with_slices(Group::Mig, 450);

getters! {
    /// How many there can be, not how many there are.
    nvmlDeviceGetMaxMigDeviceCount: u32 = MIG, |view| {
        Ok(view.card.board.model.mig_slices.and_then(|slices| u32::try_from(slices).ok()).unwrap_or(0))
    };
    nvmlDeviceGetGpuInstanceId: u32 = SLICE, |view| view.slice.ok_or(Code::NOT_SUPPORTED).map(gpu_instance);
    nvmlDeviceGetComputeInstanceId: u32 = SLICE, |view| {
        supported(view.slice.is_some(), 0)
    };
}

/// Instance ids do not begin at 0: 0 to 6 name larger slices.
pub(super) fn gpu_instance(slice: u32) -> u32 {
    slice + 7
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetMigMode(
    device: Device,
    current: *mut u32,
    pending: *mut u32,
) -> u32 {
    guard(|| {
        let mode = |view: &View<'_>| supported(view.card.board.model.mig(), view.mig_on().into());
        let on: u32 = look(device, MIG, mode)?;
        // SAFETY: the caller passes null or places for one value each, as NVML demands.
        unsafe {
            put(current, on)?;
            put(pending, on)
        }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetMigDeviceHandleByIndex(
    device: Device,
    index: u32,
    out: *mut Device,
) -> u32 {
    guard(|| {
        let slot = look(device, MIG, |view| match view.card.active.mig_instances {
            None => Err(Code::NOT_SUPPORTED),
            Some(instances) if index < instances.min(7) => Ok(view.card.slot),
            Some(_) => Err(Code::NOT_FOUND),
        })?;
        // SAFETY: the caller passes null or a place for one handle, as NVML demands.
        unsafe { put(out, Target { slot, slice: Some(index) }.handle()) }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetDeviceHandleFromMigDeviceHandle(
    slice: Device,
    out: *mut Device,
) -> u32 {
    guard(|| {
        let slot = look(slice, SLICE, |view| supported(view.slice.is_some(), view.card.slot))?;
        // SAFETY: the caller passes null or a place for one handle, as NVML demands.
        unsafe { put(out, Target::card(slot).handle()) }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceIsMigDeviceHandle(device: Device, out: *mut u32) -> u32 {
    guard(|| {
        let session = state::current()?;
        session.require(450)?;
        let target = session.resolve(device)?;
        // SAFETY: the caller passes null or a place for one value, as NVML demands.
        unsafe { put(out, target.slice.is_some().into()) }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetAttributes_v2(
    device: Device,
    out: *mut DeviceAttributes,
) -> u32 {
    guard(|| {
        let attributes = look(device, SLICE, |view| {
            let memory_mb = u64::from(view.card.board.memory_mib / view.shares());
            supported(
                view.slice.is_some(),
                DeviceAttributes {
                    multiprocessors: 16,
                    copy_engines: 1,
                    decoders: 1,
                    encoders: 0,
                    jpeg: 1,
                    ofa: 0,
                    gpu_slices: 1,
                    compute_slices: 1,
                    memory_mb,
                },
            )
        })?;
        // SAFETY: the caller passes null or a place for one value, as NVML demands.
        unsafe { put(out, attributes) }
    })
}
