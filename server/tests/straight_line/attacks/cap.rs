//! A limit of the kernel on the memory of one process, where control groups can be written: whoever
//! passes it is killed. Elsewhere there is none, and the peak is looked at alone.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::Pid;

/// A control group with one process in it. To be dropped when that has ended.
pub(crate) struct Cap {
    folder: PathBuf,
    limit: &'static str,
}

impl Cap {
    /// Allows a process so many more bytes than it has; `None` where no group can be made.
    pub(crate) fn on(pid: Pid, bytes: u64) -> Option<Self> {
        let name = format!("leasewatch-test-{}", pid.as_raw_pid());
        let (first, second) = (Path::new("/sys/fs/cgroup/memory"), Path::new("/sys/fs/cgroup"));
        let controls = fs::read_to_string(second.join("cgroup.subtree_control"));
        let cap = if first.join("memory.limit_in_bytes").exists() {
            Self { folder: first.join(name), limit: "memory.limit_in_bytes" }
        } else if controls.is_ok_and(|controls| controls.contains("memory")) {
            Self { folder: second.join(name), limit: "memory.max" }
        } else {
            return None;
        };
        fs::create_dir(&cap.folder).ok()?;
        fs::write(cap.folder.join(cap.limit), bytes.to_string()).ok()?;
        fs::write(cap.folder.join("cgroup.procs"), pid.as_raw_pid().to_string()).ok()?;
        Some(cap)
    }

    /// Whether the process is in it, with a limit.
    pub(crate) fn holds(&self, pid: Pid) -> bool {
        let text = |name: &str| fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        let pid = pid.as_raw_pid().to_string();
        text("cgroup.procs").lines().any(|line| line == pid)
            && text(self.limit).trim().parse::<u64>().is_ok_and(|limit| limit < 1 << 40)
    }
}

impl Drop for Cap {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}
