//! A week of one GPU: a row for each local day, a column for each hour.
//!
//! A cell is filled as high as it was measured and hatched above, with its mean written into it;
//! the line below says whether its record is final. Hours to come are blank, hours outside of
//! enrolment are a faint dot, an hour that should have a record and has none is outlined. Days of
//! 23 or 25 hours are as wide as they were long.

use std::fmt::{Display, Write as _};

use leasewatch_core::time::{DAY_MS, HOUR_MS, Hour, Period, Timestamp, Zone};

use super::cell::{Cell, not_enrolled};
use super::hatch::Hatch;
use super::{origin_band, record_line};
use crate::format;
use crate::i18n::{Language, phrase};
use crate::markup::{Markup, Milli, Writer};
use leasewatch_core::segment::Origin;

/// Width of an hour, height of a day, width of the row labels, height of the column labels.
const HOUR_PX: i64 = 24;
const DAY_PX: i64 = 26;
const LEFT: i64 = 90;
const TOP: i64 = 18;
/// Height of a cell; under it come the line of its record and the space between rows.
const CELL_PX: i64 = 20;
/// Space between a row's label and its first cell.
const LABEL_GAP: i64 = 8;

/// One GPU over some local days.
#[derive(Clone, Copy)]
pub struct HourGrid<'a> {
    /// The name that a screen reader reads.
    pub title: &'a str,
    /// From a local midnight to a local midnight.
    pub period: Period,
    /// In order of time.
    pub cells: &'a [Cell],
    /// Where the data came from.
    pub origin: Origin,
    /// When the node should have been measured.
    pub enrolled: Period,
    /// What has begun by now can have a record.
    pub now: Timestamp,
    /// Where a recorded hour leads to.
    pub href: &'a dyn Fn(Period) -> String,
}

/// The local days of a period, in order.
#[must_use]
pub fn rows(period: Period, zone: Zone) -> Vec<Period> {
    let mut days: Vec<Period> = Vec::new();
    let mut at = period.start;
    while let Some(day) = zone.day(at).filter(|_| at < period.end) {
        // A day that does not move on would never end.
        if day.end <= at || days.len() >= 400 {
            break;
        }
        days.push(day);
        at = day.end;
    }
    days
}

/// What there is of an hour.
enum Found<'a> {
    Recorded(&'a Cell),
    NoRecord,
    NotEnrolled,
    ToCome,
}

impl HourGrid<'_> {
    /// The grid as SVG of fixed proportions, and the band of its origin.
    #[must_use]
    pub fn markup(&self, zone: Zone, language: Language) -> Markup {
        let days = rows(self.period, zone);
        let longest = days.iter().map(|day| day.ms()).max().unwrap_or(DAY_MS).max(DAY_MS);
        let width = LEFT + pixels(longest).0.div_euclid(1_000) + 2;
        let height = TOP + DAY_PX * i64::try_from(days.len()).unwrap_or(0);
        let name = origin_band::named(self.title, self.origin, language);
        let view_box = format!("0 0 {width} {height}");
        let mut out = Writer::default();
        out.open_chart(&name, &[("class", &"grid"), ("viewBox", &view_box)]);
        hour_labels(&mut out, longest);
        let mut top = TOP;
        for day in &days {
            self.day(&mut out, *day, top, (zone, language));
            top += DAY_PX;
        }
        out.close_chart();
        origin_band::origin_band(&mut out, self.origin, language);
        out.finish()
    }

    fn day(&self, out: &mut Writer, day: Period, top: i64, words: (Zone, Language)) {
        let label = format::day(day.start, words.0, words.1);
        let (x, baseline) = (LEFT - LABEL_GAP, top + 14);
        out.element("text", &[("class", &"day"), ("x", &x), ("y", &baseline)], label);
        let mut recorded: Vec<&Cell> = Vec::new();
        let mut unenrolled: Vec<Period> = Vec::new();
        for hour in day.hours() {
            let inside = hour.period().intersect(day);
            let place = Place::of(inside, day, top);
            match self.find(hour) {
                Found::Recorded(cell) => {
                    // Only for a pointer: with keys and aloud, days of the table lead there.
                    let href = (self.href)(cell.period);
                    out.open("a", &[("href", &href), ("tabindex", &-1)]);
                    draw_cell(out, cell, place, words);
                    out.close("a");
                    recorded.push(cell);
                }
                Found::NoRecord => no_record(out, hour, place, words),
                Found::NotEnrolled => match unenrolled.last_mut() {
                    Some(run) if run.end == inside.start => run.end = inside.end,
                    _ => unenrolled.push(inside),
                },
                Found::ToCome => {}
            }
        }
        for run in unenrolled {
            dots(out, (run, day), top, words);
        }
        for (state, run) in record_line::runs(recorded) {
            let place = Place::of(run.intersect(day), day, top);
            record_line::draw(out, state, &place.span(), top + CELL_PX);
        }
    }

    fn find(&self, hour: Hour) -> Found<'_> {
        match self.cells.iter().find(|cell| cell.period.start == hour.start()) {
            Some(cell) if cell.enrolled_ms > 0 => Found::Recorded(cell),
            Some(_) => Found::NotEnrolled,
            None if hour.start() >= self.now => Found::ToCome,
            None if hour.period().intersect(self.enrolled).is_empty() => Found::NotEnrolled,
            None => Found::NoRecord,
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Place {
    x: Milli,
    width: Milli,
    top: i64,
}

impl Place {
    fn of(inside: Period, day: Period, top: i64) -> Self {
        let x = pixels(inside.start.since(day.start)).plus(LEFT);
        Self { x, width: pixels(inside.ms()).minus(1), top }
    }

    fn middle(self) -> Milli {
        Milli(self.x.0 + self.width.0 / 2)
    }

    fn span(self) -> record_line::Span {
        [self.x, self.middle(), Milli(self.x.0 + self.width.0)].map(|x| x.to_string())
    }
}

fn draw_cell(out: &mut Writer, cell: &Cell, place: Place, (zone, language): (Zone, Language)) {
    out.open("g", &[]);
    out.element("title", &[], cell.describe(zone, language));
    let gap = gap_pixels(cell);
    if let Some(step) = cell.step() {
        rect(out, place, (step.class(), None), (gap, CELL_PX - gap));
    }
    let mut at = 0;
    let last = cell.gaps.len().saturating_sub(1);
    for (index, (cause, ms)) in cell.gaps.iter().enumerate() {
        let share = if index == last { gap - at } else { gap * (*ms).max(0) / gap_ms(cell) };
        rect(out, place, ("gap", Some(Hatch::of(*cause).fill())), (at, share));
        at += share;
    }
    // The number needs room on its own colour to be readable.
    if let (Some(step), Some(mean), true) = (cell.step(), cell.mean_pct(), gap <= CELL_PX / 2) {
        let x = place.middle();
        let y = place.top + gap + (CELL_PX - gap) / 2 + 4;
        let class = format!("n {}t", step.class());
        out.element("text", &[("class", &class), ("x", &x), ("y", &y)], mean);
    }
    out.close("g");
}

fn no_record(out: &mut Writer, hour: Hour, place: Place, (zone, language): (Zone, Language)) {
    out.open("g", &[]);
    let clock = format::clock(hour.start(), zone);
    let day = format::day(hour.start(), zone, language);
    out.element("title", &[], phrase::cell_no_record(language, clock, day));
    rect(out, place, ("void", None), (0, CELL_PX));
    out.close("g");
}

/// A faint dot for each hour of a stretch without enrolment.
fn dots(out: &mut Writer, (run, day): (Period, Period), top: i64, words: (Zone, Language)) {
    out.open("g", &[]);
    out.element("title", &[], not_enrolled(run, words.0, words.1));
    rect(out, Place::of(run, day, top), ("none", None), (0, CELL_PX));
    let mut path = String::new();
    for hour in run.hours() {
        let middle = Place::of(hour.period().intersect(run), day, top).middle();
        // Writing to a string cannot fail. A line without length is drawn as its round ends.
        let _ = write!(path, "M{middle} {}h0", top + CELL_PX / 2);
    }
    out.empty("path", &[("class", &"dots"), ("d", &path)]);
    out.close("g");
}

fn rect(
    out: &mut Writer,
    place: Place,
    (class, fill): (&str, Option<&str>),
    (from, high): (i64, i64),
) {
    if high <= 0 {
        return;
    }
    let y = place.top + from;
    let mut attributes: Vec<(&str, &dyn Display)> = vec![
        ("class", &class),
        ("x", &place.x),
        ("y", &y),
        ("width", &place.width),
        ("height", &high),
    ];
    if let Some(fill) = &fill {
        attributes.push(("fill", fill));
    }
    out.empty("rect", &attributes);
}

fn hour_labels(out: &mut Writer, longest_ms: i64) {
    let hours = longest_ms / HOUR_MS;
    for hour in (0..hours).step_by(3) {
        let x = LEFT + hour * HOUR_PX + 1;
        let label = format!("{hour:02}");
        out.element("text", &[("class", &"hour"), ("x", &x), ("y", &(TOP - 6))], label);
    }
}

fn gap_ms(cell: &Cell) -> i64 {
    cell.gaps.iter().map(|(_, ms)| (*ms).max(0)).sum::<i64>().max(1)
}

/// Height of the hatched part: at least 3 pixels for any gap, all of it when nothing was measured.
fn gap_pixels(cell: &Cell) -> i64 {
    let gap = cell.measured().gap_ms();
    if gap == 0 {
        return 0;
    }
    if cell.measured_ms <= 0 {
        return CELL_PX;
    }
    let share = i128::from(gap) * i128::from(CELL_PX) / i128::from(cell.enrolled_ms.max(1));
    i64::try_from(share).unwrap_or(CELL_PX).clamp(3, CELL_PX - 3)
}

/// Milliseconds of a day as thousandths of a pixel.
fn pixels(ms: i64) -> Milli {
    Milli(format::div_half_even(i128::from(ms) * i128::from(HOUR_PX) * 1_000, HOUR_MS.into()))
}

impl Milli {
    fn plus(self, whole: i64) -> Self {
        Self(self.0 + whole * 1_000)
    }

    fn minus(self, whole: i64) -> Self {
        Self((self.0 - whole * 1_000).max(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use leasewatch_core::metering::{GapCause, HourState};

    const ENROLLED: &str = "2026-03-01T00:00:00Z";

    fn at(text: &str) -> Timestamp {
        Timestamp::parse_iso(text).unwrap()
    }

    fn hour(start: &str, measured_ms: i64, gaps: Vec<(GapCause, i64)>) -> Cell {
        let period = at(start).hour().period();
        let enrolled_ms = measured_ms + gaps.iter().map(|(_, ms)| ms).sum::<i64>();
        Cell {
            period,
            busy_pct_ms: measured_ms * 97,
            measured_ms,
            enrolled_ms,
            gaps,
            frozen_ms: 0,
            clock_flagged_ms: 0,
            state: HourState::Sealed,
            origin: Origin::Measured,
        }
    }

    fn svg(cells: &[Cell], zone: &str, now: &str) -> String {
        let zone = Zone::parse(zone).unwrap();
        let first = zone.day(at("2026-03-07T20:00:00Z")).unwrap();
        let second = zone.day(first.end).unwrap();
        let grid = HourGrid {
            title: "GPU",
            period: Period::new(first.start, second.end),
            cells,
            origin: Origin::Measured,
            enrolled: Period::new(at(ENROLLED), Timestamp::MAX),
            now: at(now),
            href: &|period| format!("/gpu?from={}", period.start),
        };
        grid.markup(zone, Language::En).to_string()
    }

    #[test]
    fn future_hours_are_blank_and_past_ones_without_record_are_outlined() {
        let none = svg(&[], "UTC", "2026-03-07T00:00:00Z");
        assert!(!none.contains("<rect"));
        let two = svg(&[], "UTC", "2026-03-07T01:30:00Z");
        assert_eq!(two.matches("class=\"void\"").count(), 2);
        assert!(two.contains("no record"));
    }

    #[test]
    fn gaps_and_not_enrolled_hours_look_different() {
        let cells = [
            hour("2026-03-07T00:00:00Z", 0, vec![]),
            hour("2026-03-07T01:00:00Z", 0, vec![(GapCause::GpuLost, 3_600_000)]),
            hour("2026-03-07T02:00:00Z", 3_540_000, vec![(GapCause::NodeReboot, 60_000)]),
        ];
        let svg = svg(&cells, "UTC", "2026-03-07T03:00:00Z");
        assert_eq!(svg.matches("class=\"none\"").count(), 1);
        assert_eq!(svg.matches("h0").count(), 1, "{svg}");
        assert_eq!(svg.matches("fill=\"url(#h-gpu)\"").count(), 1);
        assert_eq!(svg.matches("fill=\"url(#h-restart)\"").count(), 1);
        assert_eq!(svg.matches(">97</text>").count(), 1);
        assert!(svg.contains("node rebooted"));
        // What was recorded leads to its readings; what was not enrolled leads nowhere.
        assert_eq!(svg.matches("<a href=").count(), 2);
        assert!(svg.contains("<a href=\"/gpu?from=2026-03-07T01:00:00.000Z\" tabindex=\"-1\">"));
    }

    #[test]
    fn a_short_day_is_drawn_short() {
        let all = svg(&[], "America/Los_Angeles", "2026-03-12T00:00:00Z");
        assert_eq!(all.matches("class=\"void\"").count(), 24 + 23);
        // An hour that a zone's midnight cuts appears in both rows.
        let cut = svg(&[], "Asia/Kolkata", "2026-03-12T00:00:00Z");
        assert_eq!(cut.matches("class=\"void\"").count(), 50);
    }

    #[test]
    fn hours_outside_of_enrolment_are_dots_even_without_a_cell() {
        let zone = Zone::UTC;
        let period = zone.day(at("2026-03-07T20:00:00Z")).unwrap();
        let enrolled = Period::new(at("2026-03-07T05:30:00Z"), at("2026-03-07T20:00:00Z"));
        let (now, origin) = (at("2026-03-09T00:00:00Z"), Origin::Measured);
        let href = &|_| String::new();
        let grid = HourGrid { title: "GPU", period, cells: &[], origin, enrolled, now, href };
        let svg = grid.markup(zone, Language::En).to_string();
        assert_eq!(svg.matches("h0").count(), 5 + 4, "{svg}");
        assert_eq!(svg.matches("class=\"none\"").count(), 2);
        assert_eq!(svg.matches("class=\"void\"").count(), 15);
        assert!(svg.contains("Not enrolled"));
    }

    /// Upper bound of a label's width at 11 pixels in a wide typeface.
    fn label_px(label: &str) -> i64 {
        let thousandths = |c: char| match c {
            ' ' => 400,
            'W' | 'M' => 1_000,
            c if c.is_ascii_uppercase() => 800,
            c if c.is_ascii() => 700,
            _ => 1_000,
        };
        label.chars().map(thousandths).sum::<i64>() * 11 / 1_000 + 1
    }

    #[test]
    fn the_label_of_any_day_fits_beside_its_row() {
        // In 28 years every date falls on every weekday.
        for day in 0..28 * 366 {
            for language in Language::ALL {
                let label = format::day(Timestamp(day * DAY_MS), Zone::UTC, language);
                assert!(label_px(&label) <= LEFT - LABEL_GAP, "{label}");
            }
        }
    }
}
