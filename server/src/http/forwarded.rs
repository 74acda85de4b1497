//! What a proxy in front says of who asks it.
//!
//! `X-Forwarded-For` and `X-Forwarded-Proto` are believed from the proxies that the operator named,
//! for one thing each: the address that tries are counted for, and whether the browser's own
//! connection is encrypted. From anybody else they are not looked at. Not here: `Forwarded`,
//! `X-Real-IP` and `X-Forwarded-Host`, which are never believed; the proxy hands on the `Host`.

use std::net::{IpAddr, SocketAddr};

use axum::http::HeaderMap;
use ipnet::IpNet;

use super::Peer;

const FOR: &str = "x-forwarded-for";
const PROTO: &str = "x-forwarded-proto";

/// The proxies that are believed; none, unless the operator says so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<IpNet>);

impl TrustedProxies {
    /// Proxies at these addresses and in these networks.
    #[must_use]
    pub fn new(networks: Vec<IpNet>) -> Self {
        Self(networks)
    }

    /// Who asks: the other end of the connection, or whom it asks for, where it is one of these.
    /// The port of somebody behind a proxy is not known, and 0.
    #[must_use]
    pub fn asker(&self, peer: Peer, headers: &HeaderMap) -> Peer {
        if !self.holds(peer.address.ip()) {
            return peer;
        }
        let over_tls = match last(headers, PROTO) {
            Some("https") => true,
            Some("http") => false,
            _ => peer.over_tls,
        };
        let address = match self.origin(headers) {
            Some(address) => SocketAddr::new(address, 0),
            None => peer.address,
        };
        Peer { address, over_tls }
    }

    /// Each proxy appends whom it was asked by, so the list is read from its end, up to the first
    /// that is no proxy of ours: what stands before is that one's own claim.
    fn origin(&self, headers: &HeaderMap) -> Option<IpAddr> {
        let mut nearest = None;
        let lines: Vec<&str> = values(headers, FOR).collect();
        for entry in lines.iter().rev().flat_map(|line| line.rsplit(',')) {
            let address = address(entry.trim())?;
            nearest = Some(address);
            if !self.holds(address) {
                break;
            }
        }
        nearest
    }

    fn holds(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }
}

fn values<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = &'a str> {
    // What is no text is an entry that cannot be read.
    headers.get_all(name).into_iter().map(|value| value.to_str().unwrap_or("?"))
}

fn last<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    values(headers, name).last().and_then(|line| line.rsplit(',').next()).map(str::trim)
}

/// With or without a port.
fn address(entry: &str) -> Option<IpAddr> {
    let bare = entry.trim_matches(['[', ']']);
    let with_port = || entry.parse().map(|address: SocketAddr| address.ip());
    bare.parse().or_else(|_| with_port()).ok().map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxies() -> TrustedProxies {
        let networks = ["127.0.0.1/32", "10.1.0.0/16", "2001:db8::/32"];
        TrustedProxies::new(networks.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn asker(from: &str, over_tls: bool, pairs: &[(&'static str, &str)]) -> (String, bool) {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        let peer = Peer { address: SocketAddr::new(from.parse().unwrap(), 4_000), over_tls };
        let asker = proxies().asker(peer, &headers);
        (asker.address.ip().to_string(), asker.over_tls)
    }

    #[test]
    fn headers_of_whoever_is_no_listed_proxy_say_nothing() {
        let claims = [(FOR, "203.0.113.9"), (PROTO, "https"), ("x-real-ip", "203.0.113.9")];
        for from in ["127.0.0.2", "10.2.0.1", "192.0.2.1", "::1"] {
            assert_eq!(asker(from, false, &claims), (from.to_owned(), false), "{from}");
        }
        let nobody = TrustedProxies::default();
        let headers = HeaderMap::from_iter([(
            axum::http::HeaderName::from_static(FOR),
            "203.0.113.9".parse().unwrap(),
        )]);
        let peer = Peer { address: "127.0.0.1:1".parse().unwrap(), over_tls: false };
        assert_eq!(nobody.asker(peer, &headers), peer);
    }

    #[test]
    fn a_listed_proxy_says_who_asks_and_how() {
        let said = |pairs: &[(&'static str, &str)]| asker("127.0.0.1", false, pairs);
        let ada = "203.0.113.9".to_owned();
        assert_eq!(said(&[(FOR, "203.0.113.9"), (PROTO, "https")]), (ada.clone(), true));
        assert_eq!(said(&[(FOR, "203.0.113.9")]), (ada.clone(), false));
        assert_eq!(said(&[(PROTO, "https")]), ("127.0.0.1".to_owned(), true));
        // A browser that spoke plainly to a proxy that speaks TLS here.
        let plain = asker("10.1.2.3", true, &[(FOR, "203.0.113.9"), (PROTO, "http")]);
        assert_eq!(plain, (ada.clone(), false));
        assert!(asker("10.1.2.3", true, &[(FOR, "203.0.113.9"), (PROTO, "gopher")]).1);
        assert_eq!(asker("::ffff:127.0.0.1", false, &[(FOR, "203.0.113.9:1234")]).0, ada);
        assert_eq!(said(&[(FOR, "[2003:db8::1]:443")]).0, "2003:db8::1");
        assert_eq!(said(&[(FOR, "::ffff:203.0.113.9")]).0, ada);
    }

    #[test]
    fn what_a_browser_wrote_into_the_list_is_not_reached() {
        let said = |pairs: &[(&'static str, &str)]| asker("127.0.0.1", false, pairs).0;
        // Two proxies of ours, and in front of them somebody who claims to be another.
        let list = "198.51.100.1, 203.0.113.9, 10.1.0.7";
        assert_eq!(said(&[(FOR, list)]), "203.0.113.9");
        assert_eq!(said(&[(FOR, "198.51.100.1"), (FOR, "203.0.113.9, 10.1.0.7")]), "203.0.113.9");
        assert_eq!(said(&[(FOR, "10.1.0.9, 10.1.0.7")]), "10.1.0.9");
        // What cannot be read is believed from no one: the proxy itself stands for it.
        for list in ["unknown", "203.0.113.9, ", "203.0.113.9, unknown, 10.1.0.7", "", "1.2.3"] {
            assert_eq!(said(&[(FOR, list)]), "127.0.0.1", "{list}");
        }
        let proto = asker("127.0.0.1", false, &[(PROTO, "https"), (PROTO, "http")]);
        assert!(!proto.1, "the last one is the proxy's own");
    }
}
