//! A server that welcomes everybody, acknowledges everything and remembers the live frames.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use ed25519_dalek::{Signer, SigningKey};
use leasewatch_core::delivery::Cursor;
use leasewatch_core::id::{Hash, KeyId, Sequence};
use leasewatch_core::time::Timestamp;
use leasewatch_proto::convert::{Ack, Challenge, Hello, LiveFrame, SegmentParts, Welcome};
use leasewatch_proto::v1::agent_message::Kind as Up;
use leasewatch_proto::v1::server_message::Kind as Down;
use leasewatch_proto::v1::telemetry_server::{Telemetry, TelemetryServer};
use leasewatch_proto::v1::{AgentMessage, ServerMessage};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

/// What came of one node.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    pub(crate) frames: Vec<LiveFrame>,
    /// The last sequence that was acknowledged.
    pub(crate) acked: u64,
    /// Bytes of the segments, as they were sealed.
    pub(crate) bytes: u64,
    /// Hashes of their heads, in the order in which they came.
    pub(crate) heads: Vec<String>,
}

/// A server on a port of its own, which ends with the test's process.
#[derive(Clone)]
pub(crate) struct Sink {
    identity: SigningKey,
    seen: Arc<Mutex<BTreeMap<String, Seen>>>,
}

impl Sink {
    /// Starts it; returns its address too.
    pub(crate) fn start() -> (Self, String) {
        let sink = Self { identity: SigningKey::from_bytes(&[9; 32]), seen: Arc::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let serving = tonic::transport::Server::builder()
            .add_service(TelemetryServer::new(sink.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        std::thread::spawn(move || runtime.block_on(serving));
        (sink, address)
    }

    /// What came of a node so far.
    pub(crate) fn of(&self, node: &str) -> Seen {
        self.seen.lock().unwrap().get(node).cloned().unwrap_or_default()
    }

    /// Its identity key, as an agent keeps it.
    pub(crate) fn public_key(&self) -> String {
        format!("{}\n", Hash(self.identity.verifying_key().to_bytes()))
    }

    fn note(&self, node: &str, change: impl FnOnce(&mut Seen)) {
        change(self.seen.lock().unwrap().entry(node.to_owned()).or_default());
    }

    async fn serve(
        self,
        mut messages: Streaming<AgentMessage>,
        answers: mpsc::Sender<Result<ServerMessage, Status>>,
    ) -> Option<()> {
        let say = |kind| answers.send(Ok(ServerMessage { kind: Some(kind) }));
        let Up::Hello(hello) = next(&mut messages).await? else { return None };
        let hello = Hello::from_wire(&hello).unwrap();
        let server_nonce = [7; 32];
        let signature = self.identity.sign(&hello.challenge_message(&server_nonce)).to_bytes();
        let identity_key = self.identity.verifying_key().to_bytes();
        let rotations = Vec::new();
        let challenge = Challenge { server_nonce, identity_key, signature, rotations };
        say(Down::Challenge(challenge.to_wire())).await.ok()?;
        let Up::Proof(_) = next(&mut messages).await? else { return None };
        let welcome = Welcome {
            node: KeyId::of_public_key(&hello.public_key).first_node_id(),
            tenant: hello.tenant.clone(),
            cursor: Cursor::START,
            cadence_ms: 1_000,
            live_interval_ms: 250,
            server_time: Timestamp(1_800_000_000_000),
            recorded_until: None,
            window_bytes: 0,
            start_wanted: true,
            session: 1,
        };
        say(Down::Welcome(welcome.to_wire())).await.ok()?;
        let name = hello.node_name;
        loop {
            let sequence = match next(&mut messages).await? {
                Up::ChainStart(_) => Sequence(0),
                Up::Segment(wire) => {
                    let parts = SegmentParts::from_wire(wire).unwrap();
                    let blocks: usize = parts.blocks.iter().map(Vec::len).sum();
                    let bytes = u64::try_from(parts.statement.len() + blocks).unwrap();
                    let head: serde_json::Value = serde_json::from_slice(&parts.statement).unwrap();
                    let sequence = head["sequence"].as_u64().unwrap();
                    let hash = Hash::of(&parts.statement).to_string();
                    self.note(&name, |seen| {
                        (seen.acked, seen.bytes) = (sequence, seen.bytes + bytes);
                        seen.heads.push(hash);
                    });
                    Sequence(sequence)
                }
                Up::Live(wire) => {
                    let frame = LiveFrame::from_wire(&wire).unwrap();
                    self.note(&name, |seen| seen.frames.push(frame));
                    continue;
                }
                _ => continue,
            };
            say(Down::Ack(Ack { sequence, rewind: false }.to_wire())).await.ok()?;
        }
    }
}

#[tonic::async_trait]
impl Telemetry for Sink {
    type StreamStream = Pin<Box<dyn Stream<Item = Result<ServerMessage, Status>> + Send>>;

    async fn stream(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Self::StreamStream>, Status> {
        let (answers, stream) = mpsc::channel(64);
        tokio::spawn(self.clone().serve(request.into_inner(), answers));
        Ok(Response::new(Box::pin(ReceiverStream::new(stream))))
    }
}

async fn next(messages: &mut Streaming<AgentMessage>) -> Option<Up> {
    messages.next().await?.ok()?.kind
}
