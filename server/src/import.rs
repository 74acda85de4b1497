//! Import of logs that other tools wrote.
//!
//! An importer is a recorder of its own: it reads a log, seals it into signed segments of origin
//! *imported*, and delivers them to the running server over the same stream as an agent does. So
//! an imported hour is metered, stored and shown by the same code as a measured one, and the mark
//! cannot be lost.

mod cell;
mod chosen;
pub mod client;
mod covered;
pub mod history;
pub mod jsonl;
#[cfg(test)]
mod laws;
mod local_time;
pub mod log;
mod other_tool;
pub mod progress_line;
pub mod recorder;
mod said;
pub mod smi;
pub mod spool;
mod target;
pub mod text;
pub mod uploaded;
pub mod xml;

use std::path::PathBuf;

use leasewatch_core::id::{IdError, Slug};
use leasewatch_core::log_fault::ForeignOutput;
use leasewatch_core::time::{DAY_MS, Period, Timestamp, Zone};
use leasewatch_proto::channel::ServerAddress;

use crate::intake::{ImportReport, LogKind, Problems, Progress, RecordingFault};
use log::ImportLog;
pub use target::{Destination, Joining, Target};

/// How far back a log may reach: a day less than the server takes.
const REACH_MS: i64 = 3_652 * DAY_MS;

/// What an import is asked to do.
#[derive(Debug, Clone)]
pub struct ImportRequest {
    /// Which tool wrote it; `None` to find out.
    pub kind: Option<LogKind>,
    /// The log.
    pub file: PathBuf,
    /// Name of the node that the hours are booked on.
    pub node: String,
    /// The tenant that the node belongs to.
    pub tenant: Slug,
    /// The provider of the node.
    pub provider: Slug,
    /// Zone of the log's local times.
    pub zone: Zone,
    /// Names of the columns, for a log without a header.
    pub columns: Option<String>,
    /// Time between two rows of one GPU; the median when not given.
    pub cadence_ms: Option<u32>,
    /// Refuse a log with any line that is not understood.
    pub strict: bool,
    /// Address of the running server, and what it has to show.
    pub server: ServerAddress,
    /// What a new node joins with; `None` where enrolment is open.
    pub join: Option<Joining>,
    /// Where the keys of imported nodes are kept.
    pub key_dir: PathBuf,
}

/// Why a text is not a log that can be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogError {
    /// Rows of data, and nobody said what the columns are.
    #[error(
        "the log has no header. Name its columns, for example\n  --columns timestamp,utilization.gpu,utilization.memory,memory.used,memory.total,temperature.gpu,power.draw\nThe first row is:\n  {first_row}"
    )]
    NoHeader {
        /// The row as it stands.
        first_row: String,
    },
    /// The header names nothing that can be recorded, or the log has no times.
    #[error("the columns must include `timestamp` and `utilization.gpu`; found: {found}")]
    Columns {
        /// The names found.
        found: String,
    },
    /// Several GPUs, and nothing says which row is whose.
    #[error(
        "the rows are of several GPUs, and no column says which: the log would need `index`, `uuid` or `pci.bus_id`"
    )]
    GpusNotNamed,
    /// It was written by another tool, or by another call of this one.
    #[error("this is {found}, which cannot be imported like this. Use\n  {instead}")]
    OtherTool {
        /// What it looks like.
        found: ForeignOutput,
        /// The command to use.
        instead: &'static str,
    },
}

/// Why an import did not happen. Nothing is stored unless the message says so.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// Where it should go is not well said.
    #[error("{0}")]
    Target(String),
    /// The file cannot be read, or what is kept beside the node's key not written.
    #[error("{path} cannot be read")]
    File {
        /// The file.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The text is not a log of this kind.
    #[error(transparent)]
    Log(#[from] LogError),
    /// It is no recording.
    #[error(transparent)]
    Recording(#[from] RecordingFault),
    /// There is no row in it.
    #[error(
        "the file holds no row that can be imported: a row needs a time and the utilization of a GPU\n{0}"
    )]
    Nothing(Problems),
    /// `--strict`, and a line is not understood.
    #[error("{0}nothing was imported, for a strict import takes the whole log or nothing")]
    Strict(Problems),
    /// The node name holds nothing that can be shown.
    #[error("--node must hold at least one visible character")]
    NodeName,
    /// An id is not valid.
    #[error(transparent)]
    Id(#[from] IdError),
    /// Single rows, and nobody said what they stand for.
    #[error(
        "the log cannot be recorded: its rows do not show how far apart they are: say it with --cadence"
    )]
    Cadence,
    /// The rows could not be sealed.
    #[error("the log cannot be recorded: {0}")]
    Seal(String),
    /// A line of a history is not what it must be.
    #[error("line {line} of the history: {what}")]
    History {
        /// The line, from 1.
        line: usize,
        /// What is wrong, made inert.
        what: String,
    },
    /// A history stands before everything else that is recorded of its node.
    #[error(
        "this node has recorded already, and a history stands before everything else: use a new --state directory"
    )]
    HasRecorded,
    /// The agent's state directory cannot be used.
    #[error("the state directory: {0}")]
    State(String),
    /// The server does not answer or refuses.
    #[error("{0}")]
    Server(String),
}

/// Imports one log, and tells `progress` how far it is.
///
/// # Errors
/// [`ImportError`]; a log that cannot be read is refused before the server hears of it.
pub async fn run(
    request: &ImportRequest,
    now: Timestamp,
    progress: &Progress,
) -> Result<ImportReport, ImportError> {
    let (owned, watched) = (request.clone(), progress.clone());
    // Reading a long log takes seconds, in which the server has other things to do.
    let reading = tokio::task::spawn_blocking(move || read(&owned, now, &watched));
    let (log, cadence_ms) = reading.await.map_err(|_| ImportError::broken())??;
    client::deliver(request, log, cadence_ms, progress).await
}

impl ImportError {
    /// A thread panicked, which a log must not be able to bring about.
    fn broken() -> Self {
        Self::Seal("the importer failed, which is a fault of this program".to_owned())
    }
}

/// The log, and its cadence.
fn read(
    request: &ImportRequest,
    now: Timestamp,
    progress: &Progress,
) -> Result<(ImportLog, u32), ImportError> {
    let path = request.file.display().to_string();
    let bytes =
        std::fs::read(&request.file).map_err(|source| ImportError::File { path, source })?;
    let text = text::decode(bytes);
    let reader = log::Reader {
        columns: request.columns.as_deref(),
        zone: request.zone,
        credible: Period::new(now.plus_ms(-REACH_MS), now),
        progress: Some(progress),
    };
    let kind = request.kind.unwrap_or_else(|| jsonl::kind(&text));
    let parsed = match kind {
        LogKind::Smi if xml::is_xml(&text) => xml::parse(&text, reader),
        LogKind::Smi => smi::parse(&text, reader),
        LogKind::Jsonl => jsonl::parse(&text, reader),
    };
    let log = match parsed {
        Ok(log) if !log.gpus.is_empty() => log,
        Ok(log) => {
            let told = other_tool::told(&text, kind);
            return Err(told.map_or(ImportError::Nothing(log.problems), ImportError::Log));
        }
        Err(error) => return Err(other_tool::told(&text, kind).unwrap_or(error).into()),
    };
    if request.strict && log.problems.count > 0 {
        return Err(ImportError::Strict(log.problems));
    }
    let cadence_ms = cadence_ms(request, &log, xml::is_xml(&text))?;
    Ok((log, cadence_ms))
}

/// A snapshot stands for a second; a single row of a log could stand for anything.
fn cadence_ms(
    request: &ImportRequest,
    log: &ImportLog,
    snapshot: bool,
) -> Result<u32, ImportError> {
    let given = request.cadence_ms.or_else(|| recorder::median_cadence_ms(log));
    given.or(snapshot.then_some(1_000)).ok_or(ImportError::Cadence)
}
