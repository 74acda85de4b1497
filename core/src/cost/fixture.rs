//! Terms that tests change to what they are about.

use crate::id::Slug;
use crate::lease::{Billing, LeaseKind, LeaseTerms, Minima, Share};
use crate::time::{Timestamp, Zone};

/// One reserved H100 in USD from October 2026 on, without a price.
pub(super) fn sample_terms() -> LeaseTerms {
    LeaseTerms {
        name: Slug::new("lease-a").unwrap(),
        provider: Slug::new("provider-a").unwrap(),
        product: "1x".to_owned(),
        kind: LeaseKind::Reserved,
        share: Share::WHOLE,
        region: None,
        instance: None,
        machine: None,
        order: None,
        gpu_model: "H100-SXM5-80GB".to_owned(),
        gpu_count: 1,
        currency: "USD".parse().unwrap(),
        tax_ppm: None,
        starts_at: Timestamp::parse_iso("2026-10-01T00:00:00Z").unwrap(),
        ends_at: None,
        auto_release_at: None,
        prices: Vec::new(),
        fees: Vec::new(),
        billing: Billing::default(),
        minima: Minima::default(),
        profile: None,
        zone: Zone::UTC,
        labels: Default::default(),
    }
}
