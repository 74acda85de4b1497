//! A week of one GPU: a row for each local day, a column for each hour.
//!
//! A cell is filled as high as it was measured and hatched above, with its mean written into it.
//! Hours to come are blank, hours before enrolment are dotted, an hour that should have a record
//! and has none is outlined. Days of 23 or 25 hours are as wide as they were long.

use std::fmt::Display;

use leasewatch_core::time::{DAY_MS, HOUR_MS, Hour, Period, Timestamp, Zone};

use super::cell::Cell;
use super::hatch::{Hatch, origin_fill};
use crate::format;
use crate::i18n::{Language, phrase};
use crate::markup::{Markup, Milli, Writer};
use leasewatch_core::segment::Origin;

/// Width of an hour, height of a day, width of the row labels, height of the column labels.
const HOUR_PX: i64 = 24;
const DAY_PX: i64 = 22;
const LEFT: i64 = 74;
const TOP: i64 = 18;
/// Height of a cell; the rest of the row is the space between rows.
const CELL_PX: i64 = 20;

/// One GPU over some local days.
#[derive(Debug, Clone, Copy)]
pub struct HourGrid<'a> {
    /// The name that a screen reader reads.
    pub title: &'a str,
    /// From a local midnight to a local midnight.
    pub period: Period,
    /// In order of time.
    pub cells: &'a [Cell],
    /// Where the data came from.
    pub origin: Origin,
    /// What has begun by now can have a record.
    pub now: Timestamp,
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

impl HourGrid<'_> {
    /// The grid as SVG of fixed proportions.
    #[must_use]
    pub fn svg(&self, zone: Zone, language: Language) -> Markup {
        let days = rows(self.period, zone);
        let longest = days.iter().map(|day| day.ms()).max().unwrap_or(DAY_MS).max(DAY_MS);
        let band = origin_fill(self.origin);
        let width = LEFT + pixels(longest).0.div_euclid(1_000) + 2;
        let count = i64::try_from(days.len()).unwrap_or(0);
        let body = TOP + DAY_PX * count;
        let height = body + band.map_or(0, |_| 13);
        let mut out = Writer::default();
        let view_box = format!("0 0 {width} {height}");
        out.open("svg", &[("class", &"grid"), ("role", &"img"), ("viewBox", &view_box)]);
        out.element("title", &[], self.title);
        hour_labels(&mut out, longest);
        let mut top = TOP;
        for day in &days {
            self.day(&mut out, *day, top, (zone, language));
            top += DAY_PX;
        }
        if let Some(fill) = band {
            let (y, wide) = (body + 1, width - LEFT - 2);
            out.empty(
                "rect",
                &[("x", &LEFT), ("y", &y), ("width", &wide), ("height", &11), ("fill", &fill)],
            );
        }
        out.close("svg");
        out.finish()
    }

    fn day(&self, out: &mut Writer, day: Period, top: i64, words: (Zone, Language)) {
        let (zone, language) = words;
        let baseline = top + 14;
        let label = format::day(day.start, zone, language);
        out.element("text", &[("class", &"day"), ("x", &(LEFT - 8)), ("y", &baseline)], label);
        for hour in day.hours() {
            let inside = hour.period().intersect(day);
            let place = Place {
                x: pixels(inside.start.since(day.start)).plus(LEFT),
                width: pixels(inside.ms()).minus(1),
                top,
            };
            match self.cells.iter().find(|cell| cell.period.start == hour.start()) {
                Some(cell) => draw_cell(out, cell, place, words),
                None if hour.start() < self.now => no_record(out, hour, place, words),
                None => {}
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Place {
    x: Milli,
    width: Milli,
    top: i64,
}

fn draw_cell(out: &mut Writer, cell: &Cell, place: Place, (zone, language): (Zone, Language)) {
    out.open("g", &[]);
    out.element("title", &[], cell.describe(zone, language));
    if cell.enrolled_ms <= 0 {
        rect(out, place, ("none", None), (0, CELL_PX));
        out.close("g");
        return;
    }
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
        let x = Milli(place.x.0 + place.width.0 / 2);
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
            now: at(now),
        };
        grid.svg(zone, Language::En).to_string()
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
        assert_eq!(svg.matches("fill=\"url(#h-gpu)\"").count(), 1);
        assert_eq!(svg.matches("fill=\"url(#h-restart)\"").count(), 1);
        assert_eq!(svg.matches(">97</text>").count(), 1);
        assert!(svg.contains("node rebooted"));
    }

    #[test]
    fn a_short_day_is_drawn_short() {
        let all = svg(&[], "America/Los_Angeles", "2026-03-12T00:00:00Z");
        assert_eq!(all.matches("class=\"void\"").count(), 24 + 23);
        // An hour that a zone's midnight cuts appears in both rows.
        let cut = svg(&[], "Asia/Kolkata", "2026-03-12T00:00:00Z");
        assert_eq!(cut.matches("class=\"void\"").count(), 50);
    }
}
