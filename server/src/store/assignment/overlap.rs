//! That no slot is covered twice at a time.
//!
//! Not a constraint of the database: what an assignment covers depends on the term of its lease,
//! which is corrected on its own. Writers of one tenant stand in line instead ([`hold`]).

use std::fmt;

use leasewatch_core::id::{NodeId, SlotNo, Slug};
use leasewatch_core::time::{Period, Timestamp};

use super::super::column::Column;
use super::super::slot::slot_no;
use super::super::{LeaseKey, StoreError, TenantKey, Tx};
use super::lease_name;

/// A slot that would be covered twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlap {
    /// The node.
    pub node: NodeId,
    /// The name of the node, for people.
    pub node_name: String,
    /// The slot on it.
    pub slot: SlotNo,
    /// The lease that covers it already.
    pub other: Slug,
    /// When both would.
    pub period: Period,
}

impl std::error::Error for Overlap {}

impl fmt::Display for Overlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node_name, slot, other, period, .. } = self;
        write!(f, "slots: GPU {} of {node_name} is covered by the lease {other}", slot.0)?;
        write!(f, " from {}", period.start)?;
        if period.end < Timestamp::MAX { write!(f, " to {}", period.end) } else { Ok(()) }
    }
}

/// Lets one transaction at a time say which slots of a tenant are covered, until it ends.
pub(in crate::store) async fn hold(tx: &mut Tx, tenant: TenantKey) -> Result<(), StoreError> {
    sqlx::query!(r#"select pg_advisory_xact_lock(720399183, $1) as "held!: ()""#, tenant.0)
        .fetch_one(tx.connection())
        .await?;
    Ok(())
}

struct Covered {
    is_own: bool,
    key: i32,
    lease: Slug,
    node: NodeId,
    node_name: String,
    slot: SlotNo,
    period: Period,
}

/// A slot of this lease that something else covers at the same time, if there is one.
pub(in crate::store) async fn overlap_of(
    tx: &mut Tx,
    lease: LeaseKey,
) -> Result<Option<Overlap>, StoreError> {
    let (tenant, lease_id) = lease.columns();
    let rows = sqlx::query!(
        r#"select a.assignment_id, a.lease_id, l.name as lease, n.public_id, n.name as node_name,
            a.slot_no, greatest(a.starts_at, t.starts_at) as "starts_at!",
            least(a.ends_at, t.ends_at) as ends_at
        from assignment a join lease l using (tenant_id, lease_id)
        join node n using (tenant_id, node_id)
        join lateral (select m.starts_at, m.ends_at from lease_terms m
            where m.tenant_id = a.tenant_id and m.lease_id = a.lease_id
            order by m.revision desc limit 1) t on true
        where a.tenant_id = $1 and a.withdrawn_at is null
            and (a.node_id, a.slot_no) in (select o.node_id, o.slot_no from assignment o
                where o.tenant_id = $1 and o.lease_id = $2 and o.withdrawn_at is null)
        order by a.node_id, a.slot_no, a.starts_at, a.assignment_id"#,
        tenant,
        lease_id
    );
    let rows = rows.fetch_all(tx.connection()).await?;
    let covered: Result<Vec<_>, StoreError> = rows
        .into_iter()
        .map(|row| {
            let end = row.ends_at.map_or(Timestamp::MAX, Timestamp);
            Ok(Covered {
                is_own: row.lease_id == lease_id,
                key: row.assignment_id,
                lease: lease_name(&row.lease)?,
                node: NodeId(Column("node", "public_id").array(&row.public_id)?),
                node_name: row.node_name,
                slot: slot_no(row.slot_no)?,
                period: Period::new(Timestamp(row.starts_at), end),
            })
        })
        .collect();
    Ok(first(&covered?))
}

/// The first pair of which one is the lease's own.
fn first(covered: &[Covered]) -> Option<Overlap> {
    covered.iter().filter(|own| own.is_own).find_map(|own| {
        let same_slot = |other: &&Covered| {
            other.key != own.key && (other.node, other.slot) == (own.node, own.slot)
        };
        covered.iter().filter(same_slot).find_map(|other| {
            let period = own.period.intersect(other.period);
            (!period.is_empty() && !own.period.is_empty() && !other.period.is_empty()).then(|| {
                Overlap {
                    node: own.node,
                    node_name: own.node_name.clone(),
                    slot: own.slot,
                    other: other.lease.clone(),
                    period,
                }
            })
        })
    })
}
