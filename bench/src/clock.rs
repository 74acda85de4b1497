//! The wall clock, for the times that samples carry. Durations are measured with `Instant`.

use leasewatch_core::time::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// Now.
#[must_use]
pub fn wall() -> Timestamp {
    let now = clock_gettime(ClockId::Realtime);
    Timestamp(now.tv_sec.saturating_mul(1_000).saturating_add(now.tv_nsec / 1_000_000))
}
