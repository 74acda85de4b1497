//! Delivery of segments: the state machines of both ends, without I/O.
//!
//! Inputs are `on_*`, outputs are `poll`, and both "now" and random numbers are arguments, so that
//! a simulation can run thousands of node-hours a minute over the very code that ships. The agent's
//! end is [`Sender`]; the server's end is one pure decision per message of a [`StoredChain`], made
//! against rows that are locked in the transaction of the insert.
//!
//! Invariants, held by the simulation in this module:
//! 1. Every sealed sequence is at last stored exactly once, or covered by a `drop`.
//! 2. What was acknowledged is durable: only an acknowledgement trims the spool.
//! 3. Unacknowledged bytes on a stream never pass the window, but for a single larger segment.
//! 4. A refused or evicted segment never blocks the ones behind it.
//! 5. A chain begins with its signed start. A chain that cannot go on is followed by another one,
//!    and what the agent still held of it is covered by a `drop` at the beginning of the new one.
//!
//! Not here: what travels (`leasewatch-proto`), what a segment holds, who signed it (`evidence`).

mod backoff;
mod chain;
mod clock;
mod cursor;
mod driver;
mod liveness;
mod sender;
mod session_count;
#[cfg(test)]
mod simulation;

pub use backoff::{
    BACKOFF_MAX_MS, BACKOFF_MIN_MS, BACKOFF_YOUNG_MAX_MS, YOUNG_LOSS_MS, backoff_ms,
};
pub use chain::{StartDecision, StoredChain};
pub use clock::{ClockEstimate, ClockFilter, TimeExchange};
pub use cursor::{Cursor, DropDecision, IncomingDrop, IncomingSegment, SegmentDecision};
pub use driver::{Action, CloseReason, Ending, Item, ItemKind, SpoolIndex, Welcome, limits};
pub use liveness::{LATE_AFTER_MS, NodeState, Presence, UNKNOWN_AFTER_MS, UnknownReason};
pub use sender::Sender;
pub use session_count::{SessionCount, SessionOpened};

/// An instant of a clock that never steps: milliseconds since an arbitrary start (the boot clock
/// at the agent, the process's monotonic clock at the server). Wall time is
/// [`crate::time::Timestamp`]; timers never use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(pub u64);

impl Moment {
    /// `ms` later, clamped to the number range.
    #[must_use]
    pub fn plus_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds since `earlier`; 0 when `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
