//! The server program: command line and logging. What it does is in the library.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use leasewatch_core::id::Slug;
use leasewatch_core::time::{Timestamp, Zone};
use leasewatch_server::clock::Clock;
use leasewatch_server::config::{ServeFlags, ServeOptions};
use leasewatch_server::embedded_postgres::{PostgresArguments, become_postgres, default_base_dir};
use leasewatch_server::import::{self, ImportError, ImportReport, ImportRequest, LogKind};
use leasewatch_server::{demo, serve};

/// Collects what rented GPUs did, keeps exact hours, and shows them.
#[derive(Parser)]
#[command(name = "leasewatch-server", version)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the server: agents and pages on one loopback port.
    Serve(ServeFlags),
    /// Imports logs that other tools wrote; the server has to be running.
    #[command(subcommand)]
    Import(Import),
    /// The demo fleet.
    #[command(subcommand)]
    Demo(Demo),
    /// Becomes PostgreSQL; used by the server itself.
    #[command(hide = true)]
    InternalPostgres(PostgresArguments),
}

#[derive(Subcommand)]
enum Import {
    /// A log of `nvidia-smi --query-gpu=timestamp,utilization.gpu,.. --format=csv -l N`, or
    /// snapshots of `nvidia-smi -q -x`.
    ///
    /// UTF-8 or UTF-16, with commas, tabs or semicolons. Lines that are not understood are named,
    /// and the rest is imported. Rows that are recorded already are skipped and counted, so a log
    /// that has grown can be imported again. In dates with slashes that do not begin with the year,
    /// the month stands first.
    ///
    /// Exit status: 0 when rows were imported or are recorded already, 3 when the file holds none,
    /// 2 for everything else.
    NvidiaSmi {
        #[command(flatten)]
        log: Log,
        /// Column names of rows without a header, separated by commas.
        #[arg(long, value_name = "LIST")]
        columns: Option<String>,
    },
    /// JSON lines of a monitoring script: a time, and keys such as `gpu_usage:0`.
    ///
    /// Memory in bytes, power in watts. Otherwise as `import nvidia-smi`.
    Jsonl {
        #[command(flatten)]
        log: Log,
    },
}

#[derive(Args)]
struct Log {
    /// The log.
    file: PathBuf,
    /// Name of the node that the hours are booked on; the same name continues the same node.
    #[arg(long, value_name = "NAME")]
    node: String,
    /// Zone of the log's local times, an IANA name.
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = zone)]
    timezone: Zone,
    /// Refuse a log with any line that is not understood.
    #[arg(long)]
    strict: bool,
    /// Seconds between two rows of one GPU [default: the median in the log].
    #[arg(long, value_name = "S", value_parser = cadence)]
    cadence: Option<u32>,
    /// The tenant that the node belongs to.
    #[arg(long, value_name = "SLUG", default_value = "default")]
    tenant: Slug,
    /// The provider that the node is rented from.
    #[arg(long, value_name = "SLUG", default_value = "default")]
    provider: Slug,
    /// The running server.
    #[arg(
        long,
        env = "LEASEWATCH_SERVER",
        value_name = "URL",
        default_value = "http://127.0.0.1:7443"
    )]
    server: String,
    /// Where the keys of imported nodes are kept [default: `imports` in the server's data
    /// directory].
    #[arg(long, value_name = "DIR")]
    key_dir: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Demo {
    /// Removes every node of the tenant `demo` with its hours. Refuses if one holds real data.
    Remove(ServeFlags),
}

fn zone(name: &str) -> Result<Zone, String> {
    Zone::parse(name).map_err(|error| error.to_string())
}

/// Seconds with up to three digits after the point, as milliseconds.
fn cadence(text: &str) -> Result<u32, String> {
    let wrong = || "must be 0.001 to 3600 seconds".to_owned();
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{whole}{fraction:0<3}");
    let valid = fraction.len() <= 3 && digits.bytes().all(|b| b.is_ascii_digit());
    let ms = digits.parse::<u32>().ok().filter(|_| valid && !whole.is_empty());
    ms.filter(|ms| (1..=3_600_000).contains(ms)).ok_or_else(wrong)
}

fn main() -> ExitCode {
    let program = Program::parse();
    if let Command::InternalPostgres(arguments) = program.command {
        start_logging();
        let error = become_postgres(&arguments);
        tracing::error!(%error, "PostgreSQL cannot be started");
        return ExitCode::FAILURE;
    }
    start_logging();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&anyhow::Error::from(error)),
    };
    match runtime.block_on(run(program.command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

/// Exit status of an import of a file without a row.
const NOTHING_IMPORTED: u8 = 3;

fn start_logging() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("LEASEWATCH_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info,sqlx=warn"));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
}

/// Exit status 2: the request cannot be served as it is.
fn failed(error: &anyhow::Error) -> ExitCode {
    eprintln!("leasewatch-server: {error:#}");
    match error.downcast_ref() {
        Some(ImportError::Nothing(_)) => ExitCode::from(NOTHING_IMPORTED),
        _ => ExitCode::from(2),
    }
}

async fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Serve(flags) => serve::serve(ServeOptions::resolve(flags)?).await,
        Command::Import(Import::NvidiaSmi { log, columns }) => {
            import_log(log, LogKind::Smi, columns).await
        }
        Command::Import(Import::Jsonl { log }) => import_log(log, LogKind::Jsonl, None).await,
        Command::Demo(Demo::Remove(flags)) => {
            let removed = demo::remove(&ServeOptions::resolve(flags)?).await?;
            println!("removed {removed} demo nodes");
            Ok(())
        }
        // `main` has dealt with it.
        Command::InternalPostgres(_) => Ok(()),
    }
}

async fn import_log(arguments: Log, kind: LogKind, columns: Option<String>) -> anyhow::Result<()> {
    let request = ImportRequest {
        kind,
        file: arguments.file,
        node: arguments.node,
        tenant: arguments.tenant,
        provider: arguments.provider,
        zone: arguments.timezone,
        columns,
        cadence_ms: arguments.cadence,
        strict: arguments.strict,
        server: arguments.server,
        key_dir: arguments.key_dir.unwrap_or_else(|| default_base_dir().join("imports")),
    };
    let on_terminal = std::io::stderr().is_terminal();
    let mut drawn = false;
    let report = import::run(&request, Clock::system().now(), |done, all| {
        if on_terminal {
            eprint!("\r{}", progress_bar(done, all));
            drawn = true;
        }
    })
    .await;
    if drawn {
        eprintln!();
    }
    print_report(&request, &report?);
    Ok(())
}

/// `[########............] 40 of 100 segments delivered`
fn progress_bar(done: u64, all: u64) -> String {
    const WIDTH: u64 = 30;
    let full = (done.min(all) * WIDTH).checked_div(all).unwrap_or(WIDTH);
    let cells: String = (0..WIDTH).map(|cell| if cell < full { '#' } else { '.' }).collect();
    format!("[{cells}] {done} of {all} segments delivered")
}

fn print_report(request: &ImportRequest, report: &ImportReport) {
    let (rows, gpus, ms) = (report.rows, report.gpus, report.cadence_ms);
    if report.problems.count > 0 {
        eprint!("{}", report.problems);
        eprintln!("warning: {} lines were not understood, see above", report.problems.count);
    }
    println!("imported {rows} rows of {gpus} GPU(s) at a cadence of {ms} ms");
    if report.rows_covered > 0 {
        println!("skipped {} rows in time that is recorded already", report.rows_covered);
    }
    if report.rows_repeated > 0 {
        println!("skipped {} rows that stand in the log again", report.rows_repeated);
    }
    if !report.columns_ignored.is_empty() {
        println!("not recorded: {}", report.columns_ignored.join(", "));
    }
    let (server, node) = (request.server.trim_end_matches('/'), &report.node);
    if let Some(period) = report.period {
        let day = |at: Timestamp| at.to_string().chars().take(10).collect::<String>();
        let (from, to) = (day(period.start), day(period.end));
        println!("hours: {server}/hours.csv?from={from}&to={to}&node={node}");
    }
    println!("{server}/nodes/{node}");
}
