//! Prices over time.

use super::super::leases::PriceNow;
use super::{LeaseView, Section, table};
use crate::context::Context;
use crate::i18n::Text;
use crate::markup::Writer;

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
    Some(Section { id: "prices", title: Text::LeasePrices, body: out.finish() })
}
