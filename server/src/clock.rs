//! The one place that asks the system for the time.
//!
//! Everything else is given a [`Clock`] or a [`Timestamp`], so that tests decide what time it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use leasewatch_core::time::Timestamp;

/// Tells the wall time. Clones share what they show.
#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    System,
    Manual(Arc<AtomicI64>),
}

impl Clock {
    /// The clock of this machine.
    #[must_use]
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands at `at` until [`Clock::set`] or [`Clock::advance_ms`] moves it.
    #[must_use]
    pub fn manual(at: Timestamp) -> Self {
        Self(Source::Manual(Arc::new(AtomicI64::new(at.0))))
    }

    /// Milliseconds since 1970, by this clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => system_now(),
            Source::Manual(ms) => Timestamp(ms.load(Ordering::SeqCst)),
        }
    }

    /// Moves a manual clock to `at`. The system's clock is not ours to set: nothing happens.
    pub fn set(&self, at: Timestamp) {
        if let Source::Manual(ms) = &self.0 {
            ms.store(at.0, Ordering::SeqCst);
        }
    }

    /// Moves a manual clock by `ms`. Nothing happens to the system's clock.
    pub fn advance_ms(&self, ms: i64) {
        if let Source::Manual(at) = &self.0 {
            at.fetch_add(ms, Ordering::SeqCst);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the place the lint points to")]
fn system_now() -> Timestamp {
    let signed = |ms: u128| i64::try_from(ms).unwrap_or(i64::MAX);
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => Timestamp(signed(since.as_millis())),
        Err(before) => Timestamp(-signed(before.duration().as_millis())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_stands_until_it_is_moved_and_clones_share_it() {
        let clock = Clock::manual(Timestamp(1_000));
        let other = clock.clone();
        assert_eq!(other.now(), Timestamp(1_000));
        clock.advance_ms(500);
        assert_eq!(other.now(), Timestamp(1_500));
        other.set(Timestamp(10));
        assert_eq!(clock.now(), Timestamp(10));
    }

    #[test]
    fn the_system_clock_is_in_the_accepted_range_and_cannot_be_set() {
        let clock = Clock::system();
        clock.set(Timestamp(0));
        assert!(clock.now() > Timestamp::MIN && clock.now() < Timestamp::MAX);
    }
}
