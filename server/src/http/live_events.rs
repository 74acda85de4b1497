//! Live values as server-sent events, in words, each second at most.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use leasewatch_core::id::GpuUuid;
use leasewatch_web::i18n::Language;
use leasewatch_web::live::{self, LiveGpu, LiveNode};
use leasewatch_web::pages::overview::totals_event;

use super::Http;
use super::asking::Asker;
use super::cookie;
use super::error::Fault;
use super::pages::gpus::{NodeNow, live_values};
use super::pages::overview;
use super::visit::Visit;
use crate::live::Watch;
use crate::store::node::NodeRow;
use crate::store::{StoreError, gpu, node};

/// Seconds between looks at the fleet's list, and between totals.
const LIST_EVERY: u32 = 15;
/// Seconds between looks at whether the listener may still listen.
const ASK_EVERY: u32 = 3;

struct Listener {
    http: Http,
    asker: Asker,
    /// What the request brought with it.
    headers: HeaderMap,
    over_tls: bool,
    language: Language,
    nodes: Vec<(NodeRow, Vec<GpuUuid>)>,
    /// Nodes are asked for a frame each second while somebody listens.
    _watches: Vec<Watch>,
    turn: u32,
}

pub(super) async fn stream(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let mut listener = Listener {
        http,
        asker,
        over_tls: cookie::over_tls(&parts.extensions),
        headers: parts.headers,
        language: visit.context.language,
        nodes: Vec::new(),
        _watches: Vec::new(),
        turn: 0,
    };
    if let Err(error) = listener.list().await {
        return Fault::from(error).problem();
    }
    let events = stream::unfold(listener, |mut listener| async move {
        let event = listener.next().await?;
        Some((Ok::<_, Infallible>(event), listener))
    });
    Sse::new(events).keep_alive(KeepAlive::default()).into_response()
}

impl Listener {
    /// Reads which nodes there are, and watches them.
    async fn list(&mut self) -> Result<(), StoreError> {
        let mut nodes = Vec::new();
        for scope in self.asker.scopes() {
            let mut tx = self.http.db.begin(scope).await?;
            for row in node::list(&mut tx).await? {
                let gpus = gpu::of_node(&mut tx, row.key).await?;
                nodes.push((row, gpus.into_iter().map(|gpu| gpu.uuid).collect()));
            }
            tx.commit().await?;
        }
        let expected = nodes.iter().filter(|(row, _)| row.retired_at.is_none());
        self._watches = expected.map(|(row, _)| self.http.live.watch(row.id)).collect();
        self.nodes = nodes;
        Ok(())
    }

    /// The next event; none when whoever listens may no longer.
    async fn next(&mut self) -> Option<Event> {
        if self.turn.is_multiple_of(ASK_EVERY)
            && !self.asker.still(&self.http, &self.headers, self.over_tls).await
        {
            return None;
        }
        let due = self.turn.is_multiple_of(LIST_EVERY);
        self.turn = self.turn.wrapping_add(1);
        if due && let Some(event) = self.totals().await {
            return Some(event);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let nodes: Vec<LiveNode> =
            self.nodes.iter().map(|(row, gpus)| self.node(row, gpus)).collect();
        Some(match live::event(&nodes, self.language) {
            Ok(data) => Event::default().event(live::NODES_EVENT).data(data),
            Err(error) => Event::default().comment(error.to_string()),
        })
    }

    /// Totals need the store; when it does not answer, the listener keeps what it has.
    async fn totals(&mut self) -> Option<Event> {
        self.list().await.ok()?;
        let view = overview::view(&self.http, &self.asker, self.http.clock.now()).await.ok()?;
        let data = totals_event(&view.totals, self.language).ok()?;
        Some(Event::default().event(live::TOTALS_EVENT).data(data))
    }

    fn node(&self, row: &NodeRow, gpus: &[GpuUuid]) -> LiveNode {
        let now = NodeNow::of(&self.http, row.clone());
        let gpus = gpus.iter().map(|uuid| {
            let gpu = now.live(uuid);
            LiveGpu {
                uuid: uuid.to_string(),
                values: live_values(gpu),
                lost: gpu.is_some_and(|gpu| gpu.lost),
                stalled: gpu.is_some_and(|gpu| gpu.stalled_ms > 0),
            }
        });
        LiveNode { id: row.id.to_string(), standing: now.standing, gpus: gpus.collect() }
    }
}
