//! The agents' side of the port: one bidirectional stream per agent.
//!
//! A stream proves both ends first (`session`), then carries segments against acknowledgements and
//! live frames beside them (`stream`). All segments go through one task (`writer`); a stream only
//! waits for it. Whatever an agent sends is hostile until `check` or `session` has taken it
//! apart. Not here: pages (`http`), hours (`jobs`), and the listener itself: whoever serves
//! [`routes`] sets HTTP/2 keep-alives ([`KEEP_ALIVE_INTERVAL`]), without which a silent partition
//! is only noticed by [`GrpcOptions::silence`].

pub mod beginning;
pub mod check;
mod clock_probe;
mod introduction;
mod liveness;
mod outbox;
mod registry;
mod revocation;
mod session;
mod stream;
mod telemetry;
mod testimony;
pub mod writer;

use std::sync::Arc;
use std::time::Duration;

use leasewatch_core::delivery::{Cursor, StoredChain};
use leasewatch_core::evidence::identity::SignedStatement;
use leasewatch_core::id::Slug;
use leasewatch_proto::convert::MESSAGE_BYTES_MAX;
use leasewatch_proto::v1::telemetry_server::TelemetryServer;
use tokio::sync::{Semaphore, watch};
use tonic::server::NamedService as _;

use crate::clock::Clock;
use crate::identity::Identity;
use crate::live::Live;
use crate::sabotage;
use crate::store::Db;
use crate::store::chain::ChainRow;

pub use introduction::introduce_nodes;
pub use liveness::spawn_liveness;
pub use revocation::spawn_revocations;
pub use session::ProvenNode;
pub use telemetry::{TelemetryService, serve};

use registry::Registry;
use writer::{Writer, WriterOptions};

/// How often the listener should ping an HTTP/2 connection.
pub const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(20);
/// How long it should wait for the answer.
pub const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(20);

/// What streams work with. Cheap to clone.
#[derive(Debug, Clone)]
pub struct GrpcState {
    /// The store.
    pub db: Db,
    /// Live state.
    pub live: Live,
    /// Server time.
    pub clock: Clock,
    /// Signs challenges.
    pub identity: Arc<Identity>,
    /// Writes segments.
    pub writer: Writer,
    /// Bounds.
    pub options: Arc<GrpcOptions>,
    registry: Registry,
    room: Arc<Semaphore>,
    /// What nodes are told of the server, and each change of it.
    notice: watch::Receiver<Option<SignedStatement>>,
}

/// Bounds of streams.
#[derive(Debug, Clone)]
pub struct GrpcOptions {
    /// Whether a key that nobody knows may join without a token. Only for a port that nobody but
    /// this machine reaches.
    pub open_enrollment: bool,
    /// Tenants that such a node may ask to belong to; those that do not exist yet are made.
    pub tenants: Vec<Slug>,
    /// Wanted time between samples.
    pub cadence_ms: u32,
    /// Longest time from opening a stream to its proof.
    pub handshake: Duration,
    /// Longest time for which a message waits for a client that does not read.
    pub patience: Duration,
    /// Longest silence of a client; it answers a probe each [`GrpcOptions::probe`].
    pub silence: Duration,
    /// Time between two questions for a client's clock.
    pub probe: Duration,
    /// Streams that may be open at once, proven or not.
    pub streams: usize,
    /// Of the writer.
    pub writer: WriterOptions,
}

impl GrpcOptions {
    /// The usual bounds.
    #[must_use]
    pub fn new(tenants: Vec<Slug>) -> Self {
        Self {
            open_enrollment: false,
            tenants,
            cadence_ms: 1_000,
            handshake: Duration::from_secs(20),
            patience: Duration::from_secs(30),
            silence: Duration::from_secs(120),
            probe: Duration::from_secs(15),
            streams: 1_024,
            writer: WriterOptions::default(),
        }
    }
}

impl GrpcState {
    /// Starts the writer. To be called inside a runtime.
    #[must_use]
    pub fn new(
        db: Db,
        live: Live,
        clock: Clock,
        identity: Arc<Identity>,
        options: GrpcOptions,
    ) -> Self {
        let writer = Writer::spawn(db.clone(), live.clone(), clock.clone(), options.writer);
        let room = Arc::new(Semaphore::new(options.streams.min(Semaphore::MAX_PERMITS)));
        let registry = Registry::default();
        let (options, (_, notice)) = (Arc::new(options), watch::channel(None));
        Self { db, live, clock, identity, writer, options, registry, room, notice }
    }

    /// The same, and nodes are told this: after their welcome, and at each change.
    #[must_use]
    pub fn announcing(self, notice: watch::Receiver<Option<SignedStatement>>) -> Self {
        Self { notice, ..self }
    }
}

/// The service with its message bound.
#[must_use]
pub fn service(state: GrpcState) -> TelemetryServer<TelemetryService> {
    let bytes_max = if sabotage::is("unbounded_messages") { usize::MAX } else { MESSAGE_BYTES_MAX };
    TelemetryServer::new(TelemetryService::new(state))
        .max_decoding_message_size(bytes_max)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// The service as a router without a fallback, to be merged with the pages'.
pub fn routes(state: GrpcState) -> axum::Router {
    let path = format!("/{}/{{*method}}", TelemetryServer::<TelemetryService>::NAME);
    axum::Router::new().route_service(&path, service(state))
}

/// The rows of a chain as the rules know it.
fn stored_chain(row: &ChainRow) -> StoredChain {
    let cursor = row.cursor.map_or(Cursor::START, |cursor| Cursor {
        sequence: cursor.sequence,
        head: Some(cursor.head_hash),
    });
    StoredChain { start: row.start, cursor }
}
