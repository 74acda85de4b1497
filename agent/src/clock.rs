//! The agent's two clocks, and how a boot time becomes a wall time.
//!
//! Durations and order come from CLOCK_BOOTTIME, which counts through suspend and never steps.
//! Wall time is `anchor_wall + (t_boot - anchor_boot)`; when the wall clock steps away from that
//! by more than [`STEP_MS`] a new anchor is taken and the step is an event. Nothing is corrected
//! here: whether the wall clock is right is measured by the server.

use leasewatch_core::time::Timestamp;
use rustix::time::{ClockId, Timespec, clock_gettime};

/// How far the wall clock may be from where the anchor puts it before a new anchor is taken.
pub const STEP_MS: i64 = 100;

/// Nanoseconds of CLOCK_BOOTTIME since the host booted.
#[must_use]
pub fn boot_ns() -> i64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec.saturating_mul(1_000_000_000).saturating_add(time.tv_nsec)
}

/// Milliseconds of CLOCK_BOOTTIME since the host booted.
#[must_use]
pub fn boot_ms() -> i64 {
    millis(clock_gettime(ClockId::Boottime))
}

/// Microseconds of CLOCK_BOOTTIME since the host booted.
#[must_use]
pub fn boot_us() -> i64 {
    micros(clock_gettime(ClockId::Boottime))
}

/// Microseconds of the wall clock since 1970, for mapping times that a driver stamped.
#[must_use]
pub fn wall_us() -> i64 {
    micros(clock_gettime(ClockId::Realtime))
}

/// The wall clock. Only an [`Anchor`] and the four timestamps of the stream may be made from it.
#[must_use]
pub fn wall() -> Timestamp {
    Timestamp(millis(clock_gettime(ClockId::Realtime)))
}

fn micros(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec.div_euclid(1_000))
}

fn millis(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(1_000).saturating_add(time.tv_nsec.div_euclid(1_000_000))
}

/// One instant on both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Instant {
    /// Milliseconds of CLOCK_BOOTTIME.
    pub boot_ms: i64,
    /// The wall clock at that instant.
    pub wall: Timestamp,
}

impl Instant {
    /// Both clocks, read one after the other.
    #[must_use]
    pub fn now() -> Self {
        Self { boot_ms: boot_ms(), wall: wall() }
    }
}

/// The pair of times that wall times are counted from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Anchor(Instant);

impl Anchor {
    /// An anchor at `now`.
    #[must_use]
    pub fn at(now: Instant) -> Self {
        Self(now)
    }

    /// The wall time of an instant of CLOCK_BOOTTIME.
    #[must_use]
    pub fn wall_of(self, boot_ms: i64) -> Timestamp {
        self.0.wall.plus_ms(boot_ms.saturating_sub(self.0.boot_ms))
    }

    /// Compares the wall clock with the anchor. Returns the step in milliseconds (positive =
    /// forwards) and takes `now` as the new anchor when it is larger than [`STEP_MS`].
    pub fn check(&mut self, now: Instant) -> Option<i64> {
        let by_ms = now.wall.since(self.wall_of(now.boot_ms));
        (by_ms.saturating_abs() > STEP_MS).then(|| {
            self.0 = now;
            by_ms
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Instant = Instant { boot_ms: 5_000, wall: Timestamp(1_800_000_000_000) };

    #[test]
    fn wall_times_follow_the_boot_clock_both_ways() {
        let anchor = Anchor::at(START);
        assert_eq!(anchor.wall_of(6_500), Timestamp(1_800_000_001_500));
        assert_eq!(anchor.wall_of(4_000), Timestamp(1_799_999_999_000));
    }

    #[test]
    fn slow_drift_up_to_the_bound_keeps_the_anchor() {
        let mut anchor = Anchor::at(START);
        let drifted = Instant { boot_ms: 65_000, wall: START.wall.plus_ms(60_100) };
        assert_eq!(anchor.check(drifted), None);
        assert_eq!(anchor, Anchor::at(START));
    }

    #[test]
    fn a_step_makes_a_new_anchor_once() {
        for by_ms in [101, -101, 3_600_000, -315_360_000_000] {
            let mut anchor = Anchor::at(START);
            let stepped = Instant { boot_ms: 65_000, wall: START.wall.plus_ms(60_000 + by_ms) };
            assert_eq!(anchor.check(stepped), Some(by_ms));
            assert_eq!(anchor.check(stepped), None);
            assert_eq!(anchor.wall_of(65_000), stepped.wall);
        }
    }

    #[test]
    fn the_boot_clock_does_not_go_back() {
        let first = boot_ns();
        assert!(boot_ns() >= first);
        assert!(boot_ms() >= first / 1_000_000);
        assert!(wall() > Timestamp::MIN);
    }
}
