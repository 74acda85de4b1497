//! How long a provider takes: from a ticket's opening to the first answer, to the repair, to other
//! hardware.
//!
//! What is still waited for counts: leaving it out would make whoever never answers look fast. So a
//! median or a 90th percentile is a bound where what waits decides it. Not here: whose fault it was.

use crate::time::Timestamp;

/// Least number of tickets of which a median is said; below it only single times.
pub const TICKETS_MIN: usize = 5;

/// How long something took of some tickets, or has taken so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Times {
    /// What is over, in milliseconds; in any order.
    pub done_ms: Vec<i64>,
    /// What is waited for, so far.
    pub waiting_ms: Vec<i64>,
}

/// A percentile of times of which some still run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeBound {
    /// It is no less than this.
    pub at_least_ms: i64,
    /// It is no more than this; `None`: what still waits decides it.
    pub at_most_ms: Option<i64>,
}

/// What can be said of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Summary {
    /// Too few: the times themselves, sorted, those that are over first.
    Raw(Times),
    /// Enough.
    Percentiles {
        /// The median.
        median: TimeBound,
        /// The 90th percentile.
        p90: TimeBound,
    },
}

/// Whether something that was promised within a time came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Promise {
    /// In time.
    Kept,
    /// Late, or not there though the time is over.
    Missed,
    /// Not there yet, and the time runs.
    Running,
}

impl Times {
    /// Adds one: from `start` to `end`, or up to `now`. What would end before it began is left out.
    pub fn add(&mut self, start: Timestamp, end: Option<Timestamp>, now: Timestamp) {
        let ms = end.unwrap_or(now).since(start);
        if ms < 0 {
            return;
        }
        if end.is_some() { self.done_ms.push(ms) } else { self.waiting_ms.push(ms) }
    }

    /// How many there are, those that wait among them.
    #[must_use]
    pub fn count(&self) -> usize {
        self.done_ms.len() + self.waiting_ms.len()
    }

    /// What can be said of them; `None` of none.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        if self.count() == 0 {
            return None;
        }
        match (self.bound(500), self.bound(900)) {
            (Some(median), Some(p90)) if self.count() >= TICKETS_MIN => {
                Some(Summary::Percentiles { median, p90 })
            }
            _ => {
                let mut raw = self.clone();
                raw.done_ms.sort_unstable();
                raw.waiting_ms.sort_unstable();
                Some(Summary::Raw(raw))
            }
        }
    }

    /// A percentile by nearest rank, in thousandths; `None` of nothing.
    #[must_use]
    pub fn bound(&self, per_mille: usize) -> Option<TimeBound> {
        let rank = (self.count() * per_mille.clamp(1, 1_000)).div_ceil(1_000);
        let index = rank.checked_sub(1)?;
        let mut done = self.done_ms.clone();
        done.sort_unstable();
        let mut all: Vec<i64> = done.iter().chain(&self.waiting_ms).copied().collect();
        all.sort_unstable();
        // At worst, what waits takes longer than everything.
        Some(TimeBound {
            at_least_ms: all.get(index).copied()?,
            at_most_ms: done.get(index).copied(),
        })
    }
}

/// Whether what was asked at `start` came within `within_ms`.
#[must_use]
pub fn promise(
    start: Timestamp,
    end: Option<Timestamp>,
    (within_ms, now): (i64, Timestamp),
) -> Promise {
    match end {
        Some(end) if end.since(start) <= within_ms => Promise::Kept,
        None if now.since(start) <= within_ms => Promise::Running,
        _ => Promise::Missed,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn times(done: &[i64], waiting: &[i64]) -> Times {
        Times { done_ms: done.to_vec(), waiting_ms: waiting.to_vec() }
    }

    #[test]
    fn what_waits_counts() {
        let five = times(&[5, 1, 3, 2, 4], &[]);
        let exact = |ms| TimeBound { at_least_ms: ms, at_most_ms: Some(ms) };
        let both = Summary::Percentiles { median: exact(3), p90: exact(5) };
        assert_eq!(five.summary(), Some(both));
        // Four that never came: the median is at least what is known, and nobody knows its end.
        let bound = times(&[1, 2, 3], &[10, 20, 30, 40]).bound(500).unwrap();
        assert_eq!(bound, TimeBound { at_least_ms: 10, at_most_ms: None });
        let bound = times(&[1, 2, 30], &[10, 20]).bound(500).unwrap();
        assert_eq!(bound, TimeBound { at_least_ms: 10, at_most_ms: Some(30) });
    }

    #[test]
    fn few_are_shown_as_they_are_and_none_as_nothing() {
        assert_eq!(times(&[], &[]).summary(), None);
        let raw = times(&[9, 4], &[7, 1]).summary();
        assert_eq!(raw, Some(Summary::Raw(times(&[4, 9], &[1, 7]))));
    }

    #[test]
    fn a_promise_runs_until_its_time_is_over() {
        let at = Timestamp;
        let kept = |end: Option<i64>, now| promise(at(0), end.map(at), (10, at(now)));
        assert_eq!(kept(Some(10), 50), Promise::Kept);
        assert_eq!(kept(Some(11), 50), Promise::Missed);
        assert_eq!((kept(None, 10), kept(None, 11)), (Promise::Running, Promise::Missed));
    }

    proptest! {
        /// Whatever happens to what waits, each percentile ends up within its bound; order does not
        /// matter.
        #[test]
        fn a_bound_holds_whatever_comes(
            done in proptest::collection::vec(0_i64..1_000, 0..30),
            waiting in proptest::collection::vec((0_i64..1_000, 0_i64..1_000), 0..30),
            per_mille in 1_usize..=1_000,
        ) {
            let now = times(&done, &waiting.iter().map(|(so_far, _)| *so_far).collect::<Vec<_>>());
            let mut end = done.clone();
            end.extend(waiting.iter().map(|(so_far, more)| so_far + more));
            end.reverse();
            let Some(bound) = now.bound(per_mille) else {
                prop_assert_eq!(now.count(), 0);
                return Ok(());
            };
            let then = times(&end, &[]).bound(per_mille).unwrap();
            prop_assert_eq!(then.at_most_ms, Some(then.at_least_ms));
            prop_assert!(bound.at_least_ms <= then.at_least_ms);
            prop_assert!(bound.at_most_ms.is_none_or(|most| then.at_least_ms <= most));
        }
    }
}
