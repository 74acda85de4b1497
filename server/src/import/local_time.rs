//! Times as tools and spreadsheets write them. Not here: what a zone is (`core::time`).

use leasewatch_core::time::{DAY_MS, HOUR_MS, LocalInstants, Timestamp, Zone};

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Reads, on a clock of `zone`: `2026/08/01 03:59:40.361`, the same with dashes or a `T`,
/// `8/1/2026 3:59:40 AM` (month first), `01.08.2026 03:59:40,361` (with dots the day stands first),
/// and `Sat Aug  1 03:59:40 2026`. A `Z` or an offset such as `+08:00` stands above the zone, and
/// so do seconds (10 digits) and milliseconds (13) since 1970. In the hour that the zone repeats, a
/// reading is one of two.
pub(super) fn read(cell: &str, zone: Zone) -> Option<LocalInstants> {
    since_1970(cell.trim()).map(LocalInstants::from).or_else(|| calendar(cell, zone))
}

/// The same without numbers, which may be anything.
pub(super) fn calendar(cell: &str, zone: Zone) -> Option<LocalInstants> {
    let (local, offset_ms) = split_offset(cell.trim());
    let as_utc = year_first(local).or_else(|| year_last(local)).or_else(|| weekday_first(local))?;
    let in_range =
        Timestamp::MIN.plus_ms(DAY_MS) < as_utc && as_utc < Timestamp::MAX.plus_ms(-DAY_MS);
    let at = match offset_ms {
        Some(offset) => Some(as_utc.plus_ms(-offset).into()),
        None => zone.instants_of_local_ms(as_utc.0),
    };
    at.filter(|at| in_range && at.first.since(as_utc).abs() <= 26 * HOUR_MS)
}

fn since_1970(text: &str) -> Option<Timestamp> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = match (whole.len(), fraction.len()) {
        (13, 0) => whole.to_owned(),
        (10, 0..=9) => format!("{whole}{}", format!("{fraction:0<3}").get(..3)?),
        _ => return None,
    };
    all_digits(&digits).then(|| digits.parse().ok().map(Timestamp))?
}

/// The local reading, and the offset that stands behind it in milliseconds.
fn split_offset(text: &str) -> (&str, Option<i64>) {
    if let Some(local) = text.strip_suffix('Z') {
        return (local, Some(0));
    }
    let behind_time = text.rfind(':').and_then(|colon| text.get(..colon)?.rfind(['+', '-']));
    let split = behind_time.filter(|at| text.get(..*at).is_some_and(|local| local.contains(':')));
    let Some((local, offset)) = split.map(|at| text.split_at(at)) else { return (text, None) };
    let ms = offset.get(1..).and_then(|digits| {
        let (hours, minutes) = digits.split_once(':')?;
        let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
        (hours <= 14 && minutes < 60).then_some((hours * 60 + minutes) * 60_000)
    });
    // An offset that cannot be read makes the whole unreadable: its colon stays.
    let Some(ms) = ms else { return (text, None) };
    (local.trim_end(), Some(if offset.starts_with('-') { -ms } else { ms }))
}

fn year_first(text: &str) -> Option<Timestamp> {
    let (date, clock) = text.split_once(['T', ' '])?;
    let mark = if date.contains('/') { '/' } else { '-' };
    let (year, month, day) = three(date, mark)?;
    (year.len() == 4).then_some(())?;
    instant(number(year, 4)?, number(month, 2)?, number(day, 2)?, clock.trim_start())
}

fn year_last(text: &str) -> Option<Timestamp> {
    let (date, clock) = text.split_once(' ')?;
    let (year, month, day) = match three(date, '/') {
        Some((month, day, year)) => (year, month, day),
        None => three(date, '.').map(|(day, month, year)| (year, month, day))?,
    };
    (year.len() == 4).then_some(())?;
    instant(number(year, 4)?, number(month, 2)?, number(day, 2)?, clock.trim_start())
}

/// `Fri Aug  4 11:44:30 2023`
fn weekday_first(text: &str) -> Option<Timestamp> {
    let mut words = text.split_whitespace();
    let (_weekday, month, day) = (words.next()?, words.next()?, words.next()?);
    let (clock, year) = (words.next()?, words.next()?);
    let month =
        MONTHS.iter().zip(1..).find(|(name, _)| **name == month).map(|(_, number)| number)?;
    (year.len() == 4 && words.next().is_none()).then_some(())?;
    instant(number(year, 4)?, month, number(day, 2)?, clock)
}

fn three(date: &str, mark: char) -> Option<(&str, &str, &str)> {
    let mut parts = date.split(mark);
    let three = (parts.next()?, parts.next()?, parts.next()?);
    parts.next().is_none().then_some(three)
}

/// `clock` is `h:mm[:ss[.fraction]]`, with AM or PM or without.
fn instant(year: i64, month: i64, day: i64, clock: &str) -> Option<Timestamp> {
    let (clock, half) = match clock.split_once(' ') {
        Some((clock, "AM" | "am")) => (clock, Some(0)),
        Some((clock, "PM" | "pm")) => (clock, Some(12)),
        Some(_) => return None,
        None => (clock, None),
    };
    let (clock, fraction) =
        clock.split_once(['.', ',']).map_or((clock, ""), |(clock, f)| (clock, f));
    let (hour, rest) = clock.split_once(':')?;
    let (minute, second) = rest.split_once(':').unwrap_or((rest, "00"));
    let (minute, second) = (minute.len() == 2 && second.len() == 2).then_some((minute, second))?;
    let hour = match (number(hour, 2)?, half) {
        (hour, None) => hour,
        (hour, Some(half)) if (1..=12).contains(&hour) => hour % 12 + half,
        _ => return None,
    };
    let millis = match fraction {
        "" => 0,
        digits => number(format!("{digits:0<3}").get(..3)?, 3).filter(|_| all_digits(digits))?,
    };
    let (minute, second) = (number(minute, 2)?, number(second, 2)?);
    Timestamp::parse_iso(&format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"
    ))
}

fn number(text: &str, digits_max: usize) -> Option<i64> {
    (!text.is_empty() && text.len() <= digits_max && all_digits(text)).then(|| text.parse().ok())?
}

fn all_digits(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(cell: &str) -> Option<String> {
        read(cell, Zone::UTC).map(|at| at.first.to_string())
    }

    #[test]
    fn every_way_to_write_a_time() {
        let expected = "2026-08-01T03:59:40.000Z";
        for cell in [
            "2026/08/01 03:59:40",
            "2026-08-01 03:59:40.000",
            "2026-08-01T03:59:40Z",
            "2026-08-01T11:59:40+08:00",
            "2026-07-31T22:59:40.000-05:00",
            "08/01/2026 03:59:40",
            "8/1/2026 3:59:40 AM",
            "01.08.2026 03:59:40",
            "1.8.2026 3:59:40,000",
            "Sat Aug  1 03:59:40 2026",
            "1785556780",
            "1785556780.000412",
            "1785556780000",
        ] {
            assert_eq!(at(cell).as_deref(), Some(expected), "{cell}");
        }
        assert_eq!(at("2026/08/01 03:59:40.361").unwrap(), "2026-08-01T03:59:40.361Z");
        assert_eq!(at("8/1/2026 12:05 AM").unwrap(), "2026-08-01T00:05:00.000Z");
        assert_eq!(at("8/1/2026 12:05 PM").unwrap(), "2026-08-01T12:05:00.000Z");
        let zone = Zone::parse("Asia/Shanghai").unwrap();
        assert_eq!(read("2026/08/01 11:59:40", zone).unwrap().first.to_string(), expected);
    }

    #[test]
    fn anything_else_is_no_time() {
        for cell in [
            "",
            "03:59:40",
            "2026/13/01 03:59:40",
            "13/01/2026 03:59:40",
            "2026/08/01",
            "2026/08/01 03:5",
            "2026/08/01 3:59:4",
            "1970-01-01 00:00:00",
            "2026/08/01 03:59:40+99:00",
            "2026/08/01 03:59:40.36x",
            "Sat Aug 1 03:59:40",
            "2026/02/30 00:00:00",
            "178555678",
            "17855567800",
            "-785556780",
            "1785556780.x",
        ] {
            assert_eq!(at(cell), None, "{cell}");
        }
    }
}
