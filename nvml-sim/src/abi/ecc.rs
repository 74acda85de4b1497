//! Memory errors: ECC counters, remapped rows, retired pages.

#![expect(unsafe_code, reason = "exports NVML's C interface")]

use leasewatch_core::sample::Metric;

use super::code::{Code, Result};
use super::guard::{guard, put, put_list};
use super::layout::{Device, RemapHistogram};
use super::read::{Call, View, getters, look, read, supported};
use crate::physics::faults::Remapped;
use crate::scenario::fault::Group;

const ECC: Call = Call::new(Group::Ecc, 0);
const RETIRED: Call = Call::new(Group::RetiredPages, 0);

getters! {
    nvmlDeviceGetRetiredPagesPendingStatus: u32 = RETIRED, |view| {
        supported(view.card.board.retires_pages(), view.card.active.retirement_pending.into())
    };
    nvmlDeviceGetDefaultEccMode: u32 = ECC, |view| {
        supported(view.card.board.has_ecc(), view.card.board.ecc_on().into())
    };
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetEccMode(
    device: Device,
    current: *mut u32,
    pending: *mut u32,
) -> u32 {
    guard(|| {
        let on: u32 = look(device, ECC, |view| {
            supported(view.card.board.has_ecc(), view.card.board.ecc_on().into())
        })?;
        // SAFETY: the caller passes null or places for one value each, as NVML demands.
        unsafe {
            put(current, on)?;
            put(pending, on)
        }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetTotalEccErrors(
    device: Device,
    kind: u32,
    counter: u32,
    out: *mut u64,
) -> u32 {
    guard(|| {
        let call = match (kind, counter) {
            (0, 0) => ECC.of(Metric::EccCorrected),
            (1, 0) => ECC.of(Metric::EccUncorrected),
            (1, 1) => ECC.of(Metric::EccUncorrectedAggregate),
            _ => ECC,
        };
        let count = read(device, call, |view| errors(view, kind, counter))?;
        // SAFETY: the caller passes null or a place for one value, as NVML demands.
        unsafe { put(out, count) }
    })
}

/// All errors are in device memory; the other locations count none.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetMemoryErrorCounter(
    device: Device,
    kind: u32,
    counter: u32,
    location: u32,
    out: *mut u64,
) -> u32 {
    const DEVICE_MEMORY: u32 = 2;
    guard(|| {
        let count = read(device, ECC, |view| match location {
            DEVICE_MEMORY => errors(view, kind, counter),
            0..=7 => errors(view, kind, counter).map(|_| 0),
            _ => Err(Code::INVALID_ARGUMENT),
        })?;
        // SAFETY: the caller passes null or a place for one value, as NVML demands.
        unsafe { put(out, count) }
    })
}

fn errors(view: &View<'_>, kind: u32, counter: u32) -> Result<u64> {
    supported(view.card.board.ecc_on(), ())?;
    match (kind, counter) {
        (0, 0) => Ok(view.card.totals.ecc_corrected),
        (1, 0) => Ok(view.card.totals.ecc_uncorrected),
        (0, 1) => Ok(view.card.ecc_aggregate.0),
        (1, 1) => Ok(view.card.ecc_aggregate.1),
        _ => Err(Code::INVALID_ARGUMENT),
    }
}

/// Not available under MIG, where the histogram still works.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetRemappedRows(
    device: Device,
    corrected: *mut u32,
    uncorrected: *mut u32,
    pending: *mut u32,
    failure: *mut u32,
) -> u32 {
    guard(|| {
        let call = Call::new(Group::RemappedRows, 450).by_call();
        let rows = look(device, call, |view| {
            if view.card.replay.is_some() {
                return recorded_rows(view);
            }
            supported(view.card.board.remaps_rows() && !view.mig_on(), view.card.active.remapped)
        })?;
        // SAFETY: the caller passes null or places for one value each, as NVML demands.
        unsafe {
            put(corrected, rows.corrected)?;
            put(uncorrected, rows.uncorrected)?;
            put(pending, rows.pending.into())?;
            put(failure, rows.failure.into())
        }
    })
}

/// One call for four readings, which are there or not together.
fn recorded_rows(view: &View<'_>) -> Result<Remapped> {
    let number = |metric| view.recorded_as(metric).unwrap_or(Err(Code::NOT_SUPPORTED));
    Ok(Remapped {
        corrected: number(Metric::RemappedCorrected)?,
        uncorrected: number(Metric::RemappedUncorrected)?,
        pending: number(Metric::RemapPending)? != 0,
        failure: number(Metric::RemapFailure)? != 0,
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetRowRemapperHistogram(
    device: Device,
    out: *mut RemapHistogram,
) -> u32 {
    guard(|| {
        let histogram = look(device, Call::new(Group::RemappedRows, 455), |view| {
            supported(view.card.board.remaps_rows(), histogram(view))
        })?;
        // SAFETY: the caller passes null or a place for one value, as NVML demands.
        unsafe { put(out, histogram) }
    })
}

/// Each remapped row lies in a bank of its own; a failure means that one bank has none left.
fn histogram(view: &View<'_>) -> RemapHistogram {
    let hbm = view.card.board.model.memory_temperature_readable() == Some(true);
    let banks: u32 = if hbm { 2_560 } else { 192 };
    let rows = view.card.active.remapped;
    let none = u32::from(rows.failure);
    let high = rows.corrected.saturating_add(rows.uncorrected).min(banks - none);
    RemapHistogram { max: banks - none - high, high, partial: 0, low: 0, none }
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetRetiredPages(
    device: Device,
    cause: u32,
    count: *mut u32,
    addresses: *mut u64,
) -> u32 {
    guard(|| {
        let pages = look(device, RETIRED, |view| retired(view, cause))?;
        // SAFETY: the caller passes null or a list as long as `count` says, as NVML demands.
        unsafe { put_list(count, addresses, pages) }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetRetiredPages_v2(
    device: Device,
    cause: u32,
    count: *mut u32,
    addresses: *mut u64,
    times: *mut u64,
) -> u32 {
    guard(|| {
        let call = Call::new(Group::RetiredPages, 410);
        let (pages, now_us) =
            look(device, call, |view| Ok((retired(view, cause)?, view.session.now_us())))?;
        let stamps = vec![now_us / 1_000_000; pages.len()];
        // SAFETY: the caller passes null or lists as long as `count` says, as NVML demands. The
        // first list leaves `count` at the number of pages, so the second is no longer.
        unsafe {
            put_list(count, addresses, pages)?;
            put_list(count, times, stamps)
        }
    })
}

/// Addresses of the pages that were retired for a cause; all of them for double bit errors.
fn retired(view: &View<'_>, cause: u32) -> Result<Vec<u64>> {
    const PAGE: u64 = 0x1000;
    supported(view.card.board.retires_pages(), ())?;
    match cause {
        0 => Ok(Vec::new()),
        1 => Ok((1..=u64::from(view.card.active.retired_pages)).map(|at| at * PAGE).collect()),
        _ => Err(Code::INVALID_ARGUMENT),
    }
}
