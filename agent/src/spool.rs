//! Sealed segments that wait for the server: on disk, and in memory where the disk cannot be used.
//!
//! Invariants, in the order in which a reader should doubt them:
//! 1. **A sequence never stands for two contents.** A segment may leave only after it is on disk
//!    (`fdatasync`), or, while it waits in memory, after `state.toml` names it as the chain's end.
//!    The chain goes on behind the higher of the two ends. The file that is written is never
//!    removed before the next one is synced, so an acknowledged end is not forgotten either.
//! 2. **What was written whole is delivered.** Files are only appended to, and removed whole. A
//!    torn tail is cut; damage in the middle costs the records that it is in; a file that is not
//!    understood is set aside. Opening never fails.
//! 3. **What is lost is declared.** Everything from the oldest sequence that is kept to the end of
//!    the chain is a segment or part of a dropped range, and every such range can be signed: its
//!    end is the `previous` of the head behind it.
//! 4. **Nothing on disk has to be believed.** There is no ledger: what is here follows from the
//!    records. How far the server is stands in a note that may be lost, or be anything.
//! 5. **Bounded**: bytes on disk, hours, free bytes of the disk, bytes in memory. Eight bytes of
//!    memory for each segment on disk; one is read when it is sent.
//!
//! Acknowledged segments stay for an hour where there is a disk, so that a server that was restored
//! from a backup can have them again. Not here: keys and signatures, and what stands in a record
//! (`core::evidence::spool`).

mod chunk;
mod disk;
mod dropped;
mod loss;
mod opening;
mod report;
mod writing;

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use leasewatch_core::delivery::{Item, ItemKind, SpoolIndex};
use leasewatch_core::evidence::chain::{Head, SealedSegment};
use leasewatch_core::evidence::spool::FileHeader;
use leasewatch_core::id::{Hash, Sequence};
use leasewatch_core::time::Timestamp;

use self::chunk::Chunk;
use self::disk::Disk;
use self::dropped::Dropped;
use self::opening::Note;
use self::writing::{Trouble, after};
use crate::clock::Instant;

pub(crate) use disk::network_file_system;
pub use dropped::DroppedRange;
pub use report::{Mode, Reader, Report};
pub use writing::Appended;

/// What a drop weighs on the wire, roughly: its statement and signature.
const DROP_BYTES: u64 = 512;
/// How long acknowledged segments stay on disk.
const GRACE_MS: i64 = 3_600_000;
/// Between two notes about acknowledgements.
const NOTE_EVERY_MS: i64 = 30_000;

/// The folder of the spool in a state directory.
#[must_use]
pub fn folder(state_dir: &Path) -> PathBuf {
    state_dir.join("spool")
}

/// How much the spool may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of files.
    pub bytes: u64,
    /// Hours from the oldest to the newest segment.
    pub hours: u32,
    /// Bytes of the disk that stay free for others.
    pub reserve_bytes: u64,
}

impl Quota {
    /// Where a file ends and the next begins: what is dropped at once is a sixteenth.
    fn file_bytes(&self) -> u64 {
        (self.bytes / 16).clamp(4 << 10, 1 << 20)
    }
}

/// The end of a chain: the last head that was sealed, or that left the spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChainEnd {
    /// Its sequence; 0 before the first.
    pub sequence: Sequence,
    /// Its hash; `None` at 0, and where it is not known any more.
    pub head: Option<Hash>,
    /// The end of its period; `None` at 0.
    pub ended_at: Option<Timestamp>,
}

impl ChainEnd {
    /// The end of a chain without segments.
    pub const START: Self = Self { sequence: Sequence(0), head: None, ended_at: None };

    fn of(head: &Head) -> Self {
        let (sequence, ended_at) = (head.sequence, Some(head.period.end));
        Self { sequence, head: Some(head.hash()), ended_at }
    }
}

/// Sealed segments of one chain, in order.
#[derive(Debug)]
pub struct Spool {
    quota: Quota,
    owner: FileHeader,
    disk: Option<Box<dyn Disk>>,
    /// The file that is appended to: the last chunk's.
    active: Option<u64>,
    next_number: u64,
    /// Why nothing is written to disk at present.
    trouble: Option<Trouble>,
    /// Files of chains that were given up, removed once the state names the new one.
    stale: Vec<u64>,
    /// What stands right before the oldest sequence.
    before: ChainEnd,
    end: ChainEnd,
    chunks: VecDeque<Chunk>,
    dropped: Dropped,
    /// As far as this process knows.
    acked: Sequence,
    acked_at: Option<Timestamp>,
    noted_at_ms: Option<i64>,
}

impl Spool {
    /// An empty spool in memory, of a chain that ends at `end`.
    #[must_use]
    pub fn in_memory(quota: Quota, owner: FileHeader, end: ChainEnd) -> Self {
        Self {
            quota,
            owner,
            disk: None,
            active: None,
            next_number: 1,
            trouble: None,
            stale: Vec::new(),
            before: end,
            end,
            chunks: VecDeque::new(),
            dropped: Dropped::default(),
            acked: end.sequence,
            acked_at: None,
            noted_at_ms: None,
        }
    }

    /// The end of the chain.
    #[must_use]
    pub fn end(&self) -> ChainEnd {
        self.end
    }

    /// Segments that wait for the server.
    #[must_use]
    pub fn segments(&self) -> u64 {
        let from = self.acked.max(self.before.sequence).0.saturating_add(1);
        let all = self.end.sequence.0.saturating_add(1).saturating_sub(from);
        all.saturating_sub(self.dropped.count_in(from..=self.end.sequence.0))
    }

    /// Bytes that are kept, on disk and in memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.bytes).sum()
    }

    /// Why segments wait in memory only; `None` while they are on disk.
    #[must_use]
    pub fn memory_reason(&self) -> Option<&str> {
        self.trouble.as_ref().map(|trouble| trouble.reason.as_str())
    }

    /// The segment with this sequence. One that cannot be read any more becomes a drop.
    pub fn segment(&mut self, sequence: Sequence) -> Option<SealedSegment> {
        if self.dropped.at(sequence).is_some() {
            return None;
        }
        let sealed = self.chunk(sequence)?.read(sequence, self.disk.as_deref());
        if sealed.is_none() {
            self.spoil(sequence);
        }
        sealed
    }

    /// The drop for `first ..= last`, both within one dropped range that ends at `last`.
    #[must_use]
    pub fn dropped(&self, first: Sequence, last: Sequence) -> Option<DroppedRange> {
        let range = self.dropped.at(first)?;
        (range.last == last).then_some(DroppedRange { first, ..*range })
    }

    /// The server has everything up to `through`. What it has had for an hour goes.
    pub fn trim(&mut self, through: Sequence, now: Instant) {
        let through = through.min(self.end.sequence);
        // Less than before: a server that was restored from a backup wants some of it again.
        if through != self.acked {
            (self.acked, self.acked_at) = (through, Some(now.wall));
        }
        for chunk in &mut self.chunks {
            let is_acked = chunk.end.sequence <= self.acked;
            let since = chunk.acked_since_ms.unwrap_or(now.boot_ms);
            chunk.acked_since_ms = is_acked.then_some(since);
        }
        let is_over = |chunk: &Chunk| {
            let since = chunk.acked_since_ms.map_or(0, |since| now.boot_ms.saturating_sub(since));
            let is_acked = chunk.end.sequence <= self.acked;
            let is_written = chunk.file().is_some() && chunk.file() == self.active;
            is_acked && !is_written && (chunk.is_in_memory() || since >= GRACE_MS)
        };
        let count = self.chunks.iter().take_while(|chunk| is_over(chunk)).count();
        self.forget_front(count);
        let is_due = |at: i64| now.boot_ms.saturating_sub(at) >= NOTE_EVERY_MS;
        if self.noted_at_ms.is_none_or(is_due) || self.acked == self.end.sequence {
            self.write_note(now);
        }
    }

    fn chunk(&self, sequence: Sequence) -> Option<&Chunk> {
        let index = self.chunks.partition_point(|chunk| chunk.end.sequence < sequence);
        self.chunks.get(index).filter(|chunk| chunk.first <= sequence)
    }

    /// After something left the front: forgets drops that nobody asks for any more, and knows again
    /// what stands before the oldest sequence.
    fn settle_front(&mut self) {
        let front = self.chunks.front();
        let kept = front.map_or(Sequence(u64::MAX), |chunk| chunk.first).min(after(self.acked));
        self.dropped.forget_below(kept);
        let of_drop = self.dropped.oldest().map(|range| range.first);
        let known = match (front, of_drop) {
            (None, None) => self.end,
            (Some(chunk), None) => before(chunk),
            (Some(chunk), Some(first)) if chunk.first <= first => before(chunk),
            (_, Some(first)) => {
                ChainEnd { sequence: Sequence(first.0 - 1), head: None, ended_at: None }
            }
        };
        if self.before.sequence != known.sequence || self.before.head.is_none() {
            self.before = known;
        }
    }

    fn write_note(&mut self, now: Instant) {
        self.noted_at_ms = Some(now.boot_ms);
        let note = Note {
            chain: self.owner.chain.to_string(),
            acked: self.acked.0,
            acked_at_ms: self.acked_at.map(|at| at.0),
            memory_reason: self.memory_reason().map(ToOwned::to_owned),
        };
        if let (Some(disk), Ok(text)) = (self.disk.as_mut(), toml::to_string(&note)) {
            let _ = disk.set_note(&text);
        }
    }
}

/// What stands right before a chunk.
fn before(chunk: &Chunk) -> ChainEnd {
    match chunk.previous {
        None => ChainEnd::START,
        head => ChainEnd {
            sequence: Sequence(chunk.first.0.saturating_sub(1)),
            head,
            ended_at: Some(chunk.started_at),
        },
    }
}

impl SpoolIndex for Spool {
    fn oldest(&self) -> Sequence {
        after(self.before.sequence)
    }

    fn newest(&self) -> Sequence {
        self.end.sequence
    }

    fn item(&self, sequence: Sequence) -> Option<Item> {
        if let Some(range) = self.dropped.at(sequence) {
            let (first, last) = (range.first, range.last);
            return Some(Item { first, last, bytes: DROP_BYTES, kind: ItemKind::Drop });
        }
        let bytes = self.chunk(sequence)?.weight(sequence)?;
        Some(Item { first: sequence, last: sequence, bytes, kind: ItemKind::Segment })
    }

    fn head_hash(&self, sequence: Sequence) -> Option<Hash> {
        if sequence == self.before.sequence {
            return self.before.head;
        }
        if sequence == self.end.sequence {
            return self.end.head;
        }
        if let Some(range) = self.dropped.at(sequence) {
            return (range.last == sequence).then_some(range.last_head);
        }
        let sealed = self.chunk(sequence)?.read(sequence, self.disk.as_deref())?;
        Some(sealed.signed.head.hash())
    }
}

#[cfg(test)]
mod tests;
