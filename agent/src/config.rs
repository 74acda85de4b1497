//! What the agent is told: command line, environment and a TOML file, in this order of weight.
//!
//! A key that is misspelt, a value of the wrong type or out of bounds is an error that names it,
//! never a default. Nothing here can be set by a server.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use leasewatch_core::id::{Slug, clean_text};
use leasewatch_proto::channel::{ServerAddress, ServerCertificate};
use serde::Deserialize;
use tracing_subscriber::EnvFilter;

use crate::command::{
    CheckArgs, DoctorArgs, ExecArgs, RecordArgs, ReportArgs, RunCommand, StatusArgs,
};
use crate::enrollment::{JoinArgs, Joining};
use crate::source::DEFAULT_NVML_LIBRARY;
use crate::spool::Quota;

/// Where the agent keeps its state unless it is told otherwise.
pub const DEFAULT_STATE_DIR: &str = "/var/lib/leasewatch-agent";
const NAME_BYTES: usize = 128;

/// Meters the GPUs of this machine and delivers signed records to a leasewatch server.
#[derive(Debug, Parser)]
#[command(name = "leasewatch-agent", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run until stopped. The first contact with the server joins this machine as a node; before
    /// it nothing is recorded, afterwards everything is, also while the server is away.
    #[command(after_help = "\
Exit codes: 0 stopped as asked, 1 failed, 2 wrong configuration, 3 another agent runs on the state
directory. With --once: 0 printed, 2 wrong configuration, 4 no GPU was read.")]
    Run(Box<RunCommand>),
    /// Check once whether this is the machine that was rented: number and model of the GPUs, memory,
    /// limits, links, errors, hidden sensors, against the wanted terms and the catalogue.
    Check(CheckArgs),
    /// Check whether the agent can do its work here, and say what to do where it cannot.
    Doctor(Box<DoctorArgs>),
    /// Show how the agent on this machine is.
    #[command(after_help = "\
Exit codes: 0 it runs and all is well, 1 it runs and something is not well, 2 wrong arguments,
3 it does not run, 4 nothing can be said.")]
    Status(StatusArgs),
    /// Record while a job runs: start with it, end with it, note its name and exit code.
    Exec(Box<ExecArgs>),
    /// Record into a folder without a server: the same signed segments, to be looked at with
    /// `report` and taken to a server later.
    #[command(after_help = "\
Exit codes: 0 stopped as asked, 1 failed, 2 wrong arguments or the folder is an agent's, 3 something
records into the folder already.")]
    Record(Box<RecordArgs>),
    /// Show the hours of this machine's GPUs, from the records that lie on its disk.
    #[command(after_help = "\
Exit codes: 0 printed, 2 wrong arguments, 4 there is no record.")]
    Report(ReportArgs),
}

/// Options of `run`. Each can also stand in the environment or in the file.
#[derive(Debug, Default, Clone, Args)]
pub struct RunArgs {
    /// Where the server is: https://, or http:// on this machine; a join string says it as well.
    /// It is reached through the proxy that HTTPS_PROXY names, if any
    /// [default: the server that the node has joined, else http://127.0.0.1:7443]
    #[arg(long, env = "LEASEWATCH_SERVER", value_name = "URL")]
    pub server: Option<String>,
    /// The server's certificate, for https: a copy of tls/certificate.pem from its data directory.
    /// It alone is trusted, and nothing of the system
    #[arg(long, env = "LEASEWATCH_SERVER_CERTIFICATE", value_name = "FILE")]
    pub server_certificate: Option<PathBuf>,
    #[command(flatten)]
    pub join: JoinArgs,
    /// Where the node's key and the end of its chain are kept [default: /var/lib/leasewatch-agent]
    #[arg(long, env = "LEASEWATCH_STATE_DIR", value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Without a join string: the tenant that a new node asks to belong to [default: default]
    #[arg(long, env = "LEASEWATCH_TENANT", value_name = "SLUG")]
    pub tenant: Option<String>,
    /// Without a join string: who supplies the node, in a-z, 0-9 and - [default: unknown]
    #[arg(long, env = "LEASEWATCH_PROVIDER", value_name = "SLUG")]
    pub provider: Option<String>,
    /// The name that people see [default: the host name]
    #[arg(long, env = "LEASEWATCH_NODE_NAME", value_name = "NAME")]
    pub name: Option<String>,
    /// The NVML library [default: libnvidia-ml.so.1]
    #[arg(long, env = "LEASEWATCH_NVML_LIBRARY", value_name = "PATH")]
    pub nvml_library: Option<PathBuf>,
    /// Time between samples, such as 1s or 500ms, from 100ms to 60s [default: 1s]
    #[arg(long, env = "LEASEWATCH_CADENCE", value_name = "TIME")]
    pub cadence: Option<String>,
    /// Count the processes on each GPU (numbers only: no names, users or arguments)
    #[arg(long, env = "LEASEWATCH_PROCESS_LISTS")]
    pub process_lists: bool,
    /// Most disk for records that wait for the server, in MiB [default: 128]
    #[arg(long, env = "LEASEWATCH_SPOOL_MIB", value_name = "MIB")]
    pub spool_mib: Option<u32>,
    /// Longest time for which records wait for the server, in hours [default: 720]
    #[arg(long, env = "LEASEWATCH_SPOOL_HOURS", value_name = "HOURS")]
    pub spool_hours: Option<u32>,
    /// Free space of the disk that records leave to others, in MiB [default: 256]
    #[arg(long, env = "LEASEWATCH_SPOOL_RESERVE_MIB", value_name = "MIB")]
    pub spool_reserve_mib: Option<u32>,
    /// How the log is written [default: text]
    #[arg(long, env = "LEASEWATCH_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// What the log holds, such as info or leasewatch_agent=debug [default: info]
    #[arg(long, env = "LEASEWATCH_LOG", value_name = "FILTER")]
    pub log: Option<String>,
    /// A TOML file with any of these options (with _ for -); what stands above weighs more
    #[arg(long, env = "LEASEWATCH_AGENT_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
}

/// How the log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileConfig {
    server: Option<String>,
    server_certificate: Option<PathBuf>,
    join_file: Option<PathBuf>,
    state_dir: Option<PathBuf>,
    tenant: Option<String>,
    provider: Option<String>,
    name: Option<String>,
    nvml_library: Option<PathBuf>,
    cadence: Option<String>,
    process_lists: bool,
    spool_mib: Option<u32>,
    spool_hours: Option<u32>,
    spool_reserve_mib: Option<u32>,
    log_format: Option<LogFormat>,
    log: Option<String>,
}

/// What the agent does, complete and within bounds.
#[derive(Debug, Clone)]
#[expect(missing_docs, reason = "each field is documented at `RunArgs`")]
pub struct Config {
    /// `None` = the one of the join string, or the one that was kept.
    pub server: Option<ServerAddress>,
    /// What a new node joins with.
    pub joining: Option<Joining>,
    pub state_dir: PathBuf,
    pub tenant: Slug,
    pub provider: Slug,
    pub name: String,
    pub nvml_library: PathBuf,
    /// `None` = what the server wants, 1 s until it has said.
    pub cadence_ms: Option<u32>,
    pub process_lists: bool,
    pub quota: Quota,
    pub log_format: LogFormat,
    pub log: String,
}

/// Why the agent does not start as configured.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {source}", .path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file is not what it should be; the text names line and key.
    #[error("{}: {message}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Line, key and reason. The line itself is not repeated: it may hold a secret that was put
        /// where none belongs.
        message: String,
    },
    /// A value is not allowed.
    #[error("{option}: {problem}")]
    Value {
        /// The option.
        option: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// A value is not allowed, and it stands in the file.
    #[error("{}: line {line}: {source}", .path.display())]
    InFile {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// Which value.
        source: Box<ConfigError>,
    },
}

impl Config {
    /// Puts together what the arguments, the environment and the file say.
    ///
    /// # Errors
    /// [`ConfigError`] names the option or the place in the file.
    pub fn new(args: RunArgs) -> Result<Self, ConfigError> {
        let Some(path) = args.config.clone() else {
            return Self::resolve(args, FileConfig::default());
        };
        let (text, file) = read_file(&path)?;
        let without_file = args.clone();
        Self::resolve(args, file).map_err(|error| {
            let alone = Self::resolve(without_file, FileConfig::default()).err();
            // What is wrong without the file as well was not said there.
            let is_elsewhere = alone.is_some_and(|alone| alone.option() == error.option());
            let line = error.option().and_then(|option| line_of(&text, option));
            match line.filter(|_| !is_elsewhere) {
                Some(line) => ConfigError::InFile { path, line, source: Box::new(error) },
                None => error,
            }
        })
    }

    fn resolve(args: RunArgs, file: FileConfig) -> Result<Self, ConfigError> {
        let text = |value: Option<String>, other: Option<String>, default: &str| {
            value.or(other).unwrap_or_else(|| default.to_owned())
        };
        let certificate = args.server_certificate.or(file.server_certificate);
        let server = server_address(args.server.or(file.server), certificate.as_deref())?;
        let mut join = args.join;
        if join.join.is_none() {
            join.join_file = join.join_file.or(file.join_file);
        }
        let joining = join.resolve().map_err(|(option, problem)| value(option, problem))?;
        if joining.is_some() && server.is_some() {
            return Err(value("server", "has no effect with a join string, which names it"));
        }
        let default_dir = || PathBuf::from(DEFAULT_STATE_DIR);
        let mib = args.spool_mib.or(file.spool_mib).unwrap_or(128);
        let hours = args.spool_hours.or(file.spool_hours).unwrap_or(720);
        let reserve = args.spool_reserve_mib.or(file.spool_reserve_mib).unwrap_or(256);
        Ok(Self {
            server,
            joining,
            state_dir: args.state_dir.or(file.state_dir).unwrap_or_else(default_dir),
            tenant: slug("tenant", &text(args.tenant, file.tenant, "default"))?,
            provider: slug("provider", &text(args.provider, file.provider, "unknown"))?,
            name: checked_name(args.name.or(file.name).unwrap_or_else(host_name))?,
            nvml_library: args
                .nvml_library
                .or(file.nvml_library)
                .unwrap_or_else(|| PathBuf::from(DEFAULT_NVML_LIBRARY)),
            cadence_ms: args.cadence.or(file.cadence).as_deref().map(cadence_ms).transpose()?,
            process_lists: args.process_lists || file.process_lists,
            quota: quota(mib, hours, reserve)?,
            log_format: args.log_format.or(file.log_format).unwrap_or(LogFormat::Text),
            log: checked_log(text(args.log, file.log, "info"))?,
        })
    }
}

impl ConfigError {
    /// The option whose value is not allowed.
    fn option(&self) -> Option<&'static str> {
        match self {
            Self::Value { option, .. } => Some(option),
            Self::InFile { source, .. } => source.option(),
            Self::Read { .. } | Self::File { .. } => None,
        }
    }
}

/// The line in which a key of the file stands, counted from 1.
fn line_of(text: &str, key: &str) -> Option<usize> {
    let names = |line: &str| {
        line.split_once('=').is_some_and(|(name, _)| name.trim().trim_matches(['"', '\'']) == key)
    };
    text.lines().position(names).map(|line| line + 1)
}

/// The file's text and what it says.
fn read_file(path: &PathBuf) -> Result<(String, FileConfig), ConfigError> {
    let text = fs::read_to_string(path)
        .map_err(|source| ConfigError::Read { path: path.clone(), source })?;
    let file = toml::from_str(&text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count();
        let key = text.lines().nth(line).and_then(|line| line.split_once('='));
        let key = key.map_or("", |(key, _)| key.trim());
        let message = format!("line {}: {key}: {}", line + 1, error.message());
        ConfigError::File { path: path.clone(), message }
    })?;
    Ok((text, file))
}

fn value(option: &'static str, problem: impl Into<String>) -> ConfigError {
    ConfigError::Value { option, problem: problem.into() }
}

fn slug(option: &'static str, text: &str) -> Result<Slug, ConfigError> {
    Slug::new(text).map_err(|error| value(option, error.to_string()))
}

fn server_address(
    url: Option<String>,
    certificate: Option<&Path>,
) -> Result<Option<ServerAddress>, ConfigError> {
    let certificate = certificate.map(|path| {
        ServerCertificate::read(path)
            .map_err(|error| value("server_certificate", format!("{} {error}", path.display())))
    });
    let certificate = certificate.transpose()?;
    let Some(url) = url else {
        let has_effect = certificate.is_none();
        let problem = "has no effect without --server";
        return if has_effect { Ok(None) } else { Err(value("server_certificate", problem)) };
    };
    let address = ServerAddress::new(&url, certificate);
    address.map(Some).map_err(|error| value("server", error.to_string()))
}

fn checked_name(name: String) -> Result<String, ConfigError> {
    if name.is_empty() || name.len() > NAME_BYTES || clean_text(&name, NAME_BYTES) != name {
        let problem = format!("must be 1 to {NAME_BYTES} bytes without control characters");
        return Err(value("name", problem));
    }
    Ok(name)
}

fn checked_log(filter: String) -> Result<String, ConfigError> {
    match EnvFilter::try_new(&filter) {
        Ok(_) => Ok(filter),
        Err(_) => Err(value("log", "is not a filter such as info or leasewatch_agent=debug")),
    }
}

fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "node".to_owned() } else { name }
}

/// `1s`, `500ms`.
fn cadence_ms(text: &str) -> Result<u32, ConfigError> {
    let (digits, factor) = match text.strip_suffix("ms") {
        Some(digits) => (digits, 1),
        None => (text.strip_suffix('s').unwrap_or(""), 1_000),
    };
    let number: Option<u32> = digits.parse().ok();
    number
        .and_then(|number| number.checked_mul(factor))
        .filter(|ms| (100..=60_000).contains(ms))
        .ok_or_else(|| value("cadence", "must be a time from 100ms to 60s, such as 1s"))
}

fn quota(mib: u32, hours: u32, reserve_mib: u32) -> Result<Quota, ConfigError> {
    if !(1..=4_096).contains(&mib) {
        return Err(value("spool_mib", "must be from 1 to 4096"));
    }
    if !(1..=24 * 30).contains(&hours) {
        return Err(value("spool_hours", "must be from 1 to 720"));
    }
    if reserve_mib > 1 << 20 {
        return Err(value("spool_reserve_mib", "must be from 0 to 1048576"));
    }
    let (bytes, reserve_bytes) = (u64::from(mib) << 20, u64::from(reserve_mib) << 20);
    Ok(Quota { bytes, hours, reserve_bytes })
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use leasewatch_core::join::{JoinAddress, JoinString, JoinToken, TlsTrust};

    use super::*;

    fn with_file(text: &str, args: RunArgs) -> Result<Config, ConfigError> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        Config::new(RunArgs { config: Some(file.path().to_owned()), ..args })
    }

    /// What is wrong with the file, without its name.
    fn problem(text: &str) -> String {
        let problem = with_file(text, RunArgs::default()).unwrap_err().to_string();
        problem.split_once(": ").unwrap().1.to_owned()
    }

    #[test]
    fn the_defaults_are_complete() {
        let config = Config::new(RunArgs::default()).unwrap();
        assert!(config.server.is_none() && config.joining.is_none());
        assert_eq!(config.quota, Quota { bytes: 128 << 20, hours: 720, reserve_bytes: 256 << 20 });
        assert_eq!(config.cadence_ms, None);
        assert!(!config.process_lists);
    }

    #[test]
    fn arguments_weigh_more_than_the_file() {
        let text = "tenant = \"a\"\ncadence = \"2s\"\nprocess_lists = true";
        let args = RunArgs { tenant: Some("b".to_owned()), ..RunArgs::default() };
        let config = with_file(text, args).unwrap();
        assert_eq!(config.tenant.as_str(), "b");
        assert_eq!((config.cadence_ms, config.process_lists), (Some(2_000), true));
    }

    #[test]
    fn mistakes_are_named() {
        assert!(problem("tenat = \"a\"").starts_with("line 1: tenat: unknown field"));
        assert!(problem("\n\nspool_mib = \"x\"").starts_with("line 3: spool_mib: invalid type"));
        assert!(problem("spool_mib = -1").starts_with("line 1: spool_mib: invalid value"));
        assert!(problem("\nspool_mib = 0").starts_with("line 2: spool_mib: must be"));
        for cadence in ["0s", "99ms", "61s", "1", "s", "-1s", "1h", "4294967295s"] {
            let text = format!("tenant = \"a\"\n\"cadence\" = \"{cadence}\"");
            assert!(problem(&text).starts_with("line 2: cadence: must be a time"));
        }
        for server in ["https://127.0.0.1:1", "http://10.0.0.1:7443", "http://evil", "nonsense"] {
            assert!(problem(&format!("server = \"{server}\"")).starts_with("line 1: server: "));
        }
        assert!(problem("name = \"a\\u0007b\"").starts_with("line 1: name"));
        assert!(problem("log = \"=,=\"").starts_with("line 1: log: is not a filter"));
        assert!(problem("tenant = \"A b\"").starts_with("line 1: tenant"));
    }

    #[test]
    fn what_is_wrong_outside_the_file_is_not_blamed_on_it() {
        let args =
            |cadence: &str| RunArgs { cadence: Some(cadence.to_owned()), ..RunArgs::default() };
        let error = |text: &str, args| with_file(text, args).unwrap_err().to_string();
        assert!(error("cadence = \"2s\"", args("0s")).starts_with("cadence: "));
        assert!(error("tenant = \"a\"", args("0s")).starts_with("cadence: "));
        // Overruled, so nobody asks what it says.
        assert!(with_file("cadence = \"0s\"", args("2s")).is_ok());
    }

    #[test]
    fn a_join_string_names_the_server_and_nothing_of_it_is_repeated() {
        let address = JoinAddress::new("https://203.0.113.7:7443").unwrap();
        let join =
            JoinString::new(vec![address], [7; 32], TlsTrust::Web, JoinToken([9; 24])).unwrap();
        let text = join.to_secret_text();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("{text}\n")).unwrap();
        let option = format!("join_file = \"{}\"", file.path().display());
        let config = with_file(&option, RunArgs::default()).unwrap();
        assert_eq!(config.joining.map(|joining| joining.string), Some(join));
        let both = problem(&format!("server = \"http://127.0.0.1:1\"\n{option}"));
        assert!(both.starts_with("line 1: server: has no effect with a join string"), "{both}");
        std::fs::write(file.path(), &text[..60]).unwrap();
        let cut = problem(&option);
        assert!(cut.starts_with("line 1: join_file: ") && !cut.contains(&text[10..20]), "{cut}");
        // Only a file can be named in the file: configuration is read by more people than secrets.
        let misplaced = problem(&format!("\njoin = \"{text}\""));
        assert!(misplaced.contains("line 2: join: unknown field"), "{misplaced}");
        assert!(!misplaced.contains("lwj1"), "{misplaced}");
    }

    #[test]
    fn https_needs_the_certificate_of_its_server() {
        let alone = problem("server = \"https://127.0.0.1:7443\"");
        assert!(alone.contains("--server-certificate FILE"), "{alone}");
        let missing = "server = \"https://127.0.0.1:7443\"\nserver_certificate = \"/nowhere\"";
        let missing = problem(missing);
        assert!(missing.starts_with("line 2: server_certificate: /nowhere cannot be read"));
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("certificate.pem");
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        std::fs::write(&path, made.cert.pem()).unwrap();
        let with = |server: &str| {
            let server_certificate = Some(path.clone());
            let server = Some(server.to_owned());
            Config::new(RunArgs { server, server_certificate, ..RunArgs::default() })
        };
        let server = with("https://[::1]:1").unwrap().server.map(|server| server.to_string());
        assert_eq!(server.as_deref(), Some("https://[::1]:1"));
        assert!(with("http://127.0.0.1:1").unwrap_err().to_string().starts_with("server: "));
        std::fs::write(&path, made.signing_key.serialize_pem()).unwrap();
        let key = with("https://127.0.0.1:1").unwrap_err().to_string();
        assert!(key.contains("exactly one certificate"), "{key}");
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
        let cli = Cli::try_parse_from(["leasewatch-agent", "run", "--provider", "acme"]).unwrap();
        assert!(matches!(cli.command, Command::Run(_)));
        let of = |words: &[&str]| Cli::try_parse_from([&["leasewatch-agent"], words].concat());
        assert!(of(&["run", "--json"]).is_err(), "--json is of --once");
        assert!(of(&["exec"]).is_err() && of(&["exec", "true"]).is_err(), "a job stands after --");
        assert!(of(&["exec", "--job", "a", "--", "python", "--job", "b"]).is_ok());
    }
}
