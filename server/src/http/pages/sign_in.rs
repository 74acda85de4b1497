//! Signing in and out.

use std::net::IpAddr;

use axum::Extension;
use axum::extract::{Query, Request, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse as _, Redirect, Response};
use leasewatch_core::time::Timestamp;
use leasewatch_web::context::Context;
use leasewatch_web::pages::sign_in::{SignInView, render};
use leasewatch_web::path::{self, Route, pattern};
use serde::Deserialize;

use crate::http::asking::Asker;
use crate::http::entrance::{begin_session, peer_address};
use crate::http::error::Fault;
use crate::http::form::Fields;
use crate::http::visit::Visit;
use crate::http::{Http, cookie};
use crate::store::audit::{self, Action, Way, Who};
use crate::store::user::{self, UserKey};
use crate::store::{Scope, StoreError, Tx, user_session};

/// The query of the page.
#[derive(Debug, Deserialize)]
pub(in crate::http) struct Wanted {
    /// Where to afterwards.
    next: Option<String>,
}

pub(in crate::http) async fn html(
    visit: Visit,
    asker: Option<Extension<Asker>>,
    Query(wanted): Query<Wanted>,
) -> Response {
    let next = path::next(wanted.next.as_deref().unwrap_or_default());
    if asker.is_some_and(|Extension(asker)| asker.session().is_some()) {
        return Redirect::to(next).into_response();
    }
    let view = SignInView { next: next.to_owned(), ..SignInView::default() };
    answer(&view, &visit.at(Route::SignIn), StatusCode::OK)
}

pub(in crate::http) async fn send(
    State(http): State<Http>,
    visit: Visit,
    request: Request,
) -> Response {
    match enter(&http, &visit, request).await {
        Ok(answer) => answer,
        Err(fault) => fault.page(&visit.at(Route::SignIn)),
    }
}

async fn enter(http: &Http, visit: &Visit, request: Request) -> Result<Response, Fault> {
    let (parts, fields) = Fields::read(request, &["name", "password", "next"]).await?;
    let name = fields.get("name").trim().to_ascii_lowercase();
    let next = path::next(fields.get("next")).to_owned();
    let address = peer_address(&parts);
    let refused = |status| {
        let name: String = fields.get("name").chars().take(64).collect();
        let view = SignInView { name, next: next.clone(), is_refused: true };
        Ok(answer(&view, &visit.at(Route::SignIn), status))
    };
    // A name that can be nobody's is counted as one, so that it costs as much.
    let counted = if user::is_name(&name) { name.as_str() } else { "" };
    if !http.entrance.admit(counted, address, visit.context.now) {
        return refused(StatusCode::TOO_MANY_REQUESTS);
    }
    let Some(user) = verify(http, counted, fields.get("password")).await? else {
        tracing::warn!(user.name = counted, address = ?address, "a sign-in was refused");
        note_refusal(http, counted, Who::outside(text(address)), visit.context.now).await?;
        return refused(StatusCode::UNAUTHORIZED);
    };
    http.entrance.forgive(counted, address);
    let mut tx = http.db.begin(Scope::Auth).await?;
    let cookie = begin_session(http, &mut tx, &parts, user).await?;
    let (user, way) = (Some((user, name.clone())), Way::Session);
    let who = Who { user, way, address: text(address) };
    note(&mut tx, &who, (Action::SignedIn, &name), visit.context.now).await?;
    tx.commit().await?;
    Ok((cookie, Redirect::to(&next)).into_response())
}

fn text(address: Option<IpAddr>) -> Option<String> {
    address.map(|address| address.to_canonical().to_string())
}

async fn note(
    tx: &mut Tx,
    who: &Who,
    (action, object): (Action, &str),
    at: Timestamp,
) -> Result<(), StoreError> {
    audit::write(tx, audit::Entry { at, tenant: None, who, action, object, detail: &[] }).await
}

/// Only the name of somebody who is there is kept: other things that are typed into that field are
/// passwords. How many entries there can be is bounded by the tries that are looked at.
async fn note_refusal(http: &Http, name: &str, who: Who, at: Timestamp) -> Result<(), StoreError> {
    let mut tx = http.db.begin(Scope::Auth).await?;
    let known = user::by_name(&mut tx, name).await?;
    let object = known.as_ref().map_or("", |user| user.name.as_str());
    note(&mut tx, &who, (Action::SignInRefused, object), at).await?;
    tx.commit().await
}

/// The user of a name and its password. A name without a user costs as much as one with.
pub(super) async fn verify(
    http: &Http,
    name: &str,
    password: &str,
) -> Result<Option<UserKey>, Fault> {
    let mut tx = http.db.begin(Scope::Auth).await?;
    let found = user::credentials(&mut tx, name).await?;
    tx.commit().await?;
    let (key, stored) = found.unzip();
    let is_right = http.entrance.passwords.verify(password.to_owned(), stored).await?;
    Ok(key.filter(|_| is_right))
}

fn answer(view: &SignInView, context: &Context, status: StatusCode) -> Response {
    match render(view, context) {
        Ok(html) => (status, Html(html)).into_response(),
        Err(error) => Fault::from(error).page(context),
    }
}

pub(in crate::http) async fn out(
    State(http): State<Http>,
    visit: Visit,
    asker: Option<Extension<Asker>>,
    request: Request,
) -> Response {
    let (parts, _) = request.into_parts();
    let over_tls = cookie::over_tls(&parts.extensions);
    let done = async {
        let Some(secret) = cookie::session(&parts.headers, over_tls) else { return Ok(()) };
        let mut tx = http.db.begin(Scope::Auth).await?;
        user_session::close_cookie(&mut tx, &secret.hash()).await?;
        if let Some(Extension(asker)) = asker.filter(|asker| asker.session().is_some()) {
            let name = asker.row().map(|user| user.name.clone()).unwrap_or_default();
            let at = visit.context.now;
            note(&mut tx, &asker.who(), (Action::SignedOut, &name), at).await?;
        }
        tx.commit().await
    };
    match done.await {
        Ok(()) => (cookie::remove(over_tls), Redirect::to(pattern::SIGN_IN)).into_response(),
        Err(error) => Fault::from(error).page(&visit.context),
    }
}
