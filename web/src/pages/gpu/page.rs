//! The page: what its template asks for.

use askama::Template;
use leasewatch_core::metering::GapCause;
use leasewatch_core::segment::Event;
use leasewatch_core::time::{DAY_MS, HOUR_MS, Period, Timestamp};

use super::drawn::{self, Chart, Easel, Reason};
use super::plan;
use super::zoom::Zoom;
use super::{ClockView, GpuView};
use crate::chart::{self, Backdrop, Grid, Mark, Share};
use crate::context::{Context, Formula, SUGGESTED_ZONES};
use crate::events::{self, Weight};
use crate::format::{self, Detail, Quantity, div_half_even};
use crate::i18n::{Language, Text, phrase};
use crate::live::{self, Figures};
use crate::markup::Markup;
use crate::names;
use crate::path::{Last, RANGE_MS_MIN, RangeState, Route};

/// Gaps that are listed; the charts hatch all of them.
const GAPS_LISTED: usize = 100;

#[derive(Template)]
#[template(path = "gpu.html", whitespace = "minimize")]
pub(super) struct Page<'a> {
    cx: &'a Context,
    view: &'a GpuView,
    zoom: Zoom<'a>,
    easel: Easel<'a>,
    shares: Vec<Share>,
    marks: Vec<Mark>,
}

/// A gap of the list.
struct GapRow {
    at: Timestamp,
    href: String,
    length: String,
    cause: &'static str,
}

impl<'a> Page<'a> {
    pub(super) fn new(view: &'a GpuView, cx: &'a Context) -> Self {
        let grid = Grid { period: view.range, bucket_ms: view.bucket_ms.max(1) };
        let share = |share: &super::GapShare| Share {
            period: share.period,
            cause: share.cause,
            ms: share.ms,
        };
        let mark = |event: &Event| Mark {
            at: event.at,
            weight: Weight::of(event),
            words: phrase::zoom_mark(
                cx.language,
                events::describe(&event.kind, cx.language),
                format::moment(event.at, cx.zone, cx.language, Detail::Second),
            ),
        };
        Self {
            cx,
            view,
            zoom: Zoom { cx, view },
            easel: Easel { view, grid, language: cx.language },
            shares: view.gap_shares.iter().map(share).collect(),
            marks: view.events.iter().map(mark).collect(),
        }
    }

    fn title(&self) -> String {
        format!("{} · {}", self.gpu_label(), self.view.name.name)
    }

    fn gpu_label(&self) -> String {
        phrase::gpu_label(self.cx.language, self.view.gpu.number)
    }

    fn node_href(&self) -> String {
        self.cx.node(&self.view.name.id)
    }

    fn standing(&self) -> String {
        live::standing_text(self.view.status.standing, self.cx.language)
    }

    /// Words in place of live values that will not come again.
    fn ended(&self) -> Option<String> {
        self.view.gpu.ended_columns(self.view.status.standing)?;
        Some(super::super::ended_words(self.view.ended_at, self.cx))
    }

    fn figures(&self) -> Figures {
        live::figures(&self.view.gpu.live, self.cx.language)
    }

    fn bounds(&self) -> Option<String> {
        super::super::bounds(self.view.sums.as_ref()?, self.cx.language)
    }

    /// The clock under load beside the GPU's own past, or why it is not compared.
    fn clock(&self) -> Option<String> {
        let language = self.cx.language;
        let mhz = |mhz| Quantity::clock_mhz(mhz).text(language);
        Some(match self.view.clock? {
            ClockView::Known { hour, clock_mhz, past_mhz, past_hours, ratio_ppm } => {
                let hours = Quantity::count(past_hours).text(language);
                let past = phrase::reliability_clock_past(language, hours, mhz(past_mhz));
                let ratio = div_half_even(ratio_ppm.into(), 1_000) * 1_000;
                let moment = format::moment(hour, self.cx.zone, language, Detail::Minute);
                let ratio = Quantity::ppm(ratio).text(language);
                phrase::reliability_clock(language, mhz(clock_mhz), moment, past, ratio)
            }
            ClockView::TooLittle { past_hours } => phrase::reliability_clock_unknown(
                language,
                Quantity::count(past_hours).text(language),
            ),
        })
    }

    fn has_bands(&self) -> bool {
        let bands = self.view.series.iter().flat_map(|series| &series.points);
        bands.filter_map(|point| point.band).any(|band| band.min != band.max)
    }

    /// Nothing was recorded, and nothing is missing either.
    fn is_empty(&self) -> bool {
        self.view.series.is_empty() && self.view.gaps.is_empty() && self.shares.is_empty()
    }

    /// What to do where nothing is: a sentence, and a link with its words.
    fn advice(&self) -> (String, String, &'static str) {
        let (zone, language) = (self.cx.zone, self.cx.language);
        let joined = self.view.enrolled_at;
        if self.view.range.end <= joined {
            let date = format::local_date(joined, zone, language);
            let href = self.zoom.between(joined, joined.plus_ms(HOUR_MS));
            return (phrase::zoom_before(language, date), href, self.cx.t(Text::ZoomShowFirst));
        }
        let href = match self.view.ended_at {
            Some(end) => self.zoom.between(end.plus_ms(-DAY_MS), end),
            None => self.zoom.href(RangeState::last(Last::Day)),
        };
        let words = self.cx.t(Text::ZoomNothing).to_owned();
        (words, href, self.cx.t(Text::ZoomShowLast))
    }

    fn first(&self) -> Vec<Chart> {
        self.easel.charts(&plan::FIRST)
    }

    fn rest(&self) -> Vec<Chart> {
        self.easel.charts(&plan::REST)
    }

    fn numbers_caption(&self, chart: &Chart) -> String {
        phrase::plot_numbers_caption(self.cx.language, chart.title)
    }

    fn reasons(&self) -> Vec<Reason> {
        self.easel.reasons()
    }

    /// Whether the reasons can be read at all.
    fn reasons_note(&self) -> String {
        let metric = leasewatch_core::sample::Metric::ClockEventReasons;
        let masked = self.view.masked.iter().find(|masked| masked.metric == metric);
        self.cx.t(masked.map_or(Text::PlotNoReason, |masked| masked.why.text())).to_owned()
    }

    fn origin_band(&self) -> Markup {
        drawn::origin_band(self.view.name.origin, self.cx.language)
    }

    fn backdrop(&self) -> Backdrop<'_> {
        Backdrop {
            grid: self.easel.grid,
            enrolled_at: self.view.enrolled_at,
            gaps: &self.view.gaps,
            shares: &self.shares,
            marks: &self.marks,
        }
    }

    fn defs(&self) -> Markup {
        self.backdrop().defs(self.cx.zone, self.cx.language)
    }

    fn event_marks(&self) -> Markup {
        self.backdrop().marks(self.cx.t(Text::PlotEvents))
    }

    fn gap_words(&self) -> String {
        self.backdrop().gap_words(self.cx.language)
    }

    fn legend(&self) -> Markup {
        let shares = self.shares.iter().map(|share| share.cause);
        let causes = self.view.gaps.iter().map(|(_, cause)| *cause).chain(shares);
        chart::hatch_legend(causes, self.cx.language)
    }

    /// When each bucket begins, in words.
    fn times(&self) -> String {
        let (zone, language, grid) = (self.cx.zone, self.cx.language, self.easel.grid);
        let date = |at| format::iso_date(at, zone);
        let one_day = date(grid.period.start) == date(grid.period.end.plus_ms(-1));
        chart::column_words(grid, |column| {
            let at = grid.start(column);
            let clock = match grid.bucket_ms < 60_000 {
                true => format::clock_second(at, zone),
                false => format::clock(at, zone),
            };
            match one_day {
                true => clock,
                false => phrase::zoom_point(language, clock, format::day(at, zone, language)),
            }
        })
    }

    /// Bounds of the script's zoom: start, end and bucket in milliseconds, and the shortest range.
    fn bounds_ms(&self) -> [i64; 4] {
        let Period { start, end } = self.view.range;
        [start.0, end.0, self.easel.grid.bucket_ms, RANGE_MS_MIN]
    }

    fn gap_count(&self) -> String {
        let count = self.view.gaps.len() + self.shares.len();
        phrase::zoom_gaps(self.cx.language, count)
    }

    /// The longest gaps first where not all can be listed, in order of time.
    fn gap_rows(&self) -> Vec<GapRow> {
        let gaps = self.view.gaps.iter().map(|(period, cause)| (*period, *cause, period.ms()));
        let shares = self.shares.iter().map(|share| (share.period, share.cause, share.ms));
        let mut all: Vec<(Period, GapCause, i64)> = gaps.chain(shares).collect();
        all.sort_by_key(|(_, _, ms)| std::cmp::Reverse(*ms));
        all.truncate(GAPS_LISTED);
        all.sort_by_key(|(period, ..)| period.start);
        let row = |(period, cause, ms): (Period, GapCause, i64)| GapRow {
            at: period.start,
            href: self.zoom.around_period(period),
            length: Quantity::duration_ms(ms).text(self.cx.language),
            cause: names::gap_cause(cause).words(self.cx.language),
        };
        all.into_iter().map(row).collect()
    }

    fn gaps_left_out(&self) -> Option<String> {
        let more = (self.view.gaps.len() + self.shares.len()).checked_sub(GAPS_LISTED)?;
        (more > 0).then(|| phrase::zoom_gaps_left_out(self.cx.language, more))
    }

    fn event_words(&self, event: &Event) -> String {
        events::describe(&event.kind, self.cx.language)
    }

    fn event_weight(&self, event: &Event) -> &'static str {
        Weight::of(event).name()
    }

    fn event_subject(&self, event: &Event) -> String {
        match &event.gpu {
            None => self.cx.t(Text::EventNode).to_owned(),
            Some(uuid) if uuid.as_str() == self.view.gpu.uuid => self.gpu_label(),
            Some(uuid) => uuid.to_string(),
        }
    }

    fn around_words(&self, event: &Event) -> String {
        let time = format::clock_second(event.at, self.cx.zone);
        phrase::zoom_around(self.cx.language, time)
    }

    fn events_left_out(&self) -> String {
        let count = Quantity::count(self.view.events_left_out).text(self.cx.language);
        phrase::zoom_left_out(self.cx.language, count)
    }
}
