//! The node's proof, and what goes with it to a server that has proven itself: the secret of a join
//! string, the node that is taken over, the number of the last stream.

use leasewatch_core::id::{Hash, NodeId};
use leasewatch_core::join::JoinToken;

use super::{Challenge, ConvertError, Hello, exactly};
use crate::v1;

/// What a node says about itself beside its proof. Everything may be absent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claim {
    /// Of a node whose key the server may not know.
    pub token: Option<JoinToken>,
    /// The node that this key takes over; only with a token.
    pub replaces: Option<NodeId>,
    /// The number of the last welcome that the node kept.
    pub session: Option<u64>,
}

/// The node's proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// Over [`Challenge::proof_message`].
    pub signature: [u8; 64],
    /// What it is bound to.
    pub claim: Claim,
}

impl Claim {
    /// What the signature stands over for it: nothing when it says nothing, otherwise SHA-256 of
    /// the text `leasewatch/claim/v1` and its fields, each as a big-endian 32-bit length and its
    /// bytes.
    fn hash(&self) -> Option<Hash> {
        if *self == Self::default() {
            return None;
        }
        let token = self.token.as_ref().map_or(&[][..], |token| &token.0);
        let replaces = self.replaces.as_ref().map_or(&[][..], |node| &node.0);
        let session = self.session.map_or(Vec::new(), |session| session.to_be_bytes().to_vec());
        let mut bytes = Vec::with_capacity(96);
        for field in [b"leasewatch/claim/v1".as_slice(), token, replaces, &session] {
            // Every field is bounded far below 2^32.
            bytes.extend_from_slice(&u32::try_from(field.len()).unwrap_or(u32::MAX).to_be_bytes());
            bytes.extend_from_slice(field);
        }
        Some(Hash::of(&bytes))
    }
}

impl Challenge {
    /// What the node signs in answer: it names the server that it talks to, and nobody on the way
    /// can change what the node claims.
    #[must_use]
    pub fn proof_message(&self, hello: &Hello, claim: &Claim) -> Vec<u8> {
        let prefix = b"leasewatch/session-proof/v1\n".as_slice();
        let hash = hello.hash();
        let mut message =
            [prefix, &self.server_nonce, &hello.client_nonce, &hash.0, &self.identity_key].concat();
        message.extend(claim.hash().iter().flat_map(|hash| hash.0));
        message
    }
}

impl Proof {
    /// Reads a proof.
    ///
    /// # Errors
    /// [`ConvertError::Length`]; [`ConvertError::Range`] for a node that is taken over without a
    /// token.
    pub fn from_wire(wire: &v1::Proof) -> Result<Self, ConvertError> {
        let token = match wire.join_token.len() {
            0 => None,
            _ => Some(JoinToken(exactly("join_token", &wire.join_token)?)),
        };
        let replaces = match wire.replaces.len() {
            0 => None,
            _ => Some(NodeId(exactly("replaces", &wire.replaces)?)),
        };
        if replaces.is_some() && token.is_none() {
            return Err(ConvertError::Range { field: "replaces" });
        }
        let session = Some(wire.session).filter(|session| *session > 0);
        let signature = exactly("signature", &wire.signature)?;
        Ok(Self { signature, claim: Claim { token, replaces, session } })
    }

    /// The message.
    #[must_use]
    pub fn to_wire(&self) -> v1::Proof {
        let Claim { token, replaces, session } = &self.claim;
        v1::Proof {
            signature: self.signature.to_vec(),
            join_token: token.as_ref().map_or_else(Vec::new, |token| token.0.to_vec()),
            replaces: replaces.map_or_else(Vec::new, |node| node.0.to_vec()),
            session: session.unwrap_or(0),
        }
    }
}

#[cfg(test)]
mod tests {
    use leasewatch_core::id::{ChainId, EpochId, LifeUnitId, Slug};
    use leasewatch_core::segment::Origin;

    use super::*;

    fn hello() -> Hello {
        Hello {
            public_key: [1; 32],
            client_nonce: [2; 32],
            chain: ChainId([3; 16]),
            epoch: EpochId([4; 8]),
            life_unit: LifeUnitId([5; 16]),
            oldest: None,
            newest: None,
            tenant: Slug::new("default").unwrap(),
            provider: Slug::new("demo").unwrap(),
            node_name: "gpu-1".to_owned(),
            origin: Origin::Simulated,
            agent_version: "0.1.0".to_owned(),
        }
    }

    fn claim() -> Claim {
        Claim { token: Some(JoinToken([1; 24])), replaces: Some(NodeId([2; 16])), session: Some(3) }
    }

    fn challenge(key: u8) -> Challenge {
        let (server_nonce, signature) = ([9; 32], [0; 64]);
        Challenge { server_nonce, identity_key: [key; 32], signature, rotations: Vec::new() }
    }

    #[test]
    fn a_proof_is_bound_to_the_server_it_was_made_for() {
        let proof = |key| challenge(key).proof_message(&hello(), &Claim::default());
        assert_ne!(proof(1), proof(2));
        assert!(proof(1).starts_with(b"leasewatch/session-proof/v1\n"));
        assert!(hello().challenge_message(&[9; 32]).starts_with(b"leasewatch/session/v1\n"));
    }

    #[test]
    fn a_proof_is_bound_to_each_thing_that_is_claimed() {
        let message = |claim: &Claim| challenge(1).proof_message(&hello(), claim);
        // One that claims nothing is the proof of before there was anything to claim.
        let bare = message(&Claim::default());
        assert_eq!(bare.len(), 28 + 4 * 32);
        let changes: [fn(&mut Claim); 6] = [
            |c| c.token = None,
            |c| c.token = Some(JoinToken([9; 24])),
            |c| c.replaces = None,
            |c| c.replaces = Some(NodeId([3; 16])),
            |c| c.session = None,
            |c| c.session = Some(4),
        ];
        for (index, change) in changes.iter().enumerate() {
            let mut other = claim();
            change(&mut other);
            assert_ne!(message(&other), message(&claim()), "change {index}");
            assert_ne!(message(&other), bare, "change {index}");
        }
    }

    #[test]
    fn a_proof_survives_the_wire() {
        for claim in [Claim::default(), claim()] {
            let proof = Proof { signature: [4; 64], claim };
            assert_eq!(Proof::from_wire(&proof.to_wire()), Ok(proof));
        }
    }

    #[test]
    fn hostile_proofs_are_refused() {
        let refused = |change: fn(&mut v1::Proof)| {
            let mut wire = Proof { signature: [4; 64], claim: claim() }.to_wire();
            change(&mut wire);
            Proof::from_wire(&wire).map_err(|error| error.code())
        };
        assert_eq!(refused(|p| p.signature.truncate(63)), Err("bad_length"));
        assert_eq!(refused(|p| p.join_token = vec![0; 1 << 20]), Err("bad_length"));
        assert_eq!(refused(|p| p.replaces.truncate(15)), Err("bad_length"));
        assert_eq!(refused(|p| p.join_token.clear()), Err("out_of_range"));
    }
}
