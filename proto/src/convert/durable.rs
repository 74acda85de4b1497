//! The durable lane: segments and drops one way, acknowledgements and refusals the other.

use leasewatch_core::evidence::chain::{Head, SealedSegment};
use leasewatch_core::id::{Sequence, clean_text};
use leasewatch_core::segment::limits;

use super::{ConvertError, at_most, exactly};
use crate::v1;

const CODE_CHARS: usize = 64;
const MESSAGE_CHARS: usize = 256;
/// Blocks of a segment: the GPUs, the host, events.
const BLOCKS: usize = limits::GPUS + 2;

/// A segment as it travels, within its bounds; nothing in it is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentParts {
    /// The head's canonical bytes.
    pub statement: Vec<u8>,
    /// The node's signature over it.
    pub signature: [u8; 64],
    /// Encoded blocks.
    pub blocks: Vec<Vec<u8>>,
}

/// A signed drop as it travels, within its bounds; nothing in it is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DropParts {
    /// The canonical bytes.
    pub statement: Vec<u8>,
    /// The node's signature over them.
    pub signature: [u8; 64],
}

/// A signed start of a chain as it travels, within its bounds; nothing in it is verified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainStartParts {
    /// The canonical bytes.
    pub statement: Vec<u8>,
    /// The node's signature over them.
    pub signature: [u8; 64],
}

/// Everything up to a sequence is durable, or covered by a drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// That sequence; 0 when nothing is.
    pub sequence: Sequence,
    /// True when what follows has to be sent again.
    pub rewind: bool,
}

/// A sequence was refused and will be refused again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// That sequence (the first one of a drop).
    pub sequence: Sequence,
    /// Stable code.
    pub code: String,
    /// One English sentence.
    pub message: String,
}

impl SegmentParts {
    /// Takes a segment from the wire.
    ///
    /// # Errors
    /// [`ConvertError::TooLong`] and [`ConvertError::Length`].
    pub fn from_wire(wire: v1::Segment) -> Result<Self, ConvertError> {
        at_most("head", wire.head.len(), Head::BYTES_MAX)?;
        at_most("blocks", wire.blocks.len(), BLOCKS)?;
        let mut bytes = 0;
        for block in &wire.blocks {
            at_most("block", block.len(), limits::BLOCK_BYTES)?;
            bytes += block.len();
        }
        at_most("blocks together", bytes, limits::SEGMENT_BYTES)?;
        let signature = exactly("signature", &wire.signature)?;
        Ok(Self { statement: wire.head, signature, blocks: wire.blocks })
    }

    /// The message.
    #[must_use]
    pub fn into_wire(self) -> v1::Segment {
        v1::Segment {
            head: self.statement,
            signature: self.signature.to_vec(),
            blocks: self.blocks,
        }
    }
}

impl From<&SealedSegment> for SegmentParts {
    fn from(sealed: &SealedSegment) -> Self {
        Self {
            statement: sealed.signed.statement.clone(),
            signature: sealed.signed.signature,
            blocks: sealed.blocks.clone(),
        }
    }
}

impl DropParts {
    /// Takes a drop from the wire.
    ///
    /// # Errors
    /// [`ConvertError::TooLong`] and [`ConvertError::Length`].
    pub fn from_wire(wire: v1::Drop) -> Result<Self, ConvertError> {
        at_most("statement", wire.statement.len(), Head::BYTES_MAX)?;
        let signature = exactly("signature", &wire.signature)?;
        Ok(Self { statement: wire.statement, signature })
    }

    /// The message.
    #[must_use]
    pub fn into_wire(self) -> v1::Drop {
        v1::Drop { statement: self.statement, signature: self.signature.to_vec() }
    }
}

impl ChainStartParts {
    /// Takes a start from the wire.
    ///
    /// # Errors
    /// [`ConvertError::TooLong`] and [`ConvertError::Length`].
    pub fn from_wire(wire: v1::ChainStart) -> Result<Self, ConvertError> {
        at_most("statement", wire.statement.len(), Head::BYTES_MAX)?;
        let signature = exactly("signature", &wire.signature)?;
        Ok(Self { statement: wire.statement, signature })
    }

    /// The message.
    #[must_use]
    pub fn into_wire(self) -> v1::ChainStart {
        v1::ChainStart { statement: self.statement, signature: self.signature.to_vec() }
    }
}

impl Ack {
    /// Reads an acknowledgement; every number is allowed.
    #[must_use]
    pub fn from_wire(wire: &v1::Ack) -> Self {
        Self { sequence: Sequence(wire.sequence), rewind: wire.rewind }
    }

    /// The message.
    #[must_use]
    pub fn to_wire(self) -> v1::Ack {
        v1::Ack { sequence: self.sequence.0, rewind: self.rewind }
    }
}

impl Refusal {
    /// Reads a refusal; its texts are cut and made inert.
    #[must_use]
    pub fn from_wire(wire: &v1::Refusal) -> Self {
        Self {
            sequence: Sequence(wire.sequence),
            code: clean_text(&wire.code, CODE_CHARS),
            message: clean_text(&wire.message, MESSAGE_CHARS),
        }
    }

    /// The message.
    #[must_use]
    pub fn to_wire(&self) -> v1::Refusal {
        v1::Refusal {
            sequence: self.sequence.0,
            code: self.code.clone(),
            message: self.message.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(blocks: Vec<Vec<u8>>) -> v1::Segment {
        v1::Segment { head: vec![b'{'; 10], signature: vec![0; 64], blocks }
    }

    fn code(wire: v1::Segment) -> Result<SegmentParts, &'static str> {
        SegmentParts::from_wire(wire).map_err(|error| error.code())
    }

    #[test]
    fn segments_are_bounded_in_every_direction() {
        let block = vec![0; limits::BLOCK_BYTES];
        assert!(code(segment(vec![block.clone(); 8])).is_ok());
        assert_eq!(code(segment(vec![block.clone(); 9])), Err("too_long"));
        assert_eq!(code(segment(vec![vec![0; limits::BLOCK_BYTES + 1]])), Err("too_long"));
        assert!(code(segment(vec![vec![0]; BLOCKS])).is_ok());
        assert_eq!(code(segment(vec![vec![0]; BLOCKS + 1])), Err("too_long"));
        let long_head = v1::Segment { head: vec![0; Head::BYTES_MAX + 1], ..segment(vec![]) };
        assert_eq!(code(long_head), Err("too_long"));
        let short = v1::Segment { signature: vec![0; 63], ..segment(vec![]) };
        assert_eq!(code(short), Err("bad_length"));
    }

    #[test]
    fn parts_survive_the_wire() {
        let wire = segment(vec![vec![1, 2], vec![]]);
        let parts = SegmentParts::from_wire(wire.clone()).unwrap();
        assert_eq!(parts.into_wire(), wire);
        let drop = v1::Drop { statement: vec![1], signature: vec![2; 64] };
        assert_eq!(DropParts::from_wire(drop.clone()).unwrap().into_wire(), drop);
        let start = v1::ChainStart { statement: vec![1], signature: vec![2; 64] };
        assert_eq!(ChainStartParts::from_wire(start.clone()).unwrap().into_wire(), start);
        let long = v1::ChainStart { statement: vec![0; Head::BYTES_MAX + 1], ..start };
        assert!(ChainStartParts::from_wire(long).is_err());
    }

    #[test]
    fn a_refusals_text_is_made_inert() {
        let wire = v1::Refusal {
            sequence: 3,
            code: "bad\u{1b}[31m".to_owned(),
            message: "x".repeat(10_000),
        };
        let refusal = Refusal::from_wire(&wire);
        assert_eq!(refusal.code, "bad[31m");
        assert_eq!(refusal.message.len(), MESSAGE_CHARS);
    }
}
