//! MIG: mode, slices and their handles.

#![expect(unsafe_code, reason = "exports NVML's C interface")]

use leasewatch_core::sample::Metric;

use super::code::{Code, Result};
use super::guard::{guard, put};
use super::layout::{Device, DeviceAttributes};
use super::read::{Call, View, getters, look, supported};
use crate::physics::mig::MigSlice;
use crate::scenario::fault::Group;
use crate::state::{self, Target};

const MIG: Call = Call::new(Group::Mig, 450);
const SLICE: Call = Call::with_slices(Group::Mig, 450).by_call();

getters! {
    /// How many there can be, not how many there are.
    nvmlDeviceGetMaxMigDeviceCount: u32 = MIG.by_call(), |view| {
        if let Some(replay) = &view.card.replay {
            return replay.recording.most_slices().ok_or(Code::NOT_SUPPORTED);
        }
        Ok(view.card.board.model.mig_slices.and_then(|slices| u32::try_from(slices).ok()).unwrap_or(0))
    };
    nvmlDeviceGetGpuInstanceId: u32 = SLICE, |view| Ok(slice(view)?.gpu_instance);
    nvmlDeviceGetComputeInstanceId: u32 = SLICE, |view| Ok(slice(view)?.compute_instance);
}

fn slice(view: &View<'_>) -> Result<MigSlice> {
    view.slice.map(|(_, slice)| slice).ok_or(Code::NOT_SUPPORTED)
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetMigMode(
    device: Device,
    current: *mut u32,
    pending: *mut u32,
) -> u32 {
    guard(|| {
        let mode = |view: &View<'_>| {
            let simulated = || supported(view.card.board.model.mig(), view.mig_on().into());
            match view.recorded_as(Metric::MigMode) {
                // A capture without the card itself; its slices tell.
                Some(Err(Code::NOT_SUPPORTED)) if view.mig_on() => Ok(1),
                recorded => recorded.unwrap_or_else(simulated),
            }
        };
        let on: u32 = look(device, MIG.by_call(), mode)?;
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
        let target = look(device, MIG.by_call(), |view| {
            let cut = view.card.cut().ok_or(Code::NOT_SUPPORTED)?;
            let slice = cut.at(index).ok_or(Code::NOT_FOUND)?;
            Ok(Target::slice(view.card.slot, index, slice))
        })?;
        // SAFETY: the caller passes null or a place for one handle, as NVML demands.
        unsafe { put(out, target.handle()) }
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
            let slice = slice(view)?;
            if view.card.replay.is_some() {
                return Ok(recorded(view, slice));
            }
            Ok(DeviceAttributes {
                multiprocessors: 16 * slice.compute_slices,
                copy_engines: 1,
                decoders: 1,
                encoders: 0,
                jpeg: 1,
                ofa: 0,
                gpu_slices: slice.gpu_slices,
                compute_slices: slice.compute_slices,
                memory_mb: view.share_of(u64::from(view.card.board.memory_mib)),
            })
        })?;
        // SAFETY: the caller passes null or a place for one value, as NVML demands.
        unsafe { put(out, attributes) }
    })
}

/// A recording names compute slices and memory; the rest is NVML's "not available".
fn recorded(view: &View<'_>, slice: MigSlice) -> DeviceAttributes {
    const NOT_AVAILABLE: u32 = u32::MAX;
    let memory_mb = view.recorded_as(Metric::MemoryTotal).and_then(Result::ok);
    DeviceAttributes {
        multiprocessors: NOT_AVAILABLE,
        copy_engines: NOT_AVAILABLE,
        decoders: NOT_AVAILABLE,
        encoders: NOT_AVAILABLE,
        jpeg: NOT_AVAILABLE,
        ofa: NOT_AVAILABLE,
        gpu_slices: slice.gpu_slices,
        compute_slices: slice.compute_slices,
        memory_mb: memory_mb.unwrap_or(u64::MAX),
    }
}
