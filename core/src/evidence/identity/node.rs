//! What the server signs about the keys of a node.

use super::{BYTES_MAX, key};
use crate::evidence::statement::{Fields, StatementBuilder, StatementError, StatementKind};
use crate::id::{Hash, KeyId, NodeId, Slug};
use crate::segment::Origin;
use crate::time::Timestamp;

/// Characters of a node's name, and of who revoked a key.
const NAME_CHARS: usize = 120;

/// What let a key in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Admission {
    /// A join token, by its number within the tenant.
    Token(i64),
    /// The server took every node that reached it.
    Open,
}

/// A node has joined. Its id follows from the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enrollment {
    /// The public key that it joined with.
    pub key: [u8; 32],
    /// Whose it is.
    pub tenant: Slug,
    /// Who supplies it.
    pub provider: Slug,
    /// Its name for people; clean text.
    pub name: String,
    /// Where its data comes from, for its whole life.
    pub origin: Origin,
    /// When, by the server's clock.
    pub at: Timestamp,
    /// What let it in.
    pub admission: Admission,
}

/// A key takes the place of another of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rotation {
    /// The node.
    pub node: NodeId,
    /// The public key that it had, revoked before or now.
    pub old: [u8; 32],
    /// The public key that it has from now on.
    pub new: [u8; 32],
    /// When, by the server's clock.
    pub at: Timestamp,
    /// The join token that let the new key in, by its number within the tenant.
    pub token: i64,
}

/// A key of a node is not accepted any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revocation {
    /// The node.
    pub node: NodeId,
    /// The public key.
    pub key: [u8; 32],
    /// When, by the server's clock.
    pub at: Timestamp,
    /// Why.
    pub reason: RevocationReason,
    /// Who, for people; clean text. Absent where nobody asked for it.
    pub by: Option<String>,
}

/// Why a key is revoked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RevocationReason {
    /// An operator said so.
    Operator,
    /// Another key took its place.
    Replaced,
}

impl RevocationReason {
    /// Every reason.
    pub const ALL: [Self; 2] = [Self::Operator, Self::Replaced];

    /// `operator` or `replaced`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Replaced => "replaced",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

impl Admission {
    fn put(self, fields: StatementBuilder) -> StatementBuilder {
        match self {
            Self::Token(number) => fields.text("admission", "token").int("token", number),
            Self::Open => fields.text("admission", "open"),
        }
    }

    fn take(fields: &mut Fields) -> Result<Self, StatementError> {
        let admission = fields.name("admission", |name| match name {
            "token" => Some(Self::Token(0)),
            "open" => Some(Self::Open),
            _ => None,
        })?;
        match admission {
            Self::Token(_) => fields.count("token").map(Self::Token),
            Self::Open => Ok(Self::Open),
        }
    }
}

impl Enrollment {
    /// The node's id.
    #[must_use]
    pub fn node(&self) -> NodeId {
        KeyId::of_public_key(&self.key).first_node_id()
    }

    /// The canonical statement of kind `enrollment`.
    #[must_use]
    pub fn statement(&self) -> Vec<u8> {
        let fields = StatementBuilder::new(StatementKind::Enrollment)
            .id("node", self.node())
            .id("key", Hash(self.key))
            .id("tenant", &self.tenant)
            .id("provider", &self.provider)
            .text("name", &self.name)
            .text("origin", self.origin.name())
            .time("at", self.at);
        self.admission.put(fields).to_bytes()
    }

    /// Reads a statement of kind `enrollment`.
    ///
    /// # Errors
    /// [`StatementError`], also when the node's id is not that of the key.
    pub fn from_statement(bytes: &[u8]) -> Result<Self, StatementError> {
        let mut fields = Fields::of_statement(StatementKind::Enrollment, bytes, BYTES_MAX)?;
        let node: NodeId = fields.id("node")?;
        let enrollment = Self {
            key: key(&mut fields, "key")?,
            tenant: fields.id("tenant")?,
            provider: fields.id("provider")?,
            name: fields.text("name", NAME_CHARS)?,
            origin: fields.name("origin", Origin::from_name)?,
            at: fields.time("at")?,
            admission: Admission::take(&mut fields)?,
        };
        fields.finish()?;
        if enrollment.node() == node {
            Ok(enrollment)
        } else {
            Err(StatementError::Invalid { field: "node" })
        }
    }
}

impl Rotation {
    /// The canonical statement of kind `rotation`.
    #[must_use]
    pub fn statement(&self) -> Vec<u8> {
        StatementBuilder::new(StatementKind::Rotation)
            .id("node", self.node)
            .id("old", Hash(self.old))
            .id("new", Hash(self.new))
            .time("at", self.at)
            .int("token", self.token)
            .to_bytes()
    }

    /// Reads a statement of kind `rotation`.
    ///
    /// # Errors
    /// [`StatementError`], also when both keys are the same.
    pub fn from_statement(bytes: &[u8]) -> Result<Self, StatementError> {
        let mut fields = Fields::of_statement(StatementKind::Rotation, bytes, BYTES_MAX)?;
        let rotation = Self {
            node: fields.id("node")?,
            old: key(&mut fields, "old")?,
            new: key(&mut fields, "new")?,
            at: fields.time("at")?,
            token: fields.count("token")?,
        };
        fields.finish()?;
        if rotation.old == rotation.new {
            return Err(StatementError::Invalid { field: "new" });
        }
        Ok(rotation)
    }
}

impl Revocation {
    /// The canonical statement of kind `revocation`.
    #[must_use]
    pub fn statement(&self) -> Vec<u8> {
        StatementBuilder::new(StatementKind::Revocation)
            .id("node", self.node)
            .id("key", Hash(self.key))
            .time("at", self.at)
            .text("reason", self.reason.name())
            .opt_text("by", self.by.as_deref())
            .to_bytes()
    }

    /// Reads a statement of kind `revocation`.
    ///
    /// # Errors
    /// [`StatementError`].
    pub fn from_statement(bytes: &[u8]) -> Result<Self, StatementError> {
        let mut fields = Fields::of_statement(StatementKind::Revocation, bytes, BYTES_MAX)?;
        let revocation = Self {
            node: fields.id("node")?,
            key: key(&mut fields, "key")?,
            at: fields.time("at")?,
            reason: fields.name("reason", RevocationReason::from_name)?,
            by: fields.opt_text("by", NAME_CHARS)?,
        };
        fields.finish()?;
        Ok(revocation)
    }
}
