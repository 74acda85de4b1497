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

/// The same for an amount in kibi- or mebibytes: round in the unit that it is shown in, so powers
/// of two below four of a unit, and 1, 2 or 5 x 10^n units above.
#[must_use]
pub fn binary_ticks(low: i64, high: i64, wanted: i64) -> Vec<i64> {
    let wanted = wanted.max(1);
    let span = high.saturating_sub(low).max(1);
    let mut unit = 1_i64;
    while span / wanted >= unit.saturating_mul(1_024) {
        unit = unit.saturating_mul(1_024);
    }
    let up = |value: i64, step: i64| value.div_euclid(step) + i64::from(value.rem_euclid(step) > 0);
    if span / wanted < unit.saturating_mul(256) || span < 4 {
        let ticks = round_ticks(low.div_euclid(unit), up(high, unit), wanted);
        return ticks.into_iter().map(|tick| tick.saturating_mul(unit)).collect();
    }
    // Between a quarter of the next unit and one of it.
    let mut step = unit.saturating_mul(256);
    while span > step.saturating_mul(wanted) {
        step = step.saturating_mul(2);
    }
    let (first, last) = (low.div_euclid(step), up(high, step));
    (first..=last.max(first + 1)).map(|n| n.saturating_mul(step)).collect()
}

/// Ticks at round local times inside `period`, at most about `wanted`: from seconds to years.
#[must_use]
pub fn time_ticks(period: Period, zone: Zone, wanted: i64) -> Vec<TimeTick> {
    const STEPS_MS: [i64; 22] = [
        1_000,
        2_000,
        5_000,
        10_000,
        15_000,
        30_000,
        60_000,
        120_000,
        300_000,
        600_000,
        900_000,
        1_800_000,
        HOUR_MS,
        2 * HOUR_MS,
        3 * HOUR_MS,
        6 * HOUR_MS,
        12 * HOUR_MS,
        DAY_MS,
        2 * DAY_MS,
        7 * DAY_MS,
        14 * DAY_MS,
        28 * DAY_MS,
    ];
    let enough = |step: &i64| period.ms() / *step <= wanted.max(1);
    match STEPS_MS.into_iter().find(enough) {
        Some(step) if step < 28 * DAY_MS => even_ticks(period, zone, step),
        _ => month_ticks(period, zone, wanted),
    }
}

fn even_ticks(period: Period, zone: Zone, step: i64) -> Vec<TimeTick> {
    let Some(mut local_ms) = local_ms(period.start, zone) else { return Vec::new() };
    // Weeks begin on Mondays; 1970 began on a Thursday.
    let monday_ms = if step % (7 * DAY_MS) == 0 { 4 * DAY_MS } else { 0 };
    local_ms = (local_ms - monday_ms).div_euclid(step) * step + monday_ms;
    let mut ticks: Vec<TimeTick> = Vec::new();
    while let Some(at) = zone.instant_of_local_ms(local_ms).filter(|at| *at < period.end) {
        // A clock reading that does not exist resolves to an instant that is there already.
        if period.contains(at) && ticks.last().is_none_or(|tick| tick.at < at) {
            ticks.push(TimeTick { at, label: label(at, zone, step) });
        }
        local_ms += step;
    }
    ticks
}

/// Ticks at the beginnings of months, each so many that they divide a year.
fn month_ticks(period: Period, zone: Zone, wanted: i64) -> Vec<TimeTick> {
    let months = period.ms() / (30 * DAY_MS);
    let step = [1, 2, 3, 6].into_iter().find(|step| months / i64::from(*step) <= wanted.max(1));
    let step = step.unwrap_or(12);
    let Some(local) = zone.local(period.start) else { return Vec::new() };
    let (mut year, mut month) = (local.year, 1_u32);
    let mut ticks = Vec::new();
    while let Some(start) = zone.month(year, month).map(|month| month.start) {
        if start >= period.end {
            break;
        }
        if start >= period.start {
            ticks.push(TimeTick { at: start, label: format!("{year:04}-{month:02}") });
        }
        month += step;
        if month > 12 {
            (year, month) = (year + 1, 1);
        }
    }
    ticks
}

fn local_ms(at: Timestamp, zone: Zone) -> Option<i64> {
    Some(at.0 + i64::from(zone.local(at)?.offset_s) * 1_000)
}

fn label(at: Timestamp, zone: Zone, step: i64) -> String {
    match zone.local(at) {
        Some(local) if local.hour == 0 && local.minute == 0 && local.second == 0 => {
            format!("{:02}-{:02}", local.month, local.day)
        }
        Some(local) if step < 60_000 => {
            format!("{:02}:{:02}:{:02}", local.hour, local.minute, local.second)
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
    fn amounts_are_round_in_the_unit_that_is_shown() {
        const GIB: i64 = 1_024;
        assert_eq!(binary_ticks(0, 81_559, 4), [0, 20 * GIB, 40 * GIB, 60 * GIB, 80 * GIB]);
        assert_eq!(binary_ticks(0, 1_500, 4), [0, 512, 1_024, 1_536]);
        assert_eq!(binary_ticks(0, 700, 4), [0, 200, 400, 600, 800]);
        assert_eq!(binary_ticks(0, 0, 4), [0, 1]);
    }

    #[test]
    fn times_from_seconds_to_years() {
        let labels = |from: &str, to: &str, wanted| -> Vec<String> {
            let period = Period::new(instant(from), instant(to));
            time_ticks(period, Zone::UTC, wanted).into_iter().map(|tick| tick.label).collect()
        };
        let seconds = labels("2026-08-01T03:20:52Z", "2026-08-01T03:21:20Z", 6);
        assert_eq!(seconds, ["03:20:55", "03:21:00", "03:21:05", "03:21:10", "03:21:15"]);
        let months = labels("2026-03-05T00:00:00Z", "2026-08-01T03:21:20Z", 6);
        assert_eq!(months, ["2026-04", "2026-05", "2026-06", "2026-07", "2026-08"]);
        let weeks = labels("2026-07-01T00:00:00Z", "2026-08-01T03:21:20Z", 6);
        assert_eq!(weeks, ["07-06", "07-13", "07-20", "07-27"]);
        let years = labels("2025-03-05T00:00:00Z", "2027-03-01T00:00:00Z", 4);
        assert_eq!(years, ["2025-07", "2026-01", "2026-07", "2027-01"]);
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

        #[test]
        fn binary_ticks_cover_the_range(high in 0_i64..40_000_000_000, wanted in 2_i64..8) {
            let ticks = binary_ticks(0, high, wanted);
            prop_assert!(ticks[0] <= 0 && ticks[ticks.len() - 1] >= high);
            prop_assert!(ticks.len() >= 2 && i64::try_from(ticks.len()).unwrap() <= wanted + 3);
            prop_assert!(ticks.windows(2).all(|pair| pair[0] < pair[1]));
        }

        #[test]
        fn times_lie_inside_and_rise(start in 0_i64..4_000_000_000_000, ms in 5_000_i64..63_000_000_000, wanted in 2_i64..12) {
            let period = Period::new(Timestamp(start), Timestamp(start + ms));
            let zone = Zone::parse("America/New_York").unwrap();
            let ticks = time_ticks(period, zone, wanted);
            prop_assert!(i64::try_from(ticks.len()).unwrap() <= wanted + 2, "{ticks:?}");
            prop_assert!(ticks.iter().all(|tick| period.contains(tick.at)));
            prop_assert!(ticks.windows(2).all(|pair| pair[0].at < pair[1].at));
        }
    }
}
