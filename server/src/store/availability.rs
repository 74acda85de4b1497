//! Availability: what of a slot's contracted hour was up, down, unknown or excluded. A change is a
//! new revision with its reason; no role can update or delete one.

mod body;
mod lost;

use std::collections::BTreeSet;

use leasewatch_core::availability::{EvidenceClass, State, StateStretch, StateSums};
use leasewatch_core::id::{Hash, SlotNo};
use leasewatch_core::metering::Grain;
use leasewatch_core::time::{Hour, Timestamp};

use super::column::{Column, fitted, hour_column};
use super::judge_work::JudgeReason;
use super::slot::{slot_column, slot_no};
use super::{LeaseKey, NodeKey, StoreError, Tx};

pub use lost::{LostHour, lost};

/// What is said of one slot and hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// Whose it is.
    pub lease: LeaseKey,
    /// On which node.
    pub node: NodeKey,
    /// In which slot; one that was never seen has no row of its own.
    pub slot: SlotNo,
    /// The hour.
    pub hour: Hour,
    /// Its contracted time; empty when none is left.
    pub stretches: Vec<StateStretch>,
    /// How exactly the records say where in the hour something happened.
    pub grain: Grain,
    /// Hash over the hashes of the hour records that were judged.
    pub records: Hash,
}

/// A stored revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AvailabilityRow {
    /// What it says.
    pub judged: Judged,
    /// From 1.
    pub revision: u32,
    /// Hash over names, the revision before, and content.
    pub hash: Hash,
    /// Hash of the revision before.
    pub previous: Option<Hash>,
    /// What changed.
    pub reason: JudgeReason,
    /// When it was written, by the server's clock.
    pub written_at: Timestamp,
}

impl Judged {
    /// The next revision of it behind `current`, or the first.
    ///
    /// # Errors
    /// [`StoreError::OutOfRange`] for content that has no packed form.
    pub fn revision(
        self,
        current: Option<&AvailabilityRow>,
        reason: JudgeReason,
        written_at: Timestamp,
    ) -> Result<AvailabilityRow, StoreError> {
        let revision = current.map_or(1, |row| row.revision.saturating_add(1));
        let previous = current.map(|row| row.hash);
        let (tenant, lease) = self.lease.columns();
        let mut bytes = b"leasewatch availability 1\n".to_vec();
        for number in [tenant, lease, self.node.columns().1, i32::from(slot_column(self.slot)?)] {
            bytes.extend(number.to_be_bytes());
        }
        bytes.extend(self.hour.0.to_be_bytes());
        bytes.extend(revision.to_be_bytes());
        bytes.extend(previous.map_or([0; 32], |hash| hash.0));
        bytes.extend(self.records.0);
        bytes.extend(self.grain.name().as_bytes());
        bytes.extend(body::pack(self.hour, &self.stretches)?);
        let hash = Hash::of(&bytes);
        Ok(AvailabilityRow { judged: self, revision, hash, previous, reason, written_at })
    }

    /// Whether it says the same.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.stretches == other.stretches && self.grain == other.grain
    }
}

/// Adds revisions, in one statement. Scope: worker.
///
/// # Errors
/// [`StoreError::Constraint`] for a revision that is there already, or when law S does not hold.
pub async fn put(tx: &mut Tx, rows: &[AvailabilityRow]) -> Result<(), StoreError> {
    if rows.is_empty() {
        return Ok(());
    }
    let sums: Vec<StateSums> =
        rows.iter().map(|row| StateSums::of(&row.judged.stretches)).collect();
    let ms = |of: &dyn Fn(&StateSums) -> i64| -> Result<Vec<i32>, StoreError> {
        sums.iter().map(|sums| fitted(of(sums), "time of an hour")).collect()
    };
    let down = |class| ms(&|sums| sums.down_ms.get(&class).copied().unwrap_or_default());
    let (tenants, leases): (Vec<i32>, Vec<i32>) =
        rows.iter().map(|row| row.judged.lease.columns()).unzip();
    let nodes: Vec<i32> = rows.iter().map(|row| row.judged.node.columns().1).collect();
    let slots = rows.iter().map(|row| slot_column(row.judged.slot));
    let hours = rows.iter().map(|row| hour_column(row.judged.hour));
    let revisions = rows.iter().map(|row| fitted::<_, i32>(row.revision, "revision"));
    let grains: Vec<&str> = rows.iter().map(|row| row.judged.grain.name()).collect();
    let bodies = rows.iter().map(|row| body::pack(row.judged.hour, &row.judged.stretches));
    let records: Vec<&[u8]> = rows.iter().map(|row| &row.judged.records.0[..]).collect();
    let hashes: Vec<&[u8]> = rows.iter().map(|row| &row.hash.0[..]).collect();
    let previous: Vec<Option<&[u8]>> =
        rows.iter().map(|row| row.previous.as_ref().map(|hash| &hash.0[..])).collect();
    let reasons: Vec<&str> = rows.iter().map(|row| row.reason.name()).collect();
    let written: Vec<i64> = rows.iter().map(|row| row.written_at.0).collect();
    sqlx::query!(
        "insert into availability (tenant_id, lease_id, node_id, slot_no, hour, revision,
            contracted_ms, up_ms, down_e1_ms, down_e2_ms, down_e3_ms, down_e4_ms, down_e5_ms,
            unknown_ms, excluded_ms, grain, body, records_hash, hash, previous_hash, reason,
            written_at)
        select * from unnest($1::int[], $2::int[], $3::int[], $4::smallint[], $5::int[], $6::int[],
            $7::int[], $8::int[], $9::int[], $10::int[], $11::int[], $12::int[], $13::int[],
            $14::int[], $15::int[], $16::text[], $17::bytea[], $18::bytea[], $19::bytea[],
            $20::bytea[], $21::text[], $22::bigint[])",
        &tenants,
        &leases,
        &nodes,
        &slots.collect::<Result<Vec<_>, _>>()?,
        &hours.collect::<Result<Vec<_>, _>>()?,
        &revisions.collect::<Result<Vec<_>, _>>()?,
        &ms(&|sums| sums.contracted_ms)?,
        &ms(&|sums| sums.up_ms)?,
        &down(EvidenceClass::E1)?,
        &down(EvidenceClass::E2)?,
        &down(EvidenceClass::E3)?,
        &down(EvidenceClass::E4)?,
        &down(EvidenceClass::E5)?,
        &ms(&StateSums::unknown_total_ms)?,
        &ms(&StateSums::excluded_total_ms)?,
        &grains as &[&str],
        &bodies.collect::<Result<Vec<_>, _>>()?,
        &records as &[&[u8]],
        &hashes as &[&[u8]],
        &previous as &[Option<&[u8]>],
        &reasons as &[&str],
        &written
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

struct Row {
    tenant_id: i32,
    lease_id: i32,
    node_id: i32,
    slot_no: i16,
    hour: i32,
    revision: i32,
    contracted_ms: i32,
    grain: String,
    body: Vec<u8>,
    records_hash: Vec<u8>,
    hash: Vec<u8>,
    previous_hash: Option<Vec<u8>>,
    reason: String,
    written_at: i64,
}

impl TryFrom<Row> for AvailabilityRow {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let hour = Hour(i64::from(row.hour));
        let stretches =
            body::unpack(hour, &row.body).ok_or_else(|| column("body").wrong("damaged"))?;
        if StateSums::of(&stretches).contracted_ms != i64::from(row.contracted_ms) {
            return Err(column("contracted_ms").wrong("differs from the stretches"));
        }
        let previous = row.previous_hash.as_deref();
        Ok(Self {
            judged: Judged {
                lease: LeaseKey::new(row.tenant_id, row.lease_id),
                node: NodeKey::new(row.tenant_id, row.node_id),
                slot: slot_no(row.slot_no)?,
                hour,
                stretches,
                grain: column("grain").named(&row.grain, Grain::from_name)?,
                records: Hash(column("records_hash").array(&row.records_hash)?),
            },
            revision: column("revision").number(row.revision)?,
            hash: Hash(column("hash").array(&row.hash)?),
            previous: previous.map(|h| column("previous_hash").array(h).map(Hash)).transpose()?,
            reason: column("reason").named(&row.reason, JudgeReason::from_name)?,
            written_at: Timestamp(row.written_at),
        })
    }
}

/// The latest revision of each slot and hour of a lease in `[from, to)`, by node, slot and hour.
///
/// # Errors
/// [`StoreError::Inconsistent`] for a row that does not unpack.
pub async fn current(
    tx: &mut Tx,
    lease: LeaseKey,
    (from, to): (Hour, Hour),
) -> Result<Vec<AvailabilityRow>, StoreError> {
    let (tenant, lease) = lease.columns();
    let rows = sqlx::query_as!(
        Row,
        "select distinct on (node_id, slot_no, hour) tenant_id, lease_id, node_id, slot_no, hour,
            revision, contracted_ms, grain, body, records_hash, hash, previous_hash, reason, written_at
        from availability
        where tenant_id = $1 and lease_id = $2 and hour >= $3 and hour < $4
        order by node_id, slot_no, hour, revision desc",
        tenant,
        lease,
        hour_column(from)?,
        hour_column(to)?
    );
    collect(rows.fetch_all(tx.connection()).await?)
}

/// All revisions of a lease's hours in `[from, to)`, by node, slot, hour and number.
///
/// # Errors
/// As [`current`].
pub async fn revisions(
    tx: &mut Tx,
    lease: LeaseKey,
    (from, to): (Hour, Hour),
) -> Result<Vec<AvailabilityRow>, StoreError> {
    let (tenant, lease) = lease.columns();
    let rows = sqlx::query_as!(
        Row,
        "select tenant_id, lease_id, node_id, slot_no, hour, revision, contracted_ms, grain, body,
            records_hash, hash, previous_hash, reason, written_at
        from availability
        where tenant_id = $1 and lease_id = $2 and hour >= $3 and hour < $4
        order by node_id, slot_no, hour, revision",
        tenant,
        lease,
        hour_column(from)?,
        hour_column(to)?
    );
    collect(rows.fetch_all(tx.connection()).await?)
}

/// The latest revision of each slot and hour of a lease in which something is proven down, by node,
/// slot and hour.
///
/// # Errors
/// As [`current`].
pub async fn with_downtime(
    tx: &mut Tx,
    lease: LeaseKey,
) -> Result<Vec<AvailabilityRow>, StoreError> {
    let (tenant, lease) = lease.columns();
    let rows = sqlx::query_as!(
        Row,
        "select distinct on (a.node_id, a.slot_no, a.hour) a.tenant_id, a.lease_id, a.node_id,
            a.slot_no, a.hour, a.revision, a.contracted_ms, a.grain, a.body, a.records_hash, a.hash,
            a.previous_hash, a.reason, a.written_at
        from availability a
        join (
            select distinct node_id, slot_no, hour from availability
            where tenant_id = $1 and lease_id = $2
                and down_e1_ms + down_e2_ms + down_e3_ms + down_e4_ms + down_e5_ms > 0
        ) as d on d.node_id = a.node_id and d.slot_no = a.slot_no and d.hour = a.hour
        where a.tenant_id = $1 and a.lease_id = $2
        order by a.node_id, a.slot_no, a.hour, a.revision desc",
        tenant,
        lease
    );
    let rows = collect(rows.fetch_all(tx.connection()).await?)?;
    let is_down = |row: &AvailabilityRow| {
        row.judged.stretches.iter().any(|stretch| matches!(stretch.state, State::Down(_)))
    };
    Ok(rows.into_iter().filter(is_down).collect())
}

/// The slots of a lease that have rows in `[from, to)`.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn slots(
    tx: &mut Tx,
    lease: LeaseKey,
    (from, to): (Hour, Hour),
) -> Result<BTreeSet<(NodeKey, SlotNo)>, StoreError> {
    let (tenant, lease) = lease.columns();
    let rows = sqlx::query!(
        "select distinct node_id, slot_no from availability
        where tenant_id = $1 and lease_id = $2 and hour >= $3 and hour < $4",
        tenant,
        lease,
        hour_column(from)?,
        hour_column(to)?
    )
    .fetch_all(tx.connection())
    .await?;
    let slots =
        rows.into_iter().map(|row| Ok((NodeKey::new(tenant, row.node_id), slot_no(row.slot_no)?)));
    slots.collect()
}

/// Contracted time of one hour by state, of all slots of a lease together, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HourStates {
    /// The hour.
    pub hour: Hour,
    /// Shown to have worked.
    pub up_ms: i64,
    /// Shown not to have worked, by any class.
    pub down_ms: i64,
    /// Neither is shown.
    pub unknown_ms: i64,
    /// Taken out of the account.
    pub excluded_ms: i64,
}

/// The states of a lease's hours in `[from, to)`, by the latest revisions; in order.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn by_hour(
    tx: &mut Tx,
    lease: LeaseKey,
    (from, to): (Hour, Hour),
) -> Result<Vec<HourStates>, StoreError> {
    let (tenant, lease) = lease.columns();
    let rows = sqlx::query!(
        r#"select hour, sum(up_ms) as "up_ms!",
            sum(down_e1_ms + down_e2_ms + down_e3_ms + down_e4_ms + down_e5_ms) as "down_ms!",
            sum(unknown_ms) as "unknown_ms!", sum(excluded_ms) as "excluded_ms!"
        from (
            select distinct on (node_id, slot_no, hour) * from availability
            where tenant_id = $1 and lease_id = $2 and hour >= $3 and hour < $4
            order by node_id, slot_no, hour, revision desc
        ) as latest
        where contracted_ms > 0 group by hour order by hour"#,
        tenant,
        lease,
        hour_column(from)?,
        hour_column(to)?
    )
    .fetch_all(tx.connection())
    .await?;
    let states = rows.into_iter().map(|row| HourStates {
        hour: Hour(i64::from(row.hour)),
        up_ms: row.up_ms,
        down_ms: row.down_ms,
        unknown_ms: row.unknown_ms,
        excluded_ms: row.excluded_ms,
    });
    Ok(states.collect())
}

fn collect(rows: Vec<Row>) -> Result<Vec<AvailabilityRow>, StoreError> {
    rows.into_iter().map(TryInto::try_into).collect()
}

fn column(name: &'static str) -> Column {
    Column("availability", name)
}
