//! Nodes that are slower than their peers, and GPUs that are slower than they were.
//!
//! Both look at the SM clock under full load alone, so that a node without work is never slow.

use std::collections::{BTreeMap, VecDeque};

use crate::id::NodeId;
use crate::metering::{HourProfile, Ppm};
use crate::sample::Metric;
use crate::time::Hour;

use super::interruption::median;

/// Busy share from which on a minute is under full load.
const LOAD_PCT: i64 = 95;
/// Share of the peers' median below which a node is slow.
const SLOW_PCT: i64 = 95;
/// Fewest peers that say anything.
const PEERS: usize = 4;
/// Slow hours, and of how many.
const SLOW_HOURS: usize = 3;
const OF_HOURS: i64 = 6;
/// Fewest hours of an own past that something is compared with.
const PAST_HOURS: usize = 24;
/// How far that past reaches back, in hours.
const PAST_REACH: i64 = 30 * 24;

/// Clocks of the nodes of one lease and SKU in one hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CohortHour {
    /// The hour.
    pub hour: Hour,
    /// The median SM clock under load of each node that had any, in MHz.
    pub clocks_mhz: Vec<(NodeId, i64)>,
}

/// A node that was slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Straggler {
    /// Which.
    pub node: NodeId,
    /// The hour in which it had been slow in three of six.
    pub found_at: Hour,
    /// Its clock in that hour, and the median of its peers, in MHz.
    pub clock_mhz: i64,
    /// The peers' median.
    pub peers_mhz: i64,
}

/// The median SM clock of minutes under full load, over all GPUs of a node; `None` without any.
#[must_use]
pub fn clock_under_load(profiles: &[&HourProfile]) -> Option<i64> {
    let clocks = profiles.iter().flat_map(|profile| {
        let cells = profile.metrics.iter().find(|(metric, _)| *metric == Metric::SmClock);
        let cells = cells.map(|(_, cells)| cells.as_slice()).unwrap_or_default();
        profile.utilization.iter().zip(cells).filter_map(|((busy, ms), cell)| {
            (*ms > 0 && *busy >= ms * LOAD_PCT).then_some(cell.as_ref()?.mean)
        })
    });
    median(clocks.collect())
}

/// Nodes below 0.95 of their peers' median in at least three of six hours, each when it was first
/// found. `hours` is in order; an hour that is missing counts as one that was not slow.
#[must_use]
pub fn stragglers(hours: &[CohortHour]) -> Vec<Straggler> {
    let mut slow: BTreeMap<NodeId, VecDeque<Hour>> = BTreeMap::new();
    let mut found: Vec<Straggler> = Vec::new();
    for cohort in hours {
        for (index, (node, clock)) in cohort.clocks_mhz.iter().enumerate() {
            let Some(peers) = peers_median(&cohort.clocks_mhz, index) else { continue };
            if clock.saturating_mul(100) >= peers.saturating_mul(SLOW_PCT) {
                continue;
            }
            let own = slow.entry(*node).or_default();
            own.push_back(cohort.hour);
            while own.front().is_some_and(|first| first.0 <= cohort.hour.0 - OF_HOURS) {
                own.pop_front();
            }
            if own.len() >= SLOW_HOURS && !found.iter().any(|known| known.node == *node) {
                let found_at = cohort.hour;
                let (clock_mhz, peers_mhz) = (*clock, peers);
                found.push(Straggler { node: *node, found_at, clock_mhz, peers_mhz });
            }
        }
    }
    found
}

fn peers_median(clocks: &[(NodeId, i64)], own: usize) -> Option<i64> {
    let others = clocks.iter().enumerate().filter(|(index, _)| *index != own);
    let peers: Vec<i64> = others.map(|(_, (_, clock))| *clock).collect();
    if peers.len() < PEERS { None } else { median(peers) }
}

/// An hour's clock under load over the median of the GPU's own 30 days before it; `None` with less
/// than 24 hours of past. `past` is of the same GPU; later hours do not count.
#[must_use]
pub fn clock_drift(past: &[(Hour, i64)], hour: Hour, clock_mhz: i64) -> Option<Ppm> {
    let reach = hour.0 - PAST_REACH..hour.0;
    let before = past.iter().filter(|(at, _)| reach.contains(&at.0));
    let clocks: Vec<i64> = before.map(|(_, clock)| *clock).collect();
    if clocks.len() < PAST_HOURS {
        return None;
    }
    Ppm::of(i128::from(clock_mhz), i128::from(median(clocks)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(n: u8) -> NodeId {
        NodeId([n; 16])
    }

    /// Five nodes; the first one's clock by hour.
    fn hours(first: &[i64]) -> Vec<CohortHour> {
        let hour = |(at, clock): (i64, &i64)| CohortHour {
            hour: Hour(at),
            clocks_mhz: [(1, *clock), (2, 1_980), (3, 1_965), (4, 1_980), (5, 1_950)]
                .map(|(n, clock)| (node(n), clock))
                .into(),
        };
        (100..).zip(first).map(hour).collect()
    }

    fn found(first: &[i64]) -> Vec<(NodeId, i64)> {
        stragglers(&hours(first)).into_iter().map(|s| (s.node, s.found_at.0)).collect()
    }

    #[test]
    fn three_slow_hours_of_six_make_a_straggler() {
        // The peers' median is 1,972 (half to even): slow is below 1,873.4.
        assert_eq!(found(&[1_870, 1_980, 1_870, 1_980, 1_980, 1_870]), [(node(1), 105)]);
        assert_eq!(found(&[1_870, 1_980, 1_980, 1_870, 1_980, 1_980, 1_870]), []);
        assert_eq!(found(&[1_874, 1_874, 1_874, 1_874]), []);
    }

    #[test]
    fn too_few_peers_say_nothing() {
        let mut few = hours(&[1_000; 6]);
        for hour in &mut few {
            hour.clocks_mhz.pop();
        }
        assert_eq!(stragglers(&few), []);
    }

    #[test]
    fn a_clock_is_compared_with_its_own_past() {
        let past: Vec<_> =
            (0..800).map(|at| (Hour(at), if at < 80 { 900 } else { 1_980 })).collect();
        // The 720 hours before hour 800 have the median 1,980; what comes later does not count.
        assert_eq!(clock_drift(&past, Hour(800), 1_881), Some(Ppm(950_000)));
        assert_eq!(clock_drift(&past, Hour(70), 900), Some(Ppm(1_000_000)));
        assert_eq!(clock_drift(&past, Hour(20), 900), None);
    }

    #[test]
    fn a_clock_without_load_is_none() {
        let mut profile = HourProfile::empty();
        let cell = |mhz| Some(crate::metering::ProfileCell { min: mhz, mean: mhz, max: mhz });
        let mut cells = vec![cell(345); 60];
        profile.metrics = vec![(Metric::SmClock, cells.clone())];
        assert_eq!(clock_under_load(&[&profile]), None);
        profile.utilization[7] = (96 * 60_000, 60_000);
        cells[7] = cell(1_800);
        profile.metrics = vec![(Metric::SmClock, cells)];
        assert_eq!(clock_under_load(&[&profile, &HourProfile::empty()]), Some(1_800));
    }
}
