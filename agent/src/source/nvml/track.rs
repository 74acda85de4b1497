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

/// The instant at which samples are mapped from the wall clock to the boot clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MappedAt {
    pub(super) boot_ms: i64,
    pub(super) wall_ms: i64,
}

/// Points of the driver's samples on the boot clock, those after `last_ms` only. Samples from the
/// future are left out: their time cannot be placed, so the stretch stays unmeasured.
pub(super) fn points_of(
    samples: &[DriverSample],
    now: MappedAt,
    last_ms: i64,
) -> Vec<(i64, Reading)> {
    let mut last_ms = last_ms;
    let mut points = Vec::with_capacity(samples.len());
    for sample in samples {
        let wall_ms = i64::try_from(sample.at_us / 1_000).unwrap_or(i64::MAX);
        let at_ms = now.boot_ms.saturating_sub(now.wall_ms.saturating_sub(wall_ms));
        if at_ms <= last_ms || at_ms > now.boot_ms.saturating_add(FUTURE_MS) {
            continue;
        }
        let at_ms = at_ms.min(now.boot_ms);
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
        let now = MappedAt { boot_ms: 10_000, wall_ms: 1_800_000_000_000 };
        let at = |ms: u64, busy| DriverSample { at_us: (1_800_000_000_000 - ms) * 1_000, busy };
        let samples = [at(500, Some(1)), at(300, Some(2)), at(300, Some(3)), at(100, None)];
        assert_eq!(
            points_of(&samples, now, 9_500),
            [(9_700, Reading::Number(2)), (9_900, Reading::Error)]
        );
    }

    #[test]
    fn samples_from_the_future_are_not_placed() {
        let now = MappedAt { boot_ms: 10_000, wall_ms: 1_800_000_000_000 };
        let ahead =
            |ms: u64| DriverSample { at_us: (1_800_000_000_000 + ms) * 1_000, busy: Some(100) };
        assert_eq!(points_of(&[ahead(20)], now, 0), [(10_000, Reading::Number(100))]);
        assert_eq!(points_of(&[ahead(3_600_000), ahead(u64::MAX / 4_000)], now, 0), []);
    }
}
