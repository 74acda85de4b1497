//! Deadlines of claims: of those that were drafted and not filed, and of breaches that nobody
//! claims yet. The head of every page shows the nearest.
//!
//! A deadline is computed from the profile that judged and from the first outage, as the claim's
//! own would be. Not here: the rule (`core::sla::claim`).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use leasewatch_core::lease::LeaseTerms;
use leasewatch_core::sla::claim::{DeadlineFacts, Urgency};
use leasewatch_core::sla::profile::{Profile, Profiles};
use leasewatch_core::sla::window::BillingCycle;
use leasewatch_core::time::{DAY_MS, Period, Timestamp};
use leasewatch_web::deadline::{DeadlineLine, Deadlines};

use super::Http;
use super::asking::Asker;
use crate::store::claim::{self, ClaimRow};
use crate::store::lease::{self, LeaseRow};
use crate::store::verdict::{self, Judged};
use crate::store::{LeaseKey, StoreError, TenantKey, Tx, profile};

/// Windows that ended longer ago are claimed nowhere any more: the longest rule that is known ends
/// two billing cycles after the cycle of the incident.
const OWED_DAYS: i64 = 130;
/// A deadline that passed is shown for so long.
const MISSED_DAYS: i64 = 30;

/// What the head of a page says to this asker. A page is not refused for it: where the database
/// does not answer, the page's own reading fails too.
pub(super) async fn head(http: &Http, asker: &Asker, now: Timestamp) -> Deadlines {
    match of_asker(http, asker, now).await {
        Ok(lines) => Deadlines::of(&lines),
        Err(error) => {
            tracing::warn!(error = error.in_full(), "deadlines cannot be read for a page's head");
            Deadlines::default()
        }
    }
}

/// Every deadline that the asker may see, the nearest first.
pub(super) async fn of_asker(
    http: &Http,
    asker: &Asker,
    now: Timestamp,
) -> Result<Vec<DeadlineLine>, StoreError> {
    let mut lines = Vec::new();
    for scope in asker.scopes() {
        let mut tx = http.db.begin(scope).await?;
        lines.extend(of_scope(&mut tx, now).await?);
        tx.commit().await?;
    }
    lines.sort_by_key(|line| line.at);
    Ok(lines)
}

/// Every deadline that a scope may see, the nearest first: those ahead, and those that passed not
/// long ago.
pub(super) async fn of_scope(tx: &mut Tx, now: Timestamp) -> Result<Vec<DeadlineLine>, StoreError> {
    let claims = claim::all(tx).await?;
    let mut owed = verdict::owed(tx, now.plus_ms(-OWED_DAYS * DAY_MS)).await?;
    owed.retain(|(lease, row)| claim_of(&claims, *lease, &row.judged).is_none());
    let due: Vec<&ClaimRow> = claims.iter().filter(|row| row.claim.state.is_due()).collect();
    if owed.is_empty() && due.is_empty() {
        return Ok(Vec::new());
    }
    let leases = lease::list(tx).await?;
    let lease_of = |key: LeaseKey| leases.iter().find(|row| row.key == key);
    let mut lines: BTreeMap<(Timestamp, Option<i32>, LeaseKey), DeadlineLine> = BTreeMap::new();
    for row in due {
        if let (Some(at), Some(lease)) = (row.draft.deadline, lease_of(row.lease)) {
            let of = (row.draft.objective.as_str(), row.draft.window);
            let line = line(lease, of, (at, Some(row.number)), now);
            lines.insert((at, Some(row.number), row.lease), line);
        }
    }
    let mut units = BTreeSet::new();
    let mut known: BTreeMap<TenantKey, Profiles> = BTreeMap::new();
    for (key, row) in &owed {
        let Some(lease) = lease_of(*key) else { continue };
        let profiles = match known.entry(key.tenant) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(profile::all(tx, key.tenant).await?),
        };
        let profile = profile_of(profiles, &row.judged);
        let Some(at) = profile.and_then(|of| deadline(of, &lease.terms, (&row.judged, None)))
        else {
            continue;
        };
        let of = (row.judged.of.objective.as_str(), row.judged.of.window);
        // Rolling windows show one outage many times; a unit counts once.
        let is_new = units.insert((*key, at, row.judged.of.unit.as_str()));
        let same = lines.entry((at, None, *key));
        let same = same.and_modify(|line| line.units += i64::from(is_new));
        same.or_insert_with(|| line(lease, of, (at, None), now));
    }
    let since = now.plus_ms(-MISSED_DAYS * DAY_MS);
    Ok(lines.into_values().filter(|line| line.at >= since).collect())
}

fn line(
    lease: &LeaseRow,
    (objective, window): (&str, Period),
    (at, claim): (Timestamp, Option<i32>),
    now: Timestamp,
) -> DeadlineLine {
    let zone = lease.terms.zone;
    DeadlineLine {
        tenant: lease.tenant.to_string(),
        lease: lease.terms.name.to_string(),
        objective: objective.to_owned(),
        window,
        units: 1,
        claim,
        at,
        zone,
        urgency: Urgency::of(zone, at, now),
    }
}

/// The claim that holds, or held until its answer, some of what a verdict shows.
pub(super) fn claim_of<'a>(
    claims: &'a [ClaimRow],
    lease: LeaseKey,
    judged: &Judged,
) -> Option<&'a ClaimRow> {
    let meets = |row: &&ClaimRow| {
        let outages = judged.details.outages.iter();
        row.lease == lease
            && row.draft.objective == judged.of.objective
            && row.draft.unit == judged.of.unit
            && row.claim.state.name() != "withdrawn"
            && outages.map(|outage| outage.counted).any(|(from, to)| {
                row.draft.intervals.iter().any(|own| own.start.0 < to && from < own.end.0)
            })
    };
    claims.iter().find(meets)
}

/// The version of the profile that judged.
pub(super) fn profile_of<'a>(profiles: &'a Profiles, judged: &Judged) -> Option<&'a Profile> {
    let by = &judged.by;
    profiles.iter().find(|one| (&one.id, one.version, one.hash) == (&by.id, by.version, by.hash))
}

/// The last instant at which a claim for what a verdict shows is in time; `None` where the contract
/// states none, or nothing is shown.
pub(super) fn deadline(
    profile: &Profile,
    terms: &LeaseTerms,
    (judged, notified_at): (&Judged, Option<Timestamp>),
) -> Option<Timestamp> {
    let first = judged.details.outages.first()?;
    profile.deadline.deadline(&DeadlineFacts {
        incident_end: Timestamp(first.actual.1),
        window: judged.of.window,
        notified_at,
        billing: BillingCycle { day: u32::from(terms.billing.month_day), zone: terms.zone },
    })
}
