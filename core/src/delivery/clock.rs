//! How far a node's clock is from the server's, from four timestamps per exchange.

use std::collections::VecDeque;

/// One exchange of timestamps, all in milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeExchange {
    /// The server's clock when it asked.
    pub server_sent_ms: i64,
    /// The agent's clock when the question arrived.
    pub agent_received_ms: i64,
    /// The agent's clock when it answered.
    pub agent_sent_ms: i64,
    /// The server's clock when the answer arrived.
    pub server_received_ms: i64,
}

impl TimeExchange {
    /// Time on the wire, both ways together; `None` when the numbers contradict each other.
    fn delay_ms(&self) -> Option<i64> {
        let round = self.server_received_ms.checked_sub(self.server_sent_ms)?;
        let held = self.agent_sent_ms.checked_sub(self.agent_received_ms)?;
        let delay = round.checked_sub(held)?;
        (delay >= 0 && held >= 0).then_some(delay)
    }

    /// The offset that this exchange shows; `None` when its numbers contradict each other.
    #[must_use]
    pub fn estimate(&self) -> Option<ClockEstimate> {
        let delay_ms = self.delay_ms()?;
        let there = self.server_sent_ms.checked_sub(self.agent_received_ms)?;
        let back = self.server_received_ms.checked_sub(self.agent_sent_ms)?;
        Some(ClockEstimate {
            offset_ms: there.checked_add(back)?.div_euclid(2),
            // Half the delay, and one for the halves of milliseconds that integers lose.
            bound_ms: delay_ms / 2 + 1,
        })
    }
}

/// Server time minus agent time, known within `offset_ms` +- `bound_ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockEstimate {
    /// Server time minus agent time: what to add to the agent's clock to get the server's.
    pub offset_ms: i64,
    /// How wrong the offset can be.
    pub bound_ms: i64,
}

impl ClockEstimate {
    /// Whether no offset lies within the bounds of both.
    fn contradicts(&self, other: &Self) -> bool {
        let apart = self.offset_ms.saturating_sub(other.offset_ms).saturating_abs();
        apart > self.bound_ms.saturating_add(other.bound_ms)
    }
}

/// Keeps the last eight exchanges and believes the one with the least delay: its bound is the
/// tightest, and queues in the network only ever add delay.
#[derive(Debug, Clone, Default)]
pub struct ClockFilter {
    recent: VecDeque<ClockEstimate>,
}

impl ClockFilter {
    /// Exchanges that are kept.
    pub const KEPT: usize = 8;

    /// Takes one exchange in; one whose numbers contradict each other is ignored.
    pub fn on_exchange(&mut self, exchange: &TimeExchange) {
        let Some(estimate) = exchange.estimate() else { return };
        // Both cannot hold: a clock was set, or runs away. What was measured before says nothing of
        // now, however little its delay was.
        if self.recent.iter().any(|kept| kept.contradicts(&estimate)) {
            self.recent.clear();
        }
        if self.recent.len() == Self::KEPT {
            self.recent.pop_front();
        }
        self.recent.push_back(estimate);
    }

    /// The best of the kept exchanges; `None` before the first.
    #[must_use]
    pub fn estimate(&self) -> Option<ClockEstimate> {
        self.recent.iter().copied().min_by_key(|estimate| estimate.bound_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// `offset` is agent time minus server time.
    fn exchange(offset: i64, there: i64, back: i64, held: i64) -> TimeExchange {
        let server_sent_ms = 1_000_000;
        TimeExchange {
            server_sent_ms,
            agent_received_ms: server_sent_ms + there + offset,
            agent_sent_ms: server_sent_ms + there + held + offset,
            server_received_ms: server_sent_ms + there + held + back,
        }
    }

    proptest! {
        #[test]
        fn the_true_offset_lies_within_the_bound(
            offset in -400_000_000_i64..400_000_000,
            paths in proptest::collection::vec((0_i64..5_000, 0_i64..5_000, 0_i64..100), 1..20),
        ) {
            let mut filter = ClockFilter::default();
            for (there, back, held) in paths {
                filter.on_exchange(&exchange(offset, there, back, held));
            }
            let found = filter.estimate().unwrap();
            prop_assert!((found.offset_ms + offset).abs() <= found.bound_ms, "{found:?}");
        }
    }

    #[test]
    fn the_least_delay_of_the_last_eight_wins() {
        let mut filter = ClockFilter::default();
        filter.on_exchange(&exchange(-40, 1, 1, 0));
        assert_eq!(filter.estimate(), Some(ClockEstimate { offset_ms: 40, bound_ms: 2 }));
        for _ in 0..ClockFilter::KEPT {
            filter.on_exchange(&exchange(-60, 100, 100, 0));
        }
        assert_eq!(filter.estimate(), Some(ClockEstimate { offset_ms: 60, bound_ms: 101 }));
    }

    #[test]
    fn a_clock_that_was_set_is_known_with_the_next_exchange() {
        let mut filter = ClockFilter::default();
        filter.on_exchange(&exchange(0, 1, 1, 0));
        filter.on_exchange(&exchange(3_600_000, 300, 300, 0));
        let set = ClockEstimate { offset_ms: -3_600_000, bound_ms: 301 };
        assert_eq!(filter.estimate(), Some(set));
    }

    #[test]
    fn contradicting_and_overflowing_numbers_are_ignored() {
        let mut filter = ClockFilter::default();
        filter.on_exchange(&exchange(0, 5, -10, 0));
        filter.on_exchange(&exchange(0, 5, 5, -1));
        filter.on_exchange(&TimeExchange {
            server_sent_ms: i64::MIN,
            agent_received_ms: i64::MAX,
            agent_sent_ms: i64::MAX,
            server_received_ms: i64::MAX,
        });
        assert_eq!(filter.estimate(), None);
    }
}
