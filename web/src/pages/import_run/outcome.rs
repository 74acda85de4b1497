//! How an import ended, as its page and its JSON tell it.

use leasewatch_core::log_fault::{ForeignOutput, LineFault};
use leasewatch_core::segment::Origin;
use leasewatch_core::time::Period;
use serde::ser::SerializeStruct as _;
use serde::{Serialize, Serializer};

use crate::i18n::{Language, Text, phrase};
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

/// What an import of a recording did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RunRecording {
    /// Public id of the node.
    pub node: String,
    /// What its segments are marked as.
    #[serde(serialize_with = "wire::origin")]
    pub origin: Origin,
    /// Segments that were recorded.
    pub segments: i64,
    /// Segments that were recorded already.
    pub segments_covered: i64,
    /// From the beginning to the end of the recording.
    #[serde(serialize_with = "wire::period")]
    pub period: Period,
    /// What could not be taken, as the command line says it.
    pub left_out: Vec<String>,
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineProblem {
    /// Its number, from 1.
    pub line: i64,
    /// Why.
    pub fault: LineFault,
}

/// In JSON the kind has its stable name, and the sentence of the command line.
impl Serialize for LineProblem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("LineProblem", 3)?;
        object.serialize_field("line", &self.line)?;
        object.serialize_field("fault", self.fault.name())?;
        object.serialize_field("what", &self.fault.to_string())?;
        object.end()
    }
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
        #[serde(serialize_with = "as_said")]
        found: ForeignOutput,
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
    /// It is no recording that can be imported.
    Recording(RecordingProblem),
    /// The server refused it, or something of its own failed.
    Refused {
        /// Why, as the command line says it.
        reason: String,
    },
}

/// Why something is no recording that can be imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "recording", rename_all = "snake_case")]
pub enum RecordingProblem {
    /// It is no archive, or not a whole one.
    Broken,
    /// It holds more than a recording has.
    TooLarge,
    /// It lacks its key.
    NoKey,
    /// It holds no segment of its key.
    NoSegment,
    /// It holds more than one recording.
    Several,
    /// It is what an agent keeps for its own server.
    AgentState,
    /// It was made for another tenant.
    OtherTenant {
        /// Slug of that tenant.
        tenant: String,
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
            Self::Recording(RecordingProblem::OtherTenant { .. }) => Some(Field::Tenant),
            Self::Recording(_) => Some(Field::File),
            Self::Cadence => Some(Field::Cadence),
            Self::NodeName => Some(Field::Node),
            Self::Refused { .. } => None,
        }
    }

    /// Why, in a sentence.
    pub(super) fn words(&self, language: Language) -> String {
        let words = match self {
            Self::OtherTool { found, .. } => {
                return phrase::import_other_tool(language, foreign_output(*found).words(language));
            }
            Self::NoHeader { .. } => Text::ImportNoHeader,
            Self::Columns { .. } => Text::ImportWrongColumns,
            Self::GpusNotNamed => Text::ImportGpusNotNamed,
            Self::Nothing(_) => Text::ImportNothing,
            Self::Strict(_) => Text::ImportStrictRefused,
            Self::Cadence => Text::ImportNoCadence,
            Self::NodeName => Text::ImportInvalidNode,
            Self::Recording(problem) => return problem.words(language),
            Self::Refused { .. } => Text::ImportRefused,
        };
        words.words(language).to_owned()
    }

    /// Text of the log or of a program, which has no translation.
    pub(super) fn evidence(&self) -> Option<&str> {
        match self {
            Self::NoHeader { first_row: text }
            | Self::Columns { found: text }
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

impl RecordingProblem {
    fn words(&self, language: Language) -> String {
        let words = match self {
            Self::OtherTenant { tenant } => {
                return phrase::recording_other_tenant(language, tenant);
            }
            Self::Broken => Text::RecordingBroken,
            Self::TooLarge => Text::RecordingTooLarge,
            Self::NoKey => Text::RecordingNoKey,
            Self::NoSegment => Text::RecordingNoSegment,
            Self::Several => Text::RecordingSeveral,
            Self::AgentState => Text::RecordingAgentState,
        };
        words.words(language).to_owned()
    }
}

/// As the command line says it.
fn as_said<S: Serializer>(found: &ForeignOutput, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(found)
}

fn foreign_output(output: ForeignOutput) -> Text {
    match output {
        ForeignOutput::Json => Text::ForeignOutputJson,
        ForeignOutput::Xml => Text::ForeignOutputXml,
        ForeignOutput::NotJson => Text::ForeignOutputNotJson,
        ForeignOutput::Prometheus => Text::ForeignOutputPrometheus,
        ForeignOutput::Pmon => Text::ForeignOutputPmon,
        ForeignOutput::Dmon => Text::ForeignOutputDmon,
        ForeignOutput::FullText => Text::ForeignOutputFullText,
        ForeignOutput::Table => Text::ForeignOutputTable,
        ForeignOutput::List => Text::ForeignOutputList,
        ForeignOutput::ComputeApps => Text::ForeignOutputComputeApps,
    }
}
