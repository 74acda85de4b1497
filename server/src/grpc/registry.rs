//! At most two proven streams of one node: a third ends the oldest.
//!
//! The newest is kept, because an agent that reconnects often does so before the server has
//! noticed the end of its old stream; were the oldest kept, a half-open connection would lock the
//! agent out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasewatch_core::id::NodeId;
use tokio::sync::Notify;

/// Proven streams of one node that may be open at once.
pub(super) const STREAMS_PER_NODE: usize = 2;

#[derive(Debug, Clone, Default)]
pub(super) struct Registry(Arc<Mutex<HashMap<NodeId, Vec<Arc<Notify>>>>>);

/// A stream's place; dropping it makes room.
#[derive(Debug)]
pub(super) struct Seat {
    registry: Registry,
    node: NodeId,
    displaced: Arc<Notify>,
}

impl Registry {
    pub(super) fn enter(&self, node: NodeId) -> Seat {
        let displaced = Arc::new(Notify::new());
        let mut streams = self.lock();
        let seats = streams.entry(node).or_default();
        seats.push(Arc::clone(&displaced));
        let surplus = seats.len().saturating_sub(STREAMS_PER_NODE);
        for oldest in seats.drain(..surplus) {
            oldest.notify_one();
        }
        drop(streams);
        Seat { registry: self.clone(), node, displaced }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NodeId, Vec<Arc<Notify>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Completes when a newer stream took this one's place.
    pub(super) async fn displaced(&self) {
        self.displaced.notified().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut streams = self.registry.lock();
        if let Some(seats) = streams.get_mut(&self.node) {
            seats.retain(|seat| !Arc::ptr_eq(seat, &self.displaced));
            if seats.is_empty() {
                streams.remove(&self.node);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt as _;

    const NODE: NodeId = NodeId([1; 16]);

    #[test]
    fn the_newest_two_stay() {
        let registry = Registry::default();
        let seats: Vec<Seat> = (0..4).map(|_| registry.enter(NODE)).collect();
        let other = registry.enter(NodeId([2; 16]));
        let displaced = |seat: &Seat| seat.displaced().now_or_never().is_some();
        assert_eq!(seats.iter().map(displaced).collect::<Vec<_>>(), [true, true, false, false]);
        assert!(!displaced(&other));
    }

    #[test]
    fn an_ended_stream_makes_room_and_nothing_is_left() {
        let registry = Registry::default();
        let (first, second) = (registry.enter(NODE), registry.enter(NODE));
        drop(first);
        let third = registry.enter(NODE);
        assert!(second.displaced().now_or_never().is_none());
        drop((second, third));
        assert!(registry.lock().is_empty());
    }
}
