//! `status`: how the agent on this node is.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use leasewatch_core::id::clean_text;
use leasewatch_core::time::Timestamp;
use serde_json::json;

use super::print;
use super::run::refuse;
use crate::clock;
use crate::config::DEFAULT_STATE_DIR;
use crate::spool::{self, Mode, Report};
use crate::status::{self, StatusFile};

/// A file that is older than this is not kept up by its process any more.
const STALE_MS: i64 = 30_000;
/// A clock that is further off than this has its time counted as a gap.
const CLOCK_WRONG_MS: u64 = 5_000;
/// A clock that is further off than this is named.
const CLOCK_FLAGGED_MS: u64 = 500;

/// Options of `status`.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// The agent's state directory [default: /var/lib/leasewatch-agent]
    #[arg(long, env = "LEASEWATCH_STATE_DIR", value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints how the agent is. 0: it runs and all is well; 1: it runs and something is not well;
/// 3: it does not run; 4: nothing can be said.
#[must_use]
pub fn status(args: &StatusArgs) -> ExitCode {
    let default = || PathBuf::from(DEFAULT_STATE_DIR);
    let state_dir = args.state_dir.clone().unwrap_or_else(default);
    let file = match status::read(&state_dir) {
        Ok(Some(file)) => file,
        Ok(None) => {
            let why = format!("no agent of this version ever ran on {}", state_dir.display());
            return refuse(&why, if state_dir.exists() { 3 } else { 4 });
        }
        Err(error) => return refuse(&error, 4),
    };
    let view = View::new(file, Report::read(&spool::folder(&state_dir)));
    print(&if args.json { view.json() } else { view.text() });
    ExitCode::from(view.exit_code())
}

/// What is known, and what is wrong.
#[derive(Debug)]
struct View {
    file: StatusFile,
    spool: Report,
    running: bool,
    problems: Vec<String>,
}

impl View {
    fn new(file: StatusFile, mut spool: Report) -> Self {
        // Where there can be no folder there is no note in it either.
        if let Some(reason) = &file.memory_reason {
            spool.mode = Mode::Memory(reason.clone());
        }
        let running = file.is_of_a_living_process(Path::new("/"));
        let mut view = Self { running, problems: Vec::new(), file, spool };
        if running {
            view.problems = view.judged();
        }
        view
    }

    fn judged(&self) -> Vec<String> {
        let file = &self.file;
        let mut problems = Vec::new();
        let age_ms = clock::boot_ms().saturating_sub(file.written_at_boot_ms);
        if age_ms > STALE_MS {
            problems.push(format!("the agent has written nothing for {} s", age_ms / 1_000));
        }
        if !file.enrolled {
            problems.push("not welcomed by a server yet: nothing is recorded".to_owned());
        }
        if !file.connected {
            problems.push("no connection to the server: see the agent's log".to_owned());
        }
        if file.nvml_available == Some(false) {
            problems.push("NVML is not available: run `leasewatch-agent doctor`".to_owned());
        }
        for gpu in &file.gpus {
            if let Some(ms) = gpu.stalled_ms {
                problems.push(format!("GPU {} has not answered for {} s", gpu.bus_id, ms / 1_000));
            }
            if gpu.lost {
                problems.push(format!("GPU {} is lost", gpu.bus_id));
            }
        }
        if let Some(offset) = file.clock_offset_ms.map(i64::unsigned_abs) {
            if offset > CLOCK_WRONG_MS {
                problems.push(format!("the clock is {offset} ms off: this time counts as a gap"));
            } else if offset > CLOCK_FLAGGED_MS {
                problems.push(format!("the clock is {offset} ms off: set up NTP"));
            }
        }
        if let Mode::Memory(why) = &self.spool.mode {
            problems.push(format!("the spool is in memory only: {}", clean_text(why, 200)));
        }
        if self.spool.damaged_bytes > 0 {
            problems.push(format!("{} bytes of the spool are damaged", self.spool.damaged_bytes));
        }
        problems
    }

    fn exit_code(&self) -> u8 {
        match (self.running, self.problems.is_empty()) {
            (false, _) => 3,
            (true, true) => 0,
            (true, false) => 1,
        }
    }

    fn text(&self) -> String {
        let file = &self.file;
        let mut out = String::new();
        let mut line = |name: &str, value: &str| {
            let _ = writeln!(out, "{name:<18} {}", clean_text(value, 300));
        };
        line("agent", &self.agent());
        line("node", &file.node);
        if file.origin != "measured" {
            line("data", &file.origin.to_uppercase());
        }
        let tenant = file.tenant.as_deref().unwrap_or("not enrolled");
        let link = match (self.running, file.connected) {
            (false, _) => "",
            (true, true) => " (connected)",
            (true, false) => " (not connected)",
        };
        line("server", &format!("{}{link}, tenant {tenant}", file.server));
        line("up since", &Timestamp(file.started_at_ms).to_string());
        line("last acknowledged", &self.acknowledged());
        line("waiting", &self.waiting());
        line("spool", &self.kept());
        line("clock", &self.clock());
        line("GPUs", &self.gpus());
        for problem in &self.problems {
            line("PROBLEM", problem);
        }
        out
    }

    fn agent(&self) -> String {
        let file = &self.file;
        match self.running {
            true => format!("runs as process {}, version {}", file.pid, file.agent_version),
            false => "does not run; below is what it said last".to_owned(),
        }
    }

    fn acknowledged(&self) -> String {
        self.spool.acked.map_or("nothing yet".to_owned(), |(sequence, at)| {
            format!("segment {} at {at}", sequence.0)
        })
    }

    fn waiting(&self) -> String {
        let file = &self.file;
        let since = self.spool.oldest_unsent_at;
        let since = since.map(|at| format!(", the oldest from {at}")).unwrap_or_default();
        match file.waiting_segments {
            0 => "nothing".to_owned(),
            some => format!("{some} segments, {} KiB{since}", file.waiting_bytes / 1_024),
        }
    }

    fn kept(&self) -> String {
        let (mib, quota) = (self.spool.bytes >> 20, self.file.quota_bytes);
        let hours = self.spool.hours_that_fit(quota);
        let hours = hours.map(|hours| format!(", which is about {hours} h")).unwrap_or_default();
        format!("{mib} of {} MiB{hours}", quota >> 20)
    }

    fn clock(&self) -> String {
        match (self.file.clock_offset_ms, self.file.clock_bound_ms) {
            (Some(offset), Some(bound)) => {
                format!("{offset} ms off the server's, within {bound} ms")
            }
            _ => "not compared with a server's yet".to_owned(),
        }
    }

    fn gpus(&self) -> String {
        let gpus = &self.file.gpus;
        let stalled = gpus.iter().filter(|gpu| gpu.stalled_ms.is_some()).count();
        let lost = gpus.iter().filter(|gpu| gpu.lost).count();
        match self.file.nvml_available {
            None => "not looked at yet".to_owned(),
            Some(_) => format!("{}, {stalled} stalled, {lost} lost", gpus.len()),
        }
    }

    fn json(&self) -> String {
        let time = |at: Option<Timestamp>| at.map(|at| at.0);
        let (spool, quota) = (&self.spool, self.file.quota_bytes);
        let (mode, why) = match &spool.mode {
            Mode::Disk => ("disk", None),
            Mode::Memory(why) => ("memory", Some(why)),
        };
        let value = json!({
            "running": self.running,
            "problems": self.problems,
            "agent": self.file,
            "spool": {
                "mode": mode,
                "why_memory": why,
                "files": spool.files,
                "bytes": spool.bytes,
                "segments": spool.segments,
                "unsent_segments": spool.unsent_segments,
                "oldest_at_ms": time(spool.oldest_at),
                "newest_at_ms": time(spool.newest_at),
                "oldest_unsent_at_ms": time(spool.oldest_unsent_at),
                "acknowledged_sequence": spool.acked.map(|(sequence, _)| sequence.0),
                "acknowledged_at_ms": time(spool.acked.map(|(_, at)| at)),
                "damaged_bytes": spool.damaged_bytes,
                "refused_files": spool.refused_files,
                "hours_that_fit": spool.hours_that_fit(quota),
            },
            "exit_code": self.exit_code(),
        });
        format!("{value:#}\n")
    }
}
