//! A node: what it is, how its agent and clock are, and what happened in a week.

mod chronicle;
mod facts;
mod keys;

use askama::Template;
use leasewatch_core::segment::Event;
use leasewatch_core::time::{HOUR_MS, Period, Timestamp, Zone};
use serde::Serialize;

pub use chronicle::ChainBegun;
pub use keys::KeyStatement;

use self::chronicle::Line;
use super::export::Export;
use super::{GpuRow, NodeName, NodeStatus};
use crate::chart::{self, Cell, HourGrid, Strip, time_scale};
use crate::context::{Context, Formula, SUGGESTED_ZONES};
use crate::format::{self, Datum, Measured, Quantity};
use crate::i18n::{Language, Text, phrase};
use crate::live::{self, Figures};
use crate::markup::Markup;
use crate::names;
use crate::path::{self, Last, RangeState, Route};
use crate::wire;

/// Everything a node's page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeView {
    /// Its name.
    #[serde(flatten)]
    pub name: NodeName,
    /// Where it stands.
    #[serde(flatten)]
    pub status: NodeStatus,
    /// Whether who asks may shut it out.
    pub may_revoke: bool,
    /// The tenant's slug; `None` when the server has only one.
    pub tenant: Option<String>,
    /// The provider's slug.
    pub provider: String,
    /// What costs can be grouped by: names and values.
    pub labels: Vec<(String, String)>,
    /// Since when it should be measured.
    #[serde(serialize_with = "wire::at")]
    pub enrolled_at: Timestamp,
    /// Until when; `None` while it goes on.
    #[serde(serialize_with = "wire::maybe_at")]
    pub ended_at: Option<Timestamp>,
    /// What the host is; `None` when no inventory came (an import).
    pub host: Option<HostFacts>,
    /// The latest wiring of each GPU and the disk below the working directory, as events.
    #[serde(serialize_with = "wire::events")]
    pub wiring: Vec<Event>,
    /// How agent and clock are.
    pub agent: AgentHealth,
    /// Its GPUs, by number, each followed by its slices.
    pub gpus: Vec<NodeGpu>,
    /// The days that the hour grids show: [`path::week`].
    #[serde(serialize_with = "wire::period")]
    pub week: Period,
    /// What happened in that week, latest first.
    #[serde(serialize_with = "wire::events")]
    pub events: Vec<Event>,
    /// How many more events the week has than `events` holds.
    pub events_left_out: i64,
    /// Chains of the node's record that began in that week, latest first.
    #[serde(serialize_with = "wire::chain_starts")]
    pub chain_starts: Vec<ChainBegun>,
    /// How often the record broke off and began anew in the node's whole life.
    pub record_breaks: i64,
    /// What the server signed about its keys, the first first; empty where that was before there
    /// were such statements.
    pub statements: Vec<KeyStatement>,
}

/// What the host says it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostFacts {
    /// Its own name.
    pub hostname: String,
    /// Kernel release.
    pub kernel: String,
    /// Logical CPUs that the agent may use.
    pub cpus: i64,
    /// Memory.
    pub memory_mib: i64,
    /// Version of the GPU driver.
    pub driver_version: String,
    /// Highest CUDA version that the driver supports.
    pub cuda_version: String,
    /// True when the agent runs in a container.
    pub container: bool,
}

/// How agent and clock are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AgentHealth {
    /// The agent's version; `None` when it never said.
    pub version: Option<String>,
    /// Since when it runs.
    #[serde(serialize_with = "wire::maybe_at")]
    pub started_at: Option<Timestamp>,
    /// How far the node's clock is ahead of the server's.
    pub clock_offset_us: Datum,
    /// The most that the offset can be wrong.
    pub clock_bound_us: Datum,
    /// Recorded time that has not arrived yet.
    pub backlog_ms: Datum,
    /// Time between two samples.
    pub cadence_ms: Datum,
}

/// A GPU with its week.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NodeGpu {
    /// Now, and the last 24 hours.
    #[serde(flatten)]
    pub row: GpuRow,
    /// Its hours in the week, in order of time, the open one included. An hour before enrolment
    /// may be given with `enrolled_ms` 0; one without a cell is drawn as "no record".
    pub hours: Vec<Cell>,
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &NodeView, context: &Context) -> Result<String, askama::Error> {
    let day = Period::new(context.now.plus_ms(-leasewatch_core::time::DAY_MS), context.now);
    Ok(super::inert(&Page { cx: context, view, day }.render()?))
}

#[derive(Template)]
#[template(path = "node.html", whitespace = "minimize")]
struct Page<'a> {
    cx: &'a Context,
    view: &'a NodeView,
    day: Period,
}

/// A link to another week.
struct WeekLink {
    href: String,
    words: &'static str,
    current: bool,
}

/// A day of the table under a grid.
struct DayRow {
    label: String,
    href: Option<String>,
    sums: Measured,
    longest: Option<(Text, i64)>,
}

impl Page<'_> {
    /// Where the node's keys are revoked, in the page's language.
    fn revoke(&self) -> String {
        path::node_revoke(&self.cx.here, &self.view.name.id)
    }

    fn title(&self) -> &str {
        &self.view.name.name
    }

    fn standing(&self) -> String {
        live::standing_text(self.view.status.standing, self.cx.language)
    }

    fn figures(&self, gpu: &NodeGpu) -> Figures {
        live::figures(&gpu.row.live, self.cx.language)
    }

    /// Words in place of live values that will not come again, and the columns they span.
    fn ended(&self, gpu: &NodeGpu) -> Option<(String, usize)> {
        let span = gpu.row.ended_columns(self.view.status.standing)?;
        Some((super::ended_words(self.view.ended_at, self.cx), span))
    }

    fn has_day(&self, gpu: &NodeGpu) -> bool {
        gpu.row.has_day(self.view.status.standing)
    }

    /// GPUs with a record in the week, or those without.
    fn gpus(&self, with_record: bool) -> Vec<&NodeGpu> {
        let wanted = |gpu: &&NodeGpu| super::has_record(&gpu.hours) == with_record;
        self.view.gpus.iter().filter(wanted).collect()
    }

    fn scale(&self) -> Markup {
        time_scale(self.day, self.cx.zone)
    }

    fn strip(&self, gpu: &NodeGpu) -> Markup {
        let language = self.cx.language;
        let title = phrase::strip_title(
            language,
            self.cx.say(gpu.row.day.coverage()),
            gpu.row.full_label(language),
            self.cx.say(gpu.row.day.mean()),
            &self.view.name.name,
        );
        let strip = Strip {
            title: &title,
            period: self.day,
            cells: &gpu.row.strip,
            origin: self.view.name.origin,
        };
        strip.markup(self.cx.zone, language)
    }

    fn grid(&self, gpu: &NodeGpu) -> Markup {
        let sums = week_sums(gpu);
        let title = phrase::grid_title(
            self.cx.language,
            self.cx.say(sums.coverage()),
            gpu.row.full_label(self.cx.language),
            self.cx.say(sums.mean()),
        );
        let grid = HourGrid {
            title: &title,
            period: self.view.week,
            cells: &gpu.hours,
            origin: self.view.name.origin,
            enrolled: Period::new(
                self.view.enrolled_at,
                self.view.ended_at.unwrap_or(Timestamp::MAX),
            ),
            now: self.cx.now,
            href: &|hour| self.readings(gpu, hour),
        };
        grid.markup(self.cx.zone, self.cx.language)
    }

    /// The readings of a GPU in a stretch of time.
    fn readings(&self, gpu: &NodeGpu, period: Period) -> String {
        self.cx.gpu(&self.view.name.id, gpu.row.number, RangeState::between(period))
    }

    /// The readings of a GPU up to now.
    fn latest(&self, gpu: &NodeGpu) -> String {
        self.cx.gpu(&self.view.name.id, gpu.row.number, RangeState::default())
    }

    /// The readings behind the strip.
    fn last_day(&self, gpu: &NodeGpu) -> String {
        self.cx.gpu(&self.view.name.id, gpu.row.number, RangeState::last(Last::Day))
    }

    fn legend(&self) -> Markup {
        let cells = self.view.gpus.iter().flat_map(|gpu| &gpu.hours);
        chart::legend(cells, self.cx.language)
    }

    fn sums(&self, gpu: &NodeGpu) -> Measured {
        week_sums(gpu)
    }

    fn label(&self, gpu: &NodeGpu) -> String {
        gpu.row.label(self.cx.language)
    }

    fn full_label(&self, gpu: &NodeGpu) -> String {
        gpu.row.full_label(self.cx.language)
    }

    /// `1/7 of GPU 0` for a slice.
    fn share(&self, gpu: &NodeGpu) -> Option<String> {
        gpu.row.partition.as_ref().map(|part| part.share(self.cx.language))
    }

    fn bounds(&self, measured: &Measured) -> Option<String> {
        super::bounds(measured, self.cx.language)
    }

    /// The zone whose days the table adds up. Days of a zone that is off by a part of an hour
    /// cannot be cut from hours, so their table is in UTC and says so.
    fn table_zone(&self) -> Zone {
        let aligned = |at: Timestamp| at.0.rem_euclid(HOUR_MS) == 0;
        if aligned(self.view.week.start) && aligned(self.view.week.end) {
            self.cx.zone
        } else {
            Zone::UTC
        }
    }

    fn days(&self, gpu: &NodeGpu) -> Vec<DayRow> {
        let zone = self.table_zone();
        chart::rows(self.view.week, zone).into_iter().map(|day| self.day_row(gpu, day)).collect()
    }

    fn day_row(&self, gpu: &NodeGpu, day: Period) -> DayRow {
        let inside = || gpu.hours.iter().filter(|cell| day.contains(cell.period.start));
        let mut by_cause: Vec<(leasewatch_core::metering::GapCause, i64)> = Vec::new();
        for (cause, ms) in inside().flat_map(|cell| &cell.gaps) {
            match by_cause.iter_mut().find(|(known, _)| known == cause) {
                Some((_, sum)) => *sum += ms,
                None => by_cause.push((*cause, *ms)),
            }
        }
        let longest = by_cause.into_iter().filter(|(_, ms)| *ms > 0).max_by_key(|(_, ms)| *ms);
        let is_recorded = inside().any(|cell| cell.enrolled_ms > 0);
        DayRow {
            href: is_recorded.then(|| self.readings(gpu, day)),
            label: format::day(day.start, self.table_zone(), self.cx.language),
            sums: inside().map(Cell::measured).sum(),
            longest: longest.map(|(cause, ms)| (names::gap_cause(cause), ms)),
        }
    }

    fn gap_words(&self, day: &DayRow) -> String {
        day.longest.map_or_else(
            || self.cx.t(Text::GapNone).to_owned(),
            |(cause, ms)| {
                let length = Quantity::duration_ms(ms).text(self.cx.language);
                phrase::cell_gap(self.cx.language, self.cx.t(cause), length)
            },
        )
    }

    fn week_title(&self) -> String {
        let (zone, language) = (self.cx.zone, self.cx.language);
        let first = format::local_date(self.view.week.start, zone, language);
        let last = format::local_date(self.view.week.end.plus_ms(-1), zone, language);
        phrase::node_week(language, first, last)
    }

    fn week_links(&self) -> Vec<WeekLink> {
        let zone = self.cx.zone;
        let current = path::week(None, zone, self.cx.now);
        let link = |weeks: i64, words: Text| {
            let week = path::week_from(self.view.week, weeks, zone)?;
            let start = path::local_midnight(&week, zone)?;
            let newest = current.is_some_and(|current| start >= current.start);
            let address = self.cx.here.in_week((!newest).then_some(week));
            Some(WeekLink { href: address.href(), words: self.cx.t(words), current: false })
        };
        let is_current = current == Some(self.view.week);
        let mut links: Vec<WeekLink> = link(-1, Text::NodeWeekBefore).into_iter().collect();
        if !is_current {
            links.extend(link(1, Text::NodeWeekAfter));
        }
        links.push(WeekLink {
            href: self.cx.here.in_week(None).href(),
            words: self.cx.t(Text::NodeWeekNow),
            current: is_current,
        });
        links
    }

    fn week_value(&self) -> String {
        format::iso_date(self.view.week.start, self.cx.zone)
    }

    fn export(&self) -> Export<'_> {
        Export { cx: self.cx, node: Some(&self.view.name.id), days: self.view.week }
    }

    fn lines(&self) -> Vec<Line> {
        chronicle::lines(self.view, self.cx, |event| self.event_gpu(event))
    }

    fn record_breaks(&self) -> String {
        Quantity::count(self.view.record_breaks).text(self.cx.language)
    }

    /// `GPU 3` for a GPU of this page, else the UUID.
    fn event_gpu(&self, event: &Event) -> String {
        let Some(uuid) = &event.gpu else { return self.cx.t(Text::EventNode).to_owned() };
        let known = self.view.gpus.iter().find(|gpu| gpu.row.uuid == uuid.as_str());
        known.map_or_else(|| uuid.to_string(), |gpu| self.full_label(gpu))
    }

    fn events_left_out(&self) -> String {
        let count = Quantity::count(self.view.events_left_out).text(self.cx.language);
        phrase::event_left_out(self.cx.language, count)
    }
}

fn week_sums(gpu: &NodeGpu) -> Measured {
    gpu.hours.iter().map(Cell::measured).sum()
}

impl NodeView {
    /// A node with eight GPUs and an eventful week.
    #[must_use]
    pub fn sample() -> Self {
        super::sample::node()
    }

    /// An imported record that ended in the middle of the week; one of its GPUs has no hours.
    #[must_use]
    pub fn ended_sample() -> Self {
        super::sample::ended_node()
    }
}
