//! Dates as bills have them, in the zone and the order that a person declared.

use crate::time::{DAY_MS, Period, Timestamp, Zone};

/// In which order a date with slashes, dots or dashes stands. A year that comes first says so
/// itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DateOrder {
    /// 2026-10-31.
    YearFirst,
    /// 31.10.2026.
    DayFirst,
    /// 10/31/2026.
    MonthFirst,
}

impl DateOrder {
    /// Every order.
    pub const ALL: [Self; 3] = [Self::YearFirst, Self::DayFirst, Self::MonthFirst];

    /// Its name in forms.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::YearFirst => "year_first",
            Self::DayFirst => "day_first",
            Self::MonthFirst => "month_first",
        }
    }

    /// The order with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|order| order.name() == name)
    }
}

/// From the first instant of `start` to that of `end`; a day alone is meant as a whole, so an end
/// that is a day includes it.
pub(super) fn period(start: &str, end: &str, zone: Zone, order: DateOrder) -> Option<Period> {
    let (start, end) = (instant(start, zone, order)?, instant(end, zone, order)?);
    let period = Period::new(start.at, end.end()?);
    (!period.is_empty()).then_some(period)
}

/// Whether a text is a day or an instant.
pub(super) fn is_moment(text: &str, zone: Zone, order: DateOrder) -> bool {
    instant(text, zone, order).is_some()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Said {
    at: Timestamp,
    /// Local milliseconds of midnight, and the zone, where no time of day was said.
    day: Option<(i64, Zone)>,
}

impl Said {
    fn end(self) -> Option<Timestamp> {
        match self.day {
            Some((local_ms, zone)) => zone.instant_of_local_ms(local_ms + DAY_MS),
            None => Some(self.at),
        }
    }
}

/// `2026-10-31`, `2026/10/31 14:05`, `31.10.2026`, `10/31/2026 14:05:09`, ISO 8601 with `Z` or an
/// offset. Without either, the zone's local time.
fn instant(text: &str, zone: Zone, order: DateOrder) -> Option<Said> {
    let text = text.trim();
    let split = text.find(['T', ' ']);
    let (date, time) = match split {
        Some(at) => (text.get(..at)?, Some(text.get(at + 1..)?.trim())),
        None => (text, None),
    };
    let day_ms = local_day_ms(date, order)?;
    let Some(time) = time.filter(|time| !time.is_empty()) else {
        let at = zone.instant_of_local_ms(day_ms)?;
        return Some(Said { at, day: Some((day_ms, zone)) });
    };
    let (clock, offset_ms) = offset(time)?;
    let local_ms = day_ms + clock_ms(clock)?;
    let at = match offset_ms {
        Some(offset_ms) => Timestamp(local_ms - offset_ms),
        None => zone.instant_of_local_ms(local_ms)?,
    };
    Some(Said { at, day: None })
}

fn local_day_ms(date: &str, order: DateOrder) -> Option<i64> {
    let parts: Vec<&str> = date.split(['-', '/', '.']).collect();
    let [a, b, c] = parts.as_slice() else { return None };
    let (year, month, day) = match order {
        _ if a.len() == 4 => (a, b, c),
        DateOrder::DayFirst => (c, b, a),
        DateOrder::MonthFirst => (c, a, b),
        DateOrder::YearFirst => return None,
    };
    let number = |text: &str, most: usize| {
        let digits = (1..=most).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
        digits.then(|| text.parse::<u32>().ok())?
    };
    let (year, month, day) = (number(year, 4)?, number(month, 2)?, number(day, 2)?);
    let iso = format!("{year:04}-{month:02}-{day:02}T00:00:00Z");
    Timestamp::parse_iso(&iso)
        .filter(|at| (Timestamp::MIN..Timestamp::MAX).contains(at))
        .map(|at| at.0)
}

/// The clock's part, and the offset from UTC in milliseconds where one is said.
fn offset(time: &str) -> Option<(&str, Option<i64>)> {
    if let Some(clock) = time.strip_suffix('Z') {
        return Some((clock, Some(0)));
    }
    let Some(at) = time.rfind(['+', '-']) else { return Some((time, None)) };
    let (clock, offset) = (time.get(..at)?, time.get(at + 1..)?);
    let (hours, minutes) = match offset.split_once(':') {
        Some(parts) => parts,
        None => (offset.get(..2)?, offset.get(2..)?),
    };
    let minutes = if minutes.is_empty() { "00" } else { minutes };
    let ms = two_digits(hours, 15)? * 3_600_000 + two_digits(minutes, 60)? * 60_000;
    let sign = if time.get(at..=at)? == "-" { -1 } else { 1 };
    Some((clock.trim_end(), Some(sign * ms)))
}

/// `14:05`, `14:05:09` or `14:05:09.250`.
fn clock_ms(clock: &str) -> Option<i64> {
    let (whole, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let mut parts = whole.split(':');
    let hour = two_digits(parts.next()?, 24)?;
    let minute = two_digits(parts.next()?, 60)?;
    let second = parts.next().map_or(Some(0), |text| two_digits(text, 60))?;
    if parts.next().is_some() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let millis: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    Some(hour * 3_600_000 + minute * 60_000 + second * 1_000 + millis)
}

fn two_digits(text: &str, below: i64) -> Option<i64> {
    let digits = (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
    let value = digits.then(|| text.parse().ok())?;
    value.filter(|value| *value < below)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str, order: DateOrder) -> String {
        let shanghai = Zone::parse("Asia/Shanghai").unwrap();
        instant(text, shanghai, order).map_or("-".to_owned(), |said| said.at.to_string())
    }

    #[test]
    fn dates_are_read_in_their_order_and_zone() {
        use DateOrder::{DayFirst, MonthFirst, YearFirst};
        let table = [
            ("2026-10-31", YearFirst, "2026-10-30T16:00:00.000Z"),
            ("2026/1/5", YearFirst, "2026-01-04T16:00:00.000Z"),
            ("31.10.2026 08:30", DayFirst, "2026-10-31T00:30:00.000Z"),
            ("10/31/2026 8:30:15", MonthFirst, "2026-10-31T00:30:15.000Z"),
            ("2026-10-31T08:30:00Z", DayFirst, "2026-10-31T08:30:00.000Z"),
            ("2026-10-31 08:30:00.5 +02:00", YearFirst, "2026-10-31T06:30:00.500Z"),
            ("2026-10-31T08:30:00-0700", YearFirst, "2026-10-31T15:30:00.000Z"),
            ("31.10.2026", YearFirst, "-"),
            ("10/31/2026", DayFirst, "-"),
            ("2026-02-29", YearFirst, "-"),
            ("2026-10-31 25:00", YearFirst, "-"),
            ("October", YearFirst, "-"),
            ("", YearFirst, "-"),
            ("2026-10-31T", YearFirst, "2026-10-30T16:00:00.000Z"),
            ("９/1/2026", MonthFirst, "-"),
            ("0026-10-31", YearFirst, "-"),
        ];
        for (text, order, expected) in table {
            assert_eq!(said(text, order), expected, "{text}");
        }
    }

    #[test]
    fn an_end_that_is_a_day_includes_it() {
        let zone = Zone::parse("America/Los_Angeles").unwrap();
        let hours = |start, end| {
            period(start, end, zone, DateOrder::YearFirst).and_then(Period::whole_hours)
        };
        assert_eq!(hours("2026-03-01", "2026-03-31"), Some(743));
        assert_eq!(hours("2026-11-01", "2026-11-30"), Some(721));
        assert_eq!(hours("2026-03-01 00:00", "2026-03-02 00:00"), Some(24));
        assert_eq!(hours("2026-03-02 00:00", "2026-03-01 00:00"), None);
    }
}
