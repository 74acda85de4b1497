//! Which streams are proven: at most two of one node, a third ends the oldest; and those of a key
//! that is no longer accepted end at once.
//!
//! The newest is kept, because an agent that reconnects often does so before the server has
//! noticed the end of its old stream; were the oldest kept, a half-open connection would lock the
//! agent out.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasewatch_core::id::{KeyId, NodeId};
use tokio::sync::Notify;

/// Proven streams of one node that may be open at once.
pub(super) const STREAMS_PER_NODE: usize = 2;

#[derive(Debug, Clone, Default)]
pub(super) struct Registry(Arc<Mutex<HashMap<NodeId, Vec<Arc<Place>>>>>);

#[derive(Debug)]
struct Place {
    key: KeyId,
    displaced: Notify,
    revoked: Notify,
}

/// A stream's place; dropping it makes room.
#[derive(Debug)]
pub(super) struct Seat {
    registry: Registry,
    node: NodeId,
    place: Arc<Place>,
}

impl Registry {
    pub(super) fn enter(&self, node: NodeId, key: KeyId) -> Seat {
        let place = Arc::new(Place { key, displaced: Notify::new(), revoked: Notify::new() });
        let mut streams = self.lock();
        let seats = streams.entry(node).or_default();
        seats.push(Arc::clone(&place));
        let surplus = seats.len().saturating_sub(STREAMS_PER_NODE);
        for oldest in seats.drain(..surplus) {
            oldest.displaced.notify_one();
        }
        drop(streams);
        Seat { registry: self.clone(), node, place }
    }

    /// Keys with an open stream.
    pub(super) fn keys(&self) -> Vec<KeyId> {
        let mut keys: Vec<KeyId> = self.lock().values().flatten().map(|place| place.key).collect();
        keys.sort_unstable();
        keys.dedup();
        keys
    }

    /// Ends the streams of a key. Returns how many there are.
    pub(super) fn revoke(&self, key: KeyId) -> usize {
        let streams = self.lock();
        let of_key = streams.values().flatten().filter(|place| place.key == key);
        of_key.inspect(|place| place.revoked.notify_one()).count()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<NodeId, Vec<Arc<Place>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// Completes when a newer stream took this one's place.
    pub(super) async fn displaced(&self) {
        self.place.displaced.notified().await;
    }

    /// Completes when the stream's key is no longer accepted.
    pub(super) async fn revoked(&self) {
        self.place.revoked.notified().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut streams = self.registry.lock();
        if let Some(seats) = streams.get_mut(&self.node) {
            seats.retain(|seat| !Arc::ptr_eq(seat, &self.place));
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
    const KEY: KeyId = KeyId([1; 32]);

    #[test]
    fn the_newest_two_stay() {
        let registry = Registry::default();
        let seats: Vec<Seat> = (0..4).map(|_| registry.enter(NODE, KEY)).collect();
        let other = registry.enter(NodeId([2; 16]), KeyId([2; 32]));
        let displaced = |seat: &Seat| seat.displaced().now_or_never().is_some();
        assert_eq!(seats.iter().map(displaced).collect::<Vec<_>>(), [true, true, false, false]);
        assert!(!displaced(&other));
    }

    #[test]
    fn an_ended_stream_makes_room_and_nothing_is_left() {
        let registry = Registry::default();
        let (first, second) = (registry.enter(NODE, KEY), registry.enter(NODE, KEY));
        drop(first);
        let third = registry.enter(NODE, KEY);
        assert!(second.displaced().now_or_never().is_none());
        drop((second, third));
        assert!(registry.lock().is_empty());
    }

    #[test]
    fn a_key_that_is_revoked_ends_its_streams_and_no_others() {
        let registry = Registry::default();
        let other = KeyId([2; 32]);
        let seats = [registry.enter(NODE, KEY), registry.enter(NODE, other)];
        let elsewhere = registry.enter(NodeId([2; 16]), KEY);
        assert_eq!(registry.keys(), [KEY, other]);
        assert_eq!(registry.revoke(KEY), 2);
        let revoked = |seat: &Seat| seat.revoked().now_or_never().is_some();
        assert_eq!(seats.each_ref().map(revoked), [true, false]);
        assert!(revoked(&elsewhere));
        assert_eq!(registry.revoke(KeyId([3; 32])), 0);
    }
}
