//! Verdicts and windows as sentences of a report.

use leasewatch_core::sla::verdict::Outcome;
use leasewatch_core::time::{Period, Timestamp};

use super::super::verdict;
use super::super::{UnitName, VerdictLine};
use crate::context::Context;
use crate::document::Block;
use crate::format::{self, Detail, Quantity};
use crate::i18n::{Text, phrase};

pub(super) fn outcome(line: &VerdictLine, cx: &Context) -> String {
    let words = cx.t(verdict::outcome_words(line.outcome));
    if line.is_over { words.to_owned() } else { format!("{words} ({})", cx.t(Text::JudgedRunning)) }
}

pub(super) fn objective(line: &VerdictLine, cx: &Context) -> String {
    let basis = if line.is_contract { Text::JudgedContract } else { Text::JudgedQuality };
    let mut text = format!("{}: {}", cx.t(basis), line.objective);
    if let Some(ppm) = line.target_ppm {
        let target = Quantity::ppm(ppm.into()).text(cx.language);
        text.push_str(&format!(" {}", phrase::judged_target(cx.language, target)));
    }
    text.push_str(&format!(" · {}@{}", line.profile, line.profile_version));
    text
}

pub(super) fn unit(unit: &UnitName, cx: &Context) -> String {
    verdict::unit(unit, cx)
}

pub(super) fn bounds(line: &VerdictLine, cx: &Context) -> String {
    verdict::bounds(line, cx)
}

pub(super) fn credit(line: &VerdictLine, cx: &Context) -> String {
    verdict::credit(line, cx)
}

/// The share of contracted time whose state is known.
pub(super) fn known(line: &VerdictLine, cx: &Context) -> String {
    verdict::percent(line.known_ms, line.known_ms + line.unknown_ms, cx)
}

pub(super) fn remedies(line: &VerdictLine, cx: &Context) -> String {
    let each = line.remedies.iter().map(|(remedy, ms)| {
        let words = cx.t(verdict::words(*remedy));
        if *ms == 0 {
            return words.to_owned();
        }
        let time = Quantity::duration_ms(*ms).text(cx.language);
        format!("{words} {}", phrase::judged_unknown_for(cx.language, time))
    });
    each.collect::<Vec<_>>().join(" ")
}

/// Of each objective and basis the line that matters most: breaches before what cannot be told.
pub(super) fn worst_of_each(lines: &[VerdictLine]) -> Vec<&VerdictLine> {
    let rank = |line: &VerdictLine| match line.outcome {
        Outcome::Breached => 0,
        Outcome::Indeterminate => 1,
        Outcome::Met => 2,
        Outcome::NotApplicable => 3,
    };
    let mut worst: Vec<&VerdictLine> = Vec::new();
    for line in lines {
        let is_same = |other: &&mut &VerdictLine| {
            (other.is_contract, &other.objective, other.window)
                == (line.is_contract, &line.objective, line.window)
        };
        match worst.iter_mut().find(is_same) {
            Some(kept) if (rank(line), -line.proven_ms) < (rank(kept), -kept.proven_ms) => {
                *kept = line
            }
            Some(_) => {}
            None => worst.push(line),
        }
    }
    worst.sort_by_key(|line| (!line.is_contract, rank(line)));
    worst
}

/// First and last day, in words.
pub(super) fn span(window: Period, cx: &Context) -> String {
    let day = |at| format::local_date(at, cx.zone, cx.language);
    format!("{} – {}", day(window.start), day(window.end.plus_ms(-1)))
}

/// Both ends in the zone and in UTC.
pub(super) fn window(window: Period, cx: &Context) -> String {
    let local = |at| format::moment(at, cx.zone, cx.language, Detail::Minute);
    let (start, end) = (window.start, window.end);
    format!("{} – {} ({} – {})", local(start), local(end), utc(start), utc(end))
}

/// `2026-08-01T03:59:40Z`: ends of windows have no milliseconds.
pub(super) fn utc(at: Timestamp) -> String {
    let text = at.to_string();
    text.strip_suffix(".000Z").map_or(text.clone(), |whole| format!("{whole}Z"))
}

/// How it was measured, what is not shown, and how to check it.
pub(super) fn closing(cx: &Context) -> Vec<Block> {
    let sections = [
        (Text::ReportMethod, Text::ReportMethodWords),
        (Text::ReportLimits, Text::ReportLimitsWords),
        (Text::ReportVerify, Text::ReportVerifyWords),
    ];
    let section = |(title, words): (Text, Text)| {
        [Block::Heading(cx.t(title).to_owned()), Block::Paragraph(cx.t(words).to_owned())]
    };
    sections.into_iter().flat_map(section).collect()
}
