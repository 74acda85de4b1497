//! A server's agent port on a database of its own, and the client's end of one stream.

use std::sync::Arc;
use std::time::Duration;

use leasewatch_core::id::{Hash, NodeId};
use leasewatch_core::join::{JoinAddress, TlsTrust};
use leasewatch_core::time::{Period, Timestamp};
use leasewatch_proto::convert::Claim;
use leasewatch_proto::v1::agent_message::Kind as FromAgent;
use leasewatch_proto::v1::server_message::Kind as ToAgent;
use leasewatch_proto::v1::telemetry_client::TelemetryClient;
use leasewatch_proto::v1::{self, AgentMessage, ServerMessage};
use leasewatch_server::clock::Clock;
use leasewatch_server::enrollment::Issuer;
use leasewatch_server::grpc::{self, GrpcOptions, GrpcState};
use leasewatch_server::identity::Identity;
use leasewatch_server::installer::Installers;
use leasewatch_server::live::Live;
use leasewatch_server::store::segment::{BlockRow, HeadRow, Place};
use leasewatch_server::store::{Db, Scope, chain, node, segment, slot};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Status, Streaming};

use crate::agent::{Agent, chain_start, message, slug};
use crate::support::{self, TestDb};

/// The server's clock at the start of each test.
pub const NOW: Timestamp = Timestamp(1_790_000_000_000);

/// Everything that a test asks of a node's history.
pub const ALWAYS: Period = Period { start: Timestamp::MIN, end: Timestamp::MAX };

/// What makes join strings of a server whose identity is of no interest.
pub fn issuer(db: &Db, clock: &Clock) -> Issuer {
    // It is in memory from here on.
    let folder = tempfile::tempdir().unwrap();
    let identity = Identity::of_server(folder.path()).unwrap();
    Issuer {
        db: db.clone(),
        clock: clock.clone(),
        identity: std::sync::Arc::new(identity),
        trust: tokio::sync::watch::channel(TlsTrust::Web).1,
        addresses: vec![JoinAddress::new("https://watch.example.org").unwrap()],
    }
}

/// Of a server that has no agents to hand out.
pub fn no_installers() -> Installers {
    Installers::new("/nonexistent".into(), Vec::new())
}

/// A server without pages and jobs.
pub struct Rig {
    pub database: TestDb,
    pub state: GrpcState,
    pub clock: Clock,
    pub live: Live,
    pub url: String,
}

impl Rig {
    pub async fn new() -> Self {
        Self::with(|_| ()).await
    }

    /// With other bounds than the usual ones; nothing is gathered unless a test asks for it.
    pub async fn with(change: impl FnOnce(&mut GrpcOptions)) -> Self {
        let database = support::database().await;
        let db = database.db.clone();
        Self::on(database, db, change).await
    }

    pub async fn on(database: TestDb, db: Db, change: impl FnOnce(&mut GrpcOptions)) -> Self {
        let (clock, live) = (Clock::manual(NOW), Live::new());
        let directory = tempfile::tempdir().unwrap();
        let identity = Arc::new(Identity::load_or_create(directory.path()).unwrap());
        let mut options = GrpcOptions::new(vec![slug("default"), slug("demo")]);
        options.open_enrollment = true;
        options.writer.gather = Duration::ZERO;
        change(&mut options);
        let state = GrpcState::new(db, live.clone(), clock.clone(), identity, options);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let routes = grpc::routes(state.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        Self { database, state, clock, live, url }
    }

    /// Opens a stream and says hello; what comes back is the server's business.
    pub async fn call(&self, first: AgentMessage) -> Result<Client, Status> {
        let mut client = TelemetryClient::connect(self.url.clone()).await.unwrap();
        let (sender, messages) = mpsc::channel(64);
        sender.send(first).await.unwrap();
        let answers = client.stream(ReceiverStream::new(messages)).await?.into_inner();
        Ok(Client { sender, answers, welcome: v1::Welcome::default() })
    }

    /// Opens a stream, proves the agent's key and begins its chain, if the server asks for it.
    pub async fn join(&self, agent: &Agent) -> Result<Client, Status> {
        self.join_with(agent, Claim::default()).await
    }

    /// The same with something that the agent claims.
    pub async fn join_with(&self, agent: &Agent, claim: Claim) -> Result<Client, Status> {
        let mut client = self.greet_with(agent, claim).await?;
        if client.welcome.start_wanted {
            let start = agent.start(Timestamp(client.welcome.server_time_ms));
            assert_eq!(client.ack(chain_start(&start, &agent.key)).await, (0, false));
        }
        Ok(client)
    }

    /// Opens a stream and proves the agent's key.
    pub async fn greet(&self, agent: &Agent) -> Result<Client, Status> {
        self.greet_with(agent, Claim::default()).await
    }

    /// The same with something that the agent claims.
    pub async fn greet_with(&self, agent: &Agent, claim: Claim) -> Result<Client, Status> {
        let hello = agent.hello();
        let mut client = self.call(message(FromAgent::Hello(hello.clone()))).await?;
        let ToAgent::Challenge(challenge) = client.next().await? else {
            panic!("no challenge");
        };
        client.send(agent.prove_with(&hello, &challenge, claim)).await;
        let ToAgent::Welcome(welcome) = client.next().await? else { panic!("no welcome") };
        Ok(Client { welcome, ..client })
    }

    /// Seals the agent's next segment and lets the server's clock follow.
    pub fn seal(&self, agent: &mut Agent) -> AgentMessage {
        let sealed = agent.seal();
        self.clock.set(self.clock.now().max(agent.at));
        crate::agent::segment(&sealed)
    }

    pub async fn node(&self, id: NodeId) -> Option<node::NodeRow> {
        let mut tx = self.database.db.begin(Scope::Operator).await.unwrap();
        let row = node::by_public_id(&mut tx, id).await.unwrap();
        tx.commit().await.unwrap();
        row
    }

    pub async fn heads(&self, id: NodeId) -> Vec<HeadRow> {
        let Some(row) = self.node(id).await else { return Vec::new() };
        let mut tx = self.database.db.begin(Scope::Operator).await.unwrap();
        let heads = segment::heads(&mut tx, row.key, ALWAYS).await.unwrap();
        tx.commit().await.unwrap();
        heads
    }

    /// Blocks of every place of a node.
    pub async fn blocks(&self, id: NodeId) -> Vec<(Place, BlockRow)> {
        let row = self.node(id).await.unwrap();
        let mut tx = self.database.db.begin(Scope::Operator).await.unwrap();
        let slots = slot::of_node(&mut tx, row.key).await.unwrap();
        let slots = slots.iter().map(|slot| Place::Slot(slot.slot));
        let mut blocks = Vec::new();
        for place in slots.chain([Place::Host, Place::Events]) {
            let of_place = segment::blocks(&mut tx, row.key, place, ALWAYS).await.unwrap();
            blocks.extend(of_place.into_iter().map(|block| (place, block)));
        }
        tx.commit().await.unwrap();
        blocks
    }

    pub async fn cursor(&self, agent: &Agent) -> (u64, Option<Hash>) {
        let Some(row) = self.node(agent.id()).await else { return (0, None) };
        let mut tx = self.database.db.begin(Scope::Operator).await.unwrap();
        let cursor = chain::cursor(&mut tx, row.key, agent.chain).await.unwrap();
        tx.commit().await.unwrap();
        cursor.map_or((0, None), |cursor| (cursor.sequence.0, Some(cursor.head_hash)))
    }

    /// One number, asked as the superuser.
    pub async fn count(&self, query: &str) -> i64 {
        let mut admin = PgConnection::connect(&self.database.admin_url).await.unwrap();
        let count = sqlx::query_scalar(AssertSqlSafe(query.to_owned()));
        let count: i64 = count.fetch_one(&mut admin).await.unwrap();
        admin.close().await.unwrap();
        count
    }

    /// Statements of the superuser.
    pub async fn administer(&self, statements: &str) {
        let mut admin = PgConnection::connect(&self.database.admin_url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(statements.to_owned())).execute(&mut admin).await.unwrap();
        admin.close().await.unwrap();
    }
}

/// The client's end of one stream.
pub struct Client {
    sender: mpsc::Sender<AgentMessage>,
    answers: Streaming<ServerMessage>,
    pub welcome: v1::Welcome,
}

impl Client {
    /// A message that the server may have closed its ears to: what it says tells.
    pub async fn send(&self, message: AgentMessage) {
        let _ = self.sender.send(message).await;
    }

    /// The next message, whatever it is.
    pub async fn next(&mut self) -> Result<ToAgent, Status> {
        match self.answers.next().await {
            Some(message) => Ok(message?.kind.unwrap()),
            None => Err(Status::ok("ended")),
        }
    }

    /// The next answer in the durable lane.
    pub async fn answer(&mut self) -> Result<ToAgent, Status> {
        loop {
            match self.next().await? {
                ToAgent::TimeProbe(_) | ToAgent::TimeEstimate(_) | ToAgent::LivePace(_) => {}
                durable => return Ok(durable),
            }
        }
    }

    /// Sends and expects an acknowledgement.
    pub async fn ack(&mut self, message: AgentMessage) -> (u64, bool) {
        self.send(message).await;
        match self.answer().await.unwrap() {
            ToAgent::Ack(ack) => (ack.sequence, ack.rewind),
            other => panic!("no ack: {other:?}"),
        }
    }

    /// Sends and expects a refusal.
    pub async fn refusal(&mut self, message: AgentMessage) -> (u64, String) {
        self.send(message).await;
        match self.answer().await.unwrap() {
            ToAgent::Refusal(refusal) => (refusal.sequence, refusal.code),
            other => panic!("no refusal: {other:?}"),
        }
    }

    /// How the stream ends: the status, after whatever still comes.
    pub async fn end(&mut self) -> Status {
        loop {
            if let Err(status) = self.next().await {
                return status;
            }
        }
    }
}
