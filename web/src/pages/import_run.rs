//! One import of an uploaded log or recording: how far it is, and its report.

mod line_fault;
mod outcome;

pub use outcome::{
    LineProblem, LineProblems, RecordingProblem, RunFailure, RunRecording, RunReport,
};

use askama::Template;
use leasewatch_core::log_fault::{LineFault, LogText};
use leasewatch_core::segment::Origin;
use leasewatch_core::time::{Period, Timestamp};
use serde::Serialize;

use crate::context::{Context, SUGGESTED_ZONES};
use crate::format::{self, Quantity};
use crate::i18n::{Language, Text, phrase};
use crate::path::{self, Route};
use crate::wire;

const MEBIBYTE: i64 = 1_024 * 1_024;

/// Everything that the page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ImportRunView {
    /// Its id.
    pub id: String,
    /// The name of the file where it came from.
    pub file: String,
    /// Name of the node that the hours are booked on.
    pub node_name: String,
    /// The provider's slug.
    pub provider: String,
    /// Zone of the log's local times.
    pub timezone: String,
    /// When it was sent.
    #[serde(serialize_with = "wire::at")]
    pub at: Timestamp,
    /// How far it is.
    #[serde(flatten)]
    pub state: RunState,
}

/// How far an import is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum RunState {
    /// Behind others.
    Waiting {
        /// How many.
        before: i64,
    },
    /// In work.
    Running {
        /// At what.
        step: RunStep,
        /// How much of it is done: bytes, rows or parts.
        done: i64,
        /// How much there is.
        all: i64,
        /// Whole percent.
        pct: i64,
    },
    /// Done.
    Done(Box<RunReport>),
    /// Done, of a recording.
    Recorded(Box<RunRecording>),
    /// Not imported.
    Failed(RunFailure),
}

/// What an import does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RunStep {
    /// Reads the log; bytes.
    Reading,
    /// Signs it; rows.
    Sealing,
    /// Waits until it is stored; parts.
    Delivering,
}

impl RunState {
    /// The state in a few words.
    pub(super) fn words(&self, cx: &Context) -> String {
        let language = cx.language;
        let count = |count: i64| Quantity::count(count).text(language);
        match self {
            Self::Waiting { before } => phrase::import_waiting(language, count(*before)),
            Self::Running { step, pct, .. } => {
                let pct = Quantity::percent(*pct).text(language);
                phrase::import_running(language, pct, cx.t(step.words()))
            }
            Self::Done(report) => phrase::import_done(language, count(report.rows)),
            Self::Recorded(report) => phrase::recording_done(language, count(report.segments)),
            Self::Failed(_) => cx.t(Text::ImportFailed).to_owned(),
        }
    }

    fn is_over(&self) -> bool {
        matches!(self, Self::Done(_) | Self::Recorded(_) | Self::Failed(_))
    }
}

impl RunStep {
    fn words(self) -> Text {
        match self {
            Self::Reading => Text::ImportReading,
            Self::Sealing => Text::ImportSealing,
            Self::Delivering => Text::ImportDelivering,
        }
    }
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &ImportRunView, context: &Context) -> Result<String, askama::Error> {
    Ok(super::inert(&Page { cx: context, view }.render()?))
}

#[derive(Template)]
#[template(path = "import_run.html", whitespace = "minimize")]
struct Page<'a> {
    cx: &'a Context,
    view: &'a ImportRunView,
}

impl Page<'_> {
    fn title(&self) -> String {
        phrase::import_run_title(self.cx.language, &self.view.node_name)
    }

    fn form(&self) -> String {
        self.cx.import()
    }

    /// The form with what was sent in it, but for the file.
    fn again(&self) -> String {
        path::import_again(&self.cx.here, &self.view.id)
    }

    fn state(&self) -> String {
        self.view.state.words(self.cx)
    }

    /// The page asks again while something will change.
    fn asks_again(&self) -> bool {
        !self.view.state.is_over() && !self.cx.here.state.paused
    }

    /// Percent of the step, and its counts in words.
    fn progress(&self) -> Option<(i64, String)> {
        let RunState::Running { step, done, all, pct } = self.view.state else { return None };
        let language = self.cx.language;
        let quantity = |amount: i64| match step {
            RunStep::Reading => Quantity::memory_mib(amount / MEBIBYTE).text(language),
            RunStep::Sealing | RunStep::Delivering => Quantity::count(amount).text(language),
        };
        let (done, all) = (quantity(done), quantity(all));
        Some((
            pct,
            match step {
                RunStep::Reading => phrase::totals_of(language, done, all),
                RunStep::Sealing => phrase::import_of_rows(language, done, all),
                RunStep::Delivering => phrase::import_of_parts(language, done, all),
            },
        ))
    }

    fn report(&self) -> Option<&RunReport> {
        match &self.view.state {
            RunState::Done(report) => Some(report),
            _ => None,
        }
    }

    fn recording(&self) -> Option<&RunRecording> {
        match &self.view.state {
            RunState::Recorded(report) => Some(report),
            _ => None,
        }
    }

    /// The node that has it now, and the time of it.
    fn result(&self) -> Option<(&str, Option<Period>)> {
        match &self.view.state {
            RunState::Done(report) => Some((&report.node, report.period)),
            RunState::Recorded(report) => Some((&report.node, Some(report.period))),
            _ => None,
        }
    }

    fn failure(&self) -> Option<&RunFailure> {
        match &self.view.state {
            RunState::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    fn problems(&self) -> Option<&LineProblems> {
        let problems = match &self.view.state {
            RunState::Done(report) => &report.problems,
            RunState::Failed(RunFailure::Nothing(problems) | RunFailure::Strict(problems)) => {
                problems
            }
            _ => return None,
        };
        (problems.count > 0).then_some(problems)
    }

    fn problems_title(&self, problems: &LineProblems) -> String {
        phrase::import_problems(self.cx.language, self.count(&problems.count))
    }

    fn fault(&self, problem: &LineProblem) -> String {
        line_fault::words(&problem.fault, self.cx)
    }

    fn evidence(&self, problem: &LineProblem) -> Option<String> {
        line_fault::evidence(&problem.fault)
    }

    /// How many lines are not listed, in words.
    fn more(&self, problems: &LineProblems) -> Option<String> {
        let more = problems.count - i64::try_from(problems.first.len()).unwrap_or(i64::MAX);
        (more > 0).then(|| phrase::import_more(self.cx.language, self.count(&more)))
    }

    fn field(&self, failure: &RunFailure) -> Option<&'static str> {
        failure.field().map(|field| self.cx.t(field.label()))
    }

    fn why(&self, failure: &RunFailure) -> String {
        failure.words(self.cx.language)
    }

    fn count(&self, count: &i64) -> String {
        Quantity::count(*count).text(self.cx.language)
    }

    fn duration(&self, ms: &i64) -> String {
        Quantity::duration_ms(*ms).text(self.cx.language)
    }

    /// The node's page, at the last week of what was imported.
    fn node(&self, node: &str, period: &Option<Period>) -> String {
        let zone = self.cx.zone;
        let week = period.map(|period| {
            format::iso_date(period.end.plus_ms(-6 * leasewatch_core::time::DAY_MS), zone)
        });
        self.cx.here.to(Route::Node(node.to_owned())).in_week(week).href()
    }

    /// The hours of what was imported as CSV.
    fn hours(&self, node: &str, period: &Option<Period>) -> Option<String> {
        let (zone, period) = (self.cx.zone, (*period)?);
        let date = |at| format::iso_date(at, zone);
        Some(path::hours_csv(&date(period.start), &date(period.end), zone, Some(node)))
    }
}

/// An import at work, for samples.
pub(super) fn running_sample() -> RunState {
    RunState::Running { step: RunStep::Delivering, done: 312, all: 480, pct: 65 }
}

impl ImportRunView {
    /// An import that is done, with lines that were not understood.
    #[must_use]
    pub fn sample() -> Self {
        let problem = |line, fault| LineProblem { line, fault };
        let quote = LogText::quote;
        let report = RunReport {
            node: "5d3a61e8b0f94c27a1d8e6f3029b7c44".to_owned(),
            rows: 172_800,
            rows_covered: 3_600,
            rows_repeated: 12,
            gpus: 2,
            cadence_ms: 1_000,
            period: Some(Period::new(
                super::sample::NOW.plus_ms(-9 * 86_400_000),
                super::sample::NOW.plus_ms(-8 * 86_400_000),
            )),
            columns_ignored: vec!["driver_version".to_owned(), "pci.sub_device_id".to_owned()],
            problems: LineProblems {
                first: vec![
                    problem(704, LineFault::CellCount { got: 1, want: 7, text: quote("+------+") }),
                    problem(705, LineFault::OutOfOrder { at: super::sample::NOW }),
                    problem(86_412, LineFault::NotAUtilization { text: quote("1e9 %") }),
                ],
                count: 31,
            },
        };
        Self {
            id: "9f00000000000001".to_owned(),
            file: "gpu.csv".to_owned(),
            node_name: "old-node".to_owned(),
            provider: "default".to_owned(),
            timezone: "Asia/Shanghai".to_owned(),
            at: super::sample::NOW.plus_ms(-3_600_000),
            state: RunState::Done(Box::new(report)),
        }
    }

    /// The same while it is delivered.
    #[must_use]
    pub fn running_sample() -> Self {
        Self { state: running_sample(), ..Self::sample() }
    }

    /// A recording that is done, with a damaged file.
    #[must_use]
    pub fn recorded_sample() -> Self {
        let report = RunRecording {
            node: "5d3a61e8b0f94c27a1d8e6f3029b7c44".to_owned(),
            origin: Origin::Imported,
            segments: 1_438,
            segments_covered: 60,
            period: Period::new(
                super::sample::NOW.plus_ms(-9 * 86_400_000),
                super::sample::NOW.plus_ms(-8 * 86_400_000),
            ),
            left_out: vec!["0000000007.spool: 812 bytes without a whole record".to_owned()],
        };
        let file = "recording.tgz".to_owned();
        Self { file, state: RunState::Recorded(Box::new(report)), ..Self::sample() }
    }

    /// A recording that is none.
    #[must_use]
    pub fn no_recording_sample() -> Self {
        let why = RunFailure::Recording(RecordingProblem::AgentState);
        Self { state: RunState::Failed(why), ..Self::recorded_sample() }
    }

    /// The same when its columns are not known.
    #[must_use]
    pub fn failed_sample() -> Self {
        let first_row = "2026/04/25 16:06:06.780, 0 %, 2 MiB".to_owned();
        Self { state: RunState::Failed(RunFailure::NoHeader { first_row }), ..Self::sample() }
    }
}
