//! A strip: one GPU over a day.
//!
//! Each cell is a column. Its filled part ends at the least that utilization over enrolled time
//! can have been; the hatched part above it ends at the most. What is filled was measured, what
//! is hatched is not known, what is empty was not enrolled or has not come yet. Height and colour
//! say the same, so neither is needed alone.

use leasewatch_core::segment::Origin;
use leasewatch_core::time::{Period, Zone};

use super::axis::time_ticks;
use super::cell::Cell;
use super::hatch::Hatch;
use super::{origin_band, record_line};
use crate::i18n::Language;
use crate::markup::{Markup, Milli, Writer};

/// Height of the columns, in pixels.
const COLUMNS: i64 = 28;

/// One GPU over a stretch of time.
#[derive(Debug, Clone, Copy)]
pub struct Strip<'a> {
    /// The name that a screen reader reads: what is shown, and its sums.
    pub title: &'a str,
    /// The stretch that the strip's width stands for.
    pub period: Period,
    /// In order of time.
    pub cells: &'a [Cell],
    /// Where the data came from.
    pub origin: Origin,
}

impl Strip<'_> {
    /// The strip as SVG that fills its container's width, and the band of its origin.
    #[must_use]
    pub fn markup(&self, zone: Zone, language: Language) -> Markup {
        let name = origin_band::named(self.title, self.origin, language);
        let mut out = Writer::default();
        let height = COLUMNS + record_line::HEIGHT;
        out.open_chart(&name, &[("class", &"strip"), ("width", &"100%"), ("height", &height)]);
        out.empty(
            "line",
            &[("class", &"base"), ("x2", &"100%"), ("y1", &COLUMNS), ("y2", &COLUMNS)],
        );
        for cell in self.cells {
            self.cell(&mut out, cell, (zone, language));
        }
        self.record_lines(&mut out);
        out.close_chart();
        origin_band::origin_band(&mut out, self.origin, language);
        out.finish()
    }

    fn cell(&self, out: &mut Writer, cell: &Cell, (zone, language): (Zone, Language)) {
        let Some((x, width)) = self.place(cell.period) else { return };
        out.open("g", &[]);
        out.element("title", &[], cell.describe(zone, language));
        let mut column = Column { out, x, width, bottom: COLUMNS };
        if cell.enrolled_ms <= 0 {
            column.rect("none", None, COLUMNS);
        } else {
            column.rect("field", None, COLUMNS);
            column.bottom = COLUMNS;
            if let Some(step) = cell.step() {
                // At least one pixel: measured and idle is not the same as unknown.
                let high = height_of(cell.busy_pct_ms, cell.enrolled_ms.saturating_mul(100)).max(1);
                column.rect(step.class(), None, high);
            }
            for (cause, ms) in &cell.gaps {
                let room = column.bottom;
                let high = height_of(*ms, cell.enrolled_ms).max(i64::from(*ms > 0)).min(room);
                column.rect("gap", Some(Hatch::of(*cause).fill()), high);
            }
        }
        out.close("g");
    }

    fn record_lines(&self, out: &mut Writer) {
        for (state, period) in record_line::runs(self.cells) {
            let Some((x, width)) = self.place(period) else { continue };
            // The hour that goes on is a sliver at first; its ring must not be cut at the edge.
            let middle = (x + width / 2).clamp(1_000, 99_000);
            let span = [percent(x), percent(middle), percent(x + width)];
            record_line::draw(out, state, &span, COLUMNS);
        }
    }

    /// Left edge and width in thousandths of a percent; `None` outside the strip.
    fn place(&self, period: Period) -> Option<(i64, i64)> {
        let inside = period.intersect(self.period);
        let whole = self.period.ms();
        if inside.is_empty() || whole == 0 {
            return None;
        }
        let left = per_whole(inside.start.since(self.period.start), whole);
        let right = per_whole(inside.end.since(self.period.start), whole);
        Some((left, right - left))
    }
}

struct Column<'a> {
    out: &'a mut Writer,
    x: i64,
    width: i64,
    bottom: i64,
}

impl Column<'_> {
    /// Stacks a part of `high` pixels on what is there.
    fn rect(&mut self, class: &str, fill: Option<&str>, high: i64) {
        if high <= 0 {
            return;
        }
        self.bottom -= high;
        let (x, width) = (percent(self.x), percent(self.width));
        let fill: Option<(&str, &dyn std::fmt::Display)> = match &fill {
            Some(fill) => Some(("fill", fill)),
            None => None,
        };
        let mut attributes: Vec<(&str, &dyn std::fmt::Display)> = vec![
            ("class", &class),
            ("x", &x),
            ("width", &width),
            ("y", &self.bottom),
            ("height", &high),
        ];
        attributes.extend(fill);
        self.out.empty("rect", &attributes);
    }
}

/// The clock times over a column of strips.
#[must_use]
pub fn time_scale(period: Period, zone: Zone) -> Markup {
    let mut out = Writer::default();
    out.open(
        "svg",
        &[("class", &"scale"), ("width", &"100%"), ("height", &14), ("aria-hidden", &"true")],
    );
    let whole = period.ms().max(1);
    for tick in time_ticks(period, zone, 4) {
        let x = per_whole(tick.at.since(period.start), whole);
        // A label that would be cut at an edge is left out; the tick of the other strips stays.
        if (3_000..=95_000).contains(&x) {
            let x = percent(x);
            out.empty("line", &[("x1", &x), ("x2", &x), ("y1", &11), ("y2", &14)]);
            out.element("text", &[("x", &x), ("y", &9)], &tick.label);
        }
    }
    out.close("svg");
    out.finish()
}

/// `part` of `whole` in thousandths of a percent, rounded down.
fn per_whole(part: i64, whole: i64) -> i64 {
    let share = i128::from(part) * 100_000 / i128::from(whole.max(1));
    i64::try_from(share.clamp(0, 100_000)).unwrap_or(0)
}

fn percent(thousandths: i64) -> String {
    format!("{}%", Milli(thousandths))
}

fn height_of(part: i64, whole: i64) -> i64 {
    let pixels = i128::from(part.max(0)) * i128::from(COLUMNS) / i128::from(whole.max(1));
    i64::try_from(pixels).unwrap_or(COLUMNS).min(COLUMNS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Step;
    use leasewatch_core::metering::{GapCause, HourState};
    use leasewatch_core::time::{HOUR_MS, Timestamp};

    fn cell(hour: i64, measured_ms: i64, gaps: Vec<(GapCause, i64)>) -> Cell {
        let period = Period::new(Timestamp(hour * HOUR_MS), Timestamp((hour + 1) * HOUR_MS));
        let enrolled_ms = measured_ms + gaps.iter().map(|(_, ms)| ms).sum::<i64>();
        let (state, origin) = (HourState::Sealed, Origin::Measured);
        Cell {
            period,
            busy_pct_ms: measured_ms * 50,
            measured_ms,
            enrolled_ms,
            gaps,
            frozen_ms: 0,
            clock_flagged_ms: 0,
            state,
            origin,
        }
    }

    fn svg(cells: &[Cell], origin: Origin) -> String {
        let period = Period::new(Timestamp(0), Timestamp(24 * HOUR_MS));
        Strip { title: "GPU", period, cells, origin }.markup(Zone::UTC, Language::En).to_string()
    }

    #[test]
    fn nothing_draws_nothing() {
        let svg = svg(&[], Origin::Measured);
        assert!(!svg.contains("<rect") && svg.contains("aria-label=\"GPU\""));
    }

    #[test]
    fn a_day_of_gaps_has_no_colour_step_at_all() {
        let cells: Vec<Cell> =
            (0..24).map(|hour| cell(hour, 0, vec![(GapCause::Unexplained, HOUR_MS)])).collect();
        let svg = svg(&cells, Origin::Measured);
        assert_eq!(svg.matches("url(#h-unexplained)").count(), 24);
        assert!(Step::ALL.iter().all(|step| !svg.contains(&format!("\"{}\"", step.class()))));
        assert!(svg.contains("no data") && svg.contains("unexplained"));
    }

    #[test]
    fn filled_and_hatched_meet_at_the_lower_bound() {
        // 50 % busy in half an hour: from 25 % of the column on, the mean is not known.
        let half = cell(3, HOUR_MS / 2, vec![(GapCause::NodeReboot, HOUR_MS / 2)]);
        let svg = svg(&[half], Origin::Measured);
        assert!(
            svg.contains(r#"<rect class="b3" x="12.5%" width="4.166%" y="21" height="7"/>"#),
            "{svg}"
        );
        assert!(svg.contains(r#"y="7" height="14" fill="url(#h-restart)"/>"#), "{svg}");
    }

    #[test]
    fn an_hour_before_enrolment_is_empty_and_says_so() {
        let svg = svg(&[cell(0, 0, Vec::new())], Origin::Measured);
        assert!(svg.contains("class=\"none\"") && svg.contains("Not enrolled"));
        assert!(!svg.contains("class=\"field\"") && !svg.contains("class=\"sealed\""));
    }

    #[test]
    fn data_that_was_not_measured_carries_a_band() {
        let cells = [cell(0, HOUR_MS, Vec::new())];
        let measured = svg(&cells, Origin::Measured);
        assert!(!measured.contains("origin-band") && measured.contains("aria-label=\"GPU\""));
        for (origin, words) in [(Origin::Simulated, "SIMULATED"), (Origin::Imported, "IMPORTED")] {
            let svg = svg(&cells, origin);
            assert!(svg.contains(&format!("class=\"origin-band {}\"", origin.name())));
            assert!(svg.contains(&format!("aria-label=\"GPU, {words}\"")), "{svg}");
            assert!(svg.matches(words).count() > 20);
        }
    }

    #[test]
    fn the_record_is_sealed_then_provisional_then_open() {
        let states =
            [HourState::Sealed, HourState::Sealed, HourState::Provisional, HourState::Open];
        let cells: Vec<Cell> = (0..)
            .zip(states)
            .map(|(hour, state)| Cell { state, ..cell(hour, HOUR_MS, Vec::new()) })
            .collect();
        let svg = svg(&cells, Origin::Measured);
        assert!(svg.contains(r#"<line class="sealed" x1="0%" x2="8.333%""#), "{svg}");
        assert!(svg.contains(r#"<line class="provisional" x1="8.333%" x2="12.5%""#), "{svg}");
        assert_eq!(svg.matches(r#"<circle class="open""#).count(), 1);
    }
}
