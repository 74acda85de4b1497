//! Claims as a list, as JSON and as CSV.

use axum::Json;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{Html, IntoResponse, Response};
use leasewatch_core::segment::Origin;
use leasewatch_core::sla::claim::{ClaimState, Urgency};
use leasewatch_core::time::{Timestamp, Zone};
use leasewatch_web::csv;
use leasewatch_web::pages::claims::{ClaimLine, ClaimsView, render};
use leasewatch_web::pages::lease::UnitName;
use leasewatch_web::path::Route;

use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::visit::Visit;
use crate::http::{Http, deadlines};
use crate::store::claim::{self, ClaimRow};
use crate::store::user::Role;

pub(in crate::http) async fn html(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(Route::Claims)?;
        Ok::<_, Fault>(render(&view(&http, &asker, context.now).await?, &context)?)
    };
    match answer.await {
        Ok(page) => Html(page).into_response(),
        Err(fault) => fault.page(&visit.at(Route::Claims)),
    }
}

pub(in crate::http) async fn json(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async { view(&http, &asker, visit.checked(Route::Claims)?.now).await };
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
    let answer = async { view(&http, &asker, visit.checked(Route::Claims)?.now).await };
    match answer.await {
        Ok(view) => {
            let mut text = csv::BOM.to_owned();
            csv::claims(&mut text, &view);
            let name = "attachment; filename=\"claims.csv\"";
            ([(CONTENT_TYPE, csv::CONTENT_TYPE), (CONTENT_DISPOSITION, name)], text).into_response()
        }
        Err(fault) => fault.problem(),
    }
}

async fn view(http: &Http, asker: &Asker, now: Timestamp) -> Result<ClaimsView, Fault> {
    let (mut claims, mut due) = (Vec::new(), Vec::new());
    for scope in asker.scopes() {
        let mut tx = http.db.begin(scope).await?;
        claims.extend(claim::all(&mut tx).await?);
        due.extend(deadlines::of_scope(&mut tx, now).await?);
        tx.commit().await?;
    }
    claims.sort_by_key(|row| std::cmp::Reverse(row.number));
    due.sort_by_key(|line| line.at);
    Ok(ClaimsView {
        deadlines: due,
        claims: claims.iter().map(|row| line(row, now)).collect(),
        shows_tenants: asker.tenants(http, Role::Viewer).await?.len() > 1,
    })
}

/// A claim as a row.
pub(super) fn line(row: &ClaimRow, now: Timestamp) -> ClaimLine {
    let facts = row.draft.facts.as_ref();
    let zone = facts.and_then(|facts| Zone::parse(&facts.zone).ok()).unwrap_or(Zone::UTC);
    let unit = match facts.map(|facts| (facts.node.clone(), facts.gpu)) {
        Some((Some(node), Some(number))) => UnitName::Gpu { node, number },
        Some((Some(node), None)) => UnitName::Node(node),
        Some((None, _)) => UnitName::Lease,
        None if row.draft.unit == "lease" => UnitName::Lease,
        None => UnitName::Node(row.draft.unit.clone()),
    };
    let deadline = row.draft.deadline.filter(|_| row.claim.state.is_due());
    ClaimLine {
        number: row.number,
        tenant: row.tenant.to_string(),
        lease: row.lease_name.to_string(),
        provider: facts.map_or_else(String::new, |facts| facts.provider.clone()),
        origin: facts.and_then(|facts| Origin::from_name(&facts.origin)),
        objective: row.draft.objective.to_string(),
        unit,
        window: row.draft.window,
        state: row.claim.state.name(),
        asked: row.draft.asked,
        granted: match row.claim.state {
            ClaimState::Accepted { amount } => Some(amount),
            _ => None,
        },
        deadline_at: row.draft.deadline,
        zone,
        urgency: deadline.map(|at| Urgency::of(zone, at, now)),
        drafted_at: row.written_at,
    }
}
