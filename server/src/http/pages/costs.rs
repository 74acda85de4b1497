//! Where the money goes: a month of leases, by what their time was used for.

mod gather;
mod hints;

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use leasewatch_core::cost::{Amounts, Billable, per_hour, what_if};
use leasewatch_core::metering::Ppm;
use leasewatch_core::money::{Currency, Money, MoneyError};
use leasewatch_core::time::{Period, Timestamp};
use leasewatch_web::context::Context;
use leasewatch_web::csv::{self, CostRow};
use leasewatch_web::format::iso_date;
use leasewatch_web::pages::costs::{CostLine, CostsView, render};
use leasewatch_web::pages::reliability::StragglerView;
use leasewatch_web::path::{CostGroup, Route, month_text};

use super::reliability;
use super::spent::Asked;
use crate::http::Http;
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::visit::Visit;
use crate::store::contracted::{self, ContractedLease};
use crate::store::{StoreError, Tx};
use gather::{DayCost, Gathered};

pub(in crate::http) async fn html(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(Route::Costs)?;
        let view = read(&http, &asker, &context).await?.view(&context)?;
        Ok::<_, Fault>(render(&view, &context)?)
    };
    match answer.await {
        Ok(page) => Html(page).into_response(),
        Err(fault) => fault.page(&visit.at(Route::Costs)),
    }
}

pub(in crate::http) async fn json(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(Route::Costs)?;
        read(&http, &asker, &context).await?.view(&context)
    };
    match answer.await {
        Ok(view) => Json(view).into_response(),
        Err(fault) => fault.problem(),
    }
}

pub(in crate::http) async fn download(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(Route::Costs)?;
        read(&http, &asker, &context).await?.csv(&context)
    };
    match answer.await {
        Ok(text) => {
            let name = "attachment; filename=\"costs.csv\"";
            let headers =
                [(header::CONTENT_TYPE, csv::CONTENT_TYPE), (header::CONTENT_DISPOSITION, name)];
            (headers, text).into_response()
        }
        Err(fault) => fault.page(&visit.at(Route::Costs)),
    }
}

/// Adds what an hour of every lease in sight costs at `now`, in each currency.
pub(in crate::http) async fn running(
    tx: &mut Tx,
    now: Timestamp,
    sums: &mut Amounts,
) -> Result<(), StoreError> {
    let leases = contracted::list(tx).await?;
    add_running(leases.iter().map(|(_, lease)| lease), now, sums);
    Ok(())
}

fn add_running<'a>(
    leases: impl Iterator<Item = &'a ContractedLease>,
    now: Timestamp,
    sums: &mut Amounts,
) {
    for lease in leases {
        // A moment later, so that what still runs is billed at `now`.
        let until = now.plus_ms(1);
        let billable = Billable { terms: &lease.terms, sessions: &lease.sessions, until };
        let hour = billable.charges().map(|charges| charges.per_hour_at(now));
        let added = hour.and_then(|hour| if hour.nanos == 0 { Ok(()) } else { sums.add(hour) });
        if let Err(error) = added {
            tracing::warn!(lease.id = %lease.terms.name, %error, "a running cost is left out");
        }
    }
}

/// What was read for a page.
struct Read {
    leases: Vec<Gathered>,
    running: Amounts,
    month: (i32, u32),
}

async fn read(http: &Http, asker: &Asker, context: &Context) -> Result<Read, Fault> {
    let month = month(context)?;
    let bad = || Fault::BadRequest("month".to_owned());
    let whole = context.zone.month(month.0, month.1).ok_or_else(bad)?;
    let window = Period::new(whole.start, whole.end.min(context.now).max(whole.start));
    let (mut leases, mut running) = (Vec::new(), Amounts::default());
    let asked = Asked { window, zone: context.zone };
    for scope in asker.scopes() {
        let mut tx = http.db.begin(scope).await?;
        let found = contracted::list(&mut tx).await?;
        add_running(found.iter().map(|(_, lease)| lease), context.now, &mut running);
        for lease in found {
            leases.push(gather::gather(&mut tx, lease, asked).await?);
        }
        tx.commit().await?;
    }
    Ok(Read { leases, running, month })
}

fn month(context: &Context) -> Result<(i32, u32), Fault> {
    let local = || context.zone.local(context.now).map(|local| (local.year, local.month));
    let chosen = context.here.state.costs.month.or_else(local);
    chosen.ok_or_else(|| Fault::BadRequest("month".to_owned()))
}

fn out_of_range(error: MoneyError) -> Fault {
    tracing::warn!(%error, "a cost is out of range");
    Fault::BadRequest("month".to_owned())
}

impl Read {
    fn view(&self, context: &Context) -> Result<CostsView, Fault> {
        let state = &context.here.state.costs;
        let (mut groups, mut totals) = (BTreeMap::new(), BTreeMap::new());
        for lease in &self.leases {
            for day in &lease.days {
                let name = group_name(&state.group, lease, day, context);
                let currency = lease.lease.terms.currency;
                for (sums, name) in [(&mut groups, name), (&mut totals, String::new())] {
                    let sum: &mut DayCost = sums
                        .entry((name, currency))
                        .or_insert_with(|| DayCost::empty(day.day, currency));
                    sum.merge(day).map_err(out_of_range)?;
                }
            }
        }
        let lines = |sums: BTreeMap<(String, Currency), DayCost>| {
            let line = |((name, _), sum): ((String, Currency), DayCost)| {
                cost_line(&name, &sum, state.what_if_pct).map_err(out_of_range)
            };
            sums.into_iter().map(line).collect::<Result<Vec<_>, Fault>>()
        };
        let labels = self.leases.iter().flat_map(|lease| lease.lease.terms.labels.keys());
        let mut labels: Vec<String> = labels.map(|label| label.as_str().to_owned()).collect();
        labels.sort_unstable();
        labels.dedup();
        let slow = self.leases.iter().flat_map(|lease| lease.slow.stragglers.iter().cloned());
        Ok(CostsView {
            month: month_text(self.month),
            beside: beside(self.month),
            group: state.group.name(),
            what_if_pct: state.what_if_pct,
            totals: lines(totals)?,
            lines: lines(groups)?,
            running: self.running.iter().collect(),
            leases: i64::try_from(self.leases.len()).unwrap_or(i64::MAX),
            has_minutes: self.leases.iter().all(|lease| lease.has_minutes),
            slow: StragglerView {
                compared_hours: self.leases.iter().map(|lease| lease.slow.compared_hours).sum(),
                stragglers: slow.collect(),
            },
            hints: self.leases.iter().flat_map(|lease| lease.hints.iter().cloned()).collect(),
            labels,
        })
    }

    fn csv(&self, context: &Context) -> Result<String, Fault> {
        let mut lines = Vec::new();
        for lease in &self.leases {
            for day in &lease.days {
                let line = cost_line("", day, None).map_err(out_of_range)?;
                lines.push((lease, iso_date(day.day.start, context.zone), line));
            }
        }
        let rows: Vec<_> = lines
            .iter()
            .map(|(lease, day, line)| CostRow {
                tenant: lease.tenant_slug.as_str(),
                provider: lease.lease.terms.provider.as_str(),
                lease: lease.lease.terms.name.as_str(),
                model: &lease.lease.terms.gpu_model,
                day,
                line,
            })
            .collect();
        Ok(csv::costs(&rows))
    }
}

fn group_name(group: &CostGroup, lease: &Gathered, day: &DayCost, context: &Context) -> String {
    let terms = &lease.lease.terms;
    match group {
        CostGroup::Lease => terms.name.to_string(),
        CostGroup::Tenant => lease.tenant_slug.to_string(),
        CostGroup::Model => terms.gpu_model.clone(),
        CostGroup::Day => iso_date(day.day.start, context.zone),
        CostGroup::Label(wanted) => {
            let mut labels = terms.labels.iter();
            let found = labels.find(|(name, _)| name.as_str() == wanted);
            found.map_or_else(String::new, |(_, value)| value.as_str().to_owned())
        }
    }
}

fn beside((year, month): (i32, u32)) -> ((i32, u32), (i32, u32)) {
    let before = if month == 1 { (year - 1, 12) } else { (year, month - 1) };
    let after = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    (before, after)
}

fn cost_line(name: &str, sum: &DayCost, pct: Option<u8>) -> Result<CostLine, MoneyError> {
    let mut line = CostLine::empty(name, sum.paid.currency);
    let used = sum.spread.nanos;
    line.origin = sum.origin;
    line.paid = sum.paid;
    line.fees = sum.fees;
    line.uncontracted = Money { nanos: sum.gpus.nanos - used, ..sum.gpus };
    line.unpriced_ms = sum.unpriced_ms;
    line.contracted_ms = sum.measures.contracted_ms;
    for (cell, cost) in line.parts.iter_mut().zip(&sum.costs) {
        cell.pct_ms = sum.measures.parts.of(cell.part);
        cell.cost = *cost;
    }
    line.phantom_pct_ms = sum.measures.phantom_pct_ms;
    line.stall_ms = sum.measures.stall_ms;
    line.throttled_ms = sum.measures.attributable_ms;
    line.rate = reliability::cell(&sum.interruptions, sum.node_ms, &sum.measures);
    line.delivered_pct_ms = sum.measures.delivered_pct_ms;
    line.per_delivered = per_hour(sum.gpus, sum.measures.delivered_pct_ms)?;
    line.per_effective = per_hour(sum.gpus, sum.measures.useful_pct_ms())?;
    if let Some(pct) = pct {
        let asked = what_if(&sum.measures, sum.spread, Ppm(i64::from(pct) * 10_000))?;
        line.saved = asked.map(|answer| answer.saved);
    }
    Ok(line)
}
