//! Statements: canonical JSON objects that somebody signs or commits to.
//!
//! A statement has a `kind` and typed fields; each field has one type for ever. Here are the kinds,
//! the leaf hash, signatures, a builder and a reader whose errors name the field. Not here: what
//! the kinds say (`chain` for heads, `metering` for hours).

mod builder;
mod fields;

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use sha2::{Digest, Sha256};

pub use builder::StatementBuilder;
pub use fields::{Fields, StatementError};

use crate::id::Hash;

macro_rules! statement_kinds {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)+) => {
        /// What a statement is about.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum StatementKind {
            $($(#[$doc])* $variant,)+
        }

        impl StatementKind {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The text of the field `kind`, and of the signing prefix.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

statement_kinds! {
    /// A node joined.
    Enrollment = "enrollment",
    /// Host and GPUs of a node, and each later change.
    Inventory = "inventory",
    /// The signed header of a segment.
    Head = "head",
    /// A planned stop.
    Goodbye = "goodbye",
    /// A chain begins.
    ChainStart = "chain_start",
    /// A range of sequences will never come.
    Drop = "drop",
    /// The heads that were committed in a minute.
    Minute = "minute",
    /// A key is no longer valid.
    Revocation = "revocation",
    /// A key of a node takes the place of another.
    Rotation = "rotation",
    /// A server's identity key takes the place of another.
    ServerRotation = "server_rotation",
    /// What nodes need to find their server again.
    ServerNotice = "server_notice",
    /// A key is used by two.
    Contested = "contested",
    /// One revision of an hour record.
    Hour = "hour",
    /// Which lease covers which slot.
    Assignment = "assignment",
    /// Lease terms and profile in force.
    Terms = "terms",
    /// States of a slot.
    Availability = "availability",
    /// An interval in which a finding held.
    Incident = "incident",
    /// The arithmetic of an objective.
    Verdict = "verdict",
    /// What is filed with the provider.
    Claim = "claim",
    /// A successor log begins.
    LogBreak = "log_break",
    /// What is in a bundle.
    Manifest = "manifest",
}

/// The leaf hash of committed bytes: SHA-256(0x00 || bytes), as in RFC 6962.
#[must_use]
pub fn leaf_hash(bytes: &[u8]) -> Hash {
    Hash(Sha256::new().chain_update([0]).chain_update(bytes).finalize().into())
}

/// A signature that does not hold, or a key that must not be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// Not 32 bytes, not a point of the curve, or of small order.
    #[error("the public key is not a usable Ed25519 key")]
    Key,
    /// Not 64 bytes, or not made by this key over these bytes and this kind.
    #[error("the signature does not hold")]
    Signature,
}

/// Reads a public key (32 bytes) and refuses keys of small order.
///
/// # Errors
/// [`SignatureError::Key`].
pub fn public_key(bytes: &[u8]) -> Result<VerifyingKey, SignatureError> {
    let bytes: &[u8; 32] = bytes.try_into().map_err(|_| SignatureError::Key)?;
    let key = VerifyingKey::from_bytes(bytes).map_err(|_| SignatureError::Key)?;
    if key.is_weak() { Err(SignatureError::Key) } else { Ok(key) }
}

/// Signs a statement: Ed25519 over `"leasewatch/" kind "/v1\n" || bytes`.
#[must_use]
pub fn sign(kind: StatementKind, bytes: &[u8], key: &SigningKey) -> [u8; 64] {
    key.sign(&signed_message(kind, bytes)).to_bytes()
}

/// Checks a signature strictly: small-order keys and malleable signatures do not pass.
///
/// # Errors
/// [`SignatureError::Signature`], also for a signature that is not 64 bytes long;
/// [`SignatureError::Key`] for a key of small order.
pub fn verify(
    kind: StatementKind,
    bytes: &[u8],
    signature: &[u8],
    key: &VerifyingKey,
) -> Result<(), SignatureError> {
    if key.is_weak() {
        return Err(SignatureError::Key);
    }
    let signature = Signature::from_slice(signature).map_err(|_| SignatureError::Signature)?;
    key.verify_strict(&signed_message(kind, bytes), &signature)
        .map_err(|_| SignatureError::Signature)
}

fn signed_message(kind: StatementKind, bytes: &[u8]) -> Vec<u8> {
    [b"leasewatch/", kind.name().as_bytes(), b"/v1\n", bytes].concat()
}

#[cfg(test)]
mod tests;
