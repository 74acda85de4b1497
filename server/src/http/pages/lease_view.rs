//! What the page of a lease shows, read within its transaction.

use leasewatch_core::lease::PriceUnit;
use leasewatch_core::time::Period;
use leasewatch_web::context::Context;
use leasewatch_web::pages::NodeName;
use leasewatch_web::pages::lease::{
    AssignmentLine, EnteredSchedule, EnteredSession, InventoryLine, LeaseView, Revision,
    ScheduleLine, SessionLine, Surplus,
};
use leasewatch_web::pages::lease_form::FieldFault;

use super::claims::line as claim_line;
use super::lease::At;
use super::lease_judgement::judgement;
use super::leases::{gpus, state};
use super::reliability;
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::{Http, deadlines};
use crate::store::assignment::AssignmentRow;
use crate::store::lease::{self, LeaseRow, period};
use crate::store::node::NodeRow;
use crate::store::user::Role;
use crate::store::{
    NodeKey, Tx, assignment, billing_schedule, billing_session, claim, event, node,
};

/// Changes of hardware on the page.
const EVENTS: usize = 100;
/// Changes of one node that are looked through.
const EVENTS_OF_NODE: u32 = 500;
/// What changes hardware.
const KINDS: [&str; 6] =
    ["gpu_seen", "gpu_replaced", "gpu_missing", "gpu_lost", "driver_reloaded", "mig_changed"];
/// What was sent and is shown again.
#[derive(Default)]
pub(super) struct Sent {
    pub(super) entered: EnteredSession,
    pub(super) schedule: Option<EnteredSchedule>,
    pub(super) faults: Vec<FieldFault>,
    /// The claim that holds what was to be claimed.
    pub(super) taken_by: Option<i32>,
}

pub(super) async fn view(
    http: &Http,
    asker: &Asker,
    at: At,
    (context, sent): (&Context, Sent),
) -> Result<LeaseView, Fault> {
    let At { mut tx, row, may_change } = at;
    let now = context.now;
    let mut history = lease::revisions(&mut tx, row.key).await?;
    history.reverse();
    let assignments = assignment::of_lease(&mut tx, row.key).await?;
    let mut sessions = billing_session::of_lease(&mut tx, row.key).await?;
    let nodes = node::list(&mut tx).await?;
    let assigned = gpus(assignments.iter(), &row.terms, now);
    let inventory = inventory(&mut tx, &row, (&assignments, &nodes)).await?;
    let claims = claim::list(&mut tx, row.key.tenant, Some(row.key)).await?;
    let judgement = judgement(&mut tx, &row, (&nodes, &claims), context).await?;
    let reliability = reliability::of_lease(&mut tx, row.key, context).await?;
    let mut deadlines = deadlines::of_scope(&mut tx, now).await?;
    deadlines.retain(|line| line.lease == row.terms.name.as_str());
    let surplus = assignment::surplus(&row.terms, &assignments);
    let schedule = billing_schedule::of_lease(&mut tx, row.key).await?;
    let own = row.terms.prices.iter().rev().find(|price| price.from <= now);
    let own = own.filter(|price| price.unit == PriceUnit::GpuHour).map(|price| price.amount);
    let (offers, offers_cheaper) =
        super::prices::beside(&mut tx, &row.terms.gpu_model, own).await?;
    tx.commit().await?;
    let state = state(&row.terms, &sessions, now);
    sessions.reverse();
    let lines = assignments.into_iter().filter_map(|row| assignment_line(row, &nodes));
    Ok(LeaseView {
        tenant: row.tenant.to_string(),
        shows_tenant: asker.tenants(http, Role::Viewer).await?.len() > 1,
        state,
        judgement,
        reliability,
        deadlines,
        claims: claims.iter().map(|row| claim_line(row, now)).collect(),
        taken_by: sent.taken_by,
        history: history.into_iter().map(revision).collect(),
        assignments: lines.collect(),
        gpus_unassigned: (i64::from(row.terms.gpu_count) - assigned).max(0),
        surplus: surplus.map(|(count, since)| Surplus {
            gpus: i64::try_from(count).unwrap_or(i64::MAX),
            since,
        }),
        schedule: schedule.map(|of| ScheduleLine {
            rule: of.rule.to_string(),
            zone: of.zone.name().to_owned(),
            starts_at: of.starts_at,
        }),
        offers,
        offers_cheaper,
        entered_schedule: sent.schedule.unwrap_or_default(),
        sessions: sessions
            .into_iter()
            .map(|row| SessionLine {
                number: row.key.number(),
                starts_at: row.session.starts_at,
                ends_at: row.session.ends_at,
                source: row.session.source,
            })
            .collect(),
        inventory,
        may_change,
        entered: sent.entered,
        faults: sent.faults,
        terms: row.terms,
    })
}

fn revision(row: LeaseRow) -> Revision {
    Revision {
        revision: row.revision,
        written_at: row.written_at,
        written_by: row.written_by,
        reason: row.reason,
        terms: row.terms,
    }
}

fn name_of(key: NodeKey, nodes: &[NodeRow]) -> Option<NodeName> {
    let row = nodes.iter().find(|row| row.key == key)?;
    Some(NodeName { id: row.id.to_string(), name: row.name.clone(), origin: row.origin })
}

fn assignment_line(row: AssignmentRow, nodes: &[NodeRow]) -> Option<AssignmentLine> {
    Some(AssignmentLine {
        number: row.key.number(),
        node: name_of(row.node, nodes)?,
        gpu: row.assignment.slot.0,
        starts_at: row.assignment.starts_at,
        ends_at: row.assignment.ends_at,
        written_at: row.written_at,
        written_by: row.written_by,
        withdrawn_at: row.withdrawn_at,
        reason: row.reason,
    })
}

/// The latest changes of its nodes' hardware within the term and their assignments.
async fn inventory(
    tx: &mut Tx,
    row: &LeaseRow,
    (assignments, nodes): (&[AssignmentRow], &[NodeRow]),
) -> Result<Vec<InventoryLine>, Fault> {
    let mut spans: Vec<(NodeKey, Period)> = Vec::new();
    for of in assignments.iter().filter(|of| of.withdrawn_at.is_none()) {
        let span = of.period().intersect(period(&row.terms));
        match spans.iter_mut().find(|(node, _)| *node == of.node) {
            Some((_, known)) => {
                *known = Period::new(known.start.min(span.start), known.end.max(span.end));
            }
            None => spans.push((of.node, span)),
        }
    }
    let mut lines = Vec::new();
    for (key, span) in spans {
        let Some(node) = name_of(key, nodes) else { continue };
        let rows = event::before_of_kinds(tx, key, span.end, &KINDS, EVENTS_OF_NODE).await?;
        let inside = rows.into_iter().map(|row| row.event).filter(|event| event.at >= span.start);
        lines.extend(inside.map(|event| InventoryLine { node: node.clone(), event }));
    }
    lines.sort_by_key(|line| std::cmp::Reverse(line.event.at));
    lines.truncate(EVENTS);
    Ok(lines)
}
