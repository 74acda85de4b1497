//! What a request says about itself: language, zone, where it is, and who looks.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::header::ACCEPT_LANGUAGE;
use axum::http::request::Parts;
use leasewatch_core::time::Zone;
use leasewatch_web::account::Account;
use leasewatch_web::context::Context;
use leasewatch_web::deadline::Deadlines;
use leasewatch_web::i18n::Language;
use leasewatch_web::path::{Address, QueryError, Route, UrlState};

use super::asking::Asker;
use super::error::Fault;
use super::{Http, deadlines};

/// Endings of what is no page, and has no head.
const PROGRAMS: [&str; 5] = [".json", ".csv", ".sse", ".txt", ".zip"];

/// One request's surroundings. A query that cannot be understood still has some, because the page
/// that says so has a language too.
pub(super) struct Visit {
    pub(super) context: Context,
    fault: Option<QueryError>,
}

impl Visit {
    /// The context of a page, or the parameter that is wrong.
    pub(super) fn checked(&self, route: Route) -> Result<Context, Fault> {
        match self.fault {
            Some(error) => Err(Fault::BadRequest(error.parameter().to_owned())),
            None => Ok(self.at(route)),
        }
    }

    /// The context, at a place of the interface.
    pub(super) fn at(&self, route: Route) -> Context {
        let here = Address { route, state: self.context.here.state.clone() };
        Context { here, ..self.context.clone() }
    }
}

impl FromRequestParts<Http> for Visit {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self, Infallible> {
        let (state, fault) = match UrlState::parse(parts.uri.query().unwrap_or_default()) {
            Ok(state) => (state, None),
            Err(error) => (UrlState::default(), Some(error)),
        };
        let accepted = parts.headers.get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok());
        let asker = parts.extensions.get::<Asker>();
        let chosen = state.language.or_else(|| asker.and_then(Asker::language));
        let language = chosen.unwrap_or_else(|| Language::negotiate(accepted, None));
        let route = Route::Other(parts.uri.path().to_owned());
        let now = http.clock.now();
        let for_programs = PROGRAMS.iter().any(|ending| parts.uri.path().ends_with(ending));
        let deadlines = match asker {
            Some(asker) if !for_programs => deadlines::head(http, asker, now).await,
            _ => Deadlines::default(),
        };
        let context = Context {
            language,
            zone: state.zone.unwrap_or(Zone::UTC),
            now,
            here: Address { route, state },
            account: asker.map_or(Account::Nobody, Asker::account),
            deadlines,
            version: env!("CARGO_PKG_VERSION"),
        };
        Ok(Self { context, fault })
    }
}
