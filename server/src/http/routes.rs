//! The list of routes: what each needs stands where it is made, and nowhere can one be made
//! without.

use axum::Router;
use axum::handler::Handler;
use axum::http::Method;
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodFilter, on};

use super::Http;
use super::asking::{self, Need};

/// A route, as it was declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// `GET` stands for `HEAD` too.
    pub method: Method,
    /// Its path, with `{names}` for what varies.
    pub pattern: &'static str,
    /// What it needs of who asks.
    pub need: Need,
}

/// Routes with what each needs.
pub(super) struct Routes {
    http: Http,
    router: Router<Http>,
    declared: Vec<Declared>,
}

impl Routes {
    pub(super) fn new(http: Http) -> Self {
        Self { http, router: Router::new(), declared: Vec::new() }
    }

    /// Adds a route.
    pub(super) fn on<H, T>(
        mut self,
        method: Method,
        pattern: &'static str,
        need: Need,
        handler: H,
    ) -> Self
    where
        H: Handler<T, Http>,
        T: 'static,
    {
        let filter = if method == Method::POST { MethodFilter::POST } else { MethodFilter::GET };
        let check = from_fn_with_state((self.http.clone(), need), asking::check);
        self.router = self.router.route(pattern, on(filter, handler).route_layer(check));
        self.declared.push(Declared { method, pattern, need });
        self
    }

    pub(super) fn into_parts(self) -> (Router<Http>, Vec<Declared>) {
        (self.router, self.declared)
    }
}
