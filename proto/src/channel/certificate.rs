//! The one certificate that a client trusts.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use leasewatch_core::id::Hash;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, OtherError, PeerIncompatible,
    SignatureScheme,
};

use super::ALPN;

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

    /// SHA-256 of it, as programs that show certificates write it.
    #[must_use]
    pub fn fingerprint(&self) -> String {
        fingerprint(&self.0)
    }

    /// A client that speaks TLS 1.3 with the holder of this certificate's key and nobody else.
    ///
    /// # Errors
    /// [`Error`] when ring cannot do TLS 1.3, which a build decides.
    pub(super) fn client_config(self) -> Result<ClientConfig, Error> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let algorithms = provider.signature_verification_algorithms;
        let verifier = Arc::new(Exactly { certificate: self.0, algorithms });
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(config)
    }
}

/// SHA-256 of a certificate's DER bytes: `AB:CD:..`.
#[must_use]
pub fn fingerprint(der: &[u8]) -> String {
    let pairs: Vec<String> = Hash::of(der).0.iter().map(|byte| format!("{byte:02X}")).collect();
    pairs.join(":")
}

/// Takes one certificate and no other; that the other end holds its key is checked as always.
#[derive(Debug)]
struct Exactly {
    certificate: CertificateDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
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
        if end_entity.as_ref() == self.certificate.as_ref() {
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
}
