//! What a client takes for the server's certificate, and nothing else.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use leasewatch_core::id::Hash;
use leasewatch_core::join::TlsTrust;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, PeerIncompatible,
    RootCertStore, SignatureScheme,
};

use super::{ALPN, Trust};

/// The most bytes of a certificate's file.
const FILE_BYTES: u64 = 65_536;

/// Why a file is not the certificate of a server.
#[derive(Debug, thiserror::Error)]
pub enum CertificateFileError {
    /// It cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// Nothing, several, or something else.
    #[error("must hold exactly one certificate in PEM form, and holds {0}")]
    NotOne(usize),
}

/// A server's certificate as it was given to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerCertificate(CertificateDer<'static>);

impl ServerCertificate {
    /// Reads a file.
    ///
    /// # Errors
    /// [`CertificateFileError`].
    pub fn read(path: &Path) -> Result<Self, CertificateFileError> {
        let mut bytes = Vec::new();
        File::open(path)?.take(FILE_BYTES).read_to_end(&mut bytes)?;
        Self::from_pem(&bytes)
    }

    /// Reads the first certificate of a file, which others may stand behind that vouch for it.
    ///
    /// # Errors
    /// [`CertificateFileError`].
    pub fn read_first(path: &Path) -> Result<Self, CertificateFileError> {
        let mut bytes = Vec::new();
        File::open(path)?.take(FILE_BYTES).read_to_end(&mut bytes)?;
        let first = CertificateDer::pem_slice_iter(&bytes).find_map(Result::ok);
        first.map(Self).ok_or(CertificateFileError::NotOne(0))
    }

    /// Reads a PEM text.
    ///
    /// # Errors
    /// [`CertificateFileError::NotOne`].
    pub fn from_pem(pem: &[u8]) -> Result<Self, CertificateFileError> {
        let found: Vec<_> = CertificateDer::pem_slice_iter(pem).filter_map(Result::ok).collect();
        match <[_; 1]>::try_from(found) {
            Ok([only]) => Ok(Self(only)),
            Err(found) => Err(CertificateFileError::NotOne(found.len())),
        }
    }

    /// Its bytes.
    #[must_use]
    pub fn der(&self) -> &CertificateDer<'static> {
        &self.0
    }

    /// SHA-256 of it, as programs that show certificates write it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.0)
    }
}

/// A client that speaks TLS 1.3 with who is trusted and nobody else.
///
/// # Errors
/// [`Error`] when ring cannot do TLS 1.3, which a build decides.
pub(super) fn client_config(trust: Trust) -> Result<ClientConfig, Error> {
    let expected = match trust {
        Trust::Certificate(certificate) => Expected::Certificate(certificate.0),
        Trust::Join(TlsTrust::Pin(pin)) => Expected::PublicKeys(vec![pin]),
        Trust::Pins(pins) => Expected::PublicKeys(pins),
        Trust::Join(TlsTrust::Web) => {
            let roots = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
            return web_config(roots);
        }
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Exactly { expected, algorithms }))
        .with_no_client_auth();
    Ok(over_http2(config))
}

/// As browsers check: a chain to one of the roots, the name, the dates.
fn web_config(roots: RootCertStore) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(over_http2(config))
}

fn over_http2(mut config: ClientConfig) -> ClientConfig {
    config.alpn_protocols = vec![ALPN.to_vec()];
    config
}

/// SHA-256 of a certificate's public key (its SubjectPublicKeyInfo): what a join string pins. It
/// stays the same when the certificate is issued again for the same key.
///
/// # Errors
/// [`Error`] when the bytes are no certificate.
pub fn public_key_hash(certificate: &CertificateDer<'_>) -> Result<Hash, Error> {
    let parsed = ParsedCertificate::try_from(certificate)?;
    Ok(Hash::of(&parsed.subject_public_key_info()))
}

/// SHA-256 of a certificate's DER bytes: `AB:CD:..`.
#[must_use]
pub fn fingerprint(der: &[u8]) -> String {
    let pairs: Vec<String> = Hash::of(der).0.iter().map(|byte| format!("{byte:02X}")).collect();
    pairs.join(":")
}

/// Takes one certificate, or those of one key, and no other; that the other end holds the key is
/// checked as always.
#[derive(Debug)]
struct Exactly {
    expected: Expected,
    algorithms: WebPkiSupportedAlgorithms,
}

#[derive(Debug)]
enum Expected {
    Certificate(CertificateDer<'static>),
    PublicKeys(Vec<Hash>),
}

impl Expected {
    fn is_met_by(&self, shown: &CertificateDer<'_>) -> bool {
        match self {
            Self::Certificate(expected) => expected.as_ref() == shown.as_ref(),
            Self::PublicKeys(pins) => public_key_hash(shown).is_ok_and(|hash| pins.contains(&hash)),
        }
    }
}

/// The server shows another certificate than the one that was given.
#[derive(Debug)]
struct AnotherCertificate(String);

impl fmt::Display for AnotherCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the server shows another certificate than the one given, with SHA-256 {}",
            self.0
        )
    }
}

impl std::error::Error for AnotherCertificate {}

impl ServerCertVerifier for Exactly {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.expected.is_met_by(end_entity) {
            return Ok(ServerCertVerified::assertion());
        }
        let other = AnotherCertificate(fingerprint(end_entity));
        Err(CertificateError::Other(OtherError(Arc::new(other))).into())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // Only TLS 1.3 is offered.
        Err(PeerIncompatible::ServerDoesNotSupportTls12Or13.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::PrivateKeyDer;
    use rustls::{ClientConnection, ServerConfig, ServerConnection};

    use super::*;

    fn pem() -> String {
        rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap().cert.pem()
    }

    #[test]
    fn a_file_holds_one_certificate_and_nothing_else_is_taken_for_it() {
        let held = |text: &str| match ServerCertificate::from_pem(text.as_bytes()) {
            Ok(_) => 1,
            Err(CertificateFileError::NotOne(count)) => count,
            Err(error) => panic!("{error}"),
        };
        assert_eq!(held(&pem()), 1);
        assert_eq!(held(&(pem() + &pem())), 2);
        assert_eq!(held(""), 0);
        assert_eq!(held(&pem()[..200]), 0);
        assert_eq!(held(&rcgen::KeyPair::generate().unwrap().serialize_pem()), 0);
    }

    #[test]
    fn a_file_is_read_and_a_missing_one_named_as_such() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("certificate.pem");
        assert!(matches!(ServerCertificate::read(&path), Err(CertificateFileError::Io(_))));
        std::fs::write(&path, pem()).unwrap();
        let read = ServerCertificate::read(&path).unwrap();
        assert_eq!(read.fingerprint().len(), 32 * 3 - 1);
        assert!(read.fingerprint().split(':').all(|pair| pair.len() == 2));
    }

    fn server(chain: Vec<CertificateDer<'static>>, key: &rcgen::KeyPair) -> Arc<ServerConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(chain, key);
        Arc::new(config.unwrap())
    }

    /// Both ends in memory, until the client is content or has seen enough.
    fn shake_hands(
        client: ClientConfig,
        server: &Arc<ServerConfig>,
        name: &str,
    ) -> Result<(), Error> {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
        let mut server = ServerConnection::new(Arc::clone(server)).unwrap();
        while client.is_handshaking() {
            let mut wire = Vec::new();
            client.write_tls(&mut wire).unwrap();
            server.read_tls(&mut wire.as_slice()).unwrap();
            // What the server thinks of it is not asked here.
            let _ = server.process_new_packets();
            let mut wire = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut wire).unwrap();
            }
            client.read_tls(&mut wire.as_slice()).unwrap();
            client.process_new_packets()?;
        }
        Ok(())
    }

    fn self_signed(key: &rcgen::KeyPair, name: &str) -> CertificateDer<'static> {
        let parameters = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
        parameters.self_signed(key).unwrap().der().clone()
    }

    #[test]
    fn a_pin_takes_every_certificate_of_its_key_and_no_other() {
        let (key, other) =
            (rcgen::KeyPair::generate().unwrap(), rcgen::KeyPair::generate().unwrap());
        let pin = public_key_hash(&self_signed(&key, "localhost")).unwrap();
        let pinned = || client_config(Trust::Join(TlsTrust::Pin(pin))).unwrap();
        // Issued again, for another name.
        let renewed = server(vec![self_signed(&key, "elsewhere")], &key);
        assert_eq!(shake_hands(pinned(), &renewed, "127.0.0.1"), Ok(()));
        let foreign = server(vec![self_signed(&other, "localhost")], &other);
        let refused = shake_hands(pinned(), &foreign, "localhost").unwrap_err();
        assert!(refused.to_string().contains("AnotherCertificate"), "{refused}");
    }

    #[test]
    fn web_asks_an_authority_and_the_name() {
        let (key, authority_key) =
            (rcgen::KeyPair::generate().unwrap(), rcgen::KeyPair::generate().unwrap());
        let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
        parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = parameters.self_signed(&authority_key).unwrap().der().clone();
        let issuer = rcgen::Issuer::new(parameters, authority_key);
        let leaf = rcgen::CertificateParams::new(vec!["watch.example.org".to_owned()]).unwrap();
        let leaf = leaf.signed_by(&key, &issuer).unwrap().der().clone();
        let vouched_for = server(vec![leaf], &key);
        let trusting_it = || {
            let mut roots = RootCertStore::empty();
            roots.add(authority.clone()).unwrap();
            web_config(roots).unwrap()
        };
        assert_eq!(shake_hands(trusting_it(), &vouched_for, "watch.example.org"), Ok(()));
        assert!(shake_hands(trusting_it(), &vouched_for, "evil.example.org").is_err());
        let public = || client_config(Trust::Join(TlsTrust::Web)).unwrap();
        assert!(shake_hands(public(), &vouched_for, "watch.example.org").is_err());
    }
}
