//! Memory of a device.

#![expect(unsafe_code, reason = "exports NVML's C interface")]

use leasewatch_core::sample::Metric;

use super::code::{Code, Result};
use super::guard::{get, guard, put};
use super::layout::{Device, Memory, MemoryV2};
use super::read::{Call, View, getters, read};
use crate::scenario::fault::Group;

const MIB: u64 = 1 << 20;
/// The second version of a struct of 40 bytes, in NVML's coding.
const MEMORY_V2: u32 = 2 << 24 | 40;

getters! {
    /// The older form, which counts what the driver keeps for itself as used.
    nvmlDeviceGetMemoryInfo: Memory = Call::with_slices(Group::Memory, 0).by_call(), |view| {
        let memory = memory(view)?;
        if view.card.replay.is_some() {
            let reserved = view.recorded_as::<u64>(Metric::MemoryReserved).unwrap_or(Ok(0))? * MIB;
            return Ok(Memory { total: memory.total, free: memory.free, used: memory.used + reserved });
        }
        Ok(Memory { total: memory.total, free: memory.free, used: memory.used + memory.reserved })
    };
    nvmlDeviceGetBAR1MemoryInfo: Memory = Call::new(Group::Memory, 0), |view| {
        let total = u64::from(view.card.board.memory_mib).next_power_of_two() * MIB;
        Ok(Memory { total, free: total - MIB, used: MIB })
    };
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(
    device: Device,
    out: *mut MemoryV2,
) -> u32 {
    guard(|| {
        let call = Call::with_slices(Group::Memory, 510).by_call();
        crate::state::current()?.require(call.since)?;
        // SAFETY: the caller passes null or a struct with its version set, as NVML demands.
        if unsafe { get(out) }?.version != MEMORY_V2 {
            return Err(Code::ARGUMENT_VERSION_MISMATCH);
        }
        let value = read(device, call, memory)?;
        // SAFETY: as above.
        unsafe { put(out, value) }
    })
}

fn memory(view: &View<'_>) -> Result<MemoryV2> {
    let card = view.card;
    if card.replay.is_some() {
        return recorded(view);
    }
    let bytes = |mib: u32| view.share_of(u64::from(mib) * MIB);
    let reserved_mib =
        (card.board.reserved_mib + card.active.reserved_mib).min(card.board.memory_mib);
    let (total, reserved) = (bytes(card.board.memory_mib), bytes(reserved_mib));
    let used = bytes(card.shown.memory_used_mib);
    let free = total.saturating_sub(used).saturating_sub(reserved);
    Ok(MemoryV2 { version: MEMORY_V2, total, reserved, free, used })
}

/// One call for three readings: without the first two there is no answer, and a reserved part that
/// was not recorded is NVML's "not available".
fn recorded(view: &View<'_>) -> Result<MemoryV2> {
    const NOT_AVAILABLE: u64 = u64::MAX;
    let mib = |metric| view.recorded_as::<u64>(metric).unwrap_or(Err(Code::NOT_SUPPORTED));
    let (used, total) = (mib(Metric::MemoryUsed)? * MIB, mib(Metric::MemoryTotal)? * MIB);
    let reserved = mib(Metric::MemoryReserved).map(|mib| mib * MIB);
    let free = total.saturating_sub(used).saturating_sub(reserved.unwrap_or(0));
    let reserved = reserved.unwrap_or(NOT_AVAILABLE);
    Ok(MemoryV2 { version: MEMORY_V2, total, reserved, free, used })
}
