//! The agent's spool and the server's durable state, as plainly as they can be written.

use std::collections::BTreeMap;

use crate::delivery::{Cursor, Item, ItemKind, SpoolIndex, StoredChain};
use crate::id::{Hash, Sequence};

#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub(super) head: Hash,
    pub(super) previous: Option<Hash>,
    pub(super) bytes: u64,
    pub(super) span: Span,
}

/// Time that something covers, both ends included in milliseconds of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Span {
    pub(super) fn covers(self, other: Self) -> bool {
        self.from <= other.from && other.to <= self.to
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Entry {
    Segment(Segment),
    Drop { first: u64, last_head: Hash, span: Span },
}

impl Entry {
    pub(super) fn span(&self) -> Span {
        match self {
            Self::Segment(segment) => segment.span,
            Self::Drop { span, .. } => *span,
        }
    }
}

/// What survives the agent's process: its chain and where that ends.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct State {
    pub(super) chain: u64,
    pub(super) newest: u64,
    pub(super) newest_head: Option<Hash>,
    pub(super) newest_at: u64,
}

/// A spool in memory, with what is on disk beside it.
#[derive(Debug, Default)]
pub(super) struct Spool {
    pub(super) entries: BTreeMap<u64, Entry>,
    pub(super) state: State,
}

impl SpoolIndex for Spool {
    fn oldest(&self) -> Sequence {
        match self.entries.iter().next() {
            Some((_, Entry::Drop { first, .. })) => Sequence(*first),
            Some((sequence, Entry::Segment(_))) => Sequence(*sequence),
            None => Sequence(self.state.newest + 1),
        }
    }

    fn newest(&self) -> Sequence {
        Sequence(self.state.newest)
    }

    fn item(&self, sequence: Sequence) -> Option<Item> {
        if sequence < self.oldest() {
            return None;
        }
        let (last, entry) = self.entries.range(sequence.0..).next()?;
        let last = Sequence(*last);
        Some(match entry {
            Entry::Segment(segment) => {
                Item { first: last, last, bytes: segment.bytes, kind: ItemKind::Segment }
            }
            Entry::Drop { first, .. } => {
                Item { first: Sequence(*first), last, bytes: 300, kind: ItemKind::Drop }
            }
        })
    }

    fn head_hash(&self, sequence: Sequence) -> Option<Hash> {
        if sequence.0 == self.state.newest {
            return self.state.newest_head;
        }
        match self.entries.get(&sequence.0)? {
            Entry::Segment(segment) => Some(segment.head),
            Entry::Drop { last_head, .. } => Some(*last_head),
        }
    }
}

impl Spool {
    pub(super) fn trim(&mut self, through: u64) {
        while self.entries.first_key_value().is_some_and(|(last, _)| *last <= through) {
            self.entries.pop_first();
        }
        if let Some(mut front) = self.entries.first_entry()
            && let Entry::Drop { first, .. } = front.get_mut()
        {
            *first = (*first).max(through + 1);
        }
    }

    pub(super) fn replace_by_drop(&mut self, sequence: u64) {
        let Some(Entry::Segment(segment)) = self.entries.get(&sequence).copied() else {
            panic!("{sequence} is not a segment")
        };
        let Segment { head: last_head, span, .. } = segment;
        let drop = Entry::Drop { first: sequence, last_head, span };
        self.entries.insert(sequence, drop);
    }

    /// Turns the oldest segment into a drop, and lets a drop before it grow over it.
    pub(super) fn evict_oldest(&mut self) {
        let oldest = self.entries.iter().find(|(_, e)| matches!(e, Entry::Segment(_)));
        let Some(sequence) = oldest.map(|(sequence, _)| *sequence) else { return };
        self.replace_by_drop(sequence);
        if let Some(Entry::Drop { first: before, span: earlier, .. }) =
            self.entries.get(&(sequence - 1)).copied()
        {
            self.entries.remove(&(sequence - 1));
            if let Some(Entry::Drop { first, span, .. }) = self.entries.get_mut(&sequence) {
                *first = before;
                span.from = span.from.min(earlier.from);
            }
        }
    }

    /// Begins a new chain. What the old one still holds becomes a drop of the first sequences of
    /// the new one; returns how many those are.
    pub(super) fn start_chain(&mut self, chain: u64) -> u64 {
        let State { newest, newest_head, newest_at, .. } = self.state;
        let carried = newest + 1 - self.oldest().0;
        let from = self.entries.values().map(|entry| entry.span().from).min();
        self.entries.clear();
        self.state = State { chain, ..State::default() };
        if let (Some(from), Some(last_head)) = (from, newest_head) {
            let span = Span { from, to: newest_at };
            self.entries.insert(carried, Entry::Drop { first: 1, last_head, span });
            self.state = State { chain, newest: carried, newest_head, newest_at };
        }
        carried
    }
}

/// What the server holds of one chain.
#[derive(Debug, Default, Clone)]
pub(super) struct Durable {
    pub(super) start: Option<Hash>,
    pub(super) cursor: Option<Cursor>,
    pub(super) stored: BTreeMap<u64, (Hash, Span)>,
    pub(super) dropped: Vec<(u64, u64, Span)>,
}

impl Durable {
    pub(super) fn chain(&self) -> StoredChain {
        StoredChain { start: self.start, cursor: self.cursor.unwrap_or(Cursor::START) }
    }

    /// Invariants 1 and 5: a chain with anything has a start, and each sequence is stored once or
    /// covered by one drop.
    pub(super) fn check(&self, chain: u64) {
        let StoredChain { start, cursor } = self.chain();
        assert!(start.is_some(), "chain {chain} began silently");
        for sequence in 1..=cursor.sequence.0 {
            let stored = usize::from(self.stored.contains_key(&sequence));
            let covering = self.dropped.iter().filter(|(f, l, _)| (*f..=*l).contains(&sequence));
            assert_eq!(stored + covering.count(), 1, "sequence {sequence} of chain {chain}");
        }
        assert!(self.stored.keys().all(|sequence| *sequence <= cursor.sequence.0));
    }
}
