//! What the server shows of itself: its certificate, and the notice that tells nodes of it.
//!
//! The files are looked at every few seconds, so that a renewed certificate, a next one and its
//! take-over need no restart. What cannot be read is told once and changes nothing: the certificate
//! that is shown goes on. Not here: making certificates (`certificate`).

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use leasewatch_core::evidence::identity::{NOTICE_ADDRESSES, ServerNotice, SignedStatement};
use leasewatch_core::evidence::statement::StatementKind;
use leasewatch_core::id::Hash;
use leasewatch_core::join::{JoinAddress, TlsTrust};
use leasewatch_core::time::Timestamp;
use rustls::ServerConfig;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

use super::certificate::{Certificate, CertificateError};
use super::in_front;
use crate::clock::Clock;
use crate::config::{GivenCertificate, NodeCertificate, ServeOptions};
use crate::identity::Identity;

/// The usual time between two looks at the files.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Where the certificate comes from, and what else nodes are told.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) data_dir: PathBuf,
    pub(super) given: Option<GivenCertificate>,
    /// What nodes see where a proxy stands in front.
    pub(super) in_front: Option<NodeCertificate>,
    /// Where nodes reach the server, as an operator said; nothing that was guessed.
    pub(super) addresses: Vec<JoinAddress>,
    pub(super) identity: Arc<Identity>,
    pub(super) clock: Clock,
}

/// What is shown now, and each change of it.
#[derive(Debug, Clone)]
pub(super) struct Showing {
    /// TLS 1.3 with the certificate.
    pub(super) tls: watch::Receiver<Arc<ServerConfig>>,
    /// How nodes know the certificate that they see.
    pub(super) trust: watch::Receiver<TlsTrust>,
    /// What nodes are told.
    pub(super) notice: watch::Receiver<Option<SignedStatement>>,
    /// Where the certificate lies, and its SHA-256, at the start.
    pub(super) file: PathBuf,
    pub(super) fingerprint: String,
}

/// What a look at the files found.
struct Look {
    certificate: Certificate,
    next: Option<Certificate>,
    trust: TlsTrust,
}

impl Source {
    pub(super) fn new(options: &ServeOptions, identity: Arc<Identity>, clock: Clock) -> Self {
        Self {
            data_dir: options.data_dir.clone(),
            given: options.tls.clone(),
            in_front: options.node_certificate.clone(),
            addresses: options.node_addresses.clone(),
            identity,
            clock,
        }
    }

    /// Reads the certificate, or makes one, and follows its files for as long as the runtime lives.
    ///
    /// # Errors
    /// When there is nothing to begin with.
    pub(super) fn show(self, every: Duration) -> anyhow::Result<Showing> {
        let mut stamps = self.stamps();
        let first = self.look()?;
        let (to_tls, tls) = watch::channel(Arc::clone(&first.certificate.config));
        let (to_trust, trust) = watch::channel(first.trust);
        let (to_notice, notice) = watch::channel(Some(self.notice(&first)));
        let file = first.certificate.path.clone();
        let fingerprint = first.certificate.fingerprint.clone();
        tokio::spawn(async move {
            let mut ticks = interval(every);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let now = self.stamps();
                if std::mem::replace(&mut stamps, now.clone()) == now {
                    continue;
                }
                match self.look() {
                    Ok(look) => {
                        tracing::info!(
                            sha256 = look.certificate.fingerprint,
                            next = look.next.is_some(),
                            "https shows the certificate that lies there now"
                        );
                        to_tls.send_replace(Arc::clone(&look.certificate.config));
                        to_trust.send_replace(look.trust);
                        to_notice.send_replace(Some(self.notice(&look)));
                    }
                    Err(error) => tracing::error!(
                        error = format!("{error:#}"),
                        "the certificate cannot be read anew; https goes on with the one before"
                    ),
                }
            }
        });
        Ok(Showing { tls, trust, notice, file, fingerprint })
    }

    fn look(&self) -> anyhow::Result<Look> {
        let (certificate, next) = self.own()?;
        let trust = match &self.in_front {
            Some(seen) => in_front(seen)?,
            None => TlsTrust::Pin(certificate.pin),
        };
        Ok(Look { certificate, next, trust })
    }

    fn own(&self) -> Result<(Certificate, Option<Certificate>), CertificateError> {
        if let Some(given) = &self.given {
            return Ok((Certificate::given(&given.certificate, &given.key)?, None));
        }
        let certificate = Certificate::load_or_create(&self.data_dir, self.clock.now())?;
        Ok((certificate, Certificate::next(&self.data_dir)?))
    }

    fn notice(&self, look: &Look) -> SignedStatement {
        let at: Timestamp = self.clock.now();
        let next = look.next.iter().map(|next| next.pin);
        // Behind a proxy nodes never see the server's own.
        let pins: Vec<Hash> = match (&self.in_front, look.trust) {
            (None, _) => [look.certificate.pin].into_iter().chain(next).collect(),
            (Some(_), TlsTrust::Pin(pin)) => vec![pin],
            (Some(_), TlsTrust::Web) => Vec::new(),
        };
        let notice = ServerNotice {
            at,
            recovery: self.identity.recovery(),
            pins,
            addresses: self.addresses.iter().take(NOTICE_ADDRESSES).cloned().collect(),
        };
        self.identity.sign_statement(StatementKind::ServerNotice, notice.statement())
    }

    /// What changes when a file does: its place on disk, size and time. `None` = not there.
    fn stamps(&self) -> Vec<Option<(u64, u64, i64, i64)>> {
        let mut files = match &self.given {
            Some(given) => vec![given.certificate.clone(), given.key.clone()],
            None => ["tls", "tls.next"]
                .iter()
                .flat_map(|folder| ["certificate.pem", "key.pem"].map(|name| (folder, name)))
                .map(|(folder, name)| self.data_dir.join(folder).join(name))
                .collect(),
        };
        if let Some(NodeCertificate::File(file)) = &self.in_front {
            files.push(file.clone());
        }
        let stamp = |file: &PathBuf| {
            let found = fs::metadata(file).ok()?;
            Some((found.ino(), found.size(), found.mtime(), found.mtime_nsec()))
        };
        files.iter().map(stamp).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_790_000_000_000);

    fn source(data_dir: &std::path::Path, given: Option<GivenCertificate>) -> Source {
        Source {
            data_dir: data_dir.to_owned(),
            given,
            in_front: None,
            addresses: vec![JoinAddress::new("https://watch.example.org").unwrap()],
            identity: Arc::new(Identity::of_server(data_dir).unwrap()),
            clock: Clock::manual(NOW),
        }
    }

    fn said(showing: &Showing, identity: &Identity) -> ServerNotice {
        let signed = showing.notice.borrow().clone().unwrap();
        ServerNotice::open(&signed, &identity.public_key()).unwrap()
    }

    #[tokio::test]
    async fn a_next_certificate_is_announced_and_then_shown_without_a_restart() {
        let temp = tempfile::tempdir().unwrap();
        let source = source(temp.path(), None);
        let identity = Arc::clone(&source.identity);
        let mut showing = source.show(Duration::from_millis(5)).unwrap();
        let first = said(&showing, &identity);
        assert_eq!((first.pins.len(), first.addresses.len()), (1, 1));
        assert_eq!(first.recovery, identity.recovery());
        let next = Certificate::make_next(temp.path(), NOW).unwrap();
        let announced = |notice: &Option<SignedStatement>| {
            let signed = notice.clone().unwrap();
            ServerNotice::from_statement(&signed.statement).unwrap().pins.len() == 2
        };
        showing.notice.wait_for(announced).await.unwrap();
        assert_eq!(said(&showing, &identity).pins, [first.pins[0], next.pin]);
        assert_eq!(*showing.trust.borrow(), TlsTrust::Pin(first.pins[0]));
        Certificate::take_over(temp.path()).unwrap();
        showing.trust.wait_for(|trust| *trust == TlsTrust::Pin(next.pin)).await.unwrap();
        showing.notice.wait_for(|notice| !announced(notice)).await.unwrap();
        assert_eq!(said(&showing, &identity).pins, [next.pin]);
    }

    #[tokio::test]
    async fn a_given_certificate_is_read_anew_and_one_that_is_broken_changes_nothing() {
        let (temp, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let pins = [temp.path(), other.path()]
            .map(|directory| Certificate::load_or_create(directory, NOW).unwrap().pin);
        let (certificate, key) =
            (temp.path().join("tls/certificate.pem"), temp.path().join("tls/key.pem"));
        let given = GivenCertificate { certificate: certificate.clone(), key: key.clone() };
        let mut showing = source(temp.path(), Some(given)).show(Duration::from_millis(5)).unwrap();
        assert_eq!(*showing.trust.borrow_and_update(), TlsTrust::Pin(pins[0]));
        fs::write(&certificate, "half").unwrap();
        fs::copy(other.path().join("tls/key.pem"), &key).unwrap();
        fs::copy(other.path().join("tls/certificate.pem"), &certificate).unwrap();
        showing.trust.changed().await.unwrap();
        assert_eq!(*showing.trust.borrow(), TlsTrust::Pin(pins[1]));
    }

    #[tokio::test]
    async fn behind_a_proxy_nodes_are_told_of_its_certificate_alone() {
        let (temp, proxy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let seen = Certificate::load_or_create(proxy.path(), NOW).unwrap();
        let file = proxy.path().join("tls/certificate.pem");
        Certificate::load_or_create(temp.path(), NOW).unwrap();
        Certificate::make_next(temp.path(), NOW).unwrap();
        for (in_front, trust, pins) in [
            (NodeCertificate::File(file), TlsTrust::Pin(seen.pin), vec![seen.pin]),
            (NodeCertificate::Web, TlsTrust::Web, vec![]),
        ] {
            let source = Source { in_front: Some(in_front), ..source(temp.path(), None) };
            let identity = Arc::clone(&source.identity);
            let showing = source.show(Duration::from_millis(5)).unwrap();
            assert_eq!((*showing.trust.borrow(), said(&showing, &identity).pins), (trust, pins));
        }
    }
}
