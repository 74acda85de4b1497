//! Deadlines and claims of the rental.

use super::{LeaseView, Section, table};
use crate::context::Context;
use crate::format;
use crate::i18n::{Text, phrase};
use crate::markup::Writer;
use crate::path::Route;

pub(super) fn section(view: &LeaseView, cx: &Context) -> Option<Section> {
    if view.deadlines.is_empty() && view.claims.is_empty() {
        return None;
    }
    let mut out = Writer::default();
    if let Some(number) = view.taken_by {
        out.open("p", &[("class", &"note"), ("role", &"alert")]);
        out.element("strong", &[], phrase::claim_taken(cx.language, number));
        out.close("p");
    }
    if !view.deadlines.is_empty() {
        out.open("ul", &[("class", &"deadlines")]);
        for line in &view.deadlines {
            out.open("li", &[]);
            match line.claim {
                Some(number) => {
                    let words = phrase::claim_one(cx.language, number);
                    out.element("a", &[("href", &line.href(cx))], words);
                }
                None => out.text(cx.t(Text::ClaimNotDrafted)),
            }
            let units = phrase::deadline_units(cx.language, line.units);
            let what = format!(" {} · {units} ", line.objective);
            out.element("span", &[("class", &"quiet")], what);
            out.add(&line.markup(cx));
            out.element("span", &[("class", &"quiet")], format_args!(" {}", line.advice(cx)));
            out.close("li");
        }
        out.close("ul");
    }
    if !view.claims.is_empty() {
        rows(&mut out, view, cx);
    }
    Some(Section { id: "claims", title: Text::ClaimTitle, body: out.finish() })
}

fn rows(out: &mut Writer, view: &LeaseView, cx: &Context) {
    let heads = [
        Text::ClaimNumber,
        Text::JudgedUnit,
        Text::JudgedWindow,
        Text::ClaimState,
        Text::ClaimAsked,
        Text::ClaimGranted,
        Text::ClaimDeadline,
    ];
    let heads: Vec<_> = heads.iter().map(|head| cx.t(head)).collect();
    let rows = view.claims.iter().map(|line| {
        let mut link = Writer::default();
        let href = cx.here.to(Route::Claim(line.number)).href();
        link.element("a", &[("href", &href)], line.number);
        let mut window = Writer::default();
        window.add(&cx.minute(line.window.start));
        window.text(" – ");
        window.add(&cx.minute(line.window.end));
        let cells: Vec<table::Cell> = vec![
            link.finish().into(),
            line.unit_words(cx).into(),
            window.finish().into(),
            line.state_words(cx).into(),
            format::money(line.asked).into(),
            line.granted.map_or_else(String::new, format::money).into(),
            line.deadline(cx).into(),
        ];
        (line.state == "withdrawn", cells)
    });
    table::write(out, &heads, rows.collect());
}
