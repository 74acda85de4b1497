//! A proxy on the way to the server, as `HTTPS_PROXY` names it: HTTP `CONNECT`, then bytes.
//!
//! TLS goes through it to the server, whose certificate is checked as without it, so a proxy that
//! opens the connection is refused like any other stranger. This machine's own addresses are never
//! asked of a proxy. Not here: proxies that are themselves spoken to over TLS or SOCKS, and proxies
//! for plain HTTP, which leaves this machine nowhere.

use std::fmt;
use std::io;
use std::time::Duration;

use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::transport::Uri;

use super::{AddressError, is_loopback};

/// Longest time for a proxy to reach the server; shorter than what callers wait for a connection,
/// so that it is the proxy that is named.
const PATIENCE: Duration = Duration::from_secs(8);
/// The most bytes of a proxy's answer.
const ANSWER_BYTES_MAX: usize = 8_192;

/// What the environment says of proxies.
pub(super) struct Proxies(Matcher);

/// A proxy that a server is reached through. It prints no password.
#[derive(Clone)]
pub(super) struct Proxy {
    host: String,
    port: u16,
    /// The value of `Proxy-Authorization`.
    authorization: Option<Vec<u8>>,
    patience: Duration,
}

/// Why a proxy did not connect. Each text is the rest of a sentence that begins with the proxy.
#[derive(Debug, thiserror::Error)]
enum Fault {
    #[error("cannot be reached: {0}")]
    Unreachable(io::Error),
    #[error("did not connect to the server in time")]
    Silent,
    #[error(
        "wants a user and a password, or others than those in HTTPS_PROXY: \
         http://USER:PASSWORD@HOST:PORT (status 407)"
    )]
    Unauthorized,
    #[error("does not connect to the server (status {0})")]
    Refused(u16),
    #[error("ended the connection without an answer")]
    Closed,
    #[error("does not answer as an HTTP proxy does")]
    Foreign,
}

impl Proxies {
    /// As `https_proxy` or `HTTPS_PROXY`, and `no_proxy` or `NO_PROXY` say.
    ///
    /// # Errors
    /// [`AddressError::Proxy`] when they name none that can be used.
    pub(super) fn from_environment() -> Result<Self, AddressError> {
        let either = |names: [&str; 2]| {
            let mut values = names.iter().filter_map(|name| std::env::var(name).ok());
            values.find(|value| !value.is_empty()).unwrap_or_default()
        };
        let no = either(["no_proxy", "NO_PROXY"]);
        Self::new(&either(["https_proxy", "HTTPS_PROXY"]), &no)
    }

    /// `https` is the proxy's address or empty, `no` lists names, addresses and networks that are
    /// reached without it.
    ///
    /// # Errors
    /// [`AddressError::Proxy`]; the address is not repeated, it may hold a password.
    pub(super) fn new(https: &str, no: &str) -> Result<Self, AddressError> {
        let scheme = https.split_once("://").map_or("http", |(scheme, _)| scheme);
        let matcher = |no: &str| Matcher::builder().https(https).no(no).build();
        // The matcher passes over what it cannot read, and the way would lead around the proxy.
        let found = matcher("").intercept(&Uri::from_static("https://server.invalid"));
        let is_read = found.is_some_and(|found| has_host(found.uri()));
        if https.is_empty() || is_read && scheme.eq_ignore_ascii_case("http") {
            return Ok(Self(matcher(no)));
        }
        Err(AddressError::Proxy)
    }

    /// The proxy for a server, if one is wanted.
    pub(super) fn of(&self, server: &Uri) -> Option<Proxy> {
        if is_loopback(server) {
            return None;
        }
        self.0.intercept(server).map(|found| Proxy::from(&found))
    }
}

impl From<&Intercept> for Proxy {
    fn from(found: &Intercept) -> Self {
        Self {
            host: found.uri().host().unwrap_or_default().to_owned(),
            port: found.uri().port_u16().unwrap_or(80),
            authorization: found.basic_auth().map(|value| value.as_bytes().to_vec()),
            patience: PATIENCE,
        }
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}:{}", self.host, self.port)
    }
}

impl Proxy {
    /// A connection to a server's port; what the proxy sends of its own is read and gone.
    ///
    /// # Errors
    /// Names the proxy and says why it does not connect.
    pub(super) async fn connect(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let connected = timeout(self.patience, self.tunnel(host, port)).await;
        let fault = match connected {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(fault)) => fault,
            Err(_) => Fault::Silent,
        };
        Err(io::Error::other(format!("the proxy {self} {fault}")))
    }

    async fn tunnel(&self, host: &str, port: u16) -> Result<TcpStream, Fault> {
        let own = (self.host.trim_matches(['[', ']']), self.port);
        let mut stream = TcpStream::connect(own).await.map_err(Fault::Unreachable)?;
        let mut request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n");
        request.push_str("User-Agent: leasewatch\r\n");
        let mut request = request.into_bytes();
        if let Some(value) = &self.authorization {
            request.extend_from_slice(b"Proxy-Authorization: ");
            request.extend_from_slice(value);
            request.extend_from_slice(b"\r\n");
        }
        request.extend_from_slice(b"\r\n");
        stream.write_all(&request).await.map_err(|_| Fault::Closed)?;
        match status(&head(&mut stream).await?) {
            Some(200..=299) => Ok(stream),
            Some(407) => Err(Fault::Unauthorized),
            Some(other) => Err(Fault::Refused(other)),
            None => Err(Fault::Foreign),
        }
    }
}

/// With a port that is a number, or without one.
fn has_host(proxy: &Uri) -> bool {
    proxy.authority().is_some_and(|authority| {
        let is_bare = authority.as_str() == authority.host();
        !authority.host().is_empty() && (is_bare || authority.port_u16().is_some())
    })
}

/// The answer up to its empty line, and not a byte of what comes behind it, which is the server's.
async fn head(stream: &mut TcpStream) -> Result<Vec<u8>, Fault> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == ANSWER_BYTES_MAX {
            return Err(Fault::Foreign);
        }
        head.push(stream.read_u8().await.map_err(|_| match head.len() {
            0 => Fault::Closed,
            _ => Fault::Foreign,
        })?);
    }
    Ok(head)
}

/// The three digits of `HTTP/1.1 200 Connection established`.
fn status(head: &[u8]) -> Option<u16> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let mut words = std::str::from_utf8(line).ok()?.split(' ');
    words.next().filter(|version| version.starts_with("HTTP/1."))?;
    let digits = words.next().filter(|digits| digits.len() == 3)?;
    digits.parse().ok().filter(|status| (100..600).contains(status))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn uri(text: &str) -> Uri {
        text.parse().unwrap()
    }

    fn proxy_of(https: &str, no: &str, server: &str) -> Option<String> {
        let proxies = Proxies::new(https, no).unwrap();
        proxies.of(&uri(server)).map(|proxy| proxy.to_string())
    }

    #[test]
    fn this_machine_and_what_is_excepted_are_reached_without_a_proxy() {
        let named = Some("http://proxy.example:3128".to_owned());
        let through = |no, server| proxy_of("http://proxy.example:3128", no, server);
        assert_eq!(through("", "https://watch.example"), named);
        assert_eq!(through("other.example,10.0.0.0/8", "https://watch.example:7443"), named);
        for server in ["https://127.0.0.1:7443", "https://localhost:7443", "https://[::1]:7443"] {
            assert_eq!(through("", server), None, "{server}");
        }
        assert_eq!(through("example", "https://watch.example"), None);
        assert_eq!(through(".example", "https://watch.example"), None);
        assert_eq!(through("10.0.0.0/8", "https://10.1.2.3:7443"), None);
        assert_eq!(through("*", "https://watch.example"), None);
        assert_eq!(through("", "http://watch.example"), None);
        assert_eq!(proxy_of("", "", "https://watch.example"), None);
        // As curl takes it, too.
        assert_eq!(proxy_of("proxy.example:3128", "", "https://watch.example"), named);
    }

    #[test]
    fn a_proxy_that_cannot_be_used_is_refused_and_never_gone_around() {
        for wrong in [
            "https://proxy.example:3128",
            "socks5://proxy.example:1080",
            "ftp://proxy.example",
            "http://",
            "http:// space",
            "http://proxy.example:port",
        ] {
            assert_eq!(Proxies::new(wrong, "").err(), Some(AddressError::Proxy), "{wrong}");
        }
        let text = AddressError::Proxy.to_string();
        assert!(text.contains("HTTPS_PROXY must be http://HOST:PORT"), "{text}");
    }

    /// What a proxy that answers so is reported as, and what it was asked.
    async fn answered(answer: &'static [u8], user: &str) -> (String, String) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut asked = Vec::new();
            while !asked.ends_with(b"\r\n\r\n") {
                asked.push(stream.read_u8().await.unwrap());
            }
            // Whoever has seen enough hangs up before the end.
            let _ = stream.write_all(answer).await;
            String::from_utf8(asked).unwrap()
        });
        let proxies = Proxies::new(&format!("http://{user}127.0.0.1:{port}"), "").unwrap();
        let proxy = proxies.of(&uri("https://watch.example:7443")).unwrap();
        let connected = proxy.connect("watch.example", 7443).await;
        let told = connected.map_or_else(|error| error.to_string(), |_| "connected".to_owned());
        (told.replace(&port.to_string(), "PORT"), asked.await.unwrap())
    }

    #[tokio::test]
    async fn a_proxy_is_asked_for_the_server_with_a_password_that_nothing_repeats() {
        let ok = b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n";
        let (told, asked) = answered(ok, "").await;
        assert_eq!(told, "connected");
        assert!(asked.starts_with("CONNECT watch.example:7443 HTTP/1.1\r\n"), "{asked}");
        assert!(!asked.contains("Authorization"), "{asked}");
        let (told, asked) = answered(b"HTTP/1.0 403 No\r\n\r\n", "ada:hunter%202@").await;
        // `ada:hunter 2`
        assert!(asked.contains("\r\nProxy-Authorization: Basic YWRhOmh1bnRlciAy\r\n"), "{asked}");
        assert_eq!(
            told,
            "the proxy http://127.0.0.1:PORT does not connect to the server (status 403)"
        );
        let proxies = Proxies::new("http://ada:hunter2@proxy.example", "").unwrap();
        assert_eq!(
            proxies.of(&uri("https://a.example")).unwrap().to_string(),
            "http://proxy.example:80"
        );
    }

    #[tokio::test]
    async fn whatever_a_proxy_answers_is_told_by_its_name_and_bounded() {
        static FLOOD: [u8; 100_000] = [b'x'; 100_000];
        for (answer, told) in [
            (&b"HTTP/1.1 407 Authenticate\r\n\r\n"[..], "wants a user and a password"),
            (b"HTTP/1.1 502 Bad\r\n\r\n", "(status 502)"),
            (b"", "ended the connection"),
            (b"HTTP/1.1 200", "does not answer as an HTTP proxy does"),
            (b"HTTP/1.1 2000 OK\r\n\r\n", "does not answer as an HTTP proxy does"),
            (b"HTTP/2 200\r\n\r\n", "does not answer as an HTTP proxy does"),
            (b"SSH-2.0-x\r\n\r\n", "does not answer as an HTTP proxy does"),
            (&FLOOD, "does not answer as an HTTP proxy does"),
        ] {
            let (said, _) = answered(answer, "").await;
            assert!(said.starts_with("the proxy http://127.0.0.1:PORT "), "{said}");
            assert!(said.contains(told), "{said}");
        }
    }

    #[tokio::test]
    async fn a_proxy_that_is_not_there_or_never_answers_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let proxies = Proxies::new(&format!("127.0.0.1:{port}"), "").unwrap();
        let mut proxy = proxies.of(&uri("https://watch.example")).unwrap();
        proxy.patience = Duration::from_millis(20);
        let silent = proxy.connect("watch.example", 443).await.unwrap_err().to_string();
        assert!(silent.ends_with("did not connect to the server in time"), "{silent}");
        drop(listener);
        proxy.patience = PATIENCE;
        let gone = proxy.connect("watch.example", 443).await.unwrap_err().to_string();
        assert!(gone.contains("cannot be reached: "), "{gone}");
    }
}
