//! `costs.csv`: one row per lease and day, with every digit; what is not known is an empty cell.
//! Times are in percent x milliseconds where the name says `pct_ms`, as in the hour record.

use leasewatch_core::cost::Part;
use leasewatch_core::segment::Origin;

use super::Line;
use crate::pages::costs::CostLine;

/// A lease's day.
#[derive(Debug, Clone, Copy)]
pub struct CostRow<'a> {
    /// The tenant's slug.
    pub tenant: &'a str,
    /// The provider's slug.
    pub provider: &'a str,
    /// The lease's name.
    pub lease: &'a str,
    /// The model as sold.
    pub model: &'a str,
    /// The local day.
    pub day: &'a str,
    /// What it cost.
    pub line: &'a CostLine,
}

/// All of it, with its header.
#[must_use]
pub fn costs(rows: &[CostRow<'_>]) -> String {
    let mut out = String::new();
    let mut line = Line { out: &mut out, first: true };
    let plain =
        ["tenant", "provider", "lease", "gpu_model", "day", "currency", "paid", "contracted_ms"];
    plain.into_iter().for_each(|name| line.raw(name));
    for part in Part::ALL {
        line.raw(format_args!("{}_pct_ms", part.name()));
        line.raw(format_args!("{}_cost", part.name()));
    }
    let rest =
        ["fees", "uncontracted_cost", "unpriced_ms", "phantom_pct_ms", "stall_ms", "throttled_ms"];
    rest.into_iter().chain(["origin"]).for_each(|name| line.raw(name));
    let rate = ["interruptions", "node_ms", "rate_milli", "rate_low_milli", "rate_high_milli"];
    rate.into_iter().for_each(|name| line.raw(name));
    line.end();
    for row in rows {
        let mut line = Line { out: &mut out, first: true };
        for text in [row.tenant, row.provider, row.lease, row.model, row.day] {
            line.text(text);
        }
        line.raw(row.line.paid.currency);
        line.raw(row.line.paid.amount_text());
        line.raw(row.line.contracted_ms);
        for part in Part::ALL {
            let cell = row.line.part(part);
            line.raw(cell.map_or(0, |cell| cell.pct_ms));
            line.raw(cell.map_or_else(String::new, |cell| cell.cost.amount_text()));
        }
        line.raw(row.line.fees.amount_text());
        line.raw(row.line.uncontracted.amount_text());
        line.raw(row.line.unpriced_ms);
        line.raw(row.line.phantom_pct_ms);
        line.raw(row.line.stall_ms);
        line.raw(row.line.throttled_ms);
        line.raw(row.line.origin.map_or("", Origin::name));
        let rate = row.line.rate.map(|rate| {
            let count = i64::from(rate.interruptions);
            [count, rate.node_ms, rate.rate_milli, rate.low_milli, rate.high_milli]
        });
        match rate {
            Some(cells) => cells.into_iter().for_each(|cell| line.raw(cell)),
            // No node was delivered: nothing is known, which is not 0.
            None => (0..5).for_each(|_| line.raw("")),
        }
        line.end();
    }
    out
}
