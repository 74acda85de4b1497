//! Changes of the hardware of the lease's nodes within the term: what came is not always what stays.

use super::{LeaseView, Section, table};
use crate::context::Context;
use crate::i18n::Text;
use crate::markup::Writer;

pub(super) fn section(view: &LeaseView, cx: &Context) -> Option<Section> {
    if view.assignments.is_empty() {
        return None;
    }
    let mut out = Writer::default();
    if view.inventory.is_empty() {
        out.element("p", &[("class", &"quiet")], cx.t(Text::LeaseNoInventory));
    } else {
        let heads = [Text::LeaseWhen, Text::LeaseNode, Text::LeaseGpu, Text::LeaseWhat];
        let rows = view.inventory.iter().map(|line| {
            let gpu = line.event.gpu.as_ref().map_or("", |gpu| gpu.as_str());
            let mut node = Writer::default();
            let href = cx.node(&line.node.id);
            node.element("a", &[("href", &href)], &line.node.name);
            let what = crate::events::describe(&line.event.kind, cx.language);
            let at = cx.minute(line.event.at);
            (false, vec![at.into(), node.finish().into(), gpu.into(), what.into()])
        });
        table::write(&mut out, &heads.map(|head| cx.t(head)), rows.collect());
    }
    Some(Section { id: "inventory", title: Text::LeaseInventory, body: out.finish() })
}
