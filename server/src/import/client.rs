//! Delivers sealed segments to the running server, as an agent would.
//!
//! An import is short and watched by a person, so it does not reconnect: when the stream breaks it
//! says so, and running the same command again continues behind what was acknowledged.

use leasewatch_core::evidence::chain::SealedSegment;
use leasewatch_core::evidence::statement;
use leasewatch_core::id::{ChainId, EpochId, Hash, LifeUnitId, NodeId, clean_text};
use leasewatch_core::segment::Origin;
use leasewatch_core::time::Period;
use leasewatch_proto::convert::{
    Challenge, Hello, MESSAGE_BYTES_MAX, Proof, SegmentParts, Welcome,
};
use leasewatch_proto::v1::agent_message::Kind as ToServer;
use leasewatch_proto::v1::server_message::Kind as FromServer;
use leasewatch_proto::v1::telemetry_client::TelemetryClient;
use leasewatch_proto::v1::{AgentMessage, ServerMessage};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

use super::covered::Covered;
use super::log::ImportLog;
use super::recorder::Recorder;
use super::{ImportError, ImportReport, ImportRequest};
use crate::identity::Identity;

/// Most bytes that wait for an acknowledgement.
const WINDOW_BYTES: usize = 256 * 1_024;

/// Seals `log` and delivers it; returns when everything is acknowledged.
///
/// # Errors
/// [`ImportError`]. What was acknowledged before an error stays and is not sent again.
pub async fn deliver(
    request: &ImportRequest,
    log: &ImportLog,
    cadence_ms: u32,
    mut progress: impl FnMut(u64, u64),
) -> Result<ImportReport, ImportError> {
    let name = clean_text(&request.node, 120);
    if name.trim().is_empty() {
        return Err(ImportError::NodeName);
    }
    let keys = request.key_dir.join(key_folder(request, &name));
    let identity = Identity::load_or_create(&keys).map_err(|e| ImportError::Seal(e.to_string()))?;
    let hello = hello(request, name, &identity)?;
    let mut stream = Stream::open(&request.server).await?;
    let welcome = stream.shake_hands(&hello, &identity).await?;
    let head = welcome.cursor.head;
    let covered = Covered::load(&keys, head, welcome.recorded_until);
    let (fresh, rows_covered) = covered.uncovered(log);
    let recorder = Recorder {
        key: identity.signing_key(),
        node: welcome.node,
        tenant: welcome.tenant.clone(),
        chain: hello.chain,
        epoch: hello.epoch,
        cursor: head.map(|head| (welcome.cursor.sequence, head)),
        cadence_ms,
    };
    let segments = recorder.seal_all(&fresh).map_err(ImportError::Seal)?;
    stream.send_all(&segments, &mut progress).await?;
    if let Some(last) = segments.last() {
        let stored = covered.store(&keys, last.signed.head.hash(), &fresh);
        stored.map_err(|source| ImportError::File { path: keys.display().to_string(), source })?;
    }
    Ok(report(log, &fresh, rows_covered, (welcome.node, segments.len(), cadence_ms)))
}

fn report(
    log: &ImportLog,
    fresh: &ImportLog,
    rows_covered: usize,
    (node, segments, cadence_ms): (NodeId, usize, u32),
) -> ImportReport {
    let times = || log.gpus.iter().flat_map(|gpu| &gpu.rows).map(|row| row.at);
    ImportReport {
        node: node.to_string(),
        rows: fresh.gpus.iter().map(|gpu| gpu.rows.len()).sum(),
        rows_covered,
        rows_repeated: log.rows_repeated,
        segments: u64::try_from(segments).unwrap_or(u64::MAX),
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

/// The node's one chain and its one epoch are named after its key: a log that is imported in
/// pieces gives the same hours as the whole.
fn hello(request: &ImportRequest, name: String, identity: &Identity) -> Result<Hello, ImportError> {
    let mut client_nonce = [0_u8; 32];
    getrandom::fill(&mut client_nonce).map_err(|e| ImportError::Seal(e.to_string()))?;
    let public_key = identity.public_key();
    let [chain @ .., e0, e1, e2, e3, e4, e5, e6, e7] = first_24(&public_key);
    let node: NodeId = identity.key_id().first_node_id();
    Ok(Hello {
        public_key,
        client_nonce,
        chain: ChainId(chain),
        epoch: EpochId([e0, e1, e2, e3, e4, e5, e6, e7]),
        life_unit: LifeUnitId(node.0),
        oldest: None,
        newest: None,
        tenant: request.tenant.clone(),
        provider: request.provider.clone(),
        node_name: name,
        origin: Origin::Imported,
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

fn first_24(public_key: &[u8; 32]) -> [u8; 24] {
    let digest = Hash::of(&[b"leasewatch/import-chain/v1\n".as_slice(), public_key].concat());
    let mut first = [0; 24];
    first.copy_from_slice(&digest.0[..24]);
    first
}

struct Stream {
    outgoing: mpsc::Sender<AgentMessage>,
    incoming: Streaming<ServerMessage>,
}

impl Stream {
    async fn open(server: &str) -> Result<Self, ImportError> {
        let unreachable = |error: tonic::transport::Error| {
            let reason =
                std::error::Error::source(&error).map_or_else(String::new, ToString::to_string);
            ImportError::Server(format!(
                "no server answers at {server} ({error} {reason}); start it with `leasewatch-server serve`, or name it with --server"
            ))
        };
        let endpoint = Endpoint::from_shared(server.to_owned()).map_err(unreachable)?;
        let channel: Channel = endpoint.connect().await.map_err(unreachable)?;
        let mut client = TelemetryClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let (outgoing, queue) = mpsc::channel(64);
        let incoming = client.stream(ReceiverStream::new(queue)).await.map_err(|s| refused(&s))?;
        Ok(Self { outgoing, incoming: incoming.into_inner() })
    }

    async fn shake_hands(
        &mut self,
        hello: &Hello,
        identity: &Identity,
    ) -> Result<Welcome, ImportError> {
        self.send(ToServer::Hello(hello.to_wire())).await?;
        let FromServer::Challenge(wire) = self.receive().await? else { return Err(out_of_place()) };
        let challenge =
            Challenge::from_wire(&wire).map_err(|e| ImportError::Server(e.to_string()))?;
        check_server(hello, &challenge)?;
        let proof = Proof { signature: identity.sign(&challenge.proof_message(hello)) };
        self.send(ToServer::Proof(proof.to_wire())).await?;
        let FromServer::Welcome(wire) = self.receive().await? else { return Err(out_of_place()) };
        Welcome::from_wire(&wire).map_err(|e| ImportError::Server(e.to_string()))
    }

    async fn send_all(
        &mut self,
        segments: &[SealedSegment],
        progress: &mut impl FnMut(u64, u64),
    ) -> Result<(), ImportError> {
        let Some(last) = segments.last().map(|s| s.signed.head.sequence) else { return Ok(()) };
        let first = segments.first().map_or(last, |s| s.signed.head.sequence);
        let all = u64::try_from(segments.len()).unwrap_or(u64::MAX);
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
            match self.receive().await? {
                FromServer::Ack(ack) if !ack.rewind => {
                    in_flight.retain(|(sequence, _)| *sequence > ack.sequence);
                    progress((ack.sequence + 1).saturating_sub(first.0).min(all), all);
                    if ack.sequence >= last.0 {
                        return Ok(());
                    }
                }
                FromServer::Refusal(refusal) => {
                    let (code, message) = (refusal.code, refusal.message);
                    return Err(ImportError::Server(format!(
                        "the server refuses this log: {message} ({code})"
                    )));
                }
                FromServer::Ack(_) => {
                    return Err(ImportError::Server(
                        "another import of this node runs at the same time; try again when it is done".to_owned(),
                    ));
                }
                _ => {}
            }
        }
    }

    async fn send(&mut self, kind: ToServer) -> Result<(), ImportError> {
        let message = AgentMessage { kind: Some(kind) };
        match self.outgoing.send(message).await {
            Ok(()) => Ok(()),
            // The stream ended; the server's last word says why.
            Err(_) => Err(self.receive().await.err().unwrap_or_else(out_of_place)),
        }
    }

    async fn receive(&mut self) -> Result<FromServer, ImportError> {
        let message = self.incoming.message().await.map_err(|status| refused(&status))?;
        message.and_then(|message| message.kind).ok_or_else(|| {
            ImportError::Server(
                "the server ended the stream; run the same command again".to_owned(),
            )
        })
    }
}

fn check_server(hello: &Hello, challenge: &Challenge) -> Result<(), ImportError> {
    let wrong = || ImportError::Server("the server could not prove its identity".to_owned());
    let key = statement::public_key(&challenge.identity_key).map_err(|_| wrong())?;
    let signature = ed25519_dalek::Signature::from_bytes(&challenge.signature);
    let message = hello.challenge_message(&challenge.server_nonce);
    key.verify_strict(&message, &signature).map_err(|_| wrong())
}

fn refused(status: &tonic::Status) -> ImportError {
    ImportError::Server(format!("the server refuses: {}", clean_text(status.message(), 300)))
}

fn out_of_place() -> ImportError {
    ImportError::Server(
        "the server sent something that has no place here; are both of one version?".to_owned(),
    )
}
