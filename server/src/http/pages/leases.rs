//! What is rented, as a table, as JSON and as CSV.

use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{Html, IntoResponse, Response};
use leasewatch_core::lease::{LeaseKind, LeaseTerms};
use leasewatch_core::time::Timestamp;
use leasewatch_web::context::Context;
use leasewatch_web::csv;
use leasewatch_web::deadline::DeadlineLine;
use leasewatch_web::pages::leases::{
    LeaseLine, LeaseState, LeasesView, PriceNow, arranged, render,
};
use leasewatch_web::path::Route;

use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::visit::Visit;
use crate::http::{Http, deadlines};
use crate::store::assignment::AssignmentRow;
use crate::store::billing_session::SessionRow;
use crate::store::lease::{self, LeaseRow, period};
use crate::store::node::NodeRow;
use crate::store::user::Role;
use crate::store::{Tx, assignment, billing_session, node};

pub(in crate::http) async fn html(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(Route::Leases)?;
        Ok::<_, Fault>(render(&view(&http, &asker, &context).await?, &context)?)
    };
    match answer.await {
        Ok(page) => Html(page).into_response(),
        Err(fault) => fault.page(&visit.at(Route::Leases)),
    }
}

pub(in crate::http) async fn json(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async { view(&http, &asker, &visit.checked(Route::Leases)?).await };
    match answer.await {
        Ok(view) => Json(view).into_response(),
        Err(fault) => fault.problem(),
    }
}

pub(in crate::http) async fn table(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async { view(&http, &asker, &visit.checked(Route::Leases)?).await };
    match answer.await {
        Ok(view) => {
            let mut text = csv::BOM.to_owned();
            csv::leases(&mut text, &view);
            let name = "attachment; filename=\"leases.csv\"";
            ([(CONTENT_TYPE, csv::CONTENT_TYPE), (CONTENT_DISPOSITION, name)], text).into_response()
        }
        Err(fault) => fault.problem(),
    }
}

async fn view(http: &Http, asker: &Asker, context: &Context) -> Result<LeasesView, Fault> {
    let mut lines = Vec::new();
    for scope in asker.scopes() {
        let mut tx = http.db.begin(scope).await?;
        let assignments = assignment::list(&mut tx).await?;
        let nodes = node::list(&mut tx).await?;
        let due = deadlines::of_scope(&mut tx, context.now).await?;
        for row in lease::list(&mut tx).await? {
            let sessions = sessions(&mut tx, &row).await?;
            let own: Vec<_> = assignments.iter().filter(|of| of.lease == row.key).collect();
            let count = gpus(own.iter().copied(), &row.terms, context.now);
            let mut line = line(&row, &sessions, count, context.now);
            let is_own = |node: &&NodeRow| own.iter().any(|of| of.node == node.key);
            line.origin = nodes.iter().filter(is_own).map(|node| node.origin).max();
            let is_of = |one: &&DeadlineLine| one.lease == line.name && one.tenant == line.tenant;
            line.deadline = due.iter().find(is_of).cloned();
            lines.push(line);
        }
        tx.commit().await?;
    }
    let is_empty = lines.is_empty();
    let state = &context.here.state;
    let leases = arranged(lines, state.find.as_deref(), state.sort.as_deref())
        .ok_or_else(|| Fault::BadRequest("sort".to_owned()))?;
    Ok(LeasesView {
        leases,
        is_empty,
        shows_tenants: asker.tenants(http, Role::Viewer).await?.len() > 1,
        may_change: !asker.tenants(http, Role::Admin).await?.is_empty(),
    })
}

/// Sessions of a lease that is billed by them.
async fn sessions(tx: &mut Tx, row: &LeaseRow) -> Result<Vec<SessionRow>, Fault> {
    Ok(match row.terms.kind {
        LeaseKind::OnDemand | LeaseKind::Spot => billing_session::of_lease(tx, row.key).await?,
        LeaseKind::Own | LeaseKind::Reserved => Vec::new(),
    })
}

fn line(row: &LeaseRow, sessions: &[SessionRow], gpus: i64, now: Timestamp) -> LeaseLine {
    let terms = &row.terms;
    let label =
        |(name, value): (&leasewatch_core::lease::Label, &leasewatch_core::lease::Label)| {
            (name.as_str().to_owned(), value.as_str().to_owned())
        };
    LeaseLine {
        tenant: row.tenant.to_string(),
        name: terms.name.to_string(),
        state: state(terms, sessions, now),
        provider: terms.provider.to_string(),
        origin: None,
        product: terms.product.clone(),
        gpu_model: terms.gpu_model.clone(),
        gpus_assigned: gpus,
        gpus_contracted: i64::from(terms.gpu_count),
        price: PriceNow::of(&terms.prices, now),
        starts_at: terms.starts_at,
        ends_at: terms.ends_at,
        auto_release_at: terms.auto_release_at,
        profile: terms.profile.as_ref().map(|of| format!("{}@{}", of.id, of.version)),
        labels: terms.labels.iter().map(label).collect(),
        is_pay_as_you_go: !sessions.is_empty(),
        deadline: None,
    }
}

/// Where a lease stands now.
pub(in crate::http) fn state(
    terms: &LeaseTerms,
    sessions: &[SessionRow],
    now: Timestamp,
) -> LeaseState {
    let in_session = |row: &SessionRow| {
        let session = row.session;
        session.starts_at <= now && session.ends_at.is_none_or(|end| now < end)
    };
    if now < terms.starts_at {
        LeaseState::Planned
    } else if !period(terms).contains(now) {
        LeaseState::Ended
    } else if !sessions.is_empty() && !sessions.iter().any(in_session) {
        LeaseState::Stopped
    } else {
        LeaseState::Running
    }
}

/// GPUs that are assigned now; to a lease that is over or ahead, at its last or first instant.
pub(in crate::http) fn gpus<'a>(
    assignments: impl Iterator<Item = &'a AssignmentRow>,
    terms: &LeaseTerms,
    now: Timestamp,
) -> i64 {
    let term = period(terms);
    let at = now.max(term.start).min(term.end.plus_ms(-1));
    let counts = |row: &&AssignmentRow| row.withdrawn_at.is_none() && row.period().contains(at);
    i64::try_from(assignments.filter(counts).count()).unwrap_or(i64::MAX)
}
