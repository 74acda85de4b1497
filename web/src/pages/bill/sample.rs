//! A bill with something in each section.

use leasewatch_core::cost::bill::{BillRowFault, DifferenceKind};
use leasewatch_core::money::Money;
use leasewatch_core::segment::Origin;
use leasewatch_core::time::{HOUR_MS, Period};

use super::{BillSum, BillView, DifferenceLine, LeaseTime, LineOfBill, RefusedOfBill};

pub(super) fn bill() -> BillView {
    let end = super::super::sample::NOW.hour().start();
    let period = Period::new(end.plus_ms(-24 * HOUR_MS), end);
    let Ok(currency) = "USD".parse() else { return without_lines(period) };
    let usd = |cents: i128| Money { nanos: cents * 10_000_000, currency };
    let difference = |line, kind, amount| DifferenceLine {
        line,
        lease: Some("h100-train".to_owned()),
        kind,
        period,
        amount,
    };
    BillView {
        sums: vec![BillSum {
            billed: usd(50_000),
            expected: usd(47_808),
            dead: usd(1_992),
            difference: usd(4_184),
        }],
        differences: vec![
            difference(Some(2), DifferenceKind::Price, usd(2_192)),
            difference(Some(2), DifferenceKind::Dead, usd(1_992)),
        ],
        leases: vec![LeaseTime {
            lease: "h100-train".to_owned(),
            billed: usd(50_000),
            assigned_ms: 192 * HOUR_MS,
            up_ms: 183 * HOUR_MS,
            down_ms: 8 * HOUR_MS,
            unknown_ms: HOUR_MS,
            excluded_ms: 0,
        }],
        lines: vec![LineOfBill {
            line: 2,
            key: "i-<0a>".to_owned(),
            period,
            quantity: Some(("24.00".to_owned(), "hour")),
            rate: Some(usd(2_083)),
            amount: usd(50_000),
        }],
        ..without_lines(period)
    }
}

fn without_lines(period: Period) -> BillView {
    BillView {
        tenant: "default".to_owned(),
        number: 2,
        provider: "acme".to_owned(),
        file_name: "july.csv".to_owned(),
        with_tax: false,
        imported_at: super::super::sample::NOW,
        imported_by: None,
        period: Some(period),
        sums: Vec::new(),
        differences: Vec::new(),
        leases: Vec::new(),
        lines: Vec::new(),
        refused: vec![RefusedOfBill {
            line: 3,
            fault: BillRowFault::Amount,
            column: Some("Amount".to_owned()),
        }],
        origin: Some(Origin::Imported),
        may_change: true,
    }
}
