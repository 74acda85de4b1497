//! What lies in a spool, read without taking or changing anything: beside a running agent, and in
//! folders that are damaged. Not here: signatures; what is read is the reader's own node's.

use std::path::Path;

use leasewatch_core::evidence::chain::{Drop, SealedSegment};
use leasewatch_core::evidence::spool::{Content, FileHeader, Found, HEADER_BYTES, scan};
use leasewatch_core::id::{ChainId, Sequence};
use leasewatch_core::time::{HOUR_MS, Period, Timestamp};

use super::disk::{Disk as _, Folder};
use super::opening::{FILE_BYTES_MAX, Note};

/// Where an agent keeps what waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    /// On disk.
    Disk,
    /// In memory, and why, as the agent noted last.
    Memory(String),
}

/// What lies in a spool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Where records wait.
    pub mode: Mode,
    /// Files on disk.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Segments that can be read, acknowledged or not.
    pub segments: u64,
    /// Segments behind the last acknowledgement that the agent noted: at worst half a minute old,
    /// or not there, and then all wait.
    pub unsent_segments: u64,
    /// Start of the oldest segment.
    pub oldest_at: Option<Timestamp>,
    /// End of the newest segment.
    pub newest_at: Option<Timestamp>,
    /// Start of the oldest segment that waits.
    pub oldest_unsent_at: Option<Timestamp>,
    /// The last acknowledgement, and when it came by the node's clock.
    pub acked: Option<(Sequence, Timestamp)>,
    /// Bytes in which there is no record.
    pub damaged_bytes: u64,
    /// Files that are not read: of another version, another key, or nothing at all.
    pub refused_files: u64,
}

impl Report {
    /// Reads the spool in this folder. One that is not there is empty.
    #[must_use]
    pub fn read(folder: &Path) -> Self {
        let note = Note::of(&Folder::existing(folder));
        let reason = note.as_ref().and_then(|note| note.memory_reason.clone());
        let acked = note
            .as_ref()
            .and_then(|note| Some((Sequence(note.acked), Timestamp(note.acked_at_ms?))));
        let mut report = Self {
            mode: reason.map_or(Mode::Disk, Mode::Memory),
            files: 0,
            bytes: 0,
            segments: 0,
            unsent_segments: 0,
            oldest_at: None,
            newest_at: None,
            oldest_unsent_at: None,
            acked,
            damaged_bytes: 0,
            refused_files: 0,
        };
        each_file(folder, |_, bytes, file| {
            report.files += 1;
            report.bytes += bytes;
            let Some((header, records, readable)) = file else {
                report.refused_files += 1;
                return;
            };
            report.damaged_bytes += bytes.saturating_sub(readable);
            let is_noted = |note: &&Note| note.chain == header.chain.to_string();
            let acked = note.as_ref().filter(is_noted).map_or(0, |note| note.acked);
            for record in records {
                report.count(&record, header.chain, Sequence(acked));
            }
        });
        report
    }

    /// Hours of record that so many bytes keep at the rate of what is there; `None` before there
    /// is half an hour of it.
    #[must_use]
    pub fn hours_that_fit(&self, quota_bytes: u64) -> Option<u64> {
        let span = self.newest_at?.since(self.oldest_at?);
        if span < HOUR_MS / 2 || self.bytes == 0 {
            return None;
        }
        let fits = u128::from(quota_bytes) * u128::try_from(span).ok()? / u128::from(self.bytes);
        u64::try_from(fits / u128::try_from(HOUR_MS).ok()?).ok()
    }

    fn count(&mut self, record: &Found, chain: ChainId, acked: Sequence) {
        let Content::Segment(sealed) = &record.content else { return };
        let head = &sealed.signed.head;
        if head.chain != chain {
            return;
        }
        self.segments += 1;
        let first = |known: Option<Timestamp>| {
            Some(known.map_or(head.period.start, |at| at.min(head.period.start)))
        };
        self.oldest_at = first(self.oldest_at);
        self.newest_at = self.newest_at.max(Some(head.period.end));
        if head.sequence > acked {
            self.unsent_segments += 1;
            self.oldest_unsent_at = first(self.oldest_unsent_at);
        }
    }
}

/// A spool's files by the time that they are of, so that a long one is read a part at a time.
#[derive(Debug)]
pub struct Reader {
    disk: Folder,
    files: Vec<(u64, Period)>,
    drops: Vec<Drop>,
}

impl Reader {
    /// Reads every file once.
    #[must_use]
    pub fn open(folder: &Path) -> Self {
        let (mut files, mut drops) = (Vec::new(), Vec::new());
        each_file(folder, |number, _, file| {
            let Some((header, records, _)) = file else { return };
            let mut whole: Option<Period> = None;
            for record in records {
                match record.content {
                    Content::Segment(sealed) if sealed.signed.head.chain == header.chain => {
                        let Period { start, end } = sealed.signed.head.period;
                        let known = whole.unwrap_or(Period::new(start, end));
                        whole = Some(Period::new(known.start.min(start), known.end.max(end)));
                    }
                    Content::Drop(notice) => drops.push(notice.says),
                    Content::Segment(_) | Content::ChainStart(_) => {}
                }
            }
            files.extend(whole.map(|period| (number, period)));
        });
        Self { disk: Folder::existing(folder), files, drops }
    }

    /// From the start of the first segment to the end of the last.
    #[must_use]
    pub fn period(&self) -> Option<Period> {
        let start = self.files.iter().map(|(_, period)| period.start).min()?;
        Some(Period::new(start, self.files.iter().map(|(_, period)| period.end).max()?))
    }

    /// The signed drops.
    #[must_use]
    pub fn drops(&self) -> &[Drop] {
        &self.drops
    }

    /// Segments that reach into a period, in the order of the files.
    #[must_use]
    pub fn segments(&self, period: Period) -> Vec<SealedSegment> {
        let reaches = |other: Period| other.start < period.end && period.start <= other.end;
        let files = self.files.iter().filter(|(_, of)| reaches(*of));
        let mut segments = Vec::new();
        for (header, records, _) in files.filter_map(|(number, _)| read(&self.disk, *number)) {
            for record in records {
                let Content::Segment(sealed) = record.content else { continue };
                if reaches(sealed.signed.head.period) && sealed.signed.head.chain == header.chain {
                    segments.push(*sealed);
                }
            }
        }
        segments
    }
}

/// The header of a file, its records, and how many of its bytes these are.
type File = (FileHeader, Vec<Found>, u64);

/// Hands over each file's number and bytes, and what it holds; `None` when it is not read.
fn each_file(folder: &Path, mut see: impl FnMut(u64, u64, Option<File>)) {
    let disk = Folder::existing(folder);
    for (number, bytes) in disk.list().unwrap_or_default() {
        see(number, bytes, if bytes > FILE_BYTES_MAX { None } else { read(&disk, number) });
    }
}

fn read(disk: &Folder, number: u64) -> Option<File> {
    let content = disk.read(number, FILE_BYTES_MAX).ok()?;
    let header = FileHeader::decode(&content).ok()?;
    let records = scan(&content).records;
    let readable: usize = records.iter().map(|record| record.bytes).sum();
    Some((header, records, u64::try_from(readable + HEADER_BYTES).unwrap_or(u64::MAX)))
}
