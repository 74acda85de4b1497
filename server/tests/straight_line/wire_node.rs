//! A node made of nothing but its wire protocol: tiny segments, made as time passes, and a memory
//! of every acknowledgement.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ed25519_dalek::{Signer as _, SigningKey};
use leasewatch_core::delivery::ClockEstimate;
use leasewatch_core::evidence::chain::{
    ChainStart, ChainStartReason, ClockSource, ClockState, HeadDraft, SealedSegment, seal,
};
use leasewatch_core::evidence::statement::{StatementKind, sign};
use leasewatch_core::id::{
    BusId, ChainId, EpochId, GpuUuid, KeyId, LifeUnitId, NodeId, Sequence, Slug,
};
use leasewatch_core::sample::Reading;
use leasewatch_core::segment::{
    Block, GpuBlock, Origin, TrackPoint, TrackSource, UtilizationTrack,
};
use leasewatch_core::time::{Period, Timestamp};
use leasewatch_proto::convert::{
    ChainStartParts, Challenge, Claim, Hello, LiveFrame, Proof, SegmentParts, Welcome,
};
use leasewatch_proto::v1::agent_message::Kind as ToServer;
use leasewatch_proto::v1::server_message::Kind as FromServer;
use leasewatch_proto::v1::telemetry_client::TelemetryClient;
use leasewatch_proto::v1::{AgentMessage, ServerMessage};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

/// Each segment is this long, so that many fit into the seconds that a test lasts.
const SEGMENT_MS: i64 = 20;
const IN_FLIGHT: u64 = 8;

/// What a server did that it had promised not to.
pub(crate) type Broken = String;

/// A node whose segments are tiny.
pub(crate) struct WireNode {
    key: SigningKey,
    name: String,
    pub(crate) chain: ChainId,
    reason: ChainStartReason,
    /// What it says of its clock.
    clock: Option<ClockEstimate>,
    /// Everything that was ever sealed.
    pub(crate) sealed: BTreeMap<u64, SealedSegment>,
    /// The last sequence that was acknowledged, for whoever waits for it.
    pub(crate) acked: watch::Sender<u64>,
}

/// When a node stops sending.
pub(crate) enum Until {
    /// It was told to; up to a window of segments is on its way then.
    Told(watch::Receiver<bool>),
    /// Everything that was ever sealed is acknowledged.
    AllSealed,
}

/// A stream whose two ends have proven themselves.
pub(crate) struct WireStream {
    outgoing: mpsc::Sender<AgentMessage>,
    incoming: tonic::Streaming<ServerMessage>,
    pub(crate) welcome: Welcome,
}

impl WireNode {
    pub(crate) fn new(seed: u8) -> Self {
        Self {
            key: SigningKey::from_bytes(&[seed; 32]),
            name: format!("wire-{seed}"),
            chain: ChainId([seed; 16]),
            reason: ChainStartReason::Joined,
            clock: None,
            sealed: BTreeMap::new(),
            acked: watch::Sender::new(0),
        }
    }

    /// One that knows how wrong its clock is.
    pub(crate) fn with_clock(self, offset_ms: i64, bound_ms: i64) -> Self {
        Self { clock: Some(ClockEstimate { offset_ms, bound_ms }), ..self }
    }

    /// The key on another machine, where the chain is another one.
    pub(crate) fn copied(&self) -> Self {
        let chain = ChainId(self.chain.0.map(|byte| byte ^ 0xff));
        let reason = ChainStartReason::LostState;
        Self { key: self.key.clone(), chain, reason, ..Self::new(0) }
    }

    pub(crate) fn id(&self) -> NodeId {
        KeyId::of_public_key(&self.key.verifying_key().to_bytes()).first_node_id()
    }

    pub(crate) fn acked(&self) -> u64 {
        *self.acked.borrow()
    }

    /// Delivers until it is told to stop, or the stream ends, as it does when a server dies.
    ///
    /// # Errors
    /// What the server broke.
    pub(crate) async fn deliver(&mut self, url: &str, until: &Until) -> Result<(), Broken> {
        let Ok(mut stream) = self.open(url, Claim::default()).await else { return Ok(()) };
        let cursor = stream.welcome.cursor.sequence.0;
        // What the server holds is at least what it acknowledged; it may be more.
        if cursor < self.acked() {
            return Err(format!("{} was acknowledged, and {cursor} is stored", self.acked()));
        }
        self.acked.send_replace(cursor);
        let last = match until {
            Until::Told(_) => u64::MAX,
            Until::AllSealed => self.sealed.len() as u64,
        };
        let mut next = cursor + 1;
        loop {
            match until {
                Until::Told(told) if *told.borrow() => return Ok(()),
                Until::AllSealed if self.acked() == last => return Ok(()),
                _ => {}
            }
            while next <= (self.acked() + IN_FLIGHT).min(last) {
                let Some(segment) = self.segment(next, &stream.welcome) else { break };
                if stream.send_segment(segment).await.is_err() {
                    return Ok(());
                }
                next += 1;
            }
            tokio::select! {
                message = stream.next() => match message {
                    Ok(FromServer::Ack(ack)) if ack.rewind => {
                        return Err("the server asks for what was sent in order".to_owned());
                    }
                    Ok(FromServer::Ack(ack)) => {
                        self.acked.send_replace(self.acked().max(ack.sequence));
                    }
                    Ok(FromServer::Refusal(refusal)) => {
                        return Err(format!("{}: {}", refusal.code, refusal.message));
                    }
                    Ok(_) => {}
                    Err(_) => return Ok(()),
                },
                // The next segment's time comes.
                () = tokio::time::sleep(Duration::from_millis(5)) => {}
            }
        }
    }

    /// Opens a stream, proves the key, and begins the chain if the server asks for it.
    ///
    /// # Errors
    /// The status with which the server turned it away.
    pub(crate) async fn open(&self, url: &str, claim: Claim) -> Result<WireStream, Status> {
        let unreachable = |error: tonic::transport::Error| Status::unavailable(error.to_string());
        let mut client = TelemetryClient::connect(url.to_owned()).await.map_err(unreachable)?;
        let (outgoing, queue) = mpsc::channel(64);
        let hello = self.hello();
        send(&outgoing, ToServer::Hello(hello.to_wire())).await?;
        let mut incoming = client.stream(ReceiverStream::new(queue)).await?.into_inner();
        let FromServer::Challenge(wire) = next(&mut incoming).await? else {
            panic!("no challenge")
        };
        let challenge = Challenge::from_wire(&wire).unwrap();
        let signature = self.key.sign(&challenge.proof_message(&hello, &claim)).to_bytes();
        send(&outgoing, ToServer::Proof(Proof { signature, claim }.to_wire())).await?;
        let FromServer::Welcome(wire) = next(&mut incoming).await? else { panic!("no welcome") };
        let welcome = Welcome::from_wire(&wire).unwrap();
        if welcome.start_wanted {
            let start = ChainStart {
                node: welcome.node,
                chain: hello.chain,
                at: welcome.server_time,
                reason: self.reason,
            };
            let statement = start.statement();
            let signature = sign(StatementKind::ChainStart, &statement, &self.key);
            let start = ChainStartParts { statement, signature };
            send(&outgoing, ToServer::ChainStart(start.into_wire())).await?;
        }
        Ok(WireStream { outgoing, incoming, welcome })
    }

    fn hello(&self) -> Hello {
        let (oldest, newest) = (self.sealed.keys().next(), self.sealed.keys().next_back());
        Hello {
            public_key: self.key.verifying_key().to_bytes(),
            client_nonce: [7; 32],
            chain: self.chain,
            epoch: EpochId([2; 8]),
            life_unit: LifeUnitId([3; 16]),
            oldest: oldest.copied().map(Sequence),
            newest: newest.copied().map(Sequence),
            tenant: Slug::new("default").unwrap(),
            provider: Slug::new("provider-a").unwrap(),
            node_name: self.name.clone(),
            origin: Origin::Simulated,
            agent_version: "0".to_owned(),
        }
    }

    /// The segment with this sequence: an old one as it was sealed, a new one as soon as its time
    /// has come.
    pub(crate) fn segment(&mut self, sequence: u64, welcome: &Welcome) -> Option<&SealedSegment> {
        if !self.sealed.contains_key(&sequence) {
            let before = self.sealed.get(&(sequence - 1));
            let start = before.map_or(welcome.server_time, |s| s.signed.head.period.end);
            let period = Period::new(start, start.plus_ms(SEGMENT_MS));
            if period.end.0 > now_ms() {
                return None;
            }
            let sealed = self.seal(sequence, period);
            self.sealed.insert(sequence, sealed);
        }
        self.sealed.get(&sequence)
    }

    /// Seals what it recorded without a server: so many segments, one each `every_ms`.
    pub(crate) fn record(&mut self, count: u64, begin: Timestamp, every_ms: i64) {
        let mut start = begin;
        for sequence in 1..=count {
            let sealed = self.seal(sequence, Period::new(start, start.plus_ms(SEGMENT_MS)));
            self.sealed.insert(sequence, sealed);
            start = start.plus_ms(every_ms);
        }
    }

    /// The name of its one GPU.
    pub(crate) fn gpu(&self) -> String {
        format!("GPU-{}", self.name)
    }

    fn seal(&self, sequence: u64, period: Period) -> SealedSegment {
        let hello = self.hello();
        let clock = ClockState {
            anchor_wall: period.start,
            anchor_boot_ms: period.start.0,
            offset_ms: self.clock.map(|clock| clock.offset_ms),
            bound_ms: self.clock.map(|clock| clock.bound_ms),
            source: ClockSource::Unknown,
        };
        let draft = HeadDraft {
            tenant: hello.tenant,
            node: self.id(),
            chain: hello.chain,
            epoch: hello.epoch,
            life_unit: hello.life_unit,
            sequence: Sequence(sequence),
            period,
            cadence_ms: 100,
            origin: Origin::Simulated,
            gpu_count: 1,
            previous: self.sealed.get(&(sequence - 1)).map(|s| s.signed.head.hash()),
            clock,
            checkpoint: None,
            agent_version: "0".to_owned(),
            agent_digest: None,
        };
        let at = |ms: i64| TrackPoint {
            at: period.start.plus_ms(ms),
            busy: Reading::Number((sequence % 101).cast_signed()),
        };
        let block = GpuBlock {
            uuid: GpuUuid::new(&self.gpu()).unwrap(),
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

impl WireStream {
    /// # Errors
    /// When the stream has ended.
    pub(crate) async fn send_segment(&self, segment: &SealedSegment) -> Result<(), Status> {
        send(&self.outgoing, ToServer::Segment(SegmentParts::from(segment).into_wire())).await
    }

    /// # Errors
    /// When the stream has ended.
    pub(crate) async fn send_frame(&self, frame: &LiveFrame) -> Result<(), Status> {
        send(&self.outgoing, ToServer::Live(frame.to_wire())).await
    }

    /// The next message, whatever it is.
    ///
    /// # Errors
    /// How the stream ended.
    pub(crate) async fn next(&mut self) -> Result<FromServer, Status> {
        next(&mut self.incoming).await
    }

    /// The next acknowledgement: its sequence, and whether the server asks for what is behind it.
    ///
    /// # Errors
    /// How the stream ended.
    pub(crate) async fn ack(&mut self) -> Result<(u64, bool), Status> {
        loop {
            match self.next().await? {
                FromServer::Ack(ack) => return Ok((ack.sequence, ack.rewind)),
                FromServer::Refusal(refusal) => panic!("{}: {}", refusal.code, refusal.message),
                _ => {}
            }
        }
    }
}

async fn send(outgoing: &mpsc::Sender<AgentMessage>, kind: ToServer) -> Result<(), Status> {
    let sent = outgoing.send(AgentMessage { kind: Some(kind) }).await;
    sent.map_err(|_| Status::unavailable("the stream ended"))
}

async fn next(incoming: &mut tonic::Streaming<ServerMessage>) -> Result<FromServer, Status> {
    let message = incoming.message().await?;
    message.and_then(|message| message.kind).ok_or_else(|| Status::ok("the server ended it"))
}

#[expect(clippy::disallowed_methods, reason = "the test plays a node, which has a clock")]
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}
