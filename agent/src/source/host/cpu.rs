//! CPU time against what the cgroup's quota or the host allows.

use std::path::Path;

use leasewatch_core::sample::{HostMetric, Reading};

use super::{Readings, file};

/// `/proc/stat` counts in hundredths of a second on every architecture that Linux runs GPUs on.
const TICK_US: u64 = 10_000;

/// CPU time used up to an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Used {
    at_boot_ms: i64,
    us: u64,
}

/// Turns a growing CPU time into a share of the quota.
#[derive(Debug, Default)]
pub(super) struct CpuShare {
    before: Option<Used>,
}

impl CpuShare {
    pub(super) fn read(
        &mut self,
        root: &Path,
        container: bool,
        now_boot_ms: i64,
        out: &mut Readings,
    ) {
        let quota = quota_millicores(root, container);
        out.push((HostMetric::CpuQuota, file::reading(quota)));
        out.push((HostMetric::CpuThrottled, file::reading(throttled_ms(root, container))));
        let used = match used_us(root, container) {
            Ok(us) => Used { at_boot_ms: now_boot_ms, us },
            Err(reason) => {
                self.before = None;
                out.push((HostMetric::CpuBusy, reason));
                return;
            }
        };
        if let Some(before) = self.before.replace(used) {
            let share = quota.and_then(|quota| permille(before, used, quota).ok_or(Reading::Error));
            out.push((HostMetric::CpuBusy, file::reading(share)));
        }
    }
}

/// Share of the quota, per mille; `None` when time did not pass or the counter went back.
fn permille(before: Used, after: Used, quota_millicores: u64) -> Option<u64> {
    let elapsed_ms = u64::try_from(after.at_boot_ms.checked_sub(before.at_boot_ms)?).ok()?;
    let used_us = after.us.checked_sub(before.us)?;
    // us / (ms * 1000 * cores), per mille, with cores in thousandths.
    used_us.checked_mul(1_000)?.checked_div(elapsed_ms.checked_mul(quota_millicores)?)
}

fn used_us(root: &Path, container: bool) -> Result<u64, Reading> {
    let host = || host_used_us(&root.join("proc/stat"));
    if !container {
        return host();
    }
    let cgroup = root.join("sys/fs/cgroup");
    file::keyed_number(&cgroup.join("cpu.stat"), "usage_usec")
        .or_else(|_| file::number(&cgroup.join("cpuacct/cpuacct.usage")).map(|ns| ns / 1_000))
        .or_else(|_| host())
}

/// user, nice, system, irq and softirq of the first line; idle, iowait and steal are not use.
fn host_used_us(path: &Path) -> Result<u64, Reading> {
    let text = file::text(path)?;
    let mut fields = text.lines().next().unwrap_or_default().split_whitespace();
    if fields.next() != Some("cpu") {
        return Err(Reading::Error);
    }
    let mut ticks = [0_u64; 7];
    for slot in &mut ticks {
        *slot = fields.next().and_then(|field| field.parse().ok()).ok_or(Reading::Error)?;
    }
    let [user, nice, system, _idle, _iowait, irq, softirq] = ticks;
    let busy =
        [user, nice, system, irq, softirq].iter().try_fold(0_u64, |sum, t| sum.checked_add(*t));
    busy.and_then(|ticks| ticks.checked_mul(TICK_US)).ok_or(Reading::Error)
}

fn quota_millicores(root: &Path, container: bool) -> Result<u64, Reading> {
    let host = || host_cpus(root).map(|cpus| cpus * 1_000);
    if !container {
        return host();
    }
    let cgroup = root.join("sys/fs/cgroup");
    if let Ok(text) = file::text(&cgroup.join("cpu.max")) {
        return match text.split_whitespace().collect::<Vec<_>>()[..] {
            ["max", _] => host(),
            [quota, period] => cores(quota, period).ok_or(Reading::Error),
            _ => Err(Reading::Error),
        };
    }
    let v1 = |name| file::text(&cgroup.join("cpu").join(name));
    match (v1("cpu.cfs_quota_us"), v1("cpu.cfs_period_us")) {
        (Ok(quota), Ok(period)) if !quota.starts_with('-') => {
            cores(quota.trim(), period.trim()).ok_or(Reading::Error)
        }
        _ => host(),
    }
}

/// Thousandths of a CPU that `quota` of every `period` is.
fn cores(quota: &str, period: &str) -> Option<u64> {
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    quota.checked_mul(1_000)?.checked_div(period).filter(|millicores| *millicores > 0)
}

/// CPUs of the host, by the lines of `/proc/stat`.
pub(super) fn host_cpus(root: &Path) -> Result<u64, Reading> {
    let text = file::text(&root.join("proc/stat"))?;
    let is_cpu = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    match text.lines().filter(is_cpu).count() {
        0 => Err(Reading::Error),
        cpus => u64::try_from(cpus).map_err(|_| Reading::Error),
    }
}

fn throttled_ms(root: &Path, container: bool) -> Result<u64, Reading> {
    if !container {
        return Err(Reading::Unsupported);
    }
    let cgroup = root.join("sys/fs/cgroup");
    file::keyed_number(&cgroup.join("cpu.stat"), "throttled_usec").map(|us| us / 1_000).or_else(
        |_| {
            file::keyed_number(&cgroup.join("cpu/cpu.stat"), "throttled_time")
                .map(|ns| ns / 1_000_000)
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_of_the_quota() {
        let before = Used { at_boot_ms: 1_000, us: 5_000_000 };
        let after = |ms: i64, us: u64| Used { at_boot_ms: 1_000 + ms, us: 5_000_000 + us };
        assert_eq!(permille(before, after(10_000, 10_000_000), 4_000), Some(250));
        assert_eq!(permille(before, after(10_000, 0), 4_000), Some(0));
        assert_eq!(permille(before, after(10_000, 10_000_000), 500), Some(2_000));
        assert_eq!(permille(before, after(0, 10), 4_000), None);
        assert_eq!(permille(after(10, 10), after(20, 9), 4_000), None, "the counter went back");
    }

    #[test]
    fn quotas_are_fractions_of_a_period() {
        assert_eq!(cores("150000", "100000"), Some(1_500));
        assert_eq!(cores("0", "100000"), None);
        assert_eq!(cores("150000", "0"), None);
        assert_eq!(cores("max", "100000"), None);
    }
}
