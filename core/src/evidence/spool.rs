//! The form of a spool file: sealed segments and signed notices on the disk of a node.
//!
//! A file is a header, which names the chain and the key, and records `len | crc32c | seq |
//! payload` that are only ever appended. [`scan`] reads a file in whatever state a crash or a disk
//! has left it: it finds every record that is whole and says where there is none. Layout:
//! `docs/EVIDENCE.md` 5.2. Not here: files, what may be deleted when, and signatures, which whoever
//! takes a record on trust has to check.

use std::ops::Range;

use super::chain::{ChainStart, Drop, Head, SEALED_BYTES_MAX, SealedSegment, SignedHead};
use crate::id::{ChainId, Sequence};

/// The first bytes of every spool file, with the version of its layout.
pub const MAGIC: &[u8; 20] = b"leasewatch-spool/v1\n";
/// Bytes of the header: magic, chain, public key, and a CRC-32C over them.
pub const HEADER_BYTES: usize = 72;
/// Bytes of a record before its payload.
pub const PREFIX_BYTES: usize = 16;
/// The most bytes of a payload: a segment, the lengths of its parts, and its kind.
pub const PAYLOAD_BYTES_MAX: usize = SEALED_BYTES_MAX + 1_024;

const SEGMENT: u8 = 1;
const DROP: u8 = 2;
const CHAIN_START: u8 = 3;
const SIGNATURE_BYTES: usize = 64;
/// Sequences that one file can hold at most, so that damage is not taken for a far sequence.
const SEQUENCES_MAX: u64 = 1 << 32;

/// What a file says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileHeader {
    /// The chain of all its records.
    pub chain: ChainId,
    /// The key that signed them.
    pub public_key: [u8; 32],
}

/// Why a file is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// It ends within its header: it was being made when its writer ended.
    #[error("it ends within its header")]
    Torn,
    /// Another version of this program wrote it.
    #[error("it is a spool file of another version")]
    Version,
    /// It is something else, or its header is damaged.
    #[error("it is no spool file")]
    Foreign,
}

/// What a record holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// A sealed segment.
    Segment(Box<SealedSegment>),
    /// A range that will never come.
    Drop(Notice<Drop>),
    /// The start of the chain.
    ChainStart(Notice<ChainStart>),
}

/// A signed statement that is no head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice<T> {
    /// What it says.
    pub says: T,
    /// Its canonical bytes.
    pub statement: Vec<u8>,
    /// The node's signature over them.
    pub signature: [u8; SIGNATURE_BYTES],
}

/// A record and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its first byte in the file.
    pub offset: usize,
    /// Its bytes, prefix included.
    pub bytes: usize,
    /// What it holds.
    pub content: Content,
}

/// What a file holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Scan {
    /// Every whole record, in the order of the file.
    pub records: Vec<Found>,
    /// Stretches between whole records in which there is none.
    pub damaged: Vec<Range<usize>>,
    /// Where the last whole record ends. What is behind it is the torn end of a write, or damage.
    pub end: usize,
}

impl FileHeader {
    /// The first bytes of a file.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..20].copy_from_slice(MAGIC);
        bytes[20..36].copy_from_slice(&self.chain.0);
        bytes[36..68].copy_from_slice(&self.public_key);
        let crc = crc32c::crc32c(&bytes[..68]);
        bytes[68..].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// Reads the first bytes of a file.
    ///
    /// # Errors
    /// [`HeaderError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            let is_beginning = bytes.iter().zip(MAGIC).all(|(byte, magic)| byte == magic);
            return Err(if is_beginning { HeaderError::Torn } else { HeaderError::Foreign });
        };
        if !header.starts_with(MAGIC) {
            // All but the number of the version.
            let is_ours = header.starts_with(&MAGIC[..MAGIC.len() - 2]);
            return Err(if is_ours { HeaderError::Version } else { HeaderError::Foreign });
        }
        let (mut chain, mut public_key) = ([0; 16], [0; 32]);
        chain.copy_from_slice(&header[20..36]);
        public_key.copy_from_slice(&header[36..68]);
        let header = Self { chain: ChainId(chain), public_key };
        if header.encode() == bytes[..HEADER_BYTES] {
            Ok(header)
        } else {
            Err(HeaderError::Foreign)
        }
    }
}

/// The record of a segment.
#[must_use]
pub fn encode_segment(sealed: &SealedSegment) -> Vec<u8> {
    let SignedHead { head, statement, signature } = &sealed.signed;
    let mut payload = vec![SEGMENT];
    payload.extend_from_slice(signature);
    put(&mut payload, statement);
    sealed.blocks.iter().for_each(|block| put(&mut payload, block));
    record(head.sequence, &payload)
}

/// The record of a drop; its sequence is the last one that it covers.
#[must_use]
pub fn encode_drop(last: Sequence, statement: &[u8], signature: &[u8; 64]) -> Vec<u8> {
    record(last, &[&[DROP][..], signature, statement].concat())
}

/// The record of a chain's start; its sequence is 0.
#[must_use]
pub fn encode_chain_start(statement: &[u8], signature: &[u8; 64]) -> Vec<u8> {
    record(Sequence(0), &[&[CHAIN_START][..], signature, statement].concat())
}

/// Reads the record that begins with these bytes, whatever follows it. `None` when there is no
/// whole one.
#[must_use]
pub fn read_record(bytes: &[u8]) -> Option<(Content, usize)> {
    let (prefix, rest) = bytes.split_first_chunk::<PREFIX_BYTES>()?;
    let [l0, l1, l2, l3, c0, c1, c2, c3, sequence @ ..] = *prefix;
    let length = usize::try_from(u32::from_be_bytes([l0, l1, l2, l3])).ok()?;
    if length > PAYLOAD_BYTES_MAX {
        return None;
    }
    let payload = rest.get(..length)?;
    let (kind, body) = payload.split_first()?;
    // Before the sum over everything: looking for a record tries this at each byte.
    if !(SEGMENT..=CHAIN_START).contains(kind) {
        return None;
    }
    let sequence = Sequence(u64::from_be_bytes(sequence));
    if checksum(sequence, payload) != u32::from_be_bytes([c0, c1, c2, c3]) {
        return None;
    }
    Some((content(*kind, sequence, body)?, PREFIX_BYTES + length))
}

/// Reads everything behind the header of a file.
#[must_use]
pub fn scan(bytes: &[u8]) -> Scan {
    let mut scan = Scan { end: HEADER_BYTES.min(bytes.len()), ..Scan::default() };
    let mut at = scan.end;
    let mut newest = None;
    while at < bytes.len() {
        let found = read_record(&bytes[at..]).filter(|(content, _)| follows(newest, content));
        let Some((content, length)) = found else {
            at += 1;
            continue;
        };
        if at > scan.end {
            scan.damaged.push(scan.end..at);
        }
        if let Content::Segment(sealed) = &content {
            newest = newest.max(Some(sealed.signed.head.sequence));
        }
        scan.records.push(Found { offset: at, bytes: length, content });
        at += length;
        scan.end = at;
    }
    scan
}

/// Whether a record can stand in a file behind this sequence.
fn follows(newest: Option<Sequence>, content: &Content) -> bool {
    match (newest, content) {
        (Some(newest), Content::Segment(sealed)) => {
            sealed.signed.head.sequence.0.saturating_sub(newest.0) < SEQUENCES_MAX
        }
        _ => true,
    }
}

/// What a payload of this kind says; `None` unless it is whole and agrees with its sequence.
fn content(kind: u8, sequence: Sequence, body: &[u8]) -> Option<Content> {
    let (signature, rest) = body.split_first_chunk::<SIGNATURE_BYTES>()?;
    let signature = *signature;
    let statement = rest.to_vec();
    match kind {
        SEGMENT => {
            let (statement, mut rest) = take(rest)?;
            let head = Head::from_statement(statement).ok()?;
            let mut blocks = Vec::new();
            while !rest.is_empty() {
                let (block, behind) = take(rest)?;
                blocks.push(block.to_vec());
                rest = behind;
            }
            let fits = head.sequence == sequence && blocks.len() == usize::from(head.block_count);
            let signed = SignedHead { head, statement: statement.to_vec(), signature };
            fits.then(|| Content::Segment(Box::new(SealedSegment { signed, blocks })))
        }
        DROP => {
            let says = Drop::from_statement(rest).ok().filter(|drop| drop.last == sequence)?;
            Some(Content::Drop(Notice { says, statement, signature }))
        }
        CHAIN_START => {
            let says = ChainStart::from_statement(rest).ok().filter(|_| sequence.0 == 0)?;
            Some(Content::ChainStart(Notice { says, statement, signature }))
        }
        _ => None,
    }
}

fn record(sequence: Sequence, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PREFIX_BYTES + payload.len());
    bytes.extend(length_of(payload));
    bytes.extend(checksum(sequence, payload).to_be_bytes());
    bytes.extend(sequence.0.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// Over length, sequence and payload: a length that was altered is noticed too.
fn checksum(sequence: Sequence, payload: &[u8]) -> u32 {
    let prefix =
        crc32c::crc32c_append(crc32c::crc32c(&length_of(payload)), &sequence.0.to_be_bytes());
    crc32c::crc32c_append(prefix, payload)
}

/// Four bytes, the highest first; everything that is written is far below what they can say.
fn length_of(bytes: &[u8]) -> [u8; 4] {
    u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes()
}

fn put(out: &mut Vec<u8>, part: &[u8]) {
    out.extend(length_of(part));
    out.extend_from_slice(part);
}

fn take(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
}

#[cfg(test)]
mod tests;
