//! One node: what it is, how agent and clock are, a week of hours, what happened.

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::response::{Html, IntoResponse, Redirect, Response};
use leasewatch_core::delivery::{NodeState, UnknownReason};
use leasewatch_core::id::{GpuUuid, Hash, NodeId};
use leasewatch_core::lease::Label;
use leasewatch_core::segment::{Event, EventKind};
use leasewatch_core::time::{Period, Timestamp};
use leasewatch_web::context::Context;
use leasewatch_web::format::Datum;
use leasewatch_web::names::Standing;
use leasewatch_web::pages::node::{
    AgentHealth, ChainBegun, HostFacts, KeyStatement, NodeGpu, NodeView, render,
};
use leasewatch_web::path::{self, Route};

use super::gpus::{self, NodeNow};
use crate::enrollment;
use crate::http::Http;
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::form::Fields;
use crate::http::visit::Visit;
use crate::store::chain::{self, StartRow};
use crate::store::identity_statement::{self, StatementRow};
use crate::store::user::Role;
use crate::store::{Tx, event, node_label, segment, tenant};

/// Events on the page.
const EVENTS: usize = 100;
/// Events of wiring among which the latest of each GPU is looked for.
const WIRED: u32 = 512;
/// Starts of chains on the page.
const CHAIN_STARTS: u32 = 100;
/// Events that are counted; beyond it the page says at least how many are left out.
const EVENTS_COUNTED: u32 = 5_000;

pub(in crate::http) async fn html(
    State(http): State<Http>,
    Path(id): Path<String>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(Route::Node(id.clone()))?;
        Ok::<_, Fault>(render(&view(&http, &asker, &id, &context).await?, &context)?)
    };
    match answer.await {
        Ok(page) => Html(page).into_response(),
        Err(fault) => fault.page(&visit.at(Route::Node(id))),
    }
}

pub(in crate::http) async fn json(
    State(http): State<Http>,
    Path(id): Path<String>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(Route::Node(id.clone()))?;
        view(&http, &asker, &id, &context).await
    };
    match answer.await {
        Ok(view) => Json(view).into_response(),
        Err(fault) => fault.problem(),
    }
}

pub(in crate::http) async fn revoke(
    State(http): State<Http>,
    Path(id): Path<String>,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let route = Route::Node(id.clone());
    let answer = async {
        Fields::read(request, &[]).await?;
        let node: NodeId = id.parse().map_err(|_| Fault::NotFound)?;
        let (tx, row) = asker.node(&http, node).await?;
        tx.commit().await?;
        if !asker.may(&row.tenant, Role::Admin) {
            return Err(Fault::Forbidden);
        }
        let by = asker.row().map_or("a page", |user| user.name.as_str());
        let now = http.clock.now();
        enrollment::revoke(&http.db, &http.issuer.identity, (node, by), now).await?;
        Ok(Redirect::to(&visit.at(route.clone()).here.href()).into_response())
    };
    answer.await.unwrap_or_else(|fault: Fault| fault.page(&visit.at(Route::Node(id.clone()))))
}

async fn view(http: &Http, asker: &Asker, id: &str, context: &Context) -> Result<NodeView, Fault> {
    let id: NodeId = id.parse().map_err(|_| Fault::NotFound)?;
    let now = context.now;
    let (mut tx, row) = asker.node(http, id).await?;
    // A record that ended is shown from its last week; "the last seven days" of it are empty.
    let latest = row.retired_at.map_or(now, |end| end.plus_ms(-1));
    let chosen = context.here.state.week.as_deref();
    let week = path::week(chosen, context.zone, latest)
        .ok_or_else(|| Fault::BadRequest("week".to_owned()))?;
    let node = NodeNow::of(http, row);
    let hours = (week.start.hour(), week.end.plus_ms(-1).hour().next());
    let gpus = gpus::of_node(&mut tx, http, &node, hours, now).await?;
    let (events, events_left_out) = events(&mut tx, &node, week).await?;
    let chain_starts = chain::starts(&mut tx, node.row.key, week, CHAIN_STARTS).await?;
    let record_breaks = chain::breaks(&mut tx, node.row.key).await?;
    let tenants = tenant::list(&mut tx).await?.len();
    let host = event::last_of_kind(&mut tx, node.row.key, "host_seen").await?;
    let wiring = wiring(&mut tx, &node, &gpus).await?;
    let agent = agent(&mut tx, &node).await?;
    let labels = node_label::of_node(&mut tx, node.row.key).await?;
    let label =
        |(name, value): (Label, Label)| (name.as_str().to_owned(), value.as_str().to_owned());
    let statements = identity_statement::of_node(&mut tx, node.row.key).await?;
    tx.commit().await?;
    let status = node.status(now);
    let is_revoked = status.standing == Standing::Live(NodeState::Unknown(UnknownReason::Revoked));
    Ok(NodeView {
        name: node.name(),
        status,
        may_revoke: !is_revoked && asker.may(&node.row.tenant, Role::Admin),
        labels: labels.into_iter().map(label).collect(),
        tenant: (tenants > 1).then(|| node.row.tenant.to_string()),
        provider: node.row.provider.to_string(),
        enrolled_at: node.row.enrolled_at,
        ended_at: node.row.retired_at,
        host: host.and_then(|row| host_facts(row.event)),
        wiring,
        agent,
        gpus: gpus.into_iter().map(|gpu| NodeGpu { row: gpu.row, hours: gpu.cells }).collect(),
        week,
        events,
        events_left_out,
        chain_starts: chain_starts.into_iter().map(chain_begun).collect(),
        record_breaks: record_breaks.into(),
        statements: statements.into_iter().map(key_statement).collect(),
    })
}

fn key_statement(row: StatementRow) -> KeyStatement {
    KeyStatement {
        kind: row.kind,
        at: row.at,
        statement: String::from_utf8_lossy(&row.signed.statement).into_owned(),
        signature: row.signed.signature.iter().map(|byte| format!("{byte:02x}")).collect(),
        signer: Hash(row.signer).to_string(),
    }
}

fn chain_begun(row: StartRow) -> ChainBegun {
    // A canonical statement is JSON, and that is UTF-8.
    let statement = String::from_utf8_lossy(&row.statement).into_owned();
    let signature = row.signature.iter().map(|byte| format!("{byte:02x}")).collect();
    ChainBegun { start: row.start, statement, signature }
}

/// The latest events of the week, newest first, and how many more it has.
async fn events(tx: &mut Tx, node: &NodeNow, week: Period) -> Result<(Vec<Event>, i64), Fault> {
    let rows = event::before(tx, node.row.key, week.end, EVENTS_COUNTED).await?;
    let mut inside: Vec<Event> =
        rows.into_iter().map(|row| row.event).filter(|event| event.at >= week.start).collect();
    inside.reverse();
    let left_out = inside.len().saturating_sub(EVENTS);
    inside.truncate(EVENTS);
    Ok((inside, i64::try_from(left_out).unwrap_or(i64::MAX)))
}

/// The disk below the working directory, and the latest wiring of each GPU.
async fn wiring(tx: &mut Tx, node: &NodeNow, gpus: &[gpus::GpuHours]) -> Result<Vec<Event>, Fault> {
    let uuids: Vec<GpuUuid> =
        gpus.iter().filter_map(|gpu| GpuUuid::new(&gpu.row.uuid).ok()).collect();
    let disk = event::last_of_kind(tx, node.row.key, "disk_seen").await?;
    let wired = (&["gpu_wired"][..], &uuids[..]);
    let told = event::before_of_gpus(tx, node.row.key, Timestamp::MAX, wired, WIRED).await?;
    let mut events: Vec<Event> = disk.into_iter().map(|row| row.event).collect();
    for uuid in uuids {
        let mine = told.iter().rev().find(|row| row.event.gpu.as_ref() == Some(&uuid));
        events.extend(mine.map(|row| row.event.clone()));
    }
    Ok(events)
}

async fn agent(tx: &mut Tx, node: &NodeNow) -> Result<AgentHealth, Fault> {
    let last = segment::head_before(tx, node.row.key, Timestamp::MAX).await?;
    let started = event::last_of_kind(tx, node.row.key, "agent_started").await?;
    let snapshot = node.snapshot.as_ref();
    let clock = snapshot.and_then(|snapshot| snapshot.clock);
    let said = last.as_ref().map(|row| row.head.agent_version.clone());
    let recorded = last.as_ref().map(|row| row.head.period.end);
    let spoke = snapshot.and_then(|snapshot| snapshot.frame.as_ref()).map(|frame| frame.at);
    let backlog = spoke.zip(recorded).map(|(spoke, recorded)| spoke.since(recorded).max(0));
    Ok(AgentHealth {
        version: snapshot.and_then(|snapshot| snapshot.agent_version.clone()).or(said),
        started_at: started.map(|row| row.event.at),
        // The estimate is server minus node; people ask how far the node is ahead.
        clock_offset_us: Datum::from(clock.map(|clock| clock.offset_ms.saturating_mul(-1_000))),
        clock_bound_us: Datum::from(clock.map(|clock| clock.bound_ms.saturating_mul(1_000))),
        backlog_ms: Datum::from(backlog),
        cadence_ms: Datum::from(last.map(|row| i64::from(row.head.cadence_ms))),
    })
}

fn host_facts(event: Event) -> Option<HostFacts> {
    let EventKind::HostSeen(host) = event.kind else { return None };
    Some(HostFacts {
        hostname: host.hostname,
        kernel: host.kernel,
        cpus: host.cpus,
        memory_mib: host.memory_mib,
        driver_version: host.driver_version,
        cuda_version: host.cuda_version,
        container: host.container,
    })
}
