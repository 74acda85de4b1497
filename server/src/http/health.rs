//! For supervisors: does the process answer, and does it reach its database?

use axum::extract::State;
use axum::http::StatusCode;

use super::Http;
use crate::store::{Scope, StoreError, tenant};

pub(super) async fn alive() -> &'static str {
    "ok\n"
}

pub(super) async fn ready(State(http): State<Http>) -> (StatusCode, &'static str) {
    match ask_database(&http).await {
        Ok(()) => (StatusCode::OK, "ok\n"),
        Err(error) => {
            tracing::warn!(error = %error, "not ready");
            (StatusCode::SERVICE_UNAVAILABLE, "the database does not answer\n")
        }
    }
}

async fn ask_database(http: &Http) -> Result<(), StoreError> {
    let mut tx = http.db.begin(Scope::Operator).await?;
    tenant::list(&mut tx).await?;
    tx.commit().await
}
