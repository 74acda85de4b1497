//! What goes to the client, with patience for one that reads slowly and none for one that does not.

use std::time::Duration;

use leasewatch_proto::v1::ServerMessage;
use leasewatch_proto::v1::server_message::Kind;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::Status;

/// Messages that wait for the transport.
const CAPACITY: usize = 64;

/// The sending end.
#[derive(Debug)]
pub(super) struct Outbox {
    sender: mpsc::Sender<Result<ServerMessage, Status>>,
    patience: Duration,
}

pub(super) type Outgoing = mpsc::Receiver<Result<ServerMessage, Status>>;

impl Outbox {
    pub(super) fn new(patience: Duration) -> (Self, Outgoing) {
        let (sender, receiver) = mpsc::channel(CAPACITY);
        (Self { sender, patience }, receiver)
    }

    /// # Errors
    /// The status that the stream ends with: the client is gone, or did not read for too long.
    pub(super) async fn send(&self, kind: Kind) -> Result<(), Status> {
        let message = ServerMessage { kind: Some(kind) };
        match timeout(self.patience, self.sender.send(Ok(message))).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(gone()),
            Err(_) => Err(Status::deadline_exceeded("the client does not read")),
        }
    }

    /// Ends the stream with a status, if there is room for it; a client that does not read finds
    /// the stream ended without one.
    pub(super) fn close(&self, status: Status) {
        let _ = self.sender.try_send(Err(status));
    }

    /// Completes when the client's end is gone.
    pub(super) async fn closed(&self) {
        self.sender.closed().await;
    }
}

/// The client left.
pub(super) fn gone() -> Status {
    Status::cancelled("the client is gone")
}

/// Too much at once: come back in `retry_ms`. The key is gRPC's own for a wished retry delay.
pub(super) fn busy(text: &'static str, retry_ms: u32) -> Status {
    let mut status = Status::resource_exhausted(text);
    status.metadata_mut().insert("grpc-retry-pushback-ms", retry_ms.into());
    status
}
