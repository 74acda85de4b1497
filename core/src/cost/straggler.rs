//! GPUs that are slower than their peers, and GPUs that are slower than they were.
//!
//! Both look at the SM clock under full load alone, so that a GPU without work is never slow. What
//! could not be compared is counted, so that "none" is only said of what was looked at.

use std::collections::{BTreeMap, VecDeque};

use crate::id::{NodeId, SlotNo};
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

/// A GPU by its place.
pub type GpuPlace = (NodeId, SlotNo);

/// Clocks of the GPUs of one lease and model in one hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CohortHour {
    /// The hour.
    pub hour: Hour,
    /// The median SM clock under load of each GPU that had any, in MHz.
    pub clocks_mhz: Vec<(GpuPlace, i64)>,
}

/// A GPU that was slow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Straggler {
    /// Which.
    pub gpu: GpuPlace,
    /// The hour in which it had been slow in three of six.
    pub found_at: Hour,
    /// Its clock in that hour, in MHz.
    pub clock_mhz: i64,
    /// The median of its peers then.
    pub peers_mhz: i64,
    /// Hours in which it was slow, all together.
    pub slow_hours: i64,
    /// Hours in which it could be compared.
    pub compared_hours: i64,
}

/// Who was slow, and how much was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Slowness {
    /// In the order in which they were found.
    pub stragglers: Vec<Straggler>,
    /// GPU-hours under load with enough peers. Of 0 nothing can be said.
    pub compared_hours: i64,
}

/// A GPU's clock beside its own past.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Drift {
    /// The hour.
    pub hour: Hour,
    /// Its clock under load in it, in MHz.
    pub clock_mhz: i64,
    /// The median of the 30 days before.
    pub past_mhz: i64,
    /// Hours under load in those days.
    pub past_hours: i64,
    /// One over the other.
    pub ratio: Ppm,
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

/// GPUs below 0.95 of their peers' median in at least three of six hours, each when it was first
/// found. `hours` is in order; an hour that is missing counts as one that was not slow.
#[must_use]
pub fn stragglers(hours: &[CohortHour]) -> Slowness {
    let mut tracks: BTreeMap<GpuPlace, Track> = BTreeMap::new();
    let mut slowness = Slowness::default();
    for cohort in hours {
        let mut sorted: Vec<i64> = cohort.clocks_mhz.iter().map(|(_, clock)| *clock).collect();
        sorted.sort_unstable();
        for (gpu, clock) in &cohort.clocks_mhz {
            let Some(peers) = peers_median(&sorted, *clock) else { continue };
            slowness.compared_hours += 1;
            let track = tracks.entry(*gpu).or_default();
            track.compared_hours += 1;
            if clock.saturating_mul(100) >= peers.saturating_mul(SLOW_PCT) {
                continue;
            }
            if track.is_found_by(cohort.hour) {
                slowness.stragglers.push(Straggler {
                    gpu: *gpu,
                    found_at: cohort.hour,
                    clock_mhz: *clock,
                    peers_mhz: peers,
                    slow_hours: 0,
                    compared_hours: 0,
                });
            }
        }
    }
    for straggler in &mut slowness.stragglers {
        if let Some(track) = tracks.get(&straggler.gpu) {
            straggler.slow_hours = track.slow_hours;
            straggler.compared_hours = track.compared_hours;
        }
    }
    slowness
}

/// What is known of a GPU so far.
#[derive(Default)]
struct Track {
    recent: VecDeque<Hour>,
    slow_hours: i64,
    compared_hours: i64,
    is_found: bool,
}

impl Track {
    /// Counts a slow hour; whether it is the one that shows a straggler.
    fn is_found_by(&mut self, hour: Hour) -> bool {
        self.slow_hours += 1;
        self.recent.push_back(hour);
        while self.recent.front().is_some_and(|first| first.0 <= hour.0 - OF_HOURS) {
            self.recent.pop_front();
        }
        let is_first = !self.is_found && self.recent.len() >= SLOW_HOURS;
        self.is_found |= is_first;
        is_first
    }
}

/// The median of all but one of them.
fn peers_median(sorted: &[i64], own: i64) -> Option<i64> {
    let index = sorted.binary_search(&own).ok()?;
    let mut peers = sorted.to_vec();
    peers.remove(index);
    if peers.len() < PEERS { None } else { median(peers) }
}

/// The latest hour's clock under load beside the median of the GPU's own 30 days before it. `clocks`
/// are of the same GPU, in order.
///
/// # Errors
/// With less than 24 hours of past: how many there are.
pub fn clock_drift(clocks: &[(Hour, i64)]) -> Result<Drift, i64> {
    let Some((last, before)) = clocks.split_last() else { return Err(0) };
    let (hour, clock_mhz) = *last;
    let reach = hour.0 - PAST_REACH..hour.0;
    let before = before.iter().filter(|(at, _)| reach.contains(&at.0));
    let past: Vec<i64> = before.map(|(_, clock)| *clock).collect();
    let past_hours = i64::try_from(past.len()).unwrap_or(i64::MAX);
    if past.len() < PAST_HOURS {
        return Err(past_hours);
    }
    let past_mhz = median(past).unwrap_or_default();
    let ratio = Ppm::of(i128::from(clock_mhz), i128::from(past_mhz)).ok_or(past_hours)?;
    Ok(Drift { hour, clock_mhz, past_mhz, past_hours, ratio })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(n: u8) -> GpuPlace {
        (NodeId([n / 4; 16]), SlotNo(u16::from(n % 4)))
    }

    /// Five GPUs; the first one's clock by hour.
    fn hours(first: &[i64]) -> Vec<CohortHour> {
        let hour = |(at, clock): (i64, &i64)| CohortHour {
            hour: Hour(at),
            clocks_mhz: [(1, *clock), (2, 1_980), (3, 1_965), (4, 1_980), (5, 1_950)]
                .map(|(n, clock)| (gpu(n), clock))
                .into(),
        };
        (100..).zip(first).map(hour).collect()
    }

    fn found(first: &[i64]) -> Vec<(GpuPlace, i64, i64)> {
        let found = stragglers(&hours(first)).stragglers;
        found.into_iter().map(|s| (s.gpu, s.found_at.0, s.slow_hours)).collect()
    }

    #[test]
    fn three_slow_hours_of_six_make_a_straggler() {
        // The peers' median is 1,972 (half to even): slow is below 1,873.4.
        assert_eq!(found(&[1_870, 1_980, 1_870, 1_980, 1_980, 1_870, 1_870]), [(gpu(1), 105, 4)]);
        assert_eq!(found(&[1_870, 1_980, 1_980, 1_870, 1_980, 1_980, 1_870]), []);
        assert_eq!(found(&[1_874, 1_874, 1_874, 1_874]), []);
        assert_eq!(stragglers(&hours(&[1_870; 4])).compared_hours, 20);
    }

    #[test]
    fn too_few_peers_say_nothing_and_that_is_said() {
        let mut few = hours(&[1_000; 6]);
        for hour in &mut few {
            hour.clocks_mhz.pop();
        }
        assert_eq!(stragglers(&few), Slowness::default());
    }

    #[test]
    fn a_clock_is_compared_with_its_own_past() {
        let past = |hours: i64, now: i64| {
            let clock = |at| if at < 80 { 900 } else { 1_980 };
            let mut clocks: Vec<_> = (0..hours).map(|at| (Hour(at), clock(at))).collect();
            clocks.push((Hour(hours), now));
            clock_drift(&clocks)
        };
        let drift = past(800, 1_881).unwrap();
        assert_eq!((drift.past_mhz, drift.past_hours, drift.ratio), (1_980, 720, Ppm(950_000)));
        assert_eq!(past(70, 900).unwrap().ratio, Ppm(1_000_000));
        assert_eq!(past(20, 900), Err(20));
        assert_eq!(clock_drift(&[]), Err(0));
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
