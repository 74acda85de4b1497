//! How often a provider interrupts, with the interval that so few events allow; how long it takes
//! to mend; and when there is too little to rank.

use std::collections::BTreeMap;

use crate::id::NodeId;
use crate::metering::{Grade, divide_half_even};
use crate::time::{DAY_MS, HOUR_MS, Period};

use super::poisson::limits_milli;

/// Interruptions of one node that lie this close are one.
const MERGE_MS: i64 = 15 * 60_000;
/// Least node-hours of a provider that is ranked.
pub const RANKED_NODE_HOURS: i64 = 500;

/// An interruption that the provider answers for: down, or a GPU lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interruption {
    /// Of which node.
    pub node: NodeId,
    /// From when to when.
    pub period: Period,
}

/// Interruptions of a set of nodes over some delivered time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterruptionRate {
    /// How many, after merging.
    pub count: u32,
    /// Delivered node-milliseconds.
    pub node_ms: i64,
    /// Per 1,000 node-days, in thousandths.
    pub rate_milli: i64,
    /// Its 95 % interval, in thousandths.
    pub interval_milli: (i64, i64),
    /// Mean time between them; without any, what it exceeds with 95 % certainty.
    pub between: Between,
    /// Median length; `None` without any.
    pub repair_ms: Option<i64>,
}

/// Mean time between interruptions, in milliseconds of node time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    /// Delivered time over their number.
    Mean(i64),
    /// None was seen: more than a third of delivered time (95 %).
    MoreThan(i64),
}

/// Why a provider is not ranked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unranked {
    /// Node-milliseconds that are missing; 0 when there are enough.
    pub missing_node_ms: i64,
    /// Coverage is below grade C, or nothing was enrolled.
    pub is_thin: bool,
}

/// The rate of `list` over `node_ms` of delivered node time; `None` when nothing was delivered.
#[must_use]
pub fn rate(list: &[Interruption], node_ms: i64) -> Option<InterruptionRate> {
    if node_ms < 1 {
        return None;
    }
    let merged = merged(list);
    let count = u32::try_from(merged.len()).ok()?;
    // Per 1,000 node-days: times 1,000 days over delivered time.
    let scaled = |milli: i64| {
        let rate = i128::from(milli) * 1_000 * i128::from(DAY_MS);
        i64::try_from(divide_half_even(rate, i128::from(node_ms))).unwrap_or(i64::MAX)
    };
    let (low, high) = limits_milli(count);
    let between = match i64::from(count) {
        0 => Between::MoreThan(node_ms / 3),
        n => Between::Mean(node_ms / n),
    };
    Some(InterruptionRate {
        count,
        node_ms,
        rate_milli: scaled(i64::from(count) * 1_000),
        interval_milli: (scaled(low), scaled(high)),
        between,
        repair_ms: median(merged.iter().map(|period| period.ms()).collect()),
    })
}

/// Interruptions of one node that overlap or lie within 15 minutes of each other, as one.
fn merged(list: &[Interruption]) -> Vec<Period> {
    let mut by_node: BTreeMap<NodeId, Vec<Period>> = BTreeMap::new();
    for interruption in list {
        by_node.entry(interruption.node).or_default().push(interruption.period);
    }
    let mut all = Vec::new();
    for mut periods in by_node.into_values() {
        periods.sort_unstable();
        let first = all.len();
        for period in periods {
            match all.get_mut(first..).and_then(|own: &mut [Period]| own.last_mut()) {
                Some(last) if period.start.since(last.end) <= MERGE_MS => {
                    last.end = last.end.max(period.end);
                }
                _ => all.push(period),
            }
        }
    }
    all
}

/// The middle one, or the mean of the two in the middle, rounded half to even.
pub(super) fn median(mut values: Vec<i64>) -> Option<i64> {
    values.sort_unstable();
    let last = values.len().checked_sub(1)?;
    let pair = i128::from(values[last / 2]) + i128::from(values[last.div_ceil(2)]);
    i64::try_from(divide_half_even(pair, 2)).ok()
}

/// Whether there is enough to rank by.
///
/// # Errors
/// [`Unranked`] says what is missing.
pub fn ranked(node_ms: i64, grade: Option<Grade>) -> Result<(), Unranked> {
    let missing_node_ms = (RANKED_NODE_HOURS * HOUR_MS - node_ms).max(0);
    let is_thin = grade.is_none_or(|grade| grade > Grade::C);
    if missing_node_ms == 0 && !is_thin {
        return Ok(());
    }
    Err(Unranked { missing_node_ms, is_thin })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    fn interruption(node: u8, from_min: i64, to_min: i64) -> Interruption {
        let at = |minute| Timestamp(minute * 60_000);
        Interruption { node: NodeId([node; 16]), period: Period::new(at(from_min), at(to_min)) }
    }

    #[test]
    fn the_yardstick_of_llama_3_comes_out() {
        // 419 in 54 days on 16,384 GPUs, eight in a node.
        let list: Vec<_> = (0..419).map(|n| interruption(1, n * 60, n * 60 + 5)).collect();
        let rate = rate(&list, 54 * 2_048 * DAY_MS).unwrap();
        assert_eq!((rate.count, rate.rate_milli), (419, 3_789));
        assert_eq!(rate.interval_milli, (3_434, 4_170));
        assert_eq!(rate.between, Between::Mean(54 * 2_048 * DAY_MS / 419));
    }

    #[test]
    fn close_ones_of_a_node_are_one_and_nodes_stay_apart() {
        let list = [
            interruption(1, 60, 61),
            interruption(1, 0, 10),
            interruption(1, 25, 30), // 15 min after the first one's end
            interruption(2, 12, 14),
            interruption(1, 46, 50), // 16 min later
        ];
        let found = merged(&list);
        let lengths: Vec<_> = found.iter().map(|period| period.ms() / 60_000).collect();
        assert_eq!(lengths, [30, 15, 2]);
        let rate = rate(&list, 100 * DAY_MS).unwrap();
        assert_eq!((rate.count, rate.repair_ms), (3, Some(15 * 60_000)));
        assert_eq!(rate.rate_milli, 30_000);
    }

    #[test]
    fn none_seen_is_a_bound_and_not_a_zero() {
        let rate = rate(&[], 300 * DAY_MS).unwrap();
        assert_eq!((rate.rate_milli, rate.interval_milli), (0, (0, 12_297)));
        assert_eq!(rate.between, Between::MoreThan(100 * DAY_MS));
        assert_eq!(rate.repair_ms, None);
        assert_eq!(super::rate(&[], 0), None);
    }

    #[test]
    fn too_little_is_not_ranked() {
        let hours = |hours: i64| hours * HOUR_MS;
        assert_eq!(ranked(hours(500), Some(Grade::C)), Ok(()));
        let missing = |ms, is_thin| Err(Unranked { missing_node_ms: ms, is_thin });
        assert_eq!(ranked(hours(500) - 1, Some(Grade::A)), missing(1, false));
        assert_eq!(ranked(hours(900), Some(Grade::D)), missing(0, true));
        assert_eq!(ranked(hours(120), None), missing(hours(380), true));
    }

    #[test]
    fn medians() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![5]), Some(5));
        assert_eq!(median(vec![9, 1, 4]), Some(4));
        assert_eq!(median(vec![1, 4]), Some(2));
        assert_eq!(median(vec![3, 4]), Some(4));
    }
}
