//! A bill against terms, sessions and measured time: what differs, why, and by how much.

mod sample;

use leasewatch_core::cost::bill::{BillRowFault, DifferenceKind, QuantityUnit};
use leasewatch_core::money::Money;
use leasewatch_core::segment::Origin;
use leasewatch_core::time::{Period, Timestamp};
use serde::{Serialize, Serializer};

use super::bills::period as period_of;
use super::lease::table;
use super::sheet::{self, Head};
use crate::context::Context;
use crate::format::{self, Quantity};
use crate::i18n::{Text, phrase};
use crate::markup::{Markup, Writer};
use crate::path::{self, BillPart, LeasePart, Route, pattern};
use crate::wire;

/// Differences, and lines of the bill, on the page; the CSV has all.
const SHOWN: usize = 200;

/// Everything that the page shows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BillView {
    /// The tenant's public name.
    pub tenant: String,
    /// Its number.
    pub number: i32,
    /// The provider's public name.
    pub provider: String,
    /// The file's name.
    pub file_name: String,
    /// Its amounts include tax.
    pub with_tax: bool,
    /// When it was imported.
    #[serde(serialize_with = "wire::at")]
    pub imported_at: Timestamp,
    /// By whom.
    pub imported_by: Option<String>,
    /// From its first to its last moment.
    #[serde(serialize_with = "wire::maybe_period")]
    pub period: Option<Period>,
    /// By currency.
    pub sums: Vec<BillSum>,
    /// In the order of lines.
    pub differences: Vec<DifferenceLine>,
    /// Leases of the provider in the time of the bill.
    pub leases: Vec<LeaseTime>,
    /// Its lines.
    pub lines: Vec<LineOfBill>,
    /// Lines that were refused; without them the comparison is not whole.
    pub refused: Vec<RefusedOfBill>,
    /// The least trustworthy source of what it is compared with.
    #[serde(serialize_with = "wire::maybe_origin")]
    pub origin: Option<Origin>,
    /// Whether who asks may withdraw it.
    pub may_change: bool,
}

/// What is billed and what is due, in one currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BillSum {
    /// What is billed.
    #[serde(serialize_with = "amount")]
    pub billed: Money,
    /// What the terms charge.
    #[serde(serialize_with = "amount")]
    pub expected: Money,
    /// Of that, for time that was proven down.
    #[serde(serialize_with = "amount")]
    pub dead: Money,
    /// All differences together: billed, less expected, plus dead.
    #[serde(serialize_with = "amount")]
    pub difference: Money,
}

/// A difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DifferenceLine {
    /// The line of the file; `None` where none is meant.
    pub line: Option<u64>,
    /// The lease.
    pub lease: Option<String>,
    /// What it is.
    #[serde(serialize_with = "kind_name")]
    pub kind: DifferenceKind,
    /// When.
    #[serde(serialize_with = "wire::period")]
    pub period: Period,
    /// How much more was billed than is due; negative: less.
    #[serde(serialize_with = "amount")]
    pub amount: Money,
}

/// What a lease's assigned GPUs did in the time of the bill, as far as it was judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeaseTime {
    /// Its name.
    pub lease: String,
    /// What lines bill for it, in its currency.
    #[serde(serialize_with = "amount")]
    pub billed: Money,
    /// Contracted GPU time.
    pub assigned_ms: i64,
    /// Of it: measured as working.
    pub up_ms: i64,
    /// Proven not to have worked.
    pub down_ms: i64,
    /// Neither is shown.
    pub unknown_ms: i64,
    /// Taken out of the account.
    pub excluded_ms: i64,
}

/// A line of the bill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LineOfBill {
    /// In the file, from 1.
    pub line: u64,
    /// What it bills.
    pub key: String,
    /// For when.
    #[serde(serialize_with = "wire::period")]
    pub period: Period,
    /// How much: a decimal, and its unit by name.
    pub quantity: Option<(String, &'static str)>,
    /// The price of one.
    #[serde(serialize_with = "maybe_amount")]
    pub rate: Option<Money>,
    /// What is to be paid.
    #[serde(serialize_with = "amount")]
    pub amount: Money,
}

/// A line that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RefusedOfBill {
    /// In the file, from 1.
    pub line: u64,
    /// Why.
    #[serde(serialize_with = "fault_name")]
    pub fault: BillRowFault,
    /// The column with the cell that is wrong.
    pub column: Option<String>,
}

pub(super) fn amount<S: Serializer>(money: &Money, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(money)
}

pub(super) fn maybe_amount<S: Serializer>(
    money: &Option<Money>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    money.map(|money| money.to_string()).serialize(serializer)
}

fn kind_name<S: Serializer>(kind: &DifferenceKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.name())
}

fn fault_name<S: Serializer>(fault: &BillRowFault, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(fault.name())
}

/// Renders the page.
///
/// # Errors
/// [`askama::Error`] when a value cannot be formatted.
pub fn render(view: &BillView, context: &Context) -> Result<String, askama::Error> {
    let list = context.here.to(Route::Bill(BillPart::List)).href();
    let head = Head {
        title: phrase::bill_page_title(context.language, view.number, &view.provider),
        back: Some((list, context.t(Text::BillTitle))),
        origin: view.origin,
    };
    sheet::render(context, head, body(view, context))
}

fn body(view: &BillView, cx: &Context) -> Markup {
    let mut out = Writer::default();
    out.open("p", &[("class", &"state")]);
    out.text(&view.file_name);
    out.text(" ");
    out.add(&period_of(view.period, cx));
    out.text(" ");
    out.text(cx.t(if view.with_tax { Text::BillWithTax } else { Text::BillWithoutTax }));
    out.close("p");
    refused(&mut out, &view.refused, cx);
    sums(&mut out, view, cx);
    differences(&mut out, view, cx);
    leases(&mut out, view, cx);
    lines(&mut out, view, cx);
    if view.may_change {
        let action = path::bill(&cx.here, pattern::BILL_WITHDRAW, &view.tenant, view.number);
        out.open("form", &[("class", &"row"), ("method", &"post"), ("action", &action)]);
        sheet::button(&mut out, "withdraw", cx.t(Text::BillWithdraw));
        out.close("form");
    }
    out.finish()
}

fn section(out: &mut Writer, title: Text, cx: &Context) {
    out.open("section", &[]);
    out.element("h2", &[], cx.t(title));
}

/// Lines that were refused, with their column and why; nothing when none were.
pub(super) fn refused(out: &mut Writer, refused: &[RefusedOfBill], cx: &Context) {
    if refused.is_empty() {
        return;
    }
    out.open("section", &[("class", &"faults"), ("role", &"alert")]);
    out.element("h2", &[], cx.t(Text::BillRefused));
    let heads =
        [Text::LeaseTableLine, Text::BillColumn, Text::LeaseTableWhy].map(|head| cx.t(head));
    let rows = refused.iter().take(SHOWN).map(|row| {
        let column = row.column.clone().unwrap_or_else(|| "–".to_owned());
        (false, vec![row.line.to_string().into(), column.into(), cx.t(why(row.fault)).into()])
    });
    table::write(out, &heads, rows.collect());
    out.close("section");
}

fn why(fault: BillRowFault) -> Text {
    match fault {
        BillRowFault::Date => Text::BillFaultDate,
        BillRowFault::Key => Text::BillFaultKey,
        BillRowFault::Amount => Text::BillFaultAmount,
        BillRowFault::Number => Text::BillFaultNumber,
        BillRowFault::Currency => Text::BillFaultCurrency,
        BillRowFault::Text => Text::BillFaultText,
        BillRowFault::Shape => Text::BillFaultShape,
    }
}

fn sums(out: &mut Writer, view: &BillView, cx: &Context) {
    section(out, Text::CostSums, cx);
    let heads = [Text::BillBilled, Text::BillExpected, Text::BillDead, Text::BillDifference];
    let heads = heads.map(|head| cx.t(head));
    let cells = |sum: &BillSum| {
        [sum.billed, sum.expected, sum.dead, sum.difference].map(|sum| format::money(sum).into())
    };
    let rows = view.sums.iter().map(|sum| (false, cells(sum).into()));
    table::write(out, &heads, rows.collect());
    out.element("p", &[("class", &"note")], cx.t(Text::BillFormula));
    out.close("section");
}

fn differences(out: &mut Writer, view: &BillView, cx: &Context) {
    section(out, Text::BillDifferences, cx);
    if view.differences.is_empty() {
        out.element("p", &[("class", &"quiet")], cx.t(Text::BillNoDifference));
    } else {
        let heads = [
            Text::BillKind,
            Text::BillDifference,
            Text::LeaseTableLine,
            Text::CostLease,
            Text::BillPeriod,
        ];
        let heads = heads.map(|head| cx.t(head));
        let rows = view.differences.iter().take(SHOWN).map(|line| {
            let number = line.line.map_or_else(|| "–".to_owned(), |line| line.to_string());
            let cells: Vec<table::Cell> = vec![
                cx.t(kind(line.kind)).into(),
                format::money(line.amount).into(),
                number.into(),
                lease_link(line.lease.as_deref(), view, cx).into(),
                period_of(Some(line.period), cx).into(),
            ];
            (false, cells)
        });
        table::write(out, &heads, rows.collect());
    }
    let csv = path::bill(&cx.here, pattern::BILL_CSV, &view.tenant, view.number);
    sheet::link(out, &csv, cx.t(Text::BillCsv));
    out.close("section");
}

fn kind(kind: DifferenceKind) -> Text {
    match kind {
        DifferenceKind::Dead => Text::BillKindDead,
        DifferenceKind::AfterRelease => Text::BillKindAfterRelease,
        DifferenceKind::OutsideSession => Text::BillKindOutsideSession,
        DifferenceKind::Price => Text::BillKindPrice,
        DifferenceKind::Arithmetic => Text::BillKindArithmetic,
        DifferenceKind::Rounding => Text::BillKindRounding,
        DifferenceKind::Double => Text::BillKindDouble,
        DifferenceKind::UnknownLease => Text::BillKindUnknownLease,
        DifferenceKind::MissingLine => Text::BillKindMissingLine,
        DifferenceKind::MoreTime => Text::BillKindMoreTime,
        DifferenceKind::LessTime => Text::BillKindLessTime,
        DifferenceKind::Fee => Text::BillKindFee,
        DifferenceKind::NoPrice => Text::BillKindNoPrice,
        DifferenceKind::OtherCurrency => Text::BillKindOtherCurrency,
    }
}

fn lease_link(lease: Option<&str>, view: &BillView, cx: &Context) -> Markup {
    let mut out = Writer::default();
    match lease {
        Some(lease) => {
            let (tenant, name) = (view.tenant.clone(), lease.to_owned());
            let route = Route::Lease { tenant, lease: name, part: LeasePart::Page };
            out.element("a", &[("href", &cx.here.to(route).href())], lease);
        }
        None => out.text("–"),
    }
    out.finish()
}

fn leases(out: &mut Writer, view: &BillView, cx: &Context) {
    section(out, Text::BillTimes, cx);
    out.element("p", &[("class", &"note")], cx.t(Text::BillTimesNote));
    let heads = [
        Text::CostLease,
        Text::BillBilled,
        Text::BillAssigned,
        Text::BillUp,
        Text::BillDown,
        Text::CostUnknown,
        Text::CostExcluded,
    ];
    let heads = heads.map(|head| cx.t(head));
    let rows = view.leases.iter().map(|lease| {
        let mut cells: Vec<table::Cell> = vec![
            lease_link(Some(&lease.lease), view, cx).into(),
            format::money(lease.billed).into(),
        ];
        let times =
            [lease.assigned_ms, lease.up_ms, lease.down_ms, lease.unknown_ms, lease.excluded_ms];
        cells.extend(times.map(|ms| Quantity::gpu_hours_ms(ms).text(cx.language).into()));
        (false, cells)
    });
    table::write(out, &heads, rows.collect());
    out.close("section");
}

fn lines(out: &mut Writer, view: &BillView, cx: &Context) {
    section(out, Text::BillLines, cx);
    let heads = [
        Text::LeaseTableLine,
        Text::BillKey,
        Text::BillPeriod,
        Text::BillQuantity,
        Text::BillRate,
        Text::LeaseAmount,
    ];
    let heads = heads.map(|head| cx.t(head));
    let rows = view.lines.iter().take(SHOWN).map(|line| {
        let quantity = line.quantity.as_ref().map_or_else(
            || "–".to_owned(),
            |(number, unit)| match QuantityUnit::from_name(unit) {
                Some(unit) => format!("{number} {}", cx.t(unit_words(unit))),
                None => number.clone(),
            },
        );
        let rate = line.rate.map_or_else(|| "–".to_owned(), format::money);
        let cells: Vec<table::Cell> = vec![
            line.line.to_string().into(),
            line.key.clone().into(),
            period_of(Some(line.period), cx).into(),
            quantity.into(),
            rate.into(),
            format::money(line.amount).into(),
        ];
        (false, cells)
    });
    table::write(out, &heads, rows.collect());
    out.close("section");
}

/// The words of a unit.
pub(super) fn unit_words(unit: QuantityUnit) -> Text {
    match unit {
        QuantityUnit::GpuHour => Text::BillUnitGpuHour,
        QuantityUnit::Hour => Text::BillUnitHour,
        QuantityUnit::Second => Text::BillUnitSecond,
        QuantityUnit::Day => Text::BillUnitDay,
        QuantityUnit::Month => Text::BillUnitMonth,
        QuantityUnit::Other => Text::BillUnitOther,
    }
}

impl BillView {
    /// A bill with a difference of two kinds, a line that was refused, on imported data.
    #[must_use]
    pub fn sample() -> Self {
        sample::bill()
    }
}
