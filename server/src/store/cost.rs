//! Leases with everything that their costs depend on, read at once.
//!
//! Not here: writing any of it, and terms before their last correction.

use leasewatch_core::id::{NodeId, SlotNo, Slug};
use leasewatch_core::lease::{Assignment, BillingSession, LeaseTerms, SessionSource};
use leasewatch_core::time::Timestamp;

use super::column::Column;
use super::slot::slot_no;
use super::{NodeKey, StoreError, TenantKey, Tx};

/// A lease as costs see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CostLease {
    /// Who rents.
    pub tenant: TenantKey,
    /// The tenant's public name.
    pub tenant_slug: Slug,
    /// Its last terms.
    pub terms: LeaseTerms,
    /// Sessions that count, by start.
    pub sessions: Vec<BillingSession>,
    /// Assignments that count, by node, slot and start.
    pub assignments: Vec<(NodeKey, Assignment)>,
}

/// Every lease that the scope may see, by tenant and name.
///
/// # Errors
/// [`StoreError::Inconsistent`] for terms that this program does not read.
pub async fn leases(tx: &mut Tx) -> Result<Vec<CostLease>, StoreError> {
    let rows = sqlx::query!(
        r#"select distinct on (n.slug, l.name) l.tenant_id, l.lease_id, n.slug as tenant,
            t.terms::text as "terms!"
        from lease l join tenant n using (tenant_id)
        join lease_terms t on t.tenant_id = l.tenant_id and t.lease_id = l.lease_id
        order by n.slug, l.name, t.revision desc"#
    )
    .fetch_all(tx.connection())
    .await?;
    let mut leases = Vec::with_capacity(rows.len());
    for row in rows {
        let terms: LeaseTerms = serde_json::from_str(&row.terms)
            .map_err(|error| Column("lease_terms", "terms").wrong(error))?;
        let key = (row.tenant_id, row.lease_id);
        leases.push(CostLease {
            tenant: TenantKey(row.tenant_id),
            tenant_slug: Column("tenant", "slug").parsed(&row.tenant)?,
            sessions: sessions(tx, key).await?,
            assignments: assignments(tx, key, &terms.name).await?,
            terms,
        });
    }
    Ok(leases)
}

async fn sessions(
    tx: &mut Tx,
    (tenant, lease): (i32, i32),
) -> Result<Vec<BillingSession>, StoreError> {
    let rows = sqlx::query!(
        "select starts_at, ends_at, source from billing_session
        where tenant_id = $1 and lease_id = $2 and withdrawn_at is null order by starts_at",
        tenant,
        lease
    );
    let rows = rows.fetch_all(tx.connection()).await?.into_iter();
    rows.map(|row| {
        let source = Column("billing_session", "source");
        Ok(BillingSession {
            starts_at: Timestamp(row.starts_at),
            ends_at: row.ends_at.map(Timestamp),
            source: source.named(&row.source, SessionSource::from_name)?,
        })
    })
    .collect()
}

async fn assignments(
    tx: &mut Tx,
    (tenant, lease): (i32, i32),
    name: &Slug,
) -> Result<Vec<(NodeKey, Assignment)>, StoreError> {
    let rows = sqlx::query!(
        "select a.node_id, a.slot_no, a.starts_at, a.ends_at, n.public_id
        from assignment a join node n using (tenant_id, node_id)
        where a.tenant_id = $1 and a.lease_id = $2 and a.withdrawn_at is null
        order by a.node_id, a.slot_no, a.starts_at",
        tenant,
        lease
    );
    let rows = rows.fetch_all(tx.connection()).await?.into_iter();
    rows.map(|row| {
        let assignment = Assignment {
            lease: name.clone(),
            node: NodeId(Column("node", "public_id").array(&row.public_id)?),
            slot: slot_no(row.slot_no)?,
            starts_at: Timestamp(row.starts_at),
            ends_at: row.ends_at.map(Timestamp),
        };
        Ok((NodeKey::new(tenant, row.node_id), assignment))
    })
    .collect()
}

/// The slots of a lease's assignments, each once.
#[must_use]
pub fn slots(lease: &CostLease) -> Vec<(NodeKey, SlotNo)> {
    let mut slots: Vec<_> = lease.assignments.iter().map(|(node, a)| (*node, a.slot)).collect();
    slots.sort_unstable();
    slots.dedup();
    slots
}
