//! Tenants: a page for operators and admins, with what each may do.

use std::time::Duration;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use futures_util::StreamExt as _;
use leasewatch_core::id::{Slug, clean_text};
use leasewatch_web::context::Context;
use leasewatch_web::form::{Field, FieldFault, Matter};
use leasewatch_web::pages::tenants::{Removal, RemovalState, TenantLine, TenantsView, render};
use leasewatch_web::path::{Route, pattern};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::account::Shown;
use crate::http::Http;
use crate::http::asking::Asker;
use crate::http::error::Fault;
use crate::http::form::Fields;
use crate::http::visit::Visit;
use crate::store::audit::{self, Action};
use crate::store::tenant::{self, TenantRow};
use crate::store::user::Role;
use crate::store::{Scope, TenantKey};
use crate::tenancy::{self, archive};

/// Characters of a tenant's name.
const NAME_CHARACTERS_MAX: usize = 80;
/// How long a page waits for a removal to end. It goes on without it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Where everything that went well leads.
const DONE: &str = "/settings/tenants?done=1";

/// What the page shows beside what the store knows.
#[derive(Default)]
struct Beside {
    is_done: bool,
    slug: String,
    name: String,
    faults: Vec<FieldFault>,
}

pub(in crate::http) async fn html(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    Query(shown): Query<Shown>,
) -> Response {
    let beside = Beside { is_done: shown.is_done(), ..Beside::default() };
    let answer = async {
        let context = visit.checked(Route::Tenants)?;
        page(&http, &asker, &context, (StatusCode::OK, beside)).await
    };
    finish(answer.await, &visit)
}

pub(in crate::http) async fn json(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
) -> Response {
    let answer = async {
        visit.checked(Route::Tenants)?;
        Ok::<_, Fault>(Json(view(&http, &asker, Beside::default()).await?).into_response())
    };
    answer.await.unwrap_or_else(|fault| fault.problem())
}

fn finish(answer: Result<Response, Fault>, visit: &Visit) -> Response {
    answer.unwrap_or_else(|fault| fault.page(&visit.at(Route::Tenants)))
}

async fn page(
    http: &Http,
    asker: &Asker,
    context: &Context,
    (status, beside): (StatusCode, Beside),
) -> Result<Response, Fault> {
    let view = view(http, asker, beside).await?;
    Ok((status, Html(render(&view, context)?)).into_response())
}

async fn view(http: &Http, asker: &Asker, beside: Beside) -> Result<TenantsView, Fault> {
    let mut lines = Vec::new();
    for row in rows(http, asker).await? {
        lines.push((
            row.key,
            TenantLine { slug: row.slug.to_string(), name: row.name, nodes: 0, users: 0 },
        ));
    }
    let place = |lines: &mut Vec<(TenantKey, TenantLine)>, key: TenantKey| {
        lines.iter_mut().position(|(known, _)| *known == key)
    };
    for scope in asker.scopes() {
        let mut tx = http.db.begin(scope).await?;
        for (key, nodes) in tenant::node_counts(&mut tx).await? {
            if let Some(at) = place(&mut lines, key) {
                lines[at].1.nodes = nodes;
            }
        }
        tx.commit().await?;
    }
    let mut tx = http.db.begin(Scope::Auth).await?;
    for (key, users) in tenant::user_counts(&mut tx).await? {
        if let Some(at) = place(&mut lines, key) {
            lines[at].1.users = users;
        }
    }
    tx.commit().await?;
    let removals = if asker.is_operator() { http.removals.list() } else { Vec::new() };
    Ok(TenantsView {
        tenants: lines.into_iter().map(|(_, line)| line).collect(),
        may_make: asker.is_operator(),
        removals: removals.into_iter().map(|(slug, state)| removal(&slug, state)).collect(),
        is_done: beside.is_done,
        slug: beside.slug,
        name: beside.name,
        faults: beside.faults,
    })
}

fn removal(slug: &Slug, state: tenancy::RemovalState) -> Removal {
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let state = match state {
        tenancy::RemovalState::Running(done, total) => {
            RemovalState::Running { done: count(done), total: count(total) }
        }
        tenancy::RemovalState::Removed(rows) => RemovalState::Removed { rows },
        tenancy::RemovalState::Connected => RemovalState::Connected,
        tenancy::RemovalState::Failed => RemovalState::Failed,
    };
    Removal { slug: slug.to_string(), state }
}

/// Tenants that the asker may change.
async fn rows(http: &Http, asker: &Asker) -> Result<Vec<TenantRow>, Fault> {
    let own = asker.tenants(http, Role::Admin).await?;
    let mut rows = Vec::new();
    for scope in asker.scopes() {
        let mut tx = http.db.begin(scope).await?;
        rows.extend(tenant::list(&mut tx).await?);
        tx.commit().await?;
    }
    rows.retain(|row| own.iter().any(|own| own.tenant == row.key));
    Ok(rows)
}

/// The tenant of this public name, if the asker may change it.
async fn row(http: &Http, asker: &Asker, slug: &str) -> Result<TenantRow, Fault> {
    let rows = rows(http, asker).await?;
    rows.into_iter().find(|row| row.slug.as_str() == slug).ok_or(Fault::NotFound)
}

pub(in crate::http) async fn make(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let context = visit.at(Route::Tenants);
        let (_, fields) = Fields::read(request, &["slug", "name"]).await?;
        let typed = fields.get("slug").trim();
        let name = clean_text(fields.get("name").trim(), NAME_CHARACTERS_MAX);
        let wrong = async |field, matter| {
            let faults = vec![FieldFault { field, matter }];
            let (slug, name) = (typed.to_owned(), name.clone());
            let beside = Beside { slug, name, faults, ..Beside::default() };
            page(&http, &asker, &context, (StatusCode::UNPROCESSABLE_ENTITY, beside)).await
        };
        let Ok(slug) = Slug::new(typed) else { return wrong(Field::Slug, Matter::Invalid).await };
        if name.is_empty() {
            return wrong(Field::Name, Matter::Missing).await;
        }
        let mut tx = http.db.begin(Scope::Auth).await?;
        let Some(key) = tenant::create(&mut tx, &slug, &name).await? else {
            tx.rollback().await?;
            return wrong(Field::Slug, Matter::Taken).await;
        };
        let entry = audit::Entry {
            at: context.now,
            tenant: Some(key),
            who: &asker.who(),
            action: Action::TenantMade,
            object: slug.as_str(),
            detail: &[("name", name.clone())],
        };
        audit::write(&mut tx, entry).await?;
        tx.commit().await?;
        Ok(Redirect::to(DONE).into_response())
    };
    finish(answer.await, &visit)
}

pub(in crate::http) async fn rename(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let context = visit.at(Route::Tenants);
        let (_, fields) = Fields::read(request, &["tenant", "name"]).await?;
        let row = row(&http, &asker, fields.get("tenant")).await?;
        let name = clean_text(fields.get("name").trim(), NAME_CHARACTERS_MAX);
        if name.is_empty() {
            let faults = vec![FieldFault { field: Field::Name, matter: Matter::Missing }];
            let beside = Beside { faults, ..Beside::default() };
            return page(&http, &asker, &context, (StatusCode::UNPROCESSABLE_ENTITY, beside)).await;
        }
        let mut tx = http.db.begin(Scope::Auth).await?;
        tenant::rename(&mut tx, row.key, &name).await?;
        let entry = audit::Entry {
            at: context.now,
            tenant: Some(row.key),
            who: &asker.who(),
            action: Action::TenantRenamed,
            object: row.slug.as_str(),
            detail: &[("before", row.name.clone()), ("name", name.clone())],
        };
        audit::write(&mut tx, entry).await?;
        tx.commit().await?;
        Ok(Redirect::to(DONE).into_response())
    };
    finish(answer.await, &visit)
}

pub(in crate::http) async fn remove(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    request: Request,
) -> Response {
    let answer = async {
        let context = visit.at(Route::Tenants);
        let (_, fields) = Fields::read(request, &["tenant", "confirm"]).await?;
        let row = row(&http, &asker, fields.get("tenant")).await?;
        if fields.get("confirm").trim() != row.slug.as_str() {
            let faults = vec![FieldFault { field: Field::Confirm, matter: Matter::Different }];
            let beside = Beside { faults, ..Beside::default() };
            return page(&http, &asker, &context, (StatusCode::UNPROCESSABLE_ENTITY, beside)).await;
        }
        let work = http.removals.run(http.db.clone(), row, asker.who(), context.now);
        // What is not over by then goes on, and the page says how far it is.
        let _ = tokio::time::timeout(PATIENCE, work).await;
        Ok(Redirect::to(pattern::TENANTS).into_response())
    };
    finish(answer.await, &visit)
}

/// Everything of a tenant, as it is compressed. An error ends the body early, so that a browser
/// reports a broken download.
pub(in crate::http) async fn export(
    State(http): State<Http>,
    visit: Visit,
    asker: Asker,
    Path(slug): Path<String>,
) -> Response {
    let answer = async {
        let row = row(&http, &asker, &slug).await?;
        tenancy::note_export(&http.db, &row, (&asker.who(), visit.context.now)).await?;
        let name = format!("attachment; filename=\"{}.zip\"", row.slug);
        let (pieces, taken) = mpsc::channel(4);
        let db = http.db.clone();
        let writing = tokio::spawn(async move { archive::write(&db, &row, pieces, |_| ()).await });
        let taken = ReceiverStream::new(taken).map(|piece| Ok(Bytes::from(piece)));
        let end = futures_util::stream::once(async move {
            match writing.await {
                Ok(Ok(_)) => Ok(Bytes::new()),
                Ok(Err(error)) => {
                    tracing::error!(%error, "an archive of a tenant broke off");
                    Err(std::io::Error::other(error))
                }
                Err(error) => Err(std::io::Error::other(error)),
            }
        });
        let headers = [
            (header::CONTENT_TYPE, "application/zip".to_owned()),
            (header::CONTENT_DISPOSITION, name),
        ];
        Ok((headers, Body::from_stream(taken.chain(end))).into_response())
    };
    answer.await.unwrap_or_else(|fault: Fault| fault.page(&visit.context))
}
