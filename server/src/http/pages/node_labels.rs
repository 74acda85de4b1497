//! The labels of a node.

use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Redirect, Response};
use leasewatch_core::id::NodeId;
use leasewatch_web::pages::NodeName;
use leasewatch_web::pages::lease_form::{FieldFault, LeaseMatter};
use leasewatch_web::pages::node_labels::{NodeLabelsView, render};
use leasewatch_web::path::Route;

use super::lease::note;
use crate::apply::entered::labels;
use crate::http::Http;
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::form::Fields;
use crate::http::visit::Visit;
use crate::store::node::NodeRow;
use crate::store::node_label;
use crate::store::user::Role;
use crate::store::{Scope, Tx};

/// Labels of one node.
const LABELS_MAX: usize = 16;

async fn node(http: &Http, asker: &Asker, id: &str) -> Result<(Tx, NodeRow), Fault> {
    let id: NodeId = id.parse().map_err(|_| Fault::NotFound)?;
    let (tx, row) = asker.node(http, id).await?;
    tx.commit().await?;
    if !asker.may(&row.tenant, Role::Admin) {
        return Err(Fault::Forbidden);
    }
    Ok((http.db.begin(Scope::Tenant(row.key.tenant)).await?, row))
}

fn name(row: &NodeRow) -> NodeName {
    NodeName { id: row.id.to_string(), name: row.name.clone(), origin: row.origin }
}

pub(in crate::http) async fn html(
    State(http): State<Http>,
    Path(id): Path<String>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        let context = visit.checked(Route::NodeLabels(id.clone()))?;
        let (mut tx, row) = node(&http, &asker, &id).await?;
        let known = node_label::of_node(&mut tx, row.key).await?;
        tx.commit().await?;
        let line =
            |(name, value): (&leasewatch_core::lease::Label, &leasewatch_core::lease::Label)| {
                format!("{}={}", name.as_str(), value.as_str())
            };
        let entered = known.iter().map(line).collect::<Vec<_>>().join("\n");
        let view = NodeLabelsView { node: name(&row), entered, faults: Vec::new() };
        Ok::<_, Fault>(Html(render(&view, &context)?).into_response())
    };
    answer.await.unwrap_or_else(|fault| fault.page(&visit.at(Route::NodeLabels(id))))
}

pub(in crate::http) async fn send(
    State(http): State<Http>,
    Path(id): Path<String>,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let context = visit.at(Route::NodeLabels(id.clone()));
        let (_, fields) = Fields::read(request, &["labels"]).await?;
        let (mut tx, row) = node(&http, &asker, &id).await?;
        let typed = fields.get("labels");
        match labels(typed) {
            Ok(labels) if labels.len() <= LABELS_MAX => {
                node_label::set(&mut tx, row.key, &labels).await?;
                let of = (row.key.tenant, row.name.as_str());
                note(&mut tx, of, (&asker, context.now), "labels of the node").await?;
                tx.commit().await?;
                let page = context.here.to(Route::Node(id.clone())).href();
                Ok::<_, Fault>(Redirect::to(&page).into_response())
            }
            Ok(_) | Err(_) => {
                let faults = vec![FieldFault::new("labels", LeaseMatter::Invalid)];
                let view = NodeLabelsView { node: name(&row), entered: typed.to_owned(), faults };
                let page = Html(render(&view, &context)?);
                Ok((StatusCode::UNPROCESSABLE_ENTITY, page).into_response())
            }
        }
    };
    answer.await.unwrap_or_else(|fault| fault.page(&visit.at(Route::NodeLabels(id))))
}
