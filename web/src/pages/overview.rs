//! The overview: is anything wrong, and what is the fleet doing?

use askama::Template;
use leasewatch_core::money::Money;
use leasewatch_core::time::{DAY_MS, Period, Timestamp};
use serde::Serialize;

use super::export::Export;
use super::{GpuRow, NodeName, NodeStatus};
use crate::chart::{self, Cell, Strip, time_scale};
use crate::context::{Context, Formula, SUGGESTED_ZONES};
use crate::deadline::DeadlineLine;
use crate::format::{self, Datum, Measured, Quantity};
use crate::i18n::{Language, Text, phrase};
use crate::live::{self, Figures};
use crate::markup::Markup;
use crate::names::Standing;
use crate::path::{self, Last, RangeState, Route};
use crate::wire;

/// Everything the overview shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OverviewView {
    /// Sums over every node of the page.
    pub totals: FleetTotals,
    /// What needs attention, the most urgent first.
    pub attention: Vec<Attention>,
    /// Deadlines of claims within seven days, and those that passed not long ago.
    pub deadlines: Vec<DeadlineLine>,
    /// Tenants with their nodes; a single one is not named on the page.
    pub tenants: Vec<TenantLane>,
    /// What an hour of every lease costs now, in each currency; empty without a priced lease.
    #[serde(serialize_with = "wire::amounts")]
    pub running: Vec<Money>,
    /// Commands for the empty state.
    pub setup: Setup,
}

/// Sums over the fleet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FleetTotals {
    /// GPUs with a live reading.
    pub gpus_live: i64,
    /// GPUs of nodes that are expected to report.
    pub gpus_expected: i64,
    /// Nodes that are up.
    pub nodes_up: i64,
    /// Nodes that are expected to report.
    pub nodes_expected: i64,
    /// Mean utilization of the live GPUs.
    pub busy_now_pct: Datum,
    /// Sum of their power draws.
    pub power_now_mw: Datum,
    /// All GPUs over the 24 hours up to now.
    pub day: Measured,
}

/// One tenant's nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TenantLane {
    /// The tenant's slug.
    pub tenant: String,
    /// Its nodes by provider.
    pub providers: Vec<ProviderLane>,
}

/// One provider's nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProviderLane {
    /// The provider's slug.
    pub provider: String,
    /// Its nodes.
    pub nodes: Vec<NodeLane>,
}

/// One node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeLane {
    /// Its name.
    #[serde(flatten)]
    pub name: NodeName,
    /// Where it stands.
    #[serde(flatten)]
    pub status: NodeStatus,
    /// Its GPUs; empty when none was ever seen.
    pub gpus: Vec<GpuRow>,
}

/// Something that a person should look at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Attention {
    /// Where.
    pub node: NodeName,
    /// Which GPU, by its number within the node; `None` when it concerns the node.
    pub gpu: Option<u16>,
    /// Since when, or when it happened last.
    #[serde(serialize_with = "wire::maybe_at")]
    pub at: Option<Timestamp>,
    /// What.
    #[serde(flatten)]
    pub subject: Subject,
}

/// What needs attention.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "subject", rename_all = "snake_case")]
pub enum Subject {
    /// The node's state cannot be told.
    NodeUnknown {
        /// Where it stands, with the reason.
        #[serde(flatten, serialize_with = "wire::standing")]
        standing: Standing,
    },
    /// A GPU fell off the bus.
    GpuLost,
    /// A call into the driver hangs.
    CollectorStalled,
    /// Driver error reports in the last 24 hours.
    Xid {
        /// NVIDIA's code.
        code: i64,
        /// How many times.
        count: i64,
    },
    /// Much of the last 24 hours was not measured.
    LowCoverage {
        /// What was.
        day: Measured,
    },
}

/// Commands that are shown while nothing is enrolled, exactly as they can be typed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setup {
    /// Starts an agent that reports to this server.
    pub agent_command: String,
    /// Imports an old log.
    pub import_command: String,
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &OverviewView, context: &Context) -> Result<String, askama::Error> {
    let period = Period::new(context.now.plus_ms(-DAY_MS), context.now);
    Ok(super::inert(&Page { cx: context, view, period }.render()?))
}

/// The data of a `totals` event: the live figures of the page's head, in words.
///
/// # Errors
/// Never in practice: nothing in it can fail to serialise.
pub fn totals_event(totals: &FleetTotals, language: Language) -> Result<String, serde_json::Error> {
    serde_json::to_string(&totals.figures(language))
}

/// The live figures of the page's head, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TotalFigures {
    /// GPUs that report, of those expected.
    pub gpus_live: String,
    /// Nodes that report, of those expected.
    pub nodes_up: String,
    /// Mean utilization now.
    pub busy_now: String,
    /// Power now.
    pub power_now: String,
}

impl FleetTotals {
    /// The live ones in words.
    #[must_use]
    pub fn figures(&self, language: Language) -> TotalFigures {
        let count = |count| Quantity::count(count).text(language);
        TotalFigures {
            gpus_live: phrase::totals_of(
                language,
                count(self.gpus_live),
                count(self.gpus_expected),
            ),
            nodes_up: phrase::totals_nodes(
                language,
                count(self.nodes_up),
                count(self.nodes_expected),
            ),
            busy_now: self.busy_now_pct.measure(Quantity::percent).text(language),
            power_now: self.power_now_mw.measure(Quantity::whole_power_mw).text(language),
        }
    }
}

#[derive(Template)]
#[template(path = "overview.html", whitespace = "minimize")]
struct Page<'a> {
    cx: &'a Context,
    view: &'a OverviewView,
    period: Period,
}

impl Page<'_> {
    fn title(&self) -> &'static str {
        self.cx.t(Text::OverviewTitle)
    }

    fn is_empty(&self) -> bool {
        self.view.tenants.iter().all(|tenant| tenant.providers.is_empty())
    }

    fn names_tenants(&self) -> bool {
        self.view.tenants.len() > 1
    }

    fn totals(&self) -> TotalFigures {
        self.view.totals.figures(self.cx.language)
    }

    fn money(&self, amount: &Money) -> String {
        format::money(*amount)
    }

    fn scale(&self) -> Markup {
        time_scale(self.period, self.cx.zone)
    }

    fn figures(&self, gpu: &GpuRow) -> Figures {
        live::figures(&gpu.live, self.cx.language)
    }

    /// Words in place of live values that will not come again, and the columns they span.
    fn ended(&self, node: &NodeLane, gpu: &GpuRow) -> Option<(&'static str, usize)> {
        gpu.ended_columns(node.status.standing).map(|span| (self.cx.t(Text::NodeOver), span))
    }

    fn has_day(&self, node: &NodeLane, gpu: &GpuRow) -> bool {
        gpu.has_day(node.status.standing)
    }

    fn standing(&self, status: &NodeStatus) -> String {
        live::standing_text(status.standing, self.cx.language)
    }

    fn strip(&self, node: &NodeName, gpu: &GpuRow) -> Markup {
        let language = self.cx.language;
        let title = phrase::strip_title(
            language,
            self.cx.say(gpu.day.coverage()),
            gpu.full_label(language),
            self.cx.say(gpu.day.mean()),
            &node.name,
        );
        let strip =
            Strip { title: &title, period: self.period, cells: &gpu.strip, origin: node.origin };
        strip.markup(self.cx.zone, language)
    }

    fn readings(&self, node: &NodeName, gpu: &GpuRow, range: RangeState) -> String {
        self.cx.gpu(&node.id, gpu.number, range)
    }

    fn legend(&self) -> Markup {
        chart::legend(self.cells(), self.cx.language)
    }

    fn cells(&self) -> impl Iterator<Item = &Cell> {
        let nodes = self.view.tenants.iter().flat_map(|t| &t.providers).flat_map(|p| &p.nodes);
        nodes.flat_map(|node| &node.gpus).flat_map(|gpu| &gpu.strip)
    }

    /// What is the matter, in words.
    fn matter(&self, attention: &Attention) -> String {
        let language = self.cx.language;
        match &attention.subject {
            Subject::NodeUnknown { standing } => live::standing_text(*standing, language),
            Subject::GpuLost => self.cx.t(Text::AttentionGpuLost).to_owned(),
            Subject::CollectorStalled => self.cx.t(Text::AttentionStalled).to_owned(),
            Subject::Xid { code, count } => {
                phrase::attention_xid(language, code, Quantity::count(*count).text(language))
            }
            Subject::LowCoverage { day } => {
                phrase::attention_coverage(language, self.cx.say(day.coverage()))
            }
        }
    }

    /// What to do about it.
    fn advice(&self, attention: &Attention) -> &'static str {
        self.cx.t(match &attention.subject {
            Subject::NodeUnknown { .. } => Text::AdviceUnknown,
            Subject::GpuLost => Text::AdviceGpuLost,
            Subject::CollectorStalled => Text::AdviceStalled,
            Subject::Xid { .. } => Text::AdviceXid,
            Subject::LowCoverage { .. } => Text::AdviceCoverage,
        })
    }

    fn is_calm(&self) -> bool {
        self.view.attention.is_empty() && self.view.deadlines.is_empty()
    }

    fn due(&self, line: &DeadlineLine) -> String {
        phrase::deadline_of_lease(self.cx.language, &line.lease)
    }

    fn severity(&self, attention: &Attention) -> &'static str {
        match &attention.subject {
            Subject::GpuLost | Subject::CollectorStalled | Subject::Xid { .. } => "fault",
            Subject::NodeUnknown { .. } | Subject::LowCoverage { .. } => "notice",
        }
    }

    /// `None` only at the ends of the calendar, where there is no week.
    fn export(&self) -> Option<Export<'_>> {
        let days = path::week(None, self.cx.zone, self.cx.now)?;
        Some(Export { cx: self.cx, node: None, days })
    }

    fn gpu_label(&self, number: &u16) -> String {
        phrase::gpu_label(self.cx.language, number)
    }

    fn gpu_count(&self, node: &NodeLane) -> String {
        phrase::gpu_count(self.cx.language, node.gpus.len())
    }

    fn bounds(&self, measured: &Measured) -> Option<String> {
        super::bounds(measured, self.cx.language)
    }
}

impl OverviewView {
    /// A fleet with one of everything that can go wrong.
    #[must_use]
    pub fn sample() -> Self {
        super::sample::overview()
    }

    /// What is shown before anything is enrolled.
    #[must_use]
    pub fn empty_sample() -> Self {
        super::sample::empty_overview()
    }
}

impl Setup {
    /// Commands of a server at its usual address.
    pub(super) fn sample() -> Self {
        Self {
            agent_command: "leasewatch-agent run --server http://127.0.0.1:7443 --name my-node"
                .to_owned(),
            import_command: "leasewatch-server import nvidia-smi FILE --node my-node \
                --server http://127.0.0.1:7443"
                .to_owned(),
        }
    }
}
