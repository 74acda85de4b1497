//! Where cards hang in the host: near CPUs and memory, and what two of them have in common.

#![expect(unsafe_code, reason = "exports NVML's C interface")]

use std::ffi::c_ulong;

use super::code::{Code, Result};
use super::guard::{guard, put};
use super::layout::Device;
use super::read::{Call, look};
use crate::scenario::fault::Group;
use crate::state;

const TOPOLOGY: Call = Call::new(Group::Topology, 0);
const MEMORY_AFFINITY: Call = Call::new(Group::Topology, 450);
/// CPUs of each simulated NUMA node.
const NODE_CPUS: u32 = 32;
/// Bits of an entry of NVML's sets.
const WORD_BITS: u32 = c_ulong::BITS;

/// Cards of one NUMA node have that in common, others the system.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetTopologyCommonAncestor(
    device: Device,
    other: Device,
    out: *mut u32,
) -> u32 {
    const NODE: u32 = 40;
    const SYSTEM: u32 = 50;
    guard(|| {
        // Only the first card is asked: one that hangs does not make others hang.
        let other = state::current()?.resolve(other)?;
        let level = look(device, TOPOLOGY, |view| {
            if other.slot == view.card.slot {
                return Err(Code::INVALID_ARGUMENT);
            }
            let node = |slot| view.session.numa_node(slot);
            Ok(if node(view.card.slot) == node(other.slot) { NODE } else { SYSTEM })
        })?;
        // SAFETY: the caller passes null or a place for one value, as NVML demands.
        unsafe { put(out, level) }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetCpuAffinity(
    device: Device,
    words: u32,
    out: *mut c_ulong,
) -> u32 {
    guard(|| {
        let node = numa_node(device, TOPOLOGY)?;
        let first = node.saturating_mul(NODE_CPUS);
        // SAFETY: the caller passes null or `words` entries, as NVML demands.
        unsafe { put_set(out, words, first..first.saturating_add(NODE_CPUS)) }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetMemoryAffinity(
    device: Device,
    words: u32,
    out: *mut c_ulong,
    scope: u32,
) -> u32 {
    guard(|| {
        if scope > 1 {
            return Err(Code::INVALID_ARGUMENT);
        }
        let node = numa_node(device, MEMORY_AFFINITY)?;
        // SAFETY: the caller passes null or `words` entries, as NVML demands.
        unsafe { put_set(out, words, node..node.saturating_add(1)) }
    })
}

fn numa_node(device: Device, call: Call) -> Result<u32> {
    look(device, call, |view| Ok(view.session.numa_node(view.card.slot)))
}

/// # Safety
/// `out` is null or has room for `words` entries.
unsafe fn put_set(out: *mut c_ulong, words: u32, bits: std::ops::Range<u32>) -> Result<()> {
    if out.is_null() || words == 0 {
        return Err(Code::INVALID_ARGUMENT);
    }
    for word in 0..words {
        let in_word = bits.clone().filter(|bit| bit / WORD_BITS == word);
        let set = in_word.fold(0, |set: c_ulong, bit| set | 1 << (bit % WORD_BITS));
        let at = usize::try_from(word).map_err(|_| Code::UNKNOWN)?;
        // SAFETY: `at` is below `words`, and `out` has room for as many.
        unsafe { put(out.add(at), set)? };
    }
    Ok(())
}
