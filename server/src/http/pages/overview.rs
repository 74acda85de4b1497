//! The overview: is anything wrong, and what does the fleet do now?

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use axum::response::{Html, IntoResponse, Response};
use leasewatch_core::cost::Amounts;
use leasewatch_core::segment::EventKind;
use leasewatch_core::sla::claim::Urgency;
use leasewatch_core::time::{DAY_MS, HOUR_MS, Period, Timestamp};
use leasewatch_web::format::{Datum, Measured};
use leasewatch_web::names::Standing;
use leasewatch_web::pages::overview::{
    Attention, FleetTotals, NodeLane, OverviewView, ProviderLane, Setup, Subject, TenantLane,
    render,
};
use leasewatch_web::path::Route;

use super::costs;
use super::gpus::{self, GpuHours, NodeNow};
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::visit::Visit;
use crate::http::{Http, deadlines};
use crate::store::{StoreError, Tx, event, node};

/// The latest XIDs of a node that are counted; a storm shows at least as many.
const EVENTS: u32 = 1_000;
/// Below this coverage of the last 24 hours a node asks for attention, in percent.
const LOW_COVERAGE_PCT: i64 = 80;

pub(in crate::http) async fn html(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(Route::Overview)?;
        Ok::<_, Fault>(render(&view(&http, &asker, context.now).await?, &context)?)
    };
    match answer.await {
        Ok(page) => Html(page).into_response(),
        Err(fault) => fault.page(&visit.at(Route::Overview)),
    }
}

pub(in crate::http) async fn json(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(Route::Overview)?;
        Ok::<_, Fault>(view(&http, &asker, context.now).await?)
    };
    match answer.await {
        Ok(view) => Json(view).into_response(),
        Err(fault) => fault.problem(),
    }
}

/// Nodes by tenant and provider.
type Lanes = BTreeMap<String, BTreeMap<String, Vec<NodeLane>>>;

/// Builds the view of what somebody may see at `now`.
pub(in crate::http) async fn view(
    http: &Http,
    asker: &Asker,
    now: Timestamp,
) -> Result<OverviewView, StoreError> {
    let mut lanes = Lanes::new();
    let mut attention = Vec::new();
    let mut fleet = Sums::default();
    let mut running = Amounts::default();
    let mut due = Vec::new();
    for scope in asker.scopes() {
        let mut tx = http.db.begin(scope).await?;
        costs::running(&mut tx, now, &mut running).await?;
        due.extend(deadlines::of_scope(&mut tx, now).await?);
        for row in node::list(&mut tx).await? {
            let node = NodeNow::of(http, row);
            let day = gpus::strip_hours(now);
            let mut gpus = gpus::of_node(&mut tx, http, &node, day, now).await?;
            // Everything here counts whole GPUs: a slice's time is that of its GPU.
            gpus.retain(|gpu| gpu.row.partition.is_none());
            fleet.add(&node, &gpus);
            attend(&mut tx, &node, &gpus, now, &mut attention).await?;
            let providers = lanes.entry(node.row.tenant.to_string()).or_default();
            providers.entry(node.row.provider.to_string()).or_default().push(NodeLane {
                name: node.name(),
                status: node.status(now),
                gpus: gpus.into_iter().map(|gpu| gpu.row).collect(),
            });
        }
        tx.commit().await?;
    }
    attention.sort_by_key(urgency);
    due.retain(|line| line.urgency != Urgency::Later);
    due.sort_by_key(|line| line.at);
    let providers = |providers: BTreeMap<String, Vec<NodeLane>>| {
        providers.into_iter().map(|(provider, nodes)| ProviderLane { provider, nodes }).collect()
    };
    let tenants = lanes.into_iter();
    Ok(OverviewView {
        totals: fleet.totals(),
        attention,
        deadlines: due,
        tenants: tenants
            .map(|(tenant, p)| TenantLane { tenant, providers: providers(p) })
            .collect(),
        running: running.iter().collect(),
        setup: setup(http),
    })
}

fn setup(http: &Http) -> Setup {
    let address = &http.address;
    Setup {
        agent_command: format!("leasewatch-agent run --server {address} --name my-node"),
        import_command: format!(
            "leasewatch-server import nvidia-smi FILE --node my-node --server {address}"
        ),
    }
}

#[derive(Default)]
struct Sums {
    nodes_up: i64,
    nodes_expected: i64,
    gpus_live: i64,
    gpus_expected: i64,
    busy_pct: i64,
    busy_count: i64,
    power_mw: Option<i64>,
    day: Measured,
}

impl Sums {
    fn add(&mut self, node: &NodeNow, gpus: &[GpuHours]) {
        for gpu in gpus {
            self.day = self.day.plus(gpu.row.day);
        }
        let Standing::Live(state) = node.standing else { return };
        self.nodes_expected += 1;
        self.nodes_up += i64::from(state == leasewatch_core::delivery::NodeState::Up);
        for GpuHours { row, .. } in gpus {
            self.gpus_expected += 1;
            if let Some(busy) = row.live.busy_pct.number() {
                self.busy_pct += busy;
                self.busy_count += 1;
            }
            if let Some(power) = row.live.power_draw_mw.number() {
                self.power_mw = Some(self.power_mw.unwrap_or(0) + power);
            }
            let any = [row.live.busy_pct, row.live.power_draw_mw, row.live.temperature_c];
            self.gpus_live += i64::from(any.iter().any(|value| value.number().is_some()));
        }
    }

    fn totals(&self) -> FleetTotals {
        let mean = (self.busy_count > 0).then(|| {
            leasewatch_core::metering::divide_half_even(
                self.busy_pct.into(),
                self.busy_count.into(),
            )
        });
        FleetTotals {
            gpus_live: self.gpus_live,
            gpus_expected: self.gpus_expected,
            nodes_up: self.nodes_up,
            nodes_expected: self.nodes_expected,
            busy_now_pct: Datum::from(mean.and_then(|mean| i64::try_from(mean).ok())),
            power_now_mw: Datum::from(self.power_mw),
            day: self.day,
        }
    }
}

async fn attend(
    tx: &mut Tx,
    node: &NodeNow,
    gpus: &[GpuHours],
    now: Timestamp,
    list: &mut Vec<Attention>,
) -> Result<(), StoreError> {
    let Standing::Live(state) = node.standing else { return Ok(()) };
    let mut push = |gpu: Option<u16>, at: Option<Timestamp>, subject: Subject| {
        list.push(Attention { node: node.name(), gpu, at, subject });
    };
    if let leasewatch_core::delivery::NodeState::Unknown(_) = state {
        let at = node.status(now).last_heard_at;
        push(None, at, Subject::NodeUnknown { standing: node.standing });
    }
    for gpu in gpus {
        if gpu.row.lost {
            push(Some(gpu.row.number), None, Subject::GpuLost);
        }
        if gpu.row.stalled {
            push(Some(gpu.row.number), None, Subject::CollectorStalled);
        }
    }
    let day = gpus.iter().fold(Measured::default(), |sum, gpu| sum.plus(gpu.row.day));
    let enough = day.enrolled_ms > HOUR_MS;
    if enough && day.measured_ms < day.enrolled_ms / 100 * LOW_COVERAGE_PCT {
        push(None, None, Subject::LowCoverage { day });
    }
    let period = Period::new(now.plus_ms(-DAY_MS), now);
    let mut xids: BTreeMap<(Option<u16>, i64), (i64, Timestamp)> = BTreeMap::new();
    let rows = event::before_of_kinds(tx, node.row.key, period.end, &["xid"], EVENTS).await?;
    for row in rows.into_iter().filter(|row| period.contains(row.event.at)) {
        if let EventKind::Xid { code } = row.event.kind {
            let uuid = row.event.gpu.map(|gpu| gpu.to_string());
            let number = gpus.iter().find(|gpu| Some(&gpu.row.uuid) == uuid.as_ref());
            let entry = xids.entry((number.map(|gpu| gpu.row.number), code));
            let (count, last) = entry.or_insert((0, row.event.at));
            (*count, *last) = (*count + 1, (*last).max(row.event.at));
        }
    }
    for ((gpu, code), (count, last)) in xids {
        push(gpu, Some(last), Subject::Xid { code, count });
    }
    Ok(())
}

fn urgency(attention: &Attention) -> u8 {
    match attention.subject {
        Subject::GpuLost => 0,
        Subject::NodeUnknown { .. } => 1,
        Subject::CollectorStalled => 2,
        Subject::Xid { .. } => 3,
        Subject::LowCoverage { .. } => 4,
    }
}
