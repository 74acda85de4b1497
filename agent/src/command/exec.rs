//! `exec`: records while a job runs, from its start to its end.
//!
//! The job gets its own arguments, environment and streams, never a shell. Signals go on to it,
//! and its exit code is this program's. The record says that a job with this name began and how it
//! ended; its command line may hold secrets and stands nowhere. Once it runs, a job is never stopped
//! because something could not be recorded.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use leasewatch_core::id::clean_text;
use leasewatch_core::segment::{EventKind, JobEnd};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::record;
use super::run::{Delivery, Prepared, Recording, begin_log, failure_code, prepare, refuse};
use crate::clock;
use crate::config::{Config, RunArgs};
use crate::observation::{EventObservation, Observation};

/// How long a job waits for the first welcome of a node that was never welcomed.
const WELCOME: Duration = Duration::from_secs(10);
/// Characters of a job's name.
const NAME_MAX: usize = 128;
/// This program failed, not the job.
const FAILED: u8 = 125;
/// The job cannot be started.
const NOT_STARTED: u8 = 126;
/// There is no such program.
const NOT_FOUND: u8 = 127;

/// Options of `exec`.
#[derive(Debug, Default, Args)]
#[command(after_help = "\
The name of the job and its exit code are recorded as signed events; its arguments are not.
HUP, INT, QUIT, TERM, USR1 and USR2 go on to the job. Another agent must not run on the same state
directory: where one runs, it records the job's hours without this command.

Exit codes: the job's own; 128 + N when signal N ended it; 125 this program failed, and the job was
not started; 126 the job could not be started; 127 there is no such program; 2 wrong arguments;
3 another agent runs on the state directory.")]
pub struct ExecArgs {
    #[command(flatten)]
    config: RunArgs,
    /// Record into this folder, without a server, as `record` does
    #[arg(long, value_name = "DIR")]
    record: Option<PathBuf>,
    /// The job's name in the record [default: the program's file name]
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// The job: a program and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the job and records meanwhile.
#[must_use]
pub fn exec(args: ExecArgs) -> ExitCode {
    let is_recording = args.record.is_some();
    if let Some(why) = args.record.as_deref().and_then(record::is_of_an_agent) {
        return refuse(&why, 2);
    }
    let config = match Config::new(run_args(args.config, args.record)) {
        Ok(config) => config,
        Err(error) => return refuse(&error, 2),
    };
    let job = match Job::new(args.job, args.command) {
        Ok(job) => job,
        Err(why) => return refuse(&why, 2),
    };
    begin_log(&config);
    match start(&config, is_recording, &job) {
        Ok(code) => code,
        Err(error) => {
            let code = failure_code(&error);
            refuse(&format_args!("{error:#}"), if code == 1 { FAILED } else { code })
        }
    }
}

/// A recording has the bounds that `record` gives it.
fn run_args(args: RunArgs, record: Option<PathBuf>) -> RunArgs {
    let Some(folder) = record else { return args };
    let spool_mib = args.spool_mib.or(Some(record::LIMIT_MIB));
    RunArgs { state_dir: Some(folder), spool_mib, ..args }
}

/// What is to run.
#[derive(Debug)]
struct Job {
    name: String,
    program: OsString,
    arguments: Vec<OsString>,
}

impl Job {
    fn new(name: Option<String>, command: Vec<OsString>) -> Result<Self, String> {
        let mut words = command.into_iter();
        let program = words.next().unwrap_or_default();
        let file = Path::new(&program).file_name().unwrap_or_default().to_string_lossy();
        let name = name.unwrap_or_else(|| clean_text(&file, NAME_MAX));
        if name.is_empty() || clean_text(&name, NAME_MAX) != name {
            return Err(format!("job: must be 1 to {NAME_MAX} characters without control ones"));
        }
        Ok(Self { name, program, arguments: words.collect() })
    }

    fn spawn(&self) -> Result<Child, ExitCode> {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).spawn().map_err(|error| {
            let missing = error.kind() == io::ErrorKind::NotFound;
            let code = if missing { NOT_FOUND } else { NOT_STARTED };
            refuse(
                &format_args!("{}: {error}", clean_text(&self.program.to_string_lossy(), 256)),
                code,
            )
        })
    }
}

fn start(config: &Config, is_recording: bool, job: &Job) -> anyhow::Result<ExitCode> {
    let prepared = if is_recording { record::open(config)? } else { prepare(config)? };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(beside(config, is_recording, &prepared, job))
}

async fn beside(
    config: &Config,
    is_recording: bool,
    prepared: &Prepared,
    job: &Job,
) -> anyhow::Result<ExitCode> {
    // From here on no signal ends this program before the job.
    let signals = Signals::listen()?;
    let way = if is_recording {
        let journal = Arc::clone(&prepared.shared.journal);
        let start = journal.sign_chain_start();
        Way::Folder(tokio::spawn(record::note_start(journal, start)))
    } else {
        Way::Server(Delivery::start(config, &prepared.shared)?)
    };
    let mut welcomed = way.welcomed();
    let is_welcome = timeout(WELCOME, welcomed.wait_for(|welcomed| *welcomed))
        .await
        .is_ok_and(|flag| flag.is_ok());
    if !is_welcome {
        tracing::warn!("no server has welcomed this node yet: until one does nothing is recorded");
    }
    let mut watching = Watching { prepared, welcomed, recording: None };
    watching.record_if_welcome();
    let code = match job.spawn() {
        Err(code) => code,
        Ok(child) => {
            watching.mark(EventKind::JobStarted { name: job.name.clone() }).await;
            let end = end_of(watching.until_exit(child, signals).await?);
            tracing::info!(job.name, job.end = ?end, "the job ended");
            watching.mark(EventKind::JobEnded { name: job.name.clone(), end }).await;
            exit_code(end)
        }
    };
    if let Some(recording) = watching.recording.take() {
        recording.stop().await?;
    }
    way.stop(prepared).await?;
    Ok(code)
}

/// Where the record goes.
enum Way {
    /// To a server, from the spool.
    Server((Delivery, watch::Receiver<bool>)),
    /// Nowhere: it stays in the folder. The task keeps the chain's start there.
    Folder(JoinHandle<()>),
}

impl Way {
    /// Turns true once there may be a recording.
    fn welcomed(&self) -> watch::Receiver<bool> {
        match self {
            Self::Server((_, welcomed)) => welcomed.clone(),
            Self::Folder(_) => watch::Sender::new(true).subscribe(),
        }
    }

    async fn stop(self, prepared: &Prepared) -> anyhow::Result<()> {
        match self {
            Self::Server((delivery, _)) => return delivery.stop().await,
            Self::Folder(start) => start.abort(),
        }
        let journal = &prepared.shared.journal;
        let memory = journal.with_spool(|spool| spool.memory_reason().map(ToOwned::to_owned));
        if let Some(reason) = memory {
            tracing::error!(reason, "the end of the recording is lost");
        }
        Ok(())
    }
}

/// The recording beside a job. It begins with the first welcome, which may come while the job runs
/// already; then the record has the job's end alone.
struct Watching<'a> {
    prepared: &'a Prepared,
    welcomed: watch::Receiver<bool>,
    recording: Option<Recording>,
}

impl Watching<'_> {
    fn record_if_welcome(&mut self) {
        if !*self.welcomed.borrow() {
            return;
        }
        match Recording::start(self.prepared) {
            Ok(recording) => self.recording = Some(recording),
            Err(error) => tracing::error!(%error, "nothing can be recorded"),
        }
    }

    /// The node's own mark in the record, at this instant.
    async fn mark(&self, kind: EventKind) {
        let Some(recording) = &self.recording else { return };
        let at_boot_ms = clock::boot_ms();
        let event = EventObservation { at_boot_ms, gpu: None, kind, urgent: true };
        if recording.to_recorder.send(Observation::Event(event)).await.is_err() {
            tracing::error!("the recorder is gone: the job's mark is not recorded");
        }
    }

    /// Hands signals on until the job is over.
    async fn until_exit(
        &mut self,
        mut child: Child,
        mut signals: Signals,
    ) -> io::Result<ExitStatus> {
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let mut awaits_welcome = self.recording.is_none();
        loop {
            tokio::select! {
                status = child.wait() => return status,
                Some(signal) = signals.arrived.recv() => {
                    if !is_delivered_by_terminal(signal) {
                        // The child is not reaped before `wait` returns: its id is nobody else's.
                        let _ = pid.map(|pid| kill_process(pid, signal));
                    }
                }
                _ = self.welcomed.changed(), if awaits_welcome => {
                    awaits_welcome = false;
                    self.record_if_welcome();
                }
            }
        }
    }
}

fn end_of(status: ExitStatus) -> JobEnd {
    match (status.code(), status.signal()) {
        (Some(code), _) => JobEnd::Exited(i64::from(code)),
        (None, signal) => JobEnd::Signalled(i64::from(signal.unwrap_or(0))),
    }
}

fn exit_code(end: JobEnd) -> ExitCode {
    let code = match end {
        JobEnd::Exited(code) => code,
        JobEnd::Signalled(signal) => signal.saturating_add(128),
    };
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Signals that are the job's.
struct Signals {
    arrived: mpsc::UnboundedReceiver<Signal>,
}

impl Signals {
    const FORWARDED: [Signal; 6] =
        [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM, Signal::USR1, Signal::USR2];

    fn listen() -> io::Result<Self> {
        let (to, arrived) = mpsc::unbounded_channel();
        for forwarded in Self::FORWARDED {
            let mut signals = signal(SignalKind::from_raw(forwarded.as_raw()))?;
            let to = to.clone();
            tokio::spawn(async move {
                while signals.recv().await.is_some() && to.send(forwarded).is_ok() {}
            });
        }
        Ok(Self { arrived })
    }
}

/// A key on the terminal signals every process in the foreground, the job among them; handing it on
/// would tell the job twice.
fn is_delivered_by_terminal(signal: Signal) -> bool {
    let of_keys = signal == Signal::INT || signal == Signal::QUIT;
    of_keys && fs::read_to_string("/proc/self/stat").is_ok_and(|stat| is_in_foreground(&stat))
}

/// Fields 5 and 8 of `/proc/PID/stat`: the process's group, and the one in the foreground of its
/// terminal (-1 without one).
fn is_in_foreground(stat: &str) -> bool {
    let after_name = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    matches!((fields.get(2), fields.get(5)), (Some(own), Some(front)) if own == front)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: Option<&str>, program: &str) -> Result<String, String> {
        let command = vec![program.into(), "--token=secret".into()];
        Job::new(name.map(str::to_owned), command).map(|job| job.name)
    }

    #[test]
    fn a_job_is_called_as_told_or_after_its_program_and_never_by_its_arguments() {
        assert_eq!(named(None, "/usr/bin/python3").unwrap(), "python3");
        assert_eq!(named(Some("train 7"), "python3").unwrap(), "train 7");
        for bad in ["", "a\u{7}b", &"x".repeat(NAME_MAX + 1)] {
            assert!(named(Some(bad), "python3").is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_end_of_a_job_is_its_exit_code_or_the_signal() {
        assert_eq!(end_of(ExitStatus::from_raw(3 << 8)), JobEnd::Exited(3));
        assert_eq!(end_of(ExitStatus::from_raw(9)), JobEnd::Signalled(9));
    }

    #[test]
    fn a_process_is_in_the_foreground_when_its_group_is() {
        assert!(is_in_foreground("7 (a) b) S 1 7 7 34816 7 4194304"));
        assert!(!is_in_foreground("7 (a) S 1 7 7 34816 9 4194304"));
        assert!(!is_in_foreground("7 (a) S 1 7 7 0 -1 4194304"));
        assert!(!is_in_foreground(""));
    }
}
