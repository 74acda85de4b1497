//! Where the points of a GPU's utilization track come from, and what the driver's own samples say.
//!
//! Pure. One source for each GPU and epoch: it is chosen at the first read and never changed, so
//! that a switch cannot hide or double a stretch of time.

use std::sync::{Arc, OnceLock};

use leasewatch_core::sample::Reading;
use leasewatch_core::segment::TrackSource;

/// The one source of a GPU's track in this epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrackPlan {
    /// Where the points come from.
    pub source: TrackSource,
    /// Its period in milliseconds.
    pub period_ms: u32,
}

impl TrackPlan {
    /// `nvmlDeviceGetUtilizationRates` at each tick.
    #[must_use]
    pub fn poll(cadence_ms: u32) -> Self {
        Self { source: TrackSource::Poll, period_ms: cadence_ms }
    }
}

/// The plan of one GPU, set once by whoever needs it first: the reader with its first answer, or
/// the watchdog for a GPU that hangs before it. It outlives readers.
pub type TrackSlot = Arc<OnceLock<TrackPlan>>;

/// One of the driver's samples: microseconds of the wall clock, percent (`None` for a value that
/// is no number in range).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DriverSample {
    pub(super) at_us: u64,
    pub(super) busy: Option<i64>,
}

/// Samples needed to trust the buffer.
const PROBE_SAMPLES: usize = 8;
/// The newest sample of a buffer that is filled at present is not older than this.
const PROBE_AGE_US: u64 = 2_500_000;
/// Faster sources would overflow a block's track, slower ones are no better than polling.
const PROBE_PERIOD_MS: std::ops::RangeInclusive<u64> = 50..=1_000;
/// A sample may be this far ahead of the clock that is read after it.
const FUTURE_US: u64 = 50_000;
/// The same in milliseconds.
const FUTURE_MS: i64 = 50;

/// Decides whether the driver's buffer can be the track: enough samples, ascending, up to date and
/// at a steady pace. `None` = poll.
pub(super) fn plan_from(samples: &[DriverSample], now_us: u64) -> Option<TrackPlan> {
    if samples.len() < PROBE_SAMPLES || samples.iter().any(|sample| sample.busy.is_none()) {
        return None;
    }
    let newest = samples.last()?.at_us;
    if newest.saturating_sub(now_us) > FUTURE_US || now_us.saturating_sub(newest) > PROBE_AGE_US {
        return None;
    }
    let mut steps = Vec::with_capacity(samples.len());
    for pair in samples.windows(2) {
        steps.push(pair[1].at_us.checked_sub(pair[0].at_us).filter(|step| *step > 0)?);
    }
    steps.sort_unstable();
    let median_ms = (steps.get(steps.len() / 2)? + 500) / 1_000;
    let longest_ms = steps.last()? / 1_000;
    let steady = longest_ms <= median_ms.saturating_mul(3);
    if !PROBE_PERIOD_MS.contains(&median_ms) || !steady {
        return None;
    }
    let period_ms = u32::try_from(median_ms).ok()?;
    Some(TrackPlan { source: TrackSource::DriverSamples, period_ms })
}

/// Boot clock minus wall clock, in microseconds: how a sample's wall time becomes a boot time.
///
/// Two clocks cannot be read at once, so each look differs by some microseconds, which would move
/// samples by a millisecond back and forth. The first look is kept while the clocks stay together
/// within [`DRIFT_US`]; a steady driver then has exactly steady points.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ClockMap {
    boot_minus_wall_us: i64,
    now_boot_ms: i64,
}

/// How far the clocks may drift apart before samples are mapped anew.
const DRIFT_US: i64 = 5_000;

impl ClockMap {
    /// The map at a look at both clocks, given the one before.
    pub(super) fn at(before: Option<Self>, boot_us: i64, wall_us: i64) -> Self {
        let seen = boot_us.saturating_sub(wall_us);
        let kept = before.map(|map| map.boot_minus_wall_us);
        let together = |kept: &i64| seen.saturating_sub(*kept).saturating_abs() <= DRIFT_US;
        Self {
            boot_minus_wall_us: kept.filter(together).unwrap_or(seen),
            now_boot_ms: boot_us.div_euclid(1_000),
        }
    }

    fn boot_ms_of(self, wall_us: u64) -> i64 {
        let wall_us = i64::try_from(wall_us).unwrap_or(i64::MAX);
        wall_us.saturating_add(self.boot_minus_wall_us).div_euclid(1_000)
    }
}

/// Points of the driver's samples on the boot clock, those after `last_ms` only. Samples from the
/// future are left out: their time cannot be placed, so the stretch stays unmeasured.
pub(super) fn points_of(
    samples: &[DriverSample],
    map: ClockMap,
    last_ms: i64,
) -> Vec<(i64, Reading)> {
    let mut last_ms = last_ms;
    let mut points = Vec::with_capacity(samples.len());
    for sample in samples {
        let at_ms = map.boot_ms_of(sample.at_us);
        if at_ms <= last_ms || at_ms > map.now_boot_ms.saturating_add(FUTURE_MS) {
            continue;
        }
        let at_ms = at_ms.min(map.now_boot_ms);
        if at_ms > last_ms {
            points.push((at_ms, sample.busy.map_or(Reading::Error, Reading::Number)));
            last_ms = at_ms;
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(count: u64, step_us: u64, newest_us: u64) -> Vec<DriverSample> {
        (0..count)
            .map(|i| DriverSample { at_us: newest_us - (count - 1 - i) * step_us, busy: Some(40) })
            .collect()
    }

    #[test]
    fn a_steady_fresh_buffer_is_the_track() {
        let now = 1_800_000_000_000_000;
        let plan = plan_from(&buffer(60, 167_000, now - 90_000), now);
        assert_eq!(plan, Some(TrackPlan { source: TrackSource::DriverSamples, period_ms: 167 }));
    }

    #[test]
    fn a_doubtful_buffer_is_not() {
        let now = 1_800_000_000_000_000;
        assert_eq!(plan_from(&[], now), None);
        assert_eq!(plan_from(&buffer(7, 167_000, now), now), None, "too few");
        assert_eq!(plan_from(&buffer(60, 167_000, now - 9_000_000), now), None, "old");
        assert_eq!(plan_from(&buffer(60, 167_000, now + 9_000_000), now), None, "future");
        assert_eq!(plan_from(&buffer(60, 10_000, now), now), None, "too fast");
        assert_eq!(plan_from(&buffer(60, 0, now), now), None, "all at once");
        let mut torn = buffer(60, 167_000, now);
        torn[..30].iter_mut().for_each(|sample| sample.at_us -= 60_000_000);
        assert_eq!(plan_from(&torn, now), None, "a hole");
        torn.swap(3, 40);
        assert_eq!(plan_from(&torn, now), None, "not ascending");
        let mut garbage = buffer(60, 167_000, now);
        garbage[5].busy = None;
        assert_eq!(plan_from(&garbage, now), None, "garbage");
    }

    #[test]
    fn samples_are_placed_on_the_boot_clock_once() {
        let now = ClockMap::at(None, 10_000_000, 1_800_000_000_000_000);
        let at = |ms: u64, busy| DriverSample { at_us: (1_800_000_000_000 - ms) * 1_000, busy };
        let samples = [at(500, Some(1)), at(300, Some(2)), at(300, Some(3)), at(100, None)];
        assert_eq!(
            points_of(&samples, now, 9_500),
            [(9_700, Reading::Number(2)), (9_900, Reading::Error)]
        );
    }

    #[test]
    fn samples_from_the_future_are_not_placed() {
        let now = ClockMap::at(None, 10_000_000, 1_800_000_000_000_000);
        let ahead =
            |ms: u64| DriverSample { at_us: (1_800_000_000_000 + ms) * 1_000, busy: Some(100) };
        assert_eq!(points_of(&[ahead(20)], now, 0), [(10_000, Reading::Number(100))]);
        assert_eq!(points_of(&[ahead(3_600_000), ahead(u64::MAX / 4_000)], now, 0), []);
    }

    #[test]
    fn a_steady_driver_has_steady_points_however_the_looks_differ() {
        let wall = 1_800_000_000_000_000;
        let mut map = None;
        let mut points = Vec::new();
        // Each look is some microseconds off, around the edge of a millisecond.
        for (tick, off_us) in [0, 900, -700, 1_400, -1_300, 300].into_iter().enumerate() {
            let passed = i64::try_from(tick).unwrap() * 200_000;
            let seen = ClockMap::at(map, 10_000_400 + passed + off_us, wall + passed);
            map = Some(seen);
            let at_us = u64::try_from(wall + passed - 50_000).unwrap();
            let last_ms = points.last().map_or(0, |(at, _)| *at);
            points.extend(points_of(&[DriverSample { at_us, busy: Some(7) }], seen, last_ms));
        }
        let steps: Vec<i64> = points.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
        assert_eq!(steps, [200; 5]);
    }

    #[test]
    fn clocks_that_part_are_mapped_anew() {
        let first = ClockMap::at(None, 10_000_000, 1_800_000_000_000_000);
        let slewed = ClockMap::at(Some(first), 20_000_000, 1_800_000_010_000_000 + DRIFT_US);
        assert_eq!(slewed.boot_minus_wall_us, first.boot_minus_wall_us);
        let stepped = ClockMap::at(Some(first), 20_000_000, 1_800_000_010_000_001 + DRIFT_US);
        assert_ne!(stepped.boot_minus_wall_us, first.boot_minus_wall_us);
    }
}
