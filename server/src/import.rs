//! Import of logs that other tools wrote.
//!
//! An importer is a recorder of its own: it reads a log, seals it into signed segments of origin
//! *imported*, and delivers them to the running server over the same stream as an agent does. So
//! an imported hour is metered, stored and shown by the same code as a measured one, and the mark
//! cannot be lost.

pub mod client;
pub mod recorder;
pub mod smi;
pub mod text;

use std::path::PathBuf;

use leasewatch_core::id::{IdError, Slug};
use leasewatch_core::time::Zone;

/// What `import nvidia-smi` is asked to do.
#[derive(Debug, Clone)]
pub struct ImportRequest {
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
    /// Segments that the server acknowledged.
    pub segments: u64,
    /// GPUs in the log.
    pub gpus: usize,
    /// The cadence in use.
    pub cadence_ms: u32,
    /// Columns that were not understood and not recorded.
    pub columns_ignored: Vec<String>,
}

/// Why an import did not happen. Nothing is stored unless the message says so.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// The text is not a log of this kind.
    #[error(transparent)]
    Log(#[from] smi::LogError),
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

/// Imports one `nvidia-smi --query-gpu .. --format=csv -l` log; `progress` is called with
/// (acknowledged, all) segments.
///
/// # Errors
/// [`ImportError`]; a bad log is refused before the server hears of it.
pub async fn run(
    request: &ImportRequest,
    progress: impl FnMut(u64, u64),
) -> Result<ImportReport, ImportError> {
    let path = request.file.display().to_string();
    let bytes =
        std::fs::read(&request.file).map_err(|source| ImportError::File { path, source })?;
    let text = text::decode(&bytes).map_err(smi::LogError::from)?;
    let log = smi::parse(&text, request.columns.as_deref(), request.zone)?;
    client::deliver(request, &log, progress).await
}
