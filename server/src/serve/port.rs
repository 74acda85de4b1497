//! The one port: accepts connections, over TLS or plain, and serves them until a signal comes.
//! Plain is for this machine alone; from elsewhere it is told to use TLS, and nothing more.
//!
//! What a connection is, is seen from its first bytes. Until that is clear, and the TLS handshake
//! done, it may hold its place for [`Port::opening`] and no longer; each connection has a task of
//! its own, so none waits for another.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tower::ServiceExt as _;

use super::opening::Opening;
use crate::grpc;
use crate::http::{Peer, TrustedProxies};

const CONNECTIONS_MAX: usize = 8_192;
/// The usual [`Port::opening`].
pub(super) const OPENING: Duration = Duration::from_secs(10);
/// Longest time for which open requests are waited for at the end.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// What every connection is served with.
#[derive(Clone)]
pub(super) struct Port {
    /// TLS 1.3 with the certificate that is shown now.
    pub(super) tls: watch::Receiver<Arc<ServerConfig>>,
    pub(super) router: Router,
    /// Longest time from a connection to the first bytes of HTTP on it, TLS included.
    pub(super) opening: Duration,
    /// Who is believed about whom it asks for.
    pub(super) trusted: TrustedProxies,
}

/// Accepts connections until a signal, then lets open requests end for a few seconds.
pub(super) async fn accept(listener: TcpListener, port: Port) {
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut stop = std::pin::pin!(signal());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let (stream, from) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(error = %error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        // Without room the connection is dropped at once: those that are open go on.
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
        let connection = port.clone().serve(stream, from, graceful.watcher());
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(error = %error, "a connection ended with an error");
            }
            drop(permit);
        });
    }
    tokio::select! {
        () = graceful.shutdown() => {}
        () = tokio::time::sleep(LAST_WORDS) => {}
    }
}

type Fault = Box<dyn std::error::Error + Send + Sync>;

impl Port {
    async fn serve(
        self,
        stream: TcpStream,
        from: SocketAddr,
        watcher: Watcher,
    ) -> Result<(), Fault> {
        // Small acknowledgements must not wait for the next one.
        let _ = stream.set_nodelay(true);
        let is_near = is_near(from, stream.local_addr()?);
        let tls = TlsAcceptor::from(Arc::clone(&self.tls.borrow()));
        match timeout(self.opening, open(stream, &tls)).await?? {
            Open::Plain(opening, stream) => {
                let router = if is_near { self.router } else { only_over_tls() };
                let peer = Peer { address: from, over_tls: false };
                let port = Self { router, ..self };
                port.converse(peer, (opening, stream), watcher).await
            }
            Open::Tls(opening, stream) => {
                let peer = Peer { address: from, over_tls: true };
                self.converse(peer, (opening, stream), watcher).await
            }
        }
    }

    async fn converse<S>(
        self,
        peer: Peer,
        (opening, stream): (Opening, S),
        watcher: Watcher,
    ) -> Result<(), Fault>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let builder = builder();
        let builder = match opening {
            Opening::Http2 => builder.http2_only(),
            Opening::Http1 | Opening::Tls => builder.http1_only(),
        };
        let Self { router, trusted, .. } = self;
        let service = router.map_request(move |mut request: Request<_>| {
            let asker = trusted.asker(peer, request.headers());
            request.extensions_mut().insert(asker);
            request
        });
        let service = TowerToHyperService::new(service);
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        watcher.watch(connection).await
    }
}

/// True for this machine: what it says to itself crosses no network.
fn is_near(from: SocketAddr, to: SocketAddr) -> bool {
    let (from, to) = (from.ip().to_canonical(), to.ip().to_canonical());
    from.is_loopback() || from == to
}

fn only_over_tls() -> Router {
    let words = "this server speaks https to other machines\n";
    Router::new().fallback(move || async move { (StatusCode::UPGRADE_REQUIRED, words) })
}

/// A connection whose first bytes of HTTP are there.
enum Open<P, T> {
    Plain(Opening, P),
    Tls(Opening, T),
}

async fn open(
    stream: TcpStream,
    tls: &TlsAcceptor,
) -> io::Result<
    Open<
        impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
        impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    >,
> {
    match Opening::read(stream).await? {
        (Opening::Tls, stream) => {
            let stream = tls.accept(stream).await?;
            let (opening, stream) = Opening::read(stream).await?;
            Ok(Open::Tls(opening, stream))
        }
        (opening, stream) => Ok(Open::Plain(opening, stream)),
    }
}

fn builder() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(10))
        .max_buf_size(64 * 1_024);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(grpc::KEEP_ALIVE_INTERVAL))
        .keep_alive_timeout(grpc::KEEP_ALIVE_TIMEOUT)
        .max_concurrent_streams(64)
        .max_header_list_size(16 * 1_024);
    builder
}

async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("stopping");
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::path::Path;

    use axum::Extension;
    use axum::routing::get;
    use http_body_util::BodyExt as _;
    use leasewatch_core::time::Timestamp;
    use leasewatch_proto::channel::{ServerAddress, ServerCertificate};
    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, ServerName};
    use rustls::{ClientConfig, RootCertStore};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::TlsConnector;
    use tower::ServiceExt as _;

    use super::*;
    use crate::serve::certificate::Certificate;

    const NOW: Timestamp = Timestamp(1_790_000_000_000);

    /// A port that serves one page, and one that says who asks; its certificate lies in `directory`.
    async fn port(directory: &Path, opening: Duration) -> SocketAddr {
        port_trusting(directory, opening, &[]).await
    }

    async fn port_trusting(directory: &Path, opening: Duration, proxies: &[&str]) -> SocketAddr {
        let certificate = Certificate::load_or_create(directory, NOW).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asker = |Extension(peer): Extension<Peer>| async move {
            format!("{} {}", peer.address.ip(), if peer.over_tls { "over TLS" } else { "plain" })
        };
        let router = Router::new().route("/", get(|| async { "here" })).route("/me", get(asker));
        let (_, tls) = watch::channel(certificate.config);
        let networks = proxies.iter().map(|text| text.parse().unwrap()).collect();
        let trusted = TrustedProxies::new(networks);
        tokio::spawn(accept(listener, Port { tls, router, opening, trusted }));
        address
    }

    fn pem(directory: &Path) -> Vec<u8> {
        std::fs::read(directory.join("tls/certificate.pem")).unwrap()
    }

    /// As a browser that was told to trust the certificate: by its names, over TLS 1.3.
    fn trusting(directory: &Path, alpn: &[u8]) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(&pem(directory)).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![alpn.to_vec()];
        TlsConnector::from(Arc::new(config))
    }

    async fn http1(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> String {
        stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    async fn http2(server: &ServerAddress) -> String {
        let channel = server.connect(|endpoint| endpoint).await.unwrap();
        let request = axum::http::Request::get(format!("{server}/"));
        let request = request.body(tonic::body::Body::empty()).unwrap();
        let answer = channel.oneshot(request).await.unwrap();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(body.to_vec()).unwrap()
    }

    fn https(address: SocketAddr, pem: &[u8]) -> ServerAddress {
        let certificate = ServerCertificate::from_pem(pem).unwrap();
        ServerAddress::new(&format!("https://{address}"), Some(certificate)).unwrap()
    }

    #[tokio::test]
    async fn one_port_speaks_both_http_versions_over_tls_and_plain() {
        let directory = tempfile::tempdir().unwrap();
        let address = port(directory.path(), OPENING).await;
        let plain = TcpStream::connect(address).await.unwrap();
        assert!(http1(plain).await.ends_with("here"));
        let plain = ServerAddress::new(&format!("http://{address}"), None).unwrap();
        assert_eq!(http2(&plain).await, "here");
        assert_eq!(http2(&https(address, &pem(directory.path()))).await, "here");
        for name in ["localhost", "127.0.0.1", "::1"] {
            let stream = TcpStream::connect(address).await.unwrap();
            let name = ServerName::try_from(name).unwrap();
            let connector = trusting(directory.path(), b"http/1.1");
            let stream = connector.connect(name, stream).await.unwrap();
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
            assert!(http1(stream).await.ends_with("here"));
        }
    }

    #[tokio::test]
    async fn a_request_says_who_asks_where_a_listed_proxy_sent_it_alone() {
        let directory = tempfile::tempdir().unwrap();
        for (proxies, expected) in [
            (&[][..], "127.0.0.1 plain"),
            (&["127.0.0.2/32", "10.0.0.0/8"], "127.0.0.1 plain"),
            (&["127.0.0.1/32"], "203.0.113.9 over TLS"),
        ] {
            let address = port_trusting(directory.path(), OPENING, proxies).await;
            let mut stream = TcpStream::connect(address).await.unwrap();
            let claims = "X-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Proto: https\r\n";
            // Twice on one connection: each request is asked for by somebody of its own.
            let again = "GET /me HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            let request = format!("GET /me HTTP/1.1\r\nHost: a\r\n{claims}\r\n{again}");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            assert!(answer.contains(&format!("\r\n\r\n{expected}HTTP/1.1 200")), "{answer}");
            assert!(answer.ends_with("127.0.0.1 plain"), "{answer}");
        }
    }

    #[tokio::test]
    async fn what_is_no_request_or_too_large_for_one_gets_its_status() {
        let directory = tempfile::tempdir().unwrap();
        let address = port(directory.path(), OPENING).await;
        let many: String = (0..200).map(|number| format!("X-{number}: 1\r\n")).collect();
        for (request, status) in [
            (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(100_000)), "431"),
            (format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n"), "431"),
            (format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(70_000)), "431"),
            ("GET / HTTP/1.1\r\nHost: a\r\nX Y: 1\r\n\r\n".to_owned(), "400"),
            ("GET /\0 HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(), "400"),
            ("nonsense\r\n\r\n".to_owned(), "400"),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n".to_owned(), "400"),
        ] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            // It may be answered, and hung up on, before all of it was sent.
            let _ = stream.write_all(request.as_bytes()).await;
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            let line = String::from_utf8_lossy(&answer).into_owned();
            let begin = format!("HTTP/1.1 {status}");
            assert!(line.starts_with(&begin), "{}: {line}", &request[..request.len().min(60)]);
        }
        assert!(http1(TcpStream::connect(address).await.unwrap()).await.ends_with("here"));
    }

    #[test]
    fn only_this_machine_is_near() {
        let near = |from: &str, to: &str| is_near(from.parse().unwrap(), to.parse().unwrap());
        for (from, to) in [
            ("127.0.0.1:1", "127.0.0.1:2"),
            ("127.0.0.9:1", "192.0.2.1:2"),
            ("192.0.2.1:1", "192.0.2.1:2"),
            ("[::1]:1", "[::1]:2"),
            ("[::ffff:127.0.0.1]:1", "[::ffff:127.0.0.1]:2"),
        ] {
            assert!(near(from, to), "{from} {to}");
        }
        for (from, to) in [
            ("192.0.2.2:1", "192.0.2.1:2"),
            ("[::ffff:192.0.2.2]:1", "[::ffff:192.0.2.1]:2"),
            ("[2001:db8::1]:1", "[::1]:2"),
            ("0.0.0.0:1", "192.0.2.1:2"),
        ] {
            assert!(!near(from, to), "{from} {to}");
        }
    }

    #[tokio::test]
    async fn plain_http_from_elsewhere_is_told_to_use_tls_whatever_it_asks() {
        for path in ["/", "/sign-in", "/leasewatch.v1.Telemetry/Stream"] {
            let request = Request::post(path).body(axum::body::Body::empty()).unwrap();
            let answer = only_over_tls().oneshot(request).await.unwrap();
            assert_eq!(answer.status(), StatusCode::UPGRADE_REQUIRED);
        }
    }

    #[tokio::test]
    async fn a_client_that_was_given_another_certificate_says_nothing() {
        let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let address = port(here.path(), OPENING).await;
        Certificate::load_or_create(there.path(), NOW).unwrap();
        let wrong = https(address, &pem(there.path()));
        let mut error: &dyn std::error::Error =
            &wrong.connect(|endpoint| endpoint).await.err().unwrap();
        let mut text = error.to_string();
        while let Some(source) = error.source() {
            (text, error) = (format!("{text}: {source}"), source);
        }
        assert!(text.contains("another certificate"), "{text}");
        // Nor does one that was given none: the name alone is no reason.
        let stream = TcpStream::connect(address).await.unwrap();
        let connector = trusting(there.path(), b"h2");
        let name = ServerName::try_from("localhost").unwrap();
        assert!(connector.connect(name, stream).await.is_err());
    }

    #[tokio::test]
    async fn clients_that_dawdle_hold_up_nobody_and_are_let_go() {
        let directory = tempfile::tempdir().unwrap();
        let address = port(directory.path(), Duration::from_millis(500)).await;
        let mut slow = Vec::new();
        for begin in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n", &[0x16], &[0x16, 3, 1, 1, 0, 1]] {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(begin).await.unwrap();
            slow.push(stream);
        }
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut silent = trusting(directory.path(), b"h2").connect(name, stream).await.unwrap();
        assert!(http1(TcpStream::connect(address).await.unwrap()).await.ends_with("here"));
        assert_eq!(http2(&https(address, &pem(directory.path()))).await, "here");
        // Each read ends when the server has closed: without that it would wait for ever.
        for mut stream in slow {
            let _ = stream.read_to_end(&mut Vec::new()).await;
        }
        let _ = silent.read_to_end(&mut Vec::new()).await;
    }
}
