//! How an import ended, as its page and its JSON tell it.

use leasewatch_core::time::Period;
use serde::Serialize;

use crate::i18n::Text;
use crate::pages::import::Field;
use crate::wire;

/// What an import did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunReport {
    /// Public id of the node.
    pub node: String,
    /// Rows that were recorded.
    pub rows: i64,
    /// Rows that lie in time that is recorded already.
    pub rows_covered: i64,
    /// Rows that stand in the log more than once.
    pub rows_repeated: i64,
    /// GPUs in the log.
    pub gpus: i64,
    /// Time between two rows of one GPU.
    pub cadence_ms: i64,
    /// First and last row of the log.
    #[serde(serialize_with = "wire::maybe_period")]
    pub period: Option<Period>,
    /// Columns that are not recorded.
    pub columns_ignored: Vec<String>,
    /// Lines that were not understood.
    pub problems: LineProblems,
}

/// Lines that were not understood.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct LineProblems {
    /// The first of them.
    pub first: Vec<LineProblem>,
    /// All of them.
    pub count: i64,
}

/// A line that was not understood.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LineProblem {
    /// Its number, from 1.
    pub line: i64,
    /// Why, as the command line says it.
    pub what: String,
}

/// Why nothing was imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "failure", rename_all = "snake_case")]
pub enum RunFailure {
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
        found: String,
        /// The command whose output can be imported.
        instead: String,
    },
    /// There is no row in it.
    Nothing(LineProblems),
    /// A line is not understood, and the import was to be strict.
    Strict(LineProblems),
    /// The rows do not show how far apart they are.
    Cadence,
    /// The name of the node holds nothing that can be shown.
    NodeName,
    /// The server refused it, or something of its own failed.
    Refused {
        /// Why, as the command line says it.
        reason: String,
    },
}

impl RunFailure {
    /// The field of the form that can change it.
    #[must_use]
    pub fn field(&self) -> Option<Field> {
        match self {
            Self::NoHeader { .. } | Self::Columns { .. } => Some(Field::Columns),
            Self::GpusNotNamed | Self::OtherTool { .. } | Self::Nothing(_) | Self::Strict(_) => {
                Some(Field::File)
            }
            Self::Cadence => Some(Field::Cadence),
            Self::NodeName => Some(Field::Node),
            Self::Refused { .. } => None,
        }
    }

    pub(super) fn words(&self) -> Text {
        match self {
            Self::NoHeader { .. } => Text::ImportNoHeader,
            Self::Columns { .. } => Text::ImportWrongColumns,
            Self::GpusNotNamed => Text::ImportGpusNotNamed,
            Self::OtherTool { .. } => Text::ImportOtherTool,
            Self::Nothing(_) => Text::ImportNothing,
            Self::Strict(_) => Text::ImportStrictRefused,
            Self::Cadence => Text::ImportNoCadence,
            Self::NodeName => Text::ImportInvalidNode,
            Self::Refused { .. } => Text::ImportRefused,
        }
    }

    /// Text of the log or of a program, which has no translation.
    pub(super) fn evidence(&self) -> Option<&str> {
        match self {
            Self::NoHeader { first_row: text }
            | Self::Columns { found: text }
            | Self::OtherTool { found: text, .. }
            | Self::Refused { reason: text } => Some(text),
            _ => None,
        }
    }

    pub(super) fn instead(&self) -> Option<&str> {
        match self {
            Self::OtherTool { instead, .. } => Some(instead),
            _ => None,
        }
    }
}
