//! Billing sessions of a lease as programs tell them, and its weekly rule.
//!
//! A session has the provider's id, so what is sent again changes nothing. A request is all or
//! nothing.

use axum::Json;
use axum::body::to_bytes;
use axum::extract::{Request, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use leasewatch_core::id::clean_text;
use leasewatch_core::lease::written::parse_time;
use leasewatch_core::lease::{BillingSession, Schedule, SessionSource};
use leasewatch_core::time::Timestamp;
use leasewatch_web::pages::lease::{EnteredSchedule, render};
use leasewatch_web::pages::lease_form::{FieldFault, LeaseMatter};
use leasewatch_web::path::LeasePart;
use serde::{Deserialize, Serialize};

use super::lease::{At, Names, at, finish, note_of, route, written};
use super::lease_view::{Sent, view};
use crate::apply::entered::moment;
use crate::apply::schedule::begin;
use crate::http::Http;
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::form::Fields;
use crate::http::visit::Visit;
use crate::store::billing_schedule;
use crate::store::billing_session::{self, SessionFrom, SessionRow};
use crate::store::lease::Written;
use crate::store::user::Role;

/// Bytes of a request.
const BYTES_MAX: usize = 256 * 1_024;
/// Sessions of a request.
const SESSIONS_MAX: usize = 1_000;

/// What a program tells.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Told {
    sessions: Vec<ToldSession>,
}

/// A session by the provider's id.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ToldSession {
    id: String,
    starts_at: String,
    #[serde(default)]
    ends_at: Option<String>,
    #[serde(default)]
    withdrawn: bool,
}

/// What became of it.
#[derive(Default, Serialize)]
struct Done {
    added: u32,
    changed: u32,
    unchanged: u32,
}

/// Takes sessions from a program.
pub(in crate::http) async fn tell(
    State(http): State<Http>,
    names: Names,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let context = visit.at(route(&names, LeasePart::Page));
        let bytes = to_bytes(request.into_body(), BYTES_MAX).await;
        let bytes = bytes.map_err(|_| Fault::TooLarge)?;
        let mut at = at(&http, &asker, &names, Role::Admin).await?;
        let told: Told = serde_json::from_slice(&bytes)
            .map_err(|error| Fault::BadRequest(clean_text(&error.to_string(), 200)))?;
        if told.sessions.len() > SESSIONS_MAX {
            return Err(Fault::TooLarge);
        }
        let mut done = Done::default();
        for (index, session) in told.sessions.iter().enumerate() {
            let wrong = |field| Fault::BadRequest(format!("sessions[{index}].{field}"));
            one(&mut at, session, written(&asker, &context, ""), &mut done)
                .await?
                .map_err(wrong)?;
        }
        if done.added + done.changed > 0 {
            let what = format!("billing sessions: {} added, {} changed", done.added, done.changed);
            note_of(&mut at, &asker, &context, &what).await?;
        }
        at.tx.commit().await?;
        Ok(Json(done).into_response())
    };
    answer.await.unwrap_or_else(|fault: Fault| fault.problem())
}

/// The inner error is the field that is at fault.
async fn one(
    at: &mut At,
    told: &ToldSession,
    written: Written<'_>,
    done: &mut Done,
) -> Result<Result<(), &'static str>, Fault> {
    let id = told.id.trim();
    if id.is_empty() || clean_text(id, 200) != id {
        return Ok(Err("id"));
    }
    let Some(starts_at) = parse_time(&told.starts_at) else { return Ok(Err("starts_at")) };
    let ends_at = match told.ends_at.as_deref() {
        None => None,
        Some(text) => match parse_time(text).filter(|end| *end > starts_at) {
            Some(end) => Some(end),
            None => return Ok(Err("ends_at")),
        },
    };
    let wanted = BillingSession { starts_at, ends_at, source: SessionSource::Api };
    let known = billing_session::of_lease(&mut at.tx, at.row.key).await?;
    let known = known.iter().find(|row| row.from.external_id.as_deref() == Some(id));
    let is_ended = |row: &SessionRow| {
        let open = BillingSession { ends_at: None, ..wanted };
        (row.session == open).then_some(ends_at).flatten()
    };
    match known {
        None if told.withdrawn => done.unchanged += 1,
        Some(row) if told.withdrawn => {
            billing_session::withdraw(&mut at.tx, row, written).await?;
            done.changed += 1;
        }
        Some(row) if row.session == wanted => done.unchanged += 1,
        Some(row) => {
            match is_ended(row) {
                Some(end) => billing_session::end(&mut at.tx, row, end, written).await?,
                None => {
                    billing_session::withdraw(&mut at.tx, row, written).await?;
                    if !put(at, (&wanted, id), written).await? {
                        return Ok(Err("starts_at"));
                    }
                }
            }
            done.changed += 1;
        }
        None => {
            if !put(at, (&wanted, id), written).await? {
                return Ok(Err("starts_at"));
            }
            done.added += 1;
        }
    }
    Ok(Ok(()))
}

/// False where another session covers part of that time.
async fn put(
    at: &mut At,
    (wanted, id): (&BillingSession, &str),
    written: Written<'_>,
) -> Result<bool, Fault> {
    let from = SessionFrom { external_id: Some(id.to_owned()), schedule: None };
    let put = billing_session::put_from(&mut at.tx, at.row.key, (wanted, &from), written).await?;
    Ok(put.is_ok())
}

/// Gives a lease its weekly rule, or ends it.
pub(in crate::http) async fn schedule(
    State(http): State<Http>,
    names: Names,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let context = visit.at(route(&names, LeasePart::Page));
        let (_, fields) = Fields::read(request, &["action", "rule", "rule_from"]).await?;
        let mut at = at(&http, &asker, &names, Role::Admin).await?;
        let written = written(&asker, &context, "");
        if fields.get("action") == "end" {
            billing_schedule::end(&mut at.tx, at.row.key, context.now, written).await?;
        } else {
            let entered = EnteredSchedule {
                rule: fields.get("rule").to_owned(),
                from: fields.get("rule_from").to_owned(),
            };
            let faults = change(&mut at, &entered, (&context, written)).await?;
            if !faults.is_empty() {
                let sent = Sent { schedule: Some(entered), faults, ..Sent::default() };
                let view = view(&http, &asker, at, (&context, sent)).await?;
                let page = Html(render(&view, &context)?);
                return Ok((axum::http::StatusCode::UNPROCESSABLE_ENTITY, page).into_response());
            }
        }
        note_of(&mut at, &asker, &context, "weekly rule of billing sessions").await?;
        at.tx.commit().await?;
        Ok(Redirect::to(&context.here.href()).into_response())
    };
    finish(answer.await, &visit, &names)
}

async fn change(
    at: &mut At,
    entered: &EnteredSchedule,
    (context, written): (&leasewatch_web::context::Context, Written<'_>),
) -> Result<Vec<FieldFault>, Fault> {
    let mut faults = Vec::new();
    let rule = entered.rule.replace('\r', "").parse::<Schedule>();
    if rule.is_err() {
        let is_missing = entered.rule.trim().is_empty();
        let matter = if is_missing { LeaseMatter::Missing } else { LeaseMatter::Invalid };
        faults.push(FieldFault::new("rule", matter));
    }
    let said: Option<Timestamp> = moment(&entered.from, context.zone);
    if said.is_none() && !entered.from.trim().is_empty() {
        faults.push(FieldFault::new("rule_from", LeaseMatter::Invalid));
    }
    let Some(rule) = rule.ok().filter(|_| faults.is_empty()) else { return Ok(faults) };
    let has_one = billing_schedule::of_lease(&mut at.tx, at.row.key).await?.is_some();
    let starts_at = begin(&at.row, said, (has_one, context.now));
    let put = (&rule, at.row.terms.zone, starts_at);
    billing_schedule::put(&mut at.tx, at.row.key, put, written).await?;
    Ok(faults)
}
