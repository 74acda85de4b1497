//! What processes used, read from `/proc`.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::measure::real;

/// Processor time and memory of a process, or of several.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// User and system time in seconds, ended children that were waited for included.
    pub cpu_s: f64,
    /// Resident memory in MiB; for several processes, what they share is counted once.
    pub memory_mib: f64,
}

/// Of one process with the children that it has waited for.
///
/// # Errors
/// When it is gone.
pub fn usage(pid: u32) -> anyhow::Result<Usage> {
    Ok(Usage { cpu_s: cpu_s(pid)?, memory_mib: resident_mib(pid)? })
}

/// Of a process and all its children that run now (not of theirs).
///
/// # Errors
/// When it is gone. A child that ends meanwhile is counted by its parent.
pub fn usage_with_children(pid: u32) -> anyhow::Result<Usage> {
    let mut sum = Usage { cpu_s: cpu_s(pid)?, memory_mib: proportional_mib(pid)? };
    for child in children(pid) {
        sum.cpu_s += cpu_s(child).unwrap_or(0.0);
        sum.memory_mib += proportional_mib(child).unwrap_or(0.0);
    }
    Ok(sum)
}

/// Nanoseconds on a processor of each thread of a process that runs now, with its name. The kernel
/// counts them exactly; the ticks of [`usage`] are too coarse for a program that hardly does
/// anything.
///
/// # Errors
/// When the process is gone, or the kernel does not count.
pub fn threads_ns(pid: u32) -> anyhow::Result<Vec<(String, u64)>> {
    let folder = format!("/proc/{pid}/task");
    let mut threads = Vec::new();
    for thread in fs::read_dir(&folder).with_context(|| folder.clone())?.flatten() {
        // One that has just ended is counted no more.
        let Ok(name) = fs::read_to_string(thread.path().join("comm")) else { continue };
        let Ok(schedule) = fs::read_to_string(thread.path().join("schedstat")) else { continue };
        let ns = schedule.split_whitespace().next().and_then(|ns| ns.parse().ok());
        threads.push((name.trim().to_owned(), ns.context("schedstat is not understood")?));
    }
    Ok(threads)
}

/// The most that a process ever had resident, in MiB.
///
/// # Errors
/// When it is gone.
pub fn peak_mib(pid: u32) -> anyhow::Result<f64> {
    kib_line(&format!("/proc/{pid}/status"), "VmHWM:").map(|kib| kib / 1_024.0)
}

fn resident_mib(pid: u32) -> anyhow::Result<f64> {
    kib_line(&format!("/proc/{pid}/status"), "VmRSS:").map(|kib| kib / 1_024.0)
}

/// Shared pages in proportion: the sum over a family counts each page once.
fn proportional_mib(pid: u32) -> anyhow::Result<f64> {
    kib_line(&format!("/proc/{pid}/smaps_rollup"), "Pss:").map(|kib| kib / 1_024.0)
}

fn kib_line(path: &str, name: &str) -> anyhow::Result<f64> {
    let text = fs::read_to_string(path).with_context(|| path.to_owned())?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.with_context(|| format!("{path} has no {name}"))
}

fn cpu_s(pid: u32) -> anyhow::Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| path.clone())?;
    let ticks = ticks(&text).with_context(|| format!("{path} is not understood"))?;
    Ok(real(ticks) / real(rustix::param::clock_ticks_per_second()))
}

/// utime, stime, cutime and cstime: the 14th to 17th field. The second may hold spaces.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    fields.get(11..15)?.iter().map(|field| field.parse::<u64>().ok()).sum()
}

fn children(pid: u32) -> Vec<u32> {
    let parent = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|child| parent(*child) == Some(pid)).collect()
}

/// Bytes of all files below a folder.
#[must_use]
pub fn bytes_below(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_below(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_stat_are_found_behind_a_name_with_spaces() {
        let stat = "42 (post (gres) x) S 1 42 42 0 -1 4194560 1 2 3 4 100 20 30 4 20 0 1 0 5";
        assert_eq!(ticks(stat), Some(154));
    }

    #[test]
    fn this_process_has_memory_and_a_parent() {
        let own = usage(std::process::id()).unwrap();
        assert!(own.memory_mib > 1.0);
        assert!(peak_mib(std::process::id()).unwrap() >= own.memory_mib / 2.0);
        let threads = threads_ns(std::process::id()).unwrap();
        assert!(threads.iter().map(|(_, ns)| ns).sum::<u64>() > 0);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(children(std::process::id()).contains(&child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(usage(child.id()).is_err());
    }
}
