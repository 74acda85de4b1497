//! What is billed of a pay-as-you-go lease.

use leasewatch_core::lease::{LeaseKind, SessionSource};

use super::assignments::button;
use super::{LeaseView, Section, SessionLine, table};
use crate::context::Context;
use crate::i18n::Text;
use crate::markup::{Markup, Writer};
use crate::path::pattern;

/// Sessions on the page; the file has all.
const SHOWN: usize = 60;

pub(super) fn section(view: &LeaseView, cx: &Context) -> Option<Section> {
    let counts = matches!(view.terms.kind, LeaseKind::OnDemand | LeaseKind::Spot);
    if !counts && view.sessions.is_empty() {
        return None;
    }
    let mut out = Writer::default();
    if !counts {
        out.element("p", &[("class", &"note")], cx.t(Text::LeaseSessionsUnused));
    }
    if view.sessions.is_empty() {
        out.element("p", &[("class", &"quiet")], cx.t(Text::LeaseNoSessions));
    } else {
        let heads = [Text::LeaseFrom, Text::LeaseUntil, Text::LeaseSource, Text::AccessChange];
        let rows = view.sessions.iter().take(SHOWN).map(|line| {
            let until = match line.ends_at {
                Some(at) => cx.minute(at).into(),
                None => cx.t(Text::LeaseSessionRunning).into(),
            };
            let source = cx.t(source(line.source)).into();
            (false, vec![cx.minute(line.starts_at).into(), until, source, change(view, line, cx)])
        });
        let count = if view.may_change { 4 } else { 3 };
        let heads: Vec<_> = heads.iter().take(count).map(|head| cx.t(head)).collect();
        table::write(&mut out, &heads, rows.collect());
    }
    if let Some(of) = &view.schedule {
        out.element("h3", &[], cx.t(Text::LeaseSchedule));
        out.open("p", &[]);
        out.element("code", &[], of.rule.replace('\n', "; "));
        out.text(format!(" {} ", of.zone));
        out.add(&cx.minute(of.starts_at));
        out.close("p");
    }
    if view.may_change {
        out.add(&form(view, cx));
        out.add(&schedule(view, cx));
    }
    Some(Section { id: "sessions", title: Text::LeaseSessions, body: out.finish() })
}

fn source(source: SessionSource) -> Text {
    match source {
        SessionSource::Csv => Text::LeaseSourceCsv,
        SessionSource::Api => Text::LeaseSourceApi,
        SessionSource::Schedule => Text::LeaseSourceSchedule,
        SessionSource::Hand => Text::LeaseSourceHand,
    }
}

fn change(view: &LeaseView, line: &SessionLine, cx: &Context) -> table::Cell {
    let mut out = Writer::default();
    if view.may_change {
        let action = view.action(pattern::LEASE_SESSION, cx);
        out.open("form", &[("class", &"row"), ("method", &"post"), ("action", &action)]);
        let number = line.number;
        out.open("input", &[("type", &"hidden"), ("name", &"number"), ("value", &number)]);
        if line.ends_at.is_none() {
            button(&mut out, "end", cx.t(Text::LeaseEndNow));
        }
        button(&mut out, "withdraw", cx.t(Text::LeaseWithdraw));
        out.close("form");
    }
    out.finish().into()
}

/// The form of the weekly rule; one that is there can be ended.
fn schedule(view: &LeaseView, cx: &Context) -> Markup {
    let mut out = Writer::default();
    let action = view.action(pattern::LEASE_SCHEDULE, cx);
    out.open("form", &[("class", &"upload"), ("method", &"post"), ("action", &action)]);
    out.element("h3", &[], cx.t(Text::LeaseScheduleSet));
    let rule = ("rule", Text::LeaseSchedule, Text::LeaseHintSchedule);
    let from = ("rule_from", Text::LeaseFrom, Text::LeaseHintScheduleFrom);
    let faults = (view.faults.as_slice(), cx);
    super::super::lease_form::lines(&mut out, rule, &view.entered_schedule.rule, faults);
    super::super::lease_form::line(&mut out, from, &view.entered_schedule.from, faults);
    button(&mut out, "set", cx.t(Text::LeaseSave));
    if view.schedule.is_some() {
        button(&mut out, "end", cx.t(Text::LeaseEndNow));
    }
    out.close("form");
    out.finish()
}

fn form(view: &LeaseView, cx: &Context) -> Markup {
    let mut out = Writer::default();
    let action = view.action(pattern::LEASE_SESSION, cx);
    out.open("form", &[("class", &"upload"), ("method", &"post"), ("action", &action)]);
    out.element("h3", &[], cx.t(Text::LeaseAddSession));
    let fields = [
        ("starts_at", Text::LeaseStart, &view.entered.starts_at, Text::LeaseHintTime),
        ("ends_at", Text::LeaseEnd, &view.entered.ends_at, Text::LeaseHintEnd),
    ];
    for (name, label, value, hint) in fields {
        super::super::lease_form::line(&mut out, (name, label, hint), value, (&view.faults, cx));
    }
    let attributes: [(&str, &dyn std::fmt::Display); 3] =
        [("type", &"submit"), ("name", &"action"), ("value", &"add")];
    out.element("button", &attributes, cx.t(Text::LeaseAdd));
    out.close("form");
    out.finish()
}
