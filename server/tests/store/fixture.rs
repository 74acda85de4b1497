//! Nodes, heads and hours to test with.

#![expect(clippy::unwrap_used, reason = "what does not work here fails the test")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use leasewatch_core::evidence::chain::{ClockSource, ClockState, Head};
use leasewatch_core::id::{
    BusId, ChainId, EpochId, GpuUuid, Hash, LifeUnitId, Sequence, SlotNo, Slug,
};
use leasewatch_core::metering::{HourProfile, HourRecord, HourState};
use leasewatch_core::segment::{Event, EventKind, Origin, Partition};
use leasewatch_core::time::{HOUR_MS, Hour, Period, Timestamp};
use leasewatch_server::store::chain::CursorStep;
use leasewatch_server::store::event::NewEvents;
use leasewatch_server::store::gpu::Sight;
use leasewatch_server::store::hour::NewHour;
use leasewatch_server::store::node::{NewNode, NodeRow};
use leasewatch_server::store::segment::{NewBlock, NewSegment, Place};
use leasewatch_server::store::{
    Db, Scope, StoreError, chain, event, gpu, hour, node, partition, provider, segment, slot,
    tenant,
};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use tempfile::TempDir;

/// An hour of 2026, and its first instant.
pub(crate) const HOUR: Hour = Hour(495_900);
pub(crate) const AT: Timestamp = Timestamp(495_900 * HOUR_MS);

/// A directory that the account of PostgreSQL may pass through.
pub(crate) fn base_dir() -> TempDir {
    let mode = Permissions::from_mode(0o711);
    tempfile::Builder::new().permissions(mode).tempdir().unwrap()
}

pub(crate) fn slug(text: &str) -> Slug {
    Slug::new(text).unwrap()
}

pub(crate) fn uuid(seed: u8) -> GpuUuid {
    GpuUuid::new(&format!("GPU-{seed:04}")).unwrap()
}

/// A node of a tenant, named by the seed, with one slot and one GPU.
pub(crate) async fn enrol(db: &Db, tenant_slug: &str, seed: u8, origin: Origin) -> NodeRow {
    let mut tx = db.begin(Scope::Ingest).await.unwrap();
    let tenant = tenant::ensure(&mut tx, &slug(tenant_slug), tenant_slug).await.unwrap();
    let provider = provider::ensure(&mut tx, &slug("default"), "unused").await.unwrap();
    let new = NewNode {
        tenant: tenant.key,
        provider: provider.key,
        public_key: &[seed; 32],
        name: &format!("node-{seed}"),
        origin,
        at: AT,
    };
    let row = node::enroll_first_use(&mut tx, new).await.unwrap();
    let place = leasewatch_core::segment::Place::of(&BusId::new("00000000:18:00.0").unwrap(), None);
    let slot = slot::bind(&mut tx, row.key, &place, AT).await.unwrap();
    gpu::see(&mut tx, &[sight(&row, slot, (&uuid(seed), None), AT)]).await.unwrap();
    tx.commit().await.unwrap();
    row
}

/// A GPU, or a slice of one, that was seen in a slot at one instant.
pub(crate) fn sight<'a>(
    row: &NodeRow,
    slot: SlotNo,
    (uuid, partition): (&'a GpuUuid, Option<&'a Partition>),
    at: Timestamp,
) -> Sight<'a> {
    Sight { node: row.key, uuid, slot, partition, first_at: at, last_at: at }
}

/// A head of a minute of that node: sequence 1 begins at [`AT`].
pub(crate) fn head(node: &NodeRow, sequence: u64) -> Head {
    let start = AT.plus_ms(i64::try_from(sequence - 1).unwrap() * 60_000);
    Head {
        tenant: node.tenant.clone(),
        node: node.id,
        chain: ChainId([7; 16]),
        epoch: EpochId([8; 8]),
        life_unit: LifeUnitId([9; 16]),
        sequence: Sequence(sequence),
        period: Period::new(start, start.plus_ms(60_000)),
        cadence_ms: 1_000,
        origin: node.origin,
        gpu_count: 1,
        block_count: 2,
        root: Hash([1; 32]),
        previous: (sequence > 1).then_some(Hash([2; 32])),
        clock: ClockState {
            anchor_wall: start,
            anchor_boot_ms: 5_000,
            offset_ms: None,
            bound_ms: None,
            source: ClockSource::Ntp,
        },
        checkpoint: None,
        agent_version: "0.1.0".to_owned(),
        agent_digest: None,
    }
}

/// What ingest does with one segment, partitions included.
pub(crate) async fn store(db: &Db, row: &NodeRow, head: &Head) {
    partition::ensure(db, Period::new(head.period.start, head.period.end.plus_ms(1)))
        .await
        .unwrap();
    insert(db, row, head).await.unwrap();
}

/// The same without making partitions.
pub(crate) async fn insert(db: &Db, row: &NodeRow, head: &Head) -> Result<(), StoreError> {
    let mut tx = db.begin(Scope::Ingest).await?;
    chain::lock(&mut tx, &[(row.key, head.chain)]).await?;
    let signature = [3; 64];
    let hash = head.hash();
    let new = NewSegment { node: row.key, head, hash, signature: &signature, received_at: AT };
    segment::insert(&mut tx, &[new]).await?;
    let gpu = uuid(row.name.trim_start_matches("node-").parse().unwrap());
    let blocks = [
        (Place::Slot(SlotNo(0)), Some(&gpu), &b"gpu block"[..]),
        (Place::Events, None, &b"events block"[..]),
    ];
    let blocks =
        blocks.map(|(place, gpu, body)| NewBlock { node: row.key, head, place, gpu, body });
    segment::insert_blocks(&mut tx, &blocks).await?;
    let xid = Event::new(head.period.start, Some(gpu.clone()), EventKind::Xid { code: 79 });
    let (chain, sequence) = (head.chain, head.sequence);
    event::insert(&mut tx, &[NewEvents { node: row.key, chain, sequence, events: &[xid] }]).await?;
    let step = CursorStep { sequence: head.sequence, head_hash: hash, period: head.period };
    chain::advance(&mut tx, &[(row.key, head.chain, step)]).await?;
    tx.commit().await
}

/// A record of the node's GPU: half of the hour measured, all of that at 40 %.
pub(crate) fn record(seed: u8, hour: Hour, origin: Origin) -> HourRecord {
    let mut record = HourRecord::empty(hour, uuid(seed), origin);
    record.enrolled_ms = HOUR_MS;
    record.histogram.add(40, HOUR_MS / 2);
    record
}

/// Writes one revision of the node's hour, partitions included.
pub(crate) async fn put_hour(
    db: &Db,
    row: &NodeRow,
    record: &HourRecord,
    state: HourState,
    revision: u32,
) -> Result<(), StoreError> {
    partition::ensure(db, record.hour.period()).await.unwrap();
    let mut tx = db.begin(Scope::Worker).await?;
    let profile = HourProfile::empty();
    let new = NewHour {
        node: row.key,
        slot: SlotNo(0),
        revision,
        state,
        record,
        profile: &profile,
        hash: Hash([4; 32]),
        previous: (revision > 1).then_some(Hash([5; 32])),
        written_at: AT,
    };
    hour::put(&mut tx, &[new]).await?;
    tx.commit().await
}

/// A connection of its own, to say what the store has no function for.
pub(crate) async fn connect(url: &str) -> PgConnection {
    PgConnection::connect(url).await.unwrap()
}

/// Runs statements as one message; the SQLSTATE where the database refuses.
pub(crate) async fn run(connection: &mut PgConnection, sql: &str) -> Result<(), String> {
    let result = connection.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await;
    result.map(|_| ()).map_err(|error| sqlstate(&error))
}

/// The one number that a query gives.
pub(crate) async fn number(connection: &mut PgConnection, sql: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(connection).await.unwrap()
}

/// The texts of a query's only column.
pub(crate) async fn texts(connection: &mut PgConnection, sql: &str) -> Vec<String> {
    sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_all(connection).await.unwrap()
}

pub(crate) fn sqlstate(error: &sqlx::Error) -> String {
    let code = error.as_database_error().and_then(|error| error.code());
    code.map_or_else(|| error.to_string(), |code| code.into_owned())
}
