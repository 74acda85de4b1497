//! Memory in use and allowed, of the cgroup in a container, of the host otherwise.

use std::path::Path;

use leasewatch_core::sample::{HostMetric, Reading};
use procfs::{FromRead, Meminfo};

use super::{Readings, file};

/// Bytes in use and allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Memory {
    used: u64,
    total: u64,
}

pub(super) fn read(root: &Path, container: bool, out: &mut Readings) {
    let memory = match (host(root), container) {
        (Ok(host), true) => Ok(cgroup(root, host).unwrap_or(host)),
        (host, _) => host,
    };
    out.push((HostMetric::MemoryUsed, file::reading(memory.map(|memory| memory.used >> 20))));
    out.push((HostMetric::MemoryTotal, file::reading(memory.map(|memory| memory.total >> 20))));
}

/// Bytes of memory that the host or cgroup has.
pub(super) fn total_bytes(root: &Path, container: bool) -> Option<u64> {
    let host = host(root).ok()?;
    let memory = if container { cgroup(root, host).unwrap_or(host) } else { host };
    Some(memory.total)
}

fn host(root: &Path) -> Result<Memory, Reading> {
    let path = root.join("proc/meminfo");
    // Ask the file system first: the parser does not tell absence from nonsense.
    file::text(&path)?;
    let info = Meminfo::from_file(&path).map_err(|_| Reading::Error)?;
    let available = info.mem_available.ok_or(Reading::Error)?;
    let used = info.mem_total.checked_sub(available).ok_or(Reading::Error)?;
    Ok(Memory { used, total: info.mem_total })
}

/// The cgroup's memory without page cache that can be dropped at once. A limit above the host's
/// memory is no limit.
fn cgroup(root: &Path, host: Memory) -> Option<Memory> {
    let cgroup = root.join("sys/fs/cgroup");
    let v1 = cgroup.join("memory");
    let (current, limit, cache) = if let Ok(current) = file::number(&cgroup.join("memory.current"))
    {
        let limit = file::number(&cgroup.join("memory.max")).unwrap_or(u64::MAX);
        (current, limit, file::keyed_number(&cgroup.join("memory.stat"), "inactive_file"))
    } else {
        let current = file::number(&v1.join("memory.usage_in_bytes")).ok()?;
        let limit = file::number(&v1.join("memory.limit_in_bytes")).unwrap_or(u64::MAX);
        (current, limit, file::keyed_number(&v1.join("memory.stat"), "total_inactive_file"))
    };
    let used = current.saturating_sub(cache.unwrap_or(0));
    Some(Memory { used, total: limit.min(host.total) })
}
