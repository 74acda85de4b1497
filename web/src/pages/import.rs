//! The form that uploads an old log or a recording, and the imports since the server's start.
//!
//! Not here: how one import goes on (`import_run`).

use askama::Template;
use leasewatch_core::time::Timestamp;
use serde::Serialize;

use super::import_run::RunState;
use crate::context::{Context, SUGGESTED_ZONES};
use crate::format::Quantity;
use crate::i18n::{Language, Text, phrase};
use crate::path::Route;
use crate::wire;

/// Column names that the form suggests.
const COLUMNS: &str = "timestamp,utilization.gpu,utilization.memory,memory.used,memory.total,temperature.gpu,power.draw";

/// Makes one file of the folder that `leasewatch-agent record DIR` wrote.
const PACK: &str = "tar -czf recording.tgz -C DIR node.key spool";

/// Everything that the form shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportView {
    /// What the fields hold; a file has to be chosen again each time.
    pub entered: Entered,
    /// What is wrong with what was sent.
    pub faults: Vec<FieldFault>,
    /// Slugs to choose from; empty when there is only one.
    pub tenants: Vec<String>,
    /// The largest file that is taken.
    pub file_mib_max: i64,
    /// Imports since the server's start, latest first.
    pub latest: Vec<ImportLine>,
    /// The most that are listed.
    pub latest_max: i64,
}

/// The fields' values, as they were typed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Default)]
pub struct Entered {
    /// What the file is: `auto`, `nvidia-smi`, `jsonl` or `recording`.
    pub kind: String,
    /// Name of the node.
    pub node: String,
    /// Slug of the tenant.
    pub tenant: String,
    /// Slug of the provider.
    pub provider: String,
    /// Zone of the log's local times.
    pub timezone: String,
    /// Names of the columns.
    pub columns: String,
    /// Seconds between two rows.
    pub cadence: String,
    /// Refuse a log with any line that is not understood.
    pub strict: bool,
}

/// A field of the form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Field {
    /// The log.
    File,
    /// Which tool wrote it.
    Kind,
    /// Name of the node.
    Node,
    /// Slug of the tenant.
    Tenant,
    /// Slug of the provider.
    Provider,
    /// Zone of local times.
    Timezone,
    /// Names of the columns.
    Columns,
    /// Seconds between two rows.
    Cadence,
}

impl Field {
    /// Every field that is filled in, in the order of the form; the switch `strict` is none.
    pub const ALL: [Self; 8] = [
        Self::File,
        Self::Kind,
        Self::Node,
        Self::Tenant,
        Self::Provider,
        Self::Timezone,
        Self::Columns,
        Self::Cadence,
    ];

    /// Its name in the form.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Kind => "kind",
            Self::Node => "node",
            Self::Tenant => "tenant",
            Self::Provider => "provider",
            Self::Timezone => "timezone",
            Self::Columns => "columns",
            Self::Cadence => "cadence",
        }
    }

    /// Its label.
    pub(crate) fn label(self) -> Text {
        match self {
            Self::File => Text::ImportFile,
            Self::Kind => Text::ImportKind,
            Self::Node => Text::ImportNode,
            Self::Tenant => Text::WordTenant,
            Self::Provider => Text::WordProvider,
            Self::Timezone => Text::ImportTimezone,
            Self::Columns => Text::ImportColumns,
            Self::Cadence => Text::ImportCadence,
        }
    }
}

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FieldFault {
    /// Which one.
    pub field: Field,
    /// What.
    pub matter: Matter,
}

/// What can be wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Matter {
    /// It has to be filled in.
    Missing,
    /// It does not hold what it is for.
    Invalid,
    /// The file is larger than the server takes.
    TooLarge,
    /// The form broke off while it arrived.
    Incomplete,
    /// As many files are being imported as the server takes at one time.
    Full,
}

/// An import in the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportLine {
    /// Its id.
    pub id: String,
    /// The name of the file where it came from.
    pub file: String,
    /// Name of the node.
    pub node_name: String,
    /// When it was sent.
    #[serde(serialize_with = "wire::at")]
    pub at: Timestamp,
    /// How far it is.
    #[serde(flatten)]
    pub state: RunState,
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &ImportView, context: &Context) -> Result<String, askama::Error> {
    Ok(super::inert(&Page { cx: context, view }.render()?))
}

#[derive(Template)]
#[template(path = "import.html", whitespace = "minimize")]
struct Page<'a> {
    cx: &'a Context,
    view: &'a ImportView,
}

/// A choice of which tool wrote the log.
struct KindChoice {
    value: &'static str,
    words: &'static str,
    chosen: bool,
}

impl Page<'_> {
    fn title(&self) -> &'static str {
        self.cx.t(Text::ImportTitle)
    }

    /// The form goes where the page is, with its language and zone.
    fn action(&self) -> String {
        self.cx.here.href()
    }

    fn kinds(&self) -> Vec<KindChoice> {
        let kinds = [
            ("auto", Text::ImportKindAuto),
            ("nvidia-smi", Text::ImportKindSmi),
            ("jsonl", Text::ImportKindJsonl),
            ("recording", Text::ImportKindRecording),
        ];
        let chosen = |value: &str| self.view.entered.kind == value;
        kinds
            .map(|(value, words)| KindChoice {
                value,
                words: self.cx.t(words),
                chosen: chosen(value),
            })
            .into()
    }

    /// The fields that are seldom needed are shown when one of them says something.
    fn needs_more(&self) -> bool {
        let entered = &self.view.entered;
        let rare = [Field::Kind, Field::Columns, Field::Cadence];
        let is_filled = !entered.columns.is_empty() || !entered.cadence.is_empty();
        let is_wrong = self.view.faults.iter().any(|fault| rare.contains(&fault.field));
        is_filled || is_wrong || entered.strict || entered.kind != "auto"
    }

    fn label(&self, field: &Field) -> &'static str {
        self.cx.t(field.label())
    }

    /// What is wrong with a field, in words.
    fn fault(&self, name: &str) -> Option<String> {
        let fault = self.view.faults.iter().find(|fault| fault.field.name() == name)?;
        Some(self.matter(fault))
    }

    fn matter(&self, fault: &FieldFault) -> String {
        let (language, view) = (self.cx.language, self.view);
        let words = match (fault.matter, fault.field) {
            (Matter::TooLarge, _) => {
                return phrase::import_too_large(language, self.file_max());
            }
            (Matter::Missing, Field::File) => Text::ImportMissingFile,
            (Matter::Missing, _) => Text::ImportMissing,
            (Matter::Incomplete, _) => Text::ImportIncomplete,
            (Matter::Full, _) => Text::ImportFull,
            (Matter::Invalid, Field::Node) => Text::ImportInvalidNode,
            (Matter::Invalid, Field::Tenant) if !view.tenants.is_empty() => {
                Text::ImportInvalidTenant
            }
            (Matter::Invalid, Field::Tenant | Field::Provider) => Text::ImportInvalidSlug,
            (Matter::Invalid, Field::Timezone) => Text::ImportInvalidTimezone,
            (Matter::Invalid, Field::Cadence) => Text::ImportInvalidCadence,
            (Matter::Invalid, Field::Kind | Field::Columns | Field::File) => Text::ImportInvalid,
        };
        self.cx.t(words).to_owned()
    }

    fn file_max(&self) -> String {
        Quantity::memory_mib(self.view.file_mib_max).text(self.cx.language)
    }

    fn file_hint(&self) -> String {
        phrase::import_file_hint(self.cx.language, self.file_max())
    }

    fn pack_command(&self) -> &'static str {
        PACK
    }

    fn suggested_columns(&self) -> &'static str {
        COLUMNS
    }

    fn run(&self, id: &str) -> String {
        self.cx.here.to(Route::ImportRun(id.to_owned())).href()
    }

    fn state(&self, line: &ImportLine) -> String {
        line.state.words(self.cx)
    }

    fn kept(&self) -> String {
        let most = Quantity::count(self.view.latest_max).text(self.cx.language);
        phrase::import_kept(self.cx.language, most)
    }
}

impl ImportView {
    /// A form that was sent with three mistakes, and imports in every state.
    #[must_use]
    pub fn sample() -> Self {
        let run = super::import_run::ImportRunView::sample();
        let line = |id: &str, file: &str, ms_ago: i64, state| ImportLine {
            id: id.to_owned(),
            file: file.to_owned(),
            node_name: "old-node".to_owned(),
            at: super::sample::NOW.plus_ms(-ms_ago),
            state,
        };
        let fault = |field, matter| FieldFault { field, matter };
        Self {
            entered: Entered {
                kind: "auto".to_owned(),
                tenant: "default".to_owned(),
                provider: "Lambda Labs".to_owned(),
                timezone: "Asia/Shanghai".to_owned(),
                cadence: "5".to_owned(),
                strict: true,
                ..Entered::default()
            },
            faults: vec![
                fault(Field::File, Matter::TooLarge),
                fault(Field::Node, Matter::Missing),
                fault(Field::Provider, Matter::Invalid),
            ],
            tenants: vec!["default".to_owned(), "research".to_owned()],
            file_mib_max: 256,
            latest: vec![
                line("9f00000000000003", "node7.csv", 2_000, RunState::Waiting { before: 1 }),
                line("9f00000000000002", "node6.csv", 61_000, super::import_run::running_sample()),
                line("9f00000000000001", "gpu.csv", 3_600_000, run.state),
            ],
            latest_max: 50,
        }
    }

    /// The form as it is first seen.
    #[must_use]
    pub fn first_sample() -> Self {
        let entered = Entered {
            kind: "auto".to_owned(),
            tenant: "default".to_owned(),
            provider: "default".to_owned(),
            timezone: "UTC".to_owned(),
            ..Entered::default()
        };
        let (faults, tenants, latest) = (Vec::new(), Vec::new(), Vec::new());
        Self { entered, faults, tenants, file_mib_max: 256, latest, latest_max: 50 }
    }
}
