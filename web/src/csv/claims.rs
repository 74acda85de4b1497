//! `claims.csv`: one row a claim. Times are UTC, amounts decimals.

use super::Line;
use crate::pages::claims::ClaimsView;
use crate::pages::lease::UnitName;

const COLUMNS: [&str; 17] = [
    "claim",
    "tenant",
    "lease",
    "provider",
    "objective",
    "node",
    "gpu",
    "window_starts_at",
    "window_ends_at",
    "state",
    "asked",
    "granted",
    "currency",
    "deadline_at",
    "deadline_zone",
    "drafted_at",
    "origin",
];

/// Appends the whole file.
pub fn claims(out: &mut String, view: &ClaimsView) {
    let mut line = Line { out, first: true };
    COLUMNS.iter().for_each(|name| line.raw(name));
    line.end();
    for claim in &view.claims {
        let (node, gpu) = match &claim.unit {
            UnitName::Lease => ("", None),
            UnitName::Node(node) => (node.as_str(), None),
            UnitName::Gpu { node, number } => (node.as_str(), Some(*number)),
        };
        let mut line = Line { out, first: true };
        line.raw(claim.number);
        line.text(&claim.tenant);
        line.text(&claim.lease);
        line.text(&claim.provider);
        line.text(&claim.objective);
        line.text(node);
        line.optional(gpu);
        line.raw(claim.window.start);
        line.raw(claim.window.end);
        line.raw(claim.state);
        line.raw(claim.asked.amount_text());
        line.optional(claim.granted.map(|granted| granted.amount_text()));
        line.raw(claim.asked.currency);
        line.optional(claim.deadline_at);
        line.raw(claim.zone.name());
        line.raw(claim.drafted_at);
        line.optional(claim.origin.map(leasewatch_core::segment::Origin::name));
        line.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_a_row_with_a_cell_for_each_column() {
        let mut text = String::new();
        claims(&mut text, &ClaimsView::sample());
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows.len(), 7);
        assert!(rows.iter().all(|row| row.split(',').count() == COLUMNS.len()), "{text}");
        assert!(rows[3].contains(",accepted,36.00,30.00,USD,,Asia/Shanghai,"), "{text}");
        assert!(rows[6].ends_with(",simulated"));
    }
}
