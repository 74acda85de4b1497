//! How a GPU hangs in its host: near CPUs and memory, NVLink, and the way to the other GPUs.
//!
//! All of it from NVML, so that it is of the origin that the readings are of, and in a container
//! that hides `/sys` as well. What does not answer has its reason.

use std::collections::BTreeMap;
use std::fmt::Write;

use leasewatch_core::segment::{
    Found, GpuPaths, GpuWiring, NvlinkGroup, NvlinkRemote, PathLevel, Unread, limits,
};
use nvml_wrapper::Device;
use nvml_wrapper::enum_wrappers::device::TopologyLevel;
use nvml_wrapper::error::NvmlError;

use super::settings::links;
use super::{Answer, Failure, FoundGpu, NvlinkLink, Session};
use crate::source::nvml_raw;

/// Entries of NVML's sets of CPUs and of NUMA nodes: room for 1024 of them.
const SET_WORDS: usize = 16;
/// NVML's scope of an affinity: a NUMA node.
const SCOPE_NODE: u32 = 0;

impl Session {
    /// Looks how one GPU hangs in its host. `others` are all GPUs that were found with it.
    ///
    /// # Errors
    /// [`Failure`] when its handle cannot be had.
    pub fn wiring(&self, gpu: &FoundGpu, others: &[FoundGpu]) -> Result<GpuWiring, Failure> {
        let device = self.device(gpu)?;
        Ok(GpuWiring {
            numa_nodes: set(device.memory_affinity(SET_WORDS, SCOPE_NODE)),
            cpus: set(device.cpu_affinity(SET_WORDS)),
            nvlinks: nvlinks(&device),
            paths: self.paths((gpu, &device), others),
        })
    }

    fn paths(&self, (gpu, device): (&FoundGpu, &Device<'_>), others: &[FoundGpu]) -> Vec<GpuPaths> {
        let mut by_level: BTreeMap<_, GpuPaths> = BTreeMap::new();
        let mut behind: Vec<&FoundGpu> =
            others.iter().filter(|other| other.bus_id > gpu.bus_id).collect();
        behind.sort_by(|a, b| a.bus_id.cmp(&b.bus_id));
        behind.dedup_by(|a, b| a.bus_id == b.bus_id);
        for other in behind.into_iter().take(limits::GPUS) {
            let level = match self.device(other) {
                Ok(other) => read(device.topology_common_ancestor(other)).map(level_of),
                Err(_) => Err(Unread::Failed),
            };
            let paths = by_level.entry((level.is_err(), level.ok(), level.err()));
            let none = || GpuPaths { level, bus_ids: Vec::new() };
            paths.or_insert_with(none).bus_ids.push(other.bus_id.clone());
        }
        by_level.into_values().collect()
    }
}

fn read<T>(answer: Result<T, NvmlError>) -> Found<T> {
    answer.map_err(|error| unread(nvml_raw::code_of(error)))
}

fn unread(code: u32) -> Unread {
    match (code, Failure::from_code(code)) {
        (4, _) => Unread::Denied,
        (_, Failure::Unsupported) => Unread::Unsupported,
        _ => Unread::Failed,
    }
}

fn level_of(level: TopologyLevel) -> PathLevel {
    match level {
        TopologyLevel::Internal => PathLevel::Board,
        TopologyLevel::Single => PathLevel::Switch,
        TopologyLevel::Multiple => PathLevel::Switches,
        TopologyLevel::HostBridge => PathLevel::HostBridge,
        TopologyLevel::Node => PathLevel::NumaNode,
        TopologyLevel::System => PathLevel::System,
    }
}

fn nvlinks(device: &Device<'_>) -> Found<Vec<NvlinkGroup>> {
    let all = match links(device) {
        Ok(all) => all,
        // A board without NVLink answers so to the question for their number.
        Err(code) if unread(code) == Unread::Unsupported => return Ok(Vec::new()),
        Err(code) => return Err(unread(code)),
    };
    let mut groups: Vec<NvlinkGroup> = Vec::new();
    for link in &all {
        let one = properties(device, link);
        let known =
            groups.iter_mut().find(|group| NvlinkGroup { count: 1, ..(*group).clone() } == one);
        match known {
            Some(group) => group.count += 1,
            None => groups.push(one),
        }
    }
    groups.sort_unstable();
    Ok(groups)
}

fn properties(device: &Device<'_>, link: &NvlinkLink) -> NvlinkGroup {
    let wrapper = device.link_wrapper_for(link.link);
    let remote = match nvml_raw::nvlink_remote(device, link.link) {
        Ok(0) => NvlinkRemote::Gpu,
        Ok(1) => NvlinkRemote::Cpu,
        Ok(2) => NvlinkRemote::Switch,
        Ok(_) | Err(_) => NvlinkRemote::Unknown,
    };
    let speed: Answer<i64> = link.speed_mb_s;
    NvlinkGroup {
        count: 1,
        up: link.active,
        version: wrapper.version().ok().map(i64::from),
        // Below zero or nothing at all is no speed.
        speed_mb_s: speed.ok().filter(|speed| link.active && *speed > 0),
        remote,
    }
}

/// A set of numbers as bits, as Linux writes lists. An empty one says nothing.
fn set(words: Result<Vec<std::ffi::c_ulong>, NvmlError>) -> Found<String> {
    let words = read(words)?;
    let width = std::ffi::c_ulong::BITS;
    let mut numbers = Vec::new();
    for (at, word) in (0_u32..).zip(words) {
        numbers.extend((0..width).filter(|bit| word >> bit & 1 == 1).map(|bit| at * width + bit));
    }
    match list(&numbers) {
        text if text.is_empty() => Err(Unread::Unsupported),
        text if text.len() > limits::TEXT_CHARS => Err(Unread::Failed),
        text => Ok(text),
    }
}

/// Ascending numbers as Linux writes lists: `0-3,8`, and `0-6:1/2` for each second one.
fn list(mut numbers: &[u32]) -> String {
    let mut text = String::new();
    while let Some((first, rest)) = numbers.split_first() {
        let step = rest.first().map_or(1, |second| second - first);
        let steady = numbers.windows(2).take_while(|pair| pair[1] - pair[0] == step).count();
        // Two numbers with a hole between are no pattern.
        let length = if step > 1 && steady < 2 { 1 } else { steady + 1 };
        let separator = if text.is_empty() { "" } else { "," };
        let last = numbers[length - 1];
        // Writing to a string does not fail.
        let _ = match (length, step) {
            (1, _) => write!(text, "{separator}{first}"),
            (_, 1) => write!(text, "{separator}{first}-{last}"),
            _ => write!(text, "{separator}{first}-{last}:1/{step}"),
        };
        numbers = &numbers[length..];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_read_as_linux_writes_them() {
        let text = |numbers: &[u32]| list(numbers);
        assert_eq!(text(&[]), "");
        assert_eq!(text(&[5]), "5");
        assert_eq!(text(&[0, 1, 2, 3, 8]), "0-3,8");
        assert_eq!(text(&[0, 1, 64, 65]), "0-1,64-65");
        assert_eq!(text(&[0, 2]), "0,2");
        assert_eq!(text(&(0..64).map(|n| n * 2).collect::<Vec<_>>()), "0-126:1/2");
        let words = |words: &[std::ffi::c_ulong]| set(Ok(words.to_vec()));
        assert_eq!(words(&[0b1101, 1]), Ok("0,2-3,64".to_owned()));
        assert_eq!(words(&[0, 0]), Err(Unread::Unsupported));
    }

    #[test]
    fn a_set_that_is_too_long_to_write_is_not_cut() {
        // 0, 1, 3, 6, 10 ..: no two steps are alike.
        let mut words = vec![0; SET_WORDS];
        for number in (0_usize..44).map(|n| n * (n + 1) / 2) {
            words[number / 64] |= 1 << (number % 64);
        }
        assert_eq!(set(Ok(words)), Err(Unread::Failed));
    }
}
