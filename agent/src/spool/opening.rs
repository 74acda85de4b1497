//! Opening: what the files hold, in whatever state they are.

use std::path::Path;

use leasewatch_core::evidence::chain::{DropReason, Head};
use leasewatch_core::evidence::spool::{Content, FileHeader, HeaderError, Scan, scan};
use leasewatch_core::id::Sequence;
use leasewatch_core::time::{Period, Timestamp};
use serde::{Deserialize, Serialize};

use super::chunk::{Body, Chunk};
use super::disk::{Disk, Folder};
use super::writing::after;
use super::{ChainEnd, DroppedRange, Quota, Spool};
use crate::clock;

/// No spool writes a longer file.
pub(super) const FILE_BYTES_MAX: u64 = 4 << 20;
/// A hole that no spool leaves within a file.
const HOLE_MAX: u64 = 100_000;

/// How far the server is, as far as the last process knew.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Note {
    pub(super) chain: String,
    pub(super) acked: u64,
    pub(super) acked_at_ms: Option<i64>,
    pub(super) memory_reason: Option<String>,
}

impl Note {
    pub(super) fn of(disk: &dyn Disk) -> Option<Self> {
        toml::from_str(&disk.note()?).ok()
    }
}

/// What is found while files are read.
#[derive(Debug, Default)]
struct Found {
    drops: Vec<DroppedRange>,
    holes: Vec<DroppedRange>,
    /// The last segment of all files before.
    newest: Option<ChainEnd>,
    /// Something between it and what comes next could not be read.
    is_damaged: bool,
    /// Of chains that were given up: segments that wait, since when, and their end.
    owed: u64,
    owed_since: Option<Timestamp>,
    owed_end: Option<ChainEnd>,
}

impl Spool {
    /// The spool in this folder, of a chain that ends at `known` or later. Where there can be no
    /// folder, it is in memory, and says so.
    #[must_use]
    pub fn open(folder: &Path, quota: Quota, owner: FileHeader, known: ChainEnd) -> Self {
        match Folder::open(folder) {
            Ok(disk) => Self::on(Box::new(disk), quota, owner, known),
            Err(error) => {
                let mut spool = Self::in_memory(quota, owner, known);
                let reason = format!("{}: {error}", folder.display());
                spool.set_trouble(reason, i64::MAX, clock::Instant::now());
                spool
            }
        }
    }

    pub(super) fn on(
        disk: Box<dyn Disk>,
        quota: Quota,
        owner: FileHeader,
        known: ChainEnd,
    ) -> Self {
        let mut spool = Self { disk: Some(disk), ..Self::in_memory(quota, owner, ChainEnd::START) };
        let mut found = Found::default();
        let files = spool.disk.as_ref().map(|disk| disk.list());
        let files = match files.transpose() {
            Ok(files) => files.unwrap_or_default(),
            Err(error) => {
                tracing::error!(error = %error, "the spool's folder cannot be read");
                Vec::new()
            }
        };
        let last = files.last().map(|(number, _)| *number);
        for (number, bytes) in files {
            spool.next_number = number.saturating_add(1);
            spool.take_file(number, bytes, last == Some(number), &mut found);
        }
        spool.settle(&found, known);
        spool
    }

    fn take_file(&mut self, number: u64, bytes: u64, is_last: bool, found: &mut Found) {
        let Some(disk) = self.disk.as_mut() else { return };
        let content = if bytes > FILE_BYTES_MAX {
            Err("it is too long".to_owned())
        } else {
            disk.read(number, FILE_BYTES_MAX).map_err(|error| error.to_string())
        };
        let header = content.and_then(|content| match FileHeader::decode(&content) {
            Ok(header) if header.public_key != self.owner.public_key => {
                Err("another node's key wrote it".to_owned())
            }
            Ok(header) => Ok(Some((header, content))),
            // Nothing can be in it yet.
            Err(HeaderError::Torn) => Ok(None),
            Err(error) => Err(error.to_string()),
        });
        match header {
            Err(reason) => {
                found.is_damaged = true;
                let kept = disk.set_aside(number).is_ok();
                tracing::error!(file = number, reason, kept, "a spool file is not read");
            }
            Ok(None) => {
                let _ = disk.remove(number);
            }
            Ok(Some((header, content))) if header.chain == self.owner.chain => {
                self.take_records(number, &content, is_last, found);
            }
            Ok(Some((header, content))) => {
                let note = Note::of(disk.as_ref()).filter(|n| n.chain == header.chain.to_string());
                let acked = Sequence(note.map_or(0, |note| note.acked));
                found.take_stale(&scan(&content), acked);
                self.stale.push(number);
            }
        }
    }

    fn take_records(&mut self, number: u64, bytes: &[u8], is_last: bool, found: &mut Found) {
        let scan = scan(bytes);
        let torn = bytes.len() - scan.end;
        let is_whole = scan.damaged.is_empty() && (torn == 0 || is_last);
        if !is_whole {
            let lost = torn + scan.damaged.iter().map(ExactSizeIterator::len).sum::<usize>();
            tracing::error!(file = number, bytes = lost, "a part of a spool file is not readable");
        }
        let size = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
        let mut chunk: Option<Chunk> = None;
        let mut damage = scan.damaged.iter().peekable();
        for record in &scan.records {
            found.is_damaged |= damage.next_if(|range| range.end <= record.offset).is_some();
            let head = match &record.content {
                Content::Drop(notice) if notice.says.chain == self.owner.chain => {
                    found.drops.push(DroppedRange::from(&notice.says));
                    continue;
                }
                Content::Segment(sealed) if sealed.signed.head.chain == self.owner.chain => {
                    &sealed.signed.head
                }
                _ => continue,
            };
            if !found.follows(head, chunk.is_some()) {
                continue;
            }
            let body = || Body::File(number);
            let chunk = chunk.get_or_insert_with(|| Chunk::new(body(), size(bytes.len()), head));
            chunk.note(head, record.offset, record.bytes);
        }
        found.is_damaged |= torn > 0 && !is_last;
        let Some(disk) = self.disk.as_mut() else { return };
        let Some(mut chunk) = chunk else {
            let _ = disk.remove(number);
            return;
        };
        self.active = None;
        if is_whole && is_last {
            let end = size(scan.end);
            if torn == 0 || disk.truncate(number, end).is_ok() {
                chunk.bytes = end;
                self.active = Some(number);
            }
        }
        self.chunks.push_back(chunk);
    }

    /// Covers the holes, and finds both ends.
    fn settle(&mut self, found: &Found, known: ChainEnd) {
        found.drops.iter().for_each(|drop| self.dropped.insert(*drop));
        for hole in &found.holes {
            let is_covered = self.dropped.count_in(hole.first.0..=hole.last.0)
                == hole.last.0.saturating_add(1).saturating_sub(hole.first.0);
            if !is_covered {
                self.dropped.insert(*hole);
            }
        }
        // Drops reach down to the oldest file without a hole; others are of what the server has.
        let mut oldest = self.chunks.front().map_or(Sequence(u64::MAX), |chunk| chunk.first);
        while let Some(range) = self.dropped.at(Sequence(oldest.0.saturating_sub(1))) {
            oldest = range.first;
        }
        self.dropped.forget_below(oldest);
        self.end = found.newest.unwrap_or(ChainEnd::START);
        if let Some(range) = self.dropped.newest().copied().filter(|r| r.last > self.end.sequence) {
            let first = range.first.min(after(self.end.sequence));
            self.dropped.insert(DroppedRange { first, ..range });
            let (head, ended_at) = (Some(range.last_head), Some(range.period.end));
            self.end = ChainEnd { sequence: range.last, head, ended_at };
        }
        self.reach(known);
        if self.end == ChainEnd::START && !self.stale.is_empty() {
            self.owe(found.owed, found.owed_since, found.owed_end.unwrap_or(ChainEnd::START));
        }
        let oldest = self.dropped.oldest().map_or(oldest, |range| range.first.min(oldest));
        self.acked = Sequence(oldest.0 - 1).min(self.end.sequence);
        self.settle_front();
        let note = self.disk.as_deref().and_then(Note::of);
        if let Some(note) = note.filter(|note| note.chain == self.owner.chain.to_string()) {
            self.acked = self.acked.max(Sequence(note.acked)).min(self.end.sequence);
            self.acked_at = note.acked_at_ms.map(Timestamp);
        }
    }

    /// The state knows of segments behind the last one on disk: they were in memory.
    fn reach(&mut self, known: ChainEnd) {
        let (Some(last_head), Some(ended_at)) = (known.head, known.ended_at) else { return };
        if known.sequence <= self.end.sequence {
            return;
        }
        if let Some(since) = self.end.ended_at {
            self.dropped.insert(DroppedRange {
                first: after(self.end.sequence),
                last: known.sequence,
                period: Period::new(since.min(ended_at), ended_at),
                reason: DropReason::Lost,
                last_head,
            });
        }
        self.end = known;
    }
}

impl Found {
    /// Whether the segment with this head is the next; notes the hole before it.
    fn follows(&mut self, head: &Head, is_same_file: bool) -> bool {
        if let Some(newest) = self.newest {
            let Some(skipped) = head.sequence.0.checked_sub(newest.sequence.0.saturating_add(1))
            else {
                // Written again after a sync that failed, or a copy of a file.
                return false;
            };
            if is_same_file && skipped > HOLE_MAX {
                return false;
            }
            if let (true, Some(last_head)) = (skipped > 0, head.previous) {
                let since = newest.ended_at.unwrap_or(head.period.start).min(head.period.start);
                self.holes.push(DroppedRange {
                    first: after(newest.sequence),
                    last: Sequence(head.sequence.0 - 1),
                    period: Period::new(since, head.period.start),
                    reason: if self.is_damaged { DropReason::Corrupt } else { DropReason::Lost },
                    last_head,
                });
            }
        }
        self.newest = Some(ChainEnd::of(head));
        self.is_damaged = false;
        true
    }

    fn take_stale(&mut self, scan: &Scan, acked: Sequence) {
        for record in &scan.records {
            let Content::Segment(sealed) = &record.content else { continue };
            let head = &sealed.signed.head;
            if head.sequence > acked {
                self.owed += 1;
                self.owed_since = self.owed_since.or(Some(head.period.start));
                self.owed_end = Some(ChainEnd::of(head));
            }
        }
    }
}
