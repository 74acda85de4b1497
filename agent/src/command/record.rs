//! `record`: the signed segments of an agent, without a server.
//!
//! A folder is the state directory of a node of its own: it holds the node's key, which is made
//! there, and the same files that an agent's spool has. Nobody but that key says when it was made:
//! a server that imports the folder later marks what comes from it as imported.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use leasewatch_core::id::Slug;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use super::print;
use super::run::{Prepared, Recording, begin_log, failure_code, prepare, refuse};
use crate::config::{Config, LogFormat, RunArgs};
use crate::recorder::Journal;
use crate::spool;

/// Most disk for a recording unless somebody says otherwise, in MiB.
pub(super) const LIMIT_MIB: u32 = 1_024;
/// What lies beside the recording, for whoever finds it.
const README: &str = "README.txt";

/// Options of `record`.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// The folder; made if it is not there. One that holds a recording is continued
    dir: PathBuf,
    /// Stop after this time, such as 90s, 30m or 12h; without it on a signal
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    time: Option<Duration>,
    /// The tenant that the recording is to be imported for [default: default]
    #[arg(long, value_name = "SLUG")]
    tenant: Option<Slug>,
    /// The NVML library [default: libnvidia-ml.so.1]
    #[arg(long, env = "LEASEWATCH_NVML_LIBRARY", value_name = "PATH")]
    nvml_library: Option<PathBuf>,
    /// Time between samples, such as 1s or 500ms, from 100ms to 60s [default: 1s]
    #[arg(long, value_name = "TIME")]
    cadence: Option<String>,
    /// Count the processes on each GPU (numbers only: no names, users or arguments)
    #[arg(long)]
    process_lists: bool,
    /// Most disk for the recording, in MiB; then its oldest part goes [default: 1024]
    #[arg(long, value_name = "MIB")]
    limit_mib: Option<u32>,
    /// How the log is written [default: text]
    #[arg(long, env = "LEASEWATCH_LOG_FORMAT", value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    /// What the log holds, such as info or leasewatch_agent=debug [default: warn]
    #[arg(long, env = "LEASEWATCH_LOG", value_name = "FILTER")]
    log: Option<String>,
}

/// Records into a folder. 0: stopped as asked; 1: failed; 2: wrong arguments, or the folder is an
/// agent's; 3: something records into it already.
#[must_use]
pub fn record(args: RecordArgs) -> ExitCode {
    let (dir, time) = (args.dir.clone(), args.time);
    let config = match Config::new(run_args(args)) {
        Ok(config) => config,
        Err(error) => return refuse(&error, 2),
    };
    if let Some(why) = is_of_an_agent(&dir) {
        return refuse(&why, 2);
    }
    begin_log(&config);
    match start(&config, time) {
        Ok(segments) => {
            let dir = dir.display();
            print(&format!(
                "recorded {segments} segments in {dir}\nhours: leasewatch-agent report --spool \
                 {dir}\nto a server: leasewatch-server import spool {dir} --node NAME\n"
            ));
            ExitCode::SUCCESS
        }
        Err(error) => refuse(&format_args!("{error:#}"), failure_code(&error)),
    }
}

fn run_args(args: RecordArgs) -> RunArgs {
    RunArgs {
        state_dir: Some(args.dir),
        tenant: args.tenant.map(|tenant| tenant.to_string()),
        nvml_library: args.nvml_library,
        cadence: args.cadence,
        process_lists: args.process_lists,
        spool_mib: Some(args.limit_mib.unwrap_or(LIMIT_MIB)),
        log_format: args.log_format,
        log: Some(args.log.unwrap_or_else(|| "warn".to_owned())),
        ..RunArgs::default()
    }
}

/// Why a folder is not one to record into.
pub(super) fn is_of_an_agent(dir: &Path) -> Option<String> {
    let is_of_an_agent = dir.join("server.pub").exists();
    is_of_an_agent
        .then(|| format!("{} is the state directory of an agent with a server", dir.display()))
}

/// Opens the folder, whose node nobody but itself says to be one.
pub(super) fn open(config: &Config) -> anyhow::Result<Prepared> {
    let prepared = prepare(config)?;
    let journal = &prepared.shared.journal;
    if journal.enrolled().is_none() {
        let cadence_ms = journal.epoch().cadence_ms;
        journal.on_welcome(journal.node(), config.tenant.clone(), cadence_ms);
    }
    std::fs::write(config.state_dir.join(README), readme(&prepared))?;
    Ok(prepared)
}

/// Keeps the chain's start beside its first segments. To be begun before the recording, so that it
/// is dated before them; never ends.
pub(super) async fn note_start(journal: Arc<Journal>, (statement, signature): SignedStart) {
    journal.sealed().await;
    journal.with_spool(|spool| spool.note_chain_start(&statement, &signature));
    std::future::pending::<()>().await;
}

/// A statement and its signature.
pub(super) type SignedStart = (Vec<u8>, [u8; 64]);

/// Returns how many segments there are now.
fn start(config: &Config, time: Option<Duration>) -> anyhow::Result<u64> {
    let prepared = open(config)?;
    let journal = &prepared.shared.journal;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(until_told(&prepared, time))?;
    if let Some(reason) = journal.with_spool(|spool| spool.memory_reason().map(ToOwned::to_owned)) {
        anyhow::bail!("the end of the recording is lost: {reason}");
    }
    Ok(spool::Report::read(&spool::folder(&config.state_dir)).segments)
}

async fn until_told(prepared: &Prepared, time: Option<Duration>) -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let journal = &prepared.shared.journal;
    let noted = note_start(Arc::clone(journal), journal.sign_chain_start());
    let recording = Recording::start(prepared)?;
    let end = async {
        match time {
            Some(time) => sleep(time).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = end => {}
        () = noted => {}
    }
    recording.stop().await
}

fn readme(prepared: &Prepared) -> String {
    let journal = &prepared.shared.journal;
    format!(
        "A recording of leasewatch-agent, version {version}.\n\n\
         node    {node}\norigin  {origin}\n\n\
         spool/      segments of at most a minute, each signed by node.key\n\
         node.key    the key that was made for this recording. Whoever has it can sign more:\n\
         \u{20}           keep it secret until the recording was imported, then it is of no use\n\
         state.toml  where the recording ends\n\n\
         What it proves: who holds node.key said this, in this order, and nothing from its first to\n\
         its last segment was altered or left out since, but for what signed drops name. What it\n\
         does not prove: when it was recorded, on which machine, and that it did not go on longer.\n\
         No server saw it being made.\n\n\
         Hours in the terminal:  leasewatch-agent report --spool DIR\n\
         Into a server, later:   leasewatch-server import spool DIR --node NAME\n",
        version = journal.epoch().version,
        node = journal.node(),
        origin = journal.epoch().origin.name(),
    )
}

/// `90s`, `30m`, `12h`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "must be a time such as 90s, 30m, 12h or 7d".to_owned();
    let (digits, unit) = text.split_at_checked(text.len().saturating_sub(1)).ok_or_else(wrong)?;
    let factor = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let seconds = number.checked_mul(factor).filter(|seconds| (1..=31_536_000).contains(seconds));
    seconds.map(Duration::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_unit_and_bounds() {
        assert_eq!(duration("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("7d"), Ok(Duration::from_secs(604_800)));
        for wrong in ["", "s", "5", "-1s", "0s", "366d", "99999999999999999999h", "1é"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
