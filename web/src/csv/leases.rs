//! `leases.csv`: the table of the page, one row a lease. Times are UTC, amounts decimals without tax.

use super::Line;
use crate::pages::leases::LeasesView;

const COLUMNS: [&str; 19] = [
    "tenant",
    "name",
    "state",
    "provider",
    "product",
    "gpu_model",
    "gpus_assigned",
    "gpus_contracted",
    "price",
    "currency",
    "price_unit",
    "starts_at",
    "ends_at",
    "auto_release_at",
    "profile",
    "labels",
    "is_pay_as_you_go",
    "origin",
    "claim_deadline_at",
];

/// Appends the whole file.
pub fn leases(out: &mut String, view: &LeasesView) {
    let mut line = Line { out, first: true };
    COLUMNS.iter().for_each(|name| line.raw(name));
    line.end();
    for lease in &view.leases {
        let mut line = Line { out, first: true };
        line.text(&lease.tenant);
        line.text(&lease.name);
        line.raw(lease.state.name());
        line.text(&lease.provider);
        line.text(&lease.product);
        line.text(&lease.gpu_model);
        line.raw(lease.gpus_assigned);
        line.raw(lease.gpus_contracted);
        line.optional(lease.price.as_ref().map(|price| &price.amount));
        line.optional(lease.price.as_ref().map(|price| &price.currency));
        line.optional(lease.price.as_ref().map(|price| price.unit.name()));
        line.raw(lease.starts_at);
        line.optional(lease.ends_at);
        line.optional(lease.auto_release_at);
        line.text(lease.profile.as_deref().unwrap_or_default());
        line.text(&lease.labels_text());
        line.raw(lease.is_pay_as_you_go);
        line.optional(lease.origin.map(leasewatch_core::segment::Origin::name));
        line.optional(lease.deadline.as_ref().map(|deadline| deadline.at));
        line.end();
    }
}
