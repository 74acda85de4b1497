//! Wire messages to core types and back: the only place that knows both.
//!
//! Nothing that comes out of here is unbounded or malformed: lengths are checked before anything
//! is built, ids are parsed, texts cleaned. What a message means, and whether a signature holds,
//! is decided by whoever reads it.

mod durable;
mod live;
mod proof;
#[cfg(test)]
mod recorded;
mod session;

use leasewatch_core::id::{IdError, Sequence, Slug};
use leasewatch_core::time::Timestamp;

pub use durable::{Ack, ChainStartParts, DropParts, Refusal, SegmentParts};
pub use live::{LiveFrame, LiveGpu, LivePace, reading_from_wire, reading_to_wire};
pub use proof::{Claim, Proof};
pub use session::{
    Challenge, Hello, TimeEcho, TimeProbe, Welcome, estimate_from_wire, statement_from_wire,
    statement_to_wire,
};

/// The protocol version that this build speaks.
pub const PROTOCOL_VERSION: u32 = 1;

/// The most bytes of one message, both ways: a full segment and its head. Give it to tonic as the
/// limit for decoding, so that nothing larger is ever allocated.
pub const MESSAGE_BYTES_MAX: usize = leasewatch_core::evidence::chain::SEALED_BYTES_MAX + 4_096;

/// Why a message is refused before anybody asks what it says.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConvertError {
    /// A field has the wrong number of bytes.
    #[error("{field} must have {expected} bytes, got {got}")]
    Length {
        /// Name of the field.
        field: &'static str,
        /// The length it must have.
        expected: usize,
        /// The length it has.
        got: usize,
    },
    /// A field or list is longer than its bound.
    #[error("{field} is over the bound of {max}, got {got}")]
    TooLong {
        /// Name of the field.
        field: &'static str,
        /// The bound.
        max: usize,
        /// The count or length found.
        got: usize,
    },
    /// A field is no valid id or name.
    #[error("{field} is not valid: {source}")]
    Id {
        /// Name of the field.
        field: &'static str,
        /// Why.
        source: IdError,
    },
    /// A number is outside its range, or a name is not one of its list.
    #[error("{field} is out of range")]
    Range {
        /// Name of the field.
        field: &'static str,
    },
    /// A text is empty, or holds characters that could act on a terminal or a reader.
    #[error("{field} is empty or holds control characters")]
    Text {
        /// Name of the field.
        field: &'static str,
    },
    /// The other end speaks another version of the protocol.
    #[error(
        "protocol {got} is not supported; this end supports {PROTOCOL_VERSION} to {PROTOCOL_VERSION}"
    )]
    Protocol {
        /// The version of the other end.
        got: u32,
    },
}

impl ConvertError {
    /// A stable code for logs and refusals.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Length { .. } => "bad_length",
            Self::TooLong { .. } => "too_long",
            Self::Id { .. } => "bad_id",
            Self::Range { .. } => "out_of_range",
            Self::Text { .. } => "bad_text",
            Self::Protocol { .. } => "unsupported_protocol",
        }
    }
}

fn exactly<const N: usize>(field: &'static str, bytes: &[u8]) -> Result<[u8; N], ConvertError> {
    bytes.try_into().map_err(|_| ConvertError::Length { field, expected: N, got: bytes.len() })
}

fn at_most(field: &'static str, got: usize, max: usize) -> Result<(), ConvertError> {
    if got <= max { Ok(()) } else { Err(ConvertError::TooLong { field, max, got }) }
}

fn slug(field: &'static str, text: &str) -> Result<Slug, ConvertError> {
    Slug::new(text).map_err(|source| ConvertError::Id { field, source })
}

fn timestamp(field: &'static str, ms: i64) -> Result<Timestamp, ConvertError> {
    let at = Timestamp(ms);
    if (Timestamp::MIN..Timestamp::MAX).contains(&at) {
        Ok(at)
    } else {
        Err(ConvertError::Range { field })
    }
}

/// 0 on the wire is "none".
fn sequence(number: u64) -> Option<Sequence> {
    (number > 0).then_some(Sequence(number))
}
