//! How a server's identity key passes on, and what nodes are told to find the server again.
//!
//! Whoever holds a key may name its successor; so may the holder of the recovery key, which lies
//! offline, whatever became of the key. A statement of the recovery key counts once and in order:
//! it has a number above every one that was followed before, so an old one cannot bring an old key
//! back. Who stole a key can lead those astray who have not heard of its successor yet; the
//! recovery key brings them back, and nobody who has followed a rotation takes the old key again.

use super::{BYTES_MAX, key, opt_key};
use crate::evidence::canonical::Value;
use crate::evidence::statement::{
    Fields, StatementBuilder, StatementError, StatementKind, public_key, verify,
};
use crate::id::Hash;
use crate::join::JoinAddress;
use crate::time::Timestamp;

/// Rotations that a client reads in one challenge, the first ones first.
pub const ROTATIONS_MAX: usize = 64;
/// Pins in a notice: the key that is shown, and the next one.
pub const NOTICE_PINS: usize = 4;
/// Addresses in a notice.
pub const NOTICE_ADDRESSES: usize = 8;

/// A statement with a signature that nobody has checked yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedStatement {
    /// The canonical bytes.
    pub statement: Vec<u8>,
    /// Ed25519 over the kind and the bytes.
    pub signature: [u8; 64],
}

/// A server's identity key takes the place of another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerRotation {
    /// Its place among the rotations of this server, from 1.
    pub number: u64,
    /// The public key before; `None` only where the recovery key signs and it is not known.
    pub old: Option<[u8; 32]>,
    /// The public key from now on.
    pub new: [u8; 32],
    /// When, by the server's clock.
    pub at: Timestamp,
    /// Which key signed this.
    pub signer: RotationSigner,
}

/// Which key signs a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RotationSigner {
    /// The identity key that is replaced.
    Identity,
    /// The recovery key.
    Recovery,
}

impl RotationSigner {
    fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Recovery => "recovery",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        [Self::Identity, Self::Recovery].into_iter().find(|signer| signer.name() == name)
    }
}

impl ServerRotation {
    /// The canonical statement of kind `server_rotation`.
    #[must_use]
    pub fn statement(&self) -> Vec<u8> {
        StatementBuilder::new(StatementKind::ServerRotation)
            .int("number", i64::try_from(self.number).unwrap_or(i64::MAX))
            .opt_id("old", self.old.map(Hash))
            .id("new", Hash(self.new))
            .time("at", self.at)
            .text("signer", self.signer.name())
            .to_bytes()
    }

    /// Reads a statement of kind `server_rotation`.
    ///
    /// # Errors
    /// [`StatementError`], also for one that an identity key signs without naming itself, and for
    /// a key that takes its own place.
    pub fn from_statement(bytes: &[u8]) -> Result<Self, StatementError> {
        let mut fields = Fields::of_statement(StatementKind::ServerRotation, bytes, BYTES_MAX)?;
        let rotation = Self {
            number: fields.unsigned("number")?,
            old: opt_key(&mut fields, "old")?,
            new: key(&mut fields, "new")?,
            at: fields.time("at")?,
            signer: fields.name("signer", RotationSigner::from_name)?,
        };
        fields.finish()?;
        if rotation.number == 0 {
            return Err(StatementError::Invalid { field: "number" });
        }
        let is_nameless = rotation.old.is_none() && rotation.signer == RotationSigner::Identity;
        if is_nameless || rotation.old == Some(rotation.new) {
            return Err(StatementError::Invalid { field: "old" });
        }
        Ok(rotation)
    }
}

/// Whom a node takes for its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerTrust {
    /// The identity key that it holds.
    pub identity: [u8; 32],
    /// The recovery key that this server told it, if it did.
    pub recovery: Option<[u8; 32]>,
    /// Number of the last rotation that it followed because the recovery key had signed it.
    pub recovered: u64,
}

impl ServerTrust {
    /// Whom the node takes for its server after it has read these rotations, in their order. What
    /// does not concern the key that it holds, or is not signed by it or the recovery key, is passed
    /// over.
    #[must_use]
    pub fn follow(mut self, rotations: &[SignedStatement]) -> Self {
        for signed in rotations.iter().take(ROTATIONS_MAX) {
            let Ok(rotation) = ServerRotation::from_statement(&signed.statement) else { continue };
            let signer = match rotation.signer {
                RotationSigner::Identity if rotation.old == Some(self.identity) => self.identity,
                RotationSigner::Recovery if rotation.number > self.recovered => {
                    let Some(recovery) = self.recovery else { continue };
                    recovery
                }
                RotationSigner::Identity | RotationSigner::Recovery => continue,
            };
            if !is_signed_by(signed, StatementKind::ServerRotation, &signer) {
                continue;
            }
            self.identity = rotation.new;
            if rotation.signer == RotationSigner::Recovery {
                self.recovered = rotation.number;
            }
        }
        self
    }
}

fn is_signed_by(signed: &SignedStatement, kind: StatementKind, key: &[u8; 32]) -> bool {
    let holds = |key| verify(kind, &signed.statement, &signed.signature, &key);
    public_key(key).and_then(holds).is_ok()
}

/// What nodes need to find their server again, signed by its identity key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerNotice {
    /// When it was made, by the server's clock; a later one takes the place of an earlier one.
    pub at: Timestamp,
    /// The recovery key's public half.
    pub recovery: Option<[u8; 32]>,
    /// SHA-256 of the public keys of certificates: the one that is shown, and the next one. Empty:
    /// nothing is said about them.
    pub pins: Vec<Hash>,
    /// Where nodes reach the server, in the order in which to try. Empty: nothing is said.
    pub addresses: Vec<JoinAddress>,
}

impl ServerNotice {
    /// The canonical statement of kind `server_notice`.
    #[must_use]
    pub fn statement(&self) -> Vec<u8> {
        let texts = |texts: Vec<String>| Value::Array(texts.into_iter().map(Value::Str).collect());
        let pins = self.pins.iter().map(ToString::to_string).collect();
        let addresses = self.addresses.iter().map(|at| at.as_str().to_owned()).collect();
        StatementBuilder::new(StatementKind::ServerNotice)
            .time("at", self.at)
            .opt_id("recovery", self.recovery.map(Hash))
            .value("pins", texts(pins))
            .value("addresses", texts(addresses))
            .to_bytes()
    }

    /// Reads a statement of kind `server_notice`.
    ///
    /// # Errors
    /// [`StatementError`].
    pub fn from_statement(bytes: &[u8]) -> Result<Self, StatementError> {
        let mut fields = Fields::of_statement(StatementKind::ServerNotice, bytes, BYTES_MAX)?;
        let notice = Self {
            at: fields.time("at")?,
            recovery: opt_key(&mut fields, "recovery")?,
            pins: texts(&mut fields, ("pins", NOTICE_PINS), |text| text.parse().ok())?,
            addresses: texts(&mut fields, ("addresses", NOTICE_ADDRESSES), |text| {
                JoinAddress::new(text).ok().filter(|address| address.as_str() == text)
            })?,
        };
        fields.finish()?;
        Ok(notice)
    }

    /// Reads one that this key has signed.
    ///
    /// # Errors
    /// [`StatementError`] as [`ServerNotice::from_statement`], and for another signature.
    pub fn open(signed: &SignedStatement, key: &[u8; 32]) -> Result<Self, StatementError> {
        if is_signed_by(signed, StatementKind::ServerNotice, key) {
            Self::from_statement(&signed.statement)
        } else {
            Err(StatementError::Invalid { field: "signature" })
        }
    }
}

fn texts<T>(
    fields: &mut Fields,
    (field, max): (&'static str, usize),
    read: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, StatementError> {
    let read = |value: Value| match value {
        Value::Str(text) => read(&text).ok_or(StatementError::Invalid { field }),
        _ => Err(StatementError::Type { field, expected: "a list of texts" }),
    };
    fields.array(field, max)?.into_iter().map(read).collect()
}
