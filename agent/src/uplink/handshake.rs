//! Hello, challenge, proof, welcome; and the clocks.

use ed25519_dalek::{Signature, Signer, VerifyingKey};
use leasewatch_core::delivery::{ClockEstimate, Ending, SpoolIndex, TimeExchange};
use leasewatch_core::evidence::identity::ServerNotice;
use leasewatch_proto::convert::{
    Challenge, Claim, Hello, Proof, TimeEcho, TimeProbe, Welcome, statement_from_wire,
};
use leasewatch_proto::v1;
use leasewatch_proto::v1::agent_message::Kind as Up;

use super::{Uplink, now, pace, random_bytes};
use crate::clock;
use crate::enrollment::Servers;
use crate::identity::{IdentityError, accept_server, keep_notice, keep_session, last_session};

/// Why the other end is not the server that this node trusts.
#[derive(Debug, thiserror::Error)]
enum ServerRefused {
    #[error("its challenge is malformed: {0}")]
    Malformed(#[from] leasewatch_proto::convert::ConvertError),
    #[error("its signature does not hold")]
    Signature,
    #[error("it shows another identity key than at first, and no rotation that leads there")]
    KeyChanged,
    #[error(transparent)]
    Pin(#[from] IdentityError),
}

impl Uplink {
    pub(super) fn send_hello(&mut self) {
        let journal = &self.shared.journal;
        let epoch = journal.epoch();
        let (oldest, newest) = journal.with_spool(|spool| {
            let holds = spool.oldest() <= spool.newest();
            (holds.then(|| spool.oldest()), Some(spool.newest()).filter(|newest| newest.0 > 0))
        });
        let hello = Hello {
            public_key: journal.key().verifying_key().to_bytes(),
            client_nonce: random_bytes(),
            chain: journal.chain(),
            epoch: epoch.id,
            life_unit: epoch.life_unit.id,
            oldest,
            newest,
            tenant: self.options.tenant.clone(),
            provider: self.options.provider.clone(),
            node_name: self.options.node_name.clone(),
            origin: epoch.origin,
            agent_version: epoch.version.clone(),
        };
        self.link.open(hello.to_wire());
        self.hello = Some(hello);
    }

    pub(super) fn on_challenge(&mut self, wire: &v1::Challenge) {
        match self.checked(wire) {
            Ok(challenge) => {
                self.challenge = Some(challenge);
                self.sender.on_challenge();
            }
            Err(error) => {
                let pin = self.shared.state_dir.path().join("server.pub");
                tracing::error!(
                    server = %self.server(),
                    error = %error,
                    file = %pin.display(),
                    "this is not the server that the node trusts; nothing was sent to it. If the \
                     server was set up anew on purpose, remove the file and restart the agent"
                );
                self.end(Ending::Refused);
            }
        }
    }

    /// The signature first: only a server that holds the key it shows can be pinned or followed.
    fn checked(&self, wire: &v1::Challenge) -> Result<Challenge, ServerRefused> {
        let challenge = Challenge::from_wire(wire)?;
        let hello = self.hello.as_ref().ok_or(ServerRefused::Signature)?;
        let key = VerifyingKey::from_bytes(&challenge.identity_key)
            .map_err(|_| ServerRefused::Signature)?;
        let message = hello.challenge_message(&challenge.server_nonce);
        key.verify_strict(&message, &Signature::from_bytes(&challenge.signature))
            .map_err(|_| ServerRefused::Signature)?;
        let state_dir = &self.shared.state_dir;
        if accept_server(state_dir, &challenge.identity_key, &challenge.rotations)? {
            Ok(challenge)
        } else {
            Err(ServerRefused::KeyChanged)
        }
    }

    /// What the server says of itself is kept when its identity key has signed it, and used from
    /// the next connection on.
    pub(super) fn on_notice(&mut self, wire: &v1::SignedStatement) {
        let Some(challenge) = self.challenge.as_ref().filter(|_| self.welcome.is_some()) else {
            return;
        };
        let signed = match statement_from_wire(wire) {
            Ok(signed) => signed,
            Err(error) => return tracing::warn!(error = %error, "a notice is malformed"),
        };
        let notice = match ServerNotice::open(&signed, &challenge.identity_key) {
            Ok(notice) => notice,
            Err(error) => return tracing::warn!(error = %error, "a notice does not hold"),
        };
        match keep_notice(&self.shared.state_dir, notice) {
            Ok(true) if self.options.servers.is_kept => self.take_up_addresses(),
            Ok(_) => {}
            Err(error) => tracing::error!(error = %error, "the server's notice cannot be kept"),
        }
    }

    /// The address in use stays the one that is tried next.
    fn take_up_addresses(&mut self) {
        let current = self.server().to_string();
        match Servers::known(self.shared.state_dir.path(), None, None) {
            Ok(Some(addresses)) => {
                let same = addresses.iter().position(|address| address.to_string() == current);
                self.address = same.unwrap_or(0);
                self.options.servers.addresses = addresses;
            }
            Ok(None) => {}
            Err(error) => tracing::error!(error = %error, "the server's addresses are not used"),
        }
    }

    pub(super) fn send_proof(&mut self) {
        let (Some(hello), Some(challenge)) = (&self.hello, &self.challenge) else { return };
        let claim = self.claim();
        let signature = self.shared.journal.key().sign(&challenge.proof_message(hello, &claim));
        self.proof_sent_ms = clock::wall().0;
        let proof = Proof { signature: signature.to_bytes(), claim };
        self.link.send(Up::Proof(proof.to_wire()));
    }

    /// The token until the first welcome, and from then on the number of the last one.
    fn claim(&self) -> Claim {
        let session = last_session(&self.shared.state_dir);
        match &self.options.servers.claim {
            Some(claim) if self.shared.journal.enrolled().is_none() => {
                Claim { token: Some(claim.token.clone()), replaces: claim.replaces, session }
            }
            _ => Claim { session, ..Claim::default() },
        }
    }

    pub(super) fn on_welcome(&mut self, wire: &v1::Welcome) {
        let welcome = match Welcome::from_wire(wire) {
            Ok(welcome) => welcome,
            Err(error) => {
                tracing::error!(error = %error, "the server's welcome is malformed");
                return self.end(Ending::Refused);
            }
        };
        let journal = &self.shared.journal;
        let random = u64::from_le_bytes(random_bytes());
        journal.with_spool(|spool| {
            self.sender.on_welcome(now(), &welcome.delivery(), spool, random);
        });
        if !self.sender.is_open() {
            return;
        }
        // Before anything is said on the stream, which tells the server that it is kept.
        if welcome.session > 0
            && let Err(error) = keep_session(&self.shared.state_dir, welcome.session)
        {
            tracing::error!(
                error = %error,
                "the number of this stream cannot be kept; after a restart this node may look as if \
                 two had its key"
            );
        }
        if let Some(estimate) = offset(self.proof_sent_ms, welcome.server_time.0) {
            journal.set_clock_estimate(estimate, clock::Instant::now());
        }
        journal.on_welcome(welcome.node, welcome.tenant.clone(), welcome.cadence_ms);
        self.live = pace(welcome.live_interval_ms);
        tracing::info!(
            node.id = %welcome.node,
            tenant = %welcome.tenant,
            server = %self.server(),
            cursor = welcome.cursor.sequence.0,
            "welcomed"
        );
        self.welcome = Some(welcome);
        self.welcomed.send_replace(true);
        // Before the backlog: how the node is now does not wait for what was recorded before.
        self.send_live_frame();
        self.live.reset();
    }
}

/// Server time minus node time, from the proof that went out and the welcome that came back: the
/// same arithmetic as the server's, with the parts exchanged.
fn offset(proof_sent_ms: i64, server_time_ms: i64) -> Option<ClockEstimate> {
    let exchange = TimeExchange {
        server_sent_ms: proof_sent_ms,
        agent_received_ms: server_time_ms,
        agent_sent_ms: server_time_ms,
        server_received_ms: clock::wall().0,
    };
    let estimate = exchange.estimate()?;
    Some(ClockEstimate { offset_ms: estimate.offset_ms.checked_neg()?, ..estimate })
}

pub(super) fn time_echo(probe: &v1::TimeProbe) -> Up {
    let TimeProbe { id, server_sent_ms } = TimeProbe::from_wire(probe);
    let agent_received_ms = clock::wall().0;
    let agent_sent_ms = clock::wall().0;
    Up::TimeEcho(TimeEcho { id, server_sent_ms, agent_received_ms, agent_sent_ms }.to_wire())
}
