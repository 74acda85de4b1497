//! The time that a verdict is about: calendar months in a zone, billing periods, service months,
//! rolling days.
//!
//! Local days have 23 to 25 hours; a month of March in Los Angeles has 743. Zones whose offset is
//! no whole hour do not align with UTC hours, so windows cut intervals, never hour records.

use crate::time::{Period, Timestamp, Zone};

/// How time is cut into windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WindowRule {
    /// Calendar months in a zone, whole even where the lease covers a part.
    Calendar {
        /// The zone.
        zone: Zone,
    },
    /// The lease's billing periods.
    Billing,
    /// Calendar months in a zone, cut to the lease: one from 17 March to 16 June has four.
    ServiceMonth {
        /// The zone.
        zone: Zone,
    },
    /// The last so many days of 24 hours, at any instant.
    Rolling {
        /// How many.
        days: u32,
    },
}

/// How a lease is billed, for [`WindowRule::Billing`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BillingCycle {
    /// Day of the month that a cycle begins on, 1 to 31; the month's last day where it is shorter.
    pub day: u32,
    /// Whose midnight.
    pub zone: Zone,
}

/// What a lease says about windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTime {
    /// From its start to its end, or to "now" while it runs.
    pub period: Period,
    /// How it is billed.
    pub billing: BillingCycle,
}

/// The time that one verdict is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    /// Of which contracted time and outages are judged.
    pub period: Period,
    /// The month or cycle it is a part of; the same as `period` unless a service month is cut.
    pub whole: Period,
}

impl WindowRule {
    /// The windows that meet `asked`, in order. A rolling window is one: the last that ends at
    /// `asked.end`. None where calendars end.
    #[must_use]
    pub fn windows(self, lease: &LeaseTime, asked: Period) -> Vec<Window> {
        let asked = asked.intersect(lease.period);
        match self {
            _ if asked.is_empty() => Vec::new(),
            Self::Calendar { zone } => months(zone, 1, asked),
            Self::Billing => months(lease.billing.zone, lease.billing.day, asked),
            Self::ServiceMonth { zone } => months(zone, 1, asked)
                .into_iter()
                .map(|month| Window { period: month.whole.intersect(lease.period), ..month })
                .collect(),
            Self::Rolling { days } => {
                let length_ms = i64::from(days).saturating_mul(crate::time::DAY_MS);
                let period = Period::new(asked.end.plus_ms(-length_ms), asked.end);
                vec![Window { period, whole: period }]
            }
        }
    }
}

impl BillingCycle {
    /// The cycle that holds `at`; `None` where calendars end.
    #[must_use]
    pub fn at(self, at: Timestamp) -> Option<Period> {
        let found = months(self.zone, self.day, Period::new(at, at.plus_ms(1)));
        found.first().map(|window| window.period)
    }
}

/// Cycles from `day` of a month to the same day of the next that meet `asked`.
fn months(zone: Zone, day: u32, asked: Period) -> Vec<Window> {
    let mut out = Vec::new();
    let Some(first) = zone.local(asked.start) else { return out };
    // A cycle that began in the month before may hold the start.
    let (mut year, mut month) = before(first.year, first.month);
    while let Some(period) = cycle(zone, day, year, month) {
        if period.start >= asked.end {
            break;
        }
        if !period.intersect(asked).is_empty() {
            out.push(Window { period, whole: period });
        }
        (year, month) = after(year, month);
    }
    out
}

fn cycle(zone: Zone, day: u32, year: i32, month: u32) -> Option<Period> {
    let (next_year, next_month) = after(year, month);
    Some(Period::new(begin(zone, day, year, month)?, begin(zone, day, next_year, next_month)?))
}

/// The midnight that begins a cycle: of `day`, or of the month's last day where it is shorter.
fn begin(zone: Zone, day: u32, year: i32, month: u32) -> Option<Timestamp> {
    (1..=day.min(31)).rev().take(4).find_map(|day| zone.midnight(year, month, day))
}

fn before(year: i32, month: u32) -> (i32, u32) {
    if month == 1 { (year - 1, 12) } else { (year, month - 1) }
}

fn after(year: i32, month: u32) -> (i32, u32) {
    if month == 12 { (year + 1, 1) } else { (year, month + 1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::HOUR_MS;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse_iso(text).unwrap()
    }

    fn lease(start: &str, end: &str, day: u32, zone: &str) -> LeaseTime {
        let zone = Zone::parse(zone).unwrap();
        LeaseTime { period: Period::new(at(start), at(end)), billing: BillingCycle { day, zone } }
    }

    fn hours(windows: &[Window]) -> Vec<i64> {
        windows.iter().map(|window| window.period.ms() / HOUR_MS).collect()
    }

    #[test]
    fn a_lease_from_17_march_to_16_june_has_four_service_months() {
        let zone = Zone::parse("Asia/Shanghai").unwrap();
        let lease = lease("2026-03-16T16:00:00Z", "2026-06-16T16:00:00Z", 1, "Asia/Shanghai");
        let windows = WindowRule::ServiceMonth { zone }.windows(&lease, lease.period);
        assert_eq!(hours(&windows), [15 * 24, 30 * 24, 31 * 24, 16 * 24]);
        assert_eq!(windows[0].whole, zone.month(2026, 3).unwrap());
        // The same lease by the calendar: whole months.
        let calendar = WindowRule::Calendar { zone }.windows(&lease, lease.period);
        assert_eq!(hours(&calendar), [744, 720, 744, 720]);
    }

    #[test]
    fn calendar_months_of_any_zone() {
        let year = Period::new(at("2026-01-01T12:00:00Z"), at("2026-12-31T00:00:00Z"));
        let of = |name: &str| {
            let lease = lease("2026-01-01T12:00:00Z", "2026-12-31T00:00:00Z", 1, name);
            let zone = Zone::parse(name).unwrap();
            WindowRule::Calendar { zone }.windows(&lease, year)
        };
        let pacific = of("America/Los_Angeles");
        assert_eq!(pacific.len(), 12);
        assert_eq!(hours(&pacific)[2], 743);
        assert_eq!(hours(&pacific)[10], 721);
        let kathmandu = of("Asia/Kathmandu");
        assert_eq!(kathmandu[5].period.start, at("2026-05-31T18:15:00Z"));
        for windows in [pacific, kathmandu] {
            assert!(windows.windows(2).all(|pair| pair[0].period.end == pair[1].period.start));
        }
    }

    #[test]
    fn billing_cycles_begin_on_their_day_or_on_the_last_of_a_short_month() {
        let lease = lease("2026-01-31T00:00:00Z", "2026-05-31T00:00:00Z", 31, "UTC");
        let windows = WindowRule::Billing.windows(&lease, lease.period);
        let starts: Vec<_> = windows.iter().map(|window| window.period.start).collect();
        let expected = ["01-31", "02-28", "03-31", "04-30"];
        assert_eq!(starts, expected.map(|day| at(&format!("2026-{day}T00:00:00Z"))));
    }

    #[test]
    fn rolling_days_end_where_they_are_asked_for_and_nothing_else_is_made_up() {
        let lease = lease("2026-01-01T00:00:00Z", "2026-03-01T00:00:00Z", 1, "UTC");
        let asked = Period::new(at("2026-01-01T00:00:00Z"), at("2026-02-10T05:00:00Z"));
        let windows = WindowRule::Rolling { days: 30 }.windows(&lease, asked);
        assert_eq!(windows.len(), 1);
        assert_eq!(windows[0].period.start, at("2026-01-11T05:00:00Z"));
        let before = Period::new(at("2025-01-01T00:00:00Z"), at("2025-02-01T00:00:00Z"));
        assert_eq!(WindowRule::Billing.windows(&lease, before), []);
    }
}
