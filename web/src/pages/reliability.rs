//! How reliable nodes were: how often the provider interrupted them, and which GPUs were slow. A part
//! of other pages.

use leasewatch_core::segment::Origin;
use leasewatch_core::time::{Period, Timestamp};
use serde::Serialize;

use crate::context::Context;
use crate::format::{Quantity, div_half_even};
use crate::i18n::{Text, phrase};
use crate::markup::{Markup, Writer};
use crate::wire;

/// A lease's nodes in some days.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReliabilityView {
    /// Which days.
    #[serde(serialize_with = "wire::period")]
    pub window: Period,
    /// Interruptions; `None`: no node was delivered, and nothing can be said.
    pub rate: Option<RateCell>,
    /// Slow GPUs.
    pub slow: StragglerView,
    /// The least trustworthy source.
    #[serde(serialize_with = "wire::maybe_origin")]
    pub origin: Option<Origin>,
}

/// Interruptions over delivered time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RateCell {
    /// How many, those of a node within 15 min as one.
    pub interruptions: u32,
    /// Delivered time of nodes.
    pub node_ms: i64,
    /// Interruptions per 1,000 node-days, in thousandths.
    pub rate_milli: i64,
    /// The lower end of its 95 % interval.
    pub low_milli: i64,
    /// The upper end.
    pub high_milli: i64,
    /// Mean delivered time between them.
    pub between_ms: i64,
    /// There was none: with 95 % certainty it is more than that.
    pub is_at_least: bool,
    /// Median length; `None` without any.
    pub repair_ms: Option<i64>,
    /// Of contracted GPU time, what was measured, in percent x milliseconds.
    pub measured_pct_ms: i64,
    /// Contracted GPU time.
    pub contracted_ms: i64,
}

/// GPUs that were slower than their peers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct StragglerView {
    /// In the order in which they were found.
    pub stragglers: Vec<StragglerLine>,
    /// GPU-hours under load that had enough peers; of 0 nothing can be said.
    pub compared_hours: i64,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StragglerLine {
    /// The lease.
    pub lease: String,
    /// The node's id.
    pub node: String,
    /// The node's name.
    pub node_name: String,
    /// The GPU's number on it.
    pub slot: u16,
    /// The hour in which it had been slow in three of six.
    #[serde(serialize_with = "wire::at")]
    pub found_at: Timestamp,
    /// Its SM clock under load then.
    pub clock_mhz: i64,
    /// The median of its peers.
    pub peers_mhz: i64,
    /// Hours in which it was slow.
    pub slow_hours: i64,
    /// Of so many.
    pub compared_hours: i64,
}

impl RateCell {
    /// `3.8 (3.4 – 4.2)`.
    pub(super) fn rate(&self, cx: &Context) -> String {
        let tenths = |milli: i64| Quantity::tenths(div_half_even(milli.into(), 100));
        let text = |milli| tenths(milli).text(cx.language);
        let [rate, low, high] = [self.rate_milli, self.low_milli, self.high_milli].map(text);
        phrase::reliability_interval(cx.language, high, low, rate)
    }

    /// Mean time between them, or what it exceeds.
    pub(super) fn between(&self, cx: &Context) -> String {
        let time = Quantity::duration_ms(self.between_ms).text(cx.language);
        if self.is_at_least { phrase::reliability_more_than(cx.language, time) } else { time }
    }

    /// Median length.
    pub(super) fn repair(&self, cx: &Context) -> String {
        let none = || cx.t(Text::ReliabilityNoneSeen).to_owned();
        self.repair_ms.map_or_else(none, |ms| Quantity::duration_ms(ms).text(cx.language))
    }

    /// What the rate rests on: delivered time of nodes, and how much of contracted time was measured.
    pub(super) fn basis(&self, cx: &Context) -> String {
        let days = Quantity::duration_ms(self.node_ms).text(cx.language);
        let coverage = Quantity::share(self.measured_pct_ms / 100, self.contracted_ms);
        let none = || cx.t(Text::MissingNoData).to_owned();
        let coverage = coverage.map_or_else(none, |share| share.text(cx.language));
        phrase::reliability_basis(cx.language, coverage, days)
    }
}

/// What the figures of this part are: words, and how they come about.
pub(super) fn figures() -> [(Text, &'static str); 4] {
    [
        (Text::ReliabilityInterruptions, "n, |t₁ − t₂| ≤ 15 min → 1"),
        (Text::ReliabilityRate, "1,000 · n / node-days; Poisson(n), α = 0.05"),
        (Text::ReliabilityBetween, "node-hours / n; n = 0: > node-hours / 3"),
        (Text::ReliabilityRepair, "median t(down)"),
    ]
}

/// A figure's name with its formula to open.
pub(super) fn named((text, expression): (Text, &'static str), cx: &Context) -> Markup {
    let mut out = Writer::default();
    out.text(cx.t(text));
    out.open("details", &[("class", &"formula")]);
    let label = phrase::formula_label(cx.language, cx.t(text));
    out.element("summary", &[("aria-label", &label)], "ƒ");
    out.open("p", &[]);
    out.element("code", &[], expression);
    out.close("p");
    out.close("details");
    out.finish()
}

/// A list of slow GPUs, or why there is none.
pub(super) fn slow(view: &StragglerView, cx: &Context) -> Markup {
    let mut out = Writer::default();
    let language = cx.language;
    if view.compared_hours == 0 {
        out.element("p", &[("class", &"quiet")], cx.t(Text::ReliabilityNotCompared));
        return out.finish();
    }
    let looked = Quantity::gpu_hours_ms(view.compared_hours * 3_600_000).text(language);
    let words = match view.stragglers.is_empty() {
        true => phrase::reliability_no_stragglers(language, looked),
        false => phrase::reliability_compared(language, looked),
    };
    out.element("p", &[("class", &"quiet")], words);
    if view.stragglers.is_empty() {
        return out.finish();
    }
    out.open("ul", &[]);
    for line in &view.stragglers {
        out.open("li", &[]);
        out.element("a", &[("href", &cx.node(&line.node))], &line.node_name);
        out.text(format_args!(" {} ", phrase::gpu_label(language, line.slot)));
        let words = phrase::reliability_straggler(
            language,
            Quantity::clock_mhz(line.clock_mhz).text(language),
            Quantity::count(line.compared_hours).text(language),
            Quantity::clock_mhz(line.peers_mhz).text(language),
            Quantity::count(line.slow_hours).text(language),
        );
        out.text(format_args!("{words} ({}) ", line.lease));
        out.add(&cx.minute(line.found_at));
        out.close("li");
    }
    out.close("ul");
    out.finish()
}

impl ReliabilityView {
    pub(super) fn sample() -> Self {
        let now = super::sample::NOW;
        Self {
            window: Period::new(now.plus_ms(-30 * 86_400_000), now),
            rate: Some(RateCell::sample()),
            slow: StragglerView::sample(),
            origin: Some(Origin::Measured),
        }
    }
}

impl RateCell {
    pub(super) fn sample() -> Self {
        Self {
            interruptions: 2,
            node_ms: 60 * 86_400_000,
            rate_milli: 33_333,
            low_milli: 4_037,
            high_milli: 120_411,
            between_ms: 30 * 86_400_000,
            is_at_least: false,
            repair_ms: Some(5_400_000),
            measured_pct_ms: 475 * 3_600_000 * 100,
            contracted_ms: 480 * 3_600_000,
        }
    }
}

impl StragglerView {
    pub(super) fn sample() -> Self {
        let line = StragglerLine {
            lease: "h100-pool".to_owned(),
            node: "00000000000000000000000000000001".to_owned(),
            node_name: "train-01".to_owned(),
            slot: 3,
            found_at: super::sample::NOW.plus_ms(-86_400_000),
            clock_mhz: 1_410,
            peers_mhz: 1_965,
            slow_hours: 41,
            compared_hours: 96,
        };
        Self { stragglers: vec![line], compared_hours: 768 }
    }
}
