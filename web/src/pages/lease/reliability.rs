//! How often the provider interrupted the lease's nodes in the last days, and which GPUs were slow.

use super::{LeaseView, Section, table};
use crate::context::Context;
use crate::format::{self, Quantity};
use crate::i18n::{Text, phrase};
use crate::markup::Writer;
use crate::pages::reliability::{RateCell, figures, named, slow};

pub(super) fn section(view: &LeaseView, cx: &Context) -> Option<Section> {
    let reliability = view.reliability.as_ref()?;
    let mut out = Writer::default();
    let day = |at| format::local_date(at, cx.zone, cx.language);
    let window = reliability.window;
    let words = phrase::reliability_window(cx.language, day(window.start), day(window.end));
    out.element("p", &[("class", &"quiet")], words);
    match &reliability.rate {
        Some(rate) => rows(&mut out, rate, cx),
        None => out.element("p", &[], cx.t(Text::ReliabilityNotDelivered)),
    }
    out.element("h3", &[], cx.t(Text::ReliabilityStragglers));
    out.add(&slow(&reliability.slow, cx));
    Some(Section { id: "reliability", title: Text::ReliabilityTitle, body: out.finish() })
}

fn rows(out: &mut Writer, rate: &RateCell, cx: &Context) {
    let count = Quantity::count(rate.interruptions.into()).text(cx.language);
    let values = [count, rate.rate(cx), rate.between(cx), rate.repair(cx)];
    let rows = figures().into_iter().zip(values);
    let rows = rows.map(|(figure, value)| {
        (false, vec![named(figure, cx).into(), value.into(), rate.basis(cx).into()])
    });
    let heads = [Text::ReliabilityFigure, Text::ReliabilityValue, Text::ReliabilityOver];
    table::write(out, &heads.map(|head| cx.t(head)), rows.collect());
}
