//! Every URL of the interface, in one place. The whole state of a page is in its URL: language,
//! zone, week, range, and whether it refreshes itself.

mod range;

pub use range::{Edge, Last, RANGE_MS_MAX, RANGE_MS_MIN, RangeError, RangeState};

use std::fmt::Write as _;

use leasewatch_core::time::{DAY_MS, HOUR_MS, Period, Timestamp, Zone};

use crate::format;
use crate::i18n::Language;

/// Route patterns for the router; `{node}` is a node's id.
pub mod pattern {
    /// The overview.
    pub const OVERVIEW: &str = "/";
    /// The overview's view struct.
    pub const OVERVIEW_JSON: &str = "/overview.json";
    /// A node.
    pub const NODE: &str = "/nodes/{node}";
    /// A node's view struct.
    pub const NODE_JSON: &str = "/nodes/{node}/node.json";
    /// A GPU of a node; `{slot}` is its number there.
    pub const GPU: &str = "/nodes/{node}/gpus/{slot}";
    /// A GPU's view struct.
    pub const GPU_JSON: &str = "/nodes/{node}/gpus/{slot}/gpu.json";
    /// The series of a GPU's page as CSV; the query is the page's.
    pub const READINGS_CSV: &str = "/nodes/{node}/gpus/{slot}/readings.csv";
    /// The form that uploads an old log, and where it is sent.
    pub const IMPORT: &str = "/import";
    /// One import.
    pub const IMPORT_RUN: &str = "/imports/{import}";
    /// An import's view struct.
    pub const IMPORT_RUN_JSON: &str = "/imports/{import}/import.json";
    /// Hour records as CSV; query `from`, `to` (local dates, both inside), `tz`, `node`, `bom`.
    pub const HOURS_CSV: &str = "/hours.csv";
    /// Live values as server-sent events; query `lang`.
    pub const LIVE: &str = "/live.sse";
    /// A file of [`crate::assets`].
    pub const ASSET: &str = "/assets/{file}";
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// The overview.
    Overview,
    /// The node with this id.
    Node(String),
    /// A GPU of a node.
    Gpu {
        /// The node's id.
        node: String,
        /// The GPU's number within the node.
        slot: u16,
    },
    /// The form that uploads an old log.
    Import,
    /// The import with this id.
    ImportRun(String),
    /// Anything else that was asked for, as its path; only an error page stands there.
    Other(String),
}

/// What a URL's query says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UrlState {
    /// The language, if chosen.
    pub language: Option<Language>,
    /// The zone, if chosen.
    pub zone: Option<Zone>,
    /// First day of the week that a node page shows, as `YYYY-MM-DD`, if chosen.
    pub week: Option<String>,
    /// The stretch that a GPU's page shows.
    pub range: RangeState,
    /// True when the page does not refresh itself.
    pub paused: bool,
}

/// A page with its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The page.
    pub route: Route,
    /// Its state.
    pub state: UrlState,
}

/// A parameter of a query that cannot be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueryError {
    /// `lang` is not a language of the interface.
    Language,
    /// `tz` is not an IANA zone.
    Zone,
    /// `week` is not a date.
    Week,
    /// `from` is not a time.
    From,
    /// `to` is not a time.
    To,
    /// `last` is not one of [`Last::ALL`].
    Last,
    /// `refresh` is not `on` or `off`.
    Refresh,
}

impl QueryError {
    /// The parameter's name.
    #[must_use]
    pub fn parameter(self) -> &'static str {
        match self {
            Self::Language => "lang",
            Self::Zone => "tz",
            Self::Week => "week",
            Self::From => "from",
            Self::To => "to",
            Self::Last => "last",
            Self::Refresh => "refresh",
        }
    }
}

impl UrlState {
    /// Reads a query such as `lang=zh-CN&tz=Asia%2FShanghai`. Empty values count as absent, other
    /// parameters are ignored, the last of equals wins.
    ///
    /// # Errors
    /// [`QueryError`] names the parameter that cannot be understood.
    pub fn parse(query: &str) -> Result<Self, QueryError> {
        let mut state = Self::default();
        for pair in query.split('&') {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decode(value);
            if value.is_empty() {
                continue;
            }
            match name {
                "lang" => {
                    state.language = Some(Language::from_tag(&value).ok_or(QueryError::Language)?);
                }
                "tz" => state.zone = Some(Zone::parse(&value).map_err(|_| QueryError::Zone)?),
                "week" => {
                    local_midnight(&value, Zone::UTC).ok_or(QueryError::Week)?;
                    state.week = Some(value);
                }
                "from" | "to" | "last" => state.range.read(name, &value)?,
                "refresh" => {
                    state.paused = match value.as_str() {
                        "on" => false,
                        "off" => true,
                        _ => return Err(QueryError::Refresh),
                    };
                }
                _ => {}
            }
        }
        Ok(state)
    }

    fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs = Vec::new();
        pairs.extend(self.language.map(|language| ("lang", language.tag().to_owned())));
        pairs.extend(self.zone.map(|zone| ("tz", zone.name().to_owned())));
        pairs.extend(self.week.clone().map(|week| ("week", week)));
        pairs.extend(self.range.pairs());
        pairs.extend(self.paused.then(|| ("refresh", "off".to_owned())));
        pairs
    }
}

impl Address {
    /// The URL, relative to the host.
    #[must_use]
    pub fn href(&self) -> String {
        with_query(self.path(), &self.state.pairs())
    }

    /// The path without query, for a form's action.
    #[must_use]
    pub fn path(&self) -> String {
        match &self.route {
            Route::Overview => pattern::OVERVIEW.to_owned(),
            Route::Node(id) => pattern::NODE.replace("{node}", &encode(id)),
            Route::Gpu { node, slot } => of_gpu(pattern::GPU, node, *slot),
            Route::Import => pattern::IMPORT.to_owned(),
            Route::ImportRun(id) => pattern::IMPORT_RUN.replace("{import}", &encode(id)),
            Route::Other(path) => other_path(path),
        }
    }

    /// The same page as JSON, if it has a view struct.
    #[must_use]
    pub fn json(&self) -> Option<String> {
        let path = match &self.route {
            Route::Overview => pattern::OVERVIEW_JSON.to_owned(),
            Route::Node(id) => pattern::NODE_JSON.replace("{node}", &encode(id)),
            Route::Gpu { node, slot } => of_gpu(pattern::GPU_JSON, node, *slot),
            Route::ImportRun(id) => pattern::IMPORT_RUN_JSON.replace("{import}", &encode(id)),
            Route::Import | Route::Other(_) => return None,
        };
        Some(with_query(path, &self.state.pairs()))
    }

    /// The series of a GPU's page as CSV.
    #[must_use]
    pub fn readings_csv(&self) -> Option<String> {
        let Route::Gpu { node, slot } = &self.route else { return None };
        Some(with_query(of_gpu(pattern::READINGS_CSV, node, *slot), &self.state.pairs()))
    }

    /// Parameters that a form over `fields`, separated by spaces, has to keep, as hidden inputs.
    #[must_use]
    pub fn kept(&self, fields: &str) -> Vec<(&'static str, String)> {
        let mut pairs = self.state.pairs();
        pairs.retain(|(name, _)| fields.split(' ').all(|field| field != *name));
        pairs
    }

    /// The same page in another language.
    #[must_use]
    pub fn in_language(&self, language: Language) -> Self {
        let state = UrlState { language: Some(language), ..self.state.clone() };
        Self { route: self.route.clone(), state }
    }

    /// The same page over another week; `None` for the current one.
    #[must_use]
    pub fn in_week(&self, week: Option<String>) -> Self {
        let state = UrlState { week, ..self.state.clone() };
        Self { route: self.route.clone(), state }
    }

    /// The same page over another range.
    #[must_use]
    pub fn in_range(&self, range: RangeState) -> Self {
        let state = UrlState { range, ..self.state.clone() };
        Self { route: self.route.clone(), state }
    }

    /// The same page with or without refreshing itself.
    #[must_use]
    pub fn paused(&self, paused: bool) -> Self {
        let state = UrlState { paused, ..self.state.clone() };
        Self { route: self.route.clone(), state }
    }

    /// Another page with the same language and zone.
    #[must_use]
    pub fn to(&self, route: Route) -> Self {
        let state = UrlState { week: None, range: RangeState::default(), ..self.state.clone() };
        Self { route, state }
    }
}

/// Hour records of local days, both inside, of one node or of all.
#[must_use]
pub fn hours_csv(from: &str, to: &str, zone: Zone, node: Option<&str>) -> String {
    let mut pairs = vec![("from", from.to_owned()), ("to", to.to_owned())];
    pairs.push(("tz", zone.name().to_owned()));
    pairs.extend(node.map(|node| ("node", node.to_owned())));
    with_query(pattern::HOURS_CSV.to_owned(), &pairs)
}

/// The parameter of the form that names an import whose fields it begins with.
pub const IMPORT_AGAIN: &str = "again";

/// The form with the fields of an import, in the language and zone of `here`.
#[must_use]
pub fn import_again(here: &Address, id: &str) -> String {
    let mut pairs = here.to(Route::Import).state.pairs();
    pairs.push((IMPORT_AGAIN, id.to_owned()));
    with_query(pattern::IMPORT.to_owned(), &pairs)
}

/// Live values in a language.
#[must_use]
pub fn live(language: Language) -> String {
    with_query(pattern::LIVE.to_owned(), &[("lang", language.tag().to_owned())])
}

/// Seven local days: from the chosen day, or the last seven up to today.
#[must_use]
pub fn week(chosen: Option<&str>, zone: Zone, now: Timestamp) -> Option<Period> {
    let start = match chosen {
        Some(date) => local_midnight(date, zone)?,
        None => shifted_midnight(zone.day(now)?.start, -6, zone)?,
    };
    Some(Period::new(start, shifted_midnight(start, 7, zone)?))
}

/// First day of the week `weeks` later, as `YYYY-MM-DD`.
#[must_use]
pub fn week_from(period: Period, weeks: i64, zone: Zone) -> Option<String> {
    let start = shifted_midnight(period.start, weeks.checked_mul(7)?, zone)?;
    Some(format::iso_date(start, zone))
}

/// The first instant of a local date `YYYY-MM-DD`.
#[must_use]
pub fn local_midnight(date: &str, zone: Zone) -> Option<Timestamp> {
    let as_utc = Timestamp::parse_iso(&format!("{date}T00:00:00Z"))?;
    zone.instant_of_local_ms(as_utc.0)
}

/// Local midnight some days from another. Noon is taken as the start, because days of 23 or 25
/// hours would otherwise end on a neighbour.
fn shifted_midnight(midnight: Timestamp, days: i64, zone: Zone) -> Option<Timestamp> {
    let near = midnight.plus_ms(days.checked_mul(DAY_MS)?.checked_add(12 * HOUR_MS)?);
    Some(zone.day(near)?.start)
}

fn with_query(path: String, pairs: &[(&str, String)]) -> String {
    let mut url = path;
    for (index, (name, value)) in pairs.iter().enumerate() {
        let mark = if index == 0 { '?' } else { '&' };
        // Writing to a string cannot fail.
        let _ = write!(url, "{mark}{name}={}", encode(value));
    }
    url
}

fn of_gpu(pattern: &str, node: &str, slot: u16) -> String {
    pattern.replace("{node}", &encode(node)).replace("{slot}", &slot.to_string())
}

/// A path that was asked for, as a link to itself: one leading slash, so that it can never name
/// another host, and no more than 200 characters.
fn other_path(path: &str) -> String {
    let parts = path.split('/').filter(|part| !part.is_empty());
    let encoded: String = parts.map(|part| format!("/{}", encode(part))).collect();
    if encoded.is_empty() || encoded.len() > 200 { "/".to_owned() } else { encoded }
}

fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~' | b':') {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Percent and plus decoding; broken escapes stay as they are, broken UTF-8 is replaced.
fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let escape = bytes.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
        match (byte, escape.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
            (b'%', Some(value)) => {
                out.push(value);
                at += 3;
                continue;
            }
            (b'+', _) => out.push(b' '),
            _ => out.push(*byte),
        }
        at += 1;
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_survives_its_url() {
        let state = UrlState {
            language: Some(Language::ZhCn),
            zone: Zone::parse("America/Argentina/Buenos_Aires").ok(),
            week: Some("2026-07-27".to_owned()),
            range: RangeState::last(Last::Week),
            paused: true,
        };
        let address = Address { route: Route::Node("ab".repeat(16)), state: state.clone() };
        let href = address.href();
        let (path, query) = href.split_once('?').unwrap();
        assert_eq!(path, format!("/nodes/{}", "ab".repeat(16)));
        assert_eq!(UrlState::parse(query), Ok(state));
    }

    #[test]
    fn what_cannot_be_understood_is_named() {
        let error = |query| UrlState::parse(query).unwrap_err().parameter();
        assert_eq!(error("lang=xx"), "lang");
        assert_eq!(error("tz=Mars%2FBase"), "tz");
        assert_eq!(error("week=2026-02-30"), "week");
        assert_eq!(error("refresh=maybe"), "refresh");
        assert_eq!(UrlState::parse("lang=&tz=&other=1&&%zz=%"), Ok(UrlState::default()));
    }

    #[test]
    fn a_hostile_path_stays_on_this_host() {
        let address = |path: &str| Address {
            route: Route::Other(path.to_owned()),
            state: UrlState::default(),
        };
        assert_eq!(address("//evil.example/x").href(), "/evil.example/x");
        assert_eq!(address("/\"><script>").href(), "/%22%3E%3Cscript%3E");
        assert_eq!(address("").href(), "/");
        assert_eq!(
            Address { route: Route::Node("../x?y".into()), state: UrlState::default() }.href(),
            "/nodes/..%2Fx%3Fy"
        );
    }

    #[test]
    fn weeks_follow_the_local_calendar() {
        let pacific = Zone::parse("America/Los_Angeles").unwrap();
        let now = Timestamp::parse_iso("2026-03-10T18:00:00Z").unwrap();
        let current = week(None, pacific, now).unwrap();
        assert_eq!(format::iso_date(current.start, pacific), "2026-03-04");
        assert_eq!(current.whole_hours(), Some(7 * 24 - 1));
        assert_eq!(week_from(current, -1, pacific).as_deref(), Some("2026-02-25"));
        assert_eq!(week(Some("2026-03-04"), pacific, now), Some(current));
        assert_eq!(week(Some("yesterday"), pacific, now), None);
    }
}
