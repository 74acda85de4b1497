//! A weekly rule by which an instance runs: `mon-fri 09:00-21:00`, one stretch a line.
//!
//! Times are those of a wall clock in the lease's zone, so a stretch has an hour more or less where
//! the clock is changed within it. A stretch whose end is not behind its start goes into the next
//! day. Not here: what is stored of it, and stretches that did not run as planned.

use std::fmt;
use std::str::FromStr;

use crate::time::{DAY_MS, Period, Timestamp, Zone};

/// Most lines of a rule.
const LINES_MAX: usize = 32;
/// Longest text of a rule, in bytes.
const TEXT_MAX: usize = 1_000;
const MINUTE_MS: i64 = 60_000;
const DAY_MINUTES: i64 = 1_440;
const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

/// When an instance runs in a week.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule(Vec<Stretch>);

/// A line of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Stretch {
    /// From Monday; whether it begins on that day.
    days: [bool; 7],
    /// Minutes of the local day.
    from: i64,
    /// The same, up to 2880: behind midnight it is the next day's.
    to: i64,
}

/// Why a text is no schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleFault {
    /// Nothing in it.
    #[error("must have a line such as mon-fri 09:00-21:00")]
    Empty,
    /// A line that is none.
    #[error("line {0} must be such as mon-fri 09:00-21:00")]
    Line(usize),
    /// Too long.
    #[error("must be at most 32 lines and 1000 characters")]
    TooLong,
    /// It runs day and night: that is no schedule.
    #[error("must have a time at which it is stopped")]
    NeverStops,
}

impl Schedule {
    /// Stretches that touch `window`, each whole, in order and without touching each other. Empty
    /// where the calendar ends.
    #[must_use]
    pub fn stretches(&self, zone: Zone, window: Period) -> Vec<Period> {
        let day_of = |at: Timestamp| {
            let local = zone.local(at)?;
            let text = format!("{:04}-{:02}-{:02}T00:00:00Z", local.year, local.month, local.day);
            Some(Timestamp::parse_iso(&text)?.0.div_euclid(DAY_MS))
        };
        let Some((first, last)) = day_of(window.start).zip(day_of(window.end)) else {
            return Vec::new();
        };
        let mut all = Vec::new();
        // A run of stretches that touch may have begun up to a week before, and end a week later.
        for day in first - 8..=last + 8 {
            // Day 0 was a Thursday.
            let weekday = usize::try_from((day + 3).rem_euclid(7)).unwrap_or_default();
            for stretch in self.0.iter().filter(|stretch| stretch.days[weekday]) {
                let at = |minute: i64| {
                    zone.instant_of_local_ms(day.checked_mul(DAY_MS)? + minute * MINUTE_MS)
                };
                all.extend(at(stretch.from).zip(at(stretch.to)).map(|(a, b)| Period::new(a, b)));
            }
        }
        let mut merged: Vec<Period> = Vec::new();
        all.sort_unstable();
        for part in all.into_iter().filter(|part| !part.is_empty()) {
            match merged.last_mut() {
                Some(before) if before.end >= part.start => {
                    before.end = before.end.max(part.end);
                }
                _ => merged.push(part),
            }
        }
        merged.retain(|part| !part.intersect(window).is_empty());
        merged
    }

    fn stops(&self) -> bool {
        let mut minutes = [false; 7 * 1_440];
        let all = self.0.iter().flat_map(|stretch| {
            let days = (0_i64..).zip(stretch.days).filter(|(_, runs)| *runs);
            days.flat_map(|(day, _)| {
                (stretch.from..stretch.to).map(move |minute| day * DAY_MINUTES + minute)
            })
        });
        for minute in all {
            let place = usize::try_from(minute.rem_euclid(7 * DAY_MINUTES)).unwrap_or_default();
            minutes[place] = true;
        }
        minutes.contains(&false)
    }
}

impl FromStr for Schedule {
    type Err = ScheduleFault;

    /// One stretch a line, or between semicolons: days, then times. Days are `mon`, `mon-fri`,
    /// `sat,sun` or `daily`.
    fn from_str(text: &str) -> Result<Self, ScheduleFault> {
        let lines: Vec<&str> =
            text.split(['\n', ';']).map(str::trim).filter(|line| !line.is_empty()).collect();
        if lines.is_empty() {
            return Err(ScheduleFault::Empty);
        }
        if lines.len() > LINES_MAX || text.len() > TEXT_MAX {
            return Err(ScheduleFault::TooLong);
        }
        let read = |(index, line): (usize, &&str)| {
            stretch(line).ok_or(ScheduleFault::Line(index.saturating_add(1)))
        };
        let schedule = Self(lines.iter().enumerate().map(read).collect::<Result<_, _>>()?);
        if schedule.stops() { Ok(schedule) } else { Err(ScheduleFault::NeverStops) }
    }
}

fn stretch(line: &str) -> Option<Stretch> {
    let (days, times) = line.rsplit_once(char::is_whitespace)?;
    let (from, to) = times.split_once('-')?;
    let (from, to) = (minute(from)?, minute(to)?);
    let to = if to > from { to } else { to + DAY_MINUTES };
    (from < DAY_MINUTES).then_some(Stretch { days: weekdays(days)?, from, to })
}

fn weekdays(text: &str) -> Option<[bool; 7]> {
    let text = text.trim().to_lowercase();
    if text == "daily" {
        return Some([true; 7]);
    }
    let day = |name: &str| DAYS.iter().position(|day| *day == name.trim());
    let mut all = [false; 7];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (day(first)?, day(last)?);
        let mut at = first;
        loop {
            *all.get_mut(at)? = true;
            if at == last {
                break;
            }
            at = (at + 1) % DAYS.len();
        }
    }
    Some(all)
}

/// `09:00` to `24:00`.
fn minute(text: &str) -> Option<i64> {
    let (hour, minute) = text.trim().split_once(':')?;
    let number = |text: &str| {
        let is_two = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_two.then(|| text.parse::<i64>().ok())?
    };
    let at = number(hour)? * 60 + Some(number(minute)?).filter(|minute| *minute < 60)?;
    (at <= DAY_MINUTES).then_some(at)
}

impl fmt::Display for Schedule {
    /// One stretch a line, as it is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, stretch) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            let named = DAYS.iter().zip(stretch.days).filter(|(_, runs)| *runs);
            let days: Vec<&str> = named.map(|(day, _)| *day).collect();
            let time = |minute: i64| format!("{:02}:{:02}", minute / 60, minute % 60);
            let to = if stretch.to > DAY_MINUTES { stretch.to - DAY_MINUTES } else { stretch.to };
            write!(f, "{} {}-{}", days.join(","), time(stretch.from), time(to))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::HOUR_MS;
    use proptest::prelude::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse_iso(text).unwrap()
    }

    fn shown(text: &str, zone: &str, from: &str, to: &str) -> Vec<String> {
        let schedule: Schedule = text.parse().unwrap();
        let window = Period::new(at(from), at(to));
        let stretches = schedule.stretches(Zone::parse(zone).unwrap(), window);
        let one = |period: &Period| format!("{} {}h", period.start, period.ms() / HOUR_MS);
        stretches.iter().map(one).collect()
    }

    #[test]
    fn nights_are_stopped_in_the_zone_of_the_lease() {
        // 2026-10-02 is a Friday.
        assert_eq!(
            shown(
                "mon-fri 09:00-21:00",
                "Asia/Shanghai",
                "2026-10-02T00:00:00Z",
                "2026-10-06T00:00:00Z"
            ),
            ["2026-10-02T01:00:00.000Z 12h", "2026-10-05T01:00:00.000Z 12h"]
        );
        // Over midnight, and a window that begins in the middle of it.
        assert_eq!(
            shown("fri 22:00-06:00", "UTC", "2026-10-03T01:00:00Z", "2026-10-04T00:00:00Z"),
            ["2026-10-02T22:00:00.000Z 8h"]
        );
        // Touching stretches are one.
        assert_eq!(
            shown(
                "sat 00:00-24:00; sun 00:00-12:00",
                "UTC",
                "2026-10-03T00:00:00Z",
                "2026-10-05T00:00:00Z"
            ),
            ["2026-10-03T00:00:00.000Z 36h"]
        );
    }

    #[test]
    fn a_changed_clock_makes_a_night_longer_or_shorter() {
        let night = |from, to| shown("daily 20:00-08:00", "America/Los_Angeles", from, to);
        assert_eq!(
            night("2026-03-08T05:00:00Z", "2026-03-08T06:00:00Z"),
            ["2026-03-08T04:00:00.000Z 11h"]
        );
        assert_eq!(
            night("2026-11-01T05:00:00Z", "2026-11-01T06:00:00Z"),
            ["2026-11-01T03:00:00.000Z 13h"]
        );
        // A clock reading that does not exist is where the clock jumps to.
        assert_eq!(
            shown(
                "sun 02:30-05:00",
                "America/Los_Angeles",
                "2026-03-08T00:00:00Z",
                "2026-03-09T00:00:00Z"
            )
            .len(),
            1
        );
    }

    #[test]
    fn other_texts_are_refused_by_line() {
        let fault = |text: &str| text.parse::<Schedule>().unwrap_err();
        assert_eq!(fault(" \n"), ScheduleFault::Empty);
        assert_eq!(fault("mon 09:00-21:00\nfoo 09:00-21:00"), ScheduleFault::Line(2));
        for text in ["mon", "mon 9:00-21:00", "mon 24:00-25:00", "mon 09:60-10:00", "09:00-10:00"] {
            assert_eq!(fault(text), ScheduleFault::Line(1), "{text}");
        }
        assert_eq!(fault("daily 00:00-24:00"), ScheduleFault::NeverStops);
        assert_eq!(fault("daily 09:00-09:00"), ScheduleFault::NeverStops);
        assert_eq!(fault(&"mon 09:00-10:00;".repeat(33)), ScheduleFault::TooLong);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back_and_a_split_changes_nothing(
            days in 1_u8..127, from in 0_i64..1_440, ms in 60_000_i64..86_000_000, split in 0_i64..20,
        ) {
            let days: Vec<&str> =
                DAYS.iter().enumerate().filter(|(i, _)| days & (1 << i) != 0).map(|(_, d)| *d).collect();
            let to = (from + ms / MINUTE_MS) % DAY_MINUTES;
            let time = |m: i64| format!("{:02}:{:02}", m / 60, m % 60);
            let text = format!("{} {}-{}", days.join(","), time(from), time(to));
            if let Ok(schedule) = text.parse::<Schedule>() {
                prop_assert_eq!(schedule.to_string().parse(), Ok(schedule.clone()));
                let zone = Zone::parse("Europe/Berlin").unwrap();
                let whole = Period::new(at("2026-10-20T00:00:00Z"), at("2026-11-10T00:00:00Z"));
                let middle = whole.start.plus_ms(split * DAY_MS);
                let mut parts = schedule.stretches(zone, Period::new(whole.start, middle));
                parts.extend(schedule.stretches(zone, Period::new(middle, whole.end)));
                parts.dedup();
                prop_assert_eq!(parts, schedule.stretches(zone, whole));
            }
        }
    }
}
