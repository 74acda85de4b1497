//! Hour records: written by one job, read by pages and exports.

mod around;
mod chosen;
mod read;
mod total;

use leasewatch_core::cost::straggler::clock_under_load;
use leasewatch_core::id::{GpuUuid, Hash, SlotNo};
use leasewatch_core::metering::{HourProfile, HourRecord, HourState};
use leasewatch_core::time::{Hour, Timestamp};

pub use around::{MeteredSlot, NodeHour, around};
pub use chosen::{load_clocks, profiles_at, records_at};
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

/// Writes revisions, each in place of a provisional one with the same number, and each at most once
/// in one call. Scope: worker.
///
/// # Errors
/// [`StoreError::Sealed`] when a revision is sealed; [`StoreError::NoPartition`] for a month that
/// nobody ensured.
pub async fn put(tx: &mut Tx, new: &[NewHour<'_>]) -> Result<(), StoreError> {
    let keys = Keys::of(new)?;
    let revisions = new.iter().map(|new| fitted::<_, i32>(new.revision, "revision"));
    let states = new.iter().map(|new| state_column(new.state));
    let records = || new.iter().map(|new| new.record);
    let origins: Vec<&str> = records().map(|record| record.origin.name()).collect();
    let enrolled = records().map(|record| fitted::<_, i32>(record.enrolled_ms, "enrolled time"));
    let measured = records().map(|record| fitted::<_, i32>(record.measured_ms(), "measured time"));
    let busy: Vec<i64> = records().map(|record| record.histogram.busy_pct_ms()).collect();
    let bodies: Vec<Vec<u8>> = records().map(HourRecord::pack).collect();
    let hashes: Vec<&[u8]> = new.iter().map(|new| &new.hash.0[..]).collect();
    let previous = new.iter().map(|new| new.previous.as_ref().map(|hash| &hash.0[..]));
    let written: Vec<i64> = new.iter().map(|new| new.written_at.0).collect();
    sqlx::query!(
        "insert into hour_record (tenant_id, node_id, slot_no, hour, gpu_uuid, revision, state, origin,
            enrolled_ms, measured_ms, busy_pct_ms, body, hash, previous_hash, written_at)
        select * from unnest($1::int[], $2::int[], $3::smallint[], $4::int[], $5::text[], $6::int[],
            $7::smallint[], $8::text[], $9::int[], $10::int[], $11::bigint[], $12::bytea[],
            $13::bytea[], $14::bytea[], $15::bigint[])
        on conflict (tenant_id, node_id, slot_no, hour, gpu_uuid, revision) do update set
            state = excluded.state, origin = excluded.origin, enrolled_ms = excluded.enrolled_ms,
            measured_ms = excluded.measured_ms, busy_pct_ms = excluded.busy_pct_ms,
            body = excluded.body, hash = excluded.hash, previous_hash = excluded.previous_hash,
            written_at = excluded.written_at",
        &keys.tenants,
        &keys.nodes,
        &keys.slots,
        &keys.hours,
        &keys.gpus as &[&str],
        &revisions.collect::<Result<Vec<_>, _>>()?,
        &states.collect::<Result<Vec<_>, _>>()?,
        &origins as &[&str],
        &enrolled.collect::<Result<Vec<_>, _>>()?,
        &measured.collect::<Result<Vec<_>, _>>()?,
        &busy,
        &bodies,
        &hashes as &[&[u8]],
        &previous.collect::<Vec<_>>() as &[Option<&[u8]>],
        &written
    )
    .execute(tx.connection())
    .await?;
    put_profiles(tx, &keys, new).await
}

/// What leads the keys of records and profiles.
struct Keys<'a> {
    tenants: Vec<i32>,
    nodes: Vec<i32>,
    slots: Vec<i16>,
    hours: Vec<i32>,
    gpus: Vec<&'a str>,
}

impl<'a> Keys<'a> {
    fn of(new: &'a [NewHour<'_>]) -> Result<Self, StoreError> {
        let (tenants, nodes) = new.iter().map(|new| new.node.columns()).unzip();
        let slots = new.iter().map(|new| slot_column(new.slot));
        let hours = new.iter().map(|new| hour_column(new.record.hour));
        Ok(Self {
            tenants,
            nodes,
            slots: slots.collect::<Result<_, _>>()?,
            hours: hours.collect::<Result<_, _>>()?,
            gpus: new.iter().map(|new| new.record.gpu.as_str()).collect(),
        })
    }
}

async fn put_profiles(tx: &mut Tx, keys: &Keys<'_>, new: &[NewHour<'_>]) -> Result<(), StoreError> {
    let bodies: Vec<Vec<u8>> = new.iter().map(|new| new.profile.pack()).collect();
    let clocks = new.iter().map(|new| {
        let clock = clock_under_load(&[new.profile]).filter(|clock| *clock > 0);
        clock.map(|clock| fitted::<_, i32>(clock, "clock")).transpose()
    });
    sqlx::query!(
        "insert into hour_profile (tenant_id, node_id, slot_no, hour, gpu_uuid, body, load_clock_mhz)
        select * from unnest($1::int[], $2::int[], $3::smallint[], $4::int[], $5::text[], $6::bytea[],
            $7::int[])
        on conflict (tenant_id, node_id, slot_no, hour, gpu_uuid) do update set
            body = excluded.body, load_clock_mhz = excluded.load_clock_mhz",
        &keys.tenants,
        &keys.nodes,
        &keys.slots,
        &keys.hours,
        &keys.gpus as &[&str],
        &bodies,
        &clocks.collect::<Result<Vec<_>, _>>()? as &[Option<i32>]
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// Removes provisional records of GPUs that later data showed never to have sat in their slot in
/// this hour. Sealed ones stay. Scope: worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn remove_provisional(
    tx: &mut Tx,
    key: NodeKey,
    hour: Hour,
    displaced: &[(SlotNo, &GpuUuid)],
) -> Result<(), StoreError> {
    let (tenant, node) = key.columns();
    let slots = displaced.iter().map(|(slot, _)| slot_column(*slot));
    let gpus: Vec<&str> = displaced.iter().map(|(_, gpu)| gpu.as_str()).collect();
    sqlx::query!(
        "with gone as (
            delete from hour_record r
            using unnest($3::smallint[], $4::text[]) as d (slot_no, gpu_uuid)
            where r.tenant_id = $1 and r.node_id = $2 and r.hour = $5 and r.state = 1
                and r.slot_no = d.slot_no and r.gpu_uuid = d.gpu_uuid
            returning r.slot_no, r.gpu_uuid
        )
        delete from hour_profile p using gone
        where p.tenant_id = $1 and p.node_id = $2 and p.hour = $5
            and p.slot_no = gone.slot_no and p.gpu_uuid = gone.gpu_uuid",
        tenant,
        node,
        &slots.collect::<Result<Vec<_>, _>>()?,
        &gpus as &[&str],
        hour_column(hour)?
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
