//! Requests that change something come from this server's own pages, or from a program.
//!
//! What a browser says of where a request comes from is what keeps a foreign page from sending forms
//! in the name of whoever is signed in, beside the cookie, which is not sent from other sites. A
//! program says nothing of it and has no cookie; a cookie without it is refused.

use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::Http;
use super::cookie;
use super::error::Fault;
use super::visit::Visit;

pub(super) async fn guard(
    State(_): State<Http>,
    visit: Visit,
    request: Request,
    next: Next,
) -> Response {
    let changes = ![Method::GET, Method::HEAD, Method::OPTIONS].contains(request.method());
    let over_tls = cookie::over_tls(request.extensions());
    if changes && is_foreign(request.headers(), request.uri(), over_tls) {
        return Fault::Foreign.page(&visit.context).into_response();
    }
    next.run(request).await
}

/// True when the browser says that another site sent it, or does not say where it is from.
fn is_foreign(headers: &HeaderMap, uri: &Uri, over_tls: bool) -> bool {
    let text = |value: &axum::http::HeaderValue| value.to_str().unwrap_or("?").to_ascii_lowercase();
    let site = headers.get("sec-fetch-site").map(text);
    if site.is_some_and(|site| site != "same-origin" && site != "none") {
        return true;
    }
    let is_said = headers.contains_key("sec-fetch-site");
    let Some(origin) = headers.get(ORIGIN).map(text) else {
        return !is_said && cookie::is_there(headers);
    };
    // HTTP/2 names the host in the address.
    let authority = uri.authority().map(|authority| authority.as_str().to_ascii_lowercase());
    let host = headers.get(HOST).map(text).or(authority);
    // A page without TLS may be of anybody on its way. The other way round nothing is known: a proxy
    // that is not trusted may have ended TLS.
    if over_tls && origin.starts_with("http://") {
        return true;
    }
    origin.split_once("://").map(|(_, from)| from) != host.as_deref()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn foreign(uri: &str, pairs: &[(&'static str, &'static str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        is_foreign(&headers, &uri.parse().unwrap(), false)
    }

    #[test]
    fn only_this_server_s_own_pages_and_programs_may_change_something() {
        let host = ("host", "127.0.0.1:7443");
        let own = ("origin", "http://127.0.0.1:7443");
        for pairs in [
            &[host][..],
            &[host, own],
            &[host, own, ("sec-fetch-site", "same-origin")],
            &[host, ("sec-fetch-site", "none")],
            &[("host", "GPUs.example"), ("origin", "https://gpus.example")],
        ] {
            assert!(!foreign("/import", pairs), "{pairs:?}");
        }
        assert!(!foreign("http://127.0.0.1:7443/import", &[own]));
        let cookie = ("cookie", "leasewatch_session=0");
        assert!(!foreign("/import", &[host, cookie, own]));
        assert!(!foreign("/import", &[host, cookie, ("sec-fetch-site", "same-origin")]));
        assert!(!foreign("/import", &[host, ("cookie", "other=1")]));
        for pairs in [
            &[host, cookie][..],
            &[host, ("cookie", "tz=UTC; __Host-leasewatch_session=0")],
            &[host, cookie, ("origin", "https://evil.example")],
            &[host, ("sec-fetch-site", "cross-site")],
            &[host, ("sec-fetch-site", "same-site")],
            &[host, own, ("sec-fetch-site", "cross-site")],
            &[host, ("origin", "http://127.0.0.1:8080")],
            &[host, ("origin", "http://127.0.0.1")],
            &[host, ("origin", "https://evil.example")],
            &[host, ("origin", "null")],
            &[own],
        ] {
            assert!(foreign("/import", pairs), "{pairs:?}");
        }
    }

    #[test]
    fn over_tls_a_page_without_it_is_foreign_even_of_this_host() {
        let headers = |origin: &str| {
            HeaderMap::from_iter([
                (HOST, "gpus.example".parse().unwrap()),
                (ORIGIN, origin.parse().unwrap()),
            ])
        };
        let uri = "/import".parse().unwrap();
        assert!(!is_foreign(&headers("https://gpus.example"), &uri, true));
        assert!(is_foreign(&headers("http://gpus.example"), &uri, true));
        assert!(!is_foreign(&headers("http://gpus.example"), &uri, false));
    }
}
