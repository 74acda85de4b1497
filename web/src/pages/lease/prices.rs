//! Prices over time.

use super::super::leases::PriceNow;
use super::{LeaseView, Section, table};
use crate::context::Context;
use crate::i18n::{Text, phrase};
use crate::markup::Writer;
use crate::path;

pub(super) fn section(view: &LeaseView, cx: &Context) -> Option<Section> {
    let prices = &view.terms.prices;
    let mut out = Writer::default();
    if prices.is_empty() {
        out.element("p", &[("class", &"quiet")], cx.t(Text::LeaseNoPrices));
    } else {
        let now = prices.iter().rposition(|price| price.from <= cx.now);
        let rows = prices.iter().enumerate().map(|(index, price)| {
            let words = PriceNow::new(price.amount, price.unit).words(cx.language);
            let mark = if Some(index) == now { cx.t(Text::LeaseNow) } else { "" };
            (false, vec![cx.minute(price.from).into(), words.into(), mark.into()])
        });
        let heads = [cx.t(Text::LeaseFrom), cx.t(Text::LeaseAmount), cx.t(Text::LeaseState)];
        table::write(&mut out, &heads, rows.collect());
    }
    if !view.offers.is_empty() {
        out.element("h3", &[], cx.t(Text::PricesBeside));
        if view.offers_cheaper > 0 {
            let words = phrase::prices_cheaper(cx.language, view.offers_cheaper);
            out.element("p", &[("class", &"note")], words);
        }
        super::super::prices::offer_table(&mut out, &view.offers, cx);
        let href = path::offers(&cx.here, &view.terms.gpu_model);
        let words = phrase::prices_beside_link(cx.language, &view.terms.gpu_model);
        super::super::sheet::link(&mut out, &href, &words);
    }
    Some(Section { id: "prices", title: Text::LeasePrices, body: out.finish() })
}
