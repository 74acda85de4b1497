//! Time as signed 64-bit milliseconds UTC, hours, half-open periods and calendar windows.
//!
//! Durations are differences of boundaries, so sums telescope exactly. There is no clock here:
//! whoever needs "now" is given it. Local calendars come from the IANA database that is compiled
//! in ([`tz_database_version`] is printed wherever a local time is).

mod zone;

use std::fmt;

pub use zone::{LocalInstants, LocalTime, Zone, ZoneError, tz_database_version};

/// Milliseconds in an hour.
pub const HOUR_MS: i64 = 3_600_000;
/// Milliseconds in a day of 24 hours.
pub const DAY_MS: i64 = 24 * HOUR_MS;

/// An instant: milliseconds since 1970-01-01T00:00:00Z, without leap seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The earliest instant that leasewatch accepts anywhere: 2000-01-01T00:00:00Z.
    pub const MIN: Self = Self(946_684_800_000);
    /// The end of the accepted range: 2200-01-01T00:00:00Z.
    pub const MAX: Self = Self(7_258_118_400_000);

    /// `ms` later (or earlier, if negative), clamped to the number range.
    #[must_use]
    pub fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to this instant; negative if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The UTC hour that holds this instant.
    #[must_use]
    pub fn hour(self) -> Hour {
        Hour(self.0.div_euclid(HOUR_MS))
    }

    /// Reads `YYYY-MM-DDThh:mm:ss[.mmm]Z`, the only form leasewatch writes.
    #[must_use]
    pub fn parse_iso(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        let number = |range: std::ops::Range<usize>| -> Option<i64> {
            let digits = text.get(range)?;
            digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
        };
        let shape = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
        if shape.iter().any(|(at, mark)| bytes.get(*at) != Some(mark)) {
            return None;
        }
        let millis = match (bytes.len(), bytes.last()) {
            (20, Some(b'Z')) => 0,
            (24, Some(b'Z')) if bytes[19] == b'.' => number(20..23)?,
            _ => return None,
        };
        let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
        let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let days = days_from_civil(year, month, day)?;
        Some(Self(days * DAY_MS + hour * HOUR_MS + minute * 60_000 + second * 1_000 + millis))
    }
}

impl fmt::Display for Timestamp {
    /// ISO 8601 in UTC with milliseconds: `2026-08-01T03:59:40.361Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.0.div_euclid(DAY_MS));
        let ms = self.0.rem_euclid(DAY_MS);
        write!(
            f,
            "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:03}Z",
            ms / HOUR_MS,
            ms / 60_000 % 60,
            ms / 1_000 % 60,
            ms % 1_000
        )
    }
}

/// A UTC hour: hours since 1970-01-01T00:00:00Z. The unit in which utilization is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hour(pub i64);

impl Hour {
    /// Its first instant.
    #[must_use]
    pub fn start(self) -> Timestamp {
        Timestamp(self.0.saturating_mul(HOUR_MS))
    }

    /// The first instant after it.
    #[must_use]
    pub fn end(self) -> Timestamp {
        self.next().start()
    }

    /// The hour as a half-open period.
    #[must_use]
    pub fn period(self) -> Period {
        Period { start: self.start(), end: self.end() }
    }

    /// The hour after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Hour {
    /// ISO 8601 to the hour: `2026-08-01T03:00:00Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = civil_from_days(self.0.div_euclid(24));
        write!(f, "{year:04}-{month:02}-{day:02}T{:02}:00:00Z", self.0.rem_euclid(24))
    }
}

/// A half-open stretch of time `[start, end)`. Empty when `end <= start`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Period {
    /// The first instant inside.
    pub start: Timestamp,
    /// The first instant after it.
    pub end: Timestamp,
}

impl Period {
    /// `[start, end)`.
    #[must_use]
    pub fn new(start: Timestamp, end: Timestamp) -> Self {
        Self { start, end }
    }

    /// Its length in milliseconds, never negative.
    #[must_use]
    pub fn ms(self) -> i64 {
        self.end.since(self.start).max(0)
    }

    /// True when no instant is inside.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// True when `at` is inside.
    #[must_use]
    pub fn contains(self, at: Timestamp) -> bool {
        self.start <= at && at < self.end
    }

    /// What both have in common; empty when they do not meet.
    #[must_use]
    pub fn intersect(self, other: Self) -> Self {
        let start = self.start.max(other.start);
        Self { start, end: self.end.min(other.end).max(start) }
    }

    /// The UTC hours that this period touches, in order.
    pub fn hours(self) -> impl Iterator<Item = Hour> {
        let first = self.start.hour().0;
        let last = if self.is_empty() { first } else { self.end.plus_ms(-1).hour().0 + 1 };
        (first..last).map(Hour)
    }
}

/// Days since 1970-01-01 of a proleptic Gregorian date, or `None` if there is no such date.
fn days_from_civil(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    // Years begin in March, so that the leap day is the last of its year.
    let shifted = if month <= 2 { year - 1 } else { year };
    let era = shifted.div_euclid(400);
    let year_of_era = shifted.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Year, month and day of a day number since 1970-01-01.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_index = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_index + 2) / 5 + 1;
    let month = if month_index < 10 { month_index + 3 } else { month_index - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn iso_text_of_known_instants() {
        assert_eq!(Timestamp(0).to_string(), "1970-01-01T00:00:00.000Z");
        assert_eq!(Timestamp(951_827_696_789).to_string(), "2000-02-29T12:34:56.789Z");
        assert_eq!(Timestamp(-1).to_string(), "1969-12-31T23:59:59.999Z");
        assert_eq!(Timestamp::MIN.to_string(), "2000-01-01T00:00:00.000Z");
        assert_eq!(Timestamp::MAX.to_string(), "2200-01-01T00:00:00.000Z");
    }

    #[test]
    fn dates_that_do_not_exist_are_refused() {
        for text in [
            "2026-13-01T00:00:00Z",
            "2026-02-29T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01 00:00:00Z",
            "2026-01-01T00:00:00",
            "+026-01-01T00:00:00Z",
        ] {
            assert_eq!(Timestamp::parse_iso(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn iso_text_round_trips(ms in 0_i64..7_258_118_400_000) {
            prop_assert_eq!(Timestamp::parse_iso(&Timestamp(ms).to_string()), Some(Timestamp(ms)));
        }

        #[test]
        fn hours_partition_a_period(start in 0_i64..10_000_000, length in 0_i64..50_000_000) {
            let period = Period::new(Timestamp(start), Timestamp(start + length));
            let sum: i64 = period.hours().map(|hour| hour.period().intersect(period).ms()).sum();
            prop_assert_eq!(sum, length);
        }
    }
}
