//! The server program: command line and logging. What it does is in the library.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};
use leasewatch_core::id::{GpuUuid, Slug};
use leasewatch_core::time::{Period, Timestamp, Zone};
use leasewatch_proto::channel::install_cryptography;
use leasewatch_server::accounts::{self, TokensCommand, UsersCommand};
use leasewatch_server::apply::bill_command::{self as money, BillsCommand, PricesCommand};
use leasewatch_server::apply::command::{self as apply, Apply, LeasesCommand};
use leasewatch_server::clock::Clock;
use leasewatch_server::config::{ServeFlags, ServeOptions};
use leasewatch_server::demo::{self, DemoCommand};
use leasewatch_server::embedded_postgres::{PostgresArguments, become_postgres, default_base_dir};
use leasewatch_server::enrollment::command::{self, JoinTokenCommand, NodesCommand};
use leasewatch_server::export::{self, ExportRequest};
use leasewatch_server::import::history::{self, HistoryRequest};
use leasewatch_server::import::progress_line::watched;
use leasewatch_server::import::spool::{self, SpoolFlags, SpoolRequest};
use leasewatch_server::import::{self, ImportError, ImportRequest, Target};
use leasewatch_server::intake::{ImportReport, LogKind, Progress, cadence_ms};
use leasewatch_server::serve;
use leasewatch_server::serve::command::{self as keys, IdentityCommand, TlsCommand};
use leasewatch_server::tenancy::command::{self as tenant, TenantCommand};

/// Collects what rented GPUs did, keeps exact hours, and shows them.
#[derive(Parser)]
#[command(name = "leasewatch-server", version)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the server: agents and pages on one port.
    Serve(ServeFlags),
    /// Asks the server that listens on this machine whether it is ready, for health checks.
    ///
    /// Exit status: 0 when it is, else 2 with the reason.
    Health(ServeFlags),
    /// Who may sign in.
    #[command(subcommand)]
    Users(UsersCommand),
    /// What programs sign their requests with.
    #[command(subcommand)]
    Tokens(TokensCommand),
    /// Imports logs that other tools wrote; the server has to be running.
    #[command(subcommand)]
    Import(Import),
    /// Takes what is stored out again.
    #[command(subcommand)]
    Export(Export),
    /// The demo fleet.
    #[command(subcommand)]
    Demo(DemoCommand),
    /// Strings with which nodes join.
    #[command(subcommand)]
    JoinToken(JoinTokenCommand),
    /// Nodes and their keys.
    #[command(subcommand)]
    Nodes(NodesCommand),
    /// Writes leases, billing sessions, assignments and labels from files into the database.
    ///
    /// All of a run or nothing: what is wrong is named by file, line and field. The same files again
    /// change nothing.
    Apply(Box<Apply>),
    /// What is rented.
    #[command(subcommand)]
    Leases(LeasesCommand),
    /// Bills of providers, compared with terms and measured time.
    #[command(subcommand)]
    Bills(BillsCommand),
    /// What providers offer.
    #[command(subcommand)]
    Prices(PricesCommand),
    /// Whose nodes there are: tenants, everything of one as a file, and removing one.
    #[command(subcommand)]
    Tenant(TenantCommand),
    /// The key by which nodes know the server.
    #[command(subcommand)]
    Identity(IdentityCommand),
    /// The server's own certificate.
    #[command(subcommand)]
    Tls(TlsCommand),
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
    /// The past of a simulated node, as `leasewatch-sim-history` writes it.
    ///
    /// It becomes the beginning of the record of an agent that has not run yet, and is marked as
    /// simulated for ever. Run again with the same log, it goes on where it was broken off.
    History(Past),
    /// A recording of `leasewatch-agent record`, as it was signed.
    ///
    /// What was measured is marked as imported, for nobody saw it being made; simulated data stays
    /// marked as that. What is damaged is named and the rest is imported. Run again, it goes on
    /// where it was broken off, or behind what was recorded since.
    Spool(Box<SpoolFlags>),
}

#[derive(Args)]
struct Past {
    /// The log; `-` is standard input.
    file: PathBuf,
    /// Name of the node.
    #[arg(long, value_name = "NAME")]
    node: String,
    /// State directory of the node's agent. Its key and chain are made here, as the agent would.
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    #[command(flatten)]
    target: Target,
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
    #[command(flatten)]
    target: Target,
    /// Where the keys of imported nodes are kept [default: `imports` in the server's data
    /// directory].
    #[arg(long, value_name = "DIR")]
    key_dir: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Export {
    /// Signed segments of a node as a capture, which can be checked and played by `nvml-sim`.
    Segments(Box<Taken>),
}

#[derive(Args)]
struct Taken {
    #[command(flatten)]
    serve: ServeFlags,
    /// The capture; must not exist.
    file: PathBuf,
    /// Name of the node.
    #[arg(long, value_name = "NAME")]
    node: String,
    /// The tenant that the node belongs to.
    #[arg(long, value_name = "SLUG", default_value = "default")]
    tenant: Slug,
    /// Segments from here on, whole.
    #[arg(long, value_name = "TIME", value_parser = export::time)]
    from: Timestamp,
    /// Segments that begin before this.
    #[arg(long, value_name = "TIME", value_parser = export::time)]
    to: Timestamp,
    /// Blocks of this GPU alone, and events.
    #[arg(long, value_name = "UUID")]
    gpu: Option<GpuUuid>,
}

fn zone(name: &str) -> Result<Zone, String> {
    Zone::parse(name).map_err(|error| error.to_string())
}

fn cadence(text: &str) -> Result<u32, String> {
    cadence_ms(text).ok_or_else(|| "must be 0.001 to 3600 seconds".to_owned())
}

fn main() -> ExitCode {
    install_cryptography();
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
        Command::Health(flags) => serve::ready(ServeOptions::resolve(flags)?.listen).await,
        Command::Users(command) => said(accounts::users(command).await?),
        Command::Tokens(command) => said(accounts::tokens(command).await?),
        Command::Import(Import::NvidiaSmi { log, columns }) => {
            import_log(log, LogKind::Smi, columns).await
        }
        Command::Import(Import::Jsonl { log }) => import_log(log, LogKind::Jsonl, None).await,
        Command::Import(Import::History(past)) => import_history(past).await,
        Command::Import(Import::Spool(flags)) => import_spool(*flags).await,
        Command::Export(Export::Segments(taken)) => export_segments(*taken).await,
        Command::Demo(asked) => said(demo::command(asked).await?),
        Command::Apply(asked) => apply::apply(*asked).await,
        Command::Leases(asked) => apply::leases(asked).await,
        Command::Bills(asked) => money::bills(asked).await,
        Command::Prices(asked) => money::prices(asked).await,
        Command::JoinToken(asked) => command::join_token(asked).await,
        Command::Nodes(asked) => command::nodes(asked).await,
        Command::Tenant(asked) => tenant::run(asked).await,
        Command::Identity(asked) => keys::identity(asked),
        Command::Tls(asked) => keys::tls(asked),
        // `main` has dealt with it.
        Command::InternalPostgres(_) => Ok(()),
    }
}

fn said(text: String) -> anyhow::Result<()> {
    println!("{text}");
    Ok(())
}

async fn export_segments(taken: Taken) -> anyhow::Result<()> {
    let options = ServeOptions::resolve(taken.serve)?;
    let request = ExportRequest {
        tenant: taken.tenant,
        node: taken.node,
        period: Period::new(taken.from, taken.to),
        gpu: taken.gpu,
        file: taken.file,
    };
    let written = export::segments(&options, &request).await?;
    said(format!("wrote {written} segments to {}", request.file.display()))
}

async fn import_log(arguments: Log, kind: LogKind, columns: Option<String>) -> anyhow::Result<()> {
    let (server, join) = arguments.target.resolve()?;
    let request = ImportRequest {
        kind: Some(kind),
        file: arguments.file,
        node: arguments.node,
        provider: arguments.target.provider().clone(),
        tenant: arguments.target.tenant,
        zone: arguments.timezone,
        columns,
        cadence_ms: arguments.cadence,
        strict: arguments.strict,
        server,
        join,
        key_dir: arguments.key_dir.unwrap_or_else(|| default_base_dir().join("imports")),
    };
    let progress = Progress::default();
    let importing = import::run(&request, Clock::system().now(), &progress);
    let report = watched(importing, &progress).await?;
    print_report(&request, &report);
    Ok(())
}

async fn import_history(past: Past) -> anyhow::Result<()> {
    let (server, join) = past.target.resolve()?;
    let request = HistoryRequest {
        file: past.file,
        state_dir: past.state,
        node: past.node,
        provider: past.target.provider().clone(),
        tenant: past.target.tenant,
        server,
        join,
    };
    let progress = Progress::default();
    let report = watched(history::run(&request, &progress), &progress).await?;
    let (segments, node) = (report.segments, &report.node);
    let (from, to) = (report.period.start, report.period.end);
    println!("imported {segments} segments of simulated data, {from} to {to}");
    if report.segments_covered > 0 {
        println!("skipped {} segments that are recorded already", report.segments_covered);
    }
    println!("{}/nodes/{node}", request.server);
    Ok(())
}

async fn import_spool(flags: SpoolFlags) -> anyhow::Result<()> {
    let progress = Progress::default();
    let request = SpoolRequest::resolve(flags)?;
    let report = watched(spool::run(&request, &progress), &progress).await?;
    print!("{report}");
    println!("{}/nodes/{}", request.server, report.node);
    Ok(())
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
    let (server, node) = (&request.server, &report.node);
    if let Some(period) = report.period {
        let day = |at: Timestamp| at.to_string().chars().take(10).collect::<String>();
        let (from, to) = (day(period.start), day(period.end));
        println!("hours: {server}/hours.csv?from={from}&to={to}&node={node}");
    }
    println!("{server}/nodes/{node}");
}
