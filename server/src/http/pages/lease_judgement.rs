//! What was judged of a lease, for its page.

use std::cmp::Reverse;

use leasewatch_core::sla::verdict::Remedy;
use leasewatch_core::time::{DAY_MS, Period, Timestamp};
use leasewatch_web::context::Context;
use leasewatch_web::pages::lease::{ClaimMark, DayStates, JudgementView, UnitName, VerdictLine};

use super::lease_budget::budgets;
use crate::http::deadlines::claim_of;
use crate::http::error::Fault;
use crate::store::availability::{self, HourStates};
use crate::store::claim::ClaimRow;
use crate::store::lease::LeaseRow;
use crate::store::node::NodeRow;
use crate::store::verdict::{self, Basis, VerdictRow};
use crate::store::{LeaseKey, StoreError, Tx};

/// Days of the calendar: this month and the last, in any zone.
const CALENDAR_DAYS: i64 = 62;
/// Windows that are shown reach back so far.
const VERDICT_DAYS: i64 = 400;

/// What the page shows, within its transaction.
pub(super) async fn judgement(
    tx: &mut Tx,
    lease: &LeaseRow,
    (nodes, claims): (&[NodeRow], &[ClaimRow]),
    context: &Context,
) -> Result<JudgementView, Fault> {
    let back = |days: i64| Period::new(context.now.plus_ms(-days * DAY_MS), context.now.plus_ms(1));
    let shown = (context, back(CALENDAR_DAYS), back(VERDICT_DAYS));
    judgement_of(tx, lease, (nodes, claims), shown).await
}

/// Hours that begin in `calendar`, and verdicts whose windows touch `windows`.
pub(super) async fn judgement_of(
    tx: &mut Tx,
    lease: &LeaseRow,
    (nodes, claims): (&[NodeRow], &[ClaimRow]),
    (context, calendar, windows): (&Context, Period, Period),
) -> Result<JudgementView, Fault> {
    let hours = (calendar.start.hour(), calendar.end.plus_ms(-1).hour().next());
    let now = context.now;
    let hours = availability::by_hour(tx, lease.key, hours).await?;
    let mut rows = verdict::current(tx, lease.key, windows).await?;
    // Verdicts of one window and objective stand together.
    rows.sort_by_key(|row| {
        let of = &row.judged.of;
        (Reverse(of.window.start), Reverse(of.window.end), of.objective.clone())
    });
    let (budgets, judged_until) = budgets(tx, lease, (&rows, nodes), now).await?;
    let marked = |row: VerdictRow| {
        let claim = claim_of(claims, lease.key, &row.judged);
        let claim = claim.map(|of| ClaimMark { number: of.number, state: of.claim.state.name() });
        VerdictLine { claim, ..line(row, nodes) }
    };
    Ok(JudgementView {
        days: days(&hours, context),
        verdicts: rows.into_iter().map(marked).collect(),
        budgets,
        judged_until,
    })
}

/// The last revision of each verdict that the page shows.
pub(super) async fn verdicts(
    tx: &mut Tx,
    lease: LeaseKey,
    now: Timestamp,
) -> Result<Vec<VerdictRow>, StoreError> {
    let shown = Period::new(now.plus_ms(-VERDICT_DAYS * DAY_MS), now.plus_ms(1));
    verdict::current(tx, lease, shown).await
}

/// Hours put together by the day of the page's zone that they begin in.
fn days(hours: &[HourStates], context: &Context) -> Vec<DayStates> {
    let mut days: Vec<DayStates> = Vec::new();
    for hour in hours {
        let start = hour.hour.start();
        let day = context.zone.day(start).map_or(start, |day| day.start);
        match days.last_mut() {
            Some(last) if last.starts_at == day => {
                last.up_ms += hour.up_ms;
                last.down_ms += hour.down_ms;
                last.unknown_ms += hour.unknown_ms;
                last.excluded_ms += hour.excluded_ms;
            }
            _ => days.push(DayStates {
                starts_at: day,
                up_ms: hour.up_ms,
                down_ms: hour.down_ms,
                unknown_ms: hour.unknown_ms,
                excluded_ms: hour.excluded_ms,
            }),
        }
    }
    days
}

fn line(row: VerdictRow, nodes: &[NodeRow]) -> VerdictLine {
    let judged = row.judged;
    let figures = judged.figures;
    let remedies = judged.details.lacks.iter();
    VerdictLine {
        hash: row.hash.to_string(),
        is_owed: judged.is_owed(),
        claimed_ms: figures.claimed_ms,
        claim: None,
        is_contract: judged.of.basis == Basis::Contract,
        objective: judged.of.objective.to_string(),
        unit: unit(&judged.of.unit, nodes),
        window: judged.of.window,
        is_over: judged.is_over,
        outcome: judged.outcome,
        target_ppm: judged.target.and_then(|target| u32::try_from(target.ppm()).ok()),
        whole_ms: figures.whole_ms,
        allowed_ms: figures.allowed_ms,
        proven_ms: figures.proven_ms,
        possible_ms: figures.possible_ms,
        known_ms: figures.up_ms + figures.down_ms,
        unknown_ms: figures.unknown_ms,
        remedies: remedies.filter_map(|(name, ms)| Some((Remedy::from_name(name)?, *ms))).collect(),
        credit: judged.credit.map(|(money, _)| money.to_string()),
        is_credit_missing: judged.details.credit.missing.is_some(),
        profile: judged.by.id.to_string(),
        profile_version: judged.by.version,
        is_reviewed: judged.by.is_reviewed,
        revision: row.revision,
    }
}

/// `lease`, a node's id, or `node/slot`.
pub(super) fn unit(name: &str, nodes: &[NodeRow]) -> UnitName {
    let named = |id: &str| {
        let row = nodes.iter().find(|row| row.id.to_string() == id);
        row.map_or_else(|| id.to_owned(), |row| row.name.clone())
    };
    match name.split_once('/') {
        _ if name == "lease" => UnitName::Lease,
        Some((id, slot)) => UnitName::Gpu { node: named(id), number: slot.parse().unwrap_or(0) },
        None => UnitName::Node(named(name)),
    }
}
