//! One token: who joined with it and what their agents found, and when to look again.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse as _, Response};
use futures_util::stream;
use leasewatch_core::segment::EventKind;
use leasewatch_core::time::Timestamp;
use leasewatch_web::live::FRESH_EVENT;
use leasewatch_web::pages::enroll::{EnrollTokenView, JoinProblem, JoinedNode, render_token};
use leasewatch_web::path::Route;

use super::{finish, line};
use crate::enrollment::TokenKey;
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::pages::gpus::NodeNow;
use crate::http::visit::Visit;
use crate::http::{Http, cookie};
use crate::live::LiveFrame;
use crate::store::enrollment;
use crate::store::user::Role;
use crate::store::{Scope, StoreError, Tx, event, gpu, node};

/// A clock that is further off than this is named; `doctor` names it too.
const CLOCK_FLAGGED_MS: u64 = 500;
/// Seconds between looks at whether the listener may still listen.
const ASK_EVERY: u32 = 3;

pub(in crate::http) async fn token(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    Path((tenant, token)): Path<(String, i32)>,
) -> Response {
    let route = Route::EnrollToken { tenant: tenant.clone(), token };
    let answer = async {
        let context = visit.checked(route.clone())?;
        let view = view(&http, &asker, (&tenant, token), context.now).await?;
        Ok(Html(render_token(&view, &context)?).into_response())
    };
    finish(answer.await, &visit, route)
}

async fn view(
    http: &Http,
    asker: &Asker,
    (tenant, token): (&str, i32),
    now: Timestamp,
) -> Result<EnrollTokenView, Fault> {
    let key = asker.tenant(http, tenant, Role::Admin).await?;
    let mut tx = http.db.begin(Scope::Tenant(key)).await?;
    let key = TokenKey::new(key, token);
    let found = enrollment::tokens(&mut tx).await?.into_iter().find(|token| token.key == key);
    let found = found.ok_or(Fault::NotFound)?;
    let mut joined = Vec::new();
    for join in enrollment::joins(&mut tx, key).await? {
        let Some(row) = node::by_public_id(&mut tx, join.node).await? else { continue };
        joined.push(joined_node(&mut tx, NodeNow::of(http, row), &join, now).await?);
    }
    tx.commit().await?;
    Ok(EnrollTokenView { token: line(&found, asker, now), joined })
}

async fn joined_node(
    tx: &mut Tx,
    node: NodeNow,
    join: &enrollment::JoinRow,
    now: Timestamp,
) -> Result<JoinedNode, StoreError> {
    let mut gpus: Vec<(String, i64)> = Vec::new();
    let whole = |gpu: &gpu::GpuRow| gpu.partition.is_none();
    for gpu in gpu::of_node(tx, node.row.key).await?.into_iter().filter(whole) {
        let name = gpu.name.unwrap_or_else(|| gpu.uuid.to_string());
        match gpus.iter_mut().find(|(known, _)| *known == name) {
            Some((_, count)) => *count += 1,
            None => gpus.push((name, 1)),
        }
    }
    let host = event::last_of_kind(tx, node.row.key, "host_seen").await?;
    let driver_version = host.and_then(|row| match row.event.kind {
        EventKind::HostSeen(host) => Some(host.driver_version).filter(|v| !v.is_empty()),
        _ => None,
    });
    Ok(JoinedNode {
        name: node.name(),
        status: node.status(now),
        joined_at: join.joined_at,
        has_replaced: join.has_replaced,
        problems: problems(&node, gpus.is_empty()),
        gpus,
        driver_version,
    })
}

/// What its last live frame and the exchange of clocks say. Before there is a frame nothing is known.
fn problems(node: &NodeNow, no_gpu_recorded: bool) -> Vec<JoinProblem> {
    let Some(snapshot) = &node.snapshot else { return Vec::new() };
    let mut problems = Vec::new();
    if let Some(frame) = &snapshot.frame {
        let count = |is: fn(&crate::live::LiveGpu) -> bool| {
            i64::try_from(frame.gpus.iter().filter(|gpu| is(gpu)).count()).unwrap_or(i64::MAX)
        };
        let (lost, stalled) = (count(|gpu| gpu.lost), count(|gpu| gpu.stalled_ms > 0));
        problems.extend(driver_problem(frame, no_gpu_recorded));
        problems.extend((lost > 0).then_some(JoinProblem::Lost { gpus: lost }));
        problems.extend((stalled > 0).then_some(JoinProblem::Stalled { gpus: stalled }));
    }
    // The estimate is server minus node; people ask how far the node is ahead.
    let offset_ms = snapshot.clock.map_or(0, |clock| clock.offset_ms.saturating_neg());
    if offset_ms.unsigned_abs() > CLOCK_FLAGGED_MS {
        problems.push(JoinProblem::Clock { offset_ms });
    }
    problems
}

fn driver_problem(frame: &LiveFrame, no_gpu_recorded: bool) -> Option<JoinProblem> {
    if frame.nvml_unavailable {
        return Some(JoinProblem::NoDriver);
    }
    (frame.gpus.is_empty() && no_gpu_recorded).then_some(JoinProblem::NoGpu)
}

struct Listener {
    http: Http,
    asker: Asker,
    /// What the request brought with it.
    headers: HeaderMap,
    over_tls: bool,
    tenant: String,
    token: i32,
    /// What the page showed last, in its own words.
    shown: String,
    turn: u32,
}

/// Says `fresh` whenever the page would say something else.
pub(in crate::http) async fn events(
    State(http): State<Http>,
    asker: Asker,
    Path((tenant, token)): Path<(String, i32)>,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let over_tls = cookie::over_tls(&parts.extensions);
    if let Err(fault) = look(&http, &asker, (&tenant, token)).await {
        return fault.problem();
    }
    // Nothing yet, because something may have changed since the page was made.
    let (headers, shown) = (parts.headers, String::new());
    let listener = Listener { http, asker, headers, over_tls, tenant, token, shown, turn: 0 };
    let events = stream::unfold(listener, |mut listener| async move {
        let event = listener.next().await?;
        Some((Ok::<_, Infallible>(event), listener))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

impl Listener {
    /// The next event; none when whoever listens may no longer.
    async fn next(&mut self) -> Option<Event> {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            self.turn = self.turn.wrapping_add(1);
            if self.turn.is_multiple_of(ASK_EVERY)
                && !self.asker.still(&self.http, &self.headers, self.over_tls).await
            {
                return None;
            }
            match look(&self.http, &self.asker, (&self.tenant, self.token)).await {
                Ok(now) if now != self.shown => {
                    self.shown = now;
                    return Some(Event::default().event(FRESH_EVENT).data(&self.tenant));
                }
                Ok(_) => {}
                Err(Fault::NotFound) => return None,
                // A database that does not answer shows nothing new.
                Err(_) => {}
            }
        }
    }
}

/// What the page shows, but for times that only go on.
async fn look(http: &Http, asker: &Asker, token: (&str, i32)) -> Result<String, Fault> {
    let mut view = view(http, asker, token, http.clock.now()).await?;
    for node in &mut view.joined {
        node.status.last_heard_at = None;
        // An offset trembles; that it is there is what counts.
        for problem in &mut node.problems {
            if let JoinProblem::Clock { offset_ms } = problem {
                *offset_ms = offset_ms.signum();
            }
        }
    }
    Ok(format!("{view:?}"))
}
