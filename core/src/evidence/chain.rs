//! The signed chain: segments are sealed by a node and opened by everybody else.
//!
//! A segment is a signed [`Head`] and its encoded blocks. [`seal`] makes one, [`open`] checks one
//! completely: what it returns was written by this key, in this form, and agrees with itself.
//! [`seal`] makes nothing that [`open`] refuses. Not here: whether the key belongs to the node
//! that the head names, whether the head continues the chain that is stored (`delivery`), and
//! when it was committed (the log).

mod content;
mod head;
mod merkle;
mod notice;

use ed25519_dalek::{SigningKey, VerifyingKey};

pub use content::ContentError;
pub use head::{Checkpoint, ClockSource, ClockState, Head, HeadDraft};
pub use merkle::{inclusion_proof, merkle_root, verify_inclusion};
pub use notice::{ChainStart, ChainStartReason, Drop, DropReason};

pub use super::statement::{SignatureError, leaf_hash, public_key, sign, verify};

use super::statement::{StatementError, StatementKind};
use crate::id::Hash;
use crate::segment::{Block, DecodeError, EncodeError, limits};

/// A head with the bytes that were signed and the signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedHead {
    /// What was said.
    pub head: Head,
    /// Its canonical bytes.
    pub statement: Vec<u8>,
    /// Ed25519 over `"leasewatch/head/v1\n"` and the statement.
    pub signature: [u8; 64],
}

/// What travels and is spooled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedSegment {
    /// The signed head.
    pub signed: SignedHead,
    /// Encoded blocks in the order of the Merkle tree: GPUs by ascending UUID, the host, events.
    pub blocks: Vec<Vec<u8>>,
}

/// A segment that passed every check of [`open`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenSegment {
    /// The head.
    pub head: Head,
    /// [`Head::hash`] of it: what the next head's `previous` must be.
    pub hash: Hash,
    /// The blocks, in the order in which they came.
    pub blocks: Vec<Block>,
}

impl OpenSegment {
    /// True when it was made of a log: imported data, or simulated data that a generator wrote as
    /// one. Never true of measured data.
    #[must_use]
    pub fn is_of_log(&self) -> bool {
        content::is_of_log(&self.head, &self.blocks.iter().collect::<Vec<_>>())
    }
}

/// Why a segment cannot be sealed: the recorder handed over something that [`open`] would refuse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SealError {
    /// A block breaks an invariant or a bound.
    #[error("a block cannot be encoded: {0}")]
    Block(#[from] EncodeError),
    /// Blocks do not fit each other or the head.
    #[error(transparent)]
    Content(#[from] ContentError),
    /// A field of the head is out of range.
    #[error("the head cannot be stated: {0}")]
    Head(#[from] StatementError),
}

/// Why a segment is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The head is no canonical head statement.
    #[error("the head is refused: {0}")]
    Head(#[from] StatementError),
    /// The signature does not hold, or the key must not be used.
    #[error(transparent)]
    Signature(#[from] SignatureError),
    /// The number of blocks is not the head's.
    #[error("{got} blocks came, the head names {named}")]
    BlockCount {
        /// Blocks that came.
        got: usize,
        /// Blocks that the head names.
        named: u16,
    },
    /// The Merkle root over the blocks is not the head's.
    #[error("the blocks are not those of the head")]
    Root,
    /// A block cannot be decoded.
    #[error("block {index} is refused: {source}")]
    Block {
        /// Its place among the blocks.
        index: usize,
        /// Why.
        source: DecodeError,
    },
    /// Blocks do not fit each other or the head, or are too many or too long.
    #[error(transparent)]
    Content(#[from] ContentError),
}

impl OpenError {
    /// A stable code for the wire and for tables.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Head(error) => error.code(),
            Self::Signature(SignatureError::Key) => "bad_key",
            Self::Signature(SignatureError::Signature) => "bad_signature",
            Self::BlockCount { .. } => "block_count",
            Self::Root => "bad_root",
            Self::Block { source, .. } => source.code(),
            Self::Content(error) => error.code(),
        }
    }
}

/// Encodes blocks, puts them into the order of the format, and signs the head. An empty events
/// block is left out.
///
/// # Errors
/// [`SealError`], for exactly what [`open`] would refuse.
pub fn seal(
    draft: HeadDraft,
    blocks: &[Block],
    key: &SigningKey,
) -> Result<SealedSegment, SealError> {
    let mut ordered: Vec<&Block> = blocks.iter().filter(|block| !is_empty_events(block)).collect();
    ordered.sort_by_key(|block| content::place(block));
    content::check_count(ordered.len())?;
    let encoded = ordered.iter().map(|block| block.encode()).collect::<Result<Vec<_>, _>>()?;
    content::check_size(&encoded)?;
    let root = root_of(&encoded).ok_or(ContentError::NoBlocks)?;
    let block_count = u16::try_from(encoded.len()).map_err(|_| ContentError::TooManyBlocks)?;
    let head = draft.with_blocks(block_count, root);
    content::check(&head, &ordered)?;
    let statement = head.statement();
    // Reading it back is the one complete check of the fields' ranges.
    Head::from_statement(&statement)?;
    let signature = sign(StatementKind::Head, &statement, key);
    Ok(SealedSegment { signed: SignedHead { head, statement, signature }, blocks: encoded })
}

/// Checks a head: canonical statement of kind `head`, signed by `key`.
///
/// # Errors
/// [`OpenError::Head`] or [`OpenError::Signature`].
pub fn open_head(
    statement: &[u8],
    signature: &[u8],
    key: &VerifyingKey,
) -> Result<SignedHead, OpenError> {
    let head = Head::from_statement(statement)?;
    verify(StatementKind::Head, statement, signature, key)?;
    let signature = signature.try_into().map_err(|_| SignatureError::Signature)?;
    Ok(SignedHead { head, statement: statement.to_vec(), signature })
}

/// Checks a whole segment as it came from the wire or a disk.
///
/// Checked, in this order: bounds on count and bytes; the head ([`open_head`]); the block count;
/// the Merkle root; that each block decodes and is canonical; the order of blocks, that GPU UUIDs
/// and places are unique, that slices fit their parents, that all times lie within the head's period
/// and the span limit, and that tracks from a log stand in imported data always, in measured data
/// never, and in simulated data in all of its tracks or in none.
///
/// # Errors
/// [`OpenError`] with the first check that failed.
pub fn open<B: AsRef<[u8]>>(
    statement: &[u8],
    signature: &[u8],
    blocks: &[B],
    key: &VerifyingKey,
) -> Result<OpenSegment, OpenError> {
    content::check_count(blocks.len())?;
    content::check_size(blocks)?;
    let SignedHead { head, .. } = open_head(statement, signature, key)?;
    if blocks.len() != usize::from(head.block_count) {
        return Err(OpenError::BlockCount { got: blocks.len(), named: head.block_count });
    }
    if root_of(blocks) != Some(head.root) {
        return Err(OpenError::Root);
    }
    let decode = |(index, bytes): (usize, &B)| {
        Block::decode(bytes.as_ref()).map_err(|source| OpenError::Block { index, source })
    };
    let blocks = blocks.iter().enumerate().map(decode).collect::<Result<Vec<_>, _>>()?;
    content::check(&head, &blocks.iter().collect::<Vec<_>>())?;
    Ok(OpenSegment { head, hash: leaf_hash(statement), blocks })
}

/// The most bytes of a segment on the wire or on disk: blocks, head and signature.
pub const SEALED_BYTES_MAX: usize = limits::SEGMENT_BYTES + Head::BYTES_MAX + 64;

fn root_of<B: AsRef<[u8]>>(blocks: &[B]) -> Option<Hash> {
    let hashes: Vec<Hash> = blocks.iter().map(|block| leaf_hash(block.as_ref())).collect();
    merkle_root(&hashes)
}

fn is_empty_events(block: &Block) -> bool {
    matches!(block, Block::Events(events) if events.events.is_empty())
}

#[cfg(test)]
pub(crate) mod tests;
