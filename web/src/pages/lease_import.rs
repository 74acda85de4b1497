//! Tables of leases and of billing sessions, sent from a browser.

use askama::Template;
use serde::Serialize;

use crate::context::{Context, SUGGESTED_ZONES};
use crate::i18n::{Language, Text, phrase};
use crate::path::{Route, pattern};

/// What a table can hold: the value in the form, and its words.
pub const TABLES: [(&str, Text); 4] = [
    ("leases", Text::LeaseTableLeases),
    ("sessions", Text::LeaseTableSessions),
    ("stops", Text::ToldStops),
    ("records", Text::ToldRecords),
];

/// Everything that the page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeaseImportView {
    /// Public names of the tenants that it can be imported into.
    pub tenants: Vec<String>,
    /// What was chosen and typed: tenant, kind of table, columns, zone.
    pub entered: EnteredTable,
    /// What became of a table that was just sent.
    pub outcome: Option<TableOutcome>,
}

/// The fields of the form but for the file.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct EnteredTable {
    /// Public name of the tenant.
    pub tenant: String,
    /// One of [`TABLES`].
    pub kind: String,
    /// What columns hold whose names are not known.
    pub columns: String,
    /// Zone of times that have none.
    pub timezone: String,
    /// Whether right rows are stored beside wrong ones.
    pub partial: bool,
}

/// What became of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TableOutcome {
    /// It is no such table, for this reason.
    NoTable(String),
    /// It was read.
    Read {
        /// Rows that are stored, or would be.
        rows: i64,
        /// Whether they are.
        is_stored: bool,
        /// Lines with what is wrong with them.
        refused: Vec<(u64, String)>,
    },
}

impl LeaseImportView {
    /// A table of which a row was refused.
    #[must_use]
    pub fn sample() -> Self {
        Self {
            tenants: vec!["default".to_owned(), "research".to_owned()],
            entered: EnteredTable {
                tenant: "research".to_owned(),
                kind: "sessions".to_owned(),
                timezone: "UTC".to_owned(),
                ..EnteredTable::default()
            },
            outcome: Some(TableOutcome::Read {
                rows: 2,
                is_stored: false,
                refused: vec![(3, "gpu_count: 1..16384".to_owned())],
            }),
        }
    }
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &LeaseImportView, context: &Context) -> Result<String, askama::Error> {
    Ok(super::inert(&Page { cx: context, view }.render()?))
}

#[derive(Template)]
#[template(path = "lease_import.html", whitespace = "minimize")]
struct Page<'a> {
    cx: &'a Context,
    view: &'a LeaseImportView,
}

impl Page<'_> {
    fn title(&self) -> &'static str {
        self.cx.t(Text::LeaseImportTitle)
    }

    fn action(&self) -> &'static str {
        pattern::LEASES_IMPORT
    }

    fn stored(&self, rows: impl std::fmt::Display) -> String {
        phrase::lease_table_stored(self.cx.language, rows)
    }
}
