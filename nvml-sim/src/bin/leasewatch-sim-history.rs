//! Writes the past of a simulated node as a log, for `leasewatch-server import history -`.

use std::io::{self, BufWriter};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Parser;
use leasewatch_core::time::Timestamp;
use nvidia_ml_sim::history::History;

/// Plays the past days of simulated GPUs and writes them to standard output.
#[derive(Parser)]
#[command(name = "leasewatch-sim-history", version)]
struct Arguments {
    /// What happened: one of nvml-sim/scenarios/history.
    story: PathBuf,
    /// Where the log ends, in milliseconds since 1970 [default: now].
    #[arg(long, value_name = "MS")]
    until: Option<i64>,
    /// How many days before that it begins.
    #[arg(long, default_value_t = 7)]
    days: u32,
}

fn main() -> ExitCode {
    let Arguments { story, until, days } = Arguments::parse();
    let until = Timestamp(until.unwrap_or_else(now_ms));
    let history = History { story, until, days };
    let out = &mut BufWriter::with_capacity(1 << 16, io::stdout().lock());
    match history.write(out) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read it has said why it stopped.
        Err(error) if error.is_broken_pipe() => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("leasewatch-sim-history: {error}");
            ExitCode::from(2)
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the default end of a past is now; looked at once")]
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
