//! The cookie of a session, and where a request came from.
//!
//! Over TLS the cookie has the prefix `__Host-`, with which a browser takes it from this host alone
//! and sends it over TLS alone. Over plain HTTP, on loopback, it cannot. A cookie of the one kind
//! is not looked at over the other.

use std::net::SocketAddr;

use axum::http::header::{COOKIE, SET_COOKIE};
use axum::http::{Extensions, HeaderMap, HeaderName};

use crate::secret::Secret;

const PLAIN: &str = "leasewatch_session";
const OVER_TLS: &str = "__Host-leasewatch_session";

/// Who sent a request; the port puts it into each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its address, which no header changes but that of a trusted proxy.
    pub address: SocketAddr,
    /// Its connection is encrypted: to here, or to a trusted proxy.
    pub over_tls: bool,
}

/// Whether a request came over TLS.
pub(super) fn over_tls(extensions: &Extensions) -> bool {
    extensions.get::<Peer>().is_some_and(|peer| peer.over_tls)
}

fn name(over_tls: bool) -> &'static str {
    if over_tls { OVER_TLS } else { PLAIN }
}

/// True when a request carries a cookie of ours, good or not.
pub(super) fn is_there(headers: &HeaderMap) -> bool {
    [PLAIN, OVER_TLS].iter().any(|name| value(headers, name).is_some())
}

/// The secret of the session that a request belongs to.
pub(super) fn session(headers: &HeaderMap, over_tls: bool) -> Option<Secret> {
    value(headers, name(over_tls)).and_then(Secret::parse)
}

fn value<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(COOKIE).into_iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// A header that gives a browser its session, for so many seconds.
pub(super) fn set(secret: &Secret, over_tls: bool, seconds: i64) -> [(HeaderName, String); 1] {
    header(&secret.text(), over_tls, seconds)
}

/// A header that takes it away again.
pub(super) fn remove(over_tls: bool) -> [(HeaderName, String); 1] {
    header("", over_tls, 0)
}

fn header(value: &str, over_tls: bool, seconds: i64) -> [(HeaderName, String); 1] {
    let secure = if over_tls { "; Secure" } else { "" };
    let name = name(over_tls);
    let cookie =
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}");
    [(SET_COOKIE, cookie)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_secure_over_tls_and_of_no_use_on_the_other_kind_of_connection() {
        let secret = Secret::random().unwrap();
        let [(_, plain)] = set(&secret, false, 60);
        let [(_, tls)] = set(&secret, true, 60);
        for (cookie, is_secure) in [(&plain, false), (&tls, true)] {
            assert!(cookie.contains("; Path=/; HttpOnly; SameSite=Lax; Max-Age=60"), "{cookie}");
            assert_eq!(cookie.ends_with("; Secure"), is_secure, "{cookie}");
            assert_eq!(cookie.starts_with("__Host-"), is_secure, "{cookie}");
            let mut headers = HeaderMap::new();
            let pair = cookie.split(';').next().unwrap();
            headers.insert(COOKIE, format!("other=1; {pair}; tz=UTC").parse().unwrap());
            assert!(is_there(&headers));
            assert_eq!(session(&headers, is_secure), Some(secret.clone()));
            assert_eq!(session(&headers, !is_secure), None);
        }
        let [(_, gone)] = remove(true);
        assert!(gone.starts_with("__Host-leasewatch_session=; ") && gone.contains("Max-Age=0"));
        assert!(!is_there(&HeaderMap::new()));
    }
}
