//! Processes on a device. Memory that a fault adds belongs to nobody who is listed.

#![expect(unsafe_code, reason = "exports NVML's C interface")]

use leasewatch_core::sample::Metric;

use super::code::{Code, Result};
use super::guard::{guard, put_list};
use super::layout::{Device, ProcessInfo, ProcessUtilization};
use super::read::{Call, View, look, supported};
use crate::scenario::fault::Group;
use crate::state::Session;

/// Process id of the job on the first card; the next card's is one higher. Above Linux's default
/// highest id, so that it never names a process of the host by accident.
const FIRST_PID: u32 = 4_200_000;
const MIB: u64 = 1 << 20;
const LISTS: Call = Call::with_slices(Group::Processes, 510);

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: Device,
    count: *mut u32,
    infos: *mut ProcessInfo,
) -> u32 {
    guard(|| {
        let list = look(device, LISTS.by_call(), |view| {
            let simulated = || Ok(job(view).into_iter().collect());
            let recorded = view.recorded_as(Metric::ComputeProcesses);
            recorded.map_or_else(simulated, |count| Ok(nameless(view, count?)))
        })?;
        // SAFETY: the caller passes null or a list as long as `count` says, as NVML demands.
        unsafe { put_list(count, infos, list) }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetGraphicsRunningProcesses_v3(
    device: Device,
    count: *mut u32,
    infos: *mut ProcessInfo,
) -> u32 {
    guard(|| {
        look(device, LISTS, |_| Ok(()))?;
        // SAFETY: the caller passes null or a list as long as `count` says, as NVML demands.
        unsafe { put_list(count, infos, Vec::new()) }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetMPSComputeRunningProcesses_v3(
    device: Device,
    count: *mut u32,
    infos: *mut ProcessInfo,
) -> u32 {
    // SAFETY: same contract.
    unsafe { nvmlDeviceGetGraphicsRunningProcesses_v3(device, count, infos) }
}

/// One entry for the job, stamped with the newest sample; "not found" when nothing is newer.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetProcessUtilization(
    device: Device,
    samples: *mut ProcessUtilization,
    count: *mut u32,
    last_seen_us: u64,
) -> u32 {
    guard(|| {
        let call = Call::new(Group::Processes, 384);
        let newer = |view: &View<'_>| utilization(view, last_seen_us);
        let sample = look(device, call, newer)?.ok_or(Code::NOT_FOUND)?;
        // SAFETY: the caller passes null or a list as long as `count` says, as NVML demands.
        unsafe { put_list(count, samples, vec![sample]) }
    })
}

/// The name of a simulated process.
pub(super) fn name(session: &Session, pid: u32) -> Option<&'static str> {
    let slot = usize::try_from(pid.checked_sub(FIRST_PID)?).ok()?;
    session.index_of(slot).map(|_| "python3")
}

/// Processes of which only the number was recorded.
fn nameless(view: &View<'_>, count: u32) -> Vec<ProcessInfo> {
    const NOT_AVAILABLE: u64 = u64::MAX;
    let first = pid(view).saturating_mul(64);
    let one = |at| ProcessInfo {
        pid: first.saturating_add(at),
        used_bytes: NOT_AVAILABLE,
        gpu_instance: u32::MAX,
        compute_instance: u32::MAX,
    };
    (0..count).map(one).collect()
}

/// The job, while it holds memory.
fn job(view: &View<'_>) -> Option<ProcessInfo> {
    let card = view.card;
    let own_mib = card.shown.memory_used_mib.saturating_sub(card.active.foreign_mib);
    (own_mib > 0).then(|| ProcessInfo {
        pid: pid(view),
        used_bytes: view.share_of(u64::from(own_mib) * MIB),
        gpu_instance: view.slice.map_or(u32::MAX, |(_, slice)| slice.gpu_instance),
        compute_instance: view.slice.map_or(u32::MAX, |(_, slice)| slice.compute_instance),
    })
}

fn utilization(view: &View<'_>, last_seen_us: u64) -> Result<Option<ProcessUtilization>> {
    supported(!view.mig_on(), ())?;
    let newest = view.card.samples.back().filter(|_| job(view).is_some());
    let sample = newest.map(|sample| ProcessUtilization {
        pid: pid(view),
        at_us: view.session.host_time_us(sample.at_us),
        sm: sample.instant.busy,
        memory: sample.instant.memory_busy,
        encoder: 0,
        decoder: 0,
    });
    Ok(sample.filter(|sample| sample.at_us > last_seen_us))
}

fn pid(view: &View<'_>) -> u32 {
    FIRST_PID + u32::try_from(view.card.slot).unwrap_or(0)
}
