//! Who is at the other end: reading a hello, checking a proof, finding or enrolling the node.
//!
//! A key that nobody has seen joins with a token, which names tenant and provider. Where enrolment
//! is open, which an operator has to say and which only a loopback port can be, it becomes a node of
//! the tenant that its hello names. From then on the rows decide and hello and token are ignored.
//! Whoever does not prove a key, or shows no good token, learns one text and nothing else.

use std::sync::Arc;

use ed25519_dalek::{Signature, VerifyingKey};
use leasewatch_core::delivery::StoredChain;
use leasewatch_core::evidence::identity::Admission;
use leasewatch_core::evidence::statement;
use leasewatch_core::id::{KeyId, clean_text};
use leasewatch_core::segment::Origin;
use leasewatch_core::time::Timestamp;
use leasewatch_proto::convert::{Challenge, Claim, ConvertError, Hello, Proof};
use leasewatch_proto::v1;
use tonic::Status;

use super::check::NodeFacts;
use super::outbox::busy;
use super::testimony::Testimony;
use super::{GrpcState, introduction, stored_chain};
use crate::live::Introduction;
use crate::sabotage;
use crate::store::chain;
use crate::store::enrollment::{self, Redemption, TokenRefused};
use crate::store::node::{self, NewNode, NodeRow};
use crate::store::session::{self, SessionKey};
use crate::store::{NodeKey, Scope, StoreError, Tx, node_key, provider, segment, tenant};

/// Characters of a node's name.
const NAME_CHARS: usize = 120;
/// When a node that a token does not let in within this minute should come back.
const CROWD_RETRY_MS: u32 = 30_000;

/// What a well-formed hello says, with a key that can prove something. Nothing of it is proven.
#[derive(Debug, Clone)]
pub(super) struct Greeting {
    pub(super) hello: Hello,
    public_key: VerifyingKey,
    /// The node's name, within the bound of its column.
    name: String,
    /// What came with the proof; nothing before it.
    claim: Claim,
}

/// A node that has proven its key.
#[derive(Debug, Clone)]
pub struct ProvenNode {
    /// Its row.
    pub key: NodeKey,
    /// What its segments are held against.
    pub facts: NodeFacts,
}

/// A node that has joined, and where its chain stands.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) node: Arc<ProvenNode>,
    pub(super) session: SessionKey,
    pub(super) chain: StoredChain,
    pub(super) recorded_until: Option<Timestamp>,
    pub(super) agent_version: String,
    /// The key that was proven.
    pub(super) key_id: KeyId,
    /// The number of this stream among those of its key.
    pub(super) number: u64,
    is_contested: bool,
}

/// One text for everything that is not proven.
pub(super) fn unauthenticated() -> Status {
    Status::unauthenticated("not authenticated")
}

impl Greeting {
    /// Reads a hello. The version comes first: nothing else of another version is understood.
    ///
    /// # Errors
    /// The status to end the stream with.
    pub(super) fn read(wire: &v1::Hello) -> Result<Self, Status> {
        let hello = Hello::from_wire(wire).map_err(|error| match error {
            ConvertError::Protocol { .. } => Status::failed_precondition(error.to_string()),
            _ => Status::invalid_argument(error.to_string()),
        })?;
        let public_key = statement::public_key(&hello.public_key).map_err(|_| unauthenticated())?;
        let name = clean_text(&hello.node_name, NAME_CHARS).trim().to_owned();
        if name.is_empty() {
            return Err(Status::invalid_argument("node_name is empty"));
        }
        Ok(Self { hello, public_key, name, claim: Claim::default() })
    }

    /// Checks the node's signature over the transcript and its claim, strictly, and takes the claim
    /// over.
    ///
    /// # Errors
    /// Always the same status.
    pub(super) fn check_proof(
        &mut self,
        challenge: &Challenge,
        proof: &v1::Proof,
    ) -> Result<(), Status> {
        let proof = Proof::from_wire(proof).map_err(|_| unauthenticated())?;
        let message = challenge.proof_message(&self.hello, &proof.claim);
        let signature = Signature::from_bytes(&proof.signature);
        self.public_key.verify_strict(&message, &signature).map_err(|_| unauthenticated())?;
        self.claim = proof.claim;
        Ok(())
    }

    /// Finds or enrolls the node and notes the session. The work runs in a task of its own, so
    /// that it ends whole whatever becomes of its caller.
    ///
    /// # Errors
    /// The status to end the stream with.
    pub(super) async fn join(self, state: &GrpcState) -> Result<Joined, Status> {
        let state = state.clone();
        let work = tokio::spawn(async move { self.join_now(&state).await });
        work.await.unwrap_or_else(|_| Err(unavailable()))
    }

    async fn join_now(self, state: &GrpcState) -> Result<Joined, Status> {
        let now = state.clock.now();
        let attempt = self.join_in_transaction(state, now).await;
        let (joined, known) = attempt.map_err(|failure| failure.into_status(self.key_id()))?;
        let node = joined.node.facts.id;
        state.live.introduce(node, known);
        state.live.admit(node);
        if joined.is_contested {
            tracing::warn!(node.id = %node, "two have the key of this node: it showed an old number");
            state.live.contested(node);
        }
        tracing::info!(
            node.id = %joined.node.facts.id,
            chain.id = %self.hello.chain,
            epoch.id = %self.hello.epoch,
            agent.version = %joined.agent_version.escape_debug(),
            "a node joined"
        );
        Ok(joined)
    }

    async fn join_in_transaction(
        &self,
        state: &GrpcState,
        now: Timestamp,
    ) -> Result<(Joined, Introduction), JoinFailure> {
        let mut tx = state.db.begin(Scope::Ingest).await?;
        let row = self.find_or_enroll(&mut tx, state, now).await?;
        if row.origin != self.hello.origin {
            return Err(JoinFailure::Origin(row.origin));
        }
        let chain = stored_chain(&chain::read(&mut tx, row.key, self.hello.chain).await?);
        let recorded_until = segment::recorded_until(&mut tx, row.key).await?;
        let known = introduction::introduction(&mut tx, &row).await?;
        let session = session::open(&mut tx, row.key, &self.hello.agent_version, now).await?;
        let key_id = self.key_id();
        let shown = self.claim.session.filter(|_| !sabotage::is("copies_ignored"));
        let opened = node_key::open_session(&mut tx, &key_id, shown, now).await?;
        tx.commit().await?;
        let facts = NodeFacts {
            id: row.id,
            tenant: row.tenant,
            chain: self.hello.chain,
            origin: row.origin,
            enrolled_at: row.enrolled_at,
            public_key: self.public_key,
        };
        let node = Arc::new(ProvenNode { key: row.key, facts });
        let agent_version = self.hello.agent_version.clone();
        let joined = Joined {
            node,
            session,
            chain,
            recorded_until,
            agent_version,
            key_id,
            number: opened.session,
            is_contested: opened.is_contested,
        };
        Ok((joined, known))
    }

    async fn find_or_enroll(
        &self,
        tx: &mut Tx,
        state: &GrpcState,
        now: Timestamp,
    ) -> Result<NodeRow, JoinFailure> {
        let options = &state.options;
        let key = *self.public_key.as_bytes();
        let testimony = Testimony { identity: &state.identity, key, at: now };
        if let Some(known) = node::find_by_key(tx, &self.key_id()).await? {
            return match known.revoked_at {
                None => Ok(known.node),
                Some(_) => Err(JoinFailure::Revoked),
            };
        }
        if let Some(token) = &self.claim.token {
            let redemption = Redemption {
                token: token.hash(),
                public_key: self.public_key.as_bytes(),
                replaces: self.claim.replaces,
                name: &self.name,
                origin: self.hello.origin,
                at: now,
            };
            let done = enrollment::redeem(tx, &redemption).await??;
            testimony.of_token(tx, &done).await?;
            return Ok(done.node);
        }
        if !options.open_enrollment || !options.tenants.contains(&self.hello.tenant) {
            return Err(JoinFailure::Unknown);
        }
        let tenant = tenant::ensure(tx, &self.hello.tenant, self.hello.tenant.as_str()).await?;
        let provider =
            provider::ensure(tx, &self.hello.provider, self.hello.provider.as_str()).await?;
        let new = NewNode {
            tenant: tenant.key,
            provider: provider.key,
            public_key: self.public_key.as_bytes(),
            name: &self.name,
            origin: self.hello.origin,
            at: now,
        };
        let row = node::enroll_first_use(tx, new).await?;
        testimony.of_enrollment(tx, &row, Admission::Open).await?;
        Ok(row)
    }

    fn key_id(&self) -> KeyId {
        KeyId::of_public_key(self.public_key.as_bytes())
    }
}

/// Why a proven key is not let in.
#[derive(Debug, thiserror::Error)]
enum JoinFailure {
    #[error("its key was revoked")]
    Revoked,
    #[error("its key is not known, and it shows no token")]
    Unknown,
    #[error(transparent)]
    Token(#[from] TokenRefused),
    #[error("its data is of another origin, the node is {}", .0.name())]
    Origin(Origin),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl JoinFailure {
    fn into_status(self, key: KeyId) -> Status {
        tracing::warn!(key.id = %key, reason = %self, "a node may not join");
        match self {
            Self::Token(TokenRefused::TooMany) => {
                busy("too many nodes join with this token", CROWD_RETRY_MS)
            }
            Self::Revoked | Self::Unknown | Self::Token(_) => unauthenticated(),
            Self::Origin(origin) => Status::failed_precondition(format!(
                "this node's data is {} for its whole life; use another state directory",
                origin.name()
            )),
            Self::Store(_) => unavailable(),
        }
    }
}

/// The store cannot be asked.
pub(super) fn unavailable() -> Status {
    Status::unavailable("the store is not available")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ed25519_dalek::{Signer as _, SigningKey};
    use tonic::Code;

    fn hello() -> v1::Hello {
        v1::Hello {
            protocol: 1,
            public_key: SigningKey::from_bytes(&[3; 32]).verifying_key().to_bytes().to_vec(),
            client_nonce: vec![1; 32],
            chain: vec![2; 16],
            epoch: vec![3; 8],
            life_unit: vec![4; 16],
            tenant: "default".to_owned(),
            provider: "default".to_owned(),
            node_name: "node-1".to_owned(),
            origin: "measured".to_owned(),
            agent_version: "0.1.0".to_owned(),
            ..v1::Hello::default()
        }
    }

    fn refusal(change: impl FnOnce(&mut v1::Hello)) -> (Code, String) {
        let mut hello = hello();
        change(&mut hello);
        let status = Greeting::read(&hello).unwrap_err();
        (status.code(), status.message().to_owned())
    }

    #[test]
    fn another_protocol_is_told_the_supported_range() {
        for protocol in [0, 2, 999, u32::MAX] {
            let (code, text) = refusal(|hello| {
                hello.protocol = protocol;
                hello.public_key.clear();
            });
            assert_eq!(code, Code::FailedPrecondition);
            assert!(text.contains("supports 1 to 1"), "{text}");
        }
    }

    #[test]
    fn keys_that_prove_nothing_are_not_authenticated() {
        let mut small_order = vec![0; 32];
        small_order[0] = 1;
        assert_eq!(refusal(|hello| hello.public_key = small_order).0, Code::Unauthenticated);
    }

    #[test]
    fn malformed_fields_are_named_and_not_repeated() {
        let (code, text) = refusal(|hello| hello.tenant = "../etc".to_owned());
        assert_eq!((code, text.contains("tenant")), (Code::InvalidArgument, true));
        assert!(!text.contains("etc"));
        assert!(refusal(|hello| hello.chain.push(0)).1.contains("chain"));
        assert!(refusal(|hello| hello.node_name = " ".to_owned()).1.contains("node_name"));
    }

    #[test]
    fn a_name_fits_its_column() {
        let long = v1::Hello { node_name: "x".repeat(128), ..hello() };
        assert_eq!(Greeting::read(&long).unwrap().name.len(), NAME_CHARS);
    }

    #[test]
    fn a_proof_is_of_this_key_and_this_challenge() {
        let mut greeting = Greeting::read(&hello()).unwrap();
        let hello = greeting.hello.clone();
        let challenge = |nonce| Challenge {
            server_nonce: [nonce; 32],
            identity_key: [8; 32],
            signature: [0; 64],
            rotations: Vec::new(),
        };
        let proof = |seed: u8, nonce| {
            let message = challenge(nonce).proof_message(&hello, &Claim::default());
            let signature = SigningKey::from_bytes(&[seed; 32]).sign(&message).to_bytes().to_vec();
            v1::Proof { signature, ..v1::Proof::default() }
        };
        assert!(greeting.check_proof(&challenge(1), &proof(3, 1)).is_ok());
        let zeros = v1::Proof { signature: vec![0; 64], ..v1::Proof::default() };
        // A token that somebody on the way put in.
        let slipped_in = v1::Proof { join_token: vec![1; 24], ..proof(3, 1) };
        for wrong in [proof(4, 1), proof(3, 2), v1::Proof::default(), zeros, slipped_in] {
            let status = greeting.check_proof(&challenge(1), &wrong).unwrap_err();
            assert_eq!(status.message(), "not authenticated");
        }
    }
}
