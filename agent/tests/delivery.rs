//! The uplink against a server in memory: the real socket, the real keys, the real decisions.
//!
//! The server here verifies and decides as `core` says and keeps what it stored in a struct that
//! outlives it, so that a "restart" is a new listener over the same store. Nothing sleeps: tests
//! wait for the store to change.

#![expect(clippy::unwrap_used, reason = "a helper that fails has to fail its test")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, OnceLock};

use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use leasewatch_agent::clock::{Anchor, Instant};
use leasewatch_agent::enrollment::{JoinClaim, Servers};
use leasewatch_agent::identity::{State, StateDir, last_session, pin_server_key};
use leasewatch_agent::observation::{EventObservation, LiveState, Observation};
use leasewatch_agent::recorder::{Epoch, Gathering, Journal, Writer};
use leasewatch_agent::spool::Quota;
use leasewatch_agent::uplink::{Shared, Uplink, UplinkOptions};
use leasewatch_core::delivery::{
    Cursor, DropDecision, IncomingDrop, IncomingSegment, SegmentDecision, StartDecision,
    StoredChain,
};
use leasewatch_core::evidence::chain::{
    self, ChainStart, ChainStartReason, ClockSource, DropReason,
};
use leasewatch_core::evidence::statement::{StatementKind, verify};
use leasewatch_core::id::{ChainId, EpochId, KeyId, LifeUnitId, Sequence, Slug};
use leasewatch_core::join::JoinToken;
use leasewatch_core::segment::{EventKind, LifeUnit, LifeUnitKind, Origin};
use leasewatch_core::time::Timestamp;
use leasewatch_proto::channel::ServerAddress;
use leasewatch_proto::convert::{
    Ack, ChainStartParts, Challenge, Claim, DropParts, Hello, Proof, Refusal, SegmentParts,
    TimeEcho, TimeProbe, Welcome,
};
use leasewatch_proto::v1::agent_message::Kind as Up;
use leasewatch_proto::v1::server_message::Kind as Down;
use leasewatch_proto::v1::telemetry_server::{Telemetry, TelemetryServer};
use leasewatch_proto::v1::{AgentMessage, ServerMessage};
use tokio::net::TcpListener;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

/// What a server has seen and stored.
#[derive(Debug, Clone, Default)]
struct Stored {
    chains: BTreeMap<ChainId, StoredChain>,
    /// The chain of the last hello.
    chain: Option<ChainId>,
    starts: Vec<ChainStart>,
    segments: Vec<u64>,
    drops: Vec<(u64, u64, DropReason)>,
    proofs: u32,
    /// What came with them.
    claims: Vec<Claim>,
    broken_handshakes: u32,
    echo: Option<TimeEcho>,
    /// The sequence that is refused.
    refuses: Option<u64>,
    /// The hello that is refused, and how.
    refuses_hello: bool,
    /// Every drop is refused.
    refuses_drops: bool,
    /// Every start ends its stream.
    refuses_starts: bool,
    starts_refused: u32,
    /// How many segments were stored when each live frame came.
    frames: Vec<usize>,
}

impl Stored {
    /// The chain of the last hello.
    fn known(&self) -> StoredChain {
        let chain = self.chain.and_then(|chain| self.chains.get(&chain));
        chain.copied().unwrap_or(StoredChain::UNKNOWN)
    }

    fn cursor(&self) -> Cursor {
        self.known().cursor
    }

    fn set(&mut self, known: StoredChain) {
        self.chains.insert(self.chain.unwrap(), known);
    }

    fn move_to(&mut self, cursor: Cursor) {
        self.set(StoredChain { cursor, ..self.known() });
    }

    fn reasons(&self) -> Vec<ChainStartReason> {
        self.starts.iter().map(|start| start.reason).collect()
    }

    fn reached(&self, sequence: u64) -> bool {
        self.cursor().sequence == Sequence(sequence)
    }
}

#[derive(Clone)]
struct Service {
    identity: SigningKey,
    stored: watch::Sender<Stored>,
    /// False once the server is killed: streams end without another word.
    alive: watch::Receiver<bool>,
}

type Answers = mpsc::Sender<Result<ServerMessage, Status>>;

#[tonic::async_trait]
impl Telemetry for Service {
    type StreamStream = Pin<Box<dyn Stream<Item = Result<ServerMessage, Status>> + Send>>;

    async fn stream(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Self::StreamStream>, Status> {
        let (answers, stream) = mpsc::channel(64);
        let service = self.clone();
        tokio::spawn(async move { service.serve(request.into_inner(), answers).await });
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

impl Service {
    async fn serve(self, mut messages: Streaming<AgentMessage>, answers: Answers) {
        let Some(hello) = self.shake_hands(&mut messages, &answers).await else {
            self.stored.send_modify(|stored| stored.broken_handshakes += 1);
            return;
        };
        let key = VerifyingKey::from_bytes(&hello.public_key).unwrap();
        let mut alive = self.alive.clone();
        loop {
            let message = tokio::select! {
                message = next(&mut messages) => message,
                _ = alive.wait_for(|alive| !alive) => None,
            };
            let Some(kind) = message else { return };
            if let Some(answer) = self.answer(kind, &key) {
                let ends = answer.is_err();
                let _ = answers.send(answer.map(|kind| ServerMessage { kind: Some(kind) })).await;
                if ends {
                    return;
                }
            }
        }
    }

    async fn shake_hands(
        &self,
        messages: &mut Streaming<AgentMessage>,
        answers: &Answers,
    ) -> Option<Hello> {
        let Up::Hello(hello) = next(messages).await? else { return None };
        let hello = Hello::from_wire(&hello).unwrap();
        if self.stored.borrow().refuses_hello {
            let _ = answers.send(Err(Status::permission_denied("unknown tenant"))).await;
            return None;
        }
        let server_nonce = [7; 32];
        let challenge = Challenge {
            server_nonce,
            identity_key: self.identity.verifying_key().to_bytes(),
            signature: self.identity.sign(&hello.challenge_message(&server_nonce)).to_bytes(),
            rotations: Vec::new(),
        };
        let send = |kind| answers.send(Ok(ServerMessage { kind: Some(kind) }));
        send(Down::Challenge(challenge.to_wire())).await.ok()?;
        let Up::Proof(proof) = next(messages).await? else { return None };
        let proof = Proof::from_wire(&proof).unwrap();
        let signature = Signature::from_bytes(&proof.signature);
        let key = VerifyingKey::from_bytes(&hello.public_key).unwrap();
        key.verify_strict(&challenge.proof_message(&hello, &proof.claim), &signature).unwrap();
        self.stored.send_modify(|stored| {
            stored.proofs += 1;
            stored.claims.push(proof.claim);
            stored.chain = Some(hello.chain);
        });
        let known = self.stored.borrow().known();
        let welcome = Welcome {
            node: KeyId::of_public_key(&hello.public_key).first_node_id(),
            tenant: hello.tenant.clone(),
            cursor: known.cursor,
            cadence_ms: 1_000,
            live_interval_ms: 60_000,
            server_time: Timestamp(1_800_000_000_000),
            recorded_until: None,
            window_bytes: 0,
            start_wanted: !known.has_begun(),
            session: 40 + u64::from(self.stored.borrow().proofs),
        };
        send(Down::Welcome(welcome.to_wire())).await.ok()?;
        let probe = TimeProbe { id: 5, server_sent_ms: 1 };
        send(Down::TimeProbe(probe.to_wire())).await.ok()?;
        Some(hello)
    }

    fn answer(&self, message: Up, key: &VerifyingKey) -> Option<Result<Down, Status>> {
        let mut answer = None;
        self.stored.send_modify(|stored| match message {
            Up::ChainStart(wire) => answer = Some(store_start(stored, wire, key)),
            Up::Segment(wire) => answer = Some(Ok(store_segment(stored, wire, key))),
            Up::Drop(wire) => answer = Some(Ok(store_drop(stored, wire, key))),
            Up::Live(_) => stored.frames.push(stored.segments.len()),
            Up::TimeEcho(wire) => stored.echo = Some(TimeEcho::from_wire(&wire)),
            _ => {}
        });
        answer
    }
}

fn store_start(
    stored: &mut Stored,
    wire: leasewatch_proto::v1::ChainStart,
    key: &VerifyingKey,
) -> Result<Down, Status> {
    if stored.refuses_starts {
        stored.starts_refused += 1;
        return Err(Status::invalid_argument("another time"));
    }
    let parts = ChainStartParts::from_wire(wire).unwrap();
    verify(StatementKind::ChainStart, &parts.statement, &parts.signature, key).unwrap();
    let start = ChainStart::from_statement(&parts.statement).unwrap();
    assert_eq!(Some(start.chain), stored.chain);
    assert_eq!(start.node, KeyId::of_public_key(key.as_bytes()).first_node_id());
    let known = stored.known();
    assert_eq!(known.on_start(start.hash()), StartDecision::Store);
    stored.set(StoredChain { start: Some(start.hash()), ..known });
    stored.starts.push(start);
    Ok(Down::Ack(Ack { sequence: known.cursor.sequence, rewind: false }.to_wire()))
}

fn store_segment(
    stored: &mut Stored,
    wire: leasewatch_proto::v1::Segment,
    key: &VerifyingKey,
) -> Down {
    let parts = SegmentParts::from_wire(wire).unwrap();
    let open = chain::open(&parts.statement, &parts.signature, &parts.blocks, key).unwrap();
    let sequence = open.head.sequence;
    let incoming = IncomingSegment { sequence, head: open.hash, previous: open.head.previous };
    let at = stored.cursor().sequence;
    match stored.known().on_segment(&incoming, None) {
        SegmentDecision::Store(_) if stored.refuses == Some(sequence.0) => {
            let (code, message) = ("clock_out_of_range".to_owned(), "too early".to_owned());
            Down::Refusal(Refusal { sequence, code, message }.to_wire())
        }
        SegmentDecision::Store(cursor) => {
            stored.move_to(cursor);
            stored.segments.push(sequence.0);
            Down::Ack(Ack { sequence, rewind: false }.to_wire())
        }
        SegmentDecision::AlreadyStored => Down::Ack(Ack { sequence: at, rewind: false }.to_wire()),
        SegmentDecision::Ahead => Down::Ack(Ack { sequence: at, rewind: true }.to_wire()),
        other => panic!("{other:?}"),
    }
}

fn store_drop(stored: &mut Stored, wire: leasewatch_proto::v1::Drop, key: &VerifyingKey) -> Down {
    let parts = DropParts::from_wire(wire).unwrap();
    verify(StatementKind::Drop, &parts.statement, &parts.signature, key).unwrap();
    let drop = chain::Drop::from_statement(&parts.statement).unwrap();
    let incoming = IncomingDrop { first: drop.first, last: drop.last, last_head: drop.last_head };
    if stored.refuses_drops {
        let (code, message) = ("drop_too_long".to_owned(), "too long".to_owned());
        return Down::Refusal(Refusal { sequence: drop.first, code, message }.to_wire());
    }
    let DropDecision::MoveCursor(cursor) = stored.known().on_drop(&incoming) else {
        panic!("{drop:?} at {:?}", stored.known())
    };
    stored.move_to(cursor);
    stored.drops.push((drop.first.0, drop.last.0, drop.reason));
    Down::Ack(Ack { sequence: drop.last, rewind: false }.to_wire())
}

async fn next(messages: &mut Streaming<AgentMessage>) -> Option<Up> {
    messages.next().await?.ok()?.kind
}

/// A listening server over a store.
struct Server {
    address: SocketAddr,
    task: JoinHandle<()>,
    alive: watch::Sender<bool>,
}

impl Server {
    async fn start(address: SocketAddr, identity: u8, stored: &watch::Sender<Stored>) -> Self {
        let identity = SigningKey::from_bytes(&[identity; 32]);
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let (alive, is_alive) = watch::channel(true);
        let service = Service { identity, stored: stored.clone(), alive: is_alive };
        let service = TelemetryServer::new(service);
        let serving = tonic::transport::Server::builder()
            .add_service(service)
            .serve_with_incoming(TcpListenerStream::new(listener));
        let task = tokio::spawn(async move { serving.await.unwrap() });
        Self { address, task, alive }
    }

    /// Ends every stream and stops listening.
    async fn kill(self) -> SocketAddr {
        self.alive.send_replace(false);
        self.task.abort();
        let _ = self.task.await;
        self.address
    }
}

/// One agent without a sampler.
struct Agent {
    journal: Arc<Journal>,
    dir: Arc<StateDir>,
    seconds: Mutex<i64>,
    claim: Option<JoinClaim>,
}

const START: Instant = Instant { boot_ms: 5_000_000, wall: Timestamp(1_800_000_000_000) };

impl Agent {
    fn new(path: &std::path::Path) -> Self {
        Self::on_chain(path, ChainId([1; 16]))
    }

    /// `chain` is the one that a node without a state begins.
    fn on_chain(path: &std::path::Path, chain: ChainId) -> Self {
        let dir = StateDir::open(path).unwrap();
        let state = State::load(&dir, chain).unwrap();
        let quota = Quota { bytes: 1 << 20, hours: 24, reserve_bytes: 0 };
        let key = leasewatch_agent::identity::load_or_create_key(&dir).unwrap();
        let life_unit = LifeUnit {
            id: LifeUnitId([3; 16]),
            kind: LifeUnitKind::Host,
            boot_id: "b".to_owned(),
            started_at: START.wall,
        };
        let epoch = Epoch {
            id: EpochId([2; 8]),
            life_unit,
            origin: Origin::Simulated,
            cadence_ms: 1_000,
            clock_source: ClockSource::Unknown,
            version: "0.1.0".to_owned(),
            digest: None,
        };
        let seconds = Mutex::new(i64::try_from(state.end.sequence.0).unwrap() * 100);
        let writer = Writer { key, state_dir: path.to_owned(), quota };
        let journal = Arc::new(Journal::new(writer, epoch, state));
        Self { journal, dir: Arc::new(dir), seconds, claim: None }
    }

    /// Seals `count` segments with one event each.
    fn seal(&self, count: u32) {
        let anchor = Anchor::at(START);
        for _ in 0..count {
            let mut seconds = self.seconds.lock().unwrap();
            *seconds += 1;
            let at_boot_ms = START.boot_ms + *seconds * 1_000;
            let mut gathering = Gathering::new(anchor, at_boot_ms);
            let kind = EventKind::NoGpuAttached;
            let event = EventObservation { at_boot_ms, gpu: None, kind, urgent: false };
            gathering.on_observation(Observation::Event(event));
            let content = gathering.close(at_boot_ms, anchor).unwrap();
            self.journal.seal(&content, anchor, 0, Vec::new()).unwrap();
        }
    }

    /// Starts the uplink; the returned switch stops it.
    fn connect(&self, address: SocketAddr) -> (watch::Sender<bool>, JoinHandle<u64>) {
        self.connect_to(Servers {
            addresses: vec![http(address)],
            claim: self.claim.clone(),
            is_kept: false,
        })
    }

    fn connect_to(&self, servers: Servers) -> (watch::Sender<bool>, JoinHandle<u64>) {
        let options = UplinkOptions {
            servers,
            tenant: Slug::new("default").unwrap(),
            provider: Slug::new("demo").unwrap(),
            node_name: "node".to_owned(),
        };
        let shared = Shared {
            journal: Arc::clone(&self.journal),
            state_dir: Arc::clone(&self.dir),
            live: Arc::new(OnceLock::from(LiveState::default())),
        };
        let (uplink, _) = Uplink::new(options, shared);
        let (stop, stopped) = watch::channel(false);
        (stop, tokio::spawn(uplink.run(stopped)))
    }
}

fn http(address: SocketAddr) -> ServerAddress {
    ServerAddress::new(&format!("http://{address}"), None).unwrap()
}

const ANY_PORT: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 0);

async fn until(stored: &watch::Sender<Stored>, condition: impl Fn(&Stored) -> bool) -> Stored {
    stored.subscribe().wait_for(|stored| condition(stored)).await.unwrap().clone()
}

/// The first welcome enrols; then what is sealed arrives, verified and in order.
async fn welcomed(agent: &Agent, address: SocketAddr, stored: &watch::Sender<Stored>) -> Handles {
    let (stop, uplink) = agent.connect(address);
    // The echo comes after the welcome was taken in.
    until(stored, |stored| stored.echo.is_some()).await;
    Handles { stop, uplink }
}

struct Handles {
    stop: watch::Sender<bool>,
    uplink: JoinHandle<u64>,
}

#[tokio::test]
async fn segments_survive_a_server_restart_and_a_stop_waits_for_the_last_ack() {
    let temp = tempfile::tempdir().unwrap();
    let (stored, _keep) = watch::channel(Stored::default());
    let server = Server::start(ANY_PORT, 9, &stored).await;
    let agent = Agent::new(temp.path());
    let Handles { stop, uplink } = welcomed(&agent, server.address, &stored).await;
    assert_eq!(stored.borrow().echo.map(|echo| (echo.id, echo.server_sent_ms)), Some((5, 1)));
    agent.seal(3);
    until(&stored, |stored| stored.reached(3)).await;

    let address = server.kill().await;
    agent.seal(2);
    let _again = Server::start(address, 9, &stored).await;
    let all = until(&stored, |stored| stored.reached(5)).await;
    assert_eq!(all.proofs, 2);
    assert_eq!(all.segments, [1, 2, 3, 4, 5]);
    assert_eq!(all.drops, []);
    assert_eq!(all.reasons(), [ChainStartReason::Joined]);

    agent.seal(1);
    stop.send_replace(true);
    assert_eq!(uplink.await.unwrap(), 0);
    assert!(stored.borrow().reached(6));
    agent.journal.with_spool(|spool| assert_eq!(spool.segments(), 0));
}

/// R4: how a node is now does not wait for what it recorded while the server was away.
#[tokio::test]
async fn a_live_frame_is_on_its_way_before_any_of_the_backlog() {
    let temp = tempfile::tempdir().unwrap();
    let (stored, _keep) = watch::channel(Stored::default());
    let server = Server::start(ANY_PORT, 9, &stored).await;
    let agent = Agent::new(temp.path());
    let _handles = welcomed(&agent, server.address, &stored).await;
    agent.seal(3);
    until(&stored, |stored| stored.reached(3)).await;
    let address = server.kill().await;
    agent.seal(40);
    let _again = Server::start(address, 9, &stored).await;
    let all = until(&stored, |stored| stored.reached(43)).await;
    assert_eq!(all.segments.len(), 43);
    // One on each stream: the next are due after a minute.
    assert_eq!(all.frames, [0, 3]);
}

/// A process that delivered two of five segments and ended; then one that seals a sixth.
async fn delivered_by_two_processes(path: &std::path::Path) -> Stored {
    let (stored, _keep) = watch::channel(Stored::default());
    let server = Server::start(ANY_PORT, 9, &stored).await;
    {
        let agent = Agent::new(path);
        let Handles { uplink, .. } = welcomed(&agent, server.address, &stored).await;
        agent.seal(2);
        until(&stored, |stored| stored.reached(2)).await;
        uplink.abort();
        let _ = uplink.await;
        agent.seal(3);
    }
    let agent = Agent::new(path);
    agent.seal(1);
    let (_stop, _uplink) = agent.connect(server.address);
    until(&stored, |stored| stored.reached(6)).await
}

#[tokio::test]
async fn what_a_process_could_not_deliver_is_delivered_by_the_next() {
    let temp = tempfile::tempdir().unwrap();
    let all = delivered_by_two_processes(temp.path()).await;
    assert_eq!((all.segments, all.drops), (vec![1, 2, 3, 4, 5, 6], vec![]));
}

#[tokio::test]
async fn what_died_in_the_memory_of_a_process_is_declared_by_the_next() {
    let temp = tempfile::tempdir().unwrap();
    // Where the spool's folder belongs is something else: nothing can be written.
    std::fs::write(temp.path().join("spool"), "").unwrap();
    let all = delivered_by_two_processes(temp.path()).await;
    assert_eq!((all.segments, all.drops), (vec![1, 2, 6], vec![(3, 5, DropReason::Lost)]));
}

#[tokio::test]
async fn a_refused_segment_blocks_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let refuses = Stored { refuses: Some(2), ..Stored::default() };
    let (stored, _keep) = watch::channel(refuses);
    let server = Server::start(ANY_PORT, 9, &stored).await;
    let agent = Agent::new(temp.path());
    let _handles = welcomed(&agent, server.address, &stored).await;
    agent.seal(4);
    let all = until(&stored, |stored| stored.reached(4)).await;
    assert_eq!(all.segments, [1, 3, 4]);
    assert_eq!(all.drops, [(2, 2, DropReason::Refused)]);
    assert!(temp.path().join("refused.head.json").exists());
}

#[tokio::test]
async fn a_server_with_another_key_is_told_nothing() {
    let temp = tempfile::tempdir().unwrap();
    let (stored, _keep) = watch::channel(Stored::default());
    let server = Server::start(ANY_PORT, 9, &stored).await;
    {
        let agent = Agent::new(temp.path());
        let Handles { stop, uplink } = welcomed(&agent, server.address, &stored).await;
        stop.send_replace(true);
        uplink.await.unwrap();
    }
    let (impostor, _keep) = watch::channel(Stored::default());
    let other = Server::start(ANY_PORT, 10, &impostor).await;
    let agent = Agent::new(temp.path());
    agent.seal(1);
    let (_stop, _uplink) = agent.connect(other.address);
    let seen = until(&impostor, |stored| stored.broken_handshakes == 1).await;
    assert_eq!((seen.proofs, seen.segments.len()), (0, 0));
}

fn joining(path: &std::path::Path, server_key: u8) -> Agent {
    let agent = Agent::new(path);
    let key = SigningKey::from_bytes(&[server_key; 32]).verifying_key().to_bytes();
    assert!(pin_server_key(&agent.dir, &key, false).unwrap());
    Agent { claim: Some(JoinClaim { token: JoinToken([6; 24]), replaces: None }), ..agent }
}

#[tokio::test]
async fn a_token_goes_to_the_server_it_is_for_and_until_the_first_welcome() {
    let temp = tempfile::tempdir().unwrap();
    let (impostor, _keep) = watch::channel(Stored::default());
    let other = Server::start(ANY_PORT, 10, &impostor).await;
    {
        let agent = joining(temp.path(), 9);
        let (stop, uplink) = agent.connect(other.address);
        let seen = until(&impostor, |stored| stored.broken_handshakes == 1).await;
        assert_eq!((seen.proofs, seen.claims), (0, vec![]));
        stop.send_replace(true);
        uplink.await.unwrap();
    }
    let (stored, _keep) = watch::channel(Stored::default());
    let server = Server::start(ANY_PORT, 9, &stored).await;
    for _ in 0..2 {
        let agent = joining(temp.path(), 9);
        let Handles { stop, uplink } = welcomed(&agent, server.address, &stored).await;
        stored.send_modify(|stored| stored.echo = None);
        stop.send_replace(true);
        uplink.await.unwrap();
        // Kept before the first word on the stream.
        assert_eq!(last_session(&agent.dir), Some(40 + u64::from(stored.borrow().proofs)));
    }
    let claims = stored.borrow().claims.clone();
    let first = Claim { token: Some(JoinToken([6; 24])), ..Claim::default() };
    assert_eq!(claims, [first, Claim { session: Some(41), ..Claim::default() }]);
}

#[tokio::test]
async fn where_nobody_answers_the_next_address_is_tried() {
    let temp = tempfile::tempdir().unwrap();
    let (stored, _keep) = watch::channel(Stored::default());
    let server = Server::start(ANY_PORT, 9, &stored).await;
    let (gone, _keep_gone) = watch::channel(Stored::default());
    let silent = Server::start(ANY_PORT, 9, &gone).await.kill().await;
    let agent = Agent::new(temp.path());
    let servers = Servers {
        addresses: vec![http(silent), http(server.address)],
        claim: None,
        is_kept: false,
    };
    let (_stop, _uplink) = agent.connect_to(servers);
    until(&stored, |stored| stored.echo.is_some()).await;
}

#[tokio::test]
async fn a_refused_hello_enrols_nobody() {
    let temp = tempfile::tempdir().unwrap();
    let (stored, _keep) = watch::channel(Stored { refuses_hello: true, ..Stored::default() });
    let server = Server::start(ANY_PORT, 9, &stored).await;
    let agent = Agent::new(temp.path());
    let (stop, uplink) = agent.connect(server.address);
    until(&stored, |stored| stored.broken_handshakes == 1).await;
    stop.send_replace(true);
    assert_eq!(uplink.await.unwrap(), 0);
    assert_eq!(agent.journal.enrolled(), None);
    assert!(!temp.path().join("server.pub").exists());
}

/// An agent that was welcomed, delivered two segments and stopped.
async fn delivered_two(path: &std::path::Path, stored: &watch::Sender<Stored>, server: &Server) {
    let agent = Agent::new(path);
    let Handles { stop, uplink } = welcomed(&agent, server.address, stored).await;
    agent.seal(2);
    until(stored, |stored| stored.reached(2)).await;
    stop.send_replace(true);
    uplink.await.unwrap();
}

#[tokio::test]
async fn a_state_that_is_gone_or_not_understood_begins_a_new_chain_that_says_so() {
    for fault in ["gone", "not understood"] {
        let temp = tempfile::tempdir().unwrap();
        let (stored, _keep) = watch::channel(Stored::default());
        let server = Server::start(ANY_PORT, 9, &stored).await;
        delivered_two(temp.path(), &stored, &server).await;
        let state = temp.path().join("state.toml");
        match fault {
            "gone" => std::fs::remove_file(&state).unwrap(),
            _ => std::fs::write(&state, "version = 99").unwrap(),
        }
        let agent = Agent::on_chain(temp.path(), ChainId([5; 16]));
        let (_stop, _uplink) = agent.connect(server.address);
        until(&stored, |stored| stored.starts.len() == 2).await;
        agent.seal(1);
        let all = until(&stored, |stored| stored.segments.len() == 3).await;
        assert_eq!(all.reasons(), [ChainStartReason::Joined, ChainStartReason::LostState]);
        assert_eq!(all.starts[1].chain, ChainId([5; 16]));
        assert_eq!((all.segments, all.drops), (vec![1, 2, 1], vec![]), "{fault}");
    }
}

#[tokio::test]
async fn an_old_copy_of_the_state_begins_a_new_chain_and_declares_what_it_held() {
    let (temp, old) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (stored, _keep) = watch::channel(Stored::default());
    let server = Server::start(ANY_PORT, 9, &stored).await;
    {
        let agent = Agent::new(temp.path());
        let Handles { stop, uplink } = welcomed(&agent, server.address, &stored).await;
        for file in ["state.toml", "node.key", "server.pub"] {
            std::fs::copy(temp.path().join(file), old.path().join(file)).unwrap();
        }
        stop.send_replace(true);
        uplink.await.unwrap();
    }
    delivered_two(temp.path(), &stored, &server).await;
    let agent = Agent::new(old.path());
    // Recorded before the node learns that its chain is not its own any more.
    agent.seal(1);
    let (_stop, _uplink) = agent.connect(server.address);
    until(&stored, |stored| stored.drops.len() == 1).await;
    agent.seal(1);
    let all = until(&stored, |stored| stored.segments.len() == 3).await;
    assert_eq!(all.reasons(), [ChainStartReason::Joined, ChainStartReason::LostState]);
    assert_eq!(all.segments, [1, 2, 2]);
    assert_eq!(all.drops, [(1, 1, DropReason::Lost)]);
    assert_eq!(agent.journal.chain(), all.starts[1].chain);
}

#[tokio::test]
async fn a_refused_drop_ends_the_chain_and_the_next_one_says_so() {
    let temp = tempfile::tempdir().unwrap();
    let refuses = Stored { refuses: Some(1), refuses_drops: true, ..Stored::default() };
    let (stored, _keep) = watch::channel(refuses);
    let server = Server::start(ANY_PORT, 9, &stored).await;
    let agent = Agent::new(temp.path());
    let _handles = welcomed(&agent, server.address, &stored).await;
    agent.seal(2);
    until(&stored, |stored| stored.starts.len() == 2).await;
    stored.send_modify(|stored| stored.refuses_drops = false);
    // While drops are refused, chain follows chain; what is owed goes along.
    let all = until(&stored, |stored| stored.reached(2)).await;
    assert_eq!(all.reasons()[..2], [ChainStartReason::Joined, ChainStartReason::Refused]);
    assert_eq!((all.segments, all.drops), (vec![], vec![(1, 2, DropReason::Lost)]));
}

#[tokio::test]
async fn a_start_that_is_not_taken_is_dated_anew() {
    let temp = tempfile::tempdir().unwrap();
    let (stored, _keep) = watch::channel(Stored { refuses_starts: true, ..Stored::default() });
    let server = Server::start(ANY_PORT, 9, &stored).await;
    {
        let agent = Agent::new(temp.path());
        let (stop, uplink) = agent.connect(server.address);
        until(&stored, |stored| stored.starts_refused == 1).await;
        agent.seal(1);
        stop.send_replace(true);
        uplink.await.unwrap();
    }
    let dir = StateDir::open(temp.path()).unwrap();
    let state = State::load(&dir, ChainId([7; 16])).unwrap();
    assert_eq!((state.chain, state.beginning.at), (ChainId([1; 16]), None));
}
