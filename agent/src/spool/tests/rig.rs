//! A chain of segments that is sealed once, and a disk that forgets.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use leasewatch_core::evidence::chain::{self, SealedSegment, seal};
use leasewatch_core::evidence::spool::FileHeader;
use leasewatch_core::evidence::statement::{StatementKind, sign};
use leasewatch_core::id::{ChainId, Hash, Sequence};
use leasewatch_core::segment::{Block, Event, EventKind, EventsBlock};
use leasewatch_core::time::{Period, Timestamp};

use crate::clock::Instant;
use crate::recorder::fixture;
use crate::spool::disk::Disk;
use crate::spool::{ChainEnd, DroppedRange};

/// The chain of the fixture's heads; the key is any.
pub(super) const OWNER: FileHeader = FileHeader { chain: ChainId([1; 16]), public_key: [7; 32] };

/// The end of this minute's segment.
pub(super) fn at(minute: u64) -> Timestamp {
    Timestamp(1_800_000_000_000 + i64::try_from(minute).unwrap() * 60_000)
}

pub(super) fn instant(minute: u64) -> Instant {
    Instant { boot_ms: i64::try_from(minute).unwrap() * 60_000, wall: at(minute) }
}

/// One segment for each minute, each behind the one before. Sealing is what takes time in tests.
#[derive(Default)]
pub(super) struct Chain(Mutex<Vec<Arc<SealedSegment>>>);

impl Chain {
    pub(super) fn shared() -> &'static Self {
        static CHAIN: OnceLock<Chain> = OnceLock::new();
        CHAIN.get_or_init(Self::default)
    }

    pub(super) fn segment(&self, sequence: u64) -> Arc<SealedSegment> {
        let mut sealed = self.0.lock().unwrap();
        while sealed.len() < usize::try_from(sequence).unwrap() {
            let minute = u64::try_from(sealed.len()).unwrap();
            let previous = sealed.last().map(|segment| segment.signed.head.hash());
            let event = Event::new(at(minute), None, EventKind::NoGpuAttached);
            let blocks = [Block::Events(EventsBlock { events: vec![event] })];
            let mut draft = fixture::head_draft(Sequence(minute + 1), previous);
            draft.period = Period::new(at(minute), at(minute + 1));
            sealed.push(Arc::new(seal(draft, &blocks, &fixture::key()).unwrap()));
        }
        Arc::clone(&sealed[usize::try_from(sequence).unwrap() - 1])
    }

    pub(super) fn head(&self, sequence: u64) -> Hash {
        self.segment(sequence).signed.head.hash()
    }

    pub(super) fn end(&self, sequence: u64) -> ChainEnd {
        ChainEnd::of(&self.segment(sequence).signed.head)
    }

    pub(super) fn sign_drop(&self, range: &DroppedRange) -> (Vec<u8>, [u8; 64]) {
        let DroppedRange { first, last, period, reason, last_head } = *range;
        let (node, chain) = (fixture::node(), OWNER.chain);
        let drop = chain::Drop { node, chain, first, last, period, reason, last_head };
        let statement = drop.statement();
        let signature = sign(StatementKind::Drop, &statement, &fixture::key());
        (statement, signature)
    }
}

/// What a crash leaves of what was written and not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Crash {
    /// The process was killed: the kernel has all of it.
    Kill,
    /// The power went: nothing of it.
    Nothing,
    /// The power went: a part of it.
    Half,
    /// The power went: its length, and zeros.
    Zeros,
}

/// A promise of the disk that is broken, to see that the tests notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sabotage {
    Nothing,
    /// `sync` does nothing, as if the spool did not call it.
    NoSync,
    /// A new file's name is not made durable.
    NoFolderSync,
    /// A torn tail is not cut.
    NoTruncate,
    /// Reading leaves out the last byte.
    ShortRead,
}

#[derive(Debug, Clone, Default)]
struct Blob {
    bytes: Vec<u8>,
    synced: usize,
    is_named: bool,
}

#[derive(Debug, Clone)]
struct Model {
    files: BTreeMap<u64, Blob>,
    /// Removed, and not known to be gone after a power cut.
    removed: BTreeMap<u64, Blob>,
    note: Option<String>,
    operations: u64,
    /// The operation at which everything ends.
    dies_at: Option<u64>,
    /// So many of the next calls of `sync` fail.
    failing_syncs: u64,
    sabotage: Sabotage,
}

/// A disk in memory that is shared with the test.
#[derive(Debug, Clone)]
pub(super) struct Forgetful(Arc<Mutex<Model>>);

impl Forgetful {
    pub(super) fn new(sabotage: Sabotage) -> Self {
        let (files, removed) = (BTreeMap::new(), BTreeMap::new());
        let model = Model {
            files,
            removed,
            note: None,
            operations: 0,
            dies_at: None,
            failing_syncs: 0,
            sabotage,
        };
        Self(Arc::new(Mutex::new(model)))
    }

    pub(super) fn die_at(&self, operation: u64) {
        self.model().dies_at = Some(operation);
    }

    pub(super) fn fail_syncs(&self, count: u64) {
        self.model().failing_syncs = count;
    }

    pub(super) fn operations(&self) -> u64 {
        self.model().operations
    }

    /// Counts something of the test itself that can be interrupted; false when it was.
    pub(super) fn operate(&self) -> bool {
        self.model().step().is_ok()
    }

    pub(super) fn is_dead(&self) -> bool {
        let model = self.model();
        model.dies_at.is_some_and(|at| model.operations >= at)
    }

    /// What is there when the machine is back.
    pub(super) fn revive(&self, crash: Crash) -> Self {
        let mut model = self.model().clone();
        (model.dies_at, model.operations) = (None, 0);
        if crash != Crash::Kill {
            model.files.append(&mut model.removed);
            model.files.retain(|_, blob| blob.is_named);
            for blob in model.files.values_mut() {
                let unsynced = blob.bytes.len() - blob.synced;
                match crash {
                    Crash::Half => blob.bytes.truncate(blob.synced + unsynced / 2),
                    Crash::Zeros => blob.bytes[blob.synced..].fill(0),
                    Crash::Kill | Crash::Nothing => blob.bytes.truncate(blob.synced),
                }
                blob.synced = blob.bytes.len();
            }
        }
        model.removed.clear();
        Self(Arc::new(Mutex::new(model)))
    }

    /// A file's bytes, to be damaged.
    pub(super) fn damage(&self, number: u64, damage: impl FnOnce(&mut Vec<u8>)) {
        damage(&mut self.model().files.get_mut(&number).unwrap().bytes);
    }

    fn model(&self) -> MutexGuard<'_, Model> {
        self.0.lock().unwrap()
    }
}

impl Model {
    fn step(&mut self) -> io::Result<()> {
        self.operations += 1;
        match self.dies_at {
            Some(at) if self.operations >= at => Err(io::Error::other("dead")),
            _ => Ok(()),
        }
    }

    fn blob(&mut self, number: u64) -> io::Result<&mut Blob> {
        self.files.get_mut(&number).ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}

impl Disk for Forgetful {
    fn list(&self) -> io::Result<Vec<(u64, u64)>> {
        let length = |blob: &Blob| u64::try_from(blob.bytes.len()).unwrap();
        Ok(self.model().files.iter().map(|(number, blob)| (*number, length(blob))).collect())
    }

    fn create(&mut self, number: u64, header: &[u8]) -> io::Result<()> {
        let mut model = self.model();
        model.files.insert(number, Blob::default());
        model.step()?;
        model.blob(number)?.bytes.extend_from_slice(header);
        model.step()?;
        let is_named = model.sabotage != Sabotage::NoFolderSync;
        model.blob(number)?.is_named = is_named;
        Ok(())
    }

    fn append(&mut self, number: u64, record: &[u8]) -> io::Result<()> {
        let mut model = self.model();
        let alive = model.step();
        // A write that is interrupted has done a part.
        let done = if alive.is_ok() { record.len() } else { record.len() / 3 };
        model.blob(number)?.bytes.extend_from_slice(&record[..done]);
        alive
    }

    fn sync(&mut self, number: u64) -> io::Result<()> {
        let mut model = self.model();
        model.step()?;
        if model.failing_syncs > 0 {
            model.failing_syncs -= 1;
            return Err(io::Error::other("input/output error"));
        }
        if model.sabotage != Sabotage::NoSync {
            let blob = model.blob(number)?;
            blob.synced = blob.bytes.len();
        }
        Ok(())
    }

    fn truncate(&mut self, number: u64, bytes: u64) -> io::Result<()> {
        let mut model = self.model();
        model.step()?;
        if model.sabotage != Sabotage::NoTruncate {
            let blob = model.blob(number)?;
            blob.bytes.truncate(usize::try_from(bytes).unwrap());
            blob.synced = blob.bytes.len();
        }
        Ok(())
    }

    fn read(&self, number: u64, limit: u64) -> io::Result<Vec<u8>> {
        let mut model = self.model();
        let short = usize::from(model.sabotage == Sabotage::ShortRead);
        let mut bytes = model.blob(number)?.bytes.clone();
        bytes.truncate(usize::try_from(limit).unwrap().min(bytes.len().saturating_sub(short)));
        Ok(bytes)
    }

    fn read_at(&self, number: u64, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let offset = usize::try_from(offset).unwrap();
        let mut model = self.model();
        let part = model.blob(number)?.bytes.get(offset..offset + bytes).map(<[u8]>::to_vec);
        part.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn remove(&mut self, number: u64) -> io::Result<()> {
        let mut model = self.model();
        model.step()?;
        let blob = model.files.remove(&number).ok_or(io::ErrorKind::NotFound)?;
        model.removed.insert(number, blob);
        Ok(())
    }

    fn set_aside(&mut self, number: u64) -> io::Result<()> {
        let mut model = self.model();
        model.files.remove(&number);
        Ok(())
    }

    fn remove_set_aside(&mut self) -> bool {
        false
    }

    fn set_aside_bytes(&self) -> u64 {
        0
    }

    fn free_bytes(&self) -> Option<u64> {
        None
    }

    fn note(&self) -> Option<String> {
        self.model().note.clone()
    }

    fn set_note(&mut self, text: &str) -> io::Result<()> {
        let mut model = self.model();
        model.step()?;
        model.note = Some(text.to_owned());
        Ok(())
    }
}
