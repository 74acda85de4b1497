//! What all charts of a page stand on: the time axis, missing time by cause, and what happened.
//!
//! It is defined once, and every chart refers to it, so that no chart can lack a gap and a page of
//! charts stays small.

use leasewatch_core::metering::GapCause;
use leasewatch_core::time::{Period, Timestamp, Zone};

use super::axis::{TimeTick, time_ticks};
use super::hatch::Hatch;
use super::point::{Grid, Part};
use crate::events::Weight;
use crate::format::{self, Quantity, div_half_even};
use crate::i18n::{Language, phrase};
use crate::markup::{Markup, Writer};
use crate::names;

/// Ids of what charts refer to.
pub(super) const BACK: &str = "x-back";
pub(super) const LABELS: &str = "x-labels";
/// Ticks on narrow and on wide screens.
const FEW: i64 = 4;
const MANY: i64 = 11;
/// The least width of a gap, in thousandths of a percent, so that a short one is seen.
const LEAST: i64 = 150;

/// Something that happened, as a mark over the charts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// When.
    pub at: Timestamp,
    /// How much attention it deserves.
    pub weight: Weight,
    /// In words, its time included.
    pub words: String,
}

/// Missing time of a bucket, of which only the amount is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The bucket.
    pub period: Period,
    /// Why.
    pub cause: GapCause,
    /// How much of it.
    pub ms: i64,
}

/// The backdrop of a page's charts.
#[derive(Debug, Clone, Copy)]
pub struct Backdrop<'a> {
    /// The time axis.
    pub grid: Grid,
    /// When the node began to be measured; before it nothing is missing.
    pub enrolled_at: Timestamp,
    /// Missing time, in order.
    pub gaps: &'a [(Period, GapCause)],
    /// Missing time by amount, in order of buckets.
    pub shares: &'a [Share],
    /// What happened.
    pub marks: &'a [Mark],
}

impl Backdrop<'_> {
    /// Definitions that every chart refers to; once on the page, before the first chart.
    #[must_use]
    pub fn defs(&self, zone: Zone, language: Language) -> Markup {
        let mut out = Writer::default();
        out.open(
            "svg",
            &[("class", &"defs"), ("width", &0), ("height", &0), ("aria-hidden", &"true")],
        );
        out.open("defs", &[]);
        out.open("g", &[("id", &BACK)]);
        out.empty("rect", &[("class", &"paper"), ("width", &"100%"), ("height", &"100%")]);
        for (class, ticks) in self.ticks(zone) {
            out.open("g", &[("class", &class)]);
            for tick in ticks {
                let x = self.x(tick.at);
                out.empty("line", &[("class", &"rule"), ("x1", &x), ("x2", &x), ("y2", &"100%")]);
            }
            out.close("g");
        }
        self.not_enrolled(&mut out, (zone, language));
        for (period, cause) in self.gaps {
            self.gap(&mut out, *period, *cause, (zone, language));
        }
        self.draw_shares(&mut out, (zone, language));
        for mark in self.marks.iter().filter(|mark| mark.weight != Weight::Plain) {
            let (x, class) = (self.x(mark.at), format!("event {}", mark.weight.name()));
            out.empty("line", &[("class", &class), ("x1", &x), ("x2", &x), ("y2", &"100%")]);
        }
        out.close("g");
        out.open("g", &[("id", &LABELS)]);
        for (class, ticks) in self.ticks(zone) {
            out.open("g", &[("class", &class)]);
            for tick in ticks.iter().filter(|tick| self.has_room(tick)) {
                out.element("text", &[("x", &self.x(tick.at)), ("y", &12)], &tick.label);
            }
            out.close("g");
        }
        out.close("g");
        out.close("defs");
        out.close("svg");
        out.finish()
    }

    /// The marks of events, over the charts.
    #[must_use]
    pub fn marks(&self, name: &str) -> Markup {
        let mut out = Writer::default();
        out.open_chart(name, &[("class", &"marks"), ("width", &"100%"), ("height", &14)]);
        for mark in self.marks.iter().rev() {
            let x = self.x(mark.at);
            let class = mark.weight.name();
            out.open("g", &[("class", &class)]);
            out.element("title", &[], &mark.words);
            out.open("svg", &[("x", &x), ("class", &"pin"), ("aria-hidden", &"true")]);
            if mark.weight == Weight::Plain {
                out.empty("rect", &[("x", &-1), ("y", &5), ("width", &2), ("height", &8)]);
            } else {
                let href = format!("#m-{class}");
                out.empty(
                    "use",
                    &[("href", &href), ("x", &-6), ("y", &1), ("width", &12), ("height", &12)],
                );
            }
            out.close("svg");
            out.close("g");
        }
        out.close_chart();
        out.finish()
    }

    /// Missing time by buckets, for the reading of a crosshair: `3-9=node rebooted, 6 min|..`,
    /// first and last bucket of each.
    #[must_use]
    pub fn gap_words(&self, language: Language) -> String {
        let words = |period: &Period, cause: GapCause, ms: i64| {
            let period = period.intersect(self.grid.period);
            let first = self.grid.column(period.start)?;
            let last = self.grid.column(period.end.plus_ms(-1))?;
            let length = Quantity::duration_ms(ms).text(language);
            let cause = names::gap_cause(cause).words(language);
            Some(format!("{first}-{last}={}", phrase::cell_gap(language, cause, length)))
        };
        let gaps = self.gaps.iter().map(|(period, cause)| words(period, *cause, period.ms()));
        let shares = self.shares.iter().map(|share| words(&share.period, share.cause, share.ms));
        gaps.chain(shares).flatten().collect::<Vec<_>>().join("|")
    }

    fn ticks(&self, zone: Zone) -> [(&'static str, Vec<TimeTick>); 2] {
        let ticks = |wanted| time_ticks(self.grid.period, zone, wanted);
        [("few", ticks(FEW)), ("many", ticks(MANY))]
    }

    /// A label that would be cut at an edge is left out; its line stays.
    fn has_room(&self, tick: &TimeTick) -> bool {
        (2_500..=97_500).contains(&self.grid.place(tick.at).0)
    }

    fn x(&self, at: Timestamp) -> Part {
        self.grid.place(at)
    }

    fn not_enrolled(&self, out: &mut Writer, (zone, language): (Zone, Language)) {
        let Period { start, end } = self.grid.period;
        let before = Period::new(start, self.enrolled_at.min(end));
        if before.is_empty() {
            return;
        }
        let (x, width) = self.place(before);
        out.open("g", &[]);
        out.element("title", &[], super::cell::not_enrolled(before, zone, language));
        out.empty(
            "rect",
            &[("class", &"before"), ("x", &x), ("width", &width), ("height", &"100%")],
        );
        out.close("g");
    }

    fn gap(
        &self,
        out: &mut Writer,
        period: Period,
        cause: GapCause,
        (zone, language): (Zone, Language),
    ) {
        let inside = period.intersect(self.grid.period);
        if inside.is_empty() {
            return;
        }
        let (x, width) = self.place(inside);
        out.open("g", &[]);
        let from = format::clock_second(inside.start, zone);
        let length = Quantity::duration_ms(period.ms()).text(language);
        let words = names::gap_cause(cause).words(language);
        out.element("title", &[], phrase::line_gap(language, words, from, length));
        out.empty(
            "rect",
            &[
                ("class", &"gap"),
                ("x", &x),
                ("width", &width),
                ("height", &"100%"),
                ("fill", &Hatch::of(cause).fill()),
            ],
        );
        out.close("g");
    }

    /// Amounts, stacked from the top of their bucket.
    fn draw_shares(&self, out: &mut Writer, (zone, language): (Zone, Language)) {
        let mut bucket = None;
        let mut top = 0;
        for share in self.shares.iter().filter(|share| share.ms > 0) {
            let inside = share.period.intersect(self.grid.period);
            if inside.is_empty() {
                continue;
            }
            if bucket != Some(share.period.start) {
                (bucket, top) = (Some(share.period.start), 0);
            }
            let part = i128::from(share.ms) * 100_000;
            let high = div_half_even(part, share.period.ms().max(1).into()).clamp(2_000, 100_000);
            let (x, width) = self.place(inside);
            out.open("g", &[]);
            let from = format::clock(inside.start, zone);
            let length = Quantity::duration_ms(share.ms).text(language);
            let words = names::gap_cause(share.cause).words(language);
            out.element("title", &[], phrase::line_gap(language, words, from, length));
            let (y, height) = (Part(top), Part(high));
            out.empty(
                "rect",
                &[
                    ("class", &"gap"),
                    ("x", &x),
                    ("y", &y),
                    ("width", &width),
                    ("height", &height),
                    ("fill", &Hatch::of(share.cause).fill()),
                ],
            );
            out.close("g");
            top += high;
        }
    }

    fn place(&self, inside: Period) -> (Part, Part) {
        let left = self.grid.place(inside.start);
        (left, Part((self.grid.place(inside.end).0 - left.0).max(LEAST)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn period(from: i64, to: i64) -> Period {
        Period::new(Timestamp(from * 1_000), Timestamp(to * 1_000))
    }

    #[test]
    fn gaps_and_amounts_are_hatched_by_cause() {
        let shares = [
            Share { period: period(60, 80), cause: GapCause::GpuLost, ms: 5_000 },
            Share { period: period(60, 80), cause: GapCause::NodeReboot, ms: 10_000 },
        ];
        let backdrop = Backdrop {
            grid: Grid { period: period(0, 100), bucket_ms: 20_000 },
            enrolled_at: Timestamp(10_000),
            gaps: &[(period(20, 30), GapCause::AgentRestart), (period(90, 200), GapCause::GpuLost)],
            shares: &shares,
            marks: &[],
        };
        let defs = backdrop.defs(Zone::UTC, Language::En).to_string();
        assert!(defs.contains(
            r#"<rect class="gap" x="20%" width="10%" height="100%" fill="url(#h-restart)"/>"#
        ));
        assert!(defs.contains(r#"<rect class="before" x="0%" width="10%" height="100%"/>"#));
        assert!(defs.contains("Not enrolled") && defs.contains(r#"x="90%" width="10%""#));
        assert!(defs.contains(r#"x="60%" y="0%" width="20%" height="25%" fill="url(#h-gpu)""#));
        assert!(defs.contains(r#"y="25%" width="20%" height="50%" fill="url(#h-restart)""#));
        let words = backdrop.gap_words(Language::En).replace(['\u{202f}', '\u{a0}'], " ");
        assert_eq!(
            words,
            "1-1=10 s agent restarted|4-4=1 min 50 s GPU lost|3-3=5 s GPU lost|3-3=10 s node rebooted"
        );
    }

    #[test]
    fn what_deserves_attention_is_a_line_through_every_chart() {
        let mark = |weight| Mark { at: Timestamp(50_000), weight, words: "<b>".to_owned() };
        let backdrop = Backdrop {
            grid: Grid { period: period(0, 100), bucket_ms: 1_000 },
            enrolled_at: Timestamp(0),
            gaps: &[],
            shares: &[],
            marks: &[mark(Weight::Fault), mark(Weight::Plain)],
        };
        let defs = backdrop.defs(Zone::UTC, Language::En).to_string();
        assert!(defs.contains(r#"<line class="event fault" x1="50%" x2="50%" y2="100%"/>"#));
        assert!(!defs.contains("event plain") && !defs.contains("before"));
        let marks = backdrop.marks("events").to_string();
        assert!(marks.contains("<title>&lt;b&gt;</title>") && marks.contains("#m-fault"));
    }
}
