//! What every page needs beside its view: language, zone, time, where it is.

use leasewatch_core::segment::Origin;
use leasewatch_core::time::{Timestamp, Zone, tz_database_version};

use crate::account::Account;
use crate::assets::Asset;
use crate::deadline::Deadlines;
use crate::format::{self, Detail, Measure, Quantity};
use crate::i18n::{Language, Text, phrase};
use crate::markup::{Markup, Writer};
use crate::names;
use crate::path::{Address, BillPart, RangeState, Route, pattern};

/// The policy that pages are written for: nothing inline, nothing from elsewhere.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
     img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// Zones that the choice suggests; any IANA name can be typed.
pub const SUGGESTED_ZONES: [&str; 12] = [
    "UTC",
    "Asia/Shanghai",
    "Asia/Hong_Kong",
    "Asia/Singapore",
    "Asia/Tokyo",
    "Asia/Kolkata",
    "Europe/London",
    "Europe/Berlin",
    "America/New_York",
    "America/Chicago",
    "America/Los_Angeles",
    "Australia/Sydney",
];

/// One request's surroundings.
#[derive(Debug, Clone)]
pub struct Context {
    /// The language to render in.
    pub language: Language,
    /// The zone of every local time on the page.
    pub zone: Zone,
    /// The server's time.
    pub now: Timestamp,
    /// Where the page is, with its state.
    pub here: Address,
    /// Who looks at it.
    pub account: Account,
    /// Deadlines of claims that are near, or passed.
    pub deadlines: Deadlines,
    /// The server's version, for the footer.
    pub version: &'static str,
}

/// A figure whose formula can be opened beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Formula {
    /// Utilization as the driver reports it.
    Utilization,
    /// Mean over measured time.
    Mean,
    /// Measured share of enrolled time.
    Coverage,
    /// Measured GPU-hours.
    GpuHours,
    /// Sum of power draws.
    Power,
    /// Mean of the utilization of live GPUs.
    BusyNow,
    /// GPUs that report now.
    GpusLive,
    /// Offset of the node's clock.
    ClockOffset,
    /// The hours that "last 24 hours" are.
    Day,
    /// A GPU's clock beside its own past.
    Drift,
}

impl Formula {
    /// The figure's name.
    fn subject(self) -> Text {
        match self {
            Self::Utilization => Text::ColBusy,
            Self::Mean => Text::ColMean,
            Self::Coverage => Text::ColCoverage,
            Self::GpuHours => Text::ColHours,
            Self::Power => Text::TotalsPower,
            Self::BusyNow => Text::TotalsBusy,
            Self::GpusLive => Text::TotalsGpus,
            Self::ClockOffset => Text::NodeClock,
            Self::Day => Text::ColDay,
            Self::Drift => Text::ReliabilityClockTitle,
        }
    }

    fn words(self) -> Text {
        match self {
            Self::Utilization => Text::FormulaUtilization,
            Self::Mean => Text::FormulaMean,
            Self::Coverage => Text::FormulaCoverage,
            Self::GpuHours => Text::FormulaGpuHours,
            Self::Power => Text::FormulaPower,
            Self::BusyNow => Text::FormulaBusyNow,
            Self::GpusLive => Text::FormulaGpusLive,
            Self::ClockOffset => Text::FormulaClockOffset,
            Self::Day => Text::FormulaDay,
            Self::Drift => Text::ReliabilityClockFormula,
        }
    }
}

impl Context {
    /// A context for samples and tests: English, UTC, an operator at the overview.
    #[must_use]
    pub fn sample() -> Self {
        Self {
            language: Language::En,
            zone: Zone::UTC,
            now: crate::pages::sample::NOW,
            here: Address { route: Route::Overview, state: crate::path::UrlState::default() },
            account: Account::User { name: "ada".to_owned(), may_change: true, is_operator: true },
            deadlines: Deadlines::default(),
            version: "0.1.0",
        }
    }

    /// Words in the page's language.
    pub(crate) fn t(&self, text: impl std::borrow::Borrow<Text>) -> &'static str {
        text.borrow().words(self.language)
    }

    /// A measure in the page's language.
    pub(crate) fn say(&self, measure: impl std::borrow::Borrow<Measure>) -> String {
        measure.borrow().text(self.language)
    }

    /// An instant with its machine-readable form: `<time datetime="..">..</time>`.
    pub(crate) fn moment(&self, at: impl std::borrow::Borrow<Timestamp>) -> Markup {
        self.time(*at.borrow(), Detail::Second)
    }

    /// The same to the minute.
    pub(crate) fn minute(&self, at: impl std::borrow::Borrow<Timestamp>) -> Markup {
        self.time(*at.borrow(), Detail::Minute)
    }

    /// How long ago, in words: `3 min 12 s ago`.
    pub(crate) fn ago(&self, at: impl std::borrow::Borrow<Timestamp>) -> String {
        let ms = self.now.since(*at.borrow()).max(0);
        phrase::time_ago(self.language, Quantity::duration_ms(ms).text(self.language))
    }

    /// The sign that opens a formula.
    pub(crate) fn formula(&self, formula: Formula) -> Markup {
        let mut out = Writer::default();
        out.open("details", &[("class", &"formula")]);
        let label = phrase::formula_label(self.language, self.t(formula.subject()));
        out.element("summary", &[("aria-label", &label)], "ƒ");
        out.open("p", &[]);
        out.text(self.t(formula.words()));
        out.text(" ");
        out.element("code", &[], "docs/METERING.md");
        out.close("p");
        out.close("details");
        out.finish()
    }

    /// The mark of an origin that is not measured; nothing for measured data.
    pub(crate) fn origin(&self, origin: impl std::borrow::Borrow<Origin>) -> Markup {
        let origin = *origin.borrow();
        let mut out = Writer::default();
        if let Some(mark) = names::origin_mark(origin) {
            let class = format!("origin {}", origin.name());
            out.element("strong", &[("class", &class)], self.t(mark));
        }
        out.finish()
    }

    pub(crate) fn patterns(&self) -> Markup {
        crate::chart::patterns()
    }

    /// The offset of the zone now.
    pub(crate) fn offset(&self) -> String {
        format::offset(self.now, self.zone)
    }

    pub(crate) fn tz_version(&self) -> &'static str {
        tz_database_version()
    }

    pub(crate) fn style(&self) -> String {
        Asset::Style.url()
    }

    pub(crate) fn script(&self) -> String {
        Asset::Script.url()
    }

    pub(crate) fn gpu_script(&self) -> String {
        Asset::GpuScript.url()
    }

    pub(crate) fn icon(&self) -> String {
        Asset::Icon.url()
    }

    pub(crate) fn live(&self) -> String {
        crate::path::live(self.language)
    }

    pub(crate) fn home(&self) -> String {
        self.here.to(Route::Overview).href()
    }

    pub(crate) fn import(&self) -> String {
        self.here.to(Route::Import).href()
    }

    pub(crate) fn account_page(&self) -> String {
        self.here.to(Route::Account).href()
    }

    pub(crate) fn enroll(&self) -> String {
        self.here.to(Route::Enroll).href()
    }

    pub(crate) fn leases(&self) -> String {
        self.here.to(Route::Leases).href()
    }

    pub(crate) fn claims(&self) -> String {
        self.here.to(Route::Claims).href()
    }

    /// What the head says of deadlines; nothing where none is near.
    pub(crate) fn due(&self) -> Option<String> {
        self.deadlines.words(self.now, self.language)
    }

    pub(crate) fn users(&self) -> String {
        self.here.to(Route::Users).href()
    }

    /// Pages of settings that the visitor may see, and which one this is.
    pub(crate) fn settings(&self) -> Vec<(String, &'static str, bool)> {
        let pages = [
            (Route::Users, Text::AccessUsers, self.account.is_operator()),
            (Route::Tenants, Text::TenantsTitle, true),
            (Route::Audit, Text::AuditTitle, true),
        ];
        let shown = pages.into_iter().filter(|(.., may_see)| *may_see);
        let link = |(route, words, _): (Route, Text, bool)| {
            let is_here = self.here.route == route;
            (self.here.to(route).href(), self.t(words), is_here)
        };
        shown.map(link).collect()
    }

    /// The first of them.
    pub(crate) fn tenants(&self) -> String {
        self.here.to(Route::Tenants).href()
    }

    pub(crate) fn costs(&self) -> String {
        self.here.to(Route::Costs).href()
    }

    pub(crate) fn bills(&self) -> String {
        self.here.to(Route::Bill(BillPart::List)).href()
    }

    pub(crate) fn contracts(&self) -> String {
        self.here.to(Route::Contracts).href()
    }

    pub(crate) fn prices(&self) -> String {
        self.here.to(Route::Prices).href()
    }

    pub(crate) fn sign_out(&self) -> &'static str {
        pattern::SIGN_OUT
    }

    /// What prints a new set-up link.
    pub(crate) fn setup_command(&self) -> &'static str {
        "leasewatch-server users setup-link"
    }

    pub(crate) fn node(&self, id: &str) -> String {
        self.here.to(Route::Node(id.to_owned())).href()
    }

    /// Where the labels of a node are changed.
    pub(crate) fn labels(&self, id: &str) -> String {
        self.here.to(Route::NodeLabels(id.to_owned())).href()
    }

    /// A GPU's page, over `range`.
    pub(crate) fn gpu(&self, node: &str, slot: u16, range: RangeState) -> String {
        self.here.to(Route::Gpu { node: node.to_owned(), slot }).in_range(range).href()
    }

    fn time(&self, at: Timestamp, detail: Detail) -> Markup {
        let mut out = Writer::default();
        let words = format::moment(at, self.zone, self.language, detail);
        out.element("time", &[("datetime", &at)], words);
        out.finish()
    }
}
