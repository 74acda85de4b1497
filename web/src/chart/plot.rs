//! Lines of several series on one axis, with their range behind them, limits that do not move, and
//! the page's backdrop of missing time and events.
//!
//! Missing time breaks a line and is hatched by the backdrop; it is never bridged and never drawn
//! as zero. Series differ in colour and in dashes. The drawing fills the width of its place: lines
//! are stretched, strokes and texts are not. Axis and plot are two drawings side by side, so that
//! the time axes of all charts of a page coincide.

use std::fmt::Write as _;

use super::axis::{binary_ticks, round_ticks};
use super::backdrop::{BACK, LABELS};
use super::point::{Band, Grid, Point};
use crate::format::{Quantity, div_half_even};
use crate::i18n::Language;
use crate::markup::{Markup, Milli, Writer};

/// Width of the axis, height of the plot, and the space above it, all in pixels.
const AXIS: i64 = 74;
const PLOT: i64 = 116;
const TOP: i64 = 7;
/// Space under the plot for the clock times.
const UNDER: i64 = 17;
/// Height of the stretched drawing in its own unit.
const DEPTH: i64 = 500;
/// Labels of limits that are closer than this are written side by side.
const LABEL_PX: i64 = 12;

/// How the axis of values is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Per mille from nothing to the whole.
    Share,
    /// From zero, round in tens.
    Decimal,
    /// From zero, round in powers of 1024.
    Binary,
    /// From near the lowest value.
    Near,
}

/// How a line goes from one point to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Straight.
    Line,
    /// A setting that holds until it changes.
    Step,
}

/// A series to be drawn.
#[derive(Debug, Clone, Copy)]
pub struct Line<'a> {
    /// In order of time.
    pub points: &'a [Point],
    /// What its values are multiplied by to be in the unit of the axis.
    pub factor: i64,
    /// Its colour and dashes, 0 to 4.
    pub style: usize,
    /// How it goes on.
    pub shape: Shape,
}

/// A value that lines are read against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// In the unit of the axis.
    pub value: i64,
    /// Written onto it.
    pub words: String,
}

/// A chart of lines. [`super::Backdrop::defs`] has to be on the page.
#[derive(Debug, Clone, Copy)]
pub struct Plot<'a> {
    /// The name that a screen reader reads: what is shown, and its figures.
    pub name: &'a str,
    /// The time axis.
    pub grid: Grid,
    /// The series.
    pub lines: &'a [Line<'a>],
    /// The limits.
    pub rules: &'a [Rule],
    /// The axis of values.
    pub scale: Scale,
    /// Its unit.
    pub unit: fn(i64) -> Quantity,
}

/// The class of a style, of its line and of its band.
pub(crate) fn style_class(style: usize) -> &'static str {
    ["s0", "s1", "s2", "s3", "s4"].get(style).copied().unwrap_or("s4")
}

impl Plot<'_> {
    /// Axis and plot.
    #[must_use]
    pub fn markup(&self, language: Language) -> Markup {
        let ticks = self.ticks();
        let range = (ticks[0], ticks[ticks.len() - 1]);
        let mut out = Writer::default();
        out.open("div", &[("class", &"plot-row")]);
        self.axis(&mut out, &ticks, range, language);
        out.open("div", &[("class", &"plot"), ("data-plot", &"")]);
        let height = TOP + PLOT + UNDER;
        out.open_chart(self.name, &[("width", &"100%"), ("height", &height)]);
        out.open(
            "svg",
            &[("y", &TOP), ("width", &"100%"), ("height", &PLOT), ("aria-hidden", &"true")],
        );
        out.empty("use", &[("href", &format!("#{BACK}"))]);
        for tick in &ticks {
            let y = Milli(pixels(*tick, range));
            out.empty("line", &[("class", &"rule"), ("x2", &"100%"), ("y1", &y), ("y2", &y)]);
        }
        self.stretched(&mut out, range);
        self.rule_words(&mut out, range);
        out.close("svg");
        let below = TOP + PLOT;
        out.empty("use", &[("href", &format!("#{LABELS}")), ("y", &below)]);
        out.close_chart();
        out.close("div");
        out.close("div");
        out.finish()
    }

    fn axis(&self, out: &mut Writer, ticks: &[i64], range: (i64, i64), language: Language) {
        let height = TOP + PLOT + UNDER;
        out.open(
            "svg",
            &[
                ("class", &"y-axis"),
                ("width", &AXIS),
                ("height", &height),
                ("aria-hidden", &"true"),
            ],
        );
        for tick in ticks {
            let y = Milli(pixels(*tick, range) + TOP * 1_000 + 4_000);
            let words = (self.unit)(*tick).text(language);
            out.element("text", &[("x", &(AXIS - 6)), ("y", &y)], words);
        }
        out.close("svg");
    }

    /// Lines and bands, in a drawing that is stretched to the plot.
    fn stretched(&self, out: &mut Writer, range: (i64, i64)) {
        let view_box = format!("0 0 {} {DEPTH}", self.grid.width());
        out.open(
            "svg",
            &[
                ("class", &"lines"),
                ("width", &"100%"),
                ("height", &"100%"),
                ("viewBox", &view_box),
                ("preserveAspectRatio", &"none"),
                ("aria-hidden", &"true"),
            ],
        );
        for rule in self.rules {
            let data = format!("M0 {}H{}", depth(rule.value, range), self.grid.width());
            out.empty("path", &[("class", &"limit"), ("d", &data)]);
        }
        // Bands first, so that no band hides a line.
        for line in self.lines.iter().filter(|line| line.shape == Shape::Line) {
            let data: String = self.runs(line).iter().map(|run| band_path(run, range)).collect();
            if !data.is_empty() {
                let class = format!("band {}", style_class(line.style));
                out.empty("path", &[("class", &class), ("d", &data)]);
            }
        }
        for line in self.lines {
            let draw = if line.shape == Shape::Step { step_path } else { mean_path };
            let data: String = self.runs(line).iter().map(|run| draw(run, range)).collect();
            if !data.is_empty() {
                let class = format!("mean {}", style_class(line.style));
                out.empty("path", &[("class", &class), ("d", &data)]);
            }
        }
        out.close("svg");
    }

    fn rule_words(&self, out: &mut Writer, range: (i64, i64)) {
        let mut taken: Vec<i64> = Vec::new();
        for rule in self.rules {
            let y = pixels(rule.value, range);
            let near = |other: &&i64| (**other - y).abs() < LABEL_PX * 1_000;
            let side = taken.iter().filter(near).count();
            taken.push(y);
            // Near ones stand at the right, at the left and in the middle.
            let (class, x, dx) = match side {
                0 => ("limit-words end", "100%", -3),
                1 => ("limit-words start", "0%", 3),
                _ => ("limit-words", "50%", 0),
            };
            // Above the line, or below where there is no room.
            let baseline = if y < 10_000 { y + 10_000 } else { y - 3_000 };
            let attributes: [(&str, &dyn std::fmt::Display); 4] =
                [("class", &class), ("x", &x), ("dx", &dx), ("y", &Milli(baseline))];
            out.element("text", &attributes, &rule.words);
        }
    }

    fn ticks(&self) -> Vec<i64> {
        if self.scale == Scale::Share {
            return vec![0, 250, 500, 750, 1_000];
        }
        let bands = || {
            let scaled =
                |line: &Line<'_>, point: &Point| point.band.map(|band| times(band, line.factor));
            self.lines.iter().flat_map(move |line| {
                line.points.iter().filter_map(move |point| scaled(line, point))
            })
        };
        let limits = || self.rules.iter().map(|rule| rule.value);
        let high = bands().map(|band| band.max).chain(limits()).max().unwrap_or(1).max(1);
        let low = bands().map(|band| band.min).chain(limits()).min().unwrap_or(0);
        match self.scale {
            Scale::Binary => binary_ticks(low.min(0), high, 4),
            Scale::Near => round_ticks(low.min(high), high, 4),
            Scale::Decimal | Scale::Share => round_ticks(low.min(0), high, 4),
        }
    }

    /// Stretches of a line without a break: where, and what.
    fn runs(&self, line: &Line<'_>) -> Vec<Vec<(i64, Band)>> {
        let place = |point: &Point| {
            let x = self.grid.middle(self.grid.column(point.at)?);
            Some((x, times(point.band?, line.factor)))
        };
        let runs = line.points.split(|point| point.band.is_none());
        let runs = runs.map(|run| run.iter().filter_map(place).collect::<Vec<_>>());
        runs.filter(|run| !run.is_empty()).collect()
    }
}

fn times(band: Band, factor: i64) -> Band {
    Band {
        min: band.min.saturating_mul(factor),
        mean: band.mean.saturating_mul(factor),
        max: band.max.saturating_mul(factor),
    }
}

/// The place of a value between the lowest and the highest tick, from the top, of `whole`.
fn place(value: i64, (low, high): (i64, i64), whole: i64) -> i64 {
    let (low, high) = (i128::from(low), i128::from(high));
    let from_top = high - i128::from(value).clamp(low, high);
    div_half_even(from_top * i128::from(whole), (high - low).max(1))
}

/// In thousandths of a pixel.
fn pixels(value: i64, range: (i64, i64)) -> i64 {
    place(value, range, PLOT * 1_000)
}

/// In the unit of the stretched drawing.
fn depth(value: i64, range: (i64, i64)) -> i64 {
    place(value, range, DEPTH)
}

/// The mean through the middles of buckets. One point alone is a dot: a line without length is
/// drawn as its round ends.
fn mean_path(run: &[(i64, Band)], range: (i64, i64)) -> String {
    let places: Vec<(i64, i64)> =
        run.iter().map(|(x, band)| (*x, depth(band.mean, range))).collect();
    let mut data = start(&places);
    if places.len() == 1 {
        data.push_str("h0");
    }
    segments(&mut data, places.into_iter());
    data
}

fn step_path(run: &[(i64, Band)], range: (i64, i64)) -> String {
    let places: Vec<(i64, i64)> =
        run.iter().map(|(x, band)| (*x, depth(band.mean, range))).collect();
    let mut data = start(&places);
    let mut held = 1;
    for pair in places.windows(2) {
        let ((x, y), (next_x, next_y)) = (pair[0], pair[1]);
        held += next_x - x;
        if y != next_y {
            // Writing to a string cannot fail.
            let _ = write!(data, "h{}v{}", held - 1, next_y - y);
            held = 1;
        }
    }
    let _ = write!(data, "h{held}");
    data
}

/// From least to most, where they differ anywhere in the run; one bucket alone has its width.
fn band_path(run: &[(i64, Band)], range: (i64, i64)) -> String {
    if run.iter().all(|(_, band)| band.min == band.max) {
        return String::new();
    }
    if let [(x, band)] = run {
        let (top, bottom) = (depth(band.max, range), depth(band.min, range));
        return format!("M{} {top}h2V{bottom}h-2z", x - 1);
    }
    let over = run.iter().map(|(x, band)| (*x, depth(band.max, range)));
    let back = run.iter().rev().map(|(x, band)| (*x, depth(band.min, range)));
    let places: Vec<(i64, i64)> = over.chain(back).collect();
    let mut data = start(&places);
    segments(&mut data, places.into_iter());
    data.push('z');
    data
}

fn start(places: &[(i64, i64)]) -> String {
    places.first().map_or_else(String::new, |(x, y)| format!("M{x} {y}"))
}

/// Straight on to each place, relative and without repeated letters, which is what keeps a page
/// of charts small. Level stretches are one segment.
fn segments(data: &mut String, mut places: impl Iterator<Item = (i64, i64)>) {
    let Some((mut x, mut y)) = places.next() else { return };
    let mut level = 0;
    let mut letter = 'l';
    let mut draw = |dx: i64, dy: i64| {
        // Writing to a string cannot fail. A minus sign separates numbers as well as a space does.
        let gap = if letter == 'l' || dx < 0 { "" } else { " " };
        let comma = if dy < 0 { "" } else { " " };
        let first = if letter == 'l' { "l" } else { "" };
        let _ = write!(data, "{first}{gap}{dx}{comma}{dy}");
        letter = ' ';
    };
    for (next_x, next_y) in places {
        let (dx, dy) = (next_x - x, next_y - y);
        (x, y) = (next_x, next_y);
        if dy == 0 && level * dx >= 0 {
            level += dx;
            continue;
        }
        if level != 0 {
            draw(level, 0);
        }
        level = 0;
        if dy == 0 { level = dx } else { draw(dx, dy) }
    }
    if level != 0 {
        draw(level, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasewatch_core::time::{Period, Timestamp};
    use proptest::prelude::*;

    const GRID: Grid =
        Grid { period: Period { start: Timestamp(0), end: Timestamp(100_000) }, bucket_ms: 1_000 };

    fn points(values: &[Option<(i64, i64, i64)>]) -> Vec<Point> {
        let band = |(min, mean, max)| Band { min, mean, max };
        (0..)
            .zip(values)
            .map(|(i, v)| Point { at: Timestamp(i * 1_000), band: v.map(band) })
            .collect()
    }

    fn flat(values: &[Option<i64>]) -> Vec<Point> {
        points(&values.iter().map(|v| v.map(|v| (v, v, v))).collect::<Vec<_>>())
    }

    fn svg(points: &[Point], shape: Shape) -> String {
        let lines = [Line { points, factor: 10, style: 0, shape }];
        let plot = Plot {
            name: "t",
            grid: GRID,
            lines: &lines,
            rules: &[],
            scale: Scale::Share,
            unit: Quantity::whole_permille,
        };
        plot.markup(Language::En).to_string()
    }

    /// The places of each run of a path, read back as a browser would.
    pub(super) fn read(data: &str) -> Vec<Vec<(i64, i64)>> {
        let mut runs: Vec<Vec<(i64, i64)>> = Vec::new();
        let mut rest = data;
        let (mut x, mut y) = (0, 0);
        while let Some(letter) = rest.chars().next() {
            rest = &rest[1..];
            let end = rest.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(rest.len());
            let spaced = rest[..end].replace('-', " -");
            let numbers: Vec<i64> = spaced.split_whitespace().map(|n| n.parse().unwrap()).collect();
            rest = &rest[end..];
            match letter {
                'M' => {
                    (x, y) = (numbers[0], numbers[1]);
                    runs.push(vec![(x, y)]);
                }
                'l' => {
                    for pair in numbers.chunks(2) {
                        (x, y) = (x + pair[0], y + pair[1]);
                        runs.last_mut().unwrap().push((x, y));
                    }
                }
                'h' => {
                    x += numbers[0];
                    runs.last_mut().unwrap().push((x, y));
                }
                'v' => {
                    y += numbers[0];
                    runs.last_mut().unwrap().push((x, y));
                }
                'V' => {
                    y = numbers[0];
                    runs.last_mut().unwrap().push((x, y));
                }
                'z' => {}
                other => panic!("{other} in {data}"),
            }
        }
        runs
    }

    fn path<'a>(svg: &'a str, class: &str) -> Option<&'a str> {
        let (_, after) = svg.split_once(&format!("class=\"{class}\" d=\""))?;
        after.split_once('"').map(|(data, _)| data)
    }

    /// The height of a line at an x that it passes.
    fn height(run: &[(i64, i64)], x: i64) -> Option<i64> {
        let pair = run.windows(2).find(|pair| pair[0].0 <= x && x <= pair[1].0);
        if let Some([(x0, y0), (x1, y1)]) = pair {
            return Some(if x1 == x0 { *y0 } else { y0 + (y1 - y0) * (x - x0) / (x1 - x0) });
        }
        run.iter().find(|place| place.0 == x).map(|place| place.1)
    }

    /// Top and bottom of a band at an x: it goes there over the top and back under it.
    fn edges(run: &[(i64, i64)], x: i64) -> Option<(i64, i64)> {
        let turn = (1..run.len()).find(|at| run[*at].0 <= run[at - 1].0)?;
        let mut under: Vec<(i64, i64)> = run[turn..].to_vec();
        under.push(run[0]);
        under.reverse();
        // The closing edge is upright.
        let bottom = height(&under[1..], x).or_else(|| height(&under, x))?;
        Some((height(&run[..turn], x)?, bottom))
    }

    #[test]
    fn nothing_draws_no_line_and_one_point_is_a_dot() {
        assert!(path(&svg(&[], Shape::Line), "mean s0").is_none());
        assert!(path(&svg(&flat(&[None, None]), Shape::Line), "mean s0").is_none());
        assert_eq!(path(&svg(&flat(&[None, Some(50)]), Shape::Line), "mean s0"), Some("M3 250h0"));
    }

    #[test]
    fn level_stretches_are_one_segment_and_minus_is_a_separator() {
        let line = flat(&[Some(50), Some(50), Some(50), Some(60), Some(40), Some(40)]);
        assert_eq!(path(&svg(&line, Shape::Line), "mean s0"), Some("M1 250l4 0 2-50 2 100 2 0"));
    }

    #[test]
    fn a_setting_holds_until_it_changes() {
        let line = flat(&[Some(70), Some(70), Some(50), Some(50)]);
        assert_eq!(path(&svg(&line, Shape::Step), "mean s0"), Some("M1 150h4v100h3"));
    }

    #[test]
    fn a_bucket_without_a_point_does_not_break_a_line_and_a_break_does() {
        let mut line = flat(&[Some(10), Some(20), Some(30)]);
        line.remove(1);
        assert_eq!(read(path(&svg(&line, Shape::Line), "mean s0").unwrap()).len(), 1);
        let line = flat(&[Some(10), None, Some(30)]);
        assert_eq!(read(path(&svg(&line, Shape::Line), "mean s0").unwrap()).len(), 2);
    }

    #[test]
    fn values_at_the_ends_of_the_number_range_do_not_overflow() {
        let wild = points(&[Some((i64::MIN, 0, i64::MAX)), Some((0, 1, 2))]);
        for scale in [Scale::Share, Scale::Decimal, Scale::Binary, Scale::Near] {
            let lines = [Line { points: &wild, factor: 1_000, style: 0, shape: Shape::Line }];
            let rules = [Rule { value: i64::MAX, words: "limit".to_owned() }];
            let unit = Quantity::count;
            let plot = Plot { name: "t", grid: GRID, lines: &lines, rules: &rules, scale, unit };
            assert!(plot.markup(Language::En).as_str().contains("class=\"mean s0\""));
        }
    }

    proptest! {
        #[test]
        fn a_band_holds_its_mean_and_a_gap_is_never_zero(
            values in proptest::collection::vec(
                proptest::option::weighted(0.8, (0_i64..=100, 0_i64..=100, 0_i64..=100)), 1..60)
        ) {
            let values: Vec<_> = values
                .into_iter()
                .map(|v| v.map(|(a, b, c)| { let mut s = [a, b, c]; s.sort_unstable(); (s[0], s[1], s[2]) }))
                .collect();
            let svg = svg(&points(&values), Shape::Line);
            let means = path(&svg, "mean s0").map(read).unwrap_or_default();
            let bands = path(&svg, "band s0").map(read).unwrap_or_default();
            for (column, value) in (0_i64..).zip(&values) {
                let x = 2 * column + 1;
                let mean = means.iter().find_map(|run| height(run, x));
                let Some((min, wanted, max)) = value else {
                    prop_assert_eq!(mean, None, "a line over a break");
                    continue;
                };
                prop_assert_eq!(mean, Some(500 - wanted * 5));
                if let Some((top, bottom)) = bands.iter().find_map(|run| edges(run, x)) {
                    prop_assert!(top <= 500 - max * 5 && bottom >= 500 - min * 5);
                    prop_assert!(top <= 500 - wanted * 5 && bottom >= 500 - wanted * 5);
                } else {
                    prop_assert_eq!(min, max);
                }
            }
        }
    }
}
