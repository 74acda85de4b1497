//! A bill, sent from a browser: first it is looked at, and a person says which column holds what;
//! then it is stored, or refused by line and column.

use std::collections::BTreeMap;

use leasewatch_core::cost::bill::{DateOrder, QuantityUnit};
use serde::Serialize;

use super::bill::{self, RefusedOfBill, unit_words};
use super::lease::table;
use super::sheet::{self, Head};
use crate::context::Context;
use crate::i18n::{Text, phrase};
use crate::markup::{Markup, Writer};
use crate::path::{BillPart, Route};

/// Fields that are columns of the file: their names, words, and whether they have to be there.
pub const COLUMNS: [(&str, Text, bool); 8] = [
    ("starts", Text::LeaseStart, true),
    ("ends", Text::LeaseEnd, false),
    ("key", Text::BillKey, true),
    ("quantity", Text::BillQuantity, false),
    ("unit", Text::BillUnit, false),
    ("rate", Text::BillRate, false),
    ("amount", Text::LeaseAmount, true),
    ("currency", Text::LeaseCurrency, false),
];

/// Everything that the page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BillImportView {
    /// Public names of the tenants that may have it.
    pub tenants: Vec<String>,
    /// Public names of providers.
    pub providers: Vec<String>,
    /// What was chosen and typed, by field.
    pub entered: BTreeMap<String, String>,
    /// The file, once it was looked at.
    pub looked_at: Option<LookedAt>,
    /// Names of fields that hold nothing that goes.
    pub wrong: Vec<String>,
    /// Why the file is no table.
    pub no_table: Option<String>,
    /// Lines that were refused.
    pub refused: Vec<RefusedOfBill>,
}

/// A file as it was read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LookedAt {
    /// Its name.
    pub file_name: String,
    /// All of it.
    pub text: String,
    /// Names of its columns.
    pub header: Vec<String>,
    /// Its first rows.
    pub rows: Vec<Vec<String>>,
}

impl BillImportView {
    /// A file that was looked at, of which a field was not chosen and a line is wrong.
    #[must_use]
    pub fn sample() -> Self {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let entered = [("provider", "acme"), ("starts", "From"), ("timezone", "Asia/Shanghai")];
        Self {
            tenants: vec!["default".to_owned(), "research".to_owned()],
            providers: vec!["acme".to_owned()],
            entered: entered.map(|(name, text)| (name.to_owned(), text.to_owned())).into(),
            looked_at: Some(LookedAt {
                file_name: "july.csv".to_owned(),
                text: "From,Resource,Amount\n2026-07-01,i-<0a>,x\n".to_owned(),
                header: texts(&["From", "Resource", "Amount"]),
                rows: vec![texts(&["2026-07-01", "i-<0a>", "x"])],
            }),
            wrong: vec!["amount".to_owned()],
            no_table: None,
            refused: super::bill::BillView::sample().refused,
        }
    }

    /// Before anything was sent.
    #[must_use]
    pub fn first_sample() -> Self {
        Self {
            entered: BTreeMap::new(),
            looked_at: None,
            wrong: Vec::new(),
            refused: Vec::new(),
            ..Self::sample()
        }
    }

    fn text(&self, field: &str) -> &str {
        self.entered.get(field).map_or("", String::as_str)
    }
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &BillImportView, context: &Context) -> Result<String, askama::Error> {
    let list = context.here.to(Route::Bill(BillPart::List)).href();
    let head = Head {
        title: context.t(Text::BillImport).to_owned(),
        back: Some((list, context.t(Text::BillTitle))),
        origin: None,
    };
    sheet::render(context, head, body(view, context))
}

fn body(view: &BillImportView, cx: &Context) -> Markup {
    let mut out = Writer::default();
    out.element("p", &[("class", &"lead")], cx.t(Text::BillImportLead));
    faults(&mut out, view, cx);
    bill::refused(&mut out, &view.refused, cx);
    let action = cx.here.to(Route::Bill(BillPart::Import)).href();
    out.open(
        "form",
        &[
            ("class", &"upload"),
            ("method", &"post"),
            ("action", &action),
            ("enctype", &"multipart/form-data"),
        ],
    );
    if view.tenants.len() > 1 {
        let label = ("tenant", cx.t(Text::LeaseTenant));
        sheet::choice(&mut out, label, view.text("tenant"), &same(&view.tenants));
    }
    let label = ("provider", cx.t(Text::WordProvider));
    sheet::choice(&mut out, label, view.text("provider"), &same(&view.providers));
    sheet::file(&mut out, cx.t(Text::LeaseTableFile));
    if let Some(file) = &view.looked_at {
        looked_at(&mut out, view, file, cx);
    }
    sheet::button(&mut out, "look", cx.t(Text::BillLook));
    if view.looked_at.is_some() {
        sheet::button(&mut out, "store", cx.t(Text::BillStore));
    }
    out.close("form");
    out.finish()
}

fn same(names: &[String]) -> Vec<(String, String)> {
    names.iter().map(|name| (name.clone(), name.clone())).collect()
}

fn faults(out: &mut Writer, view: &BillImportView, cx: &Context) {
    if view.no_table.is_none() && view.wrong.is_empty() {
        return;
    }
    out.open("section", &[("class", &"faults"), ("role", &"alert")]);
    out.element("h2", &[], cx.t(Text::LeaseTableNotStored));
    if let Some(why) = &view.no_table {
        out.open("p", &[]);
        out.text(cx.t(Text::LeaseTableWrong));
        out.text(" ");
        out.element("code", &[], why);
        out.close("p");
    }
    out.open("ul", &[]);
    for field in &view.wrong {
        out.open("li", &[]);
        let known = COLUMNS.iter().find(|(name, ..)| name == field);
        let words = known.map_or_else(|| setting(field), |(_, words, _)| *words);
        // A fault of what is not on the page has nothing to lead to.
        let is_shown = view.looked_at.is_some() || field == "provider";
        match is_shown {
            true => out.element("a", &[("href", &format!("#{field}"))], cx.t(words)),
            false => out.text(cx.t(words)),
        }
        out.text(" ");
        let is_empty = view.text(field).is_empty();
        out.text(cx.t(if is_empty { Text::ImportMissing } else { Text::BillFieldWrong }));
        out.close("li");
    }
    out.close("ul");
    out.close("section");
}

fn setting(field: &str) -> Text {
    match field {
        "timezone" => Text::LayoutZone,
        "dates" => Text::BillDates,
        "unit_else" => Text::BillUnitElse,
        "currency_else" => Text::BillCurrencyElse,
        "provider" => Text::WordProvider,
        _ => Text::LeaseTableFile,
    }
}

fn looked_at(out: &mut Writer, view: &BillImportView, file: &LookedAt, cx: &Context) {
    out.element("h2", &[], phrase::bill_first_rows(cx.language, &file.file_name));
    let heads: Vec<&str> = file.header.iter().map(String::as_str).collect();
    let rows = file.rows.iter().map(|row| {
        let cells = (0..heads.len()).map(|at| row.get(at).cloned().unwrap_or_default().into());
        (false, cells.collect())
    });
    table::write(out, &heads, rows.collect());
    out.open("input", &[("type", &"hidden"), ("name", &"name"), ("value", &file.file_name)]);
    // A browser cannot be told to send a file again.
    out.open("details", &[("class", &"more")]);
    out.element("summary", &[], cx.t(Text::BillWhole));
    out.open("div", &[("class", &"field")]);
    out.element("label", &[("for", &"text")], cx.t(Text::LeaseTableFile));
    let attributes: [(&str, &dyn std::fmt::Display); 4] =
        [("id", &"text"), ("name", &"text"), ("rows", &"6"), ("spellcheck", &"false")];
    out.element("textarea", &attributes, &file.text);
    out.close("div");
    out.close("details");
    out.element("h2", &[], cx.t(Text::BillMapping));
    for (name, words, is_needed) in COLUMNS {
        let none = if is_needed { "" } else { cx.t(Text::BillNoColumn) };
        let mut all = vec![(String::new(), none.to_owned())];
        all.extend(same(&file.header));
        sheet::choice(out, (name, cx.t(words)), view.text(name), &all);
    }
    settings(out, view, cx);
}

fn settings(out: &mut Writer, view: &BillImportView, cx: &Context) {
    let units =
        QuantityUnit::ALL.map(|unit| (unit.name().to_owned(), cx.t(unit_words(unit)).to_owned()));
    sheet::choice(out, ("unit_else", cx.t(Text::BillUnitElse)), view.text("unit_else"), &units);
    let currency = ("currency_else", cx.t(Text::BillCurrencyElse));
    sheet::line(out, currency, view.text("currency_else"), cx.t(Text::LeaseHintCurrency));
    let orders = DateOrder::ALL.map(|order| {
        let words = match order {
            DateOrder::YearFirst => Text::BillYearFirst,
            DateOrder::DayFirst => Text::BillDayFirst,
            DateOrder::MonthFirst => Text::BillMonthFirst,
        };
        (order.name().to_owned(), cx.t(words).to_owned())
    });
    sheet::choice(out, ("dates", cx.t(Text::BillDates)), view.text("dates"), &orders);
    let zone = ("timezone", cx.t(Text::LayoutZone));
    sheet::line(out, zone, view.text("timezone"), cx.t(Text::LeaseHintZone));
    let tax = ("with_tax", cx.t(Text::BillTaxInside));
    sheet::tick(out, tax, view.text("with_tax") == "yes");
    let partial = ("partial", cx.t(Text::LeaseTablePartial));
    sheet::tick(out, partial, view.text("partial") == "yes");
}
