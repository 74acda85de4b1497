//! Hours of a lease in which something is down or excluded: few, and found without the others.

use leasewatch_core::availability::StateStretch;
use leasewatch_core::id::SlotNo;
use leasewatch_core::time::Hour;

use super::{body, column};
use crate::store::column::hour_column;
use crate::store::slot::slot_no;
use crate::store::{LeaseKey, NodeKey, StoreError, Tx};

/// A slot and hour with its states.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostHour {
    /// On which node.
    pub node: NodeKey,
    /// In which slot.
    pub slot: SlotNo,
    /// The hour.
    pub hour: Hour,
    /// All of its states.
    pub stretches: Vec<StateStretch>,
}

/// The hours `[from, to)` of a lease's slots in which something is down or excluded by the latest
/// revision.
///
/// # Errors
/// [`StoreError::Inconsistent`] for a row that does not unpack.
pub async fn lost(
    tx: &mut Tx,
    lease: LeaseKey,
    (from, to): (Hour, Hour),
) -> Result<Vec<LostHour>, StoreError> {
    let (tenant, lease) = lease.columns();
    let rows = sqlx::query!(
        "select a.node_id, a.slot_no, a.hour, a.body from availability a
        where a.tenant_id = $1 and a.lease_id = $2 and a.hour >= $3 and a.hour < $4
            and a.contracted_ms > a.up_ms + a.unknown_ms
            and not exists (
                select from availability later
                where later.tenant_id = $1 and later.lease_id = $2 and later.node_id = a.node_id
                    and later.slot_no = a.slot_no and later.hour = a.hour
                    and later.revision > a.revision)
        order by a.node_id, a.slot_no, a.hour",
        tenant,
        lease,
        hour_column(from)?,
        hour_column(to)?
    );
    let rows = rows.fetch_all(tx.connection()).await?.into_iter().map(|row| {
        let hour = Hour(i64::from(row.hour));
        let stretches = body::unpack(hour, &row.body);
        Ok(LostHour {
            node: NodeKey::new(tenant, row.node_id),
            slot: slot_no(row.slot_no)?,
            hour,
            stretches: stretches.ok_or_else(|| column("body").wrong("damaged"))?,
        })
    });
    rows.collect()
}
