//! How an import ended.

use std::fmt;

use leasewatch_core::log_fault::{ForeignOutput, LineFault};
use leasewatch_core::segment::Origin;
use leasewatch_core::time::Period;

/// Problems that are kept with their reason; more are counted.
const PROBLEMS_SHOWN: usize = 20;

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

/// Lines that were not understood: the first with their reasons, and how many in all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Problems {
    /// The first of them.
    pub first: Vec<Problem>,
    /// All of them.
    pub count: usize,
}

/// Something in a log that was not imported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong.
    pub fault: LineFault,
}

impl Problems {
    pub(crate) fn add(&mut self, line: usize, fault: LineFault) {
        self.count += 1;
        if self.first.len() < PROBLEMS_SHOWN {
            self.first.push(Problem { line, fault });
        }
    }

    pub(crate) fn by_line(mut self) -> Self {
        self.first.sort_by_key(|problem| problem.line);
        self
    }
}

impl fmt::Display for Problems {
    /// One line for each that is kept, and how many more there are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Problem { line, fault } in &self.first {
            writeln!(f, "line {line}: {fault}")?;
        }
        match self.count - self.first.len() {
            0 => Ok(()),
            more => writeln!(f, "and {more} more"),
        }
    }
}

/// What an import of a recording did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordingReport {
    /// Public id of the node.
    pub node: String,
    /// What the segments are marked as.
    pub origin: Origin,
    /// Segments that the server acknowledged.
    pub segments: u64,
    /// Segments that it had already.
    pub segments_covered: u64,
    /// From the beginning to the end of the recording.
    pub period: Period,
    /// What could not be taken, in words.
    pub left_out: Vec<String>,
}

impl fmt::Display for RecordingReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (segments, origin) = (self.segments, self.origin.name());
        let (from, to) = (self.period.start, self.period.end);
        writeln!(f, "imported {segments} segments, {from} to {to}, marked as {origin}")?;
        if self.segments_covered > 0 {
            writeln!(f, "skipped {} segments that are recorded already", self.segments_covered)?;
        }
        self.left_out.iter().try_for_each(|what| writeln!(f, "left out: {what}"))
    }
}

/// Why something is not a recording that can be imported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordingFault {
    /// It is no archive, or not a whole one, or it grows like nothing that an agent writes.
    #[error("the archive is damaged or cut")]
    Broken,
    /// It is larger than any recording.
    #[error("the archive holds more, or larger files, than a recording has")]
    TooLarge,
    /// There is no key in it.
    #[error("the recording lacks its key: the file node.key has to be in it")]
    NoKey,
    /// There is no segment of its key in it.
    #[error("the recording holds no segment of its key")]
    NoSegment,
    /// There are two of them.
    #[error("the archive holds more than one recording: send one after the other")]
    Several,
    /// It is what an agent keeps for its server, with a key that is in use.
    #[error(
        "this is the state directory of an agent with a server of its own, whose key must not leave its machine"
    )]
    AgentState,
    /// It was recorded for another tenant.
    #[error("the recording was made for the tenant {tenant}, not for {chosen}")]
    OtherTenant {
        /// The tenant in its signed heads.
        tenant: String,
        /// The tenant that was asked for.
        chosen: String,
    },
}

/// Why an import did not happen, for who asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Rows of data, and nobody said what the columns are.
    NoHeader {
        /// The row as it stands.
        first_row: String,
    },
    /// The columns lack the time or the utilization.
    Columns {
        /// What they are.
        found: String,
    },
    /// Several GPUs, and nothing says which row is whose.
    GpusNotNamed,
    /// It is the output of another tool, or of another call of this one.
    OtherTool {
        /// What it looks like.
        found: ForeignOutput,
        /// The command whose output can be imported.
        instead: String,
    },
    /// There is no row in it.
    Nothing(Problems),
    /// A line is not understood, and the import was to be strict.
    Strict(Problems),
    /// The rows do not show how far apart they are.
    Cadence,
    /// The name of the node holds nothing that can be shown.
    NodeName,
    /// It is no recording that can be imported.
    Recording(RecordingFault),
    /// The server refuses, or something of its own failed; in words.
    Refused(String),
}
