//! Something that can be claimed: a verdict by a shipped profile by which a lease is owed something,
//! and a claim for another hour of it.

use leasewatch_core::sla::profile::{Profile, shipped};

use super::site::Site;

/// The contract's last word on August 2026, whose outage ended at `outage_ends_at`.
pub(crate) struct Owed<'a> {
    pub(crate) lease: &'a str,
    pub(crate) hash: &'a str,
    pub(crate) window: (i64, i64),
    pub(crate) outage: (i64, i64),
    pub(crate) is_over: bool,
}

/// The hash of a shipped profile, as hex.
pub(crate) fn profile_hash(id: &str) -> String {
    let (_, text) = shipped().iter().find(|(shipped, _)| *shipped == id).unwrap();
    Profile::parse(text).unwrap().hash.to_string()
}

impl Owed<'_> {
    /// Three per cent of a charge, by the clauses of `vultr`: three days from the incident.
    pub(crate) async fn put(&self, site: &Site) {
        let Self { lease, hash, window: (from, to), outage: (start, end), is_over } = self;
        let down = end - start;
        site.administer(&format!(
            r#"insert into verdict (tenant_id, lease_id, basis, objective, unit, starts_at, ends_at,
                revision, is_over, outcome, target_ppm, whole_ms, allowed_ms, proven_ms, possible_ms,
                claimed_ms, up_ms, down_ms, unknown_ms, excluded_ms, details, credit, currency,
                credit_form, profile, profile_version, profile_hash, is_reviewed, hash, reason,
                computed_at)
            select tenant_id, lease_id, 'contract', 'instance', 'lease', {from}, {to}, 1, {is_over},
                'breached', 1000000, {to} - {from}, 0, {down}, {down}, 0, {to} - {from} - {down},
                {down}, 0, 0, '{{"outages": [{{"actual": [{start}, {end}], "counted": [{start}, {end}],
                    "grounds": [["E3", "reboot"]]}}], "lacks": [], "unknown_ms": [], "credit":
                    {{"limits": [], "used": [{{"of": "unit-charge", "amount": "100.00 USD",
                        "source": "terms", "window": [{from}, {to}]}}]}}}}',
                '3.00', 'USD', 'money', 'vultr', 1, '\x{profile}', false, '\x{hash}', 'hours', 0
            from lease where name = '{lease}'"#,
            profile = profile_hash("vultr"),
        ))
        .await;
    }
}

/// A verdict, whose hash is returned, and a claim for an hour that it says nothing of.
pub(super) async fn put(site: &Site, lease: &str, byte: &str) -> String {
    let hash = format!("{byte}44").repeat(16);
    let window = (1_785_542_400_000, 1_788_220_800_000);
    let outage = (1_785_546_000_000, 1_785_549_600_000);
    Owed { lease, hash: &hash, window, outage, is_over: true }.put(site).await;
    site.administer(&format!(
        r#"insert into claim (tenant_id, lease_id, objective, unit, starts_at, ends_at, verdict_hash,
            profile, profile_version, profile_hash, intervals, asked, currency, written_at, facts)
        select tenant_id, lease_id, 'instance', 'lease', 1785542400000, 1788220800000, '\x{hash}',
            'vultr', 1, '\x{profile}', '[[1785600000000, 1785603600000]]', '1.00', 'USD', 0,
            '{{"provider": "Vultr", "product": "", "gpu_model": "H100", "gpu_count": 8,
                "zone": "UTC", "origin": "measured", "is_over": true, "whole_ms": 2678400000,
                "proven_ms": 3600000, "unknown_ms": 0, "outages": [], "credit": {{"limits": []}},
                "form": "money", "source": ["terms", "2026-01-01"], "is_reviewed": false,
                "demands": []}}'
        from lease where name = '{lease}'"#,
        profile = profile_hash("vultr"),
    ))
    .await;
    hash
}
