//! One import of an uploaded log: from the queue's words to the page's.

use axum::Json;
use axum::extract::{Path, State as HttpState};
use axum::response::{Html, IntoResponse, Response};
use leasewatch_web::pages::import_run::{
    ImportRunView, LineProblem, LineProblems, RecordingProblem, RunFailure, RunRecording,
    RunReport, RunState, RunStep, render,
};
use leasewatch_web::path::Route;

use super::import::may_see;
use crate::http::Http;
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::visit::Visit;
use crate::intake::{
    Failure, ImportReport, Problems, RecordingFault, RecordingReport, State, Step, Upload,
};

pub(in crate::http) async fn html(
    HttpState(http): HttpState<Http>,
    visit: Visit,
    asker: Asker,
    Path(id): Path<String>,
) -> Response {
    let route = Route::ImportRun(id.clone());
    let answer = || {
        let context = visit.checked(route.clone())?;
        Ok::<_, Fault>(render(&view(&http, &asker, &id)?, &context)?)
    };
    match answer() {
        Ok(page) => Html(page).into_response(),
        Err(fault) => fault.page(&visit.at(route)),
    }
}

pub(in crate::http) async fn json(
    HttpState(http): HttpState<Http>,
    visit: Visit,
    asker: Asker,
    Path(id): Path<String>,
) -> Response {
    let checked = visit.checked(Route::ImportRun(id.clone()));
    match checked.and_then(|_| view(&http, &asker, &id)) {
        Ok(view) => Json(view).into_response(),
        Err(fault) => fault.problem(),
    }
}

fn view(http: &Http, asker: &Asker, id: &str) -> Result<ImportRunView, Fault> {
    let found = http.intake.find(id).filter(|(upload, _)| may_see(asker, upload));
    let (upload, before) = found.ok_or(Fault::NotFound)?;
    let state = state(&upload, before);
    let order = upload.order;
    Ok(ImportRunView {
        id: upload.id,
        file: order.file_name,
        node_name: order.node,
        provider: order.provider.to_string(),
        timezone: order.zone.name().to_owned(),
        at: upload.at,
        state,
    })
}

/// How far an import is, which has `before` others before it.
pub(super) fn state(upload: &Upload, before: usize) -> RunState {
    match &upload.state {
        State::Waiting => RunState::Waiting { before: count(before) },
        State::Running(progress) => running(progress.step()),
        State::Done(report) => RunState::Done(Box::new(done(report))),
        State::Recorded(report) => RunState::Recorded(Box::new(recorded(report))),
        State::Failed(why) => RunState::Failed(failed(why)),
    }
}

fn running(now: Step) -> RunState {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let (step, done, all) = match now {
        Step::Reading(done, all) => (RunStep::Reading, done, all),
        Step::Sealing(done, all) => (RunStep::Sealing, done, all),
        Step::Delivering(done, all) => (RunStep::Delivering, done, all),
    };
    RunState::Running { step, done: number(done), all: number(all), pct: number(now.percent()) }
}

fn done(report: &ImportReport) -> RunReport {
    RunReport {
        node: report.node.clone(),
        rows: count(report.rows),
        rows_covered: count(report.rows_covered),
        rows_repeated: count(report.rows_repeated),
        gpus: count(report.gpus),
        cadence_ms: report.cadence_ms.into(),
        period: report.period,
        columns_ignored: report.columns_ignored.clone(),
        problems: problems(&report.problems),
    }
}

fn recorded(report: &RecordingReport) -> RunRecording {
    let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    RunRecording {
        node: report.node.clone(),
        origin: report.origin,
        segments: number(report.segments),
        segments_covered: number(report.segments_covered),
        period: report.period,
        left_out: report.left_out.clone(),
    }
}

fn problems(problems: &Problems) -> LineProblems {
    let first = problems.first.iter();
    LineProblems {
        first: first
            .map(|problem| LineProblem { line: count(problem.line), fault: problem.fault.clone() })
            .collect(),
        count: count(problems.count),
    }
}

fn failed(failure: &Failure) -> RunFailure {
    match failure {
        Failure::NoHeader { first_row } => RunFailure::NoHeader { first_row: first_row.clone() },
        Failure::Columns { found } => RunFailure::Columns { found: found.clone() },
        Failure::GpusNotNamed => RunFailure::GpusNotNamed,
        Failure::OtherTool { found, instead } => {
            RunFailure::OtherTool { found: *found, instead: instead.clone() }
        }
        Failure::Nothing(lines) => RunFailure::Nothing(problems(lines)),
        Failure::Strict(lines) => RunFailure::Strict(problems(lines)),
        Failure::Cadence => RunFailure::Cadence,
        Failure::NodeName => RunFailure::NodeName,
        Failure::Recording(fault) => RunFailure::Recording(recording_problem(fault)),
        Failure::Refused(reason) => RunFailure::Refused { reason: reason.clone() },
    }
}

fn recording_problem(fault: &RecordingFault) -> RecordingProblem {
    match fault {
        RecordingFault::Broken => RecordingProblem::Broken,
        RecordingFault::TooLarge => RecordingProblem::TooLarge,
        RecordingFault::NoKey => RecordingProblem::NoKey,
        RecordingFault::NoSegment => RecordingProblem::NoSegment,
        RecordingFault::Several => RecordingProblem::Several,
        RecordingFault::AgentState => RecordingProblem::AgentState,
        RecordingFault::OtherTenant { tenant, .. } => {
            RecordingProblem::OtherTenant { tenant: tenant.clone() }
        }
    }
}

fn count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
