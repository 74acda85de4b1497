//! What people told about a lease: its page, and the forms that write it down or withdraw it.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Redirect, Response};
use leasewatch_core::sla::profile::{Profile, Profiles};
use leasewatch_core::time::{Period, Timestamp};
use leasewatch_web::context::Context;
use leasewatch_web::pages::lease_form::{FieldFault, LeaseMatter};
use leasewatch_web::pages::lease_told::{
    FORMS, LeaseToldView, NoticeLine, RecordLine, StopLine, field_names, render,
};
use leasewatch_web::path::LeasePart;

use super::lease::{At, Names, at, route, written};
use crate::apply::entered::Entered;
use crate::apply::told::{self, typed};
use crate::apply::{Fault as NotApplied, Run, Wrong};
use crate::http::Http;
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::form::Fields;
use crate::http::visit::Visit;
use crate::store::audit::{self, Action};
use crate::store::lease::LeaseRow;
use crate::store::notice::{NoticeRow, StopKind, Told};
use crate::store::user::Role;
use crate::store::{assignment, node, notice, profile};

const ALWAYS: Period = Period { start: Timestamp::MIN, end: Timestamp::MAX };

pub(in crate::http) async fn html(
    State(http): State<Http>,
    names: Names,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(route(&names, LeasePart::Told))?;
        let at = at(&http, &asker, &names, Role::Viewer).await?;
        let view = view(at, context.now, Sent::default()).await?;
        Ok::<_, Fault>(Html(render(&view, &context)?).into_response())
    };
    answer.await.unwrap_or_else(|fault| fault.page(&visit.at(route(&names, LeasePart::Told))))
}

pub(in crate::http) async fn json(
    State(http): State<Http>,
    names: Names,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(route(&names, LeasePart::Told))?;
        let at = at(&http, &asker, &names, Role::Viewer).await?;
        view(at, context.now, Sent::default()).await
    };
    match answer.await {
        Ok(view) => Json(view).into_response(),
        Err(fault) => fault.problem(),
    }
}

/// Writes something down, or withdraws it.
pub(in crate::http) async fn send(
    State(http): State<Http>,
    names: Names,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let context = visit.at(route(&names, LeasePart::Told));
        let fields = field_names();
        let known: Vec<&str> = fields.iter().copied().chain(["action", "number"]).collect();
        let (_, sent) = Fields::read(request, &known).await?;
        let mut at = at(&http, &asker, &names, Role::Admin).await?;
        let action = sent.get("action");
        let what = match action.strip_prefix("withdraw_") {
            Some(what) => {
                withdraw(&mut at, (what, sent.get("number")), context.now).await?;
                format!("{what} withdrawn")
            }
            None => {
                let form = FORMS.into_iter().find(|form| *form == action);
                let form = form.ok_or_else(|| Fault::BadRequest("action".to_owned()))?;
                let wrong = add(&mut at, (form, &sent), (&asker, &context)).await?;
                if !wrong.is_empty() {
                    at.tx.rollback().await?;
                    let text = |name: &str| (name.to_owned(), sent.get(name).to_owned());
                    let entered = fields.iter().map(|name| text(name)).collect();
                    let sent = Sent { faults: faults(form, &wrong, &entered), entered };
                    let at = self::at(&http, &asker, &names, Role::Admin).await?;
                    let view = view(at, context.now, sent).await?;
                    let page = Html(render(&view, &context)?);
                    return Ok((StatusCode::UNPROCESSABLE_ENTITY, page).into_response());
                }
                form.to_owned()
            }
        };
        note(&mut at, &asker, (context.now, &what)).await?;
        at.tx.commit().await?;
        Ok(Redirect::to(&context.here.href()).into_response())
    };
    let place = || visit.at(route(&names, LeasePart::Told));
    answer.await.unwrap_or_else(|fault: Fault| fault.page(&place()))
}

/// What was sent and is shown again.
#[derive(Default)]
struct Sent {
    entered: BTreeMap<String, String>,
    faults: Vec<FieldFault>,
}

/// Writes down what a form says; returns what is wrong with it.
async fn add(
    at: &mut At,
    (form, sent): (&str, &Fields),
    (asker, context): (&Asker, &Context),
) -> Result<Vec<Wrong>, Fault> {
    let own = field_names().into_iter().filter_map(|name| {
        let plain = name.strip_prefix(form)?.strip_prefix('_')?;
        Some((plain.to_owned(), sent.get(name).to_owned()))
    });
    let entered = Entered(own.collect());
    let (lease, zone) = (&at.row.terms.name, context.zone);
    let mut run = Run::new(&mut at.tx, at.row.key.tenant, written(asker, context, ""));
    let done = match form {
        "notice" => match typed::notice(lease, &entered, zone) {
            Ok(entry) => told::notice(&mut run, &entry).await,
            Err(wrong) => return Ok(wrong),
        },
        "record" => match typed::record(lease, &entered, zone) {
            Ok(entry) => told::record(&mut run, &entry).await,
            Err(wrong) => return Ok(wrong),
        },
        _ => match typed::stop(lease, &entered, zone) {
            Ok(entry) => told::stop(&mut run, &entry).await,
            Err(wrong) => return Ok(wrong),
        },
    };
    match done {
        Ok(()) => Ok(Vec::new()),
        Err(NotApplied::Wrong(wrong)) => Ok(wrong),
        Err(NotApplied::Store(error)) => Err(error.into()),
    }
}

async fn withdraw(at: &mut At, (what, number): (&str, &str), now: Timestamp) -> Result<(), Fault> {
    let told = match what {
        "notice" => Told::Notice,
        "record" => Told::Record,
        "stop" => Told::Stop,
        _ => return Err(Fault::BadRequest("action".to_owned())),
    };
    let number = number.parse().map_err(|_| Fault::NotFound)?;
    let found = notice::withdraw(&mut at.tx, at.row.key, (told, number), now).await?;
    found.map(|_| ()).ok_or(Fault::NotFound)
}

/// What is wrong, at the fields of a form.
fn faults(form: &str, wrong: &[Wrong], entered: &BTreeMap<String, String>) -> Vec<FieldFault> {
    let one = |wrong: &Wrong| {
        let field = format!("{form}_{}", wrong.field);
        let is_missing = entered.get(&field).is_none_or(|text| text.trim().is_empty());
        let matter = if is_missing { LeaseMatter::Missing } else { LeaseMatter::Invalid };
        FieldFault::new(&field, matter)
    };
    wrong.iter().map(one).collect()
}

async fn note(at: &mut At, asker: &Asker, (now, what): (Timestamp, &str)) -> Result<(), Fault> {
    let (who, detail) = (asker.who(), [("what", what.to_owned())]);
    let entry = audit::Entry {
        at: now,
        tenant: Some(at.row.key.tenant),
        who: &who,
        action: Action::NoticeChanged,
        object: at.row.terms.name.as_str(),
        detail: &detail,
    };
    Ok(audit::write(&mut at.tx, entry).await?)
}

async fn view(at: At, now: Timestamp, sent: Sent) -> Result<LeaseToldView, Fault> {
    let At { mut tx, row, may_change } = at;
    let profiles = profile::all(&mut tx, row.key.tenant).await?;
    let notices = notice::notices(&mut tx, row.key, ALWAYS).await?;
    let records = notice::records(&mut tx, row.key, ALWAYS).await?;
    let stops = notice::stops(&mut tx, row.key, ALWAYS).await?;
    let assigned = assignment::of_lease(&mut tx, row.key).await?;
    let nodes = node::list(&mut tx).await?;
    tx.commit().await?;
    let own = nodes.iter().filter(|node| assigned.iter().any(|of| of.node == node.key));
    let governing = profiles.governing(row.terms.profile.as_ref(), now);
    let clauses = governing.map_or(&[][..], |profile| &profile.exclusions);
    let stop = |row: notice::StopRow| {
        let (kind, clause) = match row.kind {
            StopKind::Stopped => ("stopped", None),
            StopKind::Maintenance => ("maintenance", None),
            StopKind::Other(clause) => ("other", Some(clause)),
        };
        StopLine { number: row.number, period: row.period, kind, clause, reason: row.reason }
    };
    Ok(LeaseToldView {
        tenant: row.tenant.to_string(),
        lease: row.terms.name.to_string(),
        origin: own.map(|node| node.origin).max(),
        notices: notices.into_iter().map(|found| notice_line(found, &row, &profiles)).collect(),
        records: records
            .into_iter()
            .map(|row| RecordLine {
                number: row.number,
                period: row.period,
                cause: row.cause,
                source: row.source,
                text: row.body,
            })
            .collect(),
        stops: stops.into_iter().map(stop).collect(),
        clauses: clauses.iter().map(|c| (c.id.to_string(), c.text.clone())).collect(),
        may_change,
        entered: sent.entered,
        faults: sent.faults,
    })
}

/// A notice beside the clause of the profile in force when it begins, which is the one that judges.
fn notice_line(row: NoticeRow, lease: &LeaseRow, profiles: &Profiles) -> NoticeLine {
    let at = row.period.start.hour().start();
    let governing = profiles.governing(lease.terms.profile.as_ref(), at);
    let needed_ms = governing.and_then(Profile::notice_lead_ms);
    NoticeLine {
        number: row.number,
        period: row.period,
        received_at: row.received_at,
        lead_ms: row.period.start.since(row.received_at),
        needed_ms,
        profile: governing.map(|profile| format!("{}@{}", profile.id, profile.version)),
        counts: !row.exclusion().is_late(needed_ms),
        text: row.body,
    }
}
