//! The capture: segments of one node in one byte string, to be kept, checked and played elsewhere.
//!
//! Framing only: heads, signatures and blocks stand in it byte for byte. A block that was left out
//! is stood for by its leaf hash, so the rest can still be held against the head that was signed.
//! Layout: `docs/EVIDENCE.md` 5.1. Not here: files, the order of segments, and whether the key
//! belongs to whom somebody says.

use ed25519_dalek::VerifyingKey;

use super::chain::{
    Head, OpenError, SignatureError, leaf_hash, merkle_root, open_head, public_key,
};
use super::identity::{Rotation, SignedStatement};
use super::statement::{StatementKind, verify};
use crate::id::{Hash, KeyId, NodeId};
use crate::segment::{Block, DecodeError, limits};

/// The first bytes of a capture of one key, with the version of its layout.
pub const MAGIC: &[u8; 22] = b"leasewatch-capture/v1\n";
/// The first bytes of a capture over changes of the key.
pub const MAGIC_OF_KEYS: &[u8; 22] = b"leasewatch-capture/v2\n";

const KEY: u8 = 1;
const HEAD: u8 = 2;
const BLOCK: u8 = 3;
const LEFT_OUT: u8 = 4;
const END: u8 = 5;
const CHANGE: u8 = 6;

const SIGNATURE_BYTES: usize = 64;

/// One block's place in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'a> {
    /// The exact bytes.
    Block(&'a [u8]),
    /// The leaf hash of a block that is not in the capture.
    LeftOut(Hash),
}

/// A change of the node's key, as a server signed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyChange {
    /// The server's public identity key. Whose it is, a capture does not prove.
    pub server: [u8; 32],
    /// A statement of kind `rotation`.
    pub signed: SignedStatement,
}

/// A segment of a capture whose signature and root hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturedSegment {
    /// What was signed.
    pub head: Head,
    /// The blocks that are in the capture, in the order of the segment.
    pub blocks: Vec<Block>,
}

/// Why bytes are not a capture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CaptureError {
    /// Other bytes stand where a capture begins.
    #[error("this is no capture of version 1 or 2")]
    Magic,
    /// It ends before its end record.
    #[error("the capture ends too early")]
    Truncated,
    /// A record that does not belong where it stands, is too long, or that this version lacks.
    #[error("the capture is not understood at byte {at}")]
    Record {
        /// Where the record begins.
        at: usize,
    },
    /// The key is no usable key.
    #[error(transparent)]
    Key(#[from] SignatureError),
    /// A change of the key does not follow from the one before, or is not signed.
    #[error("change {number} of the key does not hold")]
    KeyChange {
        /// Its place in the capture, from 1.
        number: usize,
    },
    /// The end record names another number of segments.
    #[error("the capture holds {got} segments and names {named}")]
    Count {
        /// Segments that were read.
        got: u64,
        /// Segments that the end record names.
        named: u64,
    },
    /// A segment does not hold.
    #[error("segment {number} of the capture: {source}")]
    Segment {
        /// Its place in the capture, from 1.
        number: u64,
        /// What does not hold.
        source: OpenError,
    },
    /// A segment of another node than the key's.
    #[error("segment {number} of the capture is of another node")]
    Node {
        /// Its place in the capture, from 1.
        number: u64,
    },
}

/// How a capture of segments that this key signed begins.
#[must_use]
pub fn start(key: &[u8; 32]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    put(&mut out, KEY, &[key]);
    out
}

/// How a capture begins of a node whose first key this is, and whose key changed like that since.
#[must_use]
pub fn start_over(key: &[u8; 32], changes: &[KeyChange]) -> Vec<u8> {
    if changes.is_empty() {
        return start(key);
    }
    let mut out = MAGIC_OF_KEYS.to_vec();
    put(&mut out, KEY, &[key]);
    for KeyChange { server, signed } in changes {
        put(&mut out, CHANGE, &[server, &signed.signature, &signed.statement]);
    }
    out
}

/// The records of one segment: its head, and each of its blocks or what stands for it.
#[must_use]
pub fn segment(statement: &[u8], signature: &[u8; 64], parts: &[Part<'_>]) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, HEAD, &[signature, statement]);
    for part in parts {
        match part {
            Part::Block(bytes) => put(&mut out, BLOCK, &[bytes]),
            Part::LeftOut(hash) => put(&mut out, LEFT_OUT, &[&hash.0]),
        }
    }
    out
}

/// How a capture of so many segments ends.
#[must_use]
pub fn end(segments: u64) -> Vec<u8> {
    let mut out = Vec::new();
    put(&mut out, END, &[&segments.to_be_bytes()]);
    out
}

/// Reads a whole capture and checks all that it holds: framing, signatures, roots, and that each
/// block is canonical.
///
/// # Errors
/// [`CaptureError`] for the first thing that does not hold.
pub fn read(bytes: &[u8]) -> Result<Vec<CapturedSegment>, CaptureError> {
    let one_key = bytes.strip_prefix(MAGIC);
    let rest = one_key.or_else(|| bytes.strip_prefix(MAGIC_OF_KEYS)).ok_or(CaptureError::Magic)?;
    let mut records = Records { rest, whole: bytes.len() };
    let first = records.next()?;
    let key = match first.kind {
        KEY => public_key(first.body)?,
        _ => return Err(CaptureError::Record { at: first.at }),
    };
    let node = KeyId::of_public_key(key.as_bytes()).first_node_id();
    let mut keys = vec![key];
    let mut segments = Vec::new();
    let mut next = records.next()?;
    while one_key.is_none() && next.kind == CHANGE {
        let changed = change_of(&next, (node, keys.last()));
        keys.push(changed.ok_or(CaptureError::KeyChange { number: keys.len() })?);
        next = records.next()?;
    }
    let mut number = 0;
    while next.kind == HEAD {
        number += 1;
        let wrong = |source| CaptureError::Segment { number, source };
        let (signature, statement) =
            next.body.split_at_checked(SIGNATURE_BYTES).ok_or(CaptureError::Truncated)?;
        // The latest key first: most segments behind a change are signed by it.
        let opened = keys.iter().rev().map(|key| open_head(statement, signature, key));
        let opened = opened.reduce(|found, next| found.or(next));
        let head = opened.ok_or(CaptureError::Truncated)?.map_err(wrong)?.head;
        if head.node != node {
            return Err(CaptureError::Node { number });
        }
        let mut parts = Vec::new();
        next = records.next()?;
        while matches!(next.kind, BLOCK | LEFT_OUT) {
            parts.push(part_of(&next)?);
            next = records.next()?;
        }
        let blocks = blocks_of(&head, &parts).map_err(wrong)?;
        segments.push(CapturedSegment { head, blocks });
    }
    let named = match (next.kind, next.body.try_into()) {
        (END, Ok(count)) if records.rest.is_empty() => u64::from_be_bytes(count),
        _ => return Err(CaptureError::Record { at: next.at }),
    };
    if named == number { Ok(segments) } else { Err(CaptureError::Count { got: number, named }) }
}

/// The key that a change leads to, if it holds: signed by the server that it names, about this node,
/// and from the key before.
fn change_of(
    record: &Record<'_>,
    (node, last): (NodeId, Option<&VerifyingKey>),
) -> Option<VerifyingKey> {
    let (server, rest) = record.body.split_first_chunk::<32>()?;
    let (signature, statement) = rest.split_at_checked(SIGNATURE_BYTES)?;
    let server = public_key(server).ok()?;
    verify(StatementKind::Rotation, statement, signature, &server).ok()?;
    let rotation = Rotation::from_statement(statement).ok()?;
    let follows = rotation.node == node && last.is_some_and(|key| *key.as_bytes() == rotation.old);
    public_key(&rotation.new).ok().filter(|_| follows)
}

fn part_of<'a>(record: &Record<'a>) -> Result<Part<'a>, CaptureError> {
    if record.kind == BLOCK {
        return Ok(Part::Block(record.body));
    }
    let hash = record.body.try_into().map_err(|_| CaptureError::Record { at: record.at })?;
    Ok(Part::LeftOut(Hash(hash)))
}

fn blocks_of(head: &Head, parts: &[Part<'_>]) -> Result<Vec<Block>, OpenError> {
    if parts.len() != usize::from(head.block_count) {
        return Err(OpenError::BlockCount { got: parts.len(), named: head.block_count });
    }
    let leaf = |part: &Part<'_>| match part {
        Part::Block(bytes) => leaf_hash(bytes),
        Part::LeftOut(hash) => *hash,
    };
    if merkle_root(&parts.iter().map(leaf).collect::<Vec<_>>()) != Some(head.root) {
        return Err(OpenError::Root);
    }
    let decoded = parts.iter().enumerate().filter_map(|(index, part)| match part {
        Part::Block(bytes) => {
            let wrong = |source: DecodeError| OpenError::Block { index, source };
            Some(Block::decode(bytes).map_err(wrong))
        }
        Part::LeftOut(_) => None,
    });
    decoded.collect()
}

/// A kind of a byte, a length of four bytes with the highest first, and so many bytes.
struct Record<'a> {
    kind: u8,
    body: &'a [u8],
    at: usize,
}

struct Records<'a> {
    rest: &'a [u8],
    whole: usize,
}

impl<'a> Records<'a> {
    fn next(&mut self) -> Result<Record<'a>, CaptureError> {
        let at = self.whole - self.rest.len();
        let (header, rest) = self.rest.split_first_chunk::<5>().ok_or(CaptureError::Truncated)?;
        let [kind, length @ ..] = *header;
        let length = usize::try_from(u32::from_be_bytes(length));
        let length = length.map_err(|_| CaptureError::Record { at })?;
        if length > limits::BLOCK_BYTES {
            return Err(CaptureError::Record { at });
        }
        let (body, rest) = rest.split_at_checked(length).ok_or(CaptureError::Truncated)?;
        self.rest = rest;
        Ok(Record { kind, body, at })
    }
}

/// Heads and blocks are bounded far below what a length can say.
fn put(out: &mut Vec<u8>, kind: u8, pieces: &[&[u8]]) {
    let length = pieces.iter().map(|piece| piece.len()).sum::<usize>();
    out.push(kind);
    out.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    pieces.iter().for_each(|piece| out.extend_from_slice(piece));
}

#[cfg(test)]
mod tests;
