//! `bills.csv`, `bill.csv` and `prices.csv`: every digit; what is not known is an empty cell. Times
//! are UTC.

use leasewatch_core::segment::Origin;

use super::Line;
use crate::pages::bill::BillView;
use crate::pages::bills::BillsView;
use crate::pages::prices::PricesView;

/// The list of bills.
#[must_use]
pub fn bills(view: &BillsView) -> String {
    let names = [
        "tenant",
        "bill",
        "provider",
        "file",
        "starts_at",
        "ends_at",
        "lines",
        "refused",
        "with_tax",
        "imported_at",
        "imported_by",
    ];
    let mut out = header(&names);
    for bill in &view.bills {
        let mut line = Line { out: &mut out, first: true };
        line.text(&bill.tenant);
        line.raw(bill.number);
        line.text(&bill.provider);
        line.text(&bill.file_name);
        line.optional(bill.period.map(|period| period.start));
        line.optional(bill.period.map(|period| period.end));
        line.raw(bill.lines);
        line.raw(bill.refused);
        line.raw(bill.with_tax);
        line.raw(bill.imported_at);
        line.text(bill.imported_by.as_deref().unwrap_or_default());
        line.end();
    }
    out
}

/// The differences of a bill, one a row; `amount` is what was billed beyond what is due.
#[must_use]
pub fn bill(view: &BillView) -> String {
    let names = ["line", "rental", "kind", "starts_at", "ends_at", "amount", "currency", "origin"];
    let mut out = header(&names);
    for difference in &view.differences {
        let mut line = Line { out: &mut out, first: true };
        line.optional(difference.line);
        line.text(difference.lease.as_deref().unwrap_or_default());
        line.raw(difference.kind.name());
        line.raw(difference.period.start);
        line.raw(difference.period.end);
        line.raw(difference.amount.amount_text());
        line.raw(difference.amount.currency);
        line.optional(view.origin.map(Origin::name));
        line.end();
    }
    out
}

/// The offers that the page lists.
#[must_use]
pub fn prices(view: &PricesView) -> String {
    let names = [
        "provider",
        "gpu",
        "gpu_key",
        "gpus",
        "instance",
        "region",
        "on_demand",
        "spot",
        "per_gpu_hour",
        "spot_per_gpu_hour",
        "currency",
        "imported_at",
    ];
    let mut out = header(&names);
    for offer in &view.offers {
        let mut line = Line { out: &mut out, first: true };
        line.text(offer.provider.as_deref().unwrap_or_default());
        line.text(&offer.gpu_name);
        line.text(offer.gpu_key.as_deref().unwrap_or_default());
        line.raw(offer.gpu_count);
        line.text(offer.instance.as_deref().unwrap_or_default());
        line.text(offer.region.as_deref().unwrap_or_default());
        for amount in [offer.on_demand, offer.spot, offer.per_gpu_hour, offer.spot_per_gpu_hour] {
            line.optional(amount.map(|amount| amount.amount_text()));
        }
        let currency = offer.on_demand.or(offer.spot).map(|amount| amount.currency);
        line.optional(currency);
        line.raw(offer.imported_at);
        line.end();
    }
    out
}

fn header(names: &[&str]) -> String {
    let mut out = String::new();
    let mut line = Line { out: &mut out, first: true };
    names.iter().for_each(|name| line.raw(name));
    line.end();
    out
}
