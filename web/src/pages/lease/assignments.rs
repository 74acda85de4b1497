//! Which GPUs the lease covers, and how many that are paid for it does not.

use super::super::NodeName;
use super::{AssignmentLine, LeaseView, Section, Surplus, table, writer};
use crate::context::Context;
use crate::i18n::{Text, phrase};
use crate::markup::{Markup, Writer};
use crate::path::{RangeState, pattern};

pub(super) fn section(view: &LeaseView, cx: &Context) -> Option<Section> {
    let mut out = Writer::default();
    if view.assignments.iter().all(|line| line.withdrawn_at.is_some()) {
        out.element("p", &[("class", &"quiet")], cx.t(Text::LeaseNoneAssigned));
    }
    if view.gpus_unassigned > 0 {
        let (count, contracted) = (view.gpus_unassigned, view.terms.gpu_count);
        let words = phrase::lease_unassigned(cx.language, contracted, count);
        out.element("p", &[("class", &"note")], words);
    }
    if let Some(Surplus { gpus, since }) = view.surplus {
        let contracted = view.terms.gpu_count;
        out.open("p", &[("class", &"note")]);
        out.element("strong", &[], phrase::lease_surplus(cx.language, contracted, gpus));
        out.text(" ");
        out.add(&cx.minute(since));
        out.close("p");
    }
    if !view.assignments.is_empty() {
        let heads = [
            Text::LeaseNode,
            Text::LeaseGpu,
            Text::LeaseFrom,
            Text::LeaseUntil,
            Text::LeaseWritten,
            Text::LeaseState,
        ];
        let rows = view.assignments.iter().map(|line| row(view, line, cx));
        table::write(&mut out, &heads.map(|head| cx.t(head)), rows.collect());
    }
    Some(Section { id: "gpus", title: Text::LeaseAssignments, body: out.finish() })
}

fn row(view: &LeaseView, line: &AssignmentLine, cx: &Context) -> (bool, Vec<table::Cell>) {
    let link = |href: &str, words: &str| {
        let mut out = Writer::default();
        out.element("a", &[("href", &href)], words);
        out.finish()
    };
    let gpu = cx.gpu(&line.node.id, line.gpu, RangeState::default());
    let until: table::Cell = match line.ends_at {
        Some(at) => cx.minute(at).into(),
        None => cx.t(Text::LeaseAsLong).into(),
    };
    let written = format!(" {}", writer(line.written_by.as_deref(), cx));
    let mut entered = Writer::default();
    entered.add(&cx.minute(line.written_at));
    entered.text(written);
    let cells = vec![
        node(&line.node, cx).into(),
        link(&gpu, &phrase::gpu_label(cx.language, line.gpu)).into(),
        cx.minute(line.starts_at).into(),
        until,
        entered.finish().into(),
        state(view, line, cx).into(),
    ];
    (line.withdrawn_at.is_some(), cells)
}

/// A node with the mark of its data.
pub(super) fn node(name: &NodeName, cx: &Context) -> Markup {
    let mut out = Writer::default();
    let href = cx.node(&name.id);
    out.element("a", &[("href", &href)], &name.name);
    out.add(&cx.origin(name.origin));
    out.finish()
}

/// Whether it counts, and what can be done about it.
fn state(view: &LeaseView, line: &AssignmentLine, cx: &Context) -> Markup {
    let mut out = Writer::default();
    let terms = &view.terms;
    if line.withdrawn_at.is_some() {
        let reason = line.reason.as_deref().unwrap_or("?");
        out.text(phrase::lease_withdrawn(cx.language, reason));
        return out.finish();
    }
    let is_outside = terms.ends_at.is_some_and(|end| line.starts_at >= end)
        || line.ends_at.is_some_and(|end| end <= terms.starts_at);
    let is_clipped = line.starts_at < terms.starts_at
        || line.ends_at.is_some_and(|own| terms.ends_at.is_some_and(|end| own > end));
    if is_outside {
        out.text(cx.t(Text::LeaseOutside));
    } else if is_clipped {
        out.text(cx.t(Text::LeaseClipped));
    }
    if view.may_change {
        let action = view.action(pattern::LEASE_ASSIGNMENT, cx);
        out.open("details", &[("class", &"more")]);
        out.element("summary", &[], cx.t(Text::AccessChange));
        out.open("form", &[("class", &"row"), ("method", &"post"), ("action", &action)]);
        let number = line.number;
        out.open("input", &[("type", &"hidden"), ("name", &"number"), ("value", &number)]);
        out.open("label", &[]);
        out.text(cx.t(Text::LeaseReason));
        out.text(" ");
        out.open("input", &[("name", &"reason"), ("maxlength", &"200"), ("size", &"16")]);
        out.close("label");
        if line.ends_at.is_none() {
            button(&mut out, "end", cx.t(Text::LeaseEndNow));
        }
        button(&mut out, "withdraw", cx.t(Text::LeaseWithdraw));
        out.close("form");
        out.close("details");
    }
    out.finish()
}

/// A button of a small form.
pub(super) fn button(out: &mut Writer, value: &str, words: &str) {
    let attributes: [(&str, &dyn std::fmt::Display); 4] =
        [("class", &"small"), ("type", &"submit"), ("name", &"action"), ("value", &value)];
    out.element("button", &attributes, words);
}
