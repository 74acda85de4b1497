//! A client's way to the server: plain HTTP/2 on loopback, TLS 1.3 everywhere.
//!
//! Over TLS a certificate is known in one of three ways: it was given as a file, its public key's
//! hash stands in a join string, or a public authority vouches for its name. In the first two exactly
//! that certificate or key is trusted: no root of the system, no other certificate of the same
//! name, none that it signed, and whatever its dates, because a node whose clock is wrong has to
//! deliver all the same. Who the server is, is proven by the handshake of the stream in any case
//! (`convert`). There is no way to trust everybody. Where the environment names a proxy, TLS goes
//! through it.

mod certificate;
mod proxy;

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use leasewatch_core::id::Hash;
use leasewatch_core::join::TlsTrust;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, OtherError};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::transport::{Channel, Endpoint, Error, Uri};

pub use certificate::{CertificateFileError, ServerCertificate, fingerprint, public_key_hash};
use proxy::{Proxies, Proxy};

/// The protocol that both ends have to agree on.
const ALPN: &[u8] = b"h2";

/// Why an address is not taken. Each text is the rest of a sentence that begins with the option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// It cannot be read.
    #[error("is not a URL")]
    NotAUrl,
    /// Neither `http` nor `https`.
    #[error("must begin with http:// or https://")]
    Scheme,
    /// It leads off this machine, unprotected.
    #[error("must begin with https:// where it is not a loopback address")]
    NotLoopback,
    /// TLS, and nothing to trust.
    #[error(
        "https needs a join string, or --server-certificate FILE: a copy of tls/certificate.pem \
         from the server's data directory"
    )]
    NoCertificate,
    /// This build's cryptography lacks TLS 1.3.
    #[error("https is not possible with this build")]
    NoTls,
    /// A certificate, and nothing that would show one.
    #[error("a server certificate is given, so the address must begin with https://")]
    PlainWithCertificate,
    /// The environment names a proxy that cannot be used.
    #[error(
        "is reached through a proxy, and HTTPS_PROXY must be http://HOST:PORT or \
         http://USER:PASSWORD@HOST:PORT"
    )]
    Proxy,
}

/// What a server has to show over TLS.
#[derive(Debug, Clone)]
pub enum Trust {
    /// This certificate, byte for byte.
    Certificate(ServerCertificate),
    /// As a join string says.
    Join(TlsTrust),
    /// A certificate of one of these keys, whatever its name and dates.
    Pins(Vec<Hash>),
}

/// Where the server is, and what it has to show. Cheap to clone.
#[derive(Clone)]
pub struct ServerAddress {
    uri: Uri,
    tls: Option<Arc<ClientConfig>>,
    /// Of use with TLS alone.
    proxy: Option<Proxy>,
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.uri.to_string().trim_end_matches('/'))
    }
}

impl fmt::Debug for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerAddress({self})")
    }
}

impl ServerAddress {
    /// Checks a URL against a certificate that is given to trust.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn new(url: &str, certificate: Option<ServerCertificate>) -> Result<Self, AddressError> {
        let is_plain = url.starts_with("http://");
        if is_plain && certificate.is_some() {
            return Err(AddressError::PlainWithCertificate);
        }
        Self::trusting(url, certificate.map(Trust::Certificate))
    }

    /// Checks a URL of a server that is known by `trust`; of no use for one with `http`. A server
    /// elsewhere is reached through the proxy that the environment names for it.
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn trusting(url: &str, trust: Option<Trust>) -> Result<Self, AddressError> {
        let direct = Self::direct(url, trust)?;
        if direct.tls.is_none() || is_loopback(&direct.uri) {
            return Ok(direct);
        }
        let proxy = Proxies::from_environment()?.of(&direct.uri);
        Ok(Self { proxy, ..direct })
    }

    fn direct(url: &str, trust: Option<Trust>) -> Result<Self, AddressError> {
        let uri: Uri = url.parse().map_err(|_| AddressError::NotAUrl)?;
        let tls = match (uri.scheme_str(), trust) {
            (Some("http"), _) if is_loopback(&uri) => None,
            (Some("http"), _) => return Err(AddressError::NotLoopback),
            (Some("https"), None) => return Err(AddressError::NoCertificate),
            (Some("https"), Some(trust)) => {
                let config = certificate::client_config(trust);
                Some(Arc::new(config.map_err(|_| AddressError::NoTls)?))
            }
            _ => return Err(AddressError::Scheme),
        };
        Ok(Self { uri, tls, proxy: None })
    }

    /// The proxy on the way, without its password.
    #[must_use]
    pub fn proxy(&self) -> Option<String> {
        self.proxy.as_ref().map(ToString::to_string)
    }

    /// Opens a connection; `configure` sets time limits and keep-alives.
    ///
    /// # Errors
    /// [`Error`] when nothing answers there, or it is not the server that was named.
    pub async fn connect(
        &self,
        configure: impl FnOnce(Endpoint) -> Endpoint,
    ) -> Result<Channel, Error> {
        let Some(tls) = self.tls.clone() else {
            let endpoint = configure(Endpoint::from(self.uri.clone())).tcp_nodelay(true);
            return endpoint.connect().await;
        };
        // The transport sees a plain address and this connector's bytes; requests carry the real
        // one.
        let authority = self.uri.authority().map_or("", |authority| authority.as_str());
        let plain = Endpoint::from_shared(format!("http://{authority}"))?;
        let endpoint = configure(plain.origin(self.uri.clone()));
        let server = self.clone();
        let connector = tower::service_fn(move |_: Uri| {
            let (server, tls) = (server.clone(), Arc::clone(&tls));
            async move { server.dial(tls).await.map(TokioIo::new) }
        });
        endpoint.connect_with_connector(connector).await
    }

    async fn dial(&self, tls: Arc<ClientConfig>) -> io::Result<TlsStream<TcpStream>> {
        let (host, port) = (bare_host(&self.uri), self.uri.port_u16().unwrap_or(443));
        let stream = match &self.proxy {
            None => TcpStream::connect((host, port)).await?,
            Some(proxy) => proxy.connect(self.uri.host().unwrap_or_default(), port).await?,
        };
        stream.set_nodelay(true)?;
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let secured = TlsConnector::from(tls).connect(name, stream).await.map_err(in_words);
        let stream = secured.map_err(|error| match &self.proxy {
            None => error,
            Some(proxy) => io::Error::other(format!("{error} (through the proxy {proxy})")),
        })?;
        if stream.get_ref().1.alpn_protocol() == Some(ALPN) {
            Ok(stream)
        } else {
            Err(io::Error::other("the server does not speak HTTP/2"))
        }
    }
}

/// Makes ring the cryptography of everything in the process that does not name its own; the first
/// thing that a program does.
pub fn install_cryptography() {
    // The second call finds the first one's.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// The sentence of this module's own check, which the library would print as a structure.
fn in_words(error: io::Error) -> io::Error {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(why)))) => {
            io::Error::other(why.to_string())
        }
        _ => error,
    }
}

fn is_loopback(uri: &Uri) -> bool {
    let host = bare_host(uri);
    host == "localhost" || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Without the brackets of an IPv6 address.
fn bare_host(uri: &Uri) -> &str {
    uri.host().unwrap_or_default().trim_matches(['[', ']'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn certificate() -> ServerCertificate {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        ServerCertificate::from_pem(made.cert.pem().as_bytes()).unwrap()
    }

    #[test]
    fn loopback_has_three_spellings_and_both_schemes() {
        for host in ["localhost:7443", "[::1]:7443", "127.8.0.1:1"] {
            assert!(ServerAddress::new(&format!("http://{host}"), None).is_ok(), "{host}");
            let secure = ServerAddress::new(&format!("https://{host}"), Some(certificate()));
            assert_eq!(secure.unwrap().to_string(), format!("https://{host}"));
        }
    }

    #[test]
    fn what_cannot_be_checked_is_refused_with_what_to_do() {
        let refused = |url, certificate| ServerAddress::new(url, certificate).err();
        assert_eq!(refused("https://127.0.0.1:1", None), Some(AddressError::NoCertificate));
        assert!(AddressError::NoCertificate.to_string().contains("--server-certificate FILE"));
        let plain = refused("http://127.0.0.1:1", Some(certificate()));
        assert_eq!(plain, Some(AddressError::PlainWithCertificate));
        for url in ["http://10.0.0.1:7443", "http://evil", "http://127.0.0.1.evil"] {
            assert_eq!(refused(url, None), Some(AddressError::NotLoopback), "{url}");
            let pinned = ServerAddress::trusting(url, Some(Trust::Join(TlsTrust::Web)));
            assert_eq!(pinned.err(), Some(AddressError::NotLoopback), "{url}");
        }
        assert!(ServerAddress::new("https://10.0.0.1:7443", Some(certificate())).is_ok());
        for url in ["ftp://127.0.0.1", "127.0.0.1:7443", "/socket"] {
            assert_eq!(refused(url, None), Some(AddressError::Scheme), "{url}");
        }
        assert_eq!(refused("no url", None), Some(AddressError::NotAUrl));
    }
}
