//! A lease's month as a document, PDF and HTML: `?month=2026-10`, in the lease's zone.

use std::path::Path;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use leasewatch_core::metering::GapCause;
use leasewatch_core::time::{Period, Zone};
use leasewatch_report::pdf::{self, PdfError};
use leasewatch_web::context::Context;
use leasewatch_web::document::Document;
use leasewatch_web::pages::NodeName;
use leasewatch_web::pages::lease::report::{DayUse, GpuDays, LeaseReport};
use leasewatch_web::path::{LeasePart, month_text};

use super::lease::{self, Names, at};
use super::lease_judgement::judgement_of;
use super::lease_view::{Sent, view};
use crate::http::Http;
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::visit::Visit;
use crate::store::assignment::{self, AssignmentRow};
use crate::store::audit::{self, Action};
use crate::store::hour::{self, HourCursor, HourRow};
use crate::store::lease::{LeaseRow, period};
use crate::store::node::{self, NodeRow};
use crate::store::user::Role;
use crate::store::{NodeKey, Scope, StoreError, Tx};

/// Hour records that are read at once.
const ROWS: u32 = 500;

pub(in crate::http) async fn html(
    State(http): State<Http>,
    names: Names,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let (document, _) = document(&http, &asker, &names, &visit).await?;
        Ok::<_, Fault>(([(header::CONTENT_TYPE, "text/html; charset=utf-8")], document.html()))
    };
    finish(answer.await, &visit, &names)
}

pub(in crate::http) async fn download(
    State(http): State<Http>,
    names: Names,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let (document, month) = document(&http, &asker, &names, &visit).await?;
        let written = tokio::task::spawn_blocking(move || {
            pdf::write(&document, &pdf::FONT_DIRS.map(Path::new))
        });
        let pdf = written.await.map_err(|error| PdfError::Write(error.to_string()))??;
        // Names of leases hold letters, digits and dashes only.
        let name = format!("attachment; filename=\"{}-{}.pdf\"", names.0.1, month);
        let headers = [
            (header::CONTENT_TYPE, "application/pdf".to_owned()),
            (header::CONTENT_DISPOSITION, name),
        ];
        Ok::<_, Fault>((headers, pdf))
    };
    finish(answer.await, &visit, &names)
}

fn finish(answer: Result<impl IntoResponse, Fault>, visit: &Visit, names: &Names) -> Response {
    match answer {
        Ok(response) => response.into_response(),
        Err(fault) => fault.page(&visit.at(lease::route(names, LeasePart::Page))),
    }
}

/// The document, and its month as `2026-10`.
async fn document(
    http: &Http,
    asker: &Asker,
    names: &Names,
    visit: &Visit,
) -> Result<(Document, String), Fault> {
    let context = visit.checked(lease::route(names, LeasePart::Page))?;
    let at_lease = at(http, asker, names, Role::Viewer).await?;
    let (row, scope) = (at_lease.row.clone(), Scope::Tenant(at_lease.row.key.tenant));
    let zone = row.terms.zone;
    let context = Context { zone, ..context };
    let (month, window) = window(&context, zone)?;
    let mut lease = view(http, asker, at_lease, (&context, Sent::default())).await?;
    let mut tx = http.db.begin(scope).await?;
    let nodes = node::list(&mut tx).await?;
    lease.judgement =
        judgement_of(&mut tx, &row, (&nodes, &[]), (&context, window, window)).await?;
    let (gpus, gaps) = measured(&mut tx, &row, &nodes, (zone, window)).await?;
    note(&mut tx, (asker, &context), &row, &month).await?;
    tx.commit().await?;
    let report = LeaseReport { lease, window, gpus, gaps };
    Ok((report.document(&context), month))
}

/// The month, as far as it is over.
fn window(context: &Context, zone: Zone) -> Result<(String, Period), Fault> {
    let bad = || Fault::BadRequest("month".to_owned());
    let now = || zone.local(context.now).map(|local| (local.year, local.month));
    let month = context.here.state.costs.month.or_else(now).ok_or_else(bad)?;
    let whole = zone.month(month.0, month.1).ok_or_else(bad)?;
    if whole.start >= context.now {
        return Err(bad());
    }
    Ok((month_text(month), Period::new(whole.start, whole.end.min(context.now))))
}

/// A report that is taken out is noted, as other exports are.
async fn note(
    tx: &mut Tx,
    (asker, context): (&Asker, &Context),
    row: &LeaseRow,
    month: &str,
) -> Result<(), StoreError> {
    let entry = audit::Entry {
        at: context.now,
        tenant: Some(row.key.tenant),
        who: &asker.who(),
        action: Action::Exported,
        object: &format!("report of {}", row.terms.name),
        detail: &[("month", month.to_owned())],
    };
    audit::write(tx, entry).await
}

/// What was measured of each GPU that the lease covered, and the gaps of all of them.
async fn measured(
    tx: &mut Tx,
    row: &LeaseRow,
    nodes: &[NodeRow],
    (zone, window): (Zone, Period),
) -> Result<(Vec<GpuDays>, Vec<(GapCause, i64)>), Fault> {
    let assignments = assignment::of_lease(tx, row.key).await?;
    let covered = assignments.into_iter().filter(|of| of.withdrawn_at.is_none());
    let mut covered: Vec<(AssignmentRow, Period)> = covered
        .map(|of| {
            let span = of.period().intersect(period(&row.terms)).intersect(window);
            (of, span)
        })
        .filter(|(_, span)| !span.is_empty())
        .collect();
    covered.sort_by_key(|(of, _)| (of.node, of.assignment.slot.0));
    let mut found =
        Found { gpus: Vec::new(), gaps: GapCause::ALL.map(|cause| (cause, 0)).to_vec() };
    let mut keys: Vec<NodeKey> = covered.iter().map(|(of, _)| of.node).collect();
    keys.dedup();
    for key in keys {
        let Some(node) = nodes.iter().find(|node| node.key == key) else { continue };
        let of_node: Vec<_> = covered.iter().filter(|(of, _)| of.node == key).collect();
        let hours = (window.start.hour(), window.end.plus_ms(-1).hour().next());
        let mut after = None;
        loop {
            let rows = hour::page(tx, hours, Some(key), after.as_ref(), ROWS).await?;
            let Some(last) = rows.last() else { break };
            after = Some(HourCursor::after(last)?);
            for hour in rows {
                let period = hour.record.hour.period();
                let covers = |(of, span): &&(AssignmentRow, Period)| {
                    of.assignment.slot == hour.slot && !period.intersect(*span).is_empty()
                };
                if period.start >= window.start && of_node.iter().any(covers) {
                    found.add(node, &hour, zone);
                }
            }
        }
    }
    found.gpus.sort_by(|a, b| (&a.node.name, a.number).cmp(&(&b.node.name, b.number)));
    Ok((found.gpus, found.gaps))
}

struct Found {
    gpus: Vec<GpuDays>,
    gaps: Vec<(GapCause, i64)>,
}

impl Found {
    fn add(&mut self, node: &NodeRow, row: &HourRow, zone: Zone) {
        let record = &row.record;
        let sum = record.sum();
        let (id, start) = (node.id.to_string(), record.hour.start());
        let place = self.gpus.iter().position(|gpu| gpu.node.id == id && gpu.number == row.slot.0);
        let place = place.unwrap_or_else(|| {
            self.gpus.push(GpuDays {
                node: NodeName { id, name: node.name.clone(), origin: node.origin },
                number: row.slot.0,
                uuids: Vec::new(),
                days: Vec::new(),
            });
            self.gpus.len() - 1
        });
        let Some(gpu) = self.gpus.get_mut(place) else { return };
        let uuid = record.gpu.as_str();
        if !gpu.uuids.iter().any(|known| known == uuid) {
            gpu.uuids.push(uuid.to_owned());
        }
        let starts_at = zone.day(start).map_or(start, |day| day.start);
        if gpu.days.last().is_none_or(|day| day.starts_at != starts_at) {
            gpu.days.push(DayUse { starts_at, ..DayUse::default() });
        }
        if let Some(day) = gpu.days.last_mut() {
            day.enrolled_ms += sum.enrolled_ms;
            day.measured_ms += sum.measured_ms();
            day.busy_pct_ms += sum.histogram.busy_pct_ms();
        }
        for (cause, ms) in &mut self.gaps {
            *ms += sum.gaps.ms(*cause);
        }
    }
}
