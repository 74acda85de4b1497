//! One GPU over a range, from seconds to two years: its page, the same as JSON, and its series as
//! CSV.
//!
//! A short range is drawn from single readings, a longer one from minutes, a long one from hours;
//! where the finer ones are not kept, from the next. Each part makes a [`trace::Trace`] on the
//! same grid. A request reads bounded pages: the readings of seven hours, or two years of rows of
//! one slot, a month at a time.

mod cells;
mod limits;
mod plan;
mod readings;
mod trace;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::header;
use axum::response::{Html, IntoResponse, Response};
use leasewatch_core::cost::straggler::clock_drift;
use leasewatch_core::id::{GpuUuid, NodeId, SlotNo};
use leasewatch_core::segment::{Event, EventKind};
use leasewatch_core::time::{DAY_MS, Period, Timestamp};
use leasewatch_web::context::Context;
use leasewatch_web::csv;
use leasewatch_web::pages::gpu::{ClockView, Detail, GpuView, render};
use leasewatch_web::path::Route;
use serde::Deserialize;

use self::limits::Known;
use self::plan::Plan;
use self::trace::Trace;
use super::gpus::{self, NodeNow};
use crate::http::Http;
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::visit::Visit;
use crate::store::gpu::{self, GpuRow};
use crate::store::node::NodeRow;
use crate::store::slot::{self, SlotRow};
use crate::store::{StoreError, Tx, event, hour, segment, tenant};

/// The days that a GPU's clock is compared with, and the one that is compared.
const CLOCK_DAYS: i64 = 31;
/// Events on the page.
const EVENTS: usize = 100;
/// Events that are looked at; beyond it the page says at least how many are left out.
const EVENTS_COUNTED: u32 = 5_000;

/// The node and the slot of the path.
type At = Path<(String, String)>;

pub(in crate::http) async fn html(
    State(http): State<Http>,
    at: At,
    visit: Visit,
    asker: Asker,
) -> Response {
    let route = route(&at);
    let answer = async {
        let context = visit.checked(route.clone())?;
        Ok::<_, Fault>(render(&view(&http, &asker, &at, &context).await?, &context)?)
    };
    match answer.await {
        Ok(page) => Html(page).into_response(),
        Err(fault) => fault.page(&visit.at(route)),
    }
}

pub(in crate::http) async fn json(
    State(http): State<Http>,
    at: At,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(route(&at))?;
        view(&http, &asker, &at, &context).await
    };
    match answer.await {
        Ok(view) => Json(view).into_response(),
        Err(fault) => fault.problem(),
    }
}

pub(in crate::http) async fn readings_csv(
    State(http): State<Http>,
    at: At,
    visit: Visit,
    asker: Asker,
    Query(form): Query<Form>,
) -> Response {
    let route = route(&at);
    let answer = async {
        let context = visit.checked(route.clone())?;
        view(&http, &asker, &at, &context).await
    };
    match answer.await {
        Ok(view) => {
            let day = view.range.start.to_string();
            let day = day.get(..10).unwrap_or_default();
            let name = format!("attachment; filename=\"readings-{}-{day}.csv\"", view.gpu.number);
            let headers = [
                (header::CONTENT_TYPE, csv::CONTENT_TYPE.to_owned()),
                (header::CONTENT_DISPOSITION, name),
            ];
            let mut text = String::new();
            if form.bom.as_deref() == Some("1") {
                text.push_str(csv::BOM);
            }
            csv::readings(&mut text, &view);
            (headers, text).into_response()
        }
        Err(fault) => fault.page(&visit.at(route)),
    }
}

/// How the file is written; `bom=1` is for spreadsheets.
#[derive(Debug, Deserialize)]
pub(in crate::http) struct Form {
    bom: Option<String>,
}

/// A slot that is no number is some other path.
fn route(Path((node, slot)): &At) -> Route {
    match slot.parse() {
        Ok(slot) => Route::Gpu { node: node.clone(), slot },
        Err(_) => Route::Other(format!("/nodes/{node}/gpus/{slot}")),
    }
}

async fn view(http: &Http, asker: &Asker, at: &At, context: &Context) -> Result<GpuView, Fault> {
    let Path((id, number)) = at;
    let id: NodeId = id.parse().map_err(|_| Fault::NotFound)?;
    let number = SlotNo(number.parse().map_err(|_| Fault::NotFound)?);
    let now = context.now;
    let (mut tx, row) = asker.node(http, id).await?;
    let node = NodeNow::of(http, row);
    let gpus = gpus::of_node(&mut tx, http, &node, gpus::strip_hours(now), now).await?;
    let gpu = gpus.into_iter().find(|gpu| gpu.row.number == number.0).ok_or(Fault::NotFound)?;
    let sat_here = Sat::of(&mut tx, &node.row, number).await?.ok_or(Fault::NotFound)?;
    // A record that ended is shown up to its end.
    let latest = node.row.retired_at.map_or(now, |end| end.min(now));
    let period = context.here.state.range.period(context.zone, latest);
    let period = period.map_err(|error| Fault::BadRequest(error.text(context.language)))?;
    let trace = draw(&mut tx, &node.row, &sat_here.slot, (period, latest), now).await?;
    let range = trace.plan.range;
    let (events, events_left_out) = sat_here.events(&mut tx, &node.row, &trace).await?;
    let block = segment::last_block(&mut tx, node.row.key, number, range.end).await?;
    let tenants = tenant::list(&mut tx).await?.len();
    let clock = sat_here.clock(&mut tx, &node.row, latest).await?;
    tx.commit().await?;
    let known = sat_here.present().map(|row| Known::of(row, block.as_ref()));
    let series = trace.series();
    let (gaps, gap_shares) = trace.gaps();
    Ok(GpuView {
        name: node.name(),
        status: node.status(now),
        gpu: gpu.row,
        tenant: (tenants > 1).then(|| node.row.tenant.to_string()),
        provider: node.row.provider.to_string(),
        enrolled_at: node.row.enrolled_at,
        ended_at: node.row.retired_at,
        range,
        detail: trace.plan.detail,
        bucket_ms: trace.plan.bucket_ms,
        sums: trace.is_whole.then_some(trace.sums),
        clock,
        gaps,
        gap_shares,
        lanes: trace.lanes(),
        limits: known.as_ref().map(Known::limits).unwrap_or_default(),
        masked: known.as_ref().map(|known| known.masked(&series)).unwrap_or_default(),
        series,
        events,
        events_left_out,
    })
}

/// The finest drawing that is kept.
async fn draw(
    tx: &mut Tx,
    node: &NodeRow,
    slot: &SlotRow,
    (period, latest): (Period, Timestamp),
    now: Timestamp,
) -> Result<Trace, StoreError> {
    let detail = Plan::detail_of(period);
    if detail == Detail::Readings {
        let plan = Plan::of(period, detail, latest);
        if let Some(trace) = readings::draw(tx, node, slot.slot, plan, now).await? {
            return Ok(trace);
        }
    }
    if detail != Detail::Hours {
        let plan = Plan::of(period, Detail::Minutes, latest);
        if let Some(trace) = cells::draw(tx, node, slot, plan, now).await? {
            return Ok(trace);
        }
    }
    let plan = Plan::of(period, Detail::Hours, latest);
    let hours = cells::draw(tx, node, slot, plan, now).await?;
    Ok(hours.unwrap_or_else(|| Trace::new(plan)))
}

/// A slot and the GPUs that were seen there last.
struct Sat {
    slot: SlotRow,
    /// The latest first.
    gpus: Vec<GpuRow>,
}

impl Sat {
    async fn of(tx: &mut Tx, node: &NodeRow, number: SlotNo) -> Result<Option<Self>, StoreError> {
        let slots = slot::of_node(tx, node.key).await?;
        let Some(slot) = slots.into_iter().find(|row| row.slot == number) else { return Ok(None) };
        let mut gpus = gpu::of_node(tx, node.key).await?;
        gpus.retain(|row| row.slot == number);
        Ok(Some(Self { slot, gpus }))
    }

    fn present(&self) -> Option<&GpuRow> {
        self.gpus.first()
    }

    /// The clock under load of the GPU that sits there, beside its own past. A slice has none.
    async fn clock(
        &self,
        tx: &mut Tx,
        node: &NodeRow,
        latest: Timestamp,
    ) -> Result<Option<ClockView>, StoreError> {
        let Some(gpu) = self.present().filter(|row| row.partition.is_none()) else {
            return Ok(None);
        };
        let hours = (latest.plus_ms(-CLOCK_DAYS * DAY_MS).hour(), latest.hour());
        let of = (self.slot.slot, &gpu.uuid);
        let clocks = hour::load_clocks(tx, node.key, of, hours).await?;
        Ok(Some(match clock_drift(&clocks) {
            Ok(drift) => ClockView::Known {
                hour: drift.hour.start(),
                clock_mhz: drift.clock_mhz,
                past_mhz: drift.past_mhz,
                past_hours: drift.past_hours,
                ratio_ppm: drift.ratio.0,
            },
            Err(past_hours) => ClockView::TooLittle { past_hours },
        }))
    }

    /// Events of the node and of this slot's GPUs in the range, latest first, and how many more
    /// there are.
    async fn events(
        &self,
        tx: &mut Tx,
        node: &NodeRow,
        trace: &Trace,
    ) -> Result<(Vec<Event>, i64), StoreError> {
        let range = trace.plan.range;
        let rows = event::before(tx, node.key, range.end, EVENTS_COUNTED).await?;
        let events = rows.into_iter().map(|row| row.event).filter(|event| event.at >= range.start);
        let mut events: Vec<Event> = events.filter(|event| self.concerns(event, trace)).collect();
        events.reverse();
        let left_out = events.len().saturating_sub(EVENTS);
        events.truncate(EVENTS);
        Ok((events, i64::try_from(left_out).unwrap_or(i64::MAX)))
    }

    fn concerns(&self, event: &Event, trace: &Trace) -> bool {
        let sat_here = |uuid: &GpuUuid| {
            let is_it = |row: &GpuRow| {
                row.uuid == *uuid || row.partition.as_ref().is_some_and(|p| p.parent == *uuid)
            };
            self.gpus.iter().any(is_it) || trace.gpus.contains(uuid)
        };
        match &event.kind {
            EventKind::GpuReplaced { bus_id, .. } | EventKind::GpuMissing { bus_id } => {
                *bus_id == self.slot.place.bus_id
            }
            _ => event.gpu.as_ref().is_none_or(sat_here),
        }
    }
}
