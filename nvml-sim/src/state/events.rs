//! Event sets: who registered for what, and what waits to be fetched.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use super::handle::HandleTable;
use super::{Session, Target, lock};
use crate::abi::code::{Code, Result};
use crate::physics::card::CardEvent;

/// A waiting call looks this often whether an event became due.
const RECHECK: Duration = Duration::from_millis(50);
/// Events that one set keeps; the driver drops the oldest as well.
const KEPT: usize = 1_024;

/// All event sets of a session.
#[derive(Default)]
pub(crate) struct EventHub {
    sets: HandleTable<EventSet>,
    arrivals: Mutex<u64>,
    arrived: Condvar,
}

#[derive(Default)]
struct EventSet {
    registered: Vec<(usize, u64)>,
    waiting: VecDeque<(usize, CardEvent)>,
}

impl EventHub {
    pub(crate) fn create(&self) -> *mut c_void {
        self.sets.insert(EventSet::default())
    }

    pub(crate) fn free(&self, set: *mut c_void) -> Result<()> {
        self.sets.remove(set).map(drop).ok_or(Code::INVALID_ARGUMENT)
    }

    pub(crate) fn register(&self, set: *mut c_void, slot: usize, types: u64) -> Result<()> {
        let register = |set: &mut EventSet| set.registered.push((slot, types));
        self.sets.with(set, register).ok_or(Code::INVALID_ARGUMENT)
    }

    pub(super) fn send(&self, slot: usize, events: &[CardEvent]) {
        if events.is_empty() {
            return;
        }
        self.sets.for_each(|set| {
            for event in events {
                if set.registered.iter().any(|(at, types)| *at == slot && types & event.kind != 0) {
                    if set.waiting.len() == KEPT {
                        set.waiting.pop_front();
                    }
                    set.waiting.push_back((slot, *event));
                }
            }
        });
        *lock(&self.arrivals) += 1;
        self.arrived.notify_all();
    }

    fn take(&self, set: *mut c_void) -> Result<Option<(usize, CardEvent)>> {
        self.sets.with(set, |set| set.waiting.pop_front()).ok_or(Code::INVALID_ARGUMENT)
    }

    fn pause(&self, at_most: Duration) {
        let arrivals = lock(&self.arrivals);
        drop(self.arrived.wait_timeout(arrivals, at_most.min(RECHECK)));
    }
}

impl Session {
    /// The next event of a set; blocks until there is one, or fails with "timeout".
    pub(crate) fn wait_event(
        &self,
        set: *mut c_void,
        timeout_ms: u32,
    ) -> Result<(Target, CardEvent)> {
        let began = Instant::now();
        let timeout = Duration::from_millis(u64::from(timeout_ms));
        loop {
            self.advance_all();
            if let Some((slot, event)) = self.events.take(set)? {
                return Ok((Target::card(slot), event));
            }
            let left = timeout.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(Code::TIMEOUT);
            }
            if self.is_closed() {
                return Err(Code::UNINITIALIZED);
            }
            self.events.pause(left);
        }
    }
}
