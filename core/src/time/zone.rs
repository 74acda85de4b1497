//! IANA zones: local clock readings to instants, and calendar windows in a zone.
//!
//! The policy for local times that do not exist (spring) or exist twice (autumn) is "compatible":
//! in a gap the offset before it is used, so the result lies just after the gap; in a fold the
//! first of the two.

use std::fmt;

use chrono::{Datelike, LocalResult, NaiveDate, NaiveDateTime, Offset, TimeZone, Timelike};
use chrono_tz::Tz;

use super::{HOUR_MS, Period, Timestamp};

/// An IANA time zone, for reports and for logs that carry local times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Zone(Tz);

/// The name is not in the IANA database.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown time zone; use an IANA name such as Asia/Shanghai, America/Los_Angeles or UTC")]
pub struct ZoneError;

/// Version of the IANA time zone database that is compiled in, such as `2025b`.
#[must_use]
pub fn tz_database_version() -> &'static str {
    chrono_tz::IANA_TZDB_VERSION
}

/// A wall clock reading in a zone, with the offset from UTC that held then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalTime {
    /// Calendar year.
    pub year: i32,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
    /// 0 to 23.
    pub hour: u32,
    /// 0 to 59.
    pub minute: u32,
    /// 0 to 59.
    pub second: u32,
    /// Seconds east of UTC.
    pub offset_s: i32,
}

impl LocalTime {
    /// The offset as `+08:00`.
    #[must_use]
    pub fn offset_text(&self) -> String {
        let sign = if self.offset_s < 0 { '-' } else { '+' };
        let minutes = self.offset_s.abs() / 60;
        format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
    }
}

/// The instants that a local clock reading can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalInstants {
    /// The only one, or the first of two.
    pub first: Timestamp,
    /// The other one, in a fold: the clock was set back and showed the reading again.
    pub second: Option<Timestamp>,
}

impl From<Timestamp> for LocalInstants {
    fn from(at: Timestamp) -> Self {
        Self { first: at, second: None }
    }
}

impl Zone {
    /// Coordinated universal time.
    pub const UTC: Self = Self(Tz::UTC);

    /// Finds a zone by its IANA name.
    ///
    /// # Errors
    /// [`ZoneError`] when the database has no such name.
    pub fn parse(name: &str) -> Result<Self, ZoneError> {
        name.parse().map(Self).map_err(|_| ZoneError)
    }

    /// The IANA name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.0.name()
    }

    /// What a wall clock in this zone shows at `at`; `None` outside chrono's range.
    #[must_use]
    pub fn local(self, at: Timestamp) -> Option<LocalTime> {
        let local = match self.0.timestamp_millis_opt(at.0) {
            LocalResult::Single(local) => local,
            LocalResult::Ambiguous(..) | LocalResult::None => return None,
        };
        Some(LocalTime {
            year: local.year(),
            month: local.month(),
            day: local.day(),
            hour: local.hour(),
            minute: local.minute(),
            second: local.second(),
            offset_s: local.offset().fix().local_minus_utc(),
        })
    }

    /// The instant of a local clock reading given as if it were UTC (`local_ms` = milliseconds
    /// since 1970-01-01T00:00:00 on the local clock). Folds and gaps follow the module's policy.
    #[must_use]
    pub fn instant_of_local_ms(self, local_ms: i64) -> Option<Timestamp> {
        self.instants_of_local_ms(local_ms).map(|instants| instants.first)
    }

    /// Every instant at which a clock in this zone shows a reading, given as for
    /// [`Self::instant_of_local_ms`]. Gaps follow the module's policy.
    #[must_use]
    pub fn instants_of_local_ms(self, local_ms: i64) -> Option<LocalInstants> {
        let naive = chrono::DateTime::from_timestamp_millis(local_ms)?.naive_utc();
        self.resolve(naive)
    }

    /// The calendar month `month` (1 to 12) of `year`; `None` if there is no such month.
    #[must_use]
    pub fn month(self, year: i32, month: u32) -> Option<Period> {
        let (next_year, next_month) = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
        Some(Period::new(self.midnight(year, month, 1)?, self.midnight(next_year, next_month, 1)?))
    }

    /// The calendar day that holds `at`, 23 to 25 hours long.
    #[must_use]
    pub fn day(self, at: Timestamp) -> Option<Period> {
        let local = self.local(at)?;
        let date = NaiveDate::from_ymd_opt(local.year, local.month, local.day)?;
        let next = date.succ_opt()?;
        Some(Period::new(
            self.midnight(local.year, local.month, local.day)?,
            self.midnight(next.year(), next.month(), next.day())?,
        ))
    }

    /// The first instant of a local date; `None` if there is no such date.
    #[must_use]
    pub fn midnight(self, year: i32, month: u32, day: u32) -> Option<Timestamp> {
        let naive = NaiveDate::from_ymd_opt(year, month, day)?.and_hms_opt(0, 0, 0)?;
        self.resolve(naive).map(|instants| instants.first)
    }

    fn resolve(self, naive: NaiveDateTime) -> Option<LocalInstants> {
        match self.0.from_local_datetime(&naive) {
            LocalResult::Single(at) => Some(Timestamp(at.timestamp_millis()).into()),
            LocalResult::Ambiguous(first, second) => Some(LocalInstants {
                first: Timestamp(first.timestamp_millis()),
                second: Some(Timestamp(second.timestamp_millis())),
            }),
            LocalResult::None => {
                // Inside a gap. Gaps are at most a day long (zones that crossed the date line).
                let before = self.0.from_local_datetime(&(naive - chrono::TimeDelta::days(1)));
                let offset = before.earliest()?.offset().fix().local_minus_utc();
                let local_ms = naive.and_utc().timestamp_millis();
                Some(Timestamp(local_ms - i64::from(offset) * 1_000).into())
            }
        }
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Period {
    /// Length in whole hours, for tables; `None` where it is not a whole number.
    #[must_use]
    pub fn whole_hours(self) -> Option<i64> {
        (self.ms() % HOUR_MS == 0).then_some(self.ms() / HOUR_MS)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    fn zone(name: &str) -> Zone {
        Zone::parse(name).unwrap()
    }

    #[test]
    fn months_with_a_clock_change_have_odd_lengths() {
        let pacific = zone("America/Los_Angeles");
        let hours = |month| pacific.month(2026, month).and_then(Period::whole_hours);
        assert_eq!(hours(3), Some(743));
        assert_eq!(hours(11), Some(721));
        assert_eq!(hours(12), Some(744));
        assert_eq!(pacific.month(2026, 13), None);
    }

    #[test]
    fn days_of_23_and_25_hours() {
        let pacific = zone("America/Los_Angeles");
        let day =
            |text| pacific.day(Timestamp::parse_iso(text).unwrap()).and_then(Period::whole_hours);
        assert_eq!(day("2026-03-08T20:00:00Z"), Some(23));
        assert_eq!(day("2026-11-01T20:00:00Z"), Some(25));
        assert_eq!(day("2026-11-02T20:00:00Z"), Some(24));
    }

    #[test]
    fn offsets_that_do_not_align_with_utc_hours() {
        let at = Timestamp::parse_iso("2026-08-01T00:00:00Z").unwrap();
        let offset = |name: &str| zone(name).local(at).unwrap().offset_text();
        assert_eq!(offset("Asia/Kolkata"), "+05:30");
        assert_eq!(offset("Asia/Kathmandu"), "+05:45");
        assert_eq!(offset("Asia/Shanghai"), "+08:00");
        assert_eq!(offset("America/St_Johns"), "-02:30");
    }

    #[test]
    fn folds_take_the_first_and_gaps_the_offset_before() {
        let pacific = zone("America/Los_Angeles");
        let local = |text: &str| Timestamp::parse_iso(text).unwrap().0;
        let at = |text| pacific.instant_of_local_ms(local(text)).unwrap().to_string();
        assert_eq!(at("2026-11-01T01:30:00Z"), "2026-11-01T08:30:00.000Z");
        assert_eq!(at("2026-03-08T02:30:00Z"), "2026-03-08T10:30:00.000Z");
        assert_eq!(at("2026-07-01T12:00:00Z"), "2026-07-01T19:00:00.000Z");
    }

    #[test]
    fn windows_of_zones_with_odd_offsets_start_at_their_own_midnight() {
        for (name, month_start) in [
            ("Asia/Kolkata", "2026-07-31T18:30:00.000Z"),
            ("Asia/Kathmandu", "2026-07-31T18:15:00.000Z"),
        ] {
            let month = zone(name).month(2026, 8).unwrap();
            assert_eq!(month.start.to_string(), month_start);
            assert_eq!(month.whole_hours(), Some(744));
            let day = zone(name).day(month.start).unwrap();
            assert_eq!((day.start, day.whole_hours()), (month.start, Some(24)));
        }
    }

    const ZONES: [&str; 8] = [
        "UTC",
        "Asia/Shanghai",
        "Asia/Kolkata",
        "Asia/Kathmandu",
        "America/Los_Angeles",
        "America/St_Johns",
        "Europe/Berlin",
        "Australia/Lord_Howe",
    ];

    proptest! {
        #[test]
        fn days_tile_their_month_and_months_their_year(name in select(&ZONES[..]), year in 2000_i32..2038) {
            let zone = zone(name);
            let (mut at, mut days) = (zone.month(year, 1).unwrap().start, 0);
            for month in 1..=12 {
                let window = zone.month(year, month).unwrap();
                prop_assert_eq!(window.start, at);
                while at < window.end {
                    let day = zone.day(at).unwrap();
                    prop_assert_eq!(day.start, at);
                    prop_assert!((23..=25).contains(&(day.ms() / HOUR_MS)), "{}", day.ms());
                    (at, days) = (day.end, days + 1);
                }
                prop_assert_eq!(at, window.end);
            }
            prop_assert!(days == 365 || days == 366);
        }

        #[test]
        fn a_local_reading_leads_back_to_its_instant(name in select(&ZONES[..]), ms in 946_684_800_000_i64..2_145_916_800_000) {
            let zone = zone(name);
            let local = zone.local(Timestamp(ms)).unwrap();
            let back = zone.instant_of_local_ms(ms + i64::from(local.offset_s) * 1_000).unwrap();
            // In a fold the first of the two is taken, which lies up to an hour before.
            prop_assert!(back.0 == ms || (1..=HOUR_MS).contains(&(ms - back.0)), "{back} {}", ms);
            prop_assert_eq!(zone.local(back).unwrap().minute, local.minute);
            let both = zone.instants_of_local_ms(ms + i64::from(local.offset_s) * 1_000).unwrap();
            prop_assert_eq!(both.first, back);
            prop_assert!(both.first.0 == ms || both.second == Some(Timestamp(ms)));
            prop_assert!(both.second.is_none_or(|second| second > both.first));
        }
    }
}
