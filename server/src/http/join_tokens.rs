//! Join tokens for programs: listed, made and taken back as on the page, with JSON for an answer.
//!
//! Requests are forms as everywhere; the answer to making one holds the join string, once.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use leasewatch_web::pages::enroll::{EnrollFault, MadeString, TokenLine};
use serde::Serialize;

use super::Http;
use super::asking::Asker;
use super::error::Fault;
use super::pages::enroll;

/// The answer to asking which there are.
#[derive(Serialize)]
struct Listed {
    tokens: Vec<TokenLine>,
}

/// The answer to making one. `join` is a secret and is shown here and nowhere else.
#[derive(Serialize)]
struct Made {
    join: String,
    tenant: String,
    number: i32,
    node_ceiling: i64,
    expires_at: String,
}

pub(super) async fn list(State(http): State<Http>, asker: Asker) -> Response {
    let listed = enroll::lines(&http, &asker, http.clock.now()).await;
    listed.map_or_else(|fault| fault.problem(), |tokens| Json(Listed { tokens }).into_response())
}

pub(super) async fn make(State(http): State<Http>, asker: Asker, request: Request) -> Response {
    let answer = async {
        let entered = enroll::entered(request).await?;
        let made = enroll::issued(&http, &asker, &entered).await?;
        made.map_err(|fault| Fault::BadRequest(field(fault).to_owned()))
    };
    match answer.await {
        Ok(MadeString { text, tenant, number, node_ceiling, expires_at }) => {
            let expires_at = expires_at.to_string();
            let made = Made { join: text, tenant, number, node_ceiling, expires_at };
            (StatusCode::CREATED, Json(made)).into_response()
        }
        Err(fault) => fault.problem(),
    }
}

pub(super) async fn revoke(State(http): State<Http>, asker: Asker, request: Request) -> Response {
    match enroll::taken_back(&http, &asker, request).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(fault) => fault.problem(),
    }
}

/// The field that is at fault, and why where that is not plain.
fn field(fault: EnrollFault) -> &'static str {
    match fault {
        EnrollFault::Provider => "provider",
        EnrollFault::Lease => "lease: the tenant has none of this name",
        EnrollFault::LeaseProvider => "provider: the lease is of another one",
        EnrollFault::Nodes => "nodes",
        EnrollFault::Valid => "valid",
    }
}
