//! Every URL of the interface, in one place. The whole state of a page is in its URL: language,
//! zone, week, range, and whether it refreshes itself.

mod bill;
mod claim;
mod costs;
mod escape;
mod lease;
mod other;
pub mod pattern;
mod query_error;
mod range;

pub use bill::{BillPart, bill, contract, of_money, offers};
pub use costs::{CostGroup, CostsState, month_text};
pub use lease::{LeasePart, lease_action};
pub use query_error::QueryError;
pub use range::{Edge, Last, RANGE_MS_MAX, RANGE_MS_MIN, RangeError, RangeState};

use std::fmt::Write as _;

use leasewatch_core::time::{DAY_MS, HOUR_MS, Period, Timestamp, Zone};

use crate::format;
use crate::i18n::Language;
use claim::of_claim;
use escape::{decode, encode};
use lease::of_lease;

/// Characters of what a table is looked through by.
const FIND_CHARS: usize = 120;

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
    /// Where somebody says who they are.
    SignIn,
    /// The address that works once with this secret.
    Link(String),
    /// A user's own page.
    Account,
    /// Who there is.
    Users,
    /// Which tenants there are.
    Tenants,
    /// Who did what.
    Audit,
    /// Where the money goes.
    Costs,
    /// Where join strings are made.
    Enroll,
    /// A join token of a tenant.
    EnrollToken {
        /// The tenant's public name.
        tenant: String,
        /// The token's number.
        token: i32,
    },
    /// What is rented.
    Leases,
    /// The form of a new lease.
    LeaseNew,
    /// Where tables of leases are sent.
    LeasesImport,
    /// A lease, or a page about it.
    Lease {
        /// The tenant's public name.
        tenant: String,
        /// The lease's.
        lease: String,
        /// Which of its pages.
        part: LeasePart,
    },
    /// What was claimed.
    Claims,
    /// The claim of this number.
    Claim(i32),
    /// A page about bills.
    Bill(BillPart),
    /// Price tables, and what they offer.
    Prices,
    /// SLA profiles, and the form of an own contract.
    Contracts,
    /// The labels of the node with this id.
    NodeLabels(String),
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
    /// What the page of costs shows.
    pub costs: CostsState,
    /// True when the page does not refresh itself.
    pub paused: bool,
    /// What rows of a table are looked for by, if by anything.
    pub find: Option<String>,
    /// The column that a table is sorted by, from the end with `-` before it.
    pub sort: Option<String>,
    /// The only action that the audit log shows, by name.
    pub action: Option<String>,
}

/// A page with its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The page.
    pub route: Route,
    /// Its state.
    pub state: UrlState,
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
                "action" => {
                    let is_name = value.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
                    state.action = Some(value).filter(|name| is_name && name.len() <= 40);
                    state.action.as_ref().ok_or(QueryError::Action)?;
                }
                "from" | "to" | "last" => state.range.read(name, &value)?,
                "month" | "group" | "what_if" => state.costs.read(name, &value)?,
                "q" => state.find = Some(value.chars().take(FIND_CHARS).collect()),
                "sort" => state.sort = Some(value.chars().take(FIND_CHARS).collect()),
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
        pairs.extend(self.costs.pairs());
        pairs.extend(self.paused.then(|| ("refresh", "off".to_owned())));
        pairs.extend(self.find.clone().map(|find| ("q", find)));
        pairs.extend(self.sort.clone().map(|sort| ("sort", sort)));
        pairs.extend(self.action.clone().map(|action| ("action", action)));
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
            Route::SignIn => pattern::SIGN_IN.to_owned(),
            Route::Link(secret) => pattern::LINK.replace("{secret}", &encode(secret)),
            Route::Account => pattern::ACCOUNT.to_owned(),
            Route::Users => pattern::USERS.to_owned(),
            Route::Tenants => pattern::TENANTS.to_owned(),
            Route::Audit => pattern::AUDIT.to_owned(),
            Route::Costs => pattern::COSTS.to_owned(),
            Route::Enroll => pattern::ENROLL.to_owned(),
            Route::EnrollToken { tenant, token } => pattern::ENROLL_TOKEN
                .replace("{tenant}", &encode(tenant))
                .replace("{token}", &token.to_string()),
            Route::Leases => pattern::LEASES.to_owned(),
            Route::LeaseNew => pattern::LEASE_NEW.to_owned(),
            Route::LeasesImport => pattern::LEASES_IMPORT.to_owned(),
            Route::Lease { tenant, lease, part } => of_lease(part.pattern(), tenant, lease),
            Route::Claims => pattern::CLAIMS.to_owned(),
            Route::Claim(number) => of_claim(pattern::CLAIM, *number),
            Route::Bill(part) => part.path(),
            Route::Prices => pattern::PRICES.to_owned(),
            Route::Contracts => pattern::CONTRACTS.to_owned(),
            Route::NodeLabels(id) => pattern::NODE_LABELS.replace("{node}", &encode(id)),
            Route::Other(path) => other_path(path),
        }
    }

    /// The same page as JSON, if it has a view struct.
    #[must_use]
    pub fn json(&self) -> Option<String> {
        let path = match &self.route {
            Route::Overview => pattern::OVERVIEW_JSON.to_owned(),
            Route::Costs => pattern::COSTS_JSON.to_owned(),
            Route::Node(id) => pattern::NODE_JSON.replace("{node}", &encode(id)),
            Route::Gpu { node, slot } => of_gpu(pattern::GPU_JSON, node, *slot),
            Route::Tenants => pattern::TENANTS_JSON.to_owned(),
            Route::Audit => pattern::AUDIT_JSON.to_owned(),
            Route::ImportRun(id) => pattern::IMPORT_RUN_JSON.replace("{import}", &encode(id)),
            Route::Leases => pattern::LEASES_JSON.to_owned(),
            Route::Claims => pattern::CLAIMS_JSON.to_owned(),
            Route::Claim(number) => of_claim(pattern::CLAIM_JSON, *number),
            Route::Lease { tenant, lease, part: LeasePart::Page } => {
                of_lease(pattern::LEASE_JSON, tenant, lease)
            }
            Route::Bill(part) => part.json()?,
            Route::Prices => pattern::PRICES_JSON.to_owned(),
            Route::Contracts => pattern::CONTRACTS_JSON.to_owned(),
            Route::Lease { tenant, lease, part: LeasePart::Told } => {
                of_lease(pattern::LEASE_TOLD_JSON, tenant, lease)
            }
            Route::Import
            | Route::LeaseNew
            | Route::LeasesImport
            | Route::Lease { .. }
            | Route::NodeLabels(_)
            | Route::SignIn
            | Route::Link(_)
            | Route::Account
            | Route::Users
            | Route::Enroll
            | Route::EnrollToken { .. }
            | Route::Other(_) => return None,
        };
        Some(with_query(path, &self.state.pairs()))
    }

    /// The series of a GPU's page as CSV.
    #[must_use]
    pub fn readings_csv(&self) -> Option<String> {
        let Route::Gpu { node, slot } = &self.route else { return None };
        Some(with_query(of_gpu(pattern::READINGS_CSV, node, *slot), &self.state.pairs()))
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

/// The form that asks who somebody is, which leads to `next` afterwards.
#[must_use]
pub fn sign_in(next: &str) -> String {
    with_query(pattern::SIGN_IN.to_owned(), &[("next", next.to_owned())])
}

/// A path of this server with its query, from what somebody sent; the overview for everything that
/// could lead elsewhere.
#[must_use]
pub fn next(text: &str) -> &str {
    let is_path = text.starts_with('/') && !text.starts_with("//") && text.len() <= 1_000;
    let is_plain = text.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
    if is_path && is_plain { text } else { pattern::OVERVIEW }
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

/// The audit log as `here` shows it, at one of its patterns; older than a number, if there is one.
#[must_use]
pub fn audit(here: &Address, pattern: &str, before: Option<i64>) -> String {
    let mut pairs = here.state.pairs();
    pairs.extend(before.map(|number| ("before", number.to_string())));
    with_query(pattern.to_owned(), &pairs)
}

/// Where a node's keys are revoked, in the language and zone of `here`.
#[must_use]
pub fn node_revoke(here: &Address, id: &str) -> String {
    with_query(pattern::NODE_REVOKE.replace("{node}", &encode(id)), &here.state.pairs())
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

/// Names and values of a query or a form, decoded, in their order.
#[must_use]
pub fn pairs(text: &str) -> Vec<(String, String)> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    let pairs = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
    pairs.map(|(name, value)| (decode(name), decode(value))).collect()
}

/// A path that was asked for, as a link to itself: one leading slash, so that it can never name
/// another host, and no more than 200 characters.
fn other_path(path: &str) -> String {
    let parts = path.split('/').filter(|part| !part.is_empty());
    let encoded: String = parts.map(|part| format!("/{}", encode(part))).collect();
    if encoded.is_empty() || encoded.len() > 200 { "/".to_owned() } else { encoded }
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
            costs: CostsState { what_if_pct: Some(70), ..CostsState::default() },
            paused: true,
            find: Some("h100 team=nlp".to_owned()),
            sort: Some("-price".to_owned()),
            action: Some("signed_in".to_owned()),
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
        assert_eq!(error("action=%3Cb%3E"), "action");
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
    fn signing_in_leads_to_a_page_of_this_server_only() {
        for own in ["/", "/nodes/ab?tz=Asia%2FShanghai&lang=en", "/account"] {
            assert_eq!(next(own), own);
        }
        let long = format!("/{}", "x".repeat(1_000));
        for foreign in [
            "",
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "/a\r\nSet-Cookie: a",
            "/\tx",
            "javascript:1",
            &long,
        ] {
            assert_eq!(next(foreign), "/", "{foreign}");
        }
        assert_eq!(sign_in("/?a=1&b=2"), "/sign-in?next=%2F%3Fa%3D1%26b%3D2");
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
