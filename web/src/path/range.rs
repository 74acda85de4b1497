//! The stretch of time that a page shows, as its URL says it.
//!
//! `last=6h` ends now, `from=..&to=..` lies anywhere, `from=..&last=1h` begins somewhere. An end
//! is a local date (`2026-08-01`, the day inside), a local clock reading (`2026-08-01T12:30`) or an
//! instant (`2026-08-01T04:30:00Z`).

use leasewatch_core::time::{DAY_MS, HOUR_MS, Period, Timestamp, Zone};

use super::{QueryError, local_midnight};
use crate::i18n::{Language, Text, phrase};

/// The longest range of one page: two years.
pub const RANGE_MS_MAX: i64 = 731 * DAY_MS;
/// The shortest range that links zoom to.
pub const RANGE_MS_MIN: i64 = 10_000;

/// A length that the URL names, such as `24h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the names are the lengths")]
pub enum Last {
    Minutes15,
    Hour,
    #[default]
    Hours6,
    Day,
    Week,
    Days30,
    Days90,
    Year,
}

impl Last {
    /// Every length, in rising order.
    pub const ALL: [Self; 8] = [
        Self::Minutes15,
        Self::Hour,
        Self::Hours6,
        Self::Day,
        Self::Week,
        Self::Days30,
        Self::Days90,
        Self::Year,
    ];

    /// Its name in the URL.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Minutes15 => "15m",
            Self::Hour => "1h",
            Self::Hours6 => "6h",
            Self::Day => "24h",
            Self::Week => "7d",
            Self::Days30 => "30d",
            Self::Days90 => "90d",
            Self::Year => "1y",
        }
    }

    /// Its length.
    #[must_use]
    pub fn ms(self) -> i64 {
        match self {
            Self::Minutes15 => 15 * 60_000,
            Self::Hour => HOUR_MS,
            Self::Hours6 => 6 * HOUR_MS,
            Self::Day => DAY_MS,
            Self::Week => 7 * DAY_MS,
            Self::Days30 => 30 * DAY_MS,
            Self::Days90 => 90 * DAY_MS,
            Self::Year => 365 * DAY_MS,
        }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|last| last.name() == name)
    }
}

/// One end of a range, as it was written; it has been checked to be a time of some zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge(String);

impl Edge {
    /// The instant, to the second; fractions are cut.
    #[must_use]
    pub fn at(at: Timestamp) -> Self {
        let text = at.to_string();
        Self(format!("{}Z", text.split('.').next().unwrap_or_default()))
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let edge = Self(text.to_owned());
        edge.start(Zone::UTC).is_some().then_some(edge)
    }

    /// As it stands in the URL.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first instant of it.
    fn start(&self, zone: Zone) -> Option<Timestamp> {
        match self.0.len() {
            10 => local_midnight(&self.0, zone).filter(|at| possible(*at)),
            16 => local(&format!("{}:00Z", self.0), zone),
            19 => local(&format!("{}Z", self.0), zone),
            _ => Timestamp::parse_iso(&self.0).filter(|at| possible(*at)),
        }
    }

    /// The first instant after it: a date is inside, a clock reading is not.
    fn end(&self, zone: Zone) -> Option<Timestamp> {
        let start = self.start(zone)?;
        if self.0.len() == 10 { Some(zone.day(start)?.end) } else { Some(start) }
    }
}

fn local(text: &str, zone: Zone) -> Option<Timestamp> {
    let as_utc = Timestamp::parse_iso(text).filter(|at| possible(*at))?;
    zone.instant_of_local_ms(as_utc.0)
}

fn possible(at: Timestamp) -> bool {
    (Timestamp::MIN..Timestamp::MAX).contains(&at)
}

/// What the URL says about the range.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RangeState {
    /// Its length, if named.
    pub last: Option<Last>,
    /// Where it begins, if chosen.
    pub from: Option<Edge>,
    /// Where it ends, if chosen.
    pub to: Option<Edge>,
}

/// A range that cannot be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RangeError {
    /// An end is outside of what a calendar holds.
    Impossible,
    /// It ends before it begins, or where it begins.
    Empty,
    /// It begins after now.
    Future,
    /// It is longer than [`RANGE_MS_MAX`].
    TooLong,
}

impl RangeError {
    /// The parameter to correct.
    #[must_use]
    pub fn parameter(self) -> &'static str {
        match self {
            Self::Impossible | Self::Future | Self::TooLong => "from",
            Self::Empty => "to",
        }
    }

    /// The parameter and what is wrong with it, for the page that says so.
    #[must_use]
    pub fn text(self, language: Language) -> String {
        let matter = match self {
            Self::Impossible => Text::RangeImpossible,
            Self::Empty => Text::RangeEmpty,
            Self::Future => Text::RangeFuture,
            Self::TooLong => Text::RangeTooLong,
        };
        phrase::range_problem(language, matter.words(language), self.parameter())
    }
}

impl RangeState {
    /// These instants, to the second.
    #[must_use]
    pub fn between(period: Period) -> Self {
        Self { last: None, from: Some(Edge::at(period.start)), to: Some(Edge::at(period.end)) }
    }

    /// The length up to now.
    #[must_use]
    pub fn last(last: Last) -> Self {
        Self { last: Some(last), ..Self::default() }
    }

    /// The period, cut at `latest`: now, or the end of a record that ended. Without any choice it
    /// is the last [`Last::default`] up to `latest`. Never empty, never longer than
    /// [`RANGE_MS_MAX`].
    ///
    /// # Errors
    /// [`RangeError`] when there is nothing to show.
    pub fn period(&self, zone: Zone, latest: Timestamp) -> Result<Period, RangeError> {
        let length = self.last.unwrap_or_default().ms();
        let edge = |edge: &Option<Edge>, read: fn(&Edge, Zone) -> Option<Timestamp>| {
            let read = |edge| read(edge, zone).ok_or(RangeError::Impossible);
            edge.as_ref().map(read).transpose()
        };
        let from = edge(&self.from, Edge::start)?;
        let to = edge(&self.to, Edge::end)?;
        let period = match (from, to) {
            (Some(from), Some(to)) => Period::new(from, to),
            (Some(from), None) if self.last.is_some() => Period::new(from, from.plus_ms(length)),
            (Some(from), None) => Period::new(from, latest.max(from)),
            (None, to) => {
                let end = to.unwrap_or(latest);
                Period::new(end.plus_ms(-length), end)
            }
        };
        if from.is_some_and(|from| from >= latest) || period.start >= latest {
            return Err(RangeError::Future);
        }
        if period.is_empty() {
            return Err(RangeError::Empty);
        }
        if period.ms() > RANGE_MS_MAX {
            return Err(RangeError::TooLong);
        }
        Ok(Period::new(period.start, period.end.min(latest)))
    }

    pub(super) fn read(&mut self, name: &str, value: &str) -> Result<(), QueryError> {
        match name {
            "last" => self.last = Some(Last::parse(value).ok_or(QueryError::Last)?),
            "from" => self.from = Some(Edge::parse(value).ok_or(QueryError::From)?),
            _ => self.to = Some(Edge::parse(value).ok_or(QueryError::To)?),
        }
        Ok(())
    }

    pub(super) fn pairs(&self) -> impl Iterator<Item = (&'static str, String)> {
        let edge = |name, edge: &Option<Edge>| edge.as_ref().map(|edge| (name, edge.0.clone()));
        let last = self.last.map(|last| ("last", last.name().to_owned()));
        [edge("from", &self.from), edge("to", &self.to), last].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::UrlState;

    const NOW: &str = "2026-08-01T14:25:00Z";

    fn period(query: &str, zone: &str) -> Result<(String, String), RangeError> {
        let state = UrlState::parse(query).unwrap();
        let now = Timestamp::parse_iso(NOW).unwrap();
        let period = state.range.period(Zone::parse(zone).unwrap(), now)?;
        Ok((period.start.to_string(), period.end.to_string()))
    }

    fn is(query: &str, zone: &str, from: &str, to: &str) {
        let whole = |text: &str| format!("2026-{text}:00.000Z");
        assert_eq!(period(query, zone), Ok((whole(from), whole(to))), "{query}");
    }

    #[test]
    fn ends_in_every_form() {
        is("", "UTC", "08-01T08:25", "08-01T14:25");
        is("last=15m", "UTC", "08-01T14:10", "08-01T14:25");
        is("last=7d", "Asia/Shanghai", "07-25T14:25", "08-01T14:25");
        is("from=2026-07-30&to=2026-07-31", "UTC", "07-30T00:00", "08-01T00:00");
        is("from=2026-07-30&to=2026-07-30", "Asia/Shanghai", "07-29T16:00", "07-30T16:00");
        is(
            "from=2026-07-30T12:00&to=2026-07-30T12:30:00",
            "Asia/Shanghai",
            "07-30T04:00",
            "07-30T04:30",
        );
        is("from=2026-07-30T12:00:00Z&last=1h", "Asia/Shanghai", "07-30T12:00", "07-30T13:00");
        is("from=2026-08-01T14%3A20", "UTC", "08-01T14:20", "08-01T14:25");
        is("to=2026-07-30T12:00&last=1h", "UTC", "07-30T11:00", "07-30T12:00");
        // What has not come yet is not shown.
        is("from=2026-08-01&to=2026-08-09", "UTC", "08-01T00:00", "08-01T14:25");
    }

    #[test]
    fn what_cannot_be_shown_says_why() {
        let error = |query| period(query, "UTC").unwrap_err();
        assert_eq!(error("from=2026-07-30T12:00&to=2026-07-30T11:00"), RangeError::Empty);
        assert_eq!(error("from=2026-07-30T12:00&to=2026-07-30T12:00"), RangeError::Empty);
        assert_eq!(error("from=2026-08-02"), RangeError::Future);
        assert_eq!(error("from=2030-01-01&to=2031-01-01"), RangeError::Future);
        assert_eq!(error("from=2024-07-01&to=2026-08-01"), RangeError::TooLong);
        assert_eq!(RangeError::Empty.text(Language::En).split(':').next(), Some("to"));
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        let error = |query: &str| UrlState::parse(query).unwrap_err().parameter();
        for text in
            ["yesterday", "2026-02-30", "2026-07-30T25:00", "1926-07-30", "9999-01-01T00:00:00Z"]
        {
            assert_eq!(error(&format!("from={text}")), "from", "{text}");
            assert_eq!(error(&format!("to={text}")), "to", "{text}");
        }
        assert_eq!(error("last=8h"), "last");
    }

    #[test]
    fn a_period_survives_its_url() {
        let at = |text| Timestamp::parse_iso(text).unwrap();
        let period = Period::new(at("2026-07-30T12:00:01.500Z"), at("2026-07-30T12:00:31.000Z"));
        let state = RangeState::between(period);
        let zone = Zone::parse("America/Los_Angeles").unwrap();
        let read = state.period(zone, at(NOW)).unwrap();
        assert_eq!(read, Period::new(at("2026-07-30T12:00:01Z"), period.end));
    }
}
