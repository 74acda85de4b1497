//! Which life the node lives, and what it says about itself once.
//!
//! On a host a life is a boot. In a container the boot id belongs to the host, so a life is one
//! run of PID 1. Gaps between two lives have other causes than gaps within one.

use std::path::Path;

use leasewatch_core::id::{Hash, LifeUnitId, clean_text};
use leasewatch_core::sample::Reading;
use leasewatch_core::segment::{HostInventory, LifeUnit, LifeUnitKind};
use leasewatch_core::time::Timestamp;

use super::{cpu, file, memory};
use crate::clock::Anchor;
use crate::source::nvml::Versions;

/// Milliseconds of a tick in `/proc/1/stat`.
const TICK_MS: i64 = 10;

/// The life that the tree at `root` lives at present.
#[must_use]
pub fn life_unit(root: &Path, anchor: Anchor) -> LifeUnit {
    let boot_id = first_line(&root.join("proc/sys/kernel/random/boot_id"));
    let container = is_container(root);
    let id = if container { container_id(root, &boot_id) } else { host_id(&boot_id) };
    let started_at = whole_second(anchor.wall_of(started_boot_ms(root, container).unwrap_or(0)));
    let kind = if container { LifeUnitKind::Container } else { LifeUnitKind::Host };
    LifeUnit { id, kind, boot_id, started_at }
}

/// What the host says about itself; the driver's versions are the NVML session's.
#[must_use]
pub fn inventory(root: &Path, versions: &Versions) -> HostInventory {
    let container = is_container(root);
    let memory_mib = memory::total_bytes(root, container).unwrap_or(0) >> 20;
    HostInventory {
        hostname: hostname(root),
        kernel: first_line(&root.join("proc/sys/kernel/osrelease")),
        cpus: i64::try_from(cpu::host_cpus(root).unwrap_or(0)).unwrap_or(0),
        memory_mib: i64::try_from(memory_mib).unwrap_or(0),
        driver_version: versions.driver.clone(),
        nvml_version: versions.nvml.clone(),
        cuda_version: versions.cuda.clone(),
        container,
    }
}

/// True when the tree looks like the inside of a container.
#[must_use]
pub fn is_container(root: &Path) -> bool {
    let marks = [".dockerenv", "run/.containerenv", "run/systemd/container"];
    if marks.iter().any(|mark| root.join(mark).exists()) {
        return true;
    }
    let runtimes = ["docker", "kubepods", "containerd", "libpod", "lxc"];
    let cgroups = file::text(&root.join("proc/1/cgroup")).unwrap_or_default();
    if runtimes.iter().any(|runtime| cgroups.contains(runtime)) {
        return true;
    }
    let mounts = file::text(&root.join("proc/1/mountinfo")).unwrap_or_default();
    mounts.lines().any(|line| {
        let mut fields = line.split(' ');
        fields.nth(4) == Some("/") && line.contains(" - overlay ")
    })
}

/// Who keeps the wall clock, as far as files tell; `unknown` otherwise. Whether it is right is
/// measured by the server.
#[must_use]
pub fn clock_source(root: &Path) -> &'static str {
    let sources = [
        ("run/chrony", "chrony"),
        ("run/systemd/timesync/synchronized", "systemd-timesyncd"),
        ("run/ntpd.pid", "ntpd"),
        ("run/ptp4l", "ptp4l"),
    ];
    sources.iter().find(|(path, _)| root.join(path).exists()).map_or("unknown", |(_, name)| name)
}

/// Seconds since the life began.
pub(super) fn uptime_s(root: &Path, container: bool, now_boot_ms: i64) -> Reading {
    match started_boot_ms(root, container) {
        Some(started) => Reading::Number(now_boot_ms.saturating_sub(started).max(0) / 1_000),
        None => Reading::Unsupported,
    }
}

/// When the life began on the boot clock: 0 on a host.
fn started_boot_ms(root: &Path, container: bool) -> Option<i64> {
    if container { pid1_start_ticks(root)?.checked_mul(TICK_MS) } else { Some(0) }
}

/// Field 22 of `/proc/1/stat`. The name in field 2 may hold blanks and brackets.
fn pid1_start_ticks(root: &Path) -> Option<i64> {
    let stat = file::text(&root.join("proc/1/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(19)?.parse().ok()
}

fn host_id(boot_id: &str) -> LifeUnitId {
    let digits: String = boot_id.chars().filter(|c| *c != '-').collect();
    digits.parse().unwrap_or_else(|_| hashed(&["host", boot_id]))
}

/// PID 1's start is counted from the boot, so the boot id is part of that time.
fn container_id(root: &Path, boot_id: &str) -> LifeUnitId {
    let start = pid1_start_ticks(root).map(|ticks| ticks.to_string()).unwrap_or_default();
    hashed(&["container", boot_id, &start, &hostname(root)])
}

fn hashed(parts: &[&str]) -> LifeUnitId {
    let Hash(digest) = Hash::of(parts.join("\n").as_bytes());
    let mut id = [0; 16];
    id.copy_from_slice(&digest[..16]);
    LifeUnitId(id)
}

fn hostname(root: &Path) -> String {
    first_line(&root.join("proc/sys/kernel/hostname"))
}

fn first_line(path: &Path) -> String {
    let text = file::text(path).unwrap_or_default();
    clean_text(text.lines().next().unwrap_or_default().trim(), 80)
}

/// The wall clock is not good for more, and the start must not differ between two reads of it.
fn whole_second(at: Timestamp) -> Timestamp {
    Timestamp(at.0.div_euclid(1_000) * 1_000)
}
