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
pub mod jsonl;
#[cfg(test)]
mod laws;
mod local_time;
pub mod log;
pub mod recorder;
mod said;
pub mod smi;
pub mod text;
pub mod xml;

use std::path::PathBuf;

use leasewatch_core::id::{IdError, Slug};
use leasewatch_core::time::{DAY_MS, Period, Timestamp, Zone};

use log::{ImportLog, Problems};

/// How far back a log may reach: a day less than the server takes.
const REACH_MS: i64 = 3_652 * DAY_MS;

/// Which tool wrote a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogKind {
    /// `nvidia-smi`: CSV, or XML snapshots.
    Smi,
    /// A monitoring script: JSON lines.
    Jsonl,
}

/// What an import is asked to do.
#[derive(Debug, Clone)]
pub struct ImportRequest {
    /// Which tool wrote it.
    pub kind: LogKind,
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
    /// Address of the running server.
    pub server: String,
    /// Where the keys of imported nodes are kept.
    pub key_dir: PathBuf,
}

/// What an import did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportReport {
    /// Public id of the node.
    pub node: String,
    /// Rows that were recorded.
    pub rows: usize,
    /// Rows that lie in time that is recorded already.
    pub rows_covered: usize,
    /// Rows that stand in the log more than once.
    pub rows_repeated: usize,
    /// Segments that the server acknowledged.
    pub segments: u64,
    /// GPUs in the log.
    pub gpus: usize,
    /// The cadence in use.
    pub cadence_ms: u32,
    /// First and last row of the log.
    pub period: Option<Period>,
    /// Columns that are not recorded.
    pub columns_ignored: Vec<String>,
    /// Lines that were not understood.
    pub problems: Problems,
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
}

/// Why an import did not happen. Nothing is stored unless the message says so.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
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
    /// The rows could not be sealed.
    #[error("the log cannot be recorded: {0}")]
    Seal(String),
    /// The server does not answer or refuses.
    #[error("{0}")]
    Server(String),
}

/// Imports one log; `progress` is called with (acknowledged, all) segments.
///
/// # Errors
/// [`ImportError`]; a log that cannot be read is refused before the server hears of it.
pub async fn run(
    request: &ImportRequest,
    now: Timestamp,
    progress: impl FnMut(u64, u64),
) -> Result<ImportReport, ImportError> {
    let path = request.file.display().to_string();
    let bytes =
        std::fs::read(&request.file).map_err(|source| ImportError::File { path, source })?;
    let text = text::decode(&bytes);
    let log = parse(request, &text, now)?;
    if log.gpus.is_empty() {
        return Err(ImportError::Nothing(log.problems));
    }
    if request.strict && log.problems.count > 0 {
        return Err(ImportError::Strict(log.problems));
    }
    let cadence_ms = cadence_ms(request, &log, xml::is_xml(&text))?;
    client::deliver(request, &log, cadence_ms, progress).await
}

fn parse(request: &ImportRequest, text: &str, now: Timestamp) -> Result<ImportLog, LogError> {
    let reader = log::Reader {
        columns: request.columns.as_deref(),
        zone: request.zone,
        credible: Period::new(now.plus_ms(-REACH_MS), now),
    };
    match request.kind {
        LogKind::Smi if xml::is_xml(text) => xml::parse(text, reader),
        LogKind::Smi => smi::parse(text, reader),
        LogKind::Jsonl => jsonl::parse(text, reader),
    }
}

/// A snapshot stands for a second; a single row of a log could stand for anything.
fn cadence_ms(
    request: &ImportRequest,
    log: &ImportLog,
    snapshot: bool,
) -> Result<u32, ImportError> {
    let given = request.cadence_ms.or_else(|| recorder::median_cadence_ms(log));
    given.or(snapshot.then_some(1_000)).ok_or_else(|| {
        ImportError::Seal(
            "its rows do not show how far apart they are: say it with --cadence".to_owned(),
        )
    })
}
