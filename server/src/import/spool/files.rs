//! The files of a recording: what they hold, in order, and what is missing between.
//!
//! Read twice, a file at a time: once to know what there is, once to send it. Nothing is changed.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use ed25519_dalek::SigningKey;
use leasewatch_core::evidence::chain::{Drop, DropReason, Head};
use leasewatch_core::evidence::spool::{Content, FileHeader, Found, HEADER_BYTES, scan};
use leasewatch_core::evidence::statement::{StatementKind, sign};
use leasewatch_core::id::{ChainId, Sequence};
use leasewatch_core::time::{Period, Timestamp};
use leasewatch_proto::convert::{ChainStartParts, DropParts, SegmentParts};
use tokio::sync::mpsc;

use crate::import::ImportError;
use crate::intake::RecordingFault;

/// No agent writes a longer file.
pub(super) const FILE_BYTES_MAX: u64 = 4 << 20;
pub(super) const SUFFIX: &str = "spool";

/// The files that are read.
pub(super) struct Files {
    key: SigningKey,
    chain: ChainId,
    paths: Vec<PathBuf>,
    drops: Vec<Drop>,
    /// The time of the last segment before a hole.
    ended_at: Timestamp,
}

/// What a recording holds.
pub(super) struct Summary {
    /// The head of the first segment.
    pub(super) first: Head,
    /// How many segments there are.
    pub(super) segments: u64,
    pub(super) period: Period,
    pub(super) start: Option<ChainStartParts>,
    /// Files and parts of files that are not read.
    pub(super) left_out: Vec<String>,
}

/// What is sent.
pub(super) enum Item {
    Segment { sequence: Sequence, parts: SegmentParts },
    Drop { last: Sequence, parts: DropParts },
}

impl Item {
    pub(super) fn last(&self) -> Sequence {
        match self {
            Self::Segment { sequence, .. } => *sequence,
            Self::Drop { last, .. } => *last,
        }
    }

    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Segment { parts, .. } => parts.blocks.iter().map(Vec::len).sum(),
            Self::Drop { parts, .. } => parts.statement.len(),
        }
    }
}

impl Files {
    /// Looks through the files. The chain is that of the last file: an agent goes on in one chain.
    ///
    /// # Errors
    /// [`ImportError::File`] for a folder that cannot be read, [`ImportError::Recording`] for one
    /// without a segment of this key.
    pub(super) fn open(folder: &Path, key: SigningKey) -> Result<(Self, Summary), ImportError> {
        let fail = |source| ImportError::File { path: folder.display().to_string(), source };
        let entries: io::Result<Vec<_>> = fs::read_dir(folder).map_err(fail)?.collect();
        let paths = entries.map_err(fail)?.into_iter().map(|entry| entry.path());
        let mut paths: Vec<PathBuf> =
            paths.filter(|path| path.extension().is_some_and(|name| name == SUFFIX)).collect();
        paths.sort_unstable();
        let public_key = key.verifying_key().to_bytes();
        let mut left_out = Vec::new();
        let mut kept = Vec::new();
        for path in paths {
            match header(&path, public_key) {
                Ok(header) => kept.push((path, header)),
                Err(why) => left_out.push(format!("{}: {why}", name(&path))),
            }
        }
        let none = || ImportError::Recording(RecordingFault::NoSegment);
        let chain = kept.last().map(|(_, header)| header.chain).ok_or_else(none)?;
        let is_of_chain = |header: &FileHeader| header.chain == chain;
        for (path, _) in kept.iter().filter(|(_, header)| !is_of_chain(header)) {
            left_out.push(format!("{}: it is of an earlier chain", name(path)));
        }
        kept.retain(|(_, header)| is_of_chain(header));
        let paths = kept.into_iter().map(|(path, _)| path).collect();
        let mut files = Self { key, chain, paths, drops: Vec::new(), ended_at: Timestamp::MIN };
        let mut found = Looked::default();
        for path in &files.paths {
            found.look(path, chain);
        }
        files.drops = found.drops;
        left_out.extend(found.left_out);
        let (first, period) = found.first.zip(found.period).ok_or_else(none)?;
        files.ended_at = first.period.start;
        let (segments, start) = (found.segments, found.start);
        Ok((files, Summary { first, segments, period, start, left_out }))
    }

    /// Reads everything behind a sequence into the queue, and a drop for each hole; returns what
    /// the holes are, in words.
    pub(super) fn read_all(self, behind: Sequence, queue: &mpsc::Sender<Item>) -> Vec<String> {
        let mut left_out = Vec::new();
        let mut last = behind;
        let mut ended_at = self.ended_at;
        for path in &self.paths {
            for record in records(path).unwrap_or_default() {
                let Content::Segment(sealed) = record.content else { continue };
                let head = &sealed.signed.head;
                if head.chain != self.chain || head.sequence <= last {
                    ended_at = ended_at.max(head.period.end);
                    continue;
                }
                let missing = last.0.saturating_add(1)..head.sequence.0;
                if !missing.is_empty() {
                    let Some(drop) = self.drop_of(missing, ended_at, head) else { continue };
                    left_out.push(hole_text(&drop));
                    if queue.blocking_send(self.signed(&drop)).is_err() {
                        return left_out;
                    }
                }
                (last, ended_at) = (head.sequence, head.period.end);
                let (sequence, parts) = (head.sequence, SegmentParts::from(&*sealed));
                // Nobody listens any more when the stream broke.
                if queue.blocking_send(Item::Segment { sequence, parts }).is_err() {
                    return left_out;
                }
            }
        }
        left_out
    }

    /// What is said of the sequences that are missing before `next`.
    fn drop_of(&self, missing: Range<u64>, since: Timestamp, next: &Head) -> Option<Drop> {
        let known = self.drops.iter().find(|drop| drop.last.0 + 1 == missing.end);
        let end = next.period.start;
        let period = Period::new(since.min(end), end);
        Some(Drop {
            node: next.node,
            chain: next.chain,
            first: Sequence(missing.start),
            last: Sequence(missing.end - 1),
            period: known.map_or(period, |drop| drop.period),
            reason: known.map_or(DropReason::Corrupt, |drop| drop.reason),
            last_head: next.previous?,
        })
    }

    fn signed(&self, drop: &Drop) -> Item {
        let statement = drop.statement();
        let signature = sign(StatementKind::Drop, &statement, &self.key);
        Item::Drop { last: drop.last, parts: DropParts { statement, signature } }
    }
}

/// What the first look finds.
#[derive(Default)]
struct Looked {
    first: Option<Head>,
    newest: Option<Sequence>,
    segments: u64,
    period: Option<Period>,
    start: Option<ChainStartParts>,
    drops: Vec<Drop>,
    left_out: Vec<String>,
}

impl Looked {
    fn look(&mut self, path: &Path, chain: ChainId) {
        let bytes = match read(path) {
            Ok(bytes) => bytes,
            Err(error) => return self.left_out.push(format!("{}: {error}", name(path))),
        };
        let found = scan(&bytes);
        let readable: usize = found.records.iter().map(|record| record.bytes).sum();
        let damaged = bytes.len().saturating_sub(HEADER_BYTES + readable);
        if damaged > 0 {
            self.left_out.push(format!("{}: {damaged} bytes without a whole record", name(path)));
        }
        for record in found.records {
            match record.content {
                Content::Segment(sealed) if sealed.signed.head.chain == chain => {
                    self.see(&sealed.signed.head);
                }
                Content::Drop(notice) => self.drops.push(notice.says),
                Content::ChainStart(notice) if notice.says.chain == chain => {
                    let (statement, signature) = (notice.statement, notice.signature);
                    self.start = Some(ChainStartParts { statement, signature });
                }
                Content::Segment(_) | Content::ChainStart(_) => {}
            }
        }
    }

    fn see(&mut self, head: &Head) {
        if self.newest.is_some_and(|newest| head.sequence <= newest) {
            return;
        }
        self.newest = Some(head.sequence);
        self.segments += 1;
        let Period { start, end } = self.period.unwrap_or(head.period);
        let (from, to) = (start.min(head.period.start), end.max(head.period.end));
        self.period = Some(Period::new(from, to));
        self.first.get_or_insert_with(|| head.clone());
    }
}

fn header(path: &Path, public_key: [u8; 32]) -> Result<FileHeader, String> {
    let bytes = read(path).map_err(|error| error.to_string())?;
    let header = FileHeader::decode(&bytes).map_err(|error| error.to_string())?;
    if header.public_key == public_key {
        Ok(header)
    } else {
        Err("it is of another key than the one beside it".to_owned())
    }
}

fn records(path: &Path) -> io::Result<Vec<Found>> {
    Ok(scan(&read(path)?).records)
}

/// A plain file of a credible length: never a link, a pipe or a device.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > FILE_BYTES_MAX {
        return Err(io::Error::other("it is no file that an agent writes"));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn hole_text(drop: &Drop) -> String {
    let (first, last, reason) = (drop.first.0, drop.last.0, drop.reason.name());
    format!("segments {first} to {last}, {} to {} ({reason})", drop.period.start, drop.period.end)
}
