//! Nodes that joined with a token which names a lease: their GPUs are assigned to it.
//!
//! What GPUs a node has is known once it has delivered; until then the join waits. Each join is
//! assigned once, with what is known of its node by then: a GPU that shows up later is a person's
//! to assign. Slices of a GPU are left out, and what another lease covers stays with that one.

use leasewatch_core::id::{KeyId, NodeId, SlotNo, clean_text};
use leasewatch_core::time::{Period, Timestamp};

use crate::store::assignment::{self, NewAssignment, Overlap};
use crate::store::column::Column;
use crate::store::lease::{self, Written};
use crate::store::{LeaseKey, NodeKey, StoreError, TenantKey, Tx, slot};

/// Characters of a name that wrote something.
const WRITER_CHARS: usize = 64;

/// A node that joined with a token of a lease, and is not assigned yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeasedJoin {
    /// The node.
    pub node: NodeKey,
    /// Its public id.
    pub id: NodeId,
    /// Its name.
    pub name: String,
    /// The key that joined.
    pub key_id: KeyId,
    /// When; its GPUs are contracted from here on.
    pub joined_at: Timestamp,
    /// The lease.
    pub lease: LeaseKey,
    /// The number of the token.
    pub token: i32,
    /// Who made the token.
    pub created_by: String,
}

/// Joins whose nodes have shown a GPU and are not assigned yet, at most 100. Scope: worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn unassigned(tx: &mut Tx) -> Result<Vec<LeasedJoin>, StoreError> {
    let rows = sqlx::query!(
        r#"select j.tenant_id, j.node_id, n.public_id, n.name, j.key_id, j.joined_at,
            t.lease_id as "lease_id!", t.token_id, t.created_by
        from node_join j join join_token t using (tenant_id, token_id)
        join node n using (tenant_id, node_id)
        where j.assigned_at is null and t.lease_id is not null
            and exists (select from slot s where s.tenant_id = j.tenant_id
                and s.node_id = j.node_id and s.gpu_instance is null)
        order by j.joined_at limit 100"#
    );
    let rows = rows.fetch_all(tx.connection()).await?;
    rows.into_iter()
        .map(|row| {
            Ok(LeasedJoin {
                node: NodeKey::new(row.tenant_id, row.node_id),
                id: NodeId(Column("node", "public_id").array(&row.public_id)?),
                name: row.name,
                key_id: KeyId(Column("node_join", "key_id").array(&row.key_id)?),
                joined_at: Timestamp(row.joined_at),
                lease: LeaseKey::new(row.tenant_id, row.lease_id),
                token: row.token_id,
                created_by: row.created_by,
            })
        })
        .collect()
}

/// Assigns what a join brought to its lease, from its joining on, and notes that this is done.
/// Returns which slots that were; refused, it is to be rolled back. Scope: the tenant.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn assign(
    tx: &mut Tx,
    join: &LeasedJoin,
    at: Timestamp,
) -> Result<Result<Vec<SlotNo>, Overlap>, StoreError> {
    let by = clean_text(&join.created_by, WRITER_CHARS);
    let written = Written { at, by: Some(&by), reason: None };
    let covered = covered(tx, join).await?;
    let mut assigned = Vec::new();
    for row in slot::of_node(tx, join.node).await? {
        if row.place.instance.is_some() || covered.contains(&row.slot) {
            continue;
        }
        let starts_at = join.joined_at;
        let new = NewAssignment { node: join.node, slot: row.slot, starts_at, ends_at: None };
        if let Err(overlap) = assignment::put(tx, join.lease, new, written).await? {
            return Ok(Err(overlap));
        }
        assigned.push(row.slot);
    }
    let TenantKey(tenant) = join.node.tenant();
    sqlx::query!(
        "update node_join set assigned_at = $4
        where tenant_id = $1 and token_id = $2 and key_id = $3 and assigned_at is null",
        tenant,
        join.token,
        &join.key_id.0,
        at.0
    )
    .execute(tx.connection())
    .await?;
    Ok(Ok(assigned))
}

/// Slots of its node that a lease covers at some time from the joining on.
async fn covered(tx: &mut Tx, join: &LeasedJoin) -> Result<Vec<SlotNo>, StoreError> {
    let wanted = Period::new(join.joined_at, Timestamp::MAX);
    let mut covered = Vec::new();
    for row in assignment::of_node(tx, join.node).await? {
        let Some(by) = lease::by_key(tx, row.lease).await? else { continue };
        let counts = row.period().intersect(lease::period(&by.terms)).intersect(wanted);
        if !counts.is_empty() {
            covered.push(row.assignment.slot);
        }
    }
    Ok(covered)
}
