//! Costs to render in tests.

use leasewatch_core::money::{Currency, Money};
use leasewatch_core::segment::Origin;

use super::{CostLine, CostsView, HintLine, RateCell, StragglerView};

pub(super) fn costs() -> CostsView {
    // Letters alone, so that both are currencies.
    let [Ok(usd), Ok(cny)] = ["USD", "CNY"].map(str::parse) else { return no_costs() };
    let mut first = line("h100-pool", usd, 30);
    first.fees = Money { nanos: 12_500_000_000, ..first.fees };
    first.uncontracted = Money { nanos: 3_000_000_000, ..first.fees };
    first.phantom_pct_ms = 7_200_000 * 100;
    first.stall_ms = 5_400_000;
    first.throttled_ms = 3_600_000;
    let mut second = line("老机房", cny, 4);
    second.unpriced_ms = 90_000_000;
    second.origin = Some(Origin::Simulated);
    second.rate = None;
    let sums = [&first, &second].map(|of| CostLine { name: String::new(), ..of.clone() });
    CostsView {
        month: "2026-07".to_owned(),
        beside: ((2026, 6), (2026, 8)),
        group: "lease".to_owned(),
        what_if_pct: Some(70),
        running: vec![second.paid, first.paid],
        totals: sums.into(),
        lines: vec![first, second],
        hints: vec![HintLine {
            lease: "h100-pool".to_owned(),
            node: "00000000000000000000000000000001".to_owned(),
            node_name: "train-01".to_owned(),
            slot: 3,
            need_pct: 50,
            memory_peak_mib: 33_000,
            memory_total_mib: 81_559,
            period_minutes: 20,
        }],
        slow: StragglerView::sample(),
        leases: 2,
        has_minutes: false,
        labels: vec!["team".to_owned()],
    }
}

pub(super) fn no_costs() -> CostsView {
    CostsView {
        month: "2026-07".to_owned(),
        beside: ((2026, 6), (2026, 8)),
        group: "lease".to_owned(),
        what_if_pct: None,
        totals: Vec::new(),
        lines: Vec::new(),
        running: Vec::new(),
        hints: Vec::new(),
        slow: StragglerView::default(),
        leases: 0,
        has_minutes: true,
        labels: Vec::new(),
    }
}

fn line(name: &str, currency: Currency, hours: i64) -> CostLine {
    let money = |nanos: i64| Money { nanos: i128::from(nanos) * 1_000_000_000, currency };
    let mut line = CostLine::empty(name, currency);
    for (index, cell) in (1_i64..).zip(&mut line.parts) {
        cell.pct_ms = index * hours * 360_000_000;
        cell.cost = money(index * hours * 2);
        line.contracted_ms += index * hours * 3_600_000;
    }
    line.paid = money(45 * hours * 2);
    line.delivered_pct_ms = 24 * hours * 360_000_000;
    line.rate = Some(RateCell::sample());
    line.per_delivered = Some(money(4));
    line.per_effective = (hours > 10).then(|| money(90));
    line.saved = Some(money(hours));
    line
}
