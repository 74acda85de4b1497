//! Hour records: written by one job, read by pages and exports.

mod around;
mod read;
mod total;

use leasewatch_core::id::{GpuUuid, Hash, SlotNo};
use leasewatch_core::metering::{HourProfile, HourRecord, HourState};
use leasewatch_core::time::{Hour, Timestamp};

pub use around::{MeteredSlot, NodeHour, around};
pub use read::{HourCursor, HourRow, current, of_node, of_slot, page, profiles, revisions};
pub use total::{HourTotal, NodeTotal, totals_by_hour, totals_by_node};

use super::column::{fitted, hour_column};
use super::slot::slot_column;
use super::{NodeKey, StoreError, Tx};

const PROVISIONAL: i16 = 1;
const SEALED: i16 = 2;

/// A record to store.
#[derive(Debug, Clone, Copy)]
pub struct NewHour<'a> {
    /// Whose it is.
    pub node: NodeKey,
    /// In which slot.
    pub slot: SlotNo,
    /// From 1.
    pub revision: u32,
    /// Provisional or sealed.
    pub state: HourState,
    /// Its content, with hour and GPU.
    pub record: &'a HourRecord,
    /// Its shape, for charts.
    pub profile: &'a HourProfile,
    /// Hash of its statement.
    pub hash: Hash,
    /// Hash of the revision before; `None` exactly at revision 1.
    pub previous: Option<Hash>,
    /// Server time.
    pub written_at: Timestamp,
}

/// Writes a revision, in place of a provisional one with the same number. Scope: worker.
///
/// # Errors
/// [`StoreError::Sealed`] when that revision is sealed; [`StoreError::NoPartition`] for a month
/// that nobody ensured.
pub async fn put(tx: &mut Tx, new: &NewHour<'_>) -> Result<(), StoreError> {
    let (tenant, node) = new.node.columns();
    let record = new.record;
    sqlx::query!(
        "insert into hour_record (tenant_id, node_id, slot_no, hour, gpu_uuid, revision, state, origin,
            enrolled_ms, measured_ms, busy_pct_ms, body, hash, previous_hash, written_at)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)
        on conflict (tenant_id, node_id, slot_no, hour, gpu_uuid, revision) do update set
            state = excluded.state, origin = excluded.origin, enrolled_ms = excluded.enrolled_ms,
            measured_ms = excluded.measured_ms, busy_pct_ms = excluded.busy_pct_ms,
            body = excluded.body, hash = excluded.hash, previous_hash = excluded.previous_hash,
            written_at = excluded.written_at",
        tenant,
        node,
        slot_column(new.slot)?,
        hour_column(record.hour)?,
        record.gpu.as_str(),
        fitted::<_, i32>(new.revision, "revision")?,
        state_column(new.state)?,
        record.origin.name(),
        fitted::<_, i32>(record.enrolled_ms, "enrolled time")?,
        fitted::<_, i32>(record.measured_ms(), "measured time")?,
        record.histogram.busy_pct_ms(),
        record.pack(),
        &new.hash.0,
        new.previous.as_ref().map(|hash| &hash.0[..]),
        new.written_at.0
    )
    .execute(tx.connection())
    .await?;
    put_profile(tx, new).await
}

async fn put_profile(tx: &mut Tx, new: &NewHour<'_>) -> Result<(), StoreError> {
    let (tenant, node) = new.node.columns();
    sqlx::query!(
        "insert into hour_profile (tenant_id, node_id, slot_no, hour, gpu_uuid, body)
        values ($1, $2, $3, $4, $5, $6)
        on conflict (tenant_id, node_id, slot_no, hour, gpu_uuid) do update set body = excluded.body",
        tenant,
        node,
        slot_column(new.slot)?,
        hour_column(new.record.hour)?,
        new.record.gpu.as_str(),
        new.profile.pack()
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// Removes the provisional records of a slot and hour whose GPU is not among `present`: later data
/// showed that it never sat there. Sealed ones stay. Scope: worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn remove_provisional_except(
    tx: &mut Tx,
    key: NodeKey,
    slot: SlotNo,
    hour: Hour,
    present: &[GpuUuid],
) -> Result<(), StoreError> {
    let (tenant, node) = key.columns();
    let present: Vec<&str> = present.iter().map(GpuUuid::as_str).collect();
    sqlx::query!(
        "with gone as (
            delete from hour_record where tenant_id = $1 and node_id = $2 and slot_no = $3
                and hour = $4 and state = 1 and gpu_uuid <> all ($5::text[])
            returning gpu_uuid
        )
        delete from hour_profile where tenant_id = $1 and node_id = $2 and slot_no = $3
            and hour = $4 and gpu_uuid in (select gpu_uuid from gone)",
        tenant,
        node,
        slot_column(slot)?,
        hour_column(hour)?,
        &present as &[&str]
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// Nodes and hours before `before` that are still provisional, the oldest first, behind `after`:
/// what the job has to look at again so that it can seal. Those that cannot be sealed yet come
/// back, so the caller walks on from where it was.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn due_to_seal(
    tx: &mut Tx,
    before: Hour,
    after: Option<(NodeKey, Hour)>,
    limit: u32,
) -> Result<Vec<(NodeKey, Hour)>, StoreError> {
    let (after_hour, (after_tenant, after_node)) = match after {
        Some((key, hour)) => (hour_column(hour)?, key.columns()),
        None => (i32::MIN, (0, 0)),
    };
    let rows = sqlx::query!(
        "select distinct hour, tenant_id, node_id from hour_record
        where state = 1 and hour < $1 and (hour, tenant_id, node_id) > ($3, $4, $5)
        order by hour, tenant_id, node_id limit $2",
        hour_column(before)?,
        i64::from(limit),
        after_hour,
        after_tenant,
        after_node
    )
    .fetch_all(tx.connection())
    .await?;
    let found = rows.into_iter();
    Ok(found
        .map(|row| (NodeKey::new(row.tenant_id, row.node_id), Hour(i64::from(row.hour))))
        .collect())
}

fn state_column(state: HourState) -> Result<i16, StoreError> {
    match state {
        HourState::Provisional => Ok(PROVISIONAL),
        HourState::Sealed => Ok(SEALED),
        HourState::Open => Err(StoreError::OutOfRange { what: "an open hour" }),
    }
}
