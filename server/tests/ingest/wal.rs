//! What ingest makes PostgreSQL log: a number that no machine changes, and that grows when a row is
//! written twice, an index is added, or a statement comes back.
//!
//! The log is the whole server's, so this test has a server of its own. Full page images are off in
//! it: how many there are depends on when checkpoints come, not on what is written.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use leasewatch_core::evidence::chain::{HeadDraft, seal};
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::{
    Block, Column, GpuBlock, TrackPoint, TrackSource, UtilizationTrack,
};
use leasewatch_core::time::{Period, Timestamp};
use leasewatch_proto::v1::AgentMessage;
use leasewatch_server::embedded_postgres::{EmbeddedPostgres, SUPERUSER};
use leasewatch_server::store::{self, Db};

use crate::agent::{Agent, gpu, segment};
use crate::rig::{NOW, Rig};
use crate::support::{self, TestDb};

const GPUS: u8 = 8;
const SECONDS: i64 = 60;
/// Segments before the measured ones: the node, its slots and its chain are new in the first.
const BEFORE: usize = 2;
const MEASURED: usize = 10;
/// Values of the measured segments: utilization and the columns of each GPU.
const VALUES: i64 = 10 * 8 * 60 * 40;

/// Thousandths of a byte of log for each value. Measured: 477, of which 256 are what is kept.
const LOG_MAX: i64 = 600;
/// Bytes of log for each segment beside the blocks that it keeps: its head, rows, index entries and
/// the commit. Measured: 4,242.
const BESIDE_MAX: i64 = 5_300;

async fn own_server(base: &std::path::Path) -> (EmbeddedPostgres, TestDb) {
    let server = EmbeddedPostgres::start(support::throwaway(base)).await.unwrap();
    let (url, admin_url) =
        (server.url("leasewatch_login", "leasewatch"), server.url(SUPERUSER, "leasewatch"));
    store::create_database(&admin_url).await.unwrap();
    store::migrate(&admin_url).await.unwrap();
    let db = Db::connect(&url, 2).await.unwrap();
    (server, TestDb { db, url, admin_url })
}

/// Metrics of a block: those with the lowest codes.
fn metrics() -> &'static [Metric] {
    &Metric::ALL[..39]
}

/// A number of one metric at a second: a third stands still, a third moves a little, the rest
/// counts up with a step that changes, as real ones do.
fn number(place: usize, second: i64) -> i64 {
    let place = i64::try_from(place).unwrap();
    let noise = (second * 7_919 + place * 104_729).rem_euclid(1_009) % 16;
    match place % 3 {
        0 => 1,
        1 => noise % 2,
        _ => second * 20 + noise,
    }
}

fn gpu_block(index: u8, start: Timestamp, minute: i64) -> Block {
    let (uuid, bus_id) = gpu(1, index);
    let ticks: Vec<Timestamp> = (1..=SECONDS).map(|n| start.plus_ms(n * 1_000)).collect();
    let offset = minute * SECONDS + i64::from(index) * 3_600;
    let column = |(place, metric): (usize, &Metric)| {
        let at = |n| (number(place, offset + n) * metric.resolution()).min(metric.highest());
        let readings = (1..=SECONDS).map(|n| Some(Reading::Number(at(n))));
        Column { metric: *metric, readings: readings.collect() }
    };
    let busy = |n: usize| Reading::Number(100 - number(1, offset + i64::try_from(n).unwrap()));
    let points = ticks.iter().enumerate().map(|(n, at)| TrackPoint { at: *at, busy: busy(n) });
    let track =
        UtilizationTrack { source: TrackSource::Poll, period_ms: 1_000, points: points.collect() };
    let columns = metrics().iter().enumerate().map(column).collect();
    Block::Gpu(GpuBlock { uuid, bus_id, partition: None, ticks, track, columns })
}

/// The next minute of the node, with the bytes that are kept of it.
fn minute(agent: &mut Agent, number: i64) -> (AgentMessage, i64) {
    let blocks: Vec<Block> = (0..GPUS).map(|index| gpu_block(index, agent.at, number)).collect();
    let period = Period::new(agent.at, agent.at.plus_ms(SECONDS * 1_000));
    let sealed = seal(HeadDraft { period, ..agent.draft() }, &blocks, &agent.key).unwrap();
    agent.last = Some((sealed.signed.head.sequence, sealed.signed.head.hash()));
    agent.at = period.end;
    let kept: usize = sealed.blocks.iter().map(Vec::len).sum();
    (segment(&sealed), i64::try_from(kept).unwrap())
}

#[tokio::test]
async fn a_minute_of_a_node_costs_few_bytes_of_the_databases_log() {
    let base = tempfile::tempdir_in("/tmp").unwrap();
    fs::set_permissions(base.path(), fs::Permissions::from_mode(0o711)).unwrap();
    let (server, database) = own_server(base.path()).await;
    let db = database.db.clone();
    let rig = Rig::on(database, db, |_| ()).await;
    rig.administer("alter system set autovacuum = off").await;
    rig.administer("select pg_reload_conf()").await;
    let mut agent = Agent::new(1, NOW);
    agent.gpus = (0..GPUS).map(|index| gpu(1, index)).collect();
    let minutes: Vec<_> =
        (0..).take(BEFORE + MEASURED).map(|number| minute(&mut agent, number)).collect();
    let mut client = rig.join(&agent).await.unwrap();
    rig.clock.set(agent.at);
    let logged = "select (pg_current_wal_insert_lsn() - '0/0')::bigint";
    let (mut from, mut kept) = (0, 0);
    for (number, (message, bytes)) in minutes.into_iter().enumerate() {
        if number == BEFORE {
            rig.administer("checkpoint").await;
            from = rig.count(logged).await;
            kept = 0;
        }
        assert!(!client.ack(message).await.1);
        kept += bytes;
    }
    let log = rig.count(logged).await - from;
    let segments = i64::try_from(MEASURED).unwrap();
    let (each, beside) = (log * 1_000 / VALUES, (log - kept) / segments);
    eprintln!("log {log} B, kept {kept} B: {each} mB for a value, {beside} B beside a segment");
    assert!(kept < log && each <= LOG_MAX && beside <= BESIDE_MAX, "{each} {beside}");
    drop(rig);
    server.stop().await.unwrap();
}
