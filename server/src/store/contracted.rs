//! What of a lease decides about its contracted time: terms, billing sessions, assignments. Read
//! by the job that judges; leases are written elsewhere.

use leasewatch_core::id::{NodeId, SlotNo};
use leasewatch_core::lease::{Assignment, BillingSession, LeaseTerms, SessionSource, contracted};
use leasewatch_core::time::{Period, Timestamp};

use super::column::Column;
use super::slot::slot_no;
use super::{NodeKey, StoreError, TenantKey, Tx};

/// The internal key of a lease. It never leaves the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseKey {
    /// Whose it is.
    pub tenant: TenantKey,
    pub(super) lease: i32,
}

impl LeaseKey {
    pub(super) fn new(tenant_id: i32, lease_id: i32) -> Self {
        Self { tenant: TenantKey(tenant_id), lease: lease_id }
    }

    /// The two columns that lead each key of a lease's rows.
    pub(super) fn columns(self) -> (i32, i32) {
        (self.tenant.0, self.lease)
    }
}

/// A lease as the job that judges needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContractedLease {
    /// Which.
    pub key: LeaseKey,
    /// Its latest terms.
    pub terms: LeaseTerms,
    /// Those that were not withdrawn.
    pub sessions: Vec<BillingSession>,
    /// Those that were not withdrawn, by node and slot.
    pub assignments: Vec<(NodeKey, Assignment)>,
}

impl ContractedLease {
    /// Contracted time of one slot within `window`: stretches in order that do not touch.
    #[must_use]
    pub fn of_slot(&self, node: NodeKey, slot: SlotNo, window: Period) -> Vec<Period> {
        let own = self.assignments.iter().filter(|(key, a)| *key == node && a.slot == slot);
        let parts = own.flat_map(|(_, a)| contracted(&self.terms, &self.sessions, a, window));
        leasewatch_core::availability::union(parts)
    }

    /// The public id of a node that the lease covers.
    #[must_use]
    pub fn node_id(&self, node: NodeKey) -> Option<NodeId> {
        self.assignments.iter().find(|(key, _)| *key == node).map(|(_, a)| a.node)
    }
}

/// A lease with everything that its contracted time depends on; `None` when it is not there or has
/// no terms.
///
/// # Errors
/// [`StoreError::Inconsistent`] for terms that cannot be read.
pub async fn by_key(tx: &mut Tx, key: LeaseKey) -> Result<Option<ContractedLease>, StoreError> {
    let (tenant, lease) = key.columns();
    let terms = sqlx::query_scalar!(
        r#"select terms::text as "terms!" from lease_terms
        where tenant_id = $1 and lease_id = $2 order by revision desc limit 1"#,
        tenant,
        lease
    );
    let Some(terms) = terms.fetch_optional(tx.connection()).await? else { return Ok(None) };
    let terms: LeaseTerms = serde_json::from_str(&terms)
        .map_err(|error| Column("lease_terms", "terms").wrong(error))?;
    let sessions = sessions(tx, key).await?;
    let assignments = assignments(tx, key, &terms).await?;
    Ok(Some(ContractedLease { key, terms, sessions, assignments }))
}

async fn sessions(tx: &mut Tx, key: LeaseKey) -> Result<Vec<BillingSession>, StoreError> {
    let (tenant, lease) = key.columns();
    let rows = sqlx::query!(
        "select starts_at, ends_at, source from billing_session
        where tenant_id = $1 and lease_id = $2 and withdrawn_at is null order by starts_at",
        tenant,
        lease
    )
    .fetch_all(tx.connection())
    .await?;
    let source = Column("billing_session", "source");
    let sessions = rows.into_iter().map(|row| {
        Ok(BillingSession {
            starts_at: Timestamp(row.starts_at),
            ends_at: row.ends_at.map(Timestamp),
            source: source.named(&row.source, SessionSource::from_name)?,
        })
    });
    sessions.collect()
}

async fn assignments(
    tx: &mut Tx,
    key: LeaseKey,
    terms: &LeaseTerms,
) -> Result<Vec<(NodeKey, Assignment)>, StoreError> {
    let (tenant, lease) = key.columns();
    let rows = sqlx::query!(
        "select a.node_id, n.public_id, a.slot_no, a.starts_at, a.ends_at
        from assignment a join node n on n.tenant_id = a.tenant_id and n.node_id = a.node_id
        where a.tenant_id = $1 and a.lease_id = $2 and a.withdrawn_at is null
        order by a.node_id, a.slot_no, a.starts_at",
        tenant,
        lease
    )
    .fetch_all(tx.connection())
    .await?;
    let assignments = rows.into_iter().map(|row| {
        let assignment = Assignment {
            lease: terms.name.clone(),
            node: NodeId(Column("node", "public_id").array(&row.public_id)?),
            slot: slot_no(row.slot_no)?,
            starts_at: Timestamp(row.starts_at),
            ends_at: row.ends_at.map(Timestamp),
        };
        Ok((NodeKey::new(tenant, row.node_id), assignment))
    });
    assignments.collect()
}
