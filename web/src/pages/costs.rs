//! Where the money goes: paid time by what it was used for, and what another utilization would do.
//!
//! Currencies are never added: each has lines of its own.

mod sample;

use askama::Template;
use leasewatch_core::cost::{Grain, Part};
use leasewatch_core::money::{Currency, Money};
use leasewatch_core::segment::Origin;
use serde::{Serialize, Serializer};

use crate::context::{Context, SUGGESTED_ZONES};
use crate::format::{self, Quantity};
use crate::i18n::{Language, Text, phrase};
use crate::markup::{Markup, Writer};
use crate::pages::reliability::{RateCell, StragglerView, figures, named, slow};
use crate::path::{Address, CostGroup, CostsState, Route, month_text};
use crate::wire;

/// Everything that the page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CostsView {
    /// The month, as `YYYY-MM`, in the page's zone and up to now.
    pub month: String,
    /// The months before and after it.
    #[serde(skip)]
    pub beside: ((i32, u32), (i32, u32)),
    /// By what the lines are grouped, as in the URL.
    pub group: String,
    /// The utilization that is asked about, in percent.
    pub what_if_pct: Option<u8>,
    /// One line for each currency.
    pub totals: Vec<CostLine>,
    /// One line for each group and currency.
    pub lines: Vec<CostLine>,
    /// What an hour costs now, in each currency.
    #[serde(serialize_with = "wire::amounts")]
    pub running: Vec<Money>,
    /// GPUs that a smaller one could replace.
    pub hints: Vec<HintLine>,
    /// GPUs that were slower than their peers.
    pub slow: StragglerView,
    /// How many leases there are at all.
    pub leases: i64,
    /// Minutes were looked at; else idle time is not split.
    pub has_minutes: bool,
    /// Names of labels that leases have.
    pub labels: Vec<String>,
}

/// Costs of a group in one currency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CostLine {
    /// The group; empty for a sum.
    pub name: String,
    /// The least trustworthy source of what was measured in it: one simulated hour marks the line.
    /// `None`: nothing was measured.
    #[serde(serialize_with = "wire::maybe_origin")]
    pub origin: Option<Origin>,
    /// What was to be paid by the terms, without tax, fees included.
    #[serde(serialize_with = "amount")]
    pub paid: Money,
    /// Of it, fees that are not for GPUs.
    #[serde(serialize_with = "amount")]
    pub fees: Money,
    /// Of it, GPU time outside contracted time: rounding, and stops that do not end billing.
    #[serde(serialize_with = "amount")]
    pub uncontracted: Money,
    /// Billed milliseconds of leases that have no price; they are in no amount.
    pub unpriced_ms: i64,
    /// Contracted GPU-milliseconds.
    pub contracted_ms: i64,
    /// The same by what it was used for; the costs add up to `paid` less fees and `uncontracted`.
    pub parts: Vec<PartCell>,
    /// Booked as idle although it was measured as busy.
    pub phantom_pct_ms: i64,
    /// Looks like jobs that hang.
    pub stall_ms: i64,
    /// Throttled for a reason that the provider answers for, at least.
    pub throttled_ms: i64,
    /// Measured on the GPU in the contract.
    pub delivered_pct_ms: i64,
    /// Interruptions that the provider answers for; absent when no node was delivered.
    pub rate: Option<RateCell>,
    /// What an hour of that cost; absent when there was none.
    #[serde(serialize_with = "maybe_amount")]
    pub per_delivered: Option<Money>,
    /// What an effective hour cost; absent when there was none.
    #[serde(serialize_with = "maybe_amount")]
    pub per_effective: Option<Money>,
    /// What would have been saved at the utilization that is asked about; negative: paid more.
    #[serde(serialize_with = "maybe_amount")]
    pub saved: Option<Money>,
}

/// A part of contracted time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PartCell {
    /// Which.
    #[serde(serialize_with = "part_name")]
    pub part: Part,
    /// How much, in percent x milliseconds.
    pub pct_ms: i64,
    /// What it cost.
    #[serde(serialize_with = "amount")]
    pub cost: Money,
}

/// A GPU that a smaller one could replace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HintLine {
    /// The lease.
    pub lease: String,
    /// The node's id and name.
    pub node: String,
    /// See `node`.
    pub node_name: String,
    /// The GPU's number on it.
    pub slot: u16,
    /// The share of memory that its peak stays within, 50 or 60.
    pub need_pct: i64,
    /// The peak.
    pub memory_peak_mib: i64,
    /// Its memory.
    pub memory_total_mib: i64,
    /// The rhythm of its load, in minutes.
    pub period_minutes: i64,
}

fn amount<S: Serializer>(money: &Money, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(money)
}

fn maybe_amount<S: Serializer>(money: &Option<Money>, serializer: S) -> Result<S::Ok, S::Error> {
    money.map(|money| money.to_string()).serialize(serializer)
}

fn part_name<S: Serializer>(part: &Part, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(part.name())
}

impl CostLine {
    /// Nothing, in a currency.
    #[must_use]
    pub fn empty(name: &str, currency: Currency) -> Self {
        let zero = Money::zero(currency);
        Self {
            name: name.to_owned(),
            origin: None,
            paid: zero,
            fees: zero,
            uncontracted: zero,
            unpriced_ms: 0,
            contracted_ms: 0,
            parts: Part::ALL.map(|part| PartCell { part, pct_ms: 0, cost: zero }).into(),
            phantom_pct_ms: 0,
            stall_ms: 0,
            throttled_ms: 0,
            delivered_pct_ms: 0,
            rate: None,
            per_delivered: None,
            per_effective: None,
            saved: None,
        }
    }

    /// One of its parts.
    #[must_use]
    pub fn part(&self, part: Part) -> Option<PartCell> {
        self.parts.iter().find(|cell| cell.part == part).copied()
    }
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &CostsView, context: &Context) -> Result<String, askama::Error> {
    Ok(super::inert(&Page { cx: context, view }.render()?))
}

#[derive(Template)]
#[template(path = "costs.html", whitespace = "minimize")]
struct Page<'a> {
    cx: &'a Context,
    view: &'a CostsView,
}

impl Page<'_> {
    fn title(&self) -> &'static str {
        self.cx.t(Text::CostTitle)
    }

    fn action(&self) -> String {
        self.cx.here.path()
    }

    fn csv(&self) -> String {
        self.cx.here.costs_csv()
    }

    fn at_month(&self, month: (i32, u32)) -> String {
        let costs = CostsState { month: Some(month), ..self.cx.here.state.costs.clone() };
        let state = crate::path::UrlState { costs, ..self.cx.here.state.clone() };
        Address { route: Route::Costs, state }.href()
    }

    fn before(&self) -> (String, String) {
        (self.at_month(self.view.beside.0), month_text(self.view.beside.0))
    }

    fn after(&self) -> (String, String) {
        (self.at_month(self.view.beside.1), month_text(self.view.beside.1))
    }

    /// Values and words of the groups; the present one is chosen.
    fn groups(&self) -> Vec<(String, String, bool)> {
        let plain = CostGroup::PLAIN.into_iter().map(|group| {
            let words = match group {
                CostGroup::Tenant => Text::WordTenant,
                CostGroup::Model => Text::CostModel,
                CostGroup::Day => Text::CostDay,
                CostGroup::Lease | CostGroup::Label(_) => Text::CostLease,
            };
            (group.name(), self.cx.t(words).to_owned())
        });
        let labels = self.view.labels.iter().map(|label| {
            (CostGroup::Label(label.clone()).name(), phrase::cost_label(self.cx.language, label))
        });
        let all = plain.chain(labels);
        all.map(|(value, words)| (value.clone(), words, value == self.view.group)).collect()
    }

    fn money(&self, amount: &Money) -> String {
        format::money(*amount)
    }

    fn maybe(&self, amount: &Option<Money>) -> String {
        amount.map_or_else(|| self.cx.t(Text::MissingNoData).to_owned(), format::money)
    }

    fn hours(&self, ms: &i64) -> String {
        Quantity::gpu_hours_ms(*ms).text(self.cx.language)
    }

    fn part_hours(&self, pct_ms: &i64) -> String {
        self.hours(&(pct_ms / 100))
    }

    fn duration(&self, ms: &i64) -> String {
        Quantity::duration_ms(*ms).text(self.cx.language)
    }

    fn part(&self, part: &Part) -> &'static str {
        self.cx.t(match part {
            Part::Effective => Text::CostEffective,
            Part::Degraded => Text::CostDegraded,
            Part::Waiting => Text::CostWaiting,
            Part::IdleFree => Text::CostIdleFree,
            Part::IdleHeld => Text::CostIdleHeld,
            Part::IdleUnsplit => Text::CostIdleUnsplit,
            Part::Unavailable => Text::CostUnavailable,
            Part::Unknown => Text::CostUnknown,
            Part::Excluded => Text::CostExcluded,
        })
    }

    /// The formula of a part, opened beside its name.
    fn formula(&self, part: &Part) -> Markup {
        let formula = part.formula();
        let grain = match formula.grain {
            Grain::Millisecond => Text::CostExact,
            Grain::Minute => Text::CostByMinute,
        };
        let mut out = Writer::default();
        out.open("details", &[("class", &"formula")]);
        let label = phrase::formula_label(self.cx.language, self.part(part));
        out.element("summary", &[("aria-label", &label)], "ƒ");
        out.open("p", &[]);
        out.element("code", &[], formula.expression);
        out.text(" ");
        out.text(self.cx.t(grain));
        out.close("p");
        out.close("details");
        out.finish()
    }

    /// The mark of everything on the page.
    fn origin(&self) -> Option<Origin> {
        self.view.totals.iter().filter_map(|line| line.origin).max()
    }

    fn name(&self, line: &CostLine) -> String {
        if line.name.is_empty() {
            return self.cx.t(Text::CostNoLabel).to_owned();
        }
        line.name.clone()
    }

    /// Notes about a line that need no column.
    fn notes(&self, line: &CostLine) -> Vec<String> {
        let language = self.cx.language;
        let mut notes = Vec::new();
        if line.fees.nanos != 0 {
            notes.push(phrase::cost_fees(language, format::money(line.fees)));
        }
        if line.uncontracted.nanos != 0 {
            notes.push(phrase::cost_uncontracted(language, format::money(line.uncontracted)));
        }
        if line.unpriced_ms > 0 {
            notes.push(phrase::cost_unpriced(language, self.duration(&line.unpriced_ms)));
        }
        if line.phantom_pct_ms > 0 {
            notes.push(phrase::cost_phantom(language, self.part_hours(&line.phantom_pct_ms)));
        }
        if line.stall_ms > 0 {
            notes.push(phrase::cost_stall(language, self.hours(&line.stall_ms)));
        }
        if line.throttled_ms > 0 {
            notes.push(phrase::cost_throttled(language, self.hours(&line.throttled_ms)));
        }
        notes
    }

    /// Names of the figures of interruptions, with their formulas.
    fn rate_heads(&self) -> [Markup; 4] {
        figures().map(|figure| named(figure, self.cx))
    }

    /// Interruptions of a line: how many, rate, time between, length, and what they rest on.
    fn rates(&self, line: &CostLine) -> Option<[String; 5]> {
        let rate = line.rate?;
        let count = Quantity::count(rate.interruptions.into()).text(self.cx.language);
        let cx = self.cx;
        Some([count, rate.rate(cx), rate.between(cx), rate.repair(cx), rate.basis(cx)])
    }

    fn slow(&self) -> Markup {
        slow(&self.view.slow, self.cx)
    }

    fn saved(&self, amount: &Money) -> String {
        let percent = self.view.what_if_pct.unwrap_or_default();
        let percent = Quantity::percent(percent.into()).text(self.cx.language);
        phrase::cost_saved(self.cx.language, format::money(*amount), percent)
    }

    fn what_if(&self) -> u8 {
        self.view.what_if_pct.unwrap_or(70)
    }

    fn hint(&self, hint: &HintLine) -> String {
        let language = self.cx.language;
        phrase::cost_hint(
            language,
            Quantity::percent(hint.need_pct).text(language),
            Quantity::memory_mib(hint.memory_peak_mib).text(language),
            Quantity::duration_ms(hint.period_minutes * 60_000).text(language),
            Quantity::memory_mib(hint.memory_total_mib).text(language),
        )
    }

    fn gpu_label(&self, slot: &u16) -> String {
        phrase::gpu_label(self.cx.language, slot)
    }
}

impl CostsView {
    /// Two leases in two currencies, with everything that a line can say.
    #[must_use]
    pub fn sample() -> Self {
        sample::costs()
    }

    /// Before there is any lease.
    #[must_use]
    pub fn empty_sample() -> Self {
        sample::no_costs()
    }
}
