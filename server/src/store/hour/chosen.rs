//! Records, minutes and clocks of chosen hours of a node, without what only exports need.

use leasewatch_core::id::{GpuUuid, SlotNo};
use leasewatch_core::metering::{HourProfile, HourRecord};
use leasewatch_core::time::Hour;

use crate::store::column::{Column, hour_column};
use crate::store::slot::{slot_column, slot_no};
use crate::store::{NodeKey, StoreError, Tx};

/// The latest revisions of a node's records in these hours, by slot, hour and GPU.
///
/// # Errors
/// [`StoreError::Inconsistent`] for a row that does not unpack.
pub async fn records_at(
    tx: &mut Tx,
    key: NodeKey,
    hours: &[Hour],
) -> Result<Vec<(SlotNo, HourRecord)>, StoreError> {
    let (tenant, node) = key.columns();
    let hours = hours.iter().map(|hour| hour_column(*hour)).collect::<Result<Vec<_>, _>>()?;
    let rows = sqlx::query!(
        "select distinct on (slot_no, hour, gpu_uuid) slot_no, hour, gpu_uuid, body
        from hour_record where tenant_id = $1 and node_id = $2 and hour = any ($3)
        order by slot_no, hour, gpu_uuid, revision desc",
        tenant,
        node,
        &hours
    );
    let rows = rows.fetch_all(tx.connection()).await?.into_iter().map(|row| {
        let gpu = Column("hour_record", "gpu_uuid").parsed(&row.gpu_uuid)?;
        let record = HourRecord::unpack(Hour(i64::from(row.hour)), gpu, &row.body)
            .map_err(|error| Column("hour_record", "body").wrong(error))?;
        Ok((slot_no(row.slot_no)?, record))
    });
    rows.collect()
}

/// The minutes of a node's hours, by slot and GPU, where they are kept.
///
/// # Errors
/// As [`records_at`].
pub async fn profiles_at(
    tx: &mut Tx,
    key: NodeKey,
    hours: &[Hour],
) -> Result<Vec<(SlotNo, Hour, GpuUuid, HourProfile)>, StoreError> {
    let (tenant, node) = key.columns();
    let hours = hours.iter().map(|hour| hour_column(*hour)).collect::<Result<Vec<_>, _>>()?;
    let rows = sqlx::query!(
        "select slot_no, hour, gpu_uuid, body from hour_profile
        where tenant_id = $1 and node_id = $2 and hour = any ($3)
        order by slot_no, hour, gpu_uuid",
        tenant,
        node,
        &hours
    );
    let rows = rows.fetch_all(tx.connection()).await?.into_iter().map(|row| {
        let gpu = Column("hour_profile", "gpu_uuid").parsed(&row.gpu_uuid)?;
        let profile = HourProfile::unpack(&row.body)
            .map_err(|error| Column("hour_profile", "body").wrong(error))?;
        Ok((slot_no(row.slot_no)?, Hour(i64::from(row.hour)), gpu, profile))
    });
    rows.collect()
}

/// Median SM clocks under full load of a GPU in hours `[from, to)` of a slot, in MHz, by hour; hours
/// without such load have none.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn load_clocks(
    tx: &mut Tx,
    key: NodeKey,
    (slot, gpu): (SlotNo, &GpuUuid),
    (from, to): (Hour, Hour),
) -> Result<Vec<(Hour, i64)>, StoreError> {
    let (tenant, node) = key.columns();
    let rows = sqlx::query!(
        r#"select hour, load_clock_mhz as "load_clock_mhz!" from hour_profile
        where tenant_id = $1 and node_id = $2 and slot_no = $3 and gpu_uuid = $4
            and hour >= $5 and hour < $6 and load_clock_mhz is not null
        order by hour"#,
        tenant,
        node,
        slot_column(slot)?,
        gpu.as_str(),
        hour_column(from)?,
        hour_column(to)?
    );
    let rows = rows.fetch_all(tx.connection()).await?.into_iter();
    Ok(rows.map(|row| (Hour(i64::from(row.hour)), i64::from(row.load_clock_mhz))).collect())
}
