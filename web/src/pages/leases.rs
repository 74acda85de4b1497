//! What is rented: one row a lease, found by words and sorted by a column.

use askama::Template;
use leasewatch_core::lease::PriceUnit;
use leasewatch_core::money::Money;
use leasewatch_core::segment::Origin;
use leasewatch_core::time::{DAY_MS, Timestamp};
use serde::Serialize;

use crate::context::{Context, SUGGESTED_ZONES};
use crate::deadline::DeadlineLine;
use crate::format;
use crate::i18n::{Language, Text, phrase};
use crate::path::{LeasePart, Route, pattern};
use crate::wire;

/// Everything that the page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeasesView {
    /// Those that were looked for, in their order.
    pub leases: Vec<LeaseLine>,
    /// True when there are none at all, whatever was looked for.
    pub is_empty: bool,
    /// Whether tenants are told apart.
    pub shows_tenants: bool,
    /// Whether who asks may write one down.
    pub may_change: bool,
}

/// A lease as a row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeaseLine {
    /// The tenant's public name.
    pub tenant: String,
    /// Its public name.
    pub name: String,
    /// Where it stands.
    pub state: LeaseState,
    /// The provider's public name.
    pub provider: String,
    /// Where the data of its GPUs comes from; `None` while none is assigned.
    #[serde(serialize_with = "wire::maybe_origin")]
    pub origin: Option<Origin>,
    /// What is rented, in the provider's words.
    pub product: String,
    /// The model as sold.
    pub gpu_model: String,
    /// GPUs that are assigned now, or were last.
    pub gpus_assigned: i64,
    /// GPUs that are paid for.
    pub gpus_contracted: i64,
    /// What holds now, or held last.
    pub price: Option<PriceNow>,
    /// Contracted from here.
    #[serde(serialize_with = "wire::at")]
    pub starts_at: Timestamp,
    /// Until here; `None` while it runs.
    #[serde(serialize_with = "wire::maybe_at")]
    pub ends_at: Option<Timestamp>,
    /// When the provider releases it.
    #[serde(serialize_with = "wire::maybe_at")]
    pub auto_release_at: Option<Timestamp>,
    /// `ID@VERSION` of the clauses; `None`: own objectives.
    pub profile: Option<String>,
    /// Names and values.
    pub labels: Vec<(String, String)>,
    /// Contracted in its billing sessions alone.
    pub is_pay_as_you_go: bool,
    /// The nearest deadline of a claim.
    pub deadline: Option<DeadlineLine>,
}

/// A price.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PriceNow {
    /// A decimal, without tax.
    pub amount: String,
    /// Its currency.
    pub currency: String,
    /// For what.
    pub unit: PriceUnit,
}

/// Where a lease stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LeaseState {
    /// It has not begun.
    Planned,
    /// It runs.
    Running,
    /// It runs, and no billing session does.
    Stopped,
    /// It is over.
    Ended,
}

impl LeaseState {
    /// Its name in JSON, CSV and filters.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Planned => "planned",
            Self::Running => "running",
            Self::Stopped => "stopped",
            Self::Ended => "ended",
        }
    }

    pub(super) fn text(self) -> Text {
        match self {
            Self::Planned => Text::LeasePlanned,
            Self::Running => Text::LeaseRunning,
            Self::Stopped => Text::LeaseStopped,
            Self::Ended => Text::LeaseEnded,
        }
    }
}

impl PriceNow {
    /// The price that holds at an instant; the first one before any does.
    #[must_use]
    pub fn of(prices: &[leasewatch_core::lease::Price], at: Timestamp) -> Option<Self> {
        let begun = prices.iter().rev().find(|price| price.from <= at);
        begun.or(prices.first()).map(|price| Self::new(price.amount, price.unit))
    }

    pub(super) fn new(amount: Money, unit: PriceUnit) -> Self {
        let (currency, amount) = (amount.currency.to_string(), amount.amount_text());
        Self { amount, currency, unit }
    }

    pub(super) fn words(&self, language: Language) -> String {
        match self.unit {
            PriceUnit::GpuHour => {
                phrase::lease_per_gpu_hour(language, &self.amount, &self.currency)
            }
            PriceUnit::Month => phrase::lease_per_month(language, &self.amount, &self.currency),
        }
    }
}

impl LeaseLine {
    /// `team=nlp; project=x`.
    pub(crate) fn labels_text(&self) -> String {
        let one = |(name, value): &(String, String)| format!("{name}={value}");
        self.labels.iter().map(one).collect::<Vec<_>>().join("; ")
    }

    fn holds(&self, word: &str) -> bool {
        let texts = [&self.tenant, &self.name, &self.provider, &self.product, &self.gpu_model];
        let all = texts.into_iter().cloned().chain([self.labels_text()]);
        let mut all = all.chain([self.state.name().to_owned()]);
        all.any(|text| text.to_lowercase().contains(word))
    }
}

/// Columns that the table can be sorted by, with their heads.
const SORTS: [(&str, Text); 6] = [
    ("name", Text::LeaseName),
    ("state", Text::LeaseState),
    ("provider", Text::WordProvider),
    ("gpus", Text::LeaseGpus),
    ("price", Text::LeasePrice),
    ("start", Text::LeaseTerm),
];

/// Leases that hold every word of `find`, sorted by a column, from its end with `-` before it;
/// `None` when there is no such column.
#[must_use]
pub fn arranged(
    mut lines: Vec<LeaseLine>,
    find: Option<&str>,
    sort: Option<&str>,
) -> Option<Vec<LeaseLine>> {
    let words = find.unwrap_or_default().to_lowercase();
    lines.retain(|line| words.split_whitespace().all(|word| line.holds(word)));
    let sort = sort.unwrap_or("name");
    let (column, is_down) = sort.strip_prefix('-').map_or((sort, false), |column| (column, true));
    lines.sort_by(|a, b| (&a.name, &a.tenant).cmp(&(&b.name, &b.tenant)));
    match column {
        "name" => {}
        "state" => lines.sort_by_key(|line| line.state.name()),
        "provider" => lines.sort_by(|a, b| a.provider.cmp(&b.provider)),
        "gpus" => lines.sort_by_key(|line| line.gpus_contracted),
        // Amounts of two currencies are not compared.
        "price" => lines.sort_by_key(|line| line.price.as_ref().map(price_key)),
        "start" => lines.sort_by_key(|line| line.starts_at),
        _ => return None,
    }
    if is_down {
        lines.reverse();
    }
    Some(lines)
}

fn price_key(price: &PriceNow) -> (String, &'static str, i128) {
    let currency = price.currency.parse();
    let money = currency.ok().and_then(|currency| Money::parse(&price.amount, currency).ok());
    (price.currency.clone(), price.unit.name(), money.map_or(0, |money| money.nanos))
}

impl LeasesView {
    /// A lease in each state.
    #[must_use]
    pub fn sample() -> Self {
        let now = super::sample::NOW;
        let states =
            [LeaseState::Planned, LeaseState::Running, LeaseState::Stopped, LeaseState::Ended];
        let line = |(number, state): (i64, LeaseState)| LeaseLine {
            tenant: "default".to_owned(),
            name: format!("h100-{number}"),
            state,
            provider: "acme".to_owned(),
            origin: (number == 2).then_some(Origin::Simulated),
            product: "8x H100 SXM5".to_owned(),
            gpu_model: "H100".to_owned(),
            gpus_assigned: 2 * number,
            gpus_contracted: 8,
            price: (number > 0).then(|| PriceNow {
                amount: "2.49".to_owned(),
                currency: "USD".to_owned(),
                unit: if number == 3 { PriceUnit::Month } else { PriceUnit::GpuHour },
            }),
            starts_at: now.plus_ms(-number * 10 * DAY_MS),
            ends_at: (state == LeaseState::Ended).then_some(now),
            auto_release_at: (number == 1).then(|| now.plus_ms(DAY_MS)),
            profile: (number == 1).then(|| "acme-standard@2".to_owned()),
            labels: vec![("team".to_owned(), "nlp".to_owned())],
            is_pay_as_you_go: state == LeaseState::Stopped,
            deadline: DeadlineLine::samples().into_iter().find(|_| number == 1),
        };
        Self {
            leases: (0..).zip(states).map(line).collect(),
            is_empty: false,
            shows_tenants: true,
            may_change: true,
        }
    }

    /// Nothing is written down yet.
    #[must_use]
    pub fn empty_sample() -> Self {
        Self { leases: Vec::new(), is_empty: true, ..Self::sample() }
    }
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &LeasesView, context: &Context) -> Result<String, askama::Error> {
    Ok(super::inert(&Page { cx: context, view }.render()?))
}

#[derive(Template)]
#[template(path = "leases.html", whitespace = "minimize")]
struct Page<'a> {
    cx: &'a Context,
    view: &'a LeasesView,
}

/// The head of a column that sorts.
struct Head {
    words: &'static str,
    href: String,
    sign: &'static str,
    /// The order in which the table is, for screen readers.
    order: &'static str,
}

impl Page<'_> {
    fn title(&self) -> &'static str {
        self.cx.t(Text::LeaseTitle)
    }

    fn action(&self) -> &'static str {
        pattern::LEASES
    }

    fn find(&self) -> &str {
        self.cx.here.state.find.as_deref().unwrap_or_default()
    }

    fn new_lease(&self) -> String {
        self.cx.here.to(Route::LeaseNew).href()
    }

    fn import_table(&self) -> String {
        self.cx.here.to(Route::LeasesImport).href()
    }

    fn apply_command(&self) -> &'static str {
        "leasewatch-server apply -f leases.toml"
    }

    fn csv(&self) -> String {
        self.cx.here.leases_csv()
    }

    fn lease(&self, line: &LeaseLine) -> String {
        let (tenant, lease) = (line.tenant.clone(), line.name.clone());
        self.cx.here.to(Route::Lease { tenant, lease, part: LeasePart::Page }).href()
    }

    fn head(&self, column: &str) -> Head {
        let words = SORTS.iter().find(|(name, _)| *name == column);
        let now = self.cx.here.state.sort.as_deref().unwrap_or("name");
        let down = format!("-{column}");
        let (next, sign, order) = match now {
            now if now == column => (down.as_str(), "↑", "ascending"),
            now if now == down => (column, "↓", "descending"),
            _ => (column, "", "none"),
        };
        let words = words.map_or("", |(_, text)| self.cx.t(*text));
        Head { words, href: self.cx.here.sorted(next).href(), sign, order }
    }

    fn gpus(&self, line: &LeaseLine) -> String {
        let (assigned, contracted) = (line.gpus_assigned, line.gpus_contracted);
        phrase::lease_gpus_of(self.cx.language, assigned, contracted)
    }

    fn price(&self, line: &LeaseLine) -> Option<String> {
        line.price.as_ref().map(|price| price.words(self.cx.language))
    }

    fn term(&self, line: &LeaseLine) -> String {
        term(line.starts_at, line.ends_at, self.cx)
    }
}

/// `1 Aug 2026 to 1 Sep 2026`, or since when.
pub(super) fn term(start: Timestamp, end: Option<Timestamp>, cx: &Context) -> String {
    let day = |at| format::local_date(at, cx.zone, cx.language);
    match end {
        Some(end) => phrase::lease_from_to(cx.language, day(end), day(start)),
        None => phrase::lease_since(cx.language, day(start)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(find: &str, sort: &str) -> Vec<String> {
        let lines = arranged(LeasesView::sample().leases, Some(find), Some(sort)).unwrap();
        lines.into_iter().map(|line| line.name).collect()
    }

    #[test]
    fn leases_are_found_by_all_words_and_sorted_by_a_column() {
        assert_eq!(names("", "name"), ["h100-0", "h100-1", "h100-2", "h100-3"]);
        assert_eq!(names("H100 team=NLP running", "name"), ["h100-1"]);
        assert_eq!(names("acme nothing", "name"), [""; 0]);
        assert_eq!(names("", "-start"), ["h100-0", "h100-1", "h100-2", "h100-3"]);
        assert_eq!(names("", "start")[0], "h100-3");
        // Without a price first, and of one unit before the other.
        assert_eq!(names("", "price"), ["h100-0", "h100-1", "h100-2", "h100-3"]);
        assert!(arranged(Vec::new(), None, Some("colour")).is_none());
    }
}
