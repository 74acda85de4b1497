//! What the host offers its GPUs: CPU, memory, network, disks, RDMA ports, and which life it lives.
//!
//! Plain files under a root directory, so that tests read a copied tree. In a container the
//! cgroup's share is read, on a host the host's. A file that is not there is `Unsupported`, one
//! that makes no sense is `Error`. No command is run and nothing is written.

mod cpu;
mod disk;
mod file;
mod life_unit;
mod memory;
mod rdma;
mod traffic;

use std::path::{Path, PathBuf};

use leasewatch_core::sample::{HostMetric, Reading};

pub use disk::work_disk;
pub use life_unit::{clock_source, inventory, is_container, life_unit};

/// Readings of one host read, ascending by code once [`HostReader::read`] is done.
type Readings = Vec<(HostMetric, Reading)>;

/// Reads the host. One thread uses it: a file on a hung mount can block it for ever.
#[derive(Debug)]
pub struct HostReader {
    root: PathBuf,
    state_dir: PathBuf,
    container: bool,
    cpu: cpu::CpuShare,
}

impl HostReader {
    /// A reader of the tree at `root` (`/`); `state_dir` is where free space is asked for.
    #[must_use]
    pub fn new(root: &Path, state_dir: &Path) -> Self {
        Self {
            root: root.to_owned(),
            state_dir: state_dir.to_owned(),
            container: is_container(root),
            cpu: cpu::CpuShare::default(),
        }
    }

    /// Reads everything. Ascending by code, numbers within their metric's range. The first read
    /// has no CPU share yet: it needs an interval.
    pub fn read(&mut self, now_boot_ms: i64) -> Vec<(HostMetric, Reading)> {
        let mut out = Vec::with_capacity(HostMetric::ALL.len());
        self.cpu.read(&self.root, self.container, now_boot_ms, &mut out);
        memory::read(&self.root, self.container, &mut out);
        traffic::network(&self.root, &mut out);
        traffic::disks(&self.root, &mut out);
        out.push((HostMetric::DiskFree, disk_free_mib(&self.state_dir)));
        rdma::read(&self.root, &mut out);
        out.push((
            HostMetric::Uptime,
            life_unit::uptime_s(&self.root, self.container, now_boot_ms),
        ));
        for (metric, reading) in &mut out {
            *reading = in_range(*metric, *reading);
        }
        out.sort_unstable_by_key(|(metric, _)| metric.code());
        out
    }
}

fn in_range(metric: HostMetric, reading: Reading) -> Reading {
    match reading {
        Reading::Number(value) if value < metric.lowest() || value > metric.highest() => {
            Reading::Error
        }
        other => other.rounded_to(metric.resolution()),
    }
}

fn disk_free_mib(state_dir: &Path) -> Reading {
    let Ok(space) = rustix::fs::statvfs(state_dir) else { return Reading::Error };
    let bytes = space.f_bavail.saturating_mul(space.f_frsize);
    i64::try_from(bytes >> 20).map_or(Reading::Error, Reading::Number)
}

#[cfg(test)]
mod tests;
