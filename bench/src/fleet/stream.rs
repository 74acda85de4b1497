//! One node's connection: dialled, proven, and ready for segments.

use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use leasewatch_core::id::clean_text;
use leasewatch_proto::channel::{ServerAddress, ServerCertificate};
use leasewatch_proto::convert::{Challenge, MESSAGE_BYTES_MAX, Welcome};
use leasewatch_proto::v1::agent_message::Kind as ToServer;
use leasewatch_proto::v1::server_message::Kind as FromServer;
use leasewatch_proto::v1::telemetry_client::TelemetryClient;
use leasewatch_proto::v1::{AgentMessage, ServerMessage, TimeEcho, TimeProbe};
use prost::Message as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

use crate::clock;
use crate::node::BenchNode;

/// Messages that may wait for the socket.
const QUEUE: usize = 64;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// Opens connections to one server.
pub(super) struct Dialer(ServerAddress);

impl Dialer {
    pub(super) fn new(server: &str, certificate: Option<&Path>) -> anyhow::Result<Self> {
        let certificate = certificate.map(ServerCertificate::read).transpose()?;
        let address = ServerAddress::new(server, certificate);
        Ok(Self(address.with_context(|| format!("--server {server}"))?))
    }

    async fn dial(&self) -> anyhow::Result<Channel> {
        let configure = |endpoint: Endpoint| {
            endpoint
                .connect_timeout(CONNECT_TIMEOUT)
                .http2_keep_alive_interval(KEEP_ALIVE)
                .keep_alive_timeout(KEEP_ALIVE)
        };
        self.0.connect(configure).await.context("no connection to the server")
    }
}

/// A stream whose two ends have proven themselves.
pub(super) struct Stream {
    outgoing: mpsc::Sender<AgentMessage>,
    incoming: Streaming<ServerMessage>,
    /// What the server said when the stream was open.
    pub(super) welcome: Welcome,
}

impl Stream {
    pub(super) async fn open(dialer: &Dialer, node: &BenchNode) -> anyhow::Result<Self> {
        let channel = dialer.dial().await?;
        let mut client = TelemetryClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX);
        let (outgoing, queue) = mpsc::channel(QUEUE);
        let hello = node.hello()?;
        send(&outgoing, ToServer::Hello(hello.to_wire())).await?;
        let mut incoming = client.stream(ReceiverStream::new(queue)).await?.into_inner();
        let FromServer::Challenge(wire) = receive(&mut incoming).await? else {
            anyhow::bail!("no challenge came");
        };
        let proof = node.prove(&hello, &Challenge::from_wire(&wire)?)?;
        send(&outgoing, ToServer::Proof(proof.to_wire())).await?;
        let FromServer::Welcome(wire) = receive(&mut incoming).await? else {
            anyhow::bail!("no welcome came");
        };
        let welcome = Welcome::from_wire(&wire)?;
        if welcome.start_wanted {
            // Before everything that the node's first segment can hold.
            let at = clock::wall();
            let start = node.chain_start(at).into_wire();
            send(&outgoing, ToServer::ChainStart(start)).await?;
        }
        Ok(Self { outgoing, incoming, welcome })
    }

    /// Sends a message; returns its bytes.
    pub(super) async fn send(&self, kind: ToServer) -> anyhow::Result<usize> {
        send(&self.outgoing, kind).await
    }

    /// The next message. Safe to cancel.
    pub(super) async fn receive(&mut self) -> anyhow::Result<FromServer> {
        receive(&mut self.incoming).await
    }

    /// Answers the question for the clock.
    pub(super) async fn echo(&self, probe: &TimeProbe) -> anyhow::Result<()> {
        let now = clock::wall().0;
        let echo = TimeEcho {
            id: probe.id,
            server_sent_ms: probe.server_sent_ms,
            agent_received_ms: now,
            agent_sent_ms: now,
        };
        self.send(ToServer::TimeEcho(echo)).await.map(|_| ())
    }
}

async fn send(outgoing: &mpsc::Sender<AgentMessage>, kind: ToServer) -> anyhow::Result<usize> {
    let message = AgentMessage { kind: Some(kind) };
    let bytes = message.encoded_len();
    outgoing.send(message).await.ok().context("the stream ended")?;
    Ok(bytes)
}

async fn receive(incoming: &mut Streaming<ServerMessage>) -> anyhow::Result<FromServer> {
    let message = incoming.message().await.map_err(|status| {
        anyhow::anyhow!("{:?}: {}", status.code(), clean_text(status.message(), 200))
    })?;
    message.and_then(|message| message.kind).context("the server ended the stream")
}
