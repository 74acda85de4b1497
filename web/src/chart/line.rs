//! A line over time with its range behind it. Missing time breaks the line and is hatched; it is
//! never bridged. Many points are reduced to one per pixel column, keeping each column's extremes.

use std::fmt::Write as _;

use leasewatch_core::metering::GapCause;
use leasewatch_core::time::{Period, Timestamp, Zone};

use super::axis::{round_ticks, time_ticks};
use super::hatch::Hatch;
use crate::format::{Quantity, div_half_even};
use crate::i18n::{Language, phrase};
use crate::markup::{Markup, Milli, Writer};
use crate::names;

const WIDTH: i64 = 840;
const HEIGHT: i64 = 180;
const LEFT: i64 = 64;
const BOTTOM: i64 = 20;
const TOP: i64 = 8;

/// Least, mean and most of a point, in the chart's base unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Band {
    /// The least value.
    pub min: i64,
    /// The mean.
    pub mean: i64,
    /// The most.
    pub max: i64,
}

/// A value at an instant; `None` where there is none, which breaks the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// When.
    pub at: Timestamp,
    /// What.
    pub band: Option<Band>,
}

/// A line chart with axes.
#[derive(Debug, Clone, Copy)]
pub struct LineChart<'a> {
    /// The name that a screen reader reads.
    pub title: &'a str,
    /// The stretch that the width stands for.
    pub period: Period,
    /// In order of time.
    pub points: &'a [Point],
    /// Missing time, hatched.
    pub gaps: &'a [(Period, GapCause)],
    /// The values' unit.
    pub unit: fn(i64) -> Quantity,
}

impl LineChart<'_> {
    /// The chart as SVG of fixed proportions.
    #[must_use]
    pub fn svg(&self, zone: Zone, language: Language) -> Markup {
        let plot = (LEFT, WIDTH - 8);
        let points = downsample(self.points, self.period, plot.1 - plot.0);
        let bands: Vec<Band> = points.iter().filter_map(|point| point.band).collect();
        let low = bands.iter().map(|band| band.min).min().unwrap_or(0).min(0);
        let high = bands.iter().map(|band| band.max).max().unwrap_or(1);
        let ticks = round_ticks(low, high, 4);
        let range = (ticks[0], ticks[ticks.len() - 1]);
        let frame = Frame { period: self.period, x: plot, y: (HEIGHT - BOTTOM, TOP), range };
        let mut out = Writer::default();
        let view_box = format!("0 0 {WIDTH} {HEIGHT}");
        out.open_chart(self.title, &[("class", &"line"), ("viewBox", &view_box)]);
        for tick in &ticks {
            let y = frame.y_of(*tick);
            out.empty(
                "line",
                &[("class", &"rule"), ("x1", &LEFT), ("x2", &plot.1), ("y1", &y), ("y2", &y)],
            );
            let label = (self.unit)(*tick).text(language);
            let below = Milli(y.0 + 4_000);
            out.element("text", &[("class", &"y"), ("x", &(LEFT - 6)), ("y", &below)], label);
        }
        for tick in time_ticks(self.period, zone, 8) {
            let x = frame.x_of(tick.at);
            out.element("text", &[("class", &"x"), ("x", &x), ("y", &(HEIGHT - 5))], &tick.label);
        }
        self.hatch_gaps(&mut out, frame, (zone, language));
        draw(&mut out, &points, frame);
        out.close_chart();
        out.finish()
    }

    fn hatch_gaps(&self, out: &mut Writer, frame: Frame, (zone, language): (Zone, Language)) {
        for (period, cause) in self.gaps {
            let inside = period.intersect(self.period);
            if inside.is_empty() {
                continue;
            }
            let x = frame.x_of(inside.start);
            let width = Milli((frame.x_of(inside.end).0 - x.0).max(1_000));
            let fill = Hatch::of(*cause).fill();
            out.open("g", &[]);
            let from = crate::format::clock(inside.start, zone);
            let length = Quantity::duration_ms(period.ms()).text(language);
            let cause = names::gap_cause(*cause).words(language);
            out.element("title", &[], phrase::line_gap(language, cause, from, length));
            let height = frame.y.0 - frame.y.1;
            out.empty(
                "rect",
                &[
                    ("class", &"gap"),
                    ("x", &x),
                    ("y", &TOP),
                    ("width", &width),
                    ("height", &height),
                    ("fill", &fill),
                ],
            );
            out.close("g");
        }
    }
}

/// A line without axes, for a table cell.
#[must_use]
pub fn sparkline(points: &[Point], period: Period, title: &str) -> Markup {
    let points = downsample(points, period, 120);
    let bands: Vec<Band> = points.iter().filter_map(|point| point.band).collect();
    let low = bands.iter().map(|band| band.min).min().unwrap_or(0).min(0);
    let high = bands.iter().map(|band| band.max).max().unwrap_or(1).max(low + 1);
    let mut out = Writer::default();
    out.open_chart(title, &[("class", &"spark"), ("viewBox", &"0 0 120 24")]);
    draw(&mut out, &points, Frame { period, x: (0, 120), y: (23, 1), range: (low, high) });
    out.close_chart();
    out.finish()
}

/// Where time and value lie on the drawing.
#[derive(Debug, Clone, Copy)]
struct Frame {
    period: Period,
    x: (i64, i64),
    /// Bottom and top.
    y: (i64, i64),
    range: (i64, i64),
}

impl Frame {
    fn x_of(self, at: Timestamp) -> Milli {
        scale(at.since(self.period.start), self.period.ms(), self.x)
    }

    fn y_of(self, value: i64) -> Milli {
        let span = self.range.1.saturating_sub(self.range.0);
        scale(value.saturating_sub(self.range.0), span, self.y)
    }
}

/// The place of `part` of `whole` between two pixels, to a tenth.
fn scale(part: i64, whole: i64, (from, to): (i64, i64)) -> Milli {
    let whole = i128::from(whole.max(1));
    let way = i128::from(part).clamp(0, whole) * i128::from(to - from) * 10;
    Milli(from * 1_000 + div_half_even(way, whole) * 100)
}

fn draw(out: &mut Writer, points: &[Point], frame: Frame) {
    for run in points.split(|point| point.band.is_none()).filter(|run| !run.is_empty()) {
        let bands = || run.iter().filter_map(|p| p.band.map(|band| (frame.x_of(p.at), band)));
        if run.len() == 1 {
            for (x, band) in bands() {
                let (low, high) = (frame.y_of(band.min), frame.y_of(band.max));
                out.empty(
                    "line",
                    &[("class", &"band"), ("x1", &x), ("x2", &x), ("y1", &low), ("y2", &high)],
                );
                out.empty(
                    "circle",
                    &[("class", &"dot"), ("cx", &x), ("cy", &frame.y_of(band.mean)), ("r", &2)],
                );
            }
            continue;
        }
        if bands().any(|(_, band)| band.min != band.max) {
            let top = path(bands().map(|(x, band)| (x, frame.y_of(band.max))), 'M');
            let back: Vec<(Milli, Milli)> = bands().map(|(x, b)| (x, frame.y_of(b.min))).collect();
            let bottom = path(back.into_iter().rev(), 'L');
            out.empty("path", &[("class", &"band"), ("d", &format!("{top}{bottom}Z"))]);
        }
        let mean = path(bands().map(|(x, band)| (x, frame.y_of(band.mean))), 'M');
        out.empty("path", &[("class", &"mean"), ("d", &mean)]);
    }
}

fn path(points: impl Iterator<Item = (Milli, Milli)>, first: char) -> String {
    let mut data = String::new();
    for (index, (x, y)) in points.enumerate() {
        let command = if index == 0 { first } else { 'L' };
        // Writing to a string cannot fail.
        let _ = write!(data, "{command}{x} {y}");
    }
    data
}

/// At most one point and one break per pixel column of `columns`. A column keeps its least and
/// most value; its mean is that of its points. A break anywhere in a column stays a break.
#[must_use]
pub fn downsample(points: &[Point], period: Period, columns: i64) -> Vec<Point> {
    let column = |at: Timestamp| {
        i128::from(at.since(period.start)) * i128::from(columns) / i128::from(period.ms().max(1))
    };
    let inside = |point: &&Point| point.at >= period.start && point.at <= period.end;
    let mut out: Vec<Point> = Vec::new();
    let mut bucket: Vec<&Point> = Vec::new();
    for point in points.iter().filter(inside) {
        if bucket.first().is_some_and(|first| column(first.at) != column(point.at)) {
            flush(&mut out, &mut bucket);
        }
        bucket.push(point);
    }
    flush(&mut out, &mut bucket);
    out
}

fn flush(out: &mut Vec<Point>, bucket: &mut Vec<&Point>) {
    let bands: Vec<Band> = bucket.iter().filter_map(|point| point.band).collect();
    if let (Some(first), Some(count)) = (bucket.first(), i128::try_from(bands.len()).ok()) {
        if count > 0 {
            let sum: i128 = bands.iter().map(|band| i128::from(band.mean)).sum();
            let min = bands.iter().map(|band| band.min).min().unwrap_or_default();
            let max = bands.iter().map(|band| band.max).max().unwrap_or_default();
            let band = Band { min, mean: div_half_even(sum, count), max };
            out.push(Point { at: first.at, band: Some(band) });
        }
        if let Some(broken) = bucket.iter().rev().find(|point| point.band.is_none()) {
            out.push(Point { at: broken.at, band: None });
        }
    }
    bucket.clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(at: i64, value: Option<i64>) -> Point {
        let band = value.map(|v| Band { min: v - 1, mean: v, max: v + 1 });
        Point { at: Timestamp(at), band }
    }

    fn chart(points: &[Point], ms: i64) -> String {
        let period = Period::new(Timestamp(0), Timestamp(ms));
        let gaps = [(Period::new(Timestamp(ms / 2), Timestamp(ms)), GapCause::GpuLost)];
        let line = LineChart { title: "t", period, points, gaps: &gaps, unit: Quantity::percent };
        line.svg(Zone::UTC, Language::En).to_string()
    }

    #[test]
    fn no_point_and_one_point() {
        let none = chart(&[], 3_600_000);
        assert!(!none.contains("class=\"mean\"") && none.contains("url(#h-gpu)"));
        let one = chart(&[point(1_000, Some(50))], 3_600_000);
        assert_eq!(one.matches("<circle").count(), 1);
        assert!(!chart(&[point(1_000, None)], 3_600_000).contains("<circle"));
    }

    #[test]
    fn a_gap_breaks_the_line() {
        let points: Vec<Point> =
            (0..100).map(|i| point(i * 36_000, (i / 10 != 5).then_some(i))).collect();
        assert_eq!(chart(&points, 3_600_000).matches("class=\"mean\"").count(), 2);
    }

    #[test]
    fn ten_thousand_points_keep_their_extremes_and_breaks() {
        let period = Period::new(Timestamp(0), Timestamp(10_000_000));
        let value = |i: i64| if i == 7_123 { Some(9_999) } else { (i != 4_321).then_some(i % 7) };
        let points: Vec<Point> = (0..10_000).map(|i| point(i * 1_000, value(i))).collect();
        let reduced = downsample(&points, period, 500);
        assert!(reduced.len() <= 1_001, "{}", reduced.len());
        let most = reduced.iter().filter_map(|p| p.band).map(|band| band.max).max();
        assert_eq!(most, Some(10_000));
        assert_eq!(reduced.iter().filter(|p| p.band.is_none()).count(), 1);
        assert!(chart(&points, 10_000_000).len() < 64_000);
    }

    #[test]
    fn values_at_the_ends_of_the_number_range_do_not_overflow() {
        let wild = [point(0, Some(i64::MAX - 1)), point(9, Some(i64::MIN + 1)), point(18, Some(0))];
        assert!(chart(&wild, 20).contains("<path"));
    }
}
