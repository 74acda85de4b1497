//! A postmaster that an earlier server left behind: found by its pid file and stopped; and the
//! processes that one left which was killed.
//!
//! Stopped rather than adopted: it may run other binaries or other settings, it would not follow
//! our death, and a stop costs less than a second. The caller holds the lock, so whoever this
//! postmaster belonged to is gone.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::EmbeddedError;
use super::cluster::SOCKET_NAME;

const POLL: Duration = Duration::from_millis(20);
/// Fast shutdown writes a checkpoint; on a slow disk with a lot of dirty pages that takes a while.
const FAST_POLLS: u32 = 3_000;
const IMMEDIATE_POLLS: u32 = 500;
const ORPHAN_POLLS: u32 = 500;

/// Returns when no process of PostgreSQL works on `data_dir`, and nothing says that one does.
pub(super) async fn stop(data_dir: &Path, socket_dir: &Path) -> Result<(), EmbeddedError> {
    // A number that was given to another program since is not believed.
    if let Some(pid) = recorded_pid(data_dir).filter(|pid| is_at_work(*pid, data_dir)) {
        end(pid, data_dir).await?;
    }
    until_nobody_works(data_dir).await?;
    // PostgreSQL would take a number that was given away, or a dead process that nobody has waited
    // for, for one of its own that runs.
    remove(&data_dir.join("postmaster.pid"))?;
    remove(&socket_dir.join(format!("{SOCKET_NAME}.lock")))
}

/// Those that a postmaster left which was killed: they end by themselves once they notice, and may
/// write until then. The pid file that would keep PostgreSQL from starting beside them goes.
async fn until_nobody_works(data_dir: &Path) -> Result<(), EmbeddedError> {
    for (signal, polls) in [(None, ORPHAN_POLLS), (Some(Signal::QUIT), IMMEDIATE_POLLS)] {
        for _ in 0..polls {
            let left = at_work(data_dir);
            if left.is_empty() {
                return Ok(());
            }
            for pid in left {
                // Gone between the look and the signal is what is wanted.
                let _ = signal.map(|signal| kill_process(pid, signal));
            }
            tokio::time::sleep(POLL).await;
        }
    }
    let message = "processes were left behind and do not end".to_owned();
    Err(EmbeddedError::Failed { program: "postgres", message })
}

fn at_work(data_dir: &Path) -> Vec<Pid> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Pid::from_raw).filter(|pid| is_at_work(*pid, data_dir)).collect()
}

async fn end(pid: Pid, data_dir: &Path) -> Result<(), EmbeddedError> {
    tracing::warn!(pid = pid.as_raw_pid(), "stopping a PostgreSQL that was left behind");
    for (signal, polls) in [(Signal::INT, FAST_POLLS), (Signal::QUIT, IMMEDIATE_POLLS)] {
        // Gone between the look and the signal is what is wanted.
        let _ = kill_process(pid, signal);
        for _ in 0..polls {
            if test_kill_process(pid).is_err() || !is_at_work(pid, data_dir) {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    }
    let message = format!("process {} was left behind and does not end", pid.as_raw_pid());
    Err(EmbeddedError::Failed { program: "postgres", message })
}

fn recorded_pid(data_dir: &Path) -> Option<Pid> {
    let text = fs::read_to_string(data_dir.join("postmaster.pid")).ok()?;
    // Negative for a single-user backend.
    let number: i32 = text.lines().next()?.trim().parse().ok()?;
    Pid::from_raw(number.checked_abs()?)
}

/// A postmaster and its children work in its data directory, whatever it was called with.
fn is_at_work(pid: Pid, data_dir: &Path) -> bool {
    let process = format!("/proc/{}", pid.as_raw_pid());
    let in_data_dir = fs::read_link(format!("{process}/cwd"))
        .ok()
        .zip(fs::canonicalize(data_dir).ok())
        .is_some_and(|(cwd, data)| cwd.as_os_str().as_bytes() == data.as_os_str().as_bytes());
    let is_postgres = fs::read_to_string(format!("{process}/comm"))
        .is_ok_and(|name| matches!(name.trim(), "postgres" | "postmaster"));
    in_data_dir && is_postgres
}

fn remove(stale: &Path) -> Result<(), EmbeddedError> {
    match fs::remove_file(stale) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(EmbeddedError::io(format!("remove a stale {}", stale.display()))(error))
        }
        _ => Ok(()),
    }
}
