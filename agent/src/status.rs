//! The running agent in one small file, for `leasewatch-agent status`.
//!
//! `status.json` in the state directory, readable by its owner alone, replaced as a whole every ten
//! seconds. It opens no port. The file outlives the agent; boot id and
//! start time of the process tell a stale one. What waits in the spool is not in it: the spool's
//! own files say that.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use crate::clock;
use crate::uplink::Shared;

/// File name in the state directory.
const STATUS: &str = "status.json";
/// How often it is written.
const EVERY: Duration = Duration::from_secs(10);
/// The form of the file.
const VERSION: u32 = 1;

/// What the file says. Times are milliseconds since 1970 by the node's clock, or of the boot clock
/// where the name says so.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct StatusFile {
    pub version: u32,
    pub pid: u32,
    /// The kernel's boot id, as it prints it.
    pub boot_id: String,
    /// Field 22 of `/proc/PID/stat`: with the boot id it names one process for ever.
    pub process_start_ticks: Option<u64>,
    pub started_at_ms: i64,
    pub written_at_boot_ms: i64,
    pub agent_version: String,
    pub node: String,
    pub chain: String,
    pub origin: String,
    pub tenant: Option<String>,
    pub server: String,
    /// True while the stream to the server is open.
    pub connected: bool,
    /// False until a server welcomed the node: nothing is recorded before.
    pub enrolled: bool,
    pub cadence_ms: u32,
    pub quota_bytes: u64,
    /// Segments that wait for the server, and their bytes.
    pub waiting_segments: u64,
    pub waiting_bytes: u64,
    /// Why they wait in memory only; absent while they are on disk.
    #[serde(default)]
    pub memory_reason: Option<String>,
    /// Server time minus node time, and what it can be wrong by; absent when it was not measured.
    pub clock_offset_ms: Option<i64>,
    pub clock_bound_ms: Option<i64>,
    /// False while NVML is missing or does not initialise; absent before recording.
    pub nvml_available: Option<bool>,
    pub gpus: Vec<GpuStatus>,
}

/// One GPU or slice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct GpuStatus {
    pub uuid: String,
    pub bus_id: String,
    pub lost: bool,
    /// For how long a call into the driver has not returned, once it was given up.
    pub stalled_ms: Option<i64>,
}

/// Keeps the file written.
#[derive(Debug)]
pub struct Told {
    server: String,
    shared: Shared,
    connected: watch::Receiver<bool>,
    started_at_ms: i64,
}

impl Told {
    /// Of an agent that starts now.
    #[must_use]
    pub fn new(server: String, shared: Shared, connected: watch::Receiver<bool>) -> Self {
        Self { server, shared, connected, started_at_ms: clock::wall().0 }
    }

    /// Writes it, at once and every ten seconds, until this future is dropped.
    pub async fn keep_written(self) {
        let mut tick = interval(EVERY);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = false;
        loop {
            tick.tick().await;
            match write(self.shared.state_dir.path(), &self.now()) {
                Ok(()) => told = false,
                Err(error) if !told => {
                    tracing::warn!(%error, "the status file could not be written");
                    told = true;
                }
                Err(_) => {}
            }
        }
    }

    fn now(&self) -> StatusFile {
        let journal = &self.shared.journal;
        let estimate = journal.clock_estimate(clock::Instant::now());
        let live = self.shared.live.get().map(|live| live.snapshot());
        let enrolled = journal.enrolled();
        let (waiting_segments, waiting_bytes, memory_reason) = journal.with_spool(|spool| {
            (spool.segments(), spool.bytes(), spool.memory_reason().map(ToOwned::to_owned))
        });
        let now_boot_ms = clock::boot_ms();
        StatusFile {
            version: VERSION,
            pid: std::process::id(),
            boot_id: boot_id(Path::new("/")),
            process_start_ticks: process_start_ticks(Path::new("/"), std::process::id()),
            started_at_ms: self.started_at_ms,
            written_at_boot_ms: now_boot_ms,
            agent_version: journal.epoch().version.clone(),
            node: journal.node().to_string(),
            chain: journal.chain().to_string(),
            origin: journal.epoch().origin.name().to_owned(),
            tenant: enrolled.as_ref().map(|enrolled| enrolled.tenant.to_string()),
            server: self.server.clone(),
            connected: *self.connected.borrow(),
            enrolled: enrolled.is_some(),
            cadence_ms: journal.epoch().cadence_ms,
            quota_bytes: journal.quota().bytes,
            waiting_segments,
            waiting_bytes,
            memory_reason,
            clock_offset_ms: estimate.map(|estimate| estimate.offset_ms),
            clock_bound_ms: estimate.map(|estimate| estimate.bound_ms),
            nvml_available: live.as_ref().map(|live| live.nvml_available),
            gpus: live.map_or(Vec::new(), |live| {
                let status = |gpu: &crate::observation::LiveGpu| GpuStatus {
                    uuid: gpu.uuid.to_string(),
                    bus_id: gpu.bus_id.to_string(),
                    lost: gpu.lost,
                    stalled_ms: gpu.stalled_ms(now_boot_ms),
                };
                live.gpus.iter().map(status).collect()
            }),
        }
    }
}

/// Why there is no status.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// The file cannot be read.
    #[error("{}: {source}", .path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It was written by another version, or is damaged.
    #[error("{} is not a status file of this version", .0.display())]
    Form(PathBuf),
}

/// Reads the file of a state directory; `None` when none was ever written there.
///
/// # Errors
/// [`StatusError`].
pub fn read(state_dir: &Path) -> Result<Option<StatusFile>, StatusError> {
    let path = state_dir.join(STATUS);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(StatusError::Io { path, source }),
    };
    match serde_json::from_str::<StatusFile>(&text) {
        Ok(file) if file.version == VERSION => Ok(Some(file)),
        _ => Err(StatusError::Form(path)),
    }
}

/// Replaces the file. It need not outlive a crash of the system, so no disk is waited for.
fn write(state_dir: &Path, file: &StatusFile) -> io::Result<()> {
    // Numbers and texts always have a JSON form.
    let text = serde_json::to_vec_pretty(file).unwrap_or_default();
    let (path, beside) = (state_dir.join(STATUS), state_dir.join("status.new"));
    let mut options = OpenOptions::new();
    let mut new = options.create(true).truncate(true).write(true).mode(0o600).open(&beside)?;
    new.write_all(&text)?;
    fs::rename(&beside, &path)
}

impl StatusFile {
    /// True while the process that wrote it lives, as far as the tree at `root` shows processes.
    #[must_use]
    pub fn is_of_a_living_process(&self, root: &Path) -> bool {
        self.boot_id == boot_id(root)
            && self.process_start_ticks.is_some()
            && process_start_ticks(root, self.pid) == self.process_start_ticks
    }
}

fn boot_id(root: &Path) -> String {
    let text = fs::read_to_string(root.join("proc/sys/kernel/random/boot_id"));
    text.unwrap_or_default().trim().to_owned()
}

/// Field 22 of `/proc/PID/stat`. The name in field 2 may hold blanks and brackets.
fn process_start_ticks(root: &Path, pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(root.join(format!("proc/{pid}/stat"))).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
pub(crate) mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    pub(crate) fn sample() -> StatusFile {
        StatusFile {
            version: VERSION,
            pid: std::process::id(),
            boot_id: boot_id(Path::new("/")),
            process_start_ticks: process_start_ticks(Path::new("/"), std::process::id()),
            started_at_ms: 1_800_000_000_000,
            written_at_boot_ms: clock::boot_ms(),
            agent_version: "0.1.0".to_owned(),
            node: "ab".repeat(16),
            chain: "cd".repeat(16),
            origin: "simulated".to_owned(),
            tenant: Some("default".to_owned()),
            server: "http://127.0.0.1:7443".to_owned(),
            connected: true,
            enrolled: true,
            cadence_ms: 1_000,
            quota_bytes: 128 << 20,
            waiting_segments: 2,
            waiting_bytes: 8_192,
            memory_reason: None,
            clock_offset_ms: Some(-12),
            clock_bound_ms: Some(3),
            nvml_available: Some(true),
            gpus: vec![GpuStatus {
                uuid: "GPU-1".to_owned(),
                bus_id: "00000000:18:00.0".to_owned(),
                lost: false,
                stalled_ms: None,
            }],
        }
    }

    #[test]
    fn the_file_is_private_whole_and_comes_back_as_it_was() {
        let temp = tempfile::tempdir().unwrap();
        assert_eq!(read(temp.path()).unwrap(), None);
        write(temp.path(), &sample()).unwrap();
        assert_eq!(read(temp.path()).unwrap(), Some(sample_of(temp.path())));
        let mode = fs::metadata(temp.path().join(STATUS)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::write(temp.path().join(STATUS), "{\"version\":1}").unwrap();
        assert!(matches!(read(temp.path()), Err(StatusError::Form(_))));
    }

    fn sample_of(dir: &Path) -> StatusFile {
        let text = fs::read_to_string(dir.join(STATUS)).unwrap();
        let written_at_boot_ms =
            serde_json::from_str::<serde_json::Value>(&text).unwrap()["written_at_boot_ms"]
                .as_i64()
                .unwrap();
        StatusFile { written_at_boot_ms, ..sample() }
    }

    #[test]
    fn another_boot_another_process_and_a_reused_pid_are_not_alive() {
        let root = Path::new("/");
        let alive = sample();
        assert!(alive.is_of_a_living_process(root));
        let other_boot = StatusFile { boot_id: "x".to_owned(), ..alive.clone() };
        let reused = StatusFile { process_start_ticks: Some(1), ..alive.clone() };
        let gone = StatusFile { pid: u32::MAX, ..alive };
        for stale in [other_boot, reused, gone] {
            assert!(!stale.is_of_a_living_process(root), "{stale:?}");
        }
    }
}
