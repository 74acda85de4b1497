//! What of a lease decides about its contracted time: terms, billing sessions, assignments. Read
//! by the job that judges, and by costs.

use leasewatch_core::availability::union;
use leasewatch_core::id::{NodeId, SlotNo, Slug};
use leasewatch_core::lease::{Assignment, BillingSession, LeaseTerms, contracted};
use leasewatch_core::time::Period;

use super::lease::LeaseRow;
use super::{LeaseKey, NodeKey, StoreError, Tx, assignment, billing_session, lease};

/// A lease with what its contracted time depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractedLease {
    /// Which.
    pub key: LeaseKey,
    /// Its latest terms.
    pub terms: LeaseTerms,
    /// Those that were not withdrawn.
    pub sessions: Vec<BillingSession>,
    /// Those that were not withdrawn.
    pub assignments: Vec<(NodeKey, Assignment)>,
}

impl ContractedLease {
    /// Contracted time of one slot within `window`: stretches in order that do not touch.
    #[must_use]
    pub fn of_slot(&self, node: NodeKey, slot: SlotNo, window: Period) -> Vec<Period> {
        let own = self.assignments.iter().filter(|(key, a)| *key == node && a.slot == slot);
        union(own.flat_map(|(_, a)| contracted(&self.terms, &self.sessions, a, window)))
    }

    /// The slots of its assignments, each once.
    #[must_use]
    pub fn slots(&self) -> Vec<(NodeKey, SlotNo)> {
        let mut slots: Vec<_> = self.assignments.iter().map(|(node, a)| (*node, a.slot)).collect();
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    /// The public id of a node that the lease covers.
    #[must_use]
    pub fn node_id(&self, node: NodeKey) -> Option<NodeId> {
        self.assignments.iter().find(|(key, _)| *key == node).map(|(_, a)| a.node)
    }
}

/// A lease with everything that its contracted time depends on.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn by_key(tx: &mut Tx, key: LeaseKey) -> Result<Option<ContractedLease>, StoreError> {
    let Some(row) = lease::by_key(tx, key).await? else { return Ok(None) };
    Ok(Some(of_row(tx, row).await?))
}

/// The same of every lease that the scope may see, with the names of their tenants.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn list(tx: &mut Tx) -> Result<Vec<(Slug, ContractedLease)>, StoreError> {
    let mut leases = Vec::new();
    for row in lease::list(tx).await? {
        leases.push((row.tenant.clone(), of_row(tx, row).await?));
    }
    leases.sort_by(|a, b| (&a.0, &a.1.terms.name).cmp(&(&b.0, &b.1.terms.name)));
    Ok(leases)
}

async fn of_row(tx: &mut Tx, row: LeaseRow) -> Result<ContractedLease, StoreError> {
    let key = row.key;
    let sessions = billing_session::of_lease(tx, key).await?;
    let assignments = assignment::of_lease(tx, key).await?;
    let assignments = assignments.into_iter().filter(|row| row.withdrawn_at.is_none());
    Ok(ContractedLease {
        key,
        terms: row.terms,
        sessions: sessions.into_iter().map(|row| row.session).collect(),
        assignments: assignments.map(|row| (row.node, row.assignment)).collect(),
    })
}
