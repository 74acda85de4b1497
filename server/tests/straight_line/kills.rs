//! Ten kills of the server during ingest: no acknowledged segment is lost, none is stored twice.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ed25519_dalek::{Signer as _, SigningKey};
use leasewatch_core::evidence::chain::{
    ChainStart, ChainStartReason, ClockSource, ClockState, HeadDraft, SealedSegment, seal,
};
use leasewatch_core::evidence::statement::{StatementKind, sign};
use leasewatch_core::id::{BusId, ChainId, EpochId, GpuUuid, Hash, LifeUnitId, Sequence, Slug};
use leasewatch_core::sample::Reading;
use leasewatch_core::segment::{
    Block, GpuBlock, Origin, TrackPoint, TrackSource, UtilizationTrack,
};
use leasewatch_core::time::{Period, Timestamp};
use leasewatch_proto::convert::{
    ChainStartParts, Challenge, Claim, Hello, Proof, SegmentParts, Welcome,
};
use leasewatch_proto::v1::agent_message::Kind as ToServer;
use leasewatch_proto::v1::server_message::Kind as FromServer;
use leasewatch_proto::v1::telemetry_client::TelemetryClient;
use leasewatch_proto::v1::{AgentMessage, ServerMessage};
use leasewatch_server::embedded_postgres::EmbeddedPostgres;
use leasewatch_server::store::{Db, Scope, node, segment};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::process::{RunningServer, data_dir, eventually};

const KILLS: usize = 10;
/// Each segment is this long, so that many fit into the seconds that the test lasts.
const SEGMENT_MS: i64 = 20;
const IN_FLIGHT: u64 = 8;

/// A node whose segments are tiny and made as time passes.
struct TestNode {
    key: SigningKey,
    sealed: BTreeMap<u64, SealedSegment>,
    acked: u64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_kills_lose_no_acknowledged_segment_and_store_none_twice() {
    let data = data_dir();
    let mut node =
        TestNode { key: SigningKey::from_bytes(&[42; 32]), sealed: BTreeMap::new(), acked: 0 };
    for round in 0..KILLS {
        let server = RunningServer::start(data.path());
        let acks = 3 + (round as u64 * 7) % 25;
        node.deliver(&server, Until::MoreAcks(acks)).await;
        // The stream is still busy: what is on the wire now is what a kill can tear.
        server.kill();
    }
    let server = RunningServer::start(data.path());
    node.deliver(&server, Until::AllSealed).await;
    compare(data.path(), &node).await;
}

/// When a node stops sending.
#[derive(Clone, Copy)]
enum Until {
    /// So many more acknowledgements came; up to a window of segments is on its way then.
    MoreAcks(u64),
    /// Everything that was ever sealed is acknowledged.
    AllSealed,
}

/// Every sequence is stored exactly once, with the head and the block that were sent.
async fn compare(data_dir: &std::path::Path, node: &TestNode) {
    let url = EmbeddedPostgres::running_url(data_dir, "leasewatch_login", "leasewatch").unwrap();
    let db = Db::connect(&url, 1).await.unwrap();
    let mut tx = db.begin(Scope::Worker).await.unwrap();
    let row = node::list(&mut tx).await.unwrap().pop().unwrap();
    let everything = Period::new(Timestamp::MIN, Timestamp(now_ms() + 60_000));
    let heads = segment::heads(&mut tx, row.key, everything).await.unwrap();
    let place = segment::Place::Slot(leasewatch_core::id::SlotNo(0));
    let blocks = segment::blocks(&mut tx, row.key, place, everything).await.unwrap();
    let stored: Vec<u64> = heads.iter().map(|row| row.head.sequence.0).collect();
    let sent: Vec<u64> = node.sealed.keys().copied().collect();
    assert_eq!(stored, sent);
    assert_eq!(node.acked, *sent.last().unwrap());
    assert!(sent.len() > 50, "only {} segments were sent", sent.len());
    for (row, block) in heads.iter().zip(&blocks) {
        let sealed = &node.sealed[&row.head.sequence.0];
        assert_eq!(row.hash, sealed.signed.head.hash());
        assert_eq!(row.signature, sealed.signed.signature);
        assert_eq!((block.sequence, &block.body), (row.head.sequence, &sealed.blocks[0]));
    }
    assert_eq!(blocks.len(), heads.len());
}

impl TestNode {
    async fn deliver(&mut self, server: &RunningServer, until: Until) {
        let (outgoing, mut incoming, welcome) = self.open(server).await;
        // What the server holds is at least what it acknowledged; it may be more.
        assert!(welcome.cursor.sequence.0 >= self.acked, "an acknowledged segment is lost");
        self.acked = welcome.cursor.sequence.0;
        let (goal, last) = match until {
            Until::MoreAcks(more) => (self.acked + more, u64::MAX),
            Until::AllSealed => (self.sealed.len() as u64, self.sealed.len() as u64),
        };
        let mut next = self.acked + 1;
        while self.acked < goal {
            while next <= (self.acked + IN_FLIGHT).min(last) {
                let Some(segment) = self.segment(next, &welcome) else { break };
                let kind = ToServer::Segment(SegmentParts::from(segment).into_wire());
                outgoing.send(AgentMessage { kind: Some(kind) }).await.unwrap();
                next += 1;
            }
            tokio::select! {
                message = incoming.message() => match message.unwrap().unwrap().kind.unwrap() {
                    FromServer::Ack(ack) => {
                        assert!(!ack.rewind, "nothing was lost on the way");
                        self.acked = self.acked.max(ack.sequence);
                    }
                    FromServer::Refusal(refusal) => panic!("{}: {}", refusal.code, refusal.message),
                    _ => {}
                },
                // The next segment's time comes.
                () = tokio::time::sleep(Duration::from_millis(5)) => {}
            }
        }
    }

    async fn open(
        &self,
        server: &RunningServer,
    ) -> (mpsc::Sender<AgentMessage>, tonic::Streaming<ServerMessage>, Welcome) {
        let mut client = TelemetryClient::connect(server.url()).await.unwrap();
        let (outgoing, queue) = mpsc::channel(64);
        let mut incoming = client.stream(ReceiverStream::new(queue)).await.unwrap().into_inner();
        let hello = self.hello();
        let say = |kind| AgentMessage { kind: Some(kind) };
        outgoing.send(say(ToServer::Hello(hello.to_wire()))).await.unwrap();
        let FromServer::Challenge(wire) = kind(&mut incoming).await else { panic!("no challenge") };
        let challenge = Challenge::from_wire(&wire).unwrap();
        let signature =
            self.key.sign(&challenge.proof_message(&hello, &Claim::default())).to_bytes();
        outgoing
            .send(say(ToServer::Proof(Proof { signature, claim: Claim::default() }.to_wire())))
            .await
            .unwrap();
        let FromServer::Welcome(wire) = kind(&mut incoming).await else { panic!("no welcome") };
        let welcome = Welcome::from_wire(&wire).unwrap();
        if welcome.start_wanted {
            let start = ChainStart {
                node: welcome.node,
                chain: hello.chain,
                at: welcome.server_time,
                reason: ChainStartReason::Joined,
            };
            let statement = start.statement();
            let signature = sign(StatementKind::ChainStart, &statement, &self.key);
            let start = ChainStartParts { statement, signature };
            outgoing.send(say(ToServer::ChainStart(start.into_wire()))).await.unwrap();
        }
        (outgoing, incoming, welcome)
    }

    fn hello(&self) -> Hello {
        let (oldest, newest) = (self.sealed.keys().next(), self.sealed.keys().next_back());
        Hello {
            public_key: self.key.verifying_key().to_bytes(),
            client_nonce: [7; 32],
            chain: ChainId([1; 16]),
            epoch: EpochId([2; 8]),
            life_unit: LifeUnitId([3; 16]),
            oldest: oldest.copied().map(Sequence),
            newest: newest.copied().map(Sequence),
            tenant: Slug::new("default").unwrap(),
            provider: Slug::new("provider-a").unwrap(),
            node_name: "killed".to_owned(),
            origin: Origin::Simulated,
            agent_version: "0".to_owned(),
        }
    }

    /// The segment with this sequence: an old one as it was sealed, a new one as soon as its time
    /// has come.
    fn segment(&mut self, sequence: u64, welcome: &Welcome) -> Option<&SealedSegment> {
        if !self.sealed.contains_key(&sequence) {
            let before = self.sealed.get(&(sequence - 1));
            let start = before.map_or(welcome.server_time, |s| s.signed.head.period.end);
            let period = Period::new(start, start.plus_ms(SEGMENT_MS));
            if period.end.0 > now_ms() {
                return None;
            }
            let previous = before.map(|s| s.signed.head.hash());
            let sealed = self.seal(Sequence(sequence), period, previous, welcome);
            self.sealed.insert(sequence, sealed);
        }
        self.sealed.get(&sequence)
    }

    fn seal(
        &self,
        sequence: Sequence,
        period: Period,
        previous: Option<Hash>,
        welcome: &Welcome,
    ) -> SealedSegment {
        let hello = self.hello();
        let clock = ClockState {
            anchor_wall: period.start,
            anchor_boot_ms: period.start.0,
            offset_ms: None,
            bound_ms: None,
            source: ClockSource::Unknown,
        };
        let draft = HeadDraft {
            tenant: hello.tenant,
            node: welcome.node,
            chain: hello.chain,
            epoch: hello.epoch,
            life_unit: hello.life_unit,
            sequence,
            period,
            cadence_ms: 100,
            origin: Origin::Simulated,
            gpu_count: 1,
            previous,
            clock,
            checkpoint: None,
            agent_version: "0".to_owned(),
            agent_digest: None,
        };
        let at = |ms: i64| TrackPoint {
            at: period.start.plus_ms(ms),
            busy: Reading::Number((sequence.0 % 101).cast_signed()),
        };
        let block = GpuBlock {
            uuid: GpuUuid::new("GPU-killed").unwrap(),
            bus_id: BusId::new("00000000:01:00.0").unwrap(),
            partition: None,
            ticks: Vec::new(),
            track: UtilizationTrack {
                source: TrackSource::Poll,
                period_ms: 10,
                points: vec![at(10), at(20)],
            },
            columns: Vec::new(),
        };
        seal(draft, &[Block::Gpu(block)], &self.key).unwrap()
    }
}

async fn kind(incoming: &mut tonic::Streaming<ServerMessage>) -> FromServer {
    incoming.message().await.unwrap().unwrap().kind.unwrap()
}

#[expect(clippy::disallowed_methods, reason = "the test plays a node, which has a clock")]
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
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
