//! Series of the view as charts of the page: drawing, legend, numbers, and words for what cannot
//! be drawn.

use leasewatch_core::segment::Origin;

use super::plan::{self, LineSpec, Spec};
use super::{GpuView, Limit, LimitSource, Masked, MaskedWhy, ReasonLane, Series, SeriesKey};
use crate::chart::{self, Band, Grid, Lane, Line, Plot, Point, Rule, Shape};
use crate::format::{Quantity, div_half_even};
use crate::i18n::{Language, Text, phrase};
use crate::markup::{Markup, Writer};

/// A chart with everything around it.
pub(super) struct Chart {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    /// Axis and lines; `None` where no series of it was read.
    pub(super) plot: Option<Markup>,
    pub(super) legend: Vec<Entry>,
    /// What is masked, in words.
    pub(super) notes: Vec<String>,
}

/// A series in the legend, with its numbers.
pub(super) struct Entry {
    pub(super) name: &'static str,
    pub(super) class: &'static str,
    /// Its value in each bucket, in words.
    pub(super) words: String,
    pub(super) last: String,
    pub(super) least: String,
    pub(super) mean: String,
    pub(super) most: String,
}

/// A reason's lane.
pub(super) struct Reason {
    pub(super) name: &'static str,
    /// The raw bit.
    pub(super) code: String,
    pub(super) held: String,
    pub(super) lane: Markup,
    /// Its share in each bucket, in words.
    pub(super) words: String,
}

/// What drawing needs beside the series.
#[derive(Clone, Copy)]
pub(super) struct Easel<'a> {
    pub(super) view: &'a GpuView,
    pub(super) grid: Grid,
    pub(super) language: Language,
}

impl<'a> Easel<'a> {
    /// The charts of a part of the plan that have anything to say. Utilization always has.
    pub(super) fn charts(self, specs: &[Spec]) -> Vec<Chart> {
        let charts = specs.iter().map(|spec| self.chart(spec));
        let says = |chart: &Chart| chart.plot.is_some() || !chart.notes.is_empty();
        charts.filter(says).collect()
    }

    /// The lanes of the clock event reasons.
    pub(super) fn reasons(self) -> Vec<Reason> {
        self.view.lanes.iter().map(|lane| self.reason(lane)).collect()
    }

    fn chart(self, spec: &Spec) -> Chart {
        let find = |line: &LineSpec| self.view.series.iter().find(|s| s.what == line.key);
        let numbered = (0..).zip(spec.lines);
        let found: Vec<(usize, &LineSpec, &Series)> =
            numbered.filter_map(|(style, line)| Some((style, line, find(line)?))).collect();
        let lines: Vec<Line<'_>> = found
            .iter()
            .map(|(style, line, series)| Line {
                points: &series.points,
                factor: line.factor,
                style: *style,
                shape: line.shape,
            })
            .collect();
        let legend: Vec<Entry> = found
            .iter()
            .map(|(style, line, series)| self.entry(spec, *style, line, series))
            .collect();
        let title = spec.title.words(self.language);
        let is_busy = spec.lines.iter().any(|line| line.key == SeriesKey::Busy);
        let plot = (!lines.is_empty() || is_busy).then(|| {
            let name = self.name(title, &legend);
            let rules = self.rules(spec);
            let (scale, unit, grid) = (spec.scale, spec.tick, self.grid);
            Plot { name: &name, grid, lines: &lines, rules: &rules, scale, unit }
                .markup(self.language)
        });
        Chart { id: spec.id, title, plot, legend, notes: self.notes(spec) }
    }

    /// `Power: Draw 71.4 W – 699.0 W, Limit ..`, and the origin.
    fn name(self, title: &str, legend: &[Entry]) -> String {
        let figure = |e: &Entry| phrase::plot_figure(self.language, &e.most, &e.least, e.name);
        let figures: Vec<String> = legend.iter().map(figure).collect();
        let words = match figures.is_empty() {
            true => Text::PlotNoData.words(self.language).to_owned(),
            false => figures.join(Text::ListSeparator.words(self.language)),
        };
        let name = phrase::plot_name(self.language, words, title);
        chart::named(&name, self.origin(), self.language)
    }

    fn origin(self) -> Origin {
        self.view.name.origin
    }

    fn entry(self, spec: &Spec, style: usize, line: &LineSpec, series: &Series) -> Entry {
        let say = |value: i64| (spec.say)(value.saturating_mul(line.factor)).text(self.language);
        let bands = || series.points.iter().filter_map(|point| point.band);
        let or_none = |value: Option<i64>| {
            value.map_or_else(|| Text::MissingNoData.words(self.language).to_owned(), say)
        };
        let words = |band: Band| match band.min == band.max || line.shape == Shape::Step {
            true => say(band.mean),
            false => phrase::plot_band(self.language, say(band.max), say(band.min), say(band.mean)),
        };
        Entry {
            name: line.name.words(self.language),
            class: chart::style_class(style),
            words: chart::series_words(&series.points, self.grid, words),
            last: or_none(bands().next_back().map(|band| band.mean)),
            least: or_none(bands().map(|band| band.min).min()),
            mean: or_none(mean_of(&series.points)),
            most: or_none(bands().map(|band| band.max).max()),
        }
    }

    /// The limits of a chart, without those that a series says over time.
    fn limits(self, spec: &Spec) -> Vec<&'a Limit> {
        let has = |metric| self.view.series.iter().any(|s| s.what == SeriesKey::Gauge(metric));
        let drawn = |limit: &&Limit| {
            spec.limits.contains(&limit.what) && !limit.what.series().is_some_and(has)
        };
        self.view.limits.iter().filter(drawn).collect()
    }

    fn rules(self, spec: &Spec) -> Vec<Rule> {
        let rule = |limit: &Limit| {
            let name = limit.what.text().words(self.language);
            let value = (spec.tick)(limit.value).text(self.language);
            let words = phrase::limit_read(self.language, name, value);
            Rule { value: limit.value, words }
        };
        self.limits(spec).into_iter().map(rule).collect()
    }

    /// What cannot be drawn, by reason.
    fn notes(self, spec: &Spec) -> Vec<String> {
        let masked = |why: MaskedWhy| {
            let is = |line: &&LineSpec| {
                let masked =
                    |masked: &Masked| masked.why == why && line.key.metric() == Some(masked.metric);
                self.view.masked.iter().any(masked)
            };
            let names: Vec<&str> =
                spec.lines.iter().filter(is).map(|line| line.name.words(self.language)).collect();
            let names = names.join(Text::ListSeparator.words(self.language));
            let why = why.text().words(self.language);
            (!names.is_empty()).then(|| phrase::masked_line(self.language, names, why))
        };
        MaskedWhy::ALL.into_iter().filter_map(masked).chain(self.of_model(spec)).collect()
    }

    /// Which of the drawn limits the driver did not say.
    fn of_model(self, spec: &Spec) -> Option<String> {
        let drawn = spec.lines.iter().any(|l| self.view.series.iter().any(|s| s.what == l.key));
        let of_model = |limit: &&Limit| limit.source == LimitSource::Catalogue;
        let names: Vec<&str> = self
            .limits(spec)
            .into_iter()
            .filter(of_model)
            .map(|limit| limit.what.text().words(self.language))
            .collect();
        let names = names.join(Text::ListSeparator.words(self.language));
        (drawn && !names.is_empty()).then(|| phrase::limit_of_model(self.language, names))
    }

    fn reason(self, lane: &ReasonLane) -> Reason {
        let (text, class) = plan::reason(lane.bit);
        let name = text.words(self.language);
        let stretches: Vec<_> =
            lane.stretches.iter().map(|s| (s.period, s.share_permille)).collect();
        let part = |s: &super::ReasonStretch| i128::from(s.period.ms() * s.share_permille);
        let held_ms = div_half_even(lane.stretches.iter().map(part).sum(), 1_000);
        let length = Quantity::duration_ms(held_ms).text(self.language);
        let share = Quantity::open_share(held_ms, self.grid.period.ms());
        let share = share.map_or_else(String::new, |share| share.text(self.language));
        let words = phrase::plot_lane(self.language, &length, name, &share);
        let words = chart::named(&words, self.origin(), self.language);
        let drawn = Lane { name: &words, grid: self.grid, stretches: &stretches, class };
        let say = |share| Quantity::permille(share).text(self.language);
        Reason {
            name,
            code: format!("{:#x}", 1_u64 << lane.bit.min(63)),
            held: phrase::plot_lane_held(self.language, length, share),
            lane: drawn.markup(),
            words: chart::lane_words(&stretches, self.grid, say),
        }
    }
}

/// The mean of the points' means; the exact mean of utilization is in the sums.
fn mean_of(points: &[Point]) -> Option<i64> {
    let means: Vec<i128> =
        points.iter().filter_map(|point| point.band).map(|band| band.mean.into()).collect();
    let count = i128::try_from(means.len()).ok().filter(|count| *count > 0)?;
    Some(div_half_even(means.into_iter().sum(), count))
}

/// The band of an origin under a chart; nothing for measured data.
pub(super) fn origin_band(origin: Origin, language: Language) -> Markup {
    let mut out = Writer::default();
    chart::origin_band(&mut out, origin, language);
    out.finish()
}
