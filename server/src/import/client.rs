//! Delivers sealed segments to the running server, as an agent would.
//!
//! An import is short and watched by a person, so it does not reconnect: when the stream breaks it
//! says so, and running the same command again continues behind what was acknowledged.

use std::time::Duration;

use ed25519_dalek::SigningKey;
use leasewatch_core::evidence::chain::SealedSegment;
use leasewatch_core::evidence::identity::ServerTrust;
use leasewatch_core::evidence::statement;
use leasewatch_core::id::{ChainId, EpochId, Hash, LifeUnitId, NodeId, Sequence, Slug, clean_text};
use leasewatch_core::segment::Origin;
use leasewatch_core::time::Period;
use leasewatch_proto::channel::ServerAddress;
use leasewatch_proto::convert::{
    ChainStartParts, Challenge, Claim, Hello, MESSAGE_BYTES_MAX, Proof, SegmentParts, Welcome,
};
use leasewatch_proto::v1::agent_message::Kind as ToServer;
use leasewatch_proto::v1::server_message::Kind as FromServer;
use leasewatch_proto::v1::telemetry_client::TelemetryClient;
use leasewatch_proto::v1::{AgentMessage, ServerMessage};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::covered::Covered;
use super::log::ImportLog;
use super::recorder::Recorder;
use super::{ImportError, ImportRequest, Joining};
use crate::identity::Identity;
use crate::intake::{ImportReport, Progress, Step};

/// Most bytes that wait for an acknowledgement.
pub(super) const WINDOW_BYTES: usize = 256 * 1_024;
/// Longest time until a connection is there.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Seals `log` and delivers it; returns when everything is acknowledged.
///
/// # Errors
/// [`ImportError`]. What was acknowledged before an error stays and is not sent again.
pub async fn deliver(
    request: &ImportRequest,
    log: ImportLog,
    cadence_ms: u32,
    progress: &Progress,
) -> Result<ImportReport, ImportError> {
    let name = clean_text(&request.node, 120);
    if name.trim().is_empty() {
        return Err(ImportError::NodeName);
    }
    let keys = request.key_dir.join(key_folder(request, &name));
    let identity = Identity::load_or_create(&keys).map_err(|e| ImportError::Seal(e.to_string()))?;
    let lineage = Lineage::of_import(&identity);
    let hello = hello((&request.tenant, &request.provider, name), &identity, &lineage)?;
    let mut stream = Stream::open(&request.server).await?;
    let welcome = stream.shake_hands(&hello, &identity, request.join.as_ref()).await?;
    let head = welcome.cursor.head;
    let covered = Covered::load(&keys, head, welcome.recorded_until);
    let mut report = report(&log, welcome.node, cadence_ms);
    let (fresh, rows_covered) = covered.uncovered(log);
    let is_start_wanted = welcome.start_wanted;
    let chain = Chain { key: identity.signing_key().clone(), welcome, hello, cadence_ms };
    let watched = progress.clone();
    // Sealing a long log takes seconds, in which the server has other things to do.
    let sealing = tokio::task::spawn_blocking(move || chain.seal(fresh, &watched));
    let (fresh, segments, start) = sealing.await.map_err(|_| ImportError::broken())??;
    if let (true, Some(start)) = (is_start_wanted, start) {
        stream.send_start(&start).await?;
    }
    stream.send_all(&segments, progress).await?;
    if let Some(last) = segments.last() {
        let stored = covered.store(&keys, last.signed.head.hash(), &fresh);
        stored.map_err(|source| ImportError::File { path: keys.display().to_string(), source })?;
    }
    report.rows = fresh.gpus.iter().map(|gpu| gpu.rows.len()).sum();
    report.rows_covered = rows_covered;
    report.segments = u64::try_from(segments.len()).unwrap_or(u64::MAX);
    Ok(report)
}

/// The log again, its segments, and the statement that the chain begins, if there are any.
type Sealed = (ImportLog, Vec<SealedSegment>, Option<ChainStartParts>);

/// What sealing needs, to take along into another thread.
struct Chain {
    key: SigningKey,
    welcome: Welcome,
    hello: Hello,
    cadence_ms: u32,
}

impl Chain {
    fn seal(&self, log: ImportLog, progress: &Progress) -> Result<Sealed, ImportError> {
        let cursor = &self.welcome.cursor;
        let recorder = Recorder {
            key: &self.key,
            node: self.welcome.node,
            tenant: self.welcome.tenant.clone(),
            chain: self.hello.chain,
            epoch: self.hello.epoch,
            cursor: cursor.head.map(|head| (cursor.sequence, head)),
            cadence_ms: self.cadence_ms,
        };
        let segments = recorder.seal_all(&log, progress).map_err(ImportError::Seal)?;
        let start = segments.first().map(|first| recorder.start(first.signed.head.period.start));
        Ok((log, segments, start))
    }
}

/// What is known of an import before anything is delivered.
fn report(log: &ImportLog, node: NodeId, cadence_ms: u32) -> ImportReport {
    let times = || log.gpus.iter().flat_map(|gpu| &gpu.rows).map(|row| row.at);
    ImportReport {
        node: node.to_string(),
        rows: 0,
        rows_covered: 0,
        rows_repeated: log.rows_repeated,
        segments: 0,
        gpus: log.gpus.len(),
        cadence_ms,
        period: times().min().zip(times().max()).map(|(from, to)| Period::new(from, to)),
        columns_ignored: log.columns_ignored.clone(),
        problems: log.problems.clone(),
    }
}

/// One key per tenant and node name, so that the same name continues the same node.
fn key_folder(request: &ImportRequest, name: &str) -> String {
    let digest = Hash::of(format!("{}/{name}", request.tenant).as_bytes()).to_string();
    digest[..32].to_owned()
}

/// What a hello says of the record that follows.
pub(super) struct Lineage {
    chain: ChainId,
    epoch: EpochId,
    life_unit: LifeUnitId,
    origin: Origin,
}

impl Lineage {
    /// The node's one chain and its one epoch are named after its key: a log that is imported in
    /// pieces gives the same hours as the whole.
    fn of_import(identity: &Identity) -> Self {
        let [chain @ .., e0, e1, e2, e3, e4, e5, e6, e7] = first_24(&identity.public_key());
        Self {
            chain: ChainId(chain),
            epoch: EpochId([e0, e1, e2, e3, e4, e5, e6, e7]),
            life_unit: LifeUnitId(identity.key_id().first_node_id().0),
            origin: Origin::Imported,
        }
    }

    /// The past of an agent stands in its own chain, and its log names epochs and lives.
    pub(super) fn of_history(identity: &Identity, chain: ChainId, origin: Origin) -> Self {
        Self { chain, origin, ..Self::of_import(identity) }
    }
}

pub(super) fn hello(
    (tenant, provider, node_name): (&Slug, &Slug, String),
    identity: &Identity,
    lineage: &Lineage,
) -> Result<Hello, ImportError> {
    let mut client_nonce = [0_u8; 32];
    getrandom::fill(&mut client_nonce).map_err(|e| ImportError::Seal(e.to_string()))?;
    Ok(Hello {
        public_key: identity.public_key(),
        client_nonce,
        chain: lineage.chain,
        epoch: lineage.epoch,
        life_unit: lineage.life_unit,
        oldest: None,
        newest: None,
        tenant: tenant.clone(),
        provider: provider.clone(),
        node_name,
        origin: lineage.origin,
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

fn first_24(public_key: &[u8; 32]) -> [u8; 24] {
    let digest = Hash::of(&[b"leasewatch/import-chain/v1\n".as_slice(), public_key].concat());
    let mut first = [0; 24];
    first.copy_from_slice(&digest.0[..24]);
    first
}

pub(super) struct Stream {
    outgoing: mpsc::Sender<AgentMessage>,
    incoming: Streaming<ServerMessage>,
}

impl Stream {
    pub(super) async fn open(server: &ServerAddress) -> Result<Self, ImportError> {
        let connected = server.connect(|endpoint| endpoint.connect_timeout(CONNECT_TIMEOUT)).await;
        let channel = connected.map_err(|error| {
            ImportError::Server(format!(
                "no server answers at {server} ({}); start it with `leasewatch-server serve`, or name it with --server",
                in_full(&error)
            ))
        })?;
        let mut client = TelemetryClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let (outgoing, queue) = mpsc::channel(64);
        let incoming = client.stream(ReceiverStream::new(queue)).await.map_err(|s| refused(&s))?;
        Ok(Self { outgoing, incoming: incoming.into_inner() })
    }

    pub(super) async fn shake_hands(
        &mut self,
        hello: &Hello,
        identity: &Identity,
        join: Option<&Joining>,
    ) -> Result<Welcome, ImportError> {
        self.send(ToServer::Hello(hello.to_wire())).await?;
        let FromServer::Challenge(wire) = self.receive().await? else { return Err(out_of_place()) };
        let challenge =
            Challenge::from_wire(&wire).map_err(|e| ImportError::Server(e.to_string()))?;
        check_server(hello, &challenge)?;
        let leads_there = |join: &Joining| {
            let identity = join.identity_key;
            let trust = ServerTrust { identity, recovery: None, recovered: 0 };
            trust.follow(&challenge.rotations).identity == challenge.identity_key
        };
        if join.is_some_and(|join| !leads_there(join)) {
            return Err(ImportError::Server(
                "this is not the server that the join string is for; nothing was sent to it"
                    .to_owned(),
            ));
        }
        let claim = Claim { token: join.map(|join| join.token.clone()), ..Claim::default() };
        let signature = identity.sign(&challenge.proof_message(hello, &claim));
        let proof = Proof { signature, claim };
        self.send(ToServer::Proof(proof.to_wire())).await?;
        let FromServer::Welcome(wire) = self.receive().await? else { return Err(out_of_place()) };
        Welcome::from_wire(&wire).map_err(|e| ImportError::Server(e.to_string()))
    }

    /// Begins the node's one chain. Its acknowledgement is that of the first segment.
    pub(super) async fn send_start(&mut self, start: &ChainStartParts) -> Result<(), ImportError> {
        self.send(ToServer::ChainStart(start.clone().into_wire())).await
    }

    async fn send_all(
        &mut self,
        segments: &[SealedSegment],
        progress: &Progress,
    ) -> Result<(), ImportError> {
        let Some(last) = segments.last().map(|s| s.signed.head.sequence) else { return Ok(()) };
        let first = segments.first().map_or(last, |s| s.signed.head.sequence);
        let all = u64::try_from(segments.len()).unwrap_or(u64::MAX);
        progress.set(Step::Delivering(0, all));
        let mut unsent = segments.iter().peekable();
        let mut in_flight: Vec<(u64, usize)> = Vec::new();
        loop {
            let bytes: usize = in_flight.iter().map(|(_, bytes)| bytes).sum();
            if let Some(segment) = unsent.next_if(|_| in_flight.is_empty() || bytes < WINDOW_BYTES)
            {
                let parts = SegmentParts::from(segment);
                let weight = parts.blocks.iter().map(Vec::len).sum();
                in_flight.push((segment.signed.head.sequence.0, weight));
                self.send(ToServer::Segment(parts.into_wire())).await?;
                continue;
            }
            if let Some(sequence) = acknowledged(self.receive().await?)? {
                in_flight.retain(|(sent, _)| *sent > sequence.0);
                let done = (sequence.0 + 1).saturating_sub(first.0).min(all);
                progress.set(Step::Delivering(done, all));
                if sequence >= last {
                    return Ok(());
                }
            }
        }
    }

    pub(super) async fn send(&mut self, kind: ToServer) -> Result<(), ImportError> {
        let message = AgentMessage { kind: Some(kind) };
        match self.outgoing.send(message).await {
            Ok(()) => Ok(()),
            // The stream ended; the server's last word says why.
            Err(_) => Err(self.receive().await.err().unwrap_or_else(out_of_place)),
        }
    }

    pub(super) async fn receive(&mut self) -> Result<FromServer, ImportError> {
        let message = self.incoming.message().await.map_err(|status| refused(&status))?;
        message.and_then(|message| message.kind).ok_or_else(|| {
            ImportError::Server(
                "the server ended the stream; run the same command again".to_owned(),
            )
        })
    }
}

/// What a message acknowledges, if anything.
///
/// # Errors
/// [`ImportError::Server`] when it refuses.
pub(super) fn acknowledged(message: FromServer) -> Result<Option<Sequence>, ImportError> {
    match message {
        FromServer::Ack(ack) if !ack.rewind => Ok(Some(Sequence(ack.sequence))),
        FromServer::Refusal(refusal) => {
            let (code, message) = (refusal.code, refusal.message);
            Err(ImportError::Server(format!("the server refuses this log: {message} ({code})")))
        }
        FromServer::Ack(_) => Err(ImportError::Server(
            "another import of this node runs at the same time; try again when it is done"
                .to_owned(),
        )),
        _ => Ok(None),
    }
}

fn check_server(hello: &Hello, challenge: &Challenge) -> Result<(), ImportError> {
    let wrong = || ImportError::Server("the server could not prove its identity".to_owned());
    let key = statement::public_key(&challenge.identity_key).map_err(|_| wrong())?;
    let signature = ed25519_dalek::Signature::from_bytes(&challenge.signature);
    let message = hello.challenge_message(&challenge.server_nonce);
    key.verify_strict(&message, &signature).map_err(|_| wrong())
}

/// An error with its causes.
fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

fn refused(status: &tonic::Status) -> ImportError {
    if status.code() == tonic::Code::Unauthenticated {
        return ImportError::Server(
            "the server does not know this node, and lets a new one in with a join string alone: \
             make one with `leasewatch-server join-token create`, and name it with --join-file"
                .to_owned(),
        );
    }
    ImportError::Server(format!("the server refuses: {}", clean_text(status.message(), 300)))
}

fn out_of_place() -> ImportError {
    ImportError::Server(
        "the server sent something that has no place here; are both of one version?".to_owned(),
    )
}
