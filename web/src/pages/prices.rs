//! Price tables that were imported, and what they offer of a GPU.

use leasewatch_core::money::Money;
use leasewatch_core::time::Timestamp;
use serde::Serialize;

use super::bill::maybe_amount;
use super::lease::table;
use super::sheet::{self, Head};
use crate::context::Context;
use crate::format;
use crate::i18n::{Text, phrase};
use crate::markup::{Markup, Writer};
use crate::path::{self, Route, pattern};
use crate::wire;

/// Everything that the page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PricesView {
    /// Tables that count, the latest first.
    pub tables: Vec<TableLine>,
    /// The GPU whose offers are shown, as it was asked for; empty when none was.
    pub gpu: String,
    /// Its offers, the cheapest per GPU first.
    pub offers: Vec<OfferLine>,
    /// Public names of providers that a table can be of.
    pub providers: Vec<String>,
    /// Whether who asks may import and withdraw.
    pub may_change: bool,
    /// What became of a table that was just sent.
    pub outcome: Option<TableSent>,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TableLine {
    /// Its number.
    pub number: i32,
    /// The file's name.
    pub file_name: String,
    /// Whose offers they are; `None`: the rows say.
    pub provider: Option<String>,
    /// What it was recognised as; `None`: read by names of columns.
    pub schema: Option<String>,
    /// The currency of its prices.
    pub currency: String,
    /// Rows below the header.
    pub rows: i64,
    /// Offers.
    pub offers: i64,
    /// Rows that say what another one says.
    pub duplicates: i64,
    /// Rows that were refused.
    pub refused: i64,
    /// When it was imported.
    #[serde(serialize_with = "wire::at")]
    pub imported_at: Timestamp,
    /// By whom.
    pub imported_by: Option<String>,
}

/// An offer with where it comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OfferLine {
    /// The provider as the table names it, or its public name.
    pub provider: Option<String>,
    /// The GPU as the table names it.
    pub gpu_name: String,
    /// Key of the catalogue.
    pub gpu_key: Option<String>,
    /// GPUs of the instance.
    pub gpu_count: u32,
    /// Name of the instance.
    pub instance: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// The instance for an hour.
    #[serde(serialize_with = "maybe_amount")]
    pub on_demand: Option<Money>,
    /// The same as spot.
    #[serde(serialize_with = "maybe_amount")]
    pub spot: Option<Money>,
    /// A GPU for an hour of the instance.
    #[serde(serialize_with = "maybe_amount")]
    pub per_gpu_hour: Option<Money>,
    /// The same as spot.
    #[serde(serialize_with = "maybe_amount")]
    pub spot_per_gpu_hour: Option<Money>,
    /// When its table was imported.
    #[serde(serialize_with = "wire::at")]
    pub imported_at: Timestamp,
    /// The table's file.
    pub source: String,
}

/// What became of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TableSent {
    /// It is no such table, for this reason.
    NoTable(String),
    /// It is stored.
    Stored {
        /// Offers of it.
        offers: i64,
        /// The first lines that were refused, with the reason.
        refused: Vec<(u64, String)>,
    },
}

impl PricesView {
    /// A table that was just sent, and offers of a GPU.
    #[must_use]
    pub fn sample() -> Self {
        let price = |text: &str| text.parse().ok();
        let now = super::sample::NOW;
        let offer = |gpu_count, instance: &str, on_demand, per_gpu_hour| OfferLine {
            provider: Some("Acme <Cloud>".to_owned()),
            gpu_name: "H100".to_owned(),
            gpu_key: Some("h100-sxm".to_owned()),
            gpu_count,
            instance: Some(instance.to_owned()),
            region: Some("north".to_owned()),
            on_demand,
            spot: None,
            per_gpu_hour,
            spot_per_gpu_hour: None,
            imported_at: now,
            source: "clouds.csv".to_owned(),
        };
        Self {
            tables: vec![TableLine {
                number: 1,
                file_name: "clouds.csv".to_owned(),
                provider: None,
                schema: Some("cloud-gpus".to_owned()),
                currency: "USD".to_owned(),
                rows: 257,
                offers: 240,
                duplicates: 6,
                refused: 1,
                imported_at: now,
                imported_by: Some("ada".to_owned()),
            }],
            gpu: "H100".to_owned(),
            offers: vec![
                offer(8, "8x", price("11.12 USD"), price("1.39 USD")),
                offer(1, "1x", price("1.99 USD"), price("1.99 USD")),
            ],
            providers: vec!["acme".to_owned()],
            may_change: true,
            outcome: Some(TableSent::Stored {
                offers: 240,
                refused: vec![(9, "no price".to_owned())],
            }),
        }
    }

    /// Before there is any, for who may only look.
    #[must_use]
    pub fn empty_sample() -> Self {
        Self {
            tables: Vec::new(),
            gpu: String::new(),
            offers: Vec::new(),
            providers: Vec::new(),
            may_change: false,
            outcome: None,
        }
    }
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &PricesView, context: &Context) -> Result<String, askama::Error> {
    let head = Head {
        title: context.t(Text::PricesTitle).to_owned(),
        back: Some((context.costs(), context.t(Text::CostTitle))),
        origin: None,
    };
    sheet::render(context, head, body(view, context))
}

fn body(view: &PricesView, cx: &Context) -> Markup {
    let mut out = Writer::default();
    out.element("p", &[("class", &"lead")], cx.t(Text::PricesLead));
    outcome(&mut out, view, cx);
    offers(&mut out, view, cx);
    tables(&mut out, view, cx);
    if view.may_change {
        form(&mut out, view, cx);
    }
    out.finish()
}

fn outcome(out: &mut Writer, view: &PricesView, cx: &Context) {
    match &view.outcome {
        None => {}
        Some(TableSent::NoTable(why)) => {
            out.open("section", &[("class", &"faults"), ("role", &"alert")]);
            out.element("h2", &[], cx.t(Text::LeaseTableNotStored));
            out.open("p", &[]);
            out.element("code", &[], why);
            out.close("p");
            out.close("section");
        }
        Some(TableSent::Stored { offers, refused }) => {
            let words = phrase::lease_table_stored(cx.language, offers);
            out.element("p", &[("class", &"outcome"), ("role", &"status")], words);
            if !refused.is_empty() {
                let heads = [cx.t(Text::LeaseTableLine), cx.t(Text::LeaseTableWhy)];
                let rows = refused
                    .iter()
                    .map(|(line, why)| (false, vec![line.to_string().into(), why.clone().into()]));
                table::write(out, &heads, rows.collect());
            }
        }
    }
}

fn offers(out: &mut Writer, view: &PricesView, cx: &Context) {
    out.open("section", &[]);
    out.element("h2", &[], cx.t(Text::PricesOffers));
    let action = cx.here.to(Route::Prices).path();
    out.open("form", &[("class", &"row"), ("method", &"get"), ("action", &action)]);
    for (name, value) in cx.here.kept("q") {
        out.open("input", &[("type", &"hidden"), ("name", &name), ("value", &value)]);
    }
    out.element("label", &[("for", &"q")], cx.t(Text::LeaseModel));
    out.text(" ");
    out.open("input", &[("id", &"q"), ("name", &"q"), ("value", &view.gpu)]);
    out.text(" ");
    out.element("button", &[("type", &"submit")], cx.t(Text::LeaseShow));
    out.close("form");
    if view.offers.is_empty() {
        let words = if view.gpu.is_empty() { Text::PricesAsk } else { Text::PricesNone };
        out.element("p", &[("class", &"quiet")], cx.t(words));
    } else {
        offer_table(out, &view.offers, cx);
        let csv = path::of_money(&cx.here, pattern::PRICES_CSV);
        sheet::link(out, &csv, cx.t(Text::LeaseCsv));
    }
    out.close("section");
}

/// Offers as a table.
pub(super) fn offer_table(out: &mut Writer, offers: &[OfferLine], cx: &Context) {
    let heads = [
        Text::WordProvider,
        Text::LeaseModel,
        Text::LeaseCount,
        Text::PricesInstance,
        Text::PricesPerGpu,
        Text::PricesSpot,
        Text::PricesSource,
    ];
    let heads = heads.map(|head| cx.t(head));
    let dash = || "–".to_owned();
    let money = |amount: Option<Money>| amount.map_or_else(dash, format::money);
    let rows = offers.iter().map(|offer| {
        let mut source = Writer::default();
        source.text(&offer.source);
        source.text(" ");
        source.add(&cx.minute(offer.imported_at));
        let instance = [offer.instance.as_deref(), offer.region.as_deref()];
        let instance: Vec<&str> = instance.into_iter().flatten().collect();
        let cells: Vec<table::Cell> = vec![
            offer.provider.clone().unwrap_or_else(dash).into(),
            offer.gpu_name.clone().into(),
            offer.gpu_count.to_string().into(),
            instance.join(", ").into(),
            money(offer.per_gpu_hour).into(),
            money(offer.spot_per_gpu_hour).into(),
            source.finish().into(),
        ];
        (false, cells)
    });
    table::write(out, &heads, rows.collect());
}

fn tables(out: &mut Writer, view: &PricesView, cx: &Context) {
    out.open("section", &[]);
    out.element("h2", &[], cx.t(Text::PricesTables));
    if view.tables.is_empty() {
        out.element("p", &[("class", &"quiet")], cx.t(Text::PricesEmpty));
    } else {
        let mut heads = vec![
            Text::BillFile,
            Text::WordProvider,
            Text::PricesSchema,
            Text::LeaseCurrency,
            Text::PricesRows,
            Text::BillImported,
        ];
        if view.may_change {
            heads.push(Text::AccessChange);
        }
        let heads: Vec<&str> = heads.iter().map(|head| cx.t(head)).collect();
        let rows = view.tables.iter().map(|line| (false, row(line, view.may_change, cx)));
        table::write(out, &heads, rows.collect());
    }
    out.close("section");
}

fn row(line: &TableLine, may_change: bool, cx: &Context) -> Vec<table::Cell> {
    let provider = line.provider.as_deref().unwrap_or(cx.t(Text::PricesEachRow));
    let schema = line.schema.as_deref().unwrap_or(cx.t(Text::PricesByColumns));
    let rows =
        phrase::prices_counts(cx.language, line.duplicates, line.offers, line.refused, line.rows);
    let mut cells: Vec<table::Cell> = vec![
        line.file_name.clone().into(),
        provider.into(),
        schema.into(),
        line.currency.clone().into(),
        rows.into(),
        cx.minute(line.imported_at).into(),
    ];
    if may_change {
        let mut out = Writer::default();
        let action = path::of_money(&cx.here, pattern::PRICES_WITHDRAW);
        out.open("form", &[("class", &"row"), ("method", &"post"), ("action", &action)]);
        out.open("input", &[("type", &"hidden"), ("name", &"number"), ("value", &line.number)]);
        sheet::button(&mut out, "withdraw", cx.t(Text::LeaseWithdraw));
        out.close("form");
        cells.push(out.finish().into());
    }
    cells
}

fn form(out: &mut Writer, view: &PricesView, cx: &Context) {
    let action = cx.here.to(Route::Prices).path();
    out.open(
        "form",
        &[
            ("class", &"upload"),
            ("method", &"post"),
            ("action", &action),
            ("enctype", &"multipart/form-data"),
        ],
    );
    out.element("h2", &[], cx.t(Text::PricesImport));
    sheet::file(out, cx.t(Text::LeaseTableFile));
    let mut all = vec![(String::new(), cx.t(Text::PricesEachRow).to_owned())];
    all.extend(view.providers.iter().map(|name| (name.clone(), name.clone())));
    sheet::choice(out, ("provider", cx.t(Text::WordProvider)), "", &all);
    let currency = ("currency", cx.t(Text::LeaseCurrency));
    sheet::line(out, currency, "USD", cx.t(Text::LeaseHintCurrency));
    let columns = ("columns", cx.t(Text::LeaseTableColumns));
    sheet::line(out, columns, "", cx.t(Text::PricesHintColumns));
    sheet::button(out, "store", cx.t(Text::LeaseTableSend));
    out.close("form");
}
