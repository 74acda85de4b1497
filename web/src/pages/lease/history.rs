//! What the terms were before, and why they were corrected.

use super::{LeaseView, Section, table, writer};
use crate::context::Context;
use crate::i18n::Text;
use crate::markup::Writer;

pub(super) fn section(view: &LeaseView, cx: &Context) -> Option<Section> {
    let mut out = Writer::default();
    let row = |revision: &super::Revision| {
        let terms = &revision.terms;
        let what = super::super::leases::term(terms.starts_at, terms.ends_at, cx);
        let cells = vec![
            revision.revision.to_string().into(),
            cx.minute(revision.written_at).into(),
            writer(revision.written_by.as_deref(), cx).into(),
            what.into(),
            terms.gpu_count.to_string().into(),
            revision.reason.clone().unwrap_or_default().into(),
        ];
        (false, cells)
    };
    let heads = [
        Text::LeaseRevision,
        Text::LeaseWritten,
        Text::LeaseWrittenBy,
        Text::LeaseTerm,
        Text::LeaseCount,
        Text::LeaseReason,
    ];
    table::write(&mut out, &heads.map(|head| cx.t(head)), view.history.iter().map(row).collect());
    Some(Section { id: "history", title: Text::LeaseHistory, body: out.finish() })
}
