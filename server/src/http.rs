//! Pages, their JSON and CSV, live events, assets, health: everything for a browser.
//!
//! A page is built from one read of the store and the live state, becomes a view struct of
//! `leasewatch-web`, and is rendered there; the same struct is served as `.json`. Who may ask for
//! what stands in [`routes`]; until there is a user everybody may, and the server is on loopback
//! only.

pub(crate) mod asking;
mod assets;
mod cookie;
mod deadlines;
mod entrance;
mod error;
pub(crate) mod form;
mod forwarded;
mod health;
mod hours_csv;
mod install;
mod join_tokens;
mod live_events;
mod multipart;
mod pages;
mod routes;
mod same_origin;
mod upload;
mod visit;

use axum::Router;
use axum::http::{HeaderValue, Method, header};
use axum::middleware::from_fn_with_state;
use leasewatch_web::path::pattern;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate, SizeAbove};
use tower_http::set_header::SetResponseHeaderLayer;

pub use asking::Need;
pub use cookie::Peer;
pub use entrance::Entrance;
pub use forwarded::TrustedProxies;
pub use routes::Declared;

use crate::clock::Clock;
use crate::enrollment::Issuer;
use crate::installer::Installers;
use crate::intake::Intake;
use crate::live::Live;
use crate::store::Db;
use crate::tenancy::Removals;
use routes::Routes;

/// What every handler works with.
#[derive(Debug, Clone)]
pub struct Http {
    /// The database.
    pub db: Db,
    /// Node states, live values, open hours.
    pub live: Live,
    /// Time.
    pub clock: Clock,
    /// Where agents reach this server, with its scheme, for the commands of the empty page.
    pub address: String,
    /// Uploaded logs.
    pub intake: Intake,
    /// Passwords, and who tried too often.
    pub entrance: Entrance,
    /// Makes join strings.
    pub issuer: Issuer,
    /// What nodes install.
    pub installers: Installers,
    /// Tenants that are being removed.
    pub removals: Removals,
}

/// What each route needs of who asks for it. A route is made here or not at all.
fn routes(http: Http) -> Routes {
    use Need::{Admin, Nothing, Person, Viewer};
    const GET: Method = Method::GET;
    const POST: Method = Method::POST;
    money(claims(settings(Routes::new(http))))
        .on(GET, pattern::OVERVIEW, Viewer, pages::overview::html)
        .on(GET, pattern::OVERVIEW_JSON, Viewer, pages::overview::json)
        .on(GET, pattern::NODE, Viewer, pages::node::html)
        .on(GET, pattern::NODE_JSON, Viewer, pages::node::json)
        .on(POST, pattern::NODE_REVOKE, Admin, pages::node::revoke)
        .on(GET, pattern::GPU, Viewer, pages::gpu::html)
        .on(GET, pattern::GPU_JSON, Viewer, pages::gpu::json)
        .on(GET, pattern::READINGS_CSV, Viewer, pages::gpu::readings_csv)
        .on(GET, pattern::HOURS_CSV, Viewer, hours_csv::download)
        .on(GET, pattern::LIVE, Viewer, live_events::stream)
        .on(GET, pattern::COSTS, Viewer, pages::costs::html)
        .on(GET, pattern::COSTS_JSON, Viewer, pages::costs::json)
        .on(GET, pattern::COSTS_CSV, Viewer, pages::costs::download)
        .on(GET, pattern::IMPORT, Admin, pages::import::html)
        .on(POST, pattern::IMPORT, Admin, pages::import::send)
        .on(GET, pattern::IMPORT_RUN, Admin, pages::import_run::html)
        .on(GET, pattern::IMPORT_RUN_JSON, Admin, pages::import_run::json)
        .on(GET, pattern::SIGN_IN, Nothing, pages::sign_in::html)
        .on(POST, pattern::SIGN_IN, Nothing, pages::sign_in::send)
        .on(POST, pattern::SIGN_OUT, Nothing, pages::sign_in::out)
        .on(GET, pattern::LINK, Nothing, pages::link::html)
        .on(POST, pattern::LINK, Nothing, pages::link::send)
        .on(GET, pattern::ACCOUNT, Person, pages::account::html)
        .on(POST, pattern::ACCOUNT_PASSWORD, Person, pages::account::password)
        .on(POST, pattern::ACCOUNT_LANGUAGE, Person, pages::account::language)
        .on(POST, pattern::ACCOUNT_SESSION, Person, pages::account::session)
        .on(POST, pattern::ACCOUNT_TOKEN, Person, pages::account::make_token)
        .on(POST, pattern::ACCOUNT_TOKEN_REVOKE, Person, pages::account::revoke_token)
        .on(GET, pattern::ENROLL, Admin, pages::enroll::html)
        .on(POST, pattern::ENROLL, Admin, pages::enroll::make)
        .on(GET, pattern::ENROLL_TOKEN, Admin, pages::enroll::token)
        .on(GET, pattern::ENROLL_EVENTS, Admin, pages::enroll::events)
        .on(POST, pattern::ENROLL_REVOKE, Admin, pages::enroll::revoke)
        .on(GET, pattern::LEASES, Viewer, pages::leases::html)
        .on(GET, pattern::LEASES_JSON, Viewer, pages::leases::json)
        .on(GET, pattern::LEASES_CSV, Viewer, pages::leases::table)
        .on(GET, pattern::LEASE_NEW, Admin, pages::lease_form::new_lease)
        .on(POST, pattern::LEASE_NEW, Admin, pages::lease_form::create)
        .on(GET, pattern::LEASES_IMPORT, Admin, pages::lease_import::html)
        .on(POST, pattern::LEASES_IMPORT, Admin, pages::lease_import::send)
        .on(GET, pattern::LEASE, Viewer, pages::lease::html)
        .on(GET, pattern::LEASE_JSON, Viewer, pages::lease::json)
        .on(GET, pattern::LEASE_REPORT_PDF, Viewer, pages::lease_report::download)
        .on(GET, pattern::LEASE_REPORT_HTML, Viewer, pages::lease_report::html)
        .on(GET, pattern::LEASE_EDIT, Admin, pages::lease_form::edit)
        .on(POST, pattern::LEASE_EDIT, Admin, pages::lease_form::revise)
        .on(GET, pattern::LEASE_ASSIGN, Admin, pages::lease_assign::html)
        .on(POST, pattern::LEASE_ASSIGN, Admin, pages::lease_assign::send)
        .on(POST, pattern::LEASE_ASSIGNMENT, Admin, pages::lease::assignment)
        .on(POST, pattern::LEASE_SESSION, Admin, pages::lease::session)
        .on(POST, pattern::LEASE_SESSIONS_JSON, Admin, pages::lease_sessions::tell)
        .on(POST, pattern::LEASE_SCHEDULE, Admin, pages::lease_sessions::schedule)
        .on(GET, pattern::LEASE_TOLD, Viewer, pages::lease_told::html)
        .on(GET, pattern::LEASE_TOLD_JSON, Viewer, pages::lease_told::json)
        .on(POST, pattern::LEASE_TOLD, Admin, pages::lease_told::send)
        .on(GET, pattern::NODE_LABELS, Admin, pages::node_labels::html)
        .on(POST, pattern::NODE_LABELS, Admin, pages::node_labels::send)
        .on(GET, pattern::INSTALL, Nothing, install::script)
        .on(GET, pattern::AGENT, Nothing, install::agent)
        .on(GET, pattern::JOIN_TOKENS, Admin, join_tokens::list)
        .on(POST, pattern::JOIN_TOKENS, Admin, join_tokens::make)
        .on(POST, pattern::JOIN_TOKENS_REVOKE, Admin, join_tokens::revoke)
        .on(GET, pattern::ASSET, Nothing, assets::file)
        .on(GET, "/healthz", Nothing, health::alive)
        .on(GET, "/readyz", Nothing, health::ready)
}

fn claims(routes: Routes) -> Routes {
    use Need::{Admin, Viewer};
    const GET: Method = Method::GET;
    const POST: Method = Method::POST;
    routes
        .on(POST, pattern::LEASE_CLAIM, Admin, pages::claim_draft::draft)
        .on(GET, pattern::CLAIMS, Viewer, pages::claims::html)
        .on(GET, pattern::CLAIMS_JSON, Viewer, pages::claims::json)
        .on(GET, pattern::CLAIMS_CSV, Viewer, pages::claims::table)
        .on(GET, pattern::CLAIM, Viewer, pages::claim::html)
        .on(GET, pattern::CLAIM_JSON, Viewer, pages::claim::json)
        .on(GET, pattern::CLAIM_TEXT, Viewer, pages::claim::text)
        .on(POST, pattern::CLAIM_STEP, Admin, pages::claim::step)
}

fn money(routes: Routes) -> Routes {
    use Need::{Admin, Operator, Viewer};
    const GET: Method = Method::GET;
    const POST: Method = Method::POST;
    routes
        .on(GET, pattern::BILLS, Viewer, pages::bills::html)
        .on(GET, pattern::BILLS_JSON, Viewer, pages::bills::json)
        .on(GET, pattern::BILLS_CSV, Viewer, pages::bills::table)
        .on(GET, pattern::BILLS_IMPORT, Admin, pages::bill_import::html)
        .on(POST, pattern::BILLS_IMPORT, Admin, pages::bill_import::send)
        .on(GET, pattern::BILL, Viewer, pages::bills::one_html)
        .on(GET, pattern::BILL_JSON, Viewer, pages::bills::one_json)
        .on(GET, pattern::BILL_CSV, Viewer, pages::bills::one_table)
        .on(POST, pattern::BILL_WITHDRAW, Admin, pages::bills::withdraw)
        .on(GET, pattern::CONTRACTS, Viewer, pages::contracts::html)
        .on(GET, pattern::CONTRACTS_JSON, Viewer, pages::contracts::json)
        .on(POST, pattern::CONTRACTS, Admin, pages::contracts::send)
        .on(GET, pattern::PRICES, Viewer, pages::prices::html)
        .on(GET, pattern::PRICES_JSON, Viewer, pages::prices::json)
        .on(GET, pattern::PRICES_CSV, Viewer, pages::prices::table)
        .on(POST, pattern::PRICES, Operator, pages::prices::send)
        .on(POST, pattern::PRICES_WITHDRAW, Operator, pages::prices::withdraw)
}

fn settings(routes: Routes) -> Routes {
    use Need::{Admin, Operator, OperatorInPerson};
    const GET: Method = Method::GET;
    const POST: Method = Method::POST;
    routes
        .on(GET, pattern::USERS, OperatorInPerson, pages::users::html)
        .on(POST, pattern::USERS, OperatorInPerson, pages::users::change)
        .on(POST, pattern::USERS_INVITE, OperatorInPerson, pages::users::invite)
        .on(GET, pattern::TENANTS, Admin, pages::tenants::html)
        .on(GET, pattern::TENANTS_JSON, Admin, pages::tenants::json)
        .on(POST, pattern::TENANTS, Operator, pages::tenants::make)
        .on(POST, pattern::TENANT_RENAME, Admin, pages::tenants::rename)
        .on(POST, pattern::TENANT_REMOVE, Operator, pages::tenants::remove)
        .on(GET, pattern::TENANT_EXPORT, Admin, pages::tenants::export)
        .on(GET, pattern::AUDIT, Admin, pages::audit::html)
        .on(GET, pattern::AUDIT_JSON, Admin, pages::audit::json)
        .on(GET, pattern::AUDIT_CSV, Admin, pages::audit::download)
}

/// Every route with what it needs.
#[must_use]
pub fn declared(http: Http) -> Vec<Declared> {
    routes(http).into_parts().1
}

/// The routes of everything but gRPC.
pub fn router(http: Http) -> Router {
    let compressed = SizeAbove::new(1_024).and(NotForContentType::const_new("text/event-stream"));
    let (router, _) = routes(http.clone()).into_parts();
    router
        .fallback(error::nothing_here)
        .layer(from_fn_with_state(http.clone(), same_origin::guard))
        .layer(from_fn_with_state(http.clone(), asking::identify))
        .with_state(http)
        .layer(CompressionLayer::new().compress_when(compressed))
        .layer(fixed(
            header::CONTENT_SECURITY_POLICY,
            leasewatch_web::context::CONTENT_SECURITY_POLICY,
        ))
        // What somebody saw is in no cache when they have left. Assets say otherwise of themselves.
        .layer(fixed(header::CACHE_CONTROL, "no-store"))
        .layer(fixed(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        .layer(fixed(header::REFERRER_POLICY, "same-origin"))
}

fn fixed(name: header::HeaderName, value: &'static str) -> SetResponseHeaderLayer<HeaderValue> {
    SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value))
}
