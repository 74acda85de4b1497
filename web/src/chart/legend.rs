//! What colours and patterns mean, once per page.

use leasewatch_core::metering::{GapCause, HourState};

use super::cell::{Cell, Step};
use super::hatch::Hatch;
use super::record_line;
use crate::format::Quantity;
use crate::i18n::{Language, Text, phrase};
use crate::markup::{Markup, Writer};
use crate::names;

/// The legend for some cells: every colour step, the patterns that occur, each with the causes
/// behind it, and the marks of the states that occur.
#[must_use]
pub fn legend<'a>(cells: impl IntoIterator<Item = &'a Cell>, language: Language) -> Markup {
    let mut hatches: Vec<Hatch> = Vec::new();
    let mut states: Vec<HourState> = Vec::new();
    for cell in cells.into_iter().filter(|cell| cell.enrolled_ms > 0) {
        states.push(cell.state);
        let causes = cell.gaps.iter().filter(|(_, ms)| *ms > 0);
        hatches.extend(causes.map(|(cause, _)| Hatch::of(*cause)));
    }
    hatches.sort_unstable();
    hatches.dedup();
    let mut out = Writer::default();
    out.open("ul", &[("class", &"legend")]);
    for step in Step::ALL {
        swatch(&mut out, (step.class(), None), &step_words(step, language), None);
    }
    for hatch in hatches {
        let causes = causes_of(hatch, language);
        let words = hatch.text().words(language);
        swatch(&mut out, ("gap", Some(hatch.fill())), words, Some(&causes));
    }
    for state in [HourState::Sealed, HourState::Provisional, HourState::Open] {
        if states.contains(&state) {
            state_mark(&mut out, state, language);
        }
    }
    out.close("ul");
    out.finish()
}

/// The patterns of these causes, each with the causes behind it; nothing without any.
#[must_use]
pub fn hatch_legend(causes: impl IntoIterator<Item = GapCause>, language: Language) -> Markup {
    let mut hatches: Vec<Hatch> = causes.into_iter().map(Hatch::of).collect();
    hatches.sort_unstable();
    hatches.dedup();
    let mut out = Writer::default();
    if !hatches.is_empty() {
        out.open("ul", &[("class", &"legend")]);
        for hatch in hatches {
            let words = hatch.text().words(language);
            let causes = causes_of(hatch, language);
            swatch(&mut out, ("gap", Some(hatch.fill())), words, Some(&causes));
        }
        out.close("ul");
    }
    out.finish()
}

fn step_words(step: Step, language: Language) -> String {
    let to = Quantity::percent(step.to_pct()).text(language);
    match step.from_pct() {
        0 => phrase::legend_idle(language, to),
        from => phrase::legend_busy(language, Quantity::count(from).text(language), to),
    }
}

fn causes_of(hatch: Hatch, language: Language) -> String {
    let causes = GapCause::ALL.into_iter().filter(|cause| Hatch::of(*cause) == hatch);
    let words: Vec<&str> = causes.map(|cause| names::gap_cause(cause).words(language)).collect();
    words.join(Text::ListSeparator.words(language))
}

fn swatch(
    out: &mut Writer,
    (class, fill): (&str, Option<&str>),
    words: &str,
    causes: Option<&str>,
) {
    match causes {
        Some(causes) => out.open("li", &[("title", &causes)]),
        None => out.open("li", &[]),
    }
    out.open("svg", &[("width", &18), ("height", &12), ("aria-hidden", &"true")]);
    match fill {
        Some(fill) => out
            .empty("rect", &[("class", &class), ("width", &18), ("height", &12), ("fill", &fill)]),
        None => out.empty("rect", &[("class", &class), ("width", &18), ("height", &12)]),
    }
    out.close("svg");
    out.text(words);
    out.close("li");
}

fn state_mark(out: &mut Writer, state: HourState, language: Language) {
    out.open("li", &[]);
    out.open("svg", &[("width", &18), ("height", &12), ("aria-hidden", &"true")]);
    record_line::draw(out, state, &["0", "9", "18"].map(str::to_owned), 4);
    out.close("svg");
    out.text(names::hour_state(state).words(language));
    out.close("li");
}
