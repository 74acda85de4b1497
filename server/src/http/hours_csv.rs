//! Hour records as CSV, streamed a page of rows at a time.

use std::collections::{HashMap, VecDeque};

use axum::body::{Body, Bytes};
use axum::extract::{Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use leasewatch_core::id::NodeId;
use leasewatch_core::time::{DAY_MS, Hour, Period, Zone};
use leasewatch_web::csv;
use leasewatch_web::path::local_midnight;
use serde::Deserialize;

use super::Http;
use super::asking::Asker;
use super::error::Fault;
use super::visit::Visit;
use crate::store::audit::{self, Action};
use crate::store::gpu::{self, GpuRow};
use crate::store::hour::{self, HourCursor, HourRow};
use crate::store::node::{self, NodeRow};
use crate::store::{NodeKey, Scope, StoreError};

/// Rows per read and per piece of the body.
const ROWS: u32 = 500;
/// The longest range of one download.
const RANGE_DAYS_MAX: i64 = 3_700;

#[derive(Debug, Deserialize)]
pub(super) struct Range {
    from: String,
    to: String,
    node: Option<String>,
    bom: Option<String>,
}

pub(super) async fn download(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    range: Result<Query<Range>, axum::extract::rejection::QueryRejection>,
) -> Response {
    match start(http, &visit, &asker, range.ok().map(|Query(range)| range)).await {
        Ok(response) => response,
        Err(fault) => fault.page(&visit.context),
    }
}

async fn start(
    http: Http,
    visit: &Visit,
    asker: &Asker,
    range: Option<Range>,
) -> Result<Response, Fault> {
    let bad = |name: &str| Fault::BadRequest(name.to_owned());
    let range = range.ok_or_else(|| bad("from"))?;
    let zone = visit.checked(visit.context.here.route.clone())?.zone;
    let period = period(&range, zone)?;
    let id = range.node.as_deref().filter(|id| !id.is_empty());
    let id = id.map(|id| id.parse::<NodeId>().map_err(|_| Fault::NotFound)).transpose()?;
    let names = Names::read(&http, asker, id).await?;
    if id.is_some() && names.nodes.is_empty() {
        return Err(Fault::NotFound);
    }
    note(&http, asker, &range).await?;
    let mut first = String::new();
    if range.bom.as_deref() == Some("1") {
        first.push_str(csv::BOM);
    }
    csv::header(&mut first);
    let hours = (period.start.hour(), period.end.plus_ms(-1).hour().next());
    let only = id.and_then(|_| names.nodes.keys().next().copied());
    let scopes = asker.scopes().into();
    let export = Export { http, names, hours, only, scopes, after: None, piece: Some(first) };
    let body = Body::from_stream(stream::try_unfold(export, Export::next));
    let name = format!("attachment; filename=\"hours-{}-{}.csv\"", range.from, range.to);
    let headers =
        [(header::CONTENT_TYPE, csv::CONTENT_TYPE.to_owned()), (header::CONTENT_DISPOSITION, name)];
    Ok((headers, body).into_response())
}

/// Taking records out is noted for each tenant that they are of.
async fn note(http: &Http, asker: &Asker, range: &Range) -> Result<(), StoreError> {
    let mut detail = vec![("from", range.from.clone()), ("to", range.to.clone())];
    detail.extend(range.node.iter().map(|node| ("node", node.clone())));
    let mut tx = http.db.begin(Scope::Auth).await?;
    for scope in asker.scopes() {
        let tenant = if let Scope::Tenant(key) = scope { Some(key) } else { None };
        let entry = audit::Entry {
            at: http.clock.now(),
            tenant,
            who: &asker.who(),
            action: Action::Exported,
            object: "hours.csv",
            detail: &detail,
        };
        audit::write(&mut tx, entry).await?;
    }
    tx.commit().await
}

/// Local days, both inside. Dates that passed the check hold digits and dashes only, so they can
/// stand in a file name.
fn period(range: &Range, zone: Zone) -> Result<Period, Fault> {
    let bad = |name: &str| Fault::BadRequest(name.to_owned());
    let start = local_midnight(&range.from, zone).ok_or_else(|| bad("from"))?;
    let last = local_midnight(&range.to, zone).ok_or_else(|| bad("to"))?;
    let period = Period::new(start, zone.day(last).ok_or_else(|| bad("to"))?.end);
    if last < start || period.ms() > RANGE_DAYS_MAX * DAY_MS {
        return Err(bad("to"));
    }
    Ok(period)
}

/// Names of nodes and GPUs, which the rows refer to.
struct Names {
    nodes: HashMap<NodeKey, NodeRow>,
    gpus: HashMap<NodeKey, Vec<GpuRow>>,
}

impl Names {
    async fn read(http: &Http, asker: &Asker, only: Option<NodeId>) -> Result<Self, StoreError> {
        let mut names = Self { nodes: HashMap::new(), gpus: HashMap::new() };
        for scope in asker.scopes() {
            let mut tx = http.db.begin(scope).await?;
            for row in node::list(&mut tx).await? {
                if only.is_none_or(|id| id == row.id) {
                    names.gpus.insert(row.key, gpu::of_node(&mut tx, row.key).await?);
                    names.nodes.insert(row.key, row);
                }
            }
            tx.commit().await?;
        }
        Ok(names)
    }
}

struct Export {
    http: Http,
    names: Names,
    hours: (Hour, Hour),
    only: Option<NodeKey>,
    /// In whose name the rest is read; the first is being read.
    scopes: VecDeque<Scope>,
    after: Option<HourCursor>,
    /// The head of the file, before the first rows.
    piece: Option<String>,
}

impl Export {
    /// The next piece of the body. An error ends the body early, so that a browser reports a
    /// broken download instead of showing a short file as whole.
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, StoreError> {
        if let Some(head) = self.piece.take() {
            return Ok(Some((Bytes::from(head), self)));
        }
        let rows = self.rows().await?;
        let Some(last) = rows.last() else { return Ok(None) };
        self.after = Some(HourCursor::after(last)?);
        let mut text = String::new();
        for row in &rows {
            self.append(&mut text, row);
        }
        Ok(Some((Bytes::from(text), self)))
    }

    /// The next rows; none when the last tenant is through.
    async fn rows(&mut self) -> Result<Vec<HourRow>, StoreError> {
        while let Some(scope) = self.scopes.front() {
            let mut tx = self.http.db.begin(*scope).await?;
            let after = self.after.as_ref();
            let rows = hour::page(&mut tx, self.hours, self.only, after, ROWS).await?;
            tx.commit().await?;
            if !rows.is_empty() {
                return Ok(rows);
            }
            self.scopes.pop_front();
            self.after = None;
        }
        Ok(Vec::new())
    }

    fn append(&self, text: &mut String, row: &HourRow) {
        let Some(node) = self.names.nodes.get(&row.node) else { return };
        let gpus = self.names.gpus.get(&row.node);
        let gpu = gpus.and_then(|gpus| gpus.iter().find(|gpu| gpu.uuid == row.record.gpu));
        let hash = row.hash.to_string();
        csv::append(
            text,
            &csv::HourRow {
                tenant: node.tenant.as_str(),
                provider: node.provider.as_str(),
                node: &node.id.to_string(),
                node_name: &node.name,
                slot: row.slot.0,
                gpu_model: gpu.and_then(|gpu| gpu.name.as_deref()),
                revision: row.revision,
                state: row.state,
                row_hash: Some(&hash),
                record: &row.record,
            },
        );
    }
}
