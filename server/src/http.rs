//! Pages, their JSON and CSV, live events, assets, health: everything for a browser.
//!
//! A page is built from one read of the store and the live state, becomes a view struct of
//! `leasewatch-web`, and is rendered there; the same struct is served as `.json`. There are no
//! users yet, so the server binds loopback only and a request sees what the operator sees.

mod assets;
mod error;
mod health;
mod hours_csv;
mod live_events;
mod multipart;
mod pages;
mod same_origin;
mod visit;

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use leasewatch_web::path::pattern;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};
use tower_http::set_header::SetResponseHeaderLayer;

use crate::clock::Clock;
use crate::intake::Intake;
use crate::live::Live;
use crate::store::Db;

/// What every handler works with.
#[derive(Debug, Clone)]
pub struct Http {
    /// The database.
    pub db: Db,
    /// Node states, live values, open hours.
    pub live: Live,
    /// Time.
    pub clock: Clock,
    /// Where agents reach this server, for the commands of the empty page.
    pub address: String,
    /// Uploaded logs.
    pub intake: Intake,
}

/// The routes of everything but gRPC.
pub fn router(http: Http) -> Router {
    let compressed = SizeAbove::new(1_024).and(NotForContentType::const_new("text/event-stream"));
    Router::new()
        .route(pattern::OVERVIEW, get(pages::overview::html))
        .route(pattern::OVERVIEW_JSON, get(pages::overview::json))
        .route(pattern::NODE, get(pages::node::html))
        .route(pattern::NODE_JSON, get(pages::node::json))
        .route(pattern::GPU, get(pages::gpu::html))
        .route(pattern::GPU_JSON, get(pages::gpu::json))
        .route(pattern::READINGS_CSV, get(pages::gpu::readings_csv))
        .route(pattern::IMPORT, get(pages::import::html).post(pages::import::send))
        .route(pattern::IMPORT_RUN, get(pages::import_run::html))
        .route(pattern::IMPORT_RUN_JSON, get(pages::import_run::json))
        .route(pattern::HOURS_CSV, get(hours_csv::download))
        .route(pattern::LIVE, get(live_events::stream))
        .route(pattern::ASSET, get(assets::file))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready))
        .fallback(error::nothing_here)
        .layer(from_fn_with_state(http.clone(), same_origin::guard))
        .with_state(http)
        .layer(CompressionLayer::new().compress_when(compressed))
        .layer(fixed(
            header::CONTENT_SECURITY_POLICY,
            leasewatch_web::context::CONTENT_SECURITY_POLICY,
        ))
        .layer(fixed(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .layer(fixed(header::REFERRER_POLICY, "same-origin"))
}

fn fixed(name: header::HeaderName, value: &'static str) -> SetResponseHeaderLayer<HeaderValue> {
    SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value))
}
