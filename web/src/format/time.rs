//! Instants and dates in a zone, in the words of a language. The offset always stands beside a
//! clock reading, so that no time is ambiguous.

use leasewatch_core::time::{LocalTime, Timestamp, Zone};

use crate::i18n::{Language, phrase};

/// How much of an instant is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// To the minute.
    Minute,
    /// To the second.
    Second,
}

/// Date, clock and offset: `1 Aug 2026, 11:59:40 UTC+08:00`.
#[must_use]
pub fn moment(at: Timestamp, zone: Zone, language: Language, detail: Detail) -> String {
    let Some(local) = zone.local(at) else { return at.to_string() };
    let date = date_of(local, language);
    let mut time = format!("{:02}:{:02}", local.hour, local.minute);
    if detail == Detail::Second {
        time.push_str(&format!(":{:02}", local.second));
    }
    phrase::time_moment(language, date, offset_of(local), time)
}

/// The local clock: `11:59`.
#[must_use]
pub fn clock(at: Timestamp, zone: Zone) -> String {
    zone.local(at).map_or_else(|| at.to_string(), |t| format!("{:02}:{:02}", t.hour, t.minute))
}

/// The local clock to the second: `11:59:40`.
#[must_use]
pub fn clock_second(at: Timestamp, zone: Zone) -> String {
    zone.local(at).map_or_else(
        || at.to_string(),
        |t| format!("{:02}:{:02}:{:02}", t.hour, t.minute, t.second),
    )
}

/// Local date and clock as `YYYY-MM-DDThh:mm:ss`, the form of URLs and inputs.
#[must_use]
pub fn iso_local(at: Timestamp, zone: Zone) -> String {
    format!("{}T{}", iso_date(at, zone), clock_second(at, zone))
}

/// The local date without year, with its weekday: `Sat 1 Aug`, `8月1日 周六`.
#[must_use]
pub fn day(at: Timestamp, zone: Zone, language: Language) -> String {
    let Some(local) = zone.local(at) else { return at.to_string() };
    let weekday = weekday(at, local, language);
    let month = month(local.month, language);
    phrase::time_day(language, local.day, month, weekday)
}

/// The local date: `1 Aug 2026`, `2026年8月1日`.
#[must_use]
pub fn local_date(at: Timestamp, zone: Zone, language: Language) -> String {
    zone.local(at).map_or_else(|| at.to_string(), |local| date_of(local, language))
}

/// The local date as `YYYY-MM-DD`, the form of URLs and date inputs.
#[must_use]
pub fn iso_date(at: Timestamp, zone: Zone) -> String {
    zone.local(at).map_or_else(
        || at.to_string(),
        |local| format!("{:04}-{:02}-{:02}", local.year, local.month, local.day),
    )
}

/// The zone's offset at `at`: `UTC+08:00`, in UTC itself `UTC`.
#[must_use]
pub fn offset(at: Timestamp, zone: Zone) -> String {
    zone.local(at).map_or_else(String::new, offset_of)
}

fn offset_of(local: LocalTime) -> String {
    if local.offset_s == 0 { "UTC".to_owned() } else { format!("UTC{}", local.offset_text()) }
}

fn date_of(local: LocalTime, language: Language) -> String {
    let month = month(local.month, language);
    phrase::time_date(language, local.day, month, local.year)
}

fn month(month: u32, language: Language) -> String {
    const EN: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let index = usize::try_from(month).unwrap_or(0).wrapping_sub(1);
    match language {
        Language::En => EN.get(index).map_or_else(|| month.to_string(), |name| (*name).to_owned()),
        Language::ZhCn => month.to_string(),
    }
}

fn weekday(at: Timestamp, local: LocalTime, language: Language) -> &'static str {
    // 1970-01-01 was a Thursday.
    const EN: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const ZH: [&str; 7] = ["周四", "周五", "周六", "周日", "周一", "周二", "周三"];
    let days = at.plus_ms(i64::from(local.offset_s) * 1_000).0.div_euclid(86_400_000);
    let index = usize::try_from(days.rem_euclid(7)).unwrap_or(0);
    match language {
        Language::En => EN[index],
        Language::ZhCn => ZH[index],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_languages_and_an_offset_beside_every_clock() {
        let at = Timestamp::parse_iso("2026-08-01T03:59:40.361Z").unwrap();
        let shanghai = Zone::parse("Asia/Shanghai").unwrap();
        assert_eq!(
            moment(at, shanghai, Language::En, Detail::Second),
            "1 Aug 2026, 11:59:40 UTC+08:00"
        );
        assert_eq!(
            moment(at, shanghai, Language::ZhCn, Detail::Minute),
            "2026年8月1日 11:59（UTC+08:00）"
        );
        assert_eq!(moment(at, Zone::UTC, Language::En, Detail::Minute), "1 Aug 2026, 03:59 UTC");
        assert_eq!(day(at, shanghai, Language::En), "Sat 1 Aug");
        assert_eq!(day(at, shanghai, Language::ZhCn), "8月1日 周六");
        assert_eq!(iso_date(at, shanghai), "2026-08-01");
        assert_eq!(clock(at, Zone::parse("Asia/Kathmandu").unwrap()), "09:44");
    }

    #[test]
    fn the_weekday_is_that_of_the_local_date() {
        let at = Timestamp::parse_iso("2026-08-01T23:30:00Z").unwrap();
        assert_eq!(day(at, Zone::UTC, Language::En), "Sat 1 Aug");
        assert_eq!(day(at, Zone::parse("Asia/Tokyo").unwrap(), Language::En), "Sun 2 Aug");
    }
}
