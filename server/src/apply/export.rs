//! What is stored, as a file that can be applied: applied at once, it changes nothing.

use leasewatch_core::lease::LeaseTerms;
use leasewatch_core::lease::written::{
    AssignmentEntry, NodeLabelsEntry, NoticeEntry, ProviderRecordEntry, ScheduleEntry,
    SessionEntry, TenantStopEntry,
};
use leasewatch_core::time::{Period, Timestamp};
use serde::Serialize;

use crate::store::lease::LeaseRow;
use crate::store::notice::{self, StopKind};
use crate::store::{
    StoreError, Tx, assignment, billing_schedule, billing_session, lease, node, node_label,
};

#[derive(Serialize)]
struct File {
    lease: Vec<LeaseTerms>,
    session: Vec<SessionEntry>,
    schedule: Vec<ScheduleEntry>,
    assignment: Vec<AssignmentEntry>,
    node_labels: Vec<NodeLabelsEntry>,
    notice: Vec<NoticeEntry>,
    provider_record: Vec<ProviderRecordEntry>,
    tenant_stop: Vec<TenantStopEntry>,
}

/// Everything of the tenant whose transaction this is, as TOML. Corrected and withdrawn rows, and
/// earlier revisions of terms, are not in it.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn export(tx: &mut Tx) -> Result<String, StoreError> {
    let rows = lease::list(tx).await?;
    let (mut session, mut schedule) = (Vec::new(), Vec::new());
    for row in &rows {
        schedule.extend(billing_schedule::of_lease(tx, row.key).await?.map(|of| ScheduleEntry {
            lease: row.terms.name.clone(),
            rule: of.rule.to_string(),
            starts_at: Some(of.starts_at),
            withdrawn: false,
        }));
        let known = billing_session::of_lease(tx, row.key).await?;
        // What follows from a rule is made again by the rule.
        for found in known.into_iter().filter(|found| found.from.schedule.is_none()) {
            session.push(SessionEntry {
                lease: row.terms.name.clone(),
                starts_at: found.session.starts_at,
                ends_at: found.session.ends_at,
                source: found.session.source,
                withdrawn: false,
            });
        }
    }
    let mut assignments: Vec<AssignmentEntry> = Vec::new();
    for row in assignment::list(tx).await? {
        let of = row.assignment;
        let entry = AssignmentEntry {
            lease: of.lease,
            node: of.node.to_string(),
            slots: Vec::new(),
            starts_at: Some(of.starts_at),
            ends_at: of.ends_at,
            withdrawn: None,
        };
        // Slots of a node with the same times stand in one entry.
        let same = |other: &&mut AssignmentEntry| {
            AssignmentEntry { slots: Vec::new(), ..(*other).clone() } == entry
        };
        match assignments.iter_mut().rev().take(64).find(same) {
            Some(other) => other.slots.push(of.slot.0),
            None => assignments.push(AssignmentEntry { slots: vec![of.slot.0], ..entry }),
        }
    }
    let labels = node_label::list(tx).await?;
    let nodes = node::list(tx).await?;
    let node_labels = nodes.iter().filter_map(|row| {
        let labels = labels.get(&row.key)?.clone();
        Some(NodeLabelsEntry { node: row.id.to_string(), labels })
    });
    let told = Told::of(tx, &rows).await?;
    let file = File {
        lease: rows.into_iter().map(|row| row.terms).collect(),
        session,
        schedule,
        assignment: assignments,
        node_labels: node_labels.collect(),
        notice: told.notices,
        provider_record: told.records,
        tenant_stop: told.stops,
    };
    toml::to_string(&file).map_err(|error| StoreError::Inconsistent {
        table: "lease_terms",
        column: "terms",
        problem: error.to_string(),
    })
}

/// What people told about the leases.
#[derive(Default)]
struct Told {
    notices: Vec<NoticeEntry>,
    records: Vec<ProviderRecordEntry>,
    stops: Vec<TenantStopEntry>,
}

impl Told {
    async fn of(tx: &mut Tx, leases: &[LeaseRow]) -> Result<Self, StoreError> {
        let (mut told, always) = (Self::default(), Period::new(Timestamp::MIN, Timestamp::MAX));
        for row in leases {
            let lease = || row.terms.name.clone();
            for found in notice::notices(tx, row.key, always).await? {
                told.notices.push(NoticeEntry {
                    lease: lease(),
                    starts_at: found.period.start,
                    ends_at: found.period.end,
                    received_at: found.received_at,
                    text: found.body,
                    withdrawn: false,
                });
            }
            for found in notice::records(tx, row.key, always).await? {
                told.records.push(ProviderRecordEntry {
                    lease: lease(),
                    starts_at: found.period.start,
                    ends_at: found.period.end,
                    cause: found.cause,
                    source: found.source,
                    text: found.body,
                    withdrawn: false,
                });
            }
            for found in notice::stops(tx, row.key, always).await? {
                let (kind, clause) = match found.kind {
                    StopKind::Stopped => ("stopped", None),
                    StopKind::Maintenance => ("maintenance", None),
                    StopKind::Other(clause) => ("other", Some(clause)),
                };
                told.stops.push(TenantStopEntry {
                    lease: lease(),
                    starts_at: found.period.start,
                    ends_at: found.period.end,
                    kind: kind.to_owned(),
                    clause,
                    reason: found.reason,
                    withdrawn: false,
                });
            }
        }
        Ok(told)
    }
}
