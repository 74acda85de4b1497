//! Sealed segments that wait for the server, in memory.
//!
//! The entries cover every sequence from the oldest that is still owed to the newest that was
//! sealed, without a hole: a segment that has to go becomes (a part of) a drop in the same place.
//! Bounded by bytes and by hours; a full spool gives up its oldest. What it holds dies with the
//! process; the next one declares it. A spool on disk can take this one's place: append, look up,
//! trim, drop.

use std::collections::VecDeque;

use leasewatch_core::delivery::{Item, ItemKind, SpoolIndex};
use leasewatch_core::evidence::chain::{DropReason, SealedSegment};
use leasewatch_core::id::{Hash, Sequence};
use leasewatch_core::time::{HOUR_MS, Period, Timestamp};

/// What a drop weighs on the wire, roughly: its statement and signature.
const DROP_BYTES: u64 = 512;

/// How much the spool may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Bytes of sealed segments.
    pub bytes: u64,
    /// Hours from the oldest to the newest segment.
    pub hours: u32,
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
}

/// A range of sequences that will never come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DroppedRange {
    /// First sequence.
    pub first: Sequence,
    /// Last sequence.
    pub last: Sequence,
    /// The time that they covered.
    pub period: Period,
    /// Why.
    pub reason: DropReason,
    /// Hash of the head at `last`.
    pub last_head: Hash,
}

#[derive(Debug)]
enum Entry {
    Segment { sealed: Box<SealedSegment>, hash: Hash, bytes: u64 },
    Dropped(DroppedRange),
}

impl Entry {
    fn first(&self) -> Sequence {
        match self {
            Self::Segment { sealed, .. } => sealed.signed.head.sequence,
            Self::Dropped(range) => range.first,
        }
    }

    fn last(&self) -> Sequence {
        match self {
            Self::Segment { sealed, .. } => sealed.signed.head.sequence,
            Self::Dropped(range) => range.last,
        }
    }

    fn started_at(&self) -> Timestamp {
        match self {
            Self::Segment { sealed, .. } => sealed.signed.head.period.start,
            Self::Dropped(range) => range.period.start,
        }
    }

    fn end(&self) -> ChainEnd {
        let (head, ended_at) = match self {
            Self::Segment { sealed, hash, .. } => (*hash, sealed.signed.head.period.end),
            Self::Dropped(range) => (range.last_head, range.period.end),
        };
        ChainEnd { sequence: self.last(), head: Some(head), ended_at: Some(ended_at) }
    }

    fn bytes(&self) -> u64 {
        match self {
            Self::Segment { bytes, .. } => *bytes,
            Self::Dropped(_) => DROP_BYTES,
        }
    }
}

/// Sealed segments of one chain, in order.
#[derive(Debug)]
pub struct Spool {
    quota: Quota,
    /// What stands right before the oldest entry.
    before: ChainEnd,
    entries: VecDeque<Entry>,
    bytes: u64,
    segments: u64,
}

impl Spool {
    /// An empty spool of a chain that ends at `end`.
    #[must_use]
    pub fn new(quota: Quota, end: ChainEnd) -> Self {
        Self { quota, before: end, entries: VecDeque::new(), bytes: 0, segments: 0 }
    }

    /// The end of the chain.
    #[must_use]
    pub fn end(&self) -> ChainEnd {
        self.entries.back().map_or(self.before, Entry::end)
    }

    /// Segments that wait.
    #[must_use]
    pub fn segments(&self) -> u64 {
        self.segments
    }

    /// Their bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes the next segment of the chain in, and gives up the oldest ones if that is too much.
    /// Returns how many were given up.
    pub fn append(&mut self, sealed: SealedSegment) -> u64 {
        debug_assert_eq!(self.end().sequence.next(), Some(sealed.signed.head.sequence));
        let bytes = weight(&sealed);
        let hash = sealed.signed.head.hash();
        self.bytes += bytes;
        self.segments += 1;
        self.entries.push_back(Entry::Segment { sealed: Box::new(sealed), hash, bytes });
        let mut given_up = 0;
        // The newest segment stays whatever it weighs: a spool that keeps nothing delivers nothing.
        while self.segments > 1 && self.is_over_quota() {
            self.give_up_oldest();
            given_up += 1;
        }
        given_up
    }

    /// The segment with this sequence.
    #[must_use]
    pub fn segment(&self, sequence: Sequence) -> Option<&SealedSegment> {
        match self.entry(sequence)? {
            Entry::Segment { sealed, .. } => Some(sealed),
            Entry::Dropped(_) => None,
        }
    }

    /// The drop for `first ..= last`, both within one dropped range that ends at `last`.
    #[must_use]
    pub fn dropped(&self, first: Sequence, last: Sequence) -> Option<DroppedRange> {
        match self.entry(first)? {
            Entry::Dropped(range) if range.last == last => Some(DroppedRange { first, ..*range }),
            _ => None,
        }
    }

    /// Forgets everything up to `through`.
    pub fn trim(&mut self, through: Sequence) {
        while self.entries.front().is_some_and(|entry| entry.last() <= through) {
            if let Some(entry) = self.entries.pop_front() {
                self.before = entry.end();
                self.uncount(&entry);
            }
        }
        if let Some(Entry::Dropped(range)) = self.entries.front_mut()
            && range.first <= through
            && let Some(next) = through.next()
        {
            // A drop that grew while its beginning was on the way. Its period stays: it is known
            // for the whole only, and claiming too much time for a loss hides none.
            range.first = next;
            self.before = ChainEnd { sequence: through, head: None, ended_at: None };
        }
    }

    /// Turns a segment that the server refuses into a drop and returns it.
    pub fn quarantine(&mut self, sequence: Sequence) -> Option<SealedSegment> {
        let index = self.index(sequence)?;
        self.turn_into_drop(index, DropReason::Refused)
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
        let ChainEnd { sequence: last, head: Some(last_head), ended_at: Some(end) } = self.before
        else {
            return false;
        };
        if first > last {
            return false;
        }
        let start = since.unwrap_or(end).min(end);
        let period = Period::new(start, end);
        let reason = DropReason::Lost;
        self.entries.push_front(Entry::Dropped(DroppedRange {
            first,
            last,
            period,
            reason,
            last_head,
        }));
        self.before =
            ChainEnd { sequence: Sequence(first.0.saturating_sub(1)), head, ended_at: Some(start) };
        true
    }

    /// Ends the chain, which cannot go on, and begins the next one. What is owed of the old one
    /// becomes a drop of the first sequences of the new one: in the old chain those sequences are
    /// somebody else's, or the server refuses a drop of them. Returns how many sequences that are.
    pub fn start_chain(&mut self) -> u64 {
        let end = self.end();
        let started_at = self.entries.iter().map(Entry::started_at).min();
        let owed = end.sequence.0.saturating_add(1).saturating_sub(self.oldest().0);
        *self = Self::new(self.quota, ChainEnd::START);
        let (Some(started_at), Some(last_head), Some(ended_at)) =
            (started_at, end.head, end.ended_at)
        else {
            return 0;
        };
        self.entries.push_back(Entry::Dropped(DroppedRange {
            first: Sequence::FIRST,
            last: Sequence(owed),
            period: Period::new(started_at, ended_at.max(started_at)),
            reason: DropReason::Lost,
            last_head,
        }));
        owed
    }

    fn entry(&self, sequence: Sequence) -> Option<&Entry> {
        self.entries.get(self.index(sequence)?)
    }

    fn index(&self, sequence: Sequence) -> Option<usize> {
        let index = self.entries.partition_point(|entry| entry.last() < sequence);
        let entry = self.entries.get(index)?;
        (entry.first() <= sequence).then_some(index)
    }

    fn is_over_quota(&self) -> bool {
        let Some(Entry::Segment { sealed, .. }) =
            self.entries.iter().find(|entry| matches!(entry, Entry::Segment { .. }))
        else {
            return false;
        };
        let oldest = sealed.signed.head.period.start;
        let newest = self.end().ended_at.unwrap_or(oldest);
        self.bytes > self.quota.bytes
            || newest.since(oldest) > i64::from(self.quota.hours).saturating_mul(HOUR_MS)
    }

    fn give_up_oldest(&mut self) {
        let is_segment = |entry: &Entry| matches!(entry, Entry::Segment { .. });
        let Some(index) = self.entries.iter().position(is_segment) else { return };
        self.turn_into_drop(index, DropReason::Quota);
        self.join_quota_drops(index);
    }

    fn turn_into_drop(&mut self, index: usize, reason: DropReason) -> Option<SealedSegment> {
        let Some(Entry::Segment { sealed, hash, bytes }) = self.entries.get_mut(index) else {
            return None;
        };
        let (sequence, period) = (sealed.signed.head.sequence, sealed.signed.head.period);
        let range =
            DroppedRange { first: sequence, last: sequence, period, reason, last_head: *hash };
        self.bytes -= *bytes;
        self.segments -= 1;
        match std::mem::replace(&mut self.entries[index], Entry::Dropped(range)) {
            Entry::Segment { sealed, .. } => Some(*sealed),
            Entry::Dropped(_) => None,
        }
    }

    /// One drop for a run of evictions, so that a long outage leaves one statement.
    fn join_quota_drops(&mut self, index: usize) {
        let Some(before) = index.checked_sub(1) else { return };
        let (Some(Entry::Dropped(earlier)), Some(Entry::Dropped(later))) =
            (self.entries.get(before), self.entries.get(index))
        else {
            return;
        };
        if earlier.reason != DropReason::Quota || later.reason != DropReason::Quota {
            return;
        }
        let joined = DroppedRange {
            first: earlier.first,
            period: Period::new(earlier.period.start.min(later.period.start), later.period.end),
            ..*later
        };
        self.entries[before] = Entry::Dropped(joined);
        self.entries.remove(index);
    }

    fn uncount(&mut self, entry: &Entry) {
        if let Entry::Segment { bytes, .. } = entry {
            self.bytes -= bytes;
            self.segments -= 1;
        }
    }
}

impl SpoolIndex for Spool {
    fn oldest(&self) -> Sequence {
        let before = self.before.sequence;
        self.entries.front().map_or(before.next().unwrap_or(before), Entry::first)
    }

    fn newest(&self) -> Sequence {
        self.end().sequence
    }

    fn item(&self, sequence: Sequence) -> Option<Item> {
        let entry = self.entry(sequence)?;
        let kind = match entry {
            Entry::Segment { .. } => ItemKind::Segment,
            Entry::Dropped(_) => ItemKind::Drop,
        };
        Some(Item { first: entry.first(), last: entry.last(), bytes: entry.bytes(), kind })
    }

    fn head_hash(&self, sequence: Sequence) -> Option<Hash> {
        if sequence == self.before.sequence {
            return self.before.head;
        }
        let end = self.entry(sequence)?.end();
        (end.sequence == sequence).then_some(end.head).flatten()
    }
}

fn weight(sealed: &SealedSegment) -> u64 {
    let blocks: usize = sealed.blocks.iter().map(Vec::len).sum();
    let bytes = blocks + sealed.signed.statement.len() + sealed.signed.signature.len();
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use leasewatch_core::evidence::chain::seal;
    use leasewatch_core::segment::{Block, Event, EventKind, EventsBlock};

    use super::*;
    use crate::recorder::fixture;

    const ROOMY: Quota = Quota { bytes: 1 << 20, hours: 24 };

    /// The next segment of the spool's chain: one minute with one event.
    fn next(spool: &Spool) -> SealedSegment {
        let end = spool.end();
        let sequence = end.sequence.next().unwrap();
        let start = Timestamp(1_800_000_000_000 + i64::try_from(sequence.0).unwrap() * 60_000);
        let event = Event::new(start, None, EventKind::NoGpuAttached);
        let blocks = [Block::Events(EventsBlock { events: vec![event] })];
        let mut draft = fixture::head_draft(sequence, end.head);
        draft.period = Period::new(start, start.plus_ms(60_000));
        seal(draft, &blocks, &fixture::key()).unwrap()
    }

    fn filled(quota: Quota, count: u64) -> Spool {
        let mut spool = Spool::new(quota, ChainEnd::START);
        for _ in 0..count {
            let sealed = next(&spool);
            spool.append(sealed);
        }
        spool
    }

    #[test]
    fn what_was_appended_is_there_until_it_is_trimmed() {
        let mut spool = filled(ROOMY, 5);
        assert_eq!((spool.oldest(), spool.newest()), (Sequence(1), Sequence(5)));
        spool.trim(Sequence(3));
        assert_eq!((spool.oldest(), spool.segments()), (Sequence(4), 2));
        assert_eq!(spool.segment(Sequence(3)), None);
        assert!(spool.head_hash(Sequence(3)).is_some());
        let fourth = spool.segment(Sequence(4)).unwrap();
        assert_eq!(fourth.signed.head.previous, spool.head_hash(Sequence(3)));
        spool.trim(Sequence(5));
        assert_eq!((spool.oldest(), spool.newest()), (Sequence(6), Sequence(5)));
        assert_eq!((spool.bytes(), spool.segments()), (0, 0));
    }

    #[test]
    fn a_full_spool_gives_up_its_oldest_as_one_drop() {
        let one = weight(&next(&Spool::new(ROOMY, ChainEnd::START)));
        let mut spool = filled(Quota { bytes: one * 3 + one / 2, hours: 24 }, 8);
        assert_eq!(spool.segments(), 3);
        let range = spool.dropped(Sequence(1), Sequence(5)).unwrap();
        assert_eq!(range.reason, DropReason::Quota);
        assert_eq!(range.period.ms(), 5 * 60_000);
        assert_eq!(Some(range.last_head), spool.segment(Sequence(6)).unwrap().signed.head.previous);
        assert_eq!(spool.item(Sequence(2)).map(|item| item.last), Some(Sequence(5)));
        spool.trim(Sequence(2));
        assert_eq!(spool.oldest(), Sequence(3));
        assert!(spool.dropped(Sequence(3), Sequence(5)).is_some());
    }

    #[test]
    fn a_spool_is_bounded_in_hours_too() {
        let spool = filled(Quota { bytes: 1 << 20, hours: 1 }, 70);
        assert_eq!(spool.segments(), 60);
    }

    #[test]
    fn a_refused_segment_becomes_a_drop_of_its_own() {
        let mut spool = filled(ROOMY, 3);
        let refused = spool.quarantine(Sequence(2)).unwrap();
        let range = spool.dropped(Sequence(2), Sequence(2)).unwrap();
        assert_eq!(
            (range.reason, range.last_head),
            (DropReason::Refused, refused.signed.head.hash())
        );
        assert_eq!(spool.segments(), 2);
        assert_eq!(spool.quarantine(Sequence(2)), None);
    }

    #[test]
    fn what_died_with_an_earlier_process_is_declared_with_its_last_head() {
        let earlier = filled(ROOMY, 4).end();
        let mut spool = Spool::new(ROOMY, earlier);
        let sealed = next(&spool);
        spool.append(sealed);
        let cursor = Some(Timestamp(1_800_000_060_000));
        assert!(spool.declare(Sequence(2), cursor, Some(Hash([1; 32]))));
        let range = spool.dropped(Sequence(2), Sequence(4)).unwrap();
        assert_eq!(Some(range.last_head), earlier.head);
        assert_eq!((Some(range.period.start), Some(range.period.end)), (cursor, earlier.ended_at));
        assert_eq!(spool.oldest(), Sequence(2));
        assert_eq!(spool.head_hash(Sequence(1)), Some(Hash([1; 32])));
        assert!(!spool.declare(Sequence(2), cursor, None));
    }

    #[test]
    fn what_is_owed_of_a_chain_that_ends_is_a_drop_at_the_beginning_of_the_next() {
        let mut spool = filled(ROOMY, 5);
        spool.quarantine(Sequence(4)).unwrap();
        spool.trim(Sequence(2));
        let end = spool.end();
        assert_eq!(spool.start_chain(), 3);
        let range = spool.dropped(Sequence(1), Sequence(3)).unwrap();
        assert_eq!((range.reason, Some(range.last_head)), (DropReason::Lost, end.head));
        assert_eq!(range.period.ms(), 3 * 60_000);
        assert_eq!(Some(range.period.end), end.ended_at);
        assert_eq!((spool.bytes(), spool.segments(), spool.oldest()), (0, 0, Sequence(1)));
        let first = next(&spool);
        assert_eq!(first.signed.head.sequence, Sequence(4));
        assert_eq!(first.signed.head.previous, end.head);
        // A chain that owes nothing leaves nothing.
        spool.trim(Sequence(3));
        assert_eq!(spool.start_chain(), 0);
        assert_eq!((spool.oldest(), spool.newest()), (Sequence(1), Sequence(0)));
    }
}
