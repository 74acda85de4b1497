//! What of the chain will never come, and how that is said: refused, unreadable, unknown, given up.

use leasewatch_core::evidence::chain::{DropReason, SealedSegment};
use leasewatch_core::evidence::spool::FileHeader;
use leasewatch_core::id::{ChainId, Hash, Sequence};
use leasewatch_core::time::{Period, Timestamp};

use super::chunk::Chunk;
use super::writing::after;
use super::{ChainEnd, DroppedRange, Spool};

impl Spool {
    /// Turns a segment that the server refuses into a drop and returns it.
    pub fn quarantine(&mut self, sequence: Sequence) -> Option<SealedSegment> {
        let sealed = self.segment(sequence)?;
        let head = &sealed.signed.head;
        self.dropped.insert(DroppedRange {
            first: sequence,
            last: sequence,
            period: head.period,
            reason: DropReason::Refused,
            last_head: head.hash(),
        });
        Some(sealed)
    }

    /// Declares what the server expects and this spool never had or has trimmed: everything from
    /// `first` to right before the oldest entry. `since` is where the server's record ends, if it
    /// has one, and `head` what it holds there.
    ///
    /// Returns false when the hash of the last head is not known, so that nothing can be declared.
    pub fn declare(
        &mut self,
        first: Sequence,
        since: Option<Timestamp>,
        head: Option<Hash>,
    ) -> bool {
        let last = self.before.sequence;
        if first > last {
            return false;
        }
        let front = self.dropped.at(after(last)).copied();
        let (last, last_head, end, reason) = match (front, self.before.head, self.before.ended_at) {
            // The drop at the front covers more than was known.
            (Some(front), ..) => (front.last, front.last_head, front.period.end, front.reason),
            (None, Some(last_head), Some(end)) => (last, last_head, end, DropReason::Lost),
            _ => return false,
        };
        let start = since.unwrap_or(end).min(end);
        let period = Period::new(start, end);
        self.dropped.insert(DroppedRange { first, last, period, reason, last_head });
        let sequence = Sequence(first.0.saturating_sub(1));
        self.before = ChainEnd { sequence, head, ended_at: Some(start) };
        self.acked = self.acked.min(sequence);
        true
    }

    /// Ends the chain, which cannot go on, and begins the next one. What is owed of the old one
    /// becomes a drop of the first sequences of the new one: in the old chain those sequences are
    /// somebody else's, or the server refuses a drop of them. Returns how many sequences that are.
    ///
    /// The files of the old chain stay until [`Spool::remove_stale`].
    pub fn start_chain(&mut self, chain: ChainId) -> u64 {
        let first = after(self.acked.max(self.before.sequence));
        let owed = self.end.sequence.0.saturating_add(1).saturating_sub(first.0);
        let of_chunks = self.chunks.iter().find(|chunk| chunk.end.sequence >= first);
        let of_drops = self.dropped.at(first).map(|range| range.period.start);
        let started_at = of_drops.into_iter().chain(of_chunks.map(|chunk| chunk.started_at)).min();
        self.stale.extend(self.chunks.iter().filter_map(Chunk::file));
        let (disk, next_number) = (self.disk.take(), self.next_number);
        let (stale, trouble) = (std::mem::take(&mut self.stale), self.trouble.take());
        let (end, owner) = (self.end, FileHeader { chain, ..self.owner });
        let empty = Self::in_memory(self.quota, owner, ChainEnd::START);
        *self = Self { disk, next_number, stale, trouble, ..empty };
        self.owe(owed, started_at, end);
        if self.end.sequence.0 == 0 { 0 } else { owed }
    }

    /// The new chain begins with a drop of so many sequences, which ended at `end` in the old one.
    pub(super) fn owe(&mut self, count: u64, started_at: Option<Timestamp>, end: ChainEnd) {
        let (Some(started_at), Some(last_head), Some(ended_at)) =
            (started_at, end.head, end.ended_at)
        else {
            return;
        };
        if count == 0 {
            return;
        }
        let last = Sequence(count);
        self.dropped.insert(DroppedRange {
            first: Sequence::FIRST,
            last,
            period: Period::new(started_at.min(ended_at), ended_at),
            reason: DropReason::Lost,
            last_head,
        });
        self.end = ChainEnd { sequence: last, ..end };
    }

    /// Removes the files of chains that were given up. To be called once the state on disk names
    /// the new chain: a process that dies before goes on with the old one.
    pub fn remove_stale(&mut self) {
        let Some(disk) = self.disk.as_mut() else { return };
        for number in std::mem::take(&mut self.stale) {
            if let Err(error) = disk.remove(number) {
                tracing::warn!(file = number, error = %error, "an old spool file stays");
            }
        }
    }

    /// A segment cannot be read any more. It becomes a drop, with those behind it that cannot be
    /// read either: the next head that can says what hash the last of them had.
    pub(super) fn spoil(&mut self, sequence: Sequence) {
        let Some(chunk) = self.chunk(sequence) else { return };
        let disk = self.disk.as_deref();
        let mut last = sequence;
        let mut last_head = chunk.end.head;
        while last < chunk.end.sequence {
            let next = after(last);
            match chunk.read(next, disk) {
                Some(sealed) => {
                    last_head = sealed.signed.head.previous;
                    break;
                }
                None => last = next,
            }
        }
        let (Some(last_head), Some(ended_at)) = (last_head, chunk.end.ended_at) else { return };
        let period = Period::new(chunk.started_at, ended_at);
        let reason = DropReason::Corrupt;
        tracing::error!(
            first = sequence.0,
            last = last.0,
            "segments cannot be read from the spool any more and are dropped"
        );
        self.dropped.insert(DroppedRange { first: sequence, last, period, reason, last_head });
    }
}
