//! Verdicts, contract and quality apart: bounds, how much is known, what may still be down, what is
//! owed, and what to do so that the next window is provable. Where a window has a verdict for each
//! GPU, they are folded behind how many came out how.

use leasewatch_core::metering::Ppm;
use leasewatch_core::sla::verdict::{Outcome, Remedy};

use super::judgement::{UnitName, VerdictLine};
use super::{LeaseView, Section, table};
use crate::context::Context;
use crate::format::Quantity;
use crate::i18n::{Text, phrase};
use crate::markup::{Markup, Writer};
use crate::pages::claims::state_text;
use crate::path::{Route, pattern};

/// Windows of one kind on the page; `.json` has all.
const SHOWN: usize = 24;
/// Outcomes, the one that asks for something first.
const OUTCOMES: [Outcome; 4] =
    [Outcome::Breached, Outcome::Indeterminate, Outcome::Met, Outcome::NotApplicable];

pub(super) fn section(view: &LeaseView, cx: &Context) -> Option<Section> {
    let verdicts = &view.judgement.verdicts;
    if verdicts.is_empty() && view.assignments.is_empty() {
        return None;
    }
    let mut out = Writer::default();
    if verdicts.is_empty() {
        out.element("p", &[("class", &"quiet")], cx.t(Text::JudgedNothing));
    }
    let of = |is_contract| verdicts.iter().filter(move |line| line.is_contract == is_contract);
    if of(true).next().is_some() {
        out.element("h3", &[], cx.t(Text::JudgedContract));
        rows(&mut out, of(true), (view, cx));
    } else if !verdicts.is_empty() {
        out.element("p", &[("class", &"note")], cx.t(Text::JudgedNoProfile));
    }
    if of(false).next().is_some() {
        out.element("h3", &[], cx.t(Text::JudgedQuality));
        rows(&mut out, of(false), (view, cx));
    }
    Some(Section { id: "verdict", title: Text::JudgedVerdicts, body: out.finish() })
}

fn rows<'a>(
    out: &mut Writer,
    lines: impl Iterator<Item = &'a VerdictLine>,
    (view, cx): (&LeaseView, &Context),
) {
    let lines: Vec<&VerdictLine> = lines.collect();
    let is_of_one = |a: &&VerdictLine, b: &&VerdictLine| {
        (a.window, a.is_over, &a.objective, &a.profile, a.profile_version)
            == (b.window, b.is_over, &b.objective, &b.profile, b.profile_version)
    };
    let groups: Vec<&[&VerdictLine]> = lines.chunk_by(is_of_one).take(SHOWN).collect();
    // Single verdicts in a row share a table.
    let mut single: Vec<&VerdictLine> = Vec::new();
    for group in groups {
        match group {
            [line] => single.push(line),
            _ => {
                table_of(out, &std::mem::take(&mut single), (view, cx));
                folded(out, group, (view, cx));
            }
        }
    }
    table_of(out, &single, (view, cx));
}

/// Verdicts of one window and objective: how many came out how, and each behind it.
fn folded(out: &mut Writer, group: &[&VerdictLine], (view, cx): (&LeaseView, &Context)) {
    let Some(first) = group.first() else { return };
    out.open("details", &[("class", &"more")]);
    out.open("summary", &[]);
    out.add(&window(first, cx));
    for outcome in OUTCOMES {
        let count = group.iter().filter(|line| line.outcome == outcome).count();
        if count > 0 {
            let (class, words) = said(outcome);
            out.text(" · ");
            out.element("strong", &[("class", &class)], format_args!("{} {count}", cx.t(words)));
        }
    }
    out.element("span", &[("class", &"quiet")], format_args!(" {}", judged_by(first)));
    out.close("summary");
    table_of(out, group, (view, cx));
    out.close("details");
}

fn table_of(out: &mut Writer, lines: &[&VerdictLine], (view, cx): (&LeaseView, &Context)) {
    if lines.is_empty() {
        return;
    }
    let heads = [
        Text::JudgedOutcome,
        Text::JudgedUnit,
        Text::JudgedWindow,
        Text::JudgedBounds,
        Text::JudgedKnown,
        Text::JudgedBudget,
        Text::JudgedCredit,
        Text::JudgedToDo,
    ];
    let rows = lines.iter().map(|line| {
        let cells: Vec<table::Cell> = vec![
            outcome(line, cx).into(),
            unit(&line.unit, cx).into(),
            window(line, cx).into(),
            bounds(line, cx).into(),
            percent(line.known_ms, line.known_ms + line.unknown_ms, cx).into(),
            budget(line, cx).into(),
            owed(line, view, cx).into(),
            remedies(line, cx).into(),
        ];
        (line.outcome == Outcome::NotApplicable, cells)
    });
    let heads: Vec<&str> = heads.iter().map(|head| cx.t(head)).collect();
    table::write(out, &heads, rows.collect());
}

fn said(outcome: Outcome) -> (&'static str, Text) {
    match outcome {
        Outcome::Met => ("verdict-met", Text::JudgedMet),
        Outcome::Breached => ("verdict-breached", Text::JudgedBreached),
        Outcome::Indeterminate => ("verdict-indeterminate", Text::JudgedIndeterminate),
        Outcome::NotApplicable => ("verdict-none", Text::JudgedNotApplicable),
    }
}

/// `usable-gpu · own-objective@1`.
fn judged_by(line: &VerdictLine) -> String {
    format!("{} · {}@{}", line.objective, line.profile, line.profile_version)
}

fn outcome(line: &VerdictLine, cx: &Context) -> Markup {
    let (class, words) = said(line.outcome);
    let mut out = Writer::default();
    out.element("strong", &[("class", &class)], cx.t(words));
    if let Some(ppm) = line.target_ppm {
        let target = Quantity::ppm(ppm.into()).text(cx.language);
        out.text(format_args!(" {}", phrase::judged_target(cx.language, target)));
    }
    out.element("span", &[("class", &"quiet")], format_args!(" {}", judged_by(line)));
    out.finish()
}

pub(super) fn outcome_words(outcome: Outcome) -> Text {
    said(outcome).1
}

pub(super) fn unit(unit: &UnitName, cx: &Context) -> String {
    match unit {
        UnitName::Lease => cx.t(Text::JudgedWhole).to_owned(),
        UnitName::Node(name) => name.clone(),
        UnitName::Gpu { node, number } => {
            format!("{node} · {}", phrase::gpu_label(cx.language, *number))
        }
    }
}

fn window(line: &VerdictLine, cx: &Context) -> Markup {
    let mut out = Writer::default();
    out.add(&cx.minute(line.window.start));
    out.text(" – ");
    out.add(&cx.minute(line.window.end));
    if !line.is_over {
        out.element("span", &[("class", &"quiet")], format_args!(" {}", cx.t(Text::JudgedRunning)));
    }
    out.finish()
}

/// `99.884 – 99.931 %`: by what is possible, and by what is proven.
pub(super) fn bounds(line: &VerdictLine, cx: &Context) -> String {
    if line.whole_ms == 0 {
        return String::new();
    }
    let low = percent(line.whole_ms - line.possible_ms, line.whole_ms, cx);
    let high = percent(line.whole_ms - line.proven_ms, line.whole_ms, cx);
    if low == high { high } else { format!("{low} – {high}") }
}

/// Of nothing, nothing is said.
pub(super) fn percent(part: i64, whole: i64, cx: &Context) -> String {
    let ppm = Ppm::of(i128::from(part), i128::from(whole));
    ppm.map_or_else(String::new, |ppm| Quantity::ppm(ppm.0).text(cx.language))
}

fn budget(line: &VerdictLine, cx: &Context) -> String {
    let Some(allowed_ms) = line.allowed_ms else { return String::new() };
    let duration = |ms| Quantity::duration_ms(ms).text(cx.language);
    let left_ms = allowed_ms - line.proven_ms;
    let text = if left_ms < 0 {
        phrase::judged_overdrawn(cx.language, duration(allowed_ms), duration(-left_ms))
    } else {
        phrase::judged_left(cx.language, duration(allowed_ms), duration(left_ms))
    };
    // What is allowed of a window grows with it.
    if line.is_over { text } else { format!("{text} ({})", cx.t(Text::JudgedSoFar)) }
}

/// The credit, and the claim for it or the button that drafts one.
fn owed(line: &VerdictLine, view: &LeaseView, cx: &Context) -> Markup {
    let mut out = Writer::default();
    out.text(credit(line, cx));
    if line.claimed_ms > 0 {
        let time = Quantity::duration_ms(line.claimed_ms).text(cx.language);
        let words = phrase::claim_already_ms(cx.language, time);
        out.element("span", &[("class", &"remedy quiet")], words);
    }
    if let Some(claim) = line.claim {
        out.open("span", &[("class", &"remedy")]);
        let href = cx.here.to(Route::Claim(claim.number)).href();
        out.element("a", &[("href", &href)], phrase::claim_one(cx.language, claim.number));
        let is_asked = matches!(claim.state, "filed" | "accepted");
        let words = if is_asked { Text::ClaimAlready } else { state_text(claim.state) };
        out.text(format_args!(" {}", cx.t(words)));
        out.close("span");
    } else if line.is_owed && line.credit.is_none() {
        out.element("span", &[("class", &"remedy quiet")], cx.t(Text::ClaimNoAmount));
    } else if line.is_owed && view.may_change {
        let action = view.action(pattern::LEASE_CLAIM, cx);
        out.open("form", &[("class", &"row"), ("method", &"post"), ("action", &action)]);
        let hash = &line.hash;
        out.open("input", &[("type", &"hidden"), ("name", &"verdict"), ("value", hash)]);
        let attributes: [(&str, &dyn std::fmt::Display); 2] =
            [("type", &"submit"), ("class", &"small")];
        out.element("button", &attributes, cx.t(Text::ClaimMake));
        out.close("form");
    }
    out.finish()
}

pub(super) fn credit(line: &VerdictLine, cx: &Context) -> String {
    match &line.credit {
        Some(credit) if line.is_reviewed => credit.clone(),
        Some(credit) => format!("{credit} ({})", cx.t(Text::JudgedUnreviewed)),
        None if line.is_credit_missing => cx.t(Text::JudgedCreditMissing).to_owned(),
        None => String::new(),
    }
}

fn remedies(line: &VerdictLine, cx: &Context) -> Markup {
    let mut out = Writer::default();
    for (remedy, ms) in &line.remedies {
        out.open("span", &[("class", &"remedy")]);
        out.text(cx.t(words(*remedy)));
        if *ms > 0 {
            let time = Quantity::duration_ms(*ms).text(cx.language);
            out.text(format_args!(" {}", phrase::judged_unknown_for(cx.language, time)));
        }
        out.close("span");
    }
    out.finish()
}

pub(super) fn words(remedy: Remedy) -> Text {
    match remedy {
        Remedy::WaitForEnd => Text::JudgedWaitForEnd,
        Remedy::InstallAgent => Text::JudgedInstallAgent,
        Remedy::KeepServerRunning => Text::JudgedKeepServerRunning,
        Remedy::AddProber => Text::JudgedAddProber,
        Remedy::RecordStops => Text::JudgedRecordStops,
        Remedy::SynchroniseClock => Text::JudgedSynchroniseClock,
        Remedy::EnlargeSpool => Text::JudgedEnlargeSpool,
        Remedy::MendDriver => Text::JudgedMendDriver,
        Remedy::KeepOneSource => Text::JudgedKeepOneSource,
        Remedy::RecordSessions => Text::JudgedRecordSessions,
    }
}
