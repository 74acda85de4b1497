//! A stretch of the chain that lies in one file, or in memory: where each of its records is.

use std::io;

use leasewatch_core::evidence::chain::{Head, SealedSegment};
use leasewatch_core::evidence::spool::{Content, read_record};
use leasewatch_core::id::{Hash, Sequence};
use leasewatch_core::time::Timestamp;

use super::ChainEnd;
use super::disk::Disk;

/// Where the bytes are.
#[derive(Debug)]
pub(super) enum Body {
    /// In the file of this number.
    File(u64),
    /// Here.
    Memory(Vec<u8>),
}

/// Where a record lies in its body; no bytes when there is none.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    offset: u32,
    bytes: u32,
}

/// Records of ascending sequences. Eight bytes of memory for each, whatever it weighs.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) body: Body,
    /// All bytes of the body, with header, notices and damage.
    pub(super) bytes: u64,
    /// Its first segment.
    pub(super) first: Sequence,
    /// What the first segment follows.
    pub(super) previous: Option<Hash>,
    /// When the first segment starts.
    pub(super) started_at: Timestamp,
    /// Its last segment.
    pub(super) end: ChainEnd,
    /// Since when the server has all of it, on the boot clock.
    pub(super) acked_since_ms: Option<i64>,
    places: Vec<Place>,
}

impl Chunk {
    /// A chunk whose first segment has this head. It holds nothing yet.
    pub(super) fn new(body: Body, bytes: u64, first: &Head) -> Self {
        Self {
            body,
            bytes,
            first: first.sequence,
            previous: first.previous,
            started_at: first.period.start,
            end: ChainEnd::START,
            acked_since_ms: None,
            places: Vec::new(),
        }
    }

    /// Notes that the segment with this head lies at `offset`. Sequences between the last one and
    /// it are not here.
    pub(super) fn note(&mut self, head: &Head, offset: usize, bytes: usize) {
        let skipped = head.sequence.0.saturating_sub(self.first.0);
        let index = usize::try_from(skipped).unwrap_or(usize::MAX);
        self.places.resize(index, Place::default());
        let number = |value: usize| u32::try_from(value).unwrap_or(0);
        self.places.push(Place { offset: number(offset), bytes: number(bytes) });
        self.end = ChainEnd::of(head);
    }

    /// Takes a record into memory.
    pub(super) fn keep(&mut self, head: &Head, record: &[u8]) {
        if let Body::Memory(bytes) = &mut self.body {
            let offset = bytes.len();
            bytes.extend_from_slice(record);
            self.bytes += u64::try_from(record.len()).unwrap_or(0);
            self.note(head, offset, record.len());
        }
    }

    pub(super) fn is_in_memory(&self) -> bool {
        matches!(self.body, Body::Memory(_))
    }

    pub(super) fn file(&self) -> Option<u64> {
        match self.body {
            Body::File(number) => Some(number),
            Body::Memory(_) => None,
        }
    }

    /// What a segment of it weighs; `None` when it is not here.
    pub(super) fn weight(&self, sequence: Sequence) -> Option<u64> {
        self.place(sequence).map(|place| u64::from(place.bytes))
    }

    /// Reads a segment. `None` when it is not here, or not whole any more.
    pub(super) fn read(
        &self,
        sequence: Sequence,
        disk: Option<&dyn Disk>,
    ) -> Option<SealedSegment> {
        let bytes = self.record(sequence, disk).ok()?;
        match read_record(&bytes)? {
            (Content::Segment(sealed), _) if sealed.signed.head.sequence == sequence => {
                Some(*sealed)
            }
            _ => None,
        }
    }

    fn record(&self, sequence: Sequence, disk: Option<&dyn Disk>) -> io::Result<Vec<u8>> {
        let gone = || io::Error::from(io::ErrorKind::NotFound);
        let place = self.place(sequence).ok_or_else(gone)?;
        let bytes = usize::try_from(place.bytes).map_err(io::Error::other)?;
        match &self.body {
            Body::File(number) => {
                disk.ok_or_else(gone)?.read_at(*number, u64::from(place.offset), bytes)
            }
            Body::Memory(all) => {
                let offset = usize::try_from(place.offset).map_err(io::Error::other)?;
                all.get(offset..offset.saturating_add(bytes)).map(<[u8]>::to_vec).ok_or_else(gone)
            }
        }
    }

    fn place(&self, sequence: Sequence) -> Option<Place> {
        let index = usize::try_from(sequence.0.checked_sub(self.first.0)?).ok()?;
        self.places.get(index).copied().filter(|place| place.bytes > 0)
    }
}
