//! Axes: round numbers, and clock times of a zone.

use leasewatch_core::time::{DAY_MS, HOUR_MS, Period, Timestamp, Zone};

/// A tick of a time axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimeTick {
    /// Where.
    pub at: Timestamp,
    /// The local clock (`06:00`), or the local date (`08-02`) at midnight.
    pub label: String,
}

/// Round values that cover `[low, high]`: multiples of 1, 2 or 5 x 10^n, `wanted` intervals or
/// somewhat fewer. The first is at or below `low`, the last at or above `high`.
#[must_use]
pub fn round_ticks(low: i64, high: i64, wanted: i64) -> Vec<i64> {
    let (low, high) = (i128::from(low), i128::from(high.max(low)));
    let span = (high - low).max(1);
    let mut step = 1_i128;
    let mut factors = [2, 5, 10].into_iter().cycle();
    let mut decade = 1_i128;
    while span > step * i128::from(wanted.max(1)) {
        let factor = factors.next().unwrap_or(10);
        step = decade * factor;
        if factor == 10 {
            decade = step;
        }
    }
    let first = low.div_euclid(step);
    let last = -(-high).div_euclid(step);
    let last = if last == first { first + 1 } else { last };
    (first..=last).filter_map(|n| i64::try_from(n * step).ok()).collect()
}

/// Ticks at round local times inside `period`, at most about `wanted`.
#[must_use]
pub fn time_ticks(period: Period, zone: Zone, wanted: i64) -> Vec<TimeTick> {
    const STEPS_MS: [i64; 12] = [
        60_000,
        300_000,
        900_000,
        1_800_000,
        HOUR_MS,
        3 * HOUR_MS,
        6 * HOUR_MS,
        12 * HOUR_MS,
        DAY_MS,
        2 * DAY_MS,
        7 * DAY_MS,
        28 * DAY_MS,
    ];
    let enough = |step: &&i64| period.ms() / **step <= wanted.max(1);
    let step = STEPS_MS.iter().find(enough).copied().unwrap_or(364 * DAY_MS);
    let Some(mut local_ms) = local_ms(period.start, zone) else { return Vec::new() };
    local_ms = local_ms.div_euclid(step) * step;
    let mut ticks: Vec<TimeTick> = Vec::new();
    while let Some(at) = zone.instant_of_local_ms(local_ms).filter(|at| *at < period.end) {
        // A clock reading that does not exist resolves to an instant that is there already.
        if period.contains(at) && ticks.last().is_none_or(|tick| tick.at < at) {
            ticks.push(TimeTick { at, label: label(at, zone) });
        }
        local_ms += step;
    }
    ticks
}

fn local_ms(at: Timestamp, zone: Zone) -> Option<i64> {
    Some(at.0 + i64::from(zone.local(at)?.offset_s) * 1_000)
}

fn label(at: Timestamp, zone: Zone) -> String {
    match zone.local(at) {
        Some(local) if local.hour == 0 && local.minute == 0 => {
            format!("{:02}-{:02}", local.month, local.day)
        }
        Some(local) => format!("{:02}:{:02}", local.hour, local.minute),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn instant(text: &str) -> Timestamp {
        Timestamp::parse_iso(text).unwrap()
    }

    #[test]
    fn numbers_are_round() {
        assert_eq!(round_ticks(0, 100, 5), [0, 20, 40, 60, 80, 100]);
        assert_eq!(round_ticks(0, 700, 5), [0, 200, 400, 600, 800]);
        assert_eq!(round_ticks(-3, 12, 4), [-5, 0, 5, 10, 15]);
        assert_eq!(round_ticks(7, 7, 4), [7, 8]);
    }

    #[test]
    fn times_are_round_in_their_zone() {
        let day = Period::new(instant("2026-08-01T03:20:00Z"), instant("2026-08-02T03:20:00Z"));
        let labels = |zone: &str| -> Vec<String> {
            let zone = Zone::parse(zone).unwrap();
            time_ticks(day, zone, 4).into_iter().map(|tick| tick.label).collect()
        };
        assert_eq!(labels("UTC"), ["06:00", "12:00", "18:00", "08-02"]);
        assert_eq!(labels("Asia/Shanghai"), ["12:00", "18:00", "08-02", "06:00"]);
        assert_eq!(labels("Asia/Kathmandu"), ["12:00", "18:00", "08-02", "06:00"]);
    }

    #[test]
    fn a_clock_change_neither_repeats_nor_loses_a_tick() {
        let pacific = Zone::parse("America/Los_Angeles").unwrap();
        for date in ["2026-03-08", "2026-11-01"] {
            let day = pacific.day(instant(&format!("{date}T20:00:00Z"))).unwrap();
            let ticks = time_ticks(day, pacific, 8);
            assert!(ticks.windows(2).all(|pair| pair[0].at < pair[1].at));
            assert_eq!(ticks.len(), 8, "{date}: {ticks:?}");
        }
    }

    proptest! {
        #[test]
        fn ticks_cover_the_range(low in -1_000_000_i64..1_000_000, span in 0_i64..1_000_000_000, wanted in 1_i64..10) {
            let ticks = round_ticks(low, low + span, wanted);
            prop_assert!(ticks[0] <= low && ticks[ticks.len() - 1] >= low + span);
            prop_assert!(ticks.len() >= 2 && i64::try_from(ticks.len()).unwrap() <= wanted + 2);
        }
    }
}
