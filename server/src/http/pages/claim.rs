//! A claim: its page, its JSON, its text as a file, and where a step of it is written down.

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{Html, IntoResponse, Redirect, Response};
use leasewatch_core::money::Money;
use leasewatch_core::sla::claim::{ClaimError, ClaimState, ClaimStep, DeadlineFacts};
use leasewatch_core::sla::window::BillingCycle;
use leasewatch_core::time::{Period, Timestamp};
use leasewatch_web::context::Context;
use leasewatch_web::pages::claim::{ClaimView, EnteredStep, StepFault, StepLine, render};
use leasewatch_web::path::Route;

use super::claims::line;
use super::lease::written;
use crate::apply::entered::moment;
use crate::http::Http;
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::form::Fields;
use crate::http::visit::Visit;
use crate::store::audit::{self, Action};
use crate::store::claim::{self, ClaimRow, TakenStep};
use crate::store::judge_work::{self, JudgeReason};
use crate::store::user::Role;
use crate::store::{Scope, StoreError, Tx, lease, profile};

/// Characters of the tenant's words at a step, and of the provider's.
const NOTE_CHARS: usize = 400;
const ANSWER_CHARS: usize = 2_000;

/// The claim's number, as the address has it.
pub(in crate::http) type Number = Path<String>;

fn route(Path(number): &Number) -> Route {
    number.parse().map_or_else(|_| Route::Other(format!("/claims/{number}")), Route::Claim)
}

/// A claim that may be seen, with the transaction that saw it.
async fn found(http: &Http, asker: &Asker, Path(number): &Number) -> Result<(Tx, ClaimRow), Fault> {
    let number: i32 = number.parse().map_err(|_| Fault::NotFound)?;
    for scope in asker.scopes() {
        let mut tx = http.db.begin(scope).await?;
        if let Some(row) = claim::by_number(&mut tx, number).await? {
            return Ok((tx, row));
        }
        tx.commit().await?;
    }
    Err(Fault::NotFound)
}

async fn seen(http: &Http, asker: &Asker, number: &Number) -> Result<ClaimRow, Fault> {
    let (tx, row) = found(http, asker, number).await?;
    tx.commit().await?;
    Ok(row)
}

pub(in crate::http) async fn html(
    State(http): State<Http>,
    number: Number,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(route(&number))?;
        let row = seen(&http, &asker, &number).await?;
        let view = view(&row, &asker, (context.now, Sent::default()));
        Ok::<_, Fault>(Html(render(&view, &context)?).into_response())
    };
    answer.await.unwrap_or_else(|fault| fault.page(&visit.at(route(&number))))
}

pub(in crate::http) async fn json(
    State(http): State<Http>,
    number: Number,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(route(&number))?;
        let row = seen(&http, &asker, &number).await?;
        Ok::<_, Fault>(view(&row, &asker, (context.now, Sent::default())))
    };
    match answer.await {
        Ok(view) => Json(view).into_response(),
        Err(fault) => fault.problem(),
    }
}

/// The text in both languages, the page's first.
pub(in crate::http) async fn text(
    State(http): State<Http>,
    number: Number,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(route(&number))?;
        let row = seen(&http, &asker, &number).await?;
        let view = view(&row, &asker, (context.now, Sent::default()));
        let text = view.file(context.language).ok_or(Fault::NotFound)?;
        let name = format!("attachment; filename=\"claim-{}.txt\"", row.number);
        let kind = "text/plain; charset=utf-8".to_owned();
        Ok::<_, Fault>(([(CONTENT_TYPE, kind), (CONTENT_DISPOSITION, name)], text).into_response())
    };
    answer.await.unwrap_or_else(|fault| fault.page(&visit.at(route(&number))))
}

/// Writes a step down.
pub(in crate::http) async fn step(
    State(http): State<Http>,
    number: Number,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let context = visit.at(route(&number));
        let (_, fields) = Fields::read(request, &["step", "at", "amount", "words"]).await?;
        let row = seen(&http, &asker, &number).await?;
        if !asker.may(&row.tenant, Role::Admin) {
            return Err(Fault::Forbidden);
        }
        let entered = EnteredStep {
            at: fields.get("at").to_owned(),
            amount: fields.get("amount").to_owned(),
            words: fields.get("words").trim().to_owned(),
        };
        let taken = match asked(&row, fields.get("step"), (&entered, &context)) {
            Ok(asked) => take(&http, &asker, (&row, asked), (&entered, &context)).await?,
            Err(fault) => Err(fault),
        };
        if let Err(fault) = taken {
            let sent = Sent { entered, fault: Some(fault) };
            let page = Html(render(&view(&row, &asker, (context.now, sent)), &context)?);
            return Ok((StatusCode::UNPROCESSABLE_ENTITY, page).into_response());
        }
        Ok(Redirect::to(&context.here.href()).into_response())
    };
    answer.await.unwrap_or_else(|fault: Fault| fault.page(&visit.at(route(&number))))
}

/// A step and when it happened, from what was typed.
fn asked(
    row: &ClaimRow,
    step: &str,
    (entered, context): (&EnteredStep, &Context),
) -> Result<(ClaimStep, Timestamp), StepFault> {
    let at = match entered.at.trim() {
        "" => Some(context.now),
        text => moment(text, context.zone).filter(|at| *at <= context.now),
    };
    let at = at.ok_or(StepFault::Time)?;
    let step = match step {
        "notify" => ClaimStep::Notify,
        "file" => ClaimStep::File,
        "withdraw" => ClaimStep::Withdraw,
        "refuse" => ClaimStep::Refuse(entered.words.clone()),
        "accept" => {
            let amount = Money::parse(entered.amount.trim(), row.draft.asked.currency).ok();
            ClaimStep::Accept(amount.filter(|amount| amount.nanos > 0).ok_or(StepFault::Amount)?)
        }
        _ => return Err(StepFault::Order),
    };
    let most = match step {
        ClaimStep::Refuse(_) | ClaimStep::Accept(_) => ANSWER_CHARS,
        _ => NOTE_CHARS,
    };
    if entered.words.chars().count() > most {
        return Err(StepFault::Long);
    }
    Ok((step, at))
}

/// In one transaction: the step, its entry in the audit log, and what is to be judged anew, since
/// what is claimed counts in no other claim.
async fn take(
    http: &Http,
    asker: &Asker,
    (row, (step, at)): (&ClaimRow, (ClaimStep, Timestamp)),
    (entered, context): (&EnteredStep, &Context),
) -> Result<Result<(), StepFault>, Fault> {
    let mut tx = http.db.begin(Scope::Tenant(row.lease.tenant)).await?;
    let deadline = moved_deadline(&mut tx, row, (&step, at)).await?;
    let written = written(asker, context, &entered.words);
    let taken = claim::take(&mut tx, row, (&step, at, deadline), written).await?;
    if let Err(error) = taken {
        return Ok(Err(match error {
            ClaimError::Order { .. } => StepFault::Order,
            ClaimError::Earlier(_) => StepFault::Earlier,
            ClaimError::Currency => StepFault::Amount,
            ClaimError::NoReason => StepFault::Reason,
        }));
    }
    let what = match step {
        ClaimStep::Notify => "notify",
        ClaimStep::File => "file",
        ClaimStep::Accept(_) => "accept",
        ClaimStep::Refuse(_) => "refuse",
        ClaimStep::Withdraw => "withdraw",
    };
    note(&mut tx, row.lease.tenant, (asker, context.now), (row.number, what)).await?;
    let changed = affected(row);
    let asked = (JudgeReason::Asked, context.now);
    judge_work::add(&mut tx, row.lease, changed, asked).await?;
    tx.commit().await?;
    Ok(Ok(()))
}

/// Leaves an entry of what was done to a claim.
pub(super) async fn note(
    tx: &mut Tx,
    tenant: crate::store::TenantKey,
    (asker, at): (&Asker, Timestamp),
    (number, what): (i32, &str),
) -> Result<(), StoreError> {
    let (who, object) = (asker.who(), number.to_string());
    let detail = [("what", what.to_owned())];
    let entry = audit::Entry {
        at,
        tenant: Some(tenant),
        who: &who,
        action: Action::ClaimChanged,
        object: &object,
        detail: &detail,
    };
    audit::write(tx, entry).await
}

/// The deadline, where telling the provider starts its clock.
async fn moved_deadline(
    tx: &mut Tx,
    row: &ClaimRow,
    (step, at): (&ClaimStep, Timestamp),
) -> Result<Option<Timestamp>, Fault> {
    let is_told = matches!(step, ClaimStep::Notify | ClaimStep::File);
    if !is_told || row.claim.notified_at.is_some() {
        return Ok(None);
    }
    let profiles = profile::all(tx, row.lease.tenant).await?;
    let (id, version, hash) = &row.draft.profile;
    let profile =
        profiles.iter().find(|one| (&one.id, one.version, one.hash) == (id, *version, *hash));
    let terms = lease::by_key(tx, row.lease).await?.map(|lease| lease.terms);
    let outage = row.draft.facts.as_ref().and_then(|facts| facts.outages.first());
    let (Some(profile), Some(terms), Some(outage)) = (profile, terms, outage) else {
        return Ok(None);
    };
    let moved = profile.deadline.deadline(&DeadlineFacts {
        incident_end: Timestamp(outage.actual.1),
        window: row.draft.window,
        notified_at: Some(at),
        billing: BillingCycle { day: u32::from(terms.billing.month_day), zone: terms.zone },
    });
    Ok(moved.filter(|moved| Some(*moved) != row.draft.deadline))
}

/// Time in which other windows may hold what the claim holds.
fn affected(row: &ClaimRow) -> Period {
    let Period { start, end } = row.draft.window;
    let first = row.draft.intervals.first().map_or(start, |first| first.start.min(start));
    let last = row.draft.intervals.last().map_or(end, |last| last.end.max(end));
    // A rolling window that begins with the last outage ends one length later.
    Period::new(first, last.plus_ms(end.since(start)))
}

/// What was sent and is shown again.
#[derive(Default)]
struct Sent {
    entered: EnteredStep,
    fault: Option<StepFault>,
}

fn view(row: &ClaimRow, asker: &Asker, (now, sent): (Timestamp, Sent)) -> ClaimView {
    let (id, version, hash) = &row.draft.profile;
    let next: &[&str] = match row.claim.state {
        _ if !asker.may(&row.tenant, Role::Admin) => &[],
        ClaimState::Draft => &["notify", "file", "withdraw"],
        ClaimState::Notified => &["file", "withdraw"],
        ClaimState::Filed => &["accept", "refuse", "withdraw"],
        ClaimState::Accepted { .. } | ClaimState::Refused { .. } | ClaimState::Withdrawn => &[],
    };
    ClaimView {
        line: line(row, now),
        profile: format!("{id}@{version}"),
        profile_hash: *hash,
        verdict_hash: row.draft.verdict,
        facts: row.draft.facts.clone(),
        notified_at: row.claim.notified_at,
        drafted_by: row.written_by.clone(),
        steps: row.steps.iter().map(step_line).collect(),
        next: next.to_vec(),
        entered: sent.entered,
        fault: sent.fault,
    }
}

fn step_line(step: &TakenStep) -> StepLine {
    StepLine {
        step: step.step.clone(),
        at: step.at,
        amount: step.amount,
        words: step.answer.clone().or_else(|| step.note.clone()),
        written_at: step.written_at,
        written_by: step.written_by.clone(),
    }
}
