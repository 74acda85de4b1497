//! Bills of providers, the latest first.

use leasewatch_core::time::{Period, Timestamp};
use serde::Serialize;

use super::lease::table;
use super::sheet::{self, Head};
use crate::context::Context;
use crate::i18n::Text;
use crate::markup::{Markup, Writer};
use crate::path::{self, BillPart, Route, pattern};
use crate::wire;

/// Everything that the page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BillsView {
    /// The latest first.
    pub bills: Vec<BillLink>,
    /// Whether tenants are told apart.
    pub shows_tenant: bool,
    /// Whether who asks may import one.
    pub may_change: bool,
}

/// A bill of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BillLink {
    /// The tenant's public name.
    pub tenant: String,
    /// Its number.
    pub number: i32,
    /// The provider's public name.
    pub provider: String,
    /// The file's name.
    pub file_name: String,
    /// From its first to its last moment; `None` without a line.
    #[serde(serialize_with = "wire::maybe_period")]
    pub period: Option<Period>,
    /// Lines.
    pub lines: i64,
    /// Lines that were refused.
    pub refused: i64,
    /// Its amounts include tax.
    pub with_tax: bool,
    /// When it was imported.
    #[serde(serialize_with = "wire::at")]
    pub imported_at: Timestamp,
    /// By whom; `None`: the command line, or nobody was signed in.
    pub imported_by: Option<String>,
}

impl BillsView {
    /// Two bills, one of which is not whole.
    #[must_use]
    pub fn sample() -> Self {
        let now = super::sample::NOW;
        let bill = |number, file_name: &str, refused| BillLink {
            tenant: "default".to_owned(),
            number,
            provider: "acme".to_owned(),
            file_name: file_name.to_owned(),
            period: Some(Period::new(now.plus_ms(-2_678_400_000), now)),
            lines: 12,
            refused,
            with_tax: false,
            imported_at: now,
            imported_by: Some("ada".to_owned()),
        };
        let bills = vec![bill(2, "july <2>.csv", 3), bill(1, "july.csv", 0)];
        Self { bills, shows_tenant: true, may_change: true }
    }

    /// Before there is any.
    #[must_use]
    pub fn empty_sample() -> Self {
        Self { bills: Vec::new(), shows_tenant: false, may_change: true }
    }
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &BillsView, context: &Context) -> Result<String, askama::Error> {
    let head = Head {
        title: context.t(Text::BillTitle).to_owned(),
        back: Some((context.costs(), context.t(Text::CostTitle))),
        origin: None,
    };
    sheet::render(context, head, body(view, context))
}

fn body(view: &BillsView, cx: &Context) -> Markup {
    let mut out = Writer::default();
    out.element("p", &[("class", &"lead")], cx.t(Text::BillLead));
    if view.may_change {
        let href = cx.here.to(Route::Bill(BillPart::Import)).href();
        out.open("p", &[("class", &"row")]);
        out.element("a", &[("class", &"button"), ("href", &href)], cx.t(Text::BillImport));
        out.close("p");
    }
    if view.bills.is_empty() {
        out.open("section", &[("class", &"empty")]);
        out.element("p", &[], cx.t(Text::BillEmpty));
        out.close("section");
        return out.finish();
    }
    let mut heads = vec![
        Text::BillNumber,
        Text::WordProvider,
        Text::BillFile,
        Text::BillPeriod,
        Text::BillLines,
        Text::BillImported,
    ];
    if view.shows_tenant {
        heads.push(Text::LeaseTenant);
    }
    let heads: Vec<&str> = heads.iter().map(|head| cx.t(head)).collect();
    let rows = view.bills.iter().map(|bill| (false, row(bill, view.shows_tenant, cx)));
    table::write(&mut out, &heads, rows.collect());
    let csv = path::of_money(&cx.here, pattern::BILLS_CSV);
    sheet::link(&mut out, &csv, cx.t(Text::LeaseCsv));
    out.finish()
}

fn row(bill: &BillLink, shows_tenant: bool, cx: &Context) -> Vec<table::Cell> {
    let mut link = Writer::default();
    let href = path::bill(&cx.here, pattern::BILL, &bill.tenant, bill.number);
    link.element("a", &[("href", &href)], bill.number);
    let mut lines = Writer::default();
    lines.text(bill.lines);
    if bill.refused > 0 {
        lines.text(" ");
        lines.element(
            "strong",
            &[],
            crate::i18n::phrase::bill_refused_count(cx.language, bill.refused),
        );
    }
    let mut cells = vec![
        link.finish().into(),
        bill.provider.clone().into(),
        bill.file_name.clone().into(),
        period(bill.period, cx).into(),
        lines.finish().into(),
        cx.minute(bill.imported_at).into(),
    ];
    if shows_tenant {
        cells.push(bill.tenant.clone().into());
    }
    cells
}

/// From when to when, each to the minute.
pub(super) fn period(period: Option<Period>, cx: &Context) -> Markup {
    let mut out = Writer::default();
    match period {
        Some(period) => {
            out.add(&cx.minute(period.start));
            out.text(" – ");
            out.add(&cx.minute(period.end));
        }
        None => out.text("–"),
    }
    out.finish()
}
