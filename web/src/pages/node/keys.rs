//! What the server signed about the keys of a node.

use leasewatch_core::evidence::statement::StatementKind;
use leasewatch_core::time::Timestamp;
use serde::{Serialize, Serializer};

use super::Page;
use crate::i18n::Text;
use crate::wire;

/// A statement about a key: the node joined with it, it took the place of another, or it is not
/// accepted any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct KeyStatement {
    /// Which of the three.
    #[serde(serialize_with = "kind_name")]
    pub kind: StatementKind,
    /// When it was made.
    #[serde(serialize_with = "wire::at")]
    pub at: Timestamp,
    /// The canonical bytes, which are JSON.
    pub statement: String,
    /// Of the server, in hex.
    pub signature: String,
    /// The server's public identity key then, in hex.
    pub signer: String,
}

fn kind_name<S: Serializer>(kind: &StatementKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

impl Page<'_> {
    /// What there are statements of.
    pub(super) fn signed(&self) -> String {
        let word = |kind: StatementKind| match kind {
            StatementKind::Rotation => Text::NodeSignedRotation,
            StatementKind::Revocation => Text::NodeSignedRevocation,
            _ => Text::NodeSignedEnrollment,
        };
        let words: Vec<&str> =
            self.view.statements.iter().map(|signed| self.cx.t(word(signed.kind))).collect();
        match words.is_empty() {
            true => self.cx.t(Text::NodeSignedNone).to_owned(),
            false => words.join(self.cx.t(Text::ListSeparator)),
        }
    }
}
