//! The RPC: a task per stream that first proves both ends, then carries the two lanes.
//!
//! The task belongs to nobody: a client that goes away closes its ends of the channels, and the
//! task ends by itself, having closed the session's row. Nothing in it can be cancelled half-way.

use std::sync::Arc;

use futures_util::{Stream, StreamExt as _};
use leasewatch_core::delivery::limits;
use leasewatch_core::id::clean_text;
use leasewatch_proto::convert::{Challenge, Welcome};
use leasewatch_proto::v1::agent_message::Kind as FromAgent;
use leasewatch_proto::v1::server_message::Kind as ToAgent;
use leasewatch_proto::v1::{self, AgentMessage, ServerMessage};
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use super::GrpcState;
use super::outbox::{Outbox, busy, gone};
use super::session::{Greeting, Joined, unauthenticated};
use super::stream::ProvenStream;
use crate::identity::Identity;
use crate::store::Scope;
use crate::store::session::{self, SessionKey};

/// When a client that found no room should come back.
const RETRY_MS: u32 = 10_000;

/// Characters of a stream's end in the log; the transport's texts are not ours.
const REASON_CHARS: usize = 200;

/// The implementation of the service.
#[derive(Debug, Clone)]
pub struct TelemetryService {
    state: GrpcState,
}

impl TelemetryService {
    pub(super) fn new(state: GrpcState) -> Self {
        Self { state }
    }
}

#[tonic::async_trait]
impl v1::telemetry_server::Telemetry for TelemetryService {
    type StreamStream = ReceiverStream<Result<ServerMessage, Status>>;

    async fn stream(
        &self,
        request: Request<Streaming<AgentMessage>>,
    ) -> Result<Response<Self::StreamStream>, Status> {
        Ok(Response::new(serve(&self.state, request.into_inner())?))
    }
}

/// Serves one stream whose messages come from `inbound`; the answers are what is returned. To be
/// called inside a runtime.
///
/// # Errors
/// `RESOURCE_EXHAUSTED` with a retry delay when too many streams are open.
pub fn serve(
    state: &GrpcState,
    inbound: impl Stream<Item = Result<AgentMessage, Status>> + Send + Unpin + 'static,
) -> Result<ReceiverStream<Result<ServerMessage, Status>>, Status> {
    let room = Arc::clone(&state.room).try_acquire_owned();
    let room = room.map_err(|_| busy("too many streams are open", RETRY_MS))?;
    let (outbox, outgoing) = Outbox::new(state.options.patience);
    let state = state.clone();
    tokio::spawn(async move {
        let _room = room;
        if let Err(status) = run(&state, inbound, &outbox).await {
            outbox.close(status);
        }
    });
    Ok(ReceiverStream::new(outgoing))
}

async fn run(
    state: &GrpcState,
    mut inbound: impl Stream<Item = Result<AgentMessage, Status>> + Send + Unpin,
    outbox: &Outbox,
) -> Result<(), Status> {
    let proven = timeout(state.options.handshake, prove(state, &mut inbound, outbox)).await;
    let greeting = proven.map_err(|_| unauthenticated())??;
    let joined = greeting.join(state).await?;
    let end = SessionEnd { state: state.clone(), session: joined.session };
    let result = carry(state, &joined, inbound, outbox).await;
    let reason = result.as_ref().err().map_or("the client ended it", |status| status.message());
    let reason = clean_text(reason, REASON_CHARS);
    tracing::info!(node.id = %joined.node.facts.id, reason, "a stream ended");
    drop(end);
    result
}

/// Hello, challenge, proof. The server signs first.
async fn prove(
    state: &GrpcState,
    inbound: &mut (impl Stream<Item = Result<AgentMessage, Status>> + Unpin),
    outbox: &Outbox,
) -> Result<Greeting, Status> {
    let FromAgent::Hello(hello) = next(inbound).await? else { return Err(out_of_place()) };
    let mut greeting = Greeting::read(&hello)?;
    let challenge = challenge(&state.identity, &greeting)?;
    outbox.send(ToAgent::Challenge(challenge.to_wire())).await?;
    let FromAgent::Proof(proof) = next(inbound).await? else { return Err(out_of_place()) };
    greeting.check_proof(&challenge, &proof)?;
    Ok(greeting)
}

fn challenge(identity: &Identity, greeting: &Greeting) -> Result<Challenge, Status> {
    let mut server_nonce = [0_u8; 32];
    getrandom::fill(&mut server_nonce).map_err(|_| Status::unavailable("no random bytes"))?;
    let signature = identity.sign(&greeting.hello.challenge_message(&server_nonce));
    let rotations = identity.rotations().to_vec();
    Ok(Challenge { server_nonce, identity_key: identity.public_key(), signature, rotations })
}

async fn carry(
    state: &GrpcState,
    joined: &Joined,
    inbound: impl Stream<Item = Result<AgentMessage, Status>> + Send + Unpin,
    outbox: &Outbox,
) -> Result<(), Status> {
    let node = joined.node.facts.id;
    let seat = state.registry.enter(node, joined.key_id);
    let open = state.live.open_stream(node, &joined.agent_version);
    let stream = ProvenStream::new(state, joined, outbox);
    let welcome = welcome(state, joined, stream.interval_ms());
    outbox.send(ToAgent::Welcome(welcome)).await?;
    let result = stream.carry(inbound, &seat).await;
    drop(open);
    result
}

fn welcome(state: &GrpcState, joined: &Joined, live_interval_ms: u32) -> v1::Welcome {
    let node = &joined.node.facts;
    let welcome = Welcome {
        node: node.id,
        tenant: node.tenant.clone(),
        cursor: joined.chain.cursor,
        cadence_ms: state.options.cadence_ms,
        live_interval_ms,
        server_time: state.clock.now(),
        recorded_until: joined.recorded_until,
        window_bytes: u32::try_from(limits::WINDOW_BYTES).unwrap_or(u32::MAX),
        start_wanted: !joined.chain.has_begun(),
        session: joined.number,
    };
    welcome.to_wire()
}

async fn next(
    inbound: &mut (impl Stream<Item = Result<AgentMessage, Status>> + Unpin),
) -> Result<FromAgent, Status> {
    let message = inbound.next().await.ok_or_else(gone)??;
    message.kind.ok_or_else(out_of_place)
}

/// A message that has no place at this point.
pub(super) fn out_of_place() -> Status {
    Status::invalid_argument("a message out of place")
}

/// Writes the end of a session when dropped, whatever ended it: a panic of the stream's task
/// included.
struct SessionEnd {
    state: GrpcState,
    session: SessionKey,
}

impl Drop for SessionEnd {
    fn drop(&mut self) {
        let (db, session, at) = (self.state.db.clone(), self.session, self.state.clock.now());
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn(async move {
            let closed = async {
                let mut tx = db.begin(Scope::Ingest).await?;
                session::close(&mut tx, session, at).await?;
                tx.commit().await
            };
            // The next start of the server closes what stays open.
            if let Err(error) = closed.await {
                tracing::warn!(error = %error, "the end of a session could not be noted");
            }
        });
    }
}
