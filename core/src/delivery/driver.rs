//! What the agent's end and its driver tell each other: what the spool holds, what to do.

use crate::id::{Hash, Sequence};

/// Bounds of the agent's end, in milliseconds unless the name says otherwise.
pub mod limits {
    /// Longest time from connecting to the welcome.
    pub const HANDSHAKE_MS: u64 = 20_000;
    /// Longest wait for an acknowledgement while something is in flight.
    pub const ACK_MS: u64 = 60_000;
    /// After an outage of at least this length a fleet spreads its backlog.
    pub const OUTAGE_MS: u64 = 60_000;
    /// Over which time it spreads it.
    pub const SPREAD_MS: u64 = 30_000;
    /// Shortest wait after a refused hello; the longest is twice that.
    pub const REFUSED_MS: u64 = 60_000;
    /// Shortest life of a stream after which earlier failures are forgotten.
    pub const SETTLED_MS: u64 = 60_000;
    /// Most unacknowledged bytes, whatever a welcome asks for.
    pub const WINDOW_BYTES: u64 = 256 * 1_024;
}

/// What the spool tells about one thing in the durable lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item {
    /// Its first sequence.
    pub first: Sequence,
    /// Its last sequence; a segment's is its first.
    pub last: Sequence,
    /// How much it weighs on the wire, in bytes.
    pub bytes: u64,
    /// What it is.
    pub kind: ItemKind,
}

/// What stands in the durable lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemKind {
    /// A sealed segment.
    Segment,
    /// A range that will never come, and the signed statement that says so.
    Drop,
}

/// The part of a spool that delivery reads. Its items cover `oldest ..= newest` without a hole;
/// evicting a segment turns it into (a part of) a drop.
pub trait SpoolIndex {
    /// The first sequence that an item covers; the one after `newest` when the spool is empty.
    fn oldest(&self) -> Sequence;
    /// The highest sequence ever sealed in this chain, delivered or not; 0 before the first.
    fn newest(&self) -> Sequence;
    /// The item that covers a sequence.
    fn item(&self, sequence: Sequence) -> Option<Item>;
    /// The hash of the head at a sequence, where it is still known.
    fn head_hash(&self, sequence: Sequence) -> Option<Hash>;
}

/// What a welcome says about the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Welcome {
    /// The highest durable sequence; 0 for a new chain.
    pub cursor: Sequence,
    /// Hash of the head there; `None` at 0.
    pub cursor_head: Option<Hash>,
    /// Whether the server knows nothing of the chain and wants its signed start first.
    pub start_wanted: bool,
    /// Most bytes of unacknowledged segments, 0 for the default.
    pub window_bytes: u64,
}

/// What the driver has to do, in this order, before it polls again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Open a stream; then report `on_connected` or `on_disconnected`.
    Connect,
    /// Send a hello.
    SendHello,
    /// Send the proof.
    SendProof,
    /// Sign and send the start of the chain; the first thing of it.
    SendStart,
    /// Send the segment with this sequence.
    SendSegment(Sequence),
    /// Sign and send a drop for this range (it may begin inside the spool's item).
    SendDrop {
        /// The first sequence of the range.
        first: Sequence,
        /// The last one.
        last: Sequence,
    },
    /// Forget everything up to this sequence: it is durable at the server.
    Trim(Sequence),
    /// The server refuses this segment for ever: set it aside and put a drop in its place.
    Quarantine(Sequence),
    /// The server expects these sequences and the spool has them no more (the agent died before
    /// they were delivered, or the server was restored): put a drop in their place.
    Declare {
        /// The first sequence of the range.
        first: Sequence,
        /// The last one.
        last: Sequence,
    },
    /// Close the stream; then report `on_disconnected`.
    Close(CloseReason),
}

/// Why the agent's end gives a stream up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The handshake took longer than [`limits::HANDSHAKE_MS`].
    HandshakeTimeout,
    /// Nothing was acknowledged for [`limits::ACK_MS`] with something in flight.
    AckTimeout,
    /// A message came that has no place at this point.
    Unexpected,
    /// The server knows more of this chain, or another head at its cursor, than this agent does:
    /// its state is an old copy. The chain cannot go on; start a new one.
    ChainDiverged,
    /// The server refused a drop, so this chain cannot go on; start a new one.
    DropRefused,
}

/// How a stream, or the attempt to open one, ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Any loss of contact: try again soon.
    Lost,
    /// The server does not want this agent as it is: try again slowly.
    Refused,
}
