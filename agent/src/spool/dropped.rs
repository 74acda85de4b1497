//! The ranges of a chain that will never come, each once.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use leasewatch_core::evidence::chain::{Drop, DropReason};
use leasewatch_core::id::{Hash, Sequence};
use leasewatch_core::time::Period;

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

impl From<&Drop> for DroppedRange {
    fn from(drop: &Drop) -> Self {
        let Drop { first, last, period, reason, last_head, .. } = *drop;
        Self { first, last, period, reason, last_head }
    }
}

/// Ranges that do not overlap, by their last sequence.
#[derive(Debug, Default)]
pub(super) struct Dropped(BTreeMap<Sequence, DroppedRange>);

impl Dropped {
    /// The range that covers a sequence.
    pub(super) fn at(&self, sequence: Sequence) -> Option<&DroppedRange> {
        let (_, range) = self.0.range(sequence..).next()?;
        (range.first <= sequence).then_some(range)
    }

    /// The range with the highest sequences.
    pub(super) fn newest(&self) -> Option<&DroppedRange> {
        self.0.values().next_back()
    }

    pub(super) fn oldest(&self) -> Option<&DroppedRange> {
        self.0.values().next()
    }

    /// Takes a range in. What it overlaps becomes a part of it, and so do evictions beside an
    /// eviction: a long outage leaves one statement.
    pub(super) fn insert(&mut self, range: DroppedRange) {
        let mut whole = range;
        let joins = |other: &DroppedRange, whole: &DroppedRange| {
            let touches = |a: Sequence, b: Sequence| a.next() == Some(b);
            let overlaps = other.first <= whole.last && whole.first <= other.last;
            let is_beside = touches(other.last, whole.first) || touches(whole.last, other.first);
            let is_quota = [other, whole].iter().all(|range| range.reason == DropReason::Quota);
            overlaps || (is_beside && is_quota)
        };
        while let Some(other) = self.0.values().find(|other| joins(other, &whole)).copied() {
            self.0.remove(&other.last);
            let later = if other.last > whole.last { other } else { whole };
            whole = DroppedRange {
                first: other.first.min(whole.first),
                last: later.last,
                last_head: later.last_head,
                period: Period::new(
                    other.period.start.min(whole.period.start),
                    other.period.end.max(whole.period.end),
                ),
                reason: whole.reason,
            };
        }
        self.0.insert(whole.last, whole);
    }

    /// How many sequences of these are covered.
    pub(super) fn count_in(&self, sequences: RangeInclusive<u64>) -> u64 {
        let (from, to) = (*sequences.start(), *sequences.end());
        let inside = self.0.range(Sequence(from)..).map(|(_, range)| {
            (range.last.0.min(to).saturating_add(1)).saturating_sub(range.first.0.max(from))
        });
        inside.sum()
    }

    /// Forgets the ranges that end below a sequence.
    pub(super) fn forget_below(&mut self, sequence: Sequence) {
        self.0 = self.0.split_off(&sequence);
    }
}

#[cfg(test)]
mod tests {
    use leasewatch_core::time::Timestamp;

    use super::*;

    fn range(first: u64, last: u64, reason: DropReason) -> DroppedRange {
        let at = |sequence: u64| Timestamp(i64::try_from(sequence).unwrap() * 60_000);
        DroppedRange {
            first: Sequence(first),
            last: Sequence(last),
            period: Period::new(at(first - 1), at(last)),
            reason,
            last_head: Hash([u8::try_from(last).unwrap(); 32]),
        }
    }

    #[test]
    fn evictions_join_and_others_stay_apart() {
        let mut dropped = Dropped::default();
        dropped.insert(range(3, 3, DropReason::Refused));
        dropped.insert(range(4, 6, DropReason::Quota));
        dropped.insert(range(7, 9, DropReason::Quota));
        assert_eq!(dropped.at(Sequence(5)), Some(&range(4, 9, DropReason::Quota)));
        assert_eq!(dropped.at(Sequence(3)), Some(&range(3, 3, DropReason::Refused)));
        assert_eq!(dropped.at(Sequence(10)), None);
        assert_eq!((dropped.count_in(1..=20), dropped.count_in(5..=6)), (7, 2));
        // What an eviction swallows is part of it.
        dropped.insert(range(1, 4, DropReason::Quota));
        assert_eq!(dropped.at(Sequence(3)), Some(&range(1, 9, DropReason::Quota)));
        dropped.forget_below(Sequence(9));
        assert_eq!(dropped.oldest().map(|range| range.first), Some(Sequence(1)));
        dropped.forget_below(Sequence(10));
        assert_eq!(dropped.newest(), None);
    }
}
