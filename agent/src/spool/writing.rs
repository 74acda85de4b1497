//! Appending, and what has to go so that there is room.

use std::io;

use leasewatch_core::evidence::chain::{DropReason, Head, SealedSegment};
use leasewatch_core::evidence::spool::{
    HEADER_BYTES, encode_chain_start, encode_drop, encode_segment,
};
use leasewatch_core::id::Sequence;
use leasewatch_core::time::{HOUR_MS, Period};

use super::chunk::{Body, Chunk};
use super::{ChainEnd, DroppedRange, Spool};
use crate::clock::Instant;

/// Most bytes that wait in memory while the disk cannot be used.
const MEMORY_BYTES_MAX: u64 = 16 << 20;
/// A disk that failed is tried again this much later.
const RETRY_MS: i64 = 60_000;

/// Why segments wait in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) reason: String,
    retry_at_ms: i64,
}

/// What became of a segment that was appended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Appended {
    /// It is on disk: a process that dies now loses nothing of it.
    pub is_durable: bool,
    /// A file was begun for it.
    pub is_new_file: bool,
    /// Segments that had to go for it and were never acknowledged.
    pub given_up: u64,
    /// The drops that they became, to be signed; each may include earlier ones.
    pub drops: Vec<DroppedRange>,
}

impl Spool {
    /// Takes the next segment of the chain in, and gives up the oldest ones if that is too much.
    /// When this returns `is_durable`, the segment is on disk, else it is in memory.
    pub fn append(&mut self, sealed: &SealedSegment, now: Instant) -> Appended {
        let head = &sealed.signed.head;
        debug_assert_eq!(self.end.sequence.next(), Some(head.sequence));
        let record = encode_segment(sealed);
        let mut appended = Appended::default();
        let mut dropped = Vec::new();
        self.make_room(record.len(), &mut dropped, &mut appended);
        match self.write(head, &record, now) {
            Some(is_new_file) => (appended.is_durable, appended.is_new_file) = (true, is_new_file),
            None => self.keep_in_memory(head, &record),
        }
        self.end = ChainEnd::of(head);
        self.make_room(0, &mut dropped, &mut appended);
        let mut drops: Vec<DroppedRange> =
            dropped.iter().filter_map(|last| self.dropped.at(*last)).copied().collect();
        drops.dedup();
        appended.drops = drops;
        appended
    }

    /// Keeps the signed drop of a range beside the segments. It is durable with the next segment;
    /// should it be lost before, the hole is declared from the heads around it.
    pub fn note_drop(&mut self, range: &DroppedRange, statement: &[u8], signature: &[u8; 64]) {
        self.append_notice(&encode_drop(range.last, statement, signature));
    }

    /// Keeps the signed start of the chain beside its segments.
    pub fn note_chain_start(&mut self, statement: &[u8], signature: &[u8; 64]) {
        self.append_notice(&encode_chain_start(statement, signature));
    }

    fn append_notice(&mut self, record: &[u8]) {
        let (Some(number), Some(disk)) = (self.active, self.disk.as_mut()) else { return };
        let result = disk.append(number, record);
        if let Some(chunk) = self.chunks.back_mut() {
            chunk.bytes += length(record);
        }
        if result.is_err() {
            self.active = None;
        }
    }

    /// Writes to disk; returns whether a file was begun, `None` when it has to wait in memory.
    fn write(&mut self, head: &Head, record: &[u8], now: Instant) -> Option<bool> {
        self.disk.as_ref()?;
        if self.trouble.as_ref().is_some_and(|trouble| now.boot_ms < trouble.retry_at_ms) {
            return None;
        }
        if self.is_below_reserve(length(record)) {
            let reserve = self.quota.reserve_bytes >> 20;
            let reason = format!("less than {reserve} MiB of the disk are free");
            // To be looked at each time: asking costs nothing.
            self.set_trouble(reason, now.boot_ms, now);
            return None;
        }
        // A file whose write or sync failed is given up: nobody knows what the disk has of it. The
        // segment is written again, to a new one.
        let failed = match self.write_once(head, record) {
            Ok(is_new_file) => Ok(is_new_file),
            Err(first) if self.active.take().is_some() => {
                tracing::error!(error = %first, "a spool file is given up, a new one begins");
                self.write_once(head, record)
            }
            Err(error) => Err(error),
        };
        match failed {
            Ok(is_new_file) => {
                if self.trouble.take().is_some() {
                    tracing::info!("the spool is on disk again");
                    self.write_note(now);
                }
                Some(is_new_file)
            }
            Err(error) => {
                self.active = None;
                self.set_trouble(error.to_string(), now.boot_ms.saturating_add(RETRY_MS), now);
                None
            }
        }
    }

    fn write_once(&mut self, head: &Head, record: &[u8]) -> io::Result<bool> {
        let Some(disk) = self.disk.as_mut() else { return Err(io::ErrorKind::NotFound.into()) };
        let limit = self.quota.file_bytes();
        let is_next = |chunk: &&mut Chunk| {
            chunk.file() == self.active
                && chunk.end.sequence == self.end.sequence
                && chunk.bytes + length(record) <= limit
        };
        let number = self.active;
        if let (Some(number), Some(chunk)) = (number, self.chunks.back_mut().filter(is_next)) {
            let offset = usize::try_from(chunk.bytes).map_err(io::Error::other)?;
            // Counted before it is known to be there: what failed may fill the disk all the same.
            chunk.bytes += length(record);
            disk.append(number, record)?;
            disk.sync(number)?;
            chunk.note(head, offset, record.len());
            return Ok(false);
        }
        let number = self.next_number;
        self.next_number += 1;
        let begun = disk
            .create(number, &self.owner.encode())
            .and_then(|()| disk.append(number, record))
            .and_then(|()| disk.sync(number));
        if let Err(error) = begun {
            let _ = disk.remove(number);
            return Err(error);
        }
        let bytes = length(record) + HEADER_BYTES as u64;
        let mut chunk = Chunk::new(Body::File(number), bytes, head);
        chunk.note(head, HEADER_BYTES, record.len());
        self.chunks.push_back(chunk);
        self.active = Some(number);
        Ok(true)
    }

    fn keep_in_memory(&mut self, head: &Head, record: &[u8]) {
        self.active = None;
        let limit = self.quota.file_bytes();
        let has_room = self.chunks.back().is_some_and(|chunk| {
            chunk.is_in_memory()
                && chunk.end.sequence == self.end.sequence
                && chunk.bytes + length(record) <= limit
        });
        if !has_room {
            self.chunks.push_back(Chunk::new(Body::Memory(Vec::new()), 0, head));
        }
        if let Some(chunk) = self.chunks.back_mut() {
            chunk.keep(head, record);
        }
    }

    pub(super) fn set_trouble(&mut self, reason: String, retry_at_ms: i64, now: Instant) {
        if self.trouble.as_ref().is_none_or(|trouble| trouble.reason != reason) {
            tracing::error!(
                reason,
                "the spool cannot be written: records wait in memory and die with the process"
            );
        }
        self.trouble = Some(Trouble { reason, retry_at_ms });
        self.write_note(now);
    }

    /// Lets go of the oldest until `incoming` bytes fit. Not of the file that is written: its end
    /// is the end of the chain.
    fn make_room(&mut self, incoming: usize, dropped: &mut Vec<Sequence>, out: &mut Appended) {
        let incoming = u64::try_from(incoming).unwrap_or(u64::MAX);
        loop {
            let is_over = self.is_over_quota(incoming) || self.is_below_reserve(incoming);
            if is_over && self.disk.as_mut().is_some_and(|disk| disk.remove_set_aside()) {
                continue;
            }
            let newest = self.chunks.len().saturating_sub(1);
            let on_disk = |chunk: &Chunk| chunk.file().is_some() && chunk.file() != self.active;
            let in_disk = || self.chunks.iter().position(on_disk);
            let in_memory = || self.chunks.iter().position(Chunk::is_in_memory);
            let surplus = if is_over { in_disk() } else { None }
                .or_else(|| in_memory().filter(|at| self.is_memory_full() && *at < newest))
                .or_else(|| (self.is_too_long() && newest > 0).then_some(0));
            let Some(index) = surplus else {
                // Nothing is left but the file that is written: the next segment begins another.
                if self.is_over_quota(incoming) {
                    self.active = None;
                }
                return;
            };
            self.evict(index, dropped, out);
        }
    }

    fn is_over_quota(&self, incoming: u64) -> bool {
        let Some(disk) = &self.disk else { return false };
        let files = self.chunks.iter().filter(|chunk| !chunk.is_in_memory());
        let bytes: u64 = files.map(|chunk| chunk.bytes).sum();
        let header = if incoming > 0 { HEADER_BYTES as u64 } else { 0 };
        bytes + disk.set_aside_bytes() + incoming + header > self.quota.bytes
    }

    fn is_below_reserve(&self, incoming: u64) -> bool {
        let free = self.disk.as_ref().and_then(|disk| disk.free_bytes());
        free.is_some_and(|free| free < self.quota.reserve_bytes.saturating_add(incoming))
    }

    fn is_memory_full(&self) -> bool {
        let chunks = self.chunks.iter().filter(|chunk| chunk.is_in_memory());
        chunks.map(|chunk| chunk.bytes).sum::<u64>() > self.quota.bytes.min(MEMORY_BYTES_MAX)
    }

    fn is_too_long(&self) -> bool {
        let (Some(front), Some(end)) = (self.chunks.front(), self.end.ended_at) else {
            return false;
        };
        end.since(front.started_at) > i64::from(self.quota.hours).saturating_mul(HOUR_MS)
    }

    /// Lets a chunk go. What of it was not acknowledged becomes a drop.
    fn evict(&mut self, index: usize, dropped: &mut Vec<Sequence>, out: &mut Appended) {
        let Some(chunk) = self.chunks.get(index) else { return };
        let (end, first) = (chunk.end, chunk.first);
        if end.sequence <= self.acked {
            // Everything before it was acknowledged as well.
            return self.forget_front(index + 1);
        }
        let (Some(last_head), Some(ended_at)) = (end.head, end.ended_at) else { return };
        let owed = first.max(after(self.acked));
        let delivered = (owed > first).then(|| chunk.read(self.acked, self.disk.as_deref()));
        let started_at = delivered.flatten().map_or(chunk.started_at, |s| s.signed.head.period.end);
        let owed_count = end.sequence.0.saturating_add(1).saturating_sub(owed.0);
        out.given_up += owed_count - self.dropped.count_in(owed.0..=end.sequence.0).min(owed_count);
        if owed > first {
            self.forget_front(index);
        }
        let index = self.chunks.iter().position(|chunk| chunk.first == first).unwrap_or(0);
        self.remove_chunk(index);
        self.dropped.insert(DroppedRange {
            first: owed,
            last: end.sequence,
            period: Period::new(started_at.min(ended_at), ended_at),
            reason: DropReason::Quota,
            last_head,
        });
        self.settle_front();
        dropped.push(end.sequence);
    }

    /// Removes so many chunks from the front, which are of no use any more.
    pub(super) fn forget_front(&mut self, count: usize) {
        for _ in 0..count.min(self.chunks.len()) {
            if let Some(chunk) = self.remove_chunk(0) {
                self.before = chunk.end;
            }
        }
        self.settle_front();
    }

    fn remove_chunk(&mut self, index: usize) -> Option<Chunk> {
        let chunk = self.chunks.remove(index)?;
        if let (Some(number), Some(disk)) = (chunk.file(), self.disk.as_mut()) {
            self.active = self.active.filter(|active| *active != number);
            if let Err(error) = disk.remove(number) {
                tracing::warn!(file = number, error = %error, "a spool file could not be removed");
            }
        }
        Some(chunk)
    }
}

pub(super) fn after(sequence: Sequence) -> Sequence {
    sequence.next().unwrap_or(sequence)
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}
