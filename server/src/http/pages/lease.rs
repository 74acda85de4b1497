//! A lease: its page, its JSON, and the small forms on it.

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Redirect, Response};
use leasewatch_core::id::Slug;
use leasewatch_core::lease::{BillingSession, SessionSource};
use leasewatch_core::time::Timestamp;
use leasewatch_web::context::Context;
use leasewatch_web::pages::lease::{EnteredSession, render};
use leasewatch_web::pages::lease_form::{FieldFault, LeaseMatter};
use leasewatch_web::path::{LeasePart, Route};

use super::lease_view::{Sent, view};
use crate::apply::entered::moment;
use crate::http::Http;
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::form::Fields;
use crate::http::visit::Visit;
use crate::store::assignment::AssignmentKey;
use crate::store::audit::{self, Action};
use crate::store::billing_session::BillingSessionKey;
use crate::store::lease::{self, LeaseRow, Written};
use crate::store::user::Role;
use crate::store::{Scope, StoreError, TenantKey, Tx, assignment, billing_session};

/// A lease by the names in its address.
pub(in crate::http) struct At {
    pub(in crate::http) tx: Tx,
    pub(in crate::http) row: LeaseRow,
    pub(in crate::http) may_change: bool,
}

/// Tenant and lease, as the address has them.
pub(in crate::http) type Names = Path<(String, String)>;

pub(in crate::http) fn route(names: &Names, part: LeasePart) -> Route {
    let Path((tenant, lease)) = names;
    Route::Lease { tenant: tenant.clone(), lease: lease.clone(), part }
}

/// The lease, in a transaction of its tenant, if at least this may be done there.
pub(in crate::http) async fn at(
    http: &Http,
    asker: &Asker,
    Path((tenant, name)): &Names,
    least: Role,
) -> Result<At, Fault> {
    let name = Slug::new(name).map_err(|_| Fault::NotFound)?;
    let key = asker.tenant(http, tenant, least).await?;
    let mut tx = http.db.begin(Scope::Tenant(key)).await?;
    let row = lease::by_name(&mut tx, key, &name).await?.ok_or(Fault::NotFound)?;
    let may_change = asker.may(&row.tenant, Role::Admin);
    Ok(At { tx, row, may_change })
}

/// What a page writes, in the name of who asks.
pub(in crate::http) fn written<'a>(
    asker: &'a Asker,
    context: &Context,
    reason: &'a str,
) -> Written<'a> {
    let by = asker.row().map(|user| user.name.as_str());
    Written { at: context.now, by, reason: Some(reason).filter(|reason| !reason.is_empty()) }
}

/// Leaves an entry of what was done to a lease, or to a node's labels, in the transaction that did
/// it.
pub(in crate::http) async fn note(
    tx: &mut Tx,
    (tenant, object): (TenantKey, &str),
    (asker, at): (&Asker, Timestamp),
    what: &str,
) -> Result<(), StoreError> {
    let (who, detail) = (asker.who(), [("what", what.to_owned())]);
    let entry = audit::Entry {
        at,
        tenant: Some(tenant),
        who: &who,
        action: Action::LeaseChanged,
        object,
        detail: &detail,
    };
    audit::write(tx, entry).await
}

/// The same of the lease that is open.
pub(super) async fn note_of(
    at: &mut At,
    asker: &Asker,
    context: &Context,
    what: &str,
) -> Result<(), Fault> {
    let (tenant, name) = (at.row.key.tenant, at.row.terms.name.clone());
    Ok(note(&mut at.tx, (tenant, name.as_str()), (asker, context.now), what).await?)
}

pub(in crate::http) async fn html(
    State(http): State<Http>,
    names: Names,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(route(&names, LeasePart::Page))?;
        let at = at(&http, &asker, &names, Role::Viewer).await?;
        let view = view(&http, &asker, at, (&context, Sent::default())).await?;
        Ok::<_, Fault>(Html(render(&view, &context)?).into_response())
    };
    finish(answer.await, &visit, &names)
}

pub(super) fn finish(answer: Result<Response, Fault>, visit: &Visit, names: &Names) -> Response {
    answer.unwrap_or_else(|fault| fault.page(&visit.at(route(names, LeasePart::Page))))
}

pub(in crate::http) async fn json(
    State(http): State<Http>,
    names: Names,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(route(&names, LeasePart::Page))?;
        let at = at(&http, &asker, &names, Role::Viewer).await?;
        view(&http, &asker, at, (&context, Sent::default())).await
    };
    match answer.await {
        Ok(view) => Json(view).into_response(),
        Err(fault) => fault.problem(),
    }
}

/// Ends or withdraws an assignment.
pub(in crate::http) async fn assignment(
    State(http): State<Http>,
    names: Names,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let context = visit.at(route(&names, LeasePart::Page));
        let (_, fields) = Fields::read(request, &["number", "action", "reason"]).await?;
        let mut at = at(&http, &asker, &names, Role::Admin).await?;
        let number = fields.get("number").parse().map_err(|_| Fault::NotFound)?;
        let key = AssignmentKey::new(at.row.key.tenant, number);
        let found = assignment::by_key(&mut at.tx, key).await?;
        let row = found.filter(|row| row.lease == at.row.key).ok_or(Fault::NotFound)?;
        let reason = fields.get("reason").trim();
        if reason.chars().count() > 200 {
            return Err(Fault::BadRequest("reason".to_owned()));
        }
        let tx = &mut at.tx;
        match fields.get("action") {
            "withdraw" => {
                assignment::withdraw(tx, &row, written(&asker, &context, reason)).await?;
            }
            // What has not begun is not ended but withdrawn.
            "end" if context.now > row.assignment.starts_at => {
                assignment::end(tx, &row, context.now, written(&asker, &context, reason)).await?;
            }
            _ => return Err(Fault::BadRequest("action".to_owned())),
        }
        let what = format!("assignment: {}", fields.get("action"));
        note_of(&mut at, &asker, &context, &what).await?;
        at.tx.commit().await?;
        Ok(Redirect::to(&context.here.href()).into_response())
    };
    finish(answer.await, &visit, &names)
}

/// Adds, ends or withdraws a billing session.
pub(in crate::http) async fn session(
    State(http): State<Http>,
    names: Names,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let context = visit.at(route(&names, LeasePart::Page));
        let known = ["number", "action", "starts_at", "ends_at"];
        let (_, fields) = Fields::read(request, &known).await?;
        let mut at = at(&http, &asker, &names, Role::Admin).await?;
        let written = written(&asker, &context, "");
        if fields.get("action") == "add" {
            let entered = EnteredSession {
                starts_at: fields.get("starts_at").to_owned(),
                ends_at: fields.get("ends_at").to_owned(),
            };
            let faults = add(&mut at, &entered, (&context, written)).await?;
            if !faults.is_empty() {
                let sent = Sent { entered, faults, ..Sent::default() };
                let view = view(&http, &asker, at, (&context, sent)).await?;
                let page = Html(render(&view, &context)?);
                return Ok((StatusCode::UNPROCESSABLE_ENTITY, page).into_response());
            }
        } else {
            let number = fields.get("number").parse().map_err(|_| Fault::NotFound)?;
            let key = BillingSessionKey::new(at.row.key.tenant, number);
            let known = billing_session::of_lease(&mut at.tx, at.row.key).await?;
            let row = known.into_iter().find(|row| row.key == key).ok_or(Fault::NotFound)?;
            match fields.get("action") {
                "withdraw" => billing_session::withdraw(&mut at.tx, &row, written).await?,
                "end" if context.now > row.session.starts_at => {
                    billing_session::end(&mut at.tx, &row, context.now, written).await?;
                }
                _ => return Err(Fault::BadRequest("action".to_owned())),
            }
        }
        let what = format!("billing session: {}", fields.get("action"));
        note_of(&mut at, &asker, &context, &what).await?;
        at.tx.commit().await?;
        Ok(Redirect::to(&context.here.href()).into_response())
    };
    finish(answer.await, &visit, &names)
}

async fn add(
    at: &mut At,
    entered: &EnteredSession,
    (context, written): (&Context, Written<'_>),
) -> Result<Vec<FieldFault>, Fault> {
    let start = moment(&entered.starts_at, context.zone);
    let is_open = entered.ends_at.trim().is_empty();
    let end = moment(&entered.ends_at, context.zone);
    let mut faults = Vec::new();
    if start.is_none() {
        let is_missing = entered.starts_at.trim().is_empty();
        let matter = if is_missing { LeaseMatter::Missing } else { LeaseMatter::Invalid };
        faults.push(FieldFault::new("starts_at", matter));
    }
    if !is_open && end.is_none_or(|end| start.is_some_and(|start| end <= start)) {
        faults.push(FieldFault::new("ends_at", LeaseMatter::Invalid));
    }
    let Some(starts_at) = start.filter(|_| faults.is_empty()) else { return Ok(faults) };
    let new = BillingSession { starts_at, ends_at: end, source: SessionSource::Hand };
    if billing_session::put(&mut at.tx, at.row.key, &new, written).await?.is_err() {
        faults.push(FieldFault::new("starts_at", LeaseMatter::SessionOverlap));
    }
    Ok(faults)
}
