//! R4: two hundred nodes come back after six hours without a server. Nobody is turned away, and
//! the live state is right while the backlogs drain.
//!
//! A backlog here is a segment for each quarter of an hour and not for each minute, so that it takes
//! seconds. Each node keeps the last one until the live state of all is right: the backlogs cannot
//! have drained before. `core::delivery::backoff` has the spreading of the reconnects.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use leasewatch_core::id::{BusId, GpuUuid};
use leasewatch_core::sample::Reading;
use leasewatch_core::time::{HOUR_MS, Timestamp};
use leasewatch_proto::convert::{Claim, LiveFrame, LiveGpu};
use leasewatch_proto::v1::server_message::Kind as FromServer;
use tokio::sync::watch;

use crate::kills::compare;
use crate::process::{RunningServer, data_dir};
use crate::wire_node::{Broken, WireNode, WireStream, now_ms};

const NODES: u8 = 200;
/// Quarters of an hour.
const BACKLOG: u64 = 24;
const IN_FLIGHT: u64 = 8;
/// What every live frame says; no segment does.
const BUSY_PCT: i64 = 41;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_that_returns_is_live_before_its_backlog_is_there() {
    assert_eq!(returned(None, NODES, Duration::from_secs(60)).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_live_lane_waits_for_the_backlog_is_noticed() {
    let patience = Duration::from_secs(8);
    let broken = returned(Some("live_behind_backlog"), 10, patience).await;
    assert!(broken.as_ref().is_err_and(|broken| broken.contains("live")), "{broken:?}");
}

async fn returned(promise: Option<&str>, count: u8, patience: Duration) -> Result<(), Broken> {
    let data = data_dir();
    let server = RunningServer::start_broken(data.path(), promise).unwrap();
    let mut nodes: Vec<WireNode> = (1..=count).map(WireNode::new).collect();
    let begin = Timestamp(now_ms() - 6 * HOUR_MS);
    nodes.iter_mut().for_each(|node| node.record(BACKLOG, begin, HOUR_MS / 4));
    let (tell, shown) = watch::channel(None);
    let delivered = AtomicU64::new(0);
    let url = server.url();
    let returning = join_all(nodes.iter_mut().map(|node| {
        let (url, shown, delivered) = (&url, shown.clone(), &delivered);
        async move { come_back(node, url, (shown, delivered)).await }
    }));
    let looking = async {
        let began = Instant::now();
        let is_shown = loop {
            if is_live(&server, count).await {
                break true;
            }
            if began.elapsed() > patience {
                break false;
            }
        };
        let segments = delivered.load(Ordering::Relaxed);
        eprintln!("{count} nodes after {:?}, {segments} segments: {is_shown}", began.elapsed());
        tell.send_replace(Some(is_shown));
        if is_shown { Ok(()) } else { Err("the live state is not right".to_owned()) }
    };
    let (returned, looked) = tokio::join!(returning, looking);
    returned.into_iter().chain([looked]).find_map(Result::err).map_or(Ok(()), Err)?;
    compare(data.path(), &nodes).await
}

/// Whether the overview shows each node as up and each GPU as busy as its last frame says.
async fn is_live(server: &RunningServer, count: u8) -> bool {
    let overview = tokio::task::block_in_place(|| server.json("/overview.json"));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let totals = &overview["totals"];
    let is = |key: &str, number: i64| totals[key] == number;
    is("nodes_up", i64::from(count))
        && is("gpus_live", i64::from(count))
        && is("busy_now_pct", BUSY_PCT)
}

/// Delivers on one stream, with a live frame each 200 ms as while a page watches.
async fn come_back(
    node: &mut WireNode,
    url: &str,
    (mut shown, delivered): (watch::Receiver<Option<bool>>, &AtomicU64),
) -> Result<(), Broken> {
    let in_words = |status: tonic::Status| format!("{:?}: {}", status.code(), status.message());
    let mut stream = node.open(url, Claim::default()).await.map_err(in_words)?;
    let mut frames = tokio::time::interval(Duration::from_millis(200));
    let mut next = 1;
    while node.acked() < BACKLOG {
        // The last one is kept until the live state was looked at.
        let last = if shown.borrow().is_some() { BACKLOG } else { BACKLOG - 1 };
        while next <= (node.acked() + IN_FLIGHT).min(last) {
            stream.send_segment(&node.sealed[&next]).await.map_err(in_words)?;
            next += 1;
        }
        tokio::select! {
            _ = frames.tick() => show(node, &stream).await.map_err(in_words)?,
            changed = shown.changed() => changed.map_err(|error| error.to_string())?,
            message = stream.next() => match message.map_err(in_words)? {
                FromServer::Ack(ack) if ack.rewind => return Err("rewound".to_owned()),
                FromServer::Ack(ack) => {
                    let new = ack.sequence.saturating_sub(node.acked());
                    delivered.fetch_add(new, Ordering::Relaxed);
                    node.acked.send_replace(node.acked() + new);
                }
                FromServer::Refusal(refusal) => return Err(refusal.code),
                _ => {}
            },
        }
    }
    Ok(())
}

async fn show(node: &WireNode, stream: &WireStream) -> Result<(), tonic::Status> {
    let gpu = LiveGpu {
        uuid: GpuUuid::new(&node.gpu()).unwrap(),
        bus_id: BusId::new("00000000:01:00.0").unwrap(),
        name: String::new(),
        busy_pct: Some(Reading::Number(BUSY_PCT)),
        memory_used_mib: None,
        memory_total_mib: None,
        power_draw_mw: None,
        power_limit_mw: None,
        temperature_c: None,
        sm_clock_mhz: None,
        clock_event_reasons: None,
        stalled_ms: 0,
        lost: false,
    };
    let frame = LiveFrame {
        at: Timestamp(now_ms()),
        gpus: vec![gpu],
        backlog_segments: BACKLOG - node.acked(),
        cpu_busy_permille: None,
        host_memory_used_mib: None,
        host_memory_total_mib: None,
        agent_rss_kib: None,
        nvml_unavailable: false,
    };
    stream.send_frame(&frame).await
}
