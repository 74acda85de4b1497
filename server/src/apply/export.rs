//! What is stored, as a file that can be applied: applied at once, it changes nothing.

use leasewatch_core::lease::LeaseTerms;
use leasewatch_core::lease::written::{
    AssignmentEntry, NodeLabelsEntry, ScheduleEntry, SessionEntry,
};
use serde::Serialize;

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
    let file = File {
        lease: rows.into_iter().map(|row| row.terms).collect(),
        session,
        schedule,
        assignment: assignments,
        node_labels: node_labels.collect(),
    };
    toml::to_string(&file).map_err(|error| StoreError::Inconsistent {
        table: "lease_terms",
        column: "terms",
        problem: error.to_string(),
    })
}
