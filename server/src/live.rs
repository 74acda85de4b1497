//! What the server knows about nodes at this moment, in memory only.
//!
//! The live lane ends here: the last live frame of each node, whether a stream is open, how far its
//! clock is off, and from these its state (up, late, unknown). Nudges without data travel through
//! here too: "there is hour work", "something changed on this node". Nothing in here is evidence,
//! nothing is stored, and a restart begins with what [`Live::introduce`] is told.
//!
//! Not here: the rule of the state (`core::delivery`), the tenant that a node belongs to (whoever
//! shows something asks the store first), and sockets.

mod node;
mod open_hours;

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use leasewatch_core::delivery::{ClockEstimate, Moment, NodeState, UnknownReason};
use leasewatch_core::id::NodeId;
use leasewatch_core::time::Timestamp;
use tokio::sync::{Notify, broadcast, watch};

/// What a live frame holds: values within their ranges, clean text, at most 64 GPUs.
pub use leasewatch_proto::convert::{LiveFrame, LiveGpu};
pub use node::{Introduction, NodeSnapshot};
pub use open_hours::OpenHour;

use node::Node;

/// Milliseconds between live frames while nobody watches.
pub const RESTING_INTERVAL_MS: u32 = 5_000;
/// Milliseconds between live frames while a page watches the node.
pub const WATCHED_INTERVAL_MS: u32 = 1_000;

/// Changes that a slow listener may fall behind before it is told that it lost some.
const CHANGES_KEPT: usize = 1_024;

/// The live state of all nodes. Clones share it.
#[derive(Debug, Clone)]
pub struct Live(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    started: Instant,
    nodes: RwLock<HashMap<NodeId, Node>>,
    hour_work: Notify,
    changes: broadcast::Sender<Change>,
    open: open_hours::OpenHours,
}

/// Something changed on a node; what it is now is asked for. It names no tenant: a listener keeps
/// to the nodes that its tenant's rows name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// On which node.
    pub node: NodeId,
    /// What changed.
    pub what: Changed,
}

/// What changed on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    /// A live frame came.
    Frame,
    /// Segments or drops were committed.
    Segment,
    /// A stream was opened or closed, a key revoked, a node found contested.
    Stream,
    /// Hour records were written.
    Hours,
}

/// What a node's streams have to follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Control {
    /// Milliseconds between live frames that are wanted.
    pub interval_ms: u32,
    /// True when the key was revoked: close.
    pub revoked: bool,
}

impl Default for Live {
    fn default() -> Self {
        Self::new()
    }
}

impl Live {
    /// No nodes; the grace of a server start begins now.
    #[must_use]
    pub fn new() -> Self {
        Self(Arc::new(Inner {
            started: Instant::now(),
            nodes: RwLock::default(),
            hour_work: Notify::new(),
            changes: broadcast::Sender::new(CHANGES_KEPT),
            open: open_hours::OpenHours::default(),
        }))
    }

    /// Milliseconds since the server's start, by a clock that never steps.
    #[must_use]
    pub fn now(&self) -> Moment {
        Moment(u64::try_from(self.0.started.elapsed().as_millis()).unwrap_or(u64::MAX))
    }

    /// Tells what the store knows of a node: at the server's start for all, later for new ones.
    /// What was seen since the start stays.
    pub fn introduce(&self, node: NodeId, introduction: Introduction) {
        self.update(node, |entry| entry.introduce(introduction));
    }

    /// A proven stream of the node is open until the guard is dropped. `agent_version` is cleaned
    /// text.
    #[must_use]
    pub fn open_stream(&self, node: NodeId, agent_version: &str) -> OpenStream {
        self.update(node, |entry| entry.stream_opened(agent_version));
        self.announce(node, Changed::Stream);
        OpenStream { live: self.clone(), node }
    }

    /// A live frame came.
    pub fn frame(&self, node: NodeId, frame: LiveFrame) {
        let now = self.now();
        self.update(node, |entry| entry.frame(frame, now));
        self.announce(node, Changed::Frame);
    }

    /// A segment that ends at `ended_at` (node clock) was committed; `goodbye` says whether a
    /// planned stop is the last thing in it.
    pub fn segment(&self, node: NodeId, ended_at: Timestamp, goodbye: bool) {
        let now = self.now();
        self.update(node, |entry| entry.segment(ended_at, goodbye, now));
        self.announce(node, Changed::Segment);
    }

    /// The best estimate of the node's clock changed.
    pub fn clock(&self, node: NodeId, estimate: ClockEstimate) {
        self.update(node, |entry| entry.clock(estimate));
    }

    /// Two users of the node's key were seen.
    pub fn contested(&self, node: NodeId) {
        self.update(node, Node::contested);
        self.announce(node, Changed::Stream);
    }

    /// The node's key was revoked: its streams close at once.
    pub fn revoke(&self, node: NodeId) {
        self.update(node, Node::revoke);
        self.announce(node, Changed::Stream);
    }

    /// A key of the node was accepted: it is not revoked, or no longer.
    pub fn admit(&self, node: NodeId) {
        self.update(node, Node::admit);
    }

    /// Forgets a node that was removed from the store. Its streams close.
    pub fn forget(&self, node: NodeId) {
        if let Some(mut entry) = self.write().remove(&node) {
            entry.revoke();
        }
        self.announce(node, Changed::Stream);
    }

    /// The state of a node. One that nobody introduced was never seen.
    #[must_use]
    pub fn state(&self, node: NodeId) -> NodeState {
        let (now, started_at) = (self.now(), Moment(0));
        let known = self.read().get(&node).map(|entry| entry.state(started_at, now));
        known.unwrap_or(NodeState::Unknown(UnknownReason::NeverSeen))
    }

    /// Everything that is known of a node at this moment; `None` for one that nobody introduced.
    #[must_use]
    pub fn node(&self, node: NodeId) -> Option<NodeSnapshot> {
        let (now, started_at) = (self.now(), Moment(0));
        self.read().get(&node).map(|entry| entry.snapshot(started_at, now))
    }

    /// Asks for a live frame each second until the guard is dropped.
    #[must_use]
    pub fn watch(&self, node: NodeId) -> Watch {
        self.update(node, |entry| entry.watchers_changed(1));
        Watch { live: self.clone(), node }
    }

    /// What the node's streams have to follow, now and whenever it changes.
    #[must_use]
    pub fn control(&self, node: NodeId) -> watch::Receiver<Control> {
        self.update(node, |entry| entry.control())
    }

    /// Says that rows of `hour_work` were committed. Stays pending until somebody waits for it.
    pub fn nudge_hour_work(&self) {
        self.0.hour_work.notify_one();
    }

    /// Waits for a nudge. For one listener, which looks into the store whatever it missed.
    pub async fn hour_work(&self) {
        self.0.hour_work.notified().await;
    }

    /// Tells all listeners that something changed on a node.
    pub fn announce(&self, node: NodeId, what: Changed) {
        // An error says that nobody listens.
        let _ = self.0.changes.send(Change { node, what });
    }

    /// Changes from now on. A listener that falls behind is told so and asks for everything.
    #[must_use]
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.0.changes.subscribe()
    }

    fn open(&self) -> &open_hours::OpenHours {
        &self.0.open
    }

    fn update<T>(&self, node: NodeId, change: impl FnOnce(&mut Node) -> T) -> T {
        change(self.write().entry(node).or_default())
    }

    // A panic while the lock was held leaves nothing half-written that matters: each field of a
    // node stands for itself and is replaced within seconds.
    fn read(&self) -> RwLockReadGuard<'_, HashMap<NodeId, Node>> {
        self.0.nodes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<NodeId, Node>> {
        self.0.nodes.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A proven stream; dropping it says that it is closed.
#[derive(Debug)]
pub struct OpenStream {
    live: Live,
    node: NodeId,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        if let Some(entry) = self.live.write().get_mut(&self.node) {
            entry.stream_closed();
        }
        self.live.announce(self.node, Changed::Stream);
    }
}

/// Somebody watches a node; dropping it says that they stopped.
#[derive(Debug)]
pub struct Watch {
    live: Live,
    node: NodeId,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(entry) = self.live.write().get_mut(&self.node) {
            entry.watchers_changed(-1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId([7; 16]);

    #[test]
    fn a_node_that_nobody_introduced_was_never_seen_and_one_that_speaks_is_up() {
        let live = Live::new();
        assert_eq!(live.state(NODE), NodeState::Unknown(UnknownReason::NeverSeen));
        assert_eq!(live.node(NODE), None);
        live.frame(NODE, node::fixture::frame());
        assert_eq!(live.state(NODE), NodeState::Up);
    }

    #[test]
    fn a_known_node_has_the_grace_of_a_server_start() {
        let live = Live::new();
        live.introduce(NODE, Introduction { ever_seen: true, ..Introduction::default() });
        assert_eq!(live.state(NODE), NodeState::Late);
    }

    #[test]
    fn the_pace_is_fast_while_anybody_watches() {
        let live = Live::new();
        let mut control = live.control(NODE);
        let pace = |control: &mut watch::Receiver<Control>| control.borrow_and_update().interval_ms;
        assert_eq!(pace(&mut control), RESTING_INTERVAL_MS);
        let (first, second) = (live.watch(NODE), live.watch(NODE));
        assert!(control.has_changed().unwrap());
        assert_eq!(pace(&mut control), WATCHED_INTERVAL_MS);
        drop(first);
        assert!(!control.has_changed().unwrap());
        drop(second);
        assert_eq!(pace(&mut control), RESTING_INTERVAL_MS);
    }

    #[test]
    fn streams_are_counted_and_revocation_reaches_them() {
        let live = Live::new();
        let open = |live: &Live| live.node(NODE).map(|node| node.streams_open);
        let (first, second) = (live.open_stream(NODE, "0.1.0"), live.open_stream(NODE, "0.1.0"));
        assert_eq!(open(&live), Some(2));
        drop(first);
        assert_eq!(open(&live), Some(1));
        let control = live.control(NODE);
        live.revoke(NODE);
        assert!(control.borrow().revoked);
        assert_eq!(live.state(NODE), NodeState::Unknown(UnknownReason::Revoked));
        drop(second);
        assert_eq!(open(&live), Some(0));
    }

    #[test]
    fn a_removed_node_closes_its_streams_and_late_guards_do_not_bring_it_back() {
        let live = Live::new();
        let (stream, watcher) = (live.open_stream(NODE, "0.1.0"), live.watch(NODE));
        let control = live.control(NODE);
        live.forget(NODE);
        assert!(control.borrow().revoked);
        drop((stream, watcher));
        assert_eq!(live.node(NODE), None);
    }

    #[tokio::test]
    async fn nudges_wait_for_a_listener_and_changes_reach_all() {
        let live = Live::new();
        live.nudge_hour_work();
        live.nudge_hour_work();
        live.hour_work().await;
        let mut listeners = [live.changes(), live.changes()];
        live.segment(NODE, Timestamp(5), false);
        for listener in &mut listeners {
            let expected = Change { node: NODE, what: Changed::Segment };
            assert_eq!(listener.recv().await, Ok(expected));
        }
    }
}
