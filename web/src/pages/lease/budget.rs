//! Error budgets of the windows that run: what is left of the whole window and of the part that is
//! over, and how fast it is used up. Without data nothing is called fine.

use leasewatch_core::sla::budget::{BurnState, Severity};

use super::judgement::{BudgetLine, BurnLine};
use super::verdict::unit;
use super::{LeaseView, Section, table};
use crate::context::Context;
use crate::format::{Quantity, div_half_even};
use crate::i18n::{Text, phrase};
use crate::markup::{Markup, Writer};

/// Budgets on the page; `.json` has all.
const SHOWN: usize = 48;

pub(super) fn section(view: &LeaseView, cx: &Context) -> Option<Section> {
    let budgets = &view.judgement.budgets;
    if budgets.is_empty() {
        return None;
    }
    let mut out = Writer::default();
    out.element("p", &[("class", &"quiet")], cx.t(Text::BurnLead));
    out.open("p", &[("class", &"note")]);
    match view.judgement.judged_until {
        Some(at) => {
            let zone = cx.zone;
            let at = crate::deadline::instants(at, zone, cx.language);
            out.text(phrase::burn_as_of(cx.language, at));
        }
        None => out.text(cx.t(Text::BurnNever)),
    }
    out.close("p");
    let duration = |ms| Quantity::duration_ms(ms).text(cx.language);
    let pairs: Vec<String> = budgets
        .first()
        .map(|line| &line.burns)
        .into_iter()
        .flatten()
        .map(|burn| phrase::burn_pair(cx.language, duration(burn.long_ms), duration(burn.short_ms)))
        .collect();
    let mut heads = vec![cx.t(Text::JudgedUnit), cx.t(Text::BurnWhole), cx.t(Text::BurnSoFar)];
    heads.extend(pairs.iter().map(String::as_str));
    let rows = budgets.iter().take(SHOWN).map(|line| {
        let mut cells: Vec<table::Cell> = vec![
            name(line, cx).into(),
            whole(line, cx).into(),
            left(line.allowed_so_far_ms, line.spent_ms, cx).into(),
        ];
        cells.extend(line.burns.iter().map(|burn| said(*burn, cx).into()));
        (false, cells)
    });
    table::write(&mut out, &heads, rows.collect());
    Some(Section { id: "budget", title: Text::BurnTitle, body: out.finish() })
}

fn name(line: &BudgetLine, cx: &Context) -> Markup {
    let mut out = Writer::default();
    out.text(unit(&line.unit, cx));
    let target = Quantity::ppm(line.target_ppm.into()).text(cx.language);
    let basis = if line.is_contract { Text::JudgedContract } else { Text::JudgedQuality };
    let target = phrase::judged_target(cx.language, target);
    let words = format!("{} · {target} · {}", line.objective, cx.t(basis));
    out.element("span", &[("class", &"remedy quiet")], words);
    out.finish()
}

fn whole(line: &BudgetLine, cx: &Context) -> Markup {
    let mut out = Writer::default();
    out.text(left(line.allowed_ms, line.spent_ms, cx));
    if line.possibly_spent_ms > line.spent_ms {
        let left = (line.allowed_ms - line.possibly_spent_ms).max(0);
        let left = Quantity::duration_ms(left).text(cx.language);
        let words = phrase::burn_possible(cx.language, left);
        out.element("span", &[("class", &"remedy quiet")], words);
    }
    out.element("span", &[("class", &"remedy quiet")], cx.t(Text::BurnWholeHint));
    out.finish()
}

fn left(allowed_ms: i64, spent_ms: i64, cx: &Context) -> String {
    let duration = |ms| Quantity::duration_ms(ms).text(cx.language);
    let left_ms = allowed_ms - spent_ms;
    if left_ms < 0 {
        phrase::burn_whole_over(cx.language, duration(allowed_ms), duration(-left_ms))
    } else {
        phrase::burn_whole_left(cx.language, duration(allowed_ms), duration(left_ms))
    }
}

/// The state in words, then the figures that it comes from.
fn said(burn: BurnLine, cx: &Context) -> Markup {
    let (class, words) = match (burn.state, burn.severity) {
        (BurnState::Fast, Severity::Page) => ("verdict-breached", Text::BurnFast),
        (BurnState::Fast, Severity::Ticket) => ("verdict-breached", Text::BurnFastTicket),
        (BurnState::Slow, _) => ("verdict-met", Text::BurnSlow),
        (BurnState::NoData, _) => ("verdict-indeterminate", Text::BurnNoData),
        (BurnState::NotContracted, _) => ("verdict-none", Text::BurnNotContracted),
    };
    let mut out = Writer::default();
    out.element("strong", &[("class", &class)], cx.t(words));
    let note = match (burn.state, burn.long_ppm, burn.short_ppm) {
        (BurnState::NoData, ..) => cx.t(Text::BurnNoDataHint).to_owned(),
        (BurnState::Fast | BurnState::Slow, Some(long), Some(short)) => {
            phrase::burn_rate(cx.language, tenths(long), tenths(short))
        }
        _ => return out.finish(),
    };
    out.element("span", &[("class", &"remedy quiet")], note);
    out.finish()
}

/// `14.4` of 14,400,000 ppm.
fn tenths(ppm: i64) -> String {
    let tenths = div_half_even(ppm.into(), 100_000);
    format!("{}.{}", tenths / 10, tenths % 10)
}
