//! D1: thirty kills of server, PostgreSQL, or both during ingest; no acknowledged segment is lost,
//! none is stored twice.

use std::collections::BTreeMap;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::try_join_all;
use leasewatch_core::id::SlotNo;
use leasewatch_core::time::{Period, Timestamp};
use leasewatch_server::embedded_postgres::EmbeddedPostgres;
use leasewatch_server::store::{Db, Scope, node, segment};
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::watch;

use crate::process::{RunningServer, data_dir, eventually};
use crate::wire_node::{Broken, Until, WireNode, now_ms};

const KILLS: u32 = 30;
const NODES: u8 = 3;

/// What is killed with SIGKILL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    /// The server; the kernel tells its PostgreSQL to end.
    Server,
    /// PostgreSQL's first process, which takes the server with it.
    Postmaster,
    /// The process behind one connection: PostgreSQL recovers, the server lives on.
    Backend,
    /// Server and PostgreSQL's first process at once.
    Both,
}

const VICTIMS: [Victim; 4] = [Victim::Server, Victim::Postmaster, Victim::Backend, Victim::Both];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thirty_kills_lose_no_acknowledged_segment_and_store_none_twice() {
    let is_campaign = std::env::var_os("LEASEWATCH_CAMPAIGN").is_some();
    let (broken, fired) = kill_again_and_again(None, if is_campaign { 300 } else { KILLS }).await;
    assert_eq!(broken, None);
    assert!(VICTIMS.iter().all(|victim| fired[victim] >= 5), "{fired:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_acknowledges_before_it_commits_is_noticed() {
    let (broken, fired) = kill_again_and_again(Some("ack_before_commit"), 8).await;
    let broken = broken.unwrap_or_else(|| panic!("not noticed after {fired:?}"));
    assert!(broken.contains("was acknowledged"), "{broken}");
}

/// Kills while three nodes deliver, restarts, and looks. Returns what was broken, if anything, and
/// how often what was killed.
async fn kill_again_and_again(
    promise: Option<&str>,
    kills: u32,
) -> (Option<Broken>, BTreeMap<Victim, u32>) {
    let data = data_dir();
    let mut nodes: Vec<WireNode> = (1..=NODES).map(WireNode::new).collect();
    let mut dice = Dice(0x5eed);
    let mut fired = BTreeMap::new();
    let mut running = None;
    let start = || RunningServer::start_broken(data.path(), promise).unwrap();
    for number in 0..kills {
        let victim = VICTIMS[number as usize % VICTIMS.len()];
        let server = running.take().unwrap_or_else(start);
        let broken = deliver_and_kill(&mut nodes, &server, (victim, &mut dice)).await;
        if broken.is_some() {
            return (broken, fired);
        }
        *fired.entry(victim).or_default() += 1;
        running = match victim {
            Victim::Backend => Some(server),
            Victim::Server | Victim::Postmaster | Victim::Both => {
                server.ended();
                None
            }
        };
    }
    let server = running.take().unwrap_or_else(start);
    for node in &mut nodes {
        while node.acked() < node.sealed.len() as u64 {
            if let Err(broken) = node.deliver(&server.url(), &Until::AllSealed).await {
                return (Some(broken), fired);
            }
        }
    }
    (compare(data.path(), &nodes).await.err(), fired)
}

/// Lets the nodes deliver until one has some more acknowledgements, and kills a moment later.
async fn deliver_and_kill(
    nodes: &mut [WireNode],
    server: &RunningServer,
    (victim, dice): (Victim, &mut Dice),
) -> Option<Broken> {
    let (tell, told) = watch::channel(false);
    let (mut acked, goal) = (nodes[0].acked.subscribe(), nodes[0].acked() + 1 + dice.below(6));
    let url = server.url();
    let mut delivering = pin!(try_join_all(nodes.iter_mut().map(|node| async {
        let until = Until::Told(told.clone());
        // A stream that ends before the kill is opened again, as agents do.
        while !*told.borrow() {
            node.deliver(&url, &until).await?;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    })));
    let killing = async {
        let reached = acked.wait_for(|acked| *acked >= goal);
        // Without what the wait returns: it holds a lock that whoever delivers waits for.
        let reached = tokio::time::timeout(Duration::from_secs(60), reached).await.map(|_| ());
        // What is on the wire and in the writer now is what a kill can tear.
        tokio::time::sleep(Duration::from_millis(dice.below(60))).await;
        kill(victim, server);
        tell.send_replace(true);
        reached
    };
    let killed = tokio::select! {
        delivered = &mut delivering => return delivered.err(),
        killed = killing => killed,
    };
    let delivered: Result<Vec<()>, Broken> = delivering.await;
    let is_idle = killed.is_err().then(|| "nothing was acknowledged within a minute".to_owned());
    delivered.err().or(is_idle)
}

fn kill(victim: Victim, server: &RunningServer) {
    let postmaster = eventually("PostgreSQL", || child_of(server.pid(), "postgres"));
    let strike = |pid| kill_process(pid, Signal::KILL).unwrap();
    match victim {
        Victim::Server => strike(server.pid()),
        Victim::Postmaster => strike(postmaster),
        Victim::Backend => {
            let backend = || child_of(postmaster, "leasewatch_login");
            strike(eventually("a connection", backend));
        }
        Victim::Both => {
            strike(server.pid());
            strike(postmaster);
        }
    }
}

/// A child of a process whose command line has this word.
fn child_of(parent: Pid, word: &str) -> Option<Pid> {
    let children = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let of: i32 = stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()?;
        (of == parent.as_raw_pid()).then_some(pid)
    });
    let says = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    };
    children.into_iter().find(says).and_then(Pid::from_raw)
}

/// Every sequence is stored exactly once, with the head and the block that were sent.
///
/// # Errors
/// What is not.
pub(crate) async fn compare(data_dir: &Path, nodes: &[WireNode]) -> Result<(), Broken> {
    let url = EmbeddedPostgres::running_url(data_dir, "leasewatch_login", "leasewatch").unwrap();
    let db = Db::connect(&url, 1).await.unwrap();
    let mut tx = db.begin(Scope::Worker).await.unwrap();
    let everything = Period::new(Timestamp::MIN, Timestamp(now_ms() + 60_000));
    for node in nodes {
        let row = node::by_public_id(&mut tx, node.id()).await.unwrap();
        let row = row.ok_or("a node that was welcomed is gone")?;
        let heads = segment::heads(&mut tx, row.key, everything).await.unwrap();
        let place = segment::Place::Slot(SlotNo(0));
        let blocks = segment::blocks(&mut tx, row.key, place, everything).await.unwrap();
        let stored: Vec<u64> = heads.iter().map(|row| row.head.sequence.0).collect();
        let sent: Vec<u64> = node.sealed.keys().copied().collect();
        if stored != sent || blocks.len() != heads.len() {
            return Err(format!("sent {sent:?}, stored {stored:?}, {} blocks", blocks.len()));
        }
        assert!(sent.len() > 20, "only {} segments were sent", sent.len());
        for (row, block) in heads.iter().zip(&blocks) {
            let sealed = &node.sealed[&row.head.sequence.0];
            let is_same = row.hash == sealed.signed.head.hash()
                && row.signature == sealed.signed.signature
                && (block.sequence, &block.body) == (row.head.sequence, &sealed.blocks[0]);
            if !is_same {
                return Err(format!("{:?} was stored as something else", row.head.sequence));
            }
        }
    }
    Ok(())
}

/// Numbers that look random, the same in each run.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Kept here so that a server that does not come back is named.
#[test]
fn a_server_serves_its_empty_pages() {
    let data = data_dir();
    let server = RunningServer::start(data.path());
    eventually("an empty overview", || {
        Some(server.get("/?lang=en")).filter(|page| page.contains("leasewatch-agent"))
    });
    assert_eq!(server.ask("/nodes/00000000000000000000000000000000").0, 404);
    assert_eq!(server.ask("/nodes/../etc").0, 404);
    assert_eq!(server.ask("/?tz=Mars").0, 400);
    assert_eq!(server.ask("/hours.csv?from=2026-13-01&to=2026-01-01").0, 400);
    assert_eq!(server.ask("/hours.csv?from=2026-02-01&to=2026-01-01").0, 400);
    server.kill();
}
