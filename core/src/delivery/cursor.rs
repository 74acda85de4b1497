//! The server's end: what to do with one segment or drop, given the cursor of a chain that has begun.
//!
//! The caller locks the cursor row, decides, writes, commits, and only then answers. Everything
//! that a cursor does not decide (signatures, bounds, clocks) is checked before it comes here.

use crate::id::{Hash, Sequence};

/// The cursor row of a chain: everything up to `sequence` is durable, or covered by a drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    /// The highest durable sequence; `Sequence(0)` before the first.
    pub sequence: Sequence,
    /// Hash of the head at `sequence`, stored or named by a drop; `None` only at sequence 0.
    pub head: Option<Hash>,
}

/// What decides about a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IncomingSegment {
    /// Its place in the chain.
    pub sequence: Sequence,
    /// Hash of its head.
    pub head: Hash,
    /// What its head says about the one before it.
    pub previous: Option<Hash>,
}

/// What decides about a drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IncomingDrop {
    /// The first sequence that will never come.
    pub first: Sequence,
    /// The last one.
    pub last: Sequence,
    /// Hash of the head at `last`, so that the chain goes on behind it.
    pub last_head: Hash,
}

/// The answer to a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SegmentDecision {
    /// At or below the cursor and not known to differ: acknowledge the cursor again, store nothing.
    AlreadyStored,
    /// The next one: store it, set the cursor to this, acknowledge after the commit.
    Store(Cursor),
    /// Something between is missing: answer with the cursor and `rewind`.
    Ahead,
    /// At or below the cursor with another hash than the one kept: refuse with `equivocation`,
    /// keep the first version, mark the node contested.
    Equivocation,
    /// The next one, but it does not follow the head at the cursor: refuse with `chain_broken`.
    ChainBroken,
    /// The chain has no start: end the stream.
    NotBegun,
}

impl SegmentDecision {
    /// The code of the refusal that answers it; `None` when it is not refused.
    #[must_use]
    pub fn refusal_code(self) -> Option<&'static str> {
        match self {
            Self::Equivocation => Some("equivocation"),
            Self::ChainBroken => Some("chain_broken"),
            Self::AlreadyStored | Self::Store(_) | Self::Ahead | Self::NotBegun => None,
        }
    }
}

/// The answer to a drop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropDecision {
    /// Wholly at or below the cursor: acknowledge the cursor again, store nothing.
    AlreadyCovered,
    /// Starts right behind the cursor: store it, set the cursor to this, acknowledge.
    MoveCursor(Cursor),
    /// Starts further on, or below the cursor and ends above it (the rest must be declared anew):
    /// answer with the cursor and `rewind`.
    Rewind,
    /// Ends before it starts, or starts at 0: refuse with `malformed_drop`.
    Malformed,
    /// The chain has no start: end the stream.
    NotBegun,
}

impl Cursor {
    /// The cursor of a chain of which nothing is stored.
    pub const START: Self = Self { sequence: Sequence(0), head: None };

    /// Decides about a segment. `kept` is the hash of the head that is stored at the segment's
    /// sequence; it only matters at or below the cursor and is `None` where nothing is kept (the
    /// sequence was dropped, or its retention is over).
    #[must_use]
    pub fn on_segment(&self, segment: &IncomingSegment, kept: Option<Hash>) -> SegmentDecision {
        if segment.sequence <= self.sequence {
            return match kept {
                Some(kept) if kept != segment.head => SegmentDecision::Equivocation,
                _ => SegmentDecision::AlreadyStored,
            };
        }
        if Some(segment.sequence) != self.sequence.next() {
            return SegmentDecision::Ahead;
        }
        if segment.previous != self.head {
            return SegmentDecision::ChainBroken;
        }
        SegmentDecision::Store(Self { sequence: segment.sequence, head: Some(segment.head) })
    }

    /// Decides about a drop.
    #[must_use]
    pub fn on_drop(&self, drop: &IncomingDrop) -> DropDecision {
        if drop.first < Sequence::FIRST || drop.last < drop.first {
            return DropDecision::Malformed;
        }
        if drop.last <= self.sequence {
            return DropDecision::AlreadyCovered;
        }
        if Some(drop.first) != self.sequence.next() {
            return DropDecision::Rewind;
        }
        DropDecision::MoveCursor(Self { sequence: drop.last, head: Some(drop.last_head) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(byte: u8) -> Hash {
        Hash([byte; 32])
    }

    fn at(sequence: u64, head: u8) -> Cursor {
        Cursor { sequence: Sequence(sequence), head: Some(hash(head)) }
    }

    fn segment(sequence: u64, head: u8, previous: Option<u8>) -> IncomingSegment {
        IncomingSegment {
            sequence: Sequence(sequence),
            head: hash(head),
            previous: previous.map(hash),
        }
    }

    #[test]
    fn a_chain_starts_without_a_previous_head() {
        assert_eq!(
            Cursor::START.on_segment(&segment(1, 1, None), None),
            SegmentDecision::Store(at(1, 1))
        );
        assert_eq!(
            Cursor::START.on_segment(&segment(1, 1, Some(9)), None),
            SegmentDecision::ChainBroken
        );
        assert_eq!(Cursor::START.on_segment(&segment(2, 2, Some(1)), None), SegmentDecision::Ahead);
    }

    #[test]
    fn the_next_segment_must_follow_the_head_at_the_cursor() {
        let cursor = at(7, 7);
        assert_eq!(
            cursor.on_segment(&segment(8, 8, Some(7)), None),
            SegmentDecision::Store(at(8, 8))
        );
        assert_eq!(cursor.on_segment(&segment(8, 8, Some(6)), None), SegmentDecision::ChainBroken);
        assert_eq!(cursor.on_segment(&segment(8, 8, None), None), SegmentDecision::ChainBroken);
        assert_eq!(cursor.on_segment(&segment(9, 9, Some(8)), None), SegmentDecision::Ahead);
    }

    #[test]
    fn a_repeat_is_acknowledged_and_a_different_one_is_not() {
        let cursor = at(7, 7);
        let repeat = segment(5, 5, Some(4));
        assert_eq!(cursor.on_segment(&repeat, Some(hash(5))), SegmentDecision::AlreadyStored);
        assert_eq!(cursor.on_segment(&repeat, None), SegmentDecision::AlreadyStored);
        assert_eq!(cursor.on_segment(&repeat, Some(hash(6))), SegmentDecision::Equivocation);
        assert_eq!(SegmentDecision::Equivocation.refusal_code(), Some("equivocation"));
    }

    #[test]
    fn a_sequence_at_the_end_of_the_range_never_overflows() {
        let last = at(u64::MAX, 1);
        assert_eq!(
            last.on_segment(&segment(u64::MAX, 2, Some(1)), None),
            SegmentDecision::AlreadyStored
        );
        assert_eq!(
            Cursor::START.on_segment(&segment(0, 2, None), None),
            SegmentDecision::AlreadyStored
        );
    }

    #[test]
    fn only_a_drop_right_behind_the_cursor_moves_it() {
        let cursor = at(7, 7);
        let drop = |first, last| IncomingDrop {
            first: Sequence(first),
            last: Sequence(last),
            last_head: hash(99),
        };
        assert_eq!(cursor.on_drop(&drop(8, 12)), DropDecision::MoveCursor(at(12, 99)));
        assert_eq!(cursor.on_drop(&drop(9, 12)), DropDecision::Rewind);
        assert_eq!(cursor.on_drop(&drop(7, 12)), DropDecision::Rewind);
        assert_eq!(cursor.on_drop(&drop(3, 7)), DropDecision::AlreadyCovered);
        assert_eq!(cursor.on_drop(&drop(9, 8)), DropDecision::Malformed);
        assert_eq!(cursor.on_drop(&drop(0, 8)), DropDecision::Malformed);
    }
}
