//! The server's end: what to do with anything of one chain, given what is stored of it.
//!
//! A chain has to begin before it can grow: without its signed start, segments and drops have no
//! place. Behind that, the [`Cursor`] decides.

use super::cursor::{Cursor, DropDecision, IncomingDrop, IncomingSegment, SegmentDecision};
use crate::id::Hash;

/// What is stored of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredChain {
    /// Hash of its start; `None` when none is stored. Chains that are older than these statements
    /// have segments without one, and go on.
    pub start: Option<Hash>,
    /// How far it is durable.
    pub cursor: Cursor,
}

/// The answer to a start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartDecision {
    /// The chain is new: store it, acknowledge the cursor after the commit.
    Store,
    /// The same one is stored: acknowledge the cursor again.
    AlreadyStored,
    /// Another start of this chain is stored; it stays, and the stream ends.
    Contradiction,
    /// The chain has segments already and never had a start: it gets none afterwards, and the
    /// stream ends.
    Late,
}

impl StoredChain {
    /// A chain of which nothing is known.
    pub const UNKNOWN: Self = Self { start: None, cursor: Cursor::START };

    /// Whether segments and drops have a place in it.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.start.is_some() || self.cursor != Cursor::START
    }

    /// Decides about a start with this hash.
    #[must_use]
    pub fn on_start(&self, start: Hash) -> StartDecision {
        match self.start {
            Some(stored) if stored == start => StartDecision::AlreadyStored,
            Some(_) => StartDecision::Contradiction,
            None if self.has_begun() => StartDecision::Late,
            None => StartDecision::Store,
        }
    }

    /// Decides about a segment; `kept` as in [`Cursor::on_segment`].
    #[must_use]
    pub fn on_segment(&self, segment: &IncomingSegment, kept: Option<Hash>) -> SegmentDecision {
        if self.has_begun() {
            self.cursor.on_segment(segment, kept)
        } else {
            SegmentDecision::NotBegun
        }
    }

    /// Decides about a drop.
    #[must_use]
    pub fn on_drop(&self, drop: &IncomingDrop) -> DropDecision {
        if self.has_begun() { self.cursor.on_drop(drop) } else { DropDecision::NotBegun }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Sequence;

    const FIRST: IncomingSegment =
        IncomingSegment { sequence: Sequence(1), head: Hash([1; 32]), previous: None };
    const DROP: IncomingDrop =
        IncomingDrop { first: Sequence(1), last: Sequence(4), last_head: Hash([4; 32]) };

    #[test]
    fn nothing_has_a_place_before_the_start() {
        let unknown = StoredChain::UNKNOWN;
        assert_eq!(unknown.on_segment(&FIRST, None), SegmentDecision::NotBegun);
        assert_eq!(unknown.on_drop(&DROP), DropDecision::NotBegun);
        assert_eq!(SegmentDecision::NotBegun.refusal_code(), None);
        assert_eq!(unknown.on_start(Hash([7; 32])), StartDecision::Store);
        let begun = StoredChain { start: Some(Hash([7; 32])), ..unknown };
        assert!(matches!(begun.on_segment(&FIRST, None), SegmentDecision::Store(_)));
        assert!(matches!(begun.on_drop(&DROP), DropDecision::MoveCursor(_)));
    }

    #[test]
    fn a_chain_begins_once() {
        let begun = StoredChain { start: Some(Hash([7; 32])), cursor: Cursor::START };
        assert_eq!(begun.on_start(Hash([7; 32])), StartDecision::AlreadyStored);
        assert_eq!(begun.on_start(Hash([8; 32])), StartDecision::Contradiction);
    }

    #[test]
    fn a_chain_of_before_these_statements_goes_on_without_one() {
        let cursor = Cursor { sequence: Sequence(1), head: Some(FIRST.head) };
        let old = StoredChain { start: None, cursor };
        let next = IncomingSegment {
            sequence: Sequence(2),
            head: Hash([2; 32]),
            previous: Some(FIRST.head),
        };
        assert!(matches!(old.on_segment(&next, None), SegmentDecision::Store(_)));
        assert_eq!(old.on_start(Hash([7; 32])), StartDecision::Late);
    }
}
