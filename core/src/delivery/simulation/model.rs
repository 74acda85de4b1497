//! The agent's spool and the server's durable state, as plainly as they can be written.

use std::collections::BTreeMap;

use crate::delivery::{Cursor, Item, ItemKind, SpoolIndex};
use crate::id::{Hash, Sequence};

#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub(super) head: Hash,
    pub(super) previous: Option<Hash>,
    pub(super) bytes: u64,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Entry {
    Segment(Segment),
    Drop { first: u64, last_head: Hash },
}

/// A spool in memory, with what survives the process (`newest`, `newest_head`) beside it.
#[derive(Debug, Default)]
pub(super) struct Spool {
    pub(super) entries: BTreeMap<u64, Entry>,
    pub(super) newest: u64,
    pub(super) newest_head: Option<Hash>,
}

impl SpoolIndex for Spool {
    fn oldest(&self) -> Sequence {
        match self.entries.iter().next() {
            Some((_, Entry::Drop { first, .. })) => Sequence(*first),
            Some((sequence, Entry::Segment(_))) => Sequence(*sequence),
            None => Sequence(self.newest + 1),
        }
    }

    fn newest(&self) -> Sequence {
        Sequence(self.newest)
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
        if sequence.0 == self.newest {
            return self.newest_head;
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
        let drop = Entry::Drop { first: sequence, last_head: segment.head };
        self.entries.insert(sequence, drop);
    }

    /// Turns the oldest segment into a drop, and lets a drop before it grow over it.
    pub(super) fn evict_oldest(&mut self) {
        let oldest = self.entries.iter().find(|(_, e)| matches!(e, Entry::Segment(_)));
        let Some(sequence) = oldest.map(|(sequence, _)| *sequence) else { return };
        self.replace_by_drop(sequence);
        if let Some(Entry::Drop { first: before, .. }) = self.entries.get(&(sequence - 1)).copied()
        {
            self.entries.remove(&(sequence - 1));
            if let Some(Entry::Drop { first, .. }) = self.entries.get_mut(&sequence) {
                *first = before;
            }
        }
    }
}

#[derive(Debug, Default, Clone)]
pub(super) struct Durable {
    pub(super) cursor: Option<Cursor>,
    pub(super) stored: BTreeMap<u64, Hash>,
    pub(super) dropped: Vec<(u64, u64)>,
}

impl Durable {
    pub(super) fn cursor(&self) -> Cursor {
        self.cursor.unwrap_or(Cursor::START)
    }
}
