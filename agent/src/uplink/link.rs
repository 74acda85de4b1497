//! One connection and its stream. Keep-alives both ways: without them a client never recovers
//! from a partition that says nothing.

use std::fmt;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, pending};
use leasewatch_core::delivery::Ending;
use leasewatch_proto::channel::ServerAddress;
use leasewatch_proto::convert::MESSAGE_BYTES_MAX;
use leasewatch_proto::v1::agent_message::Kind as Up;
use leasewatch_proto::v1::server_message::Kind as Down;
use leasewatch_proto::v1::telemetry_client::TelemetryClient;
use leasewatch_proto::v1::{AgentMessage, Hello, ServerMessage};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Response, Status, Streaming};

/// Messages that may wait for the socket. Delivery's window bounds their bytes; a queue that is
/// full nevertheless is a stream that does not move.
const QUEUE: usize = 1_024;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const KEEP_ALIVE_EVERY: Duration = Duration::from_secs(10);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);

/// The state of the transport.
pub(super) enum Link {
    /// Nothing.
    Down,
    /// A TCP, perhaps a TLS, and an HTTP/2 connection are being made.
    Dialing(BoxFuture<'static, Result<Channel, tonic::transport::Error>>),
    /// It is there, and no stream on it yet.
    Connected(Channel),
    /// The hello is sent; the server has not answered.
    Opening(
        mpsc::Sender<AgentMessage>,
        BoxFuture<'static, Result<Response<Streaming<ServerMessage>>, Status>>,
    ),
    /// Both directions.
    Up(mpsc::Sender<AgentMessage>, Streaming<ServerMessage>),
}

/// What happened on the link.
#[derive(Debug)]
pub(super) enum LinkEvent {
    Connected,
    Message(Down),
    Ended(Why),
}

/// Why there is no link.
#[derive(Debug)]
pub(super) enum Why {
    /// The address is none, or nothing answers there.
    Unreachable(tonic::transport::Error),
    /// The server ended the stream with a status.
    Status(Status),
    /// The server ended the stream.
    Closed,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Down => "Down",
            Self::Dialing(_) => "Dialing",
            Self::Connected(_) => "Connected",
            Self::Opening(..) => "Opening",
            Self::Up(..) => "Up",
        })
    }
}

impl Link {
    pub(super) fn dial(server: &ServerAddress) -> Self {
        let server = server.clone();
        let configure = |endpoint: Endpoint| {
            endpoint
                .connect_timeout(CONNECT_TIMEOUT)
                .http2_keep_alive_interval(KEEP_ALIVE_EVERY)
                .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
                .keep_alive_while_idle(true)
        };
        Self::Dialing(async move { server.connect(configure).await }.boxed())
    }

    /// Opens the stream with its first message.
    pub(super) fn open(&mut self, hello: Hello) {
        if let Self::Connected(channel) = self {
            let mut client =
                TelemetryClient::new(channel.clone()).max_decoding_message_size(MESSAGE_BYTES_MAX);
            let (to_server, messages) = mpsc::channel(QUEUE);
            // A fresh queue has room.
            let _ = to_server.try_send(AgentMessage { kind: Some(Up::Hello(hello)) });
            let messages = ReceiverStream::new(messages);
            let response = async move { client.stream(messages).await }.boxed();
            *self = Self::Opening(to_server, response);
        }
    }

    /// Queues a message. One that cannot be queued ends the link: delivery would wait for an
    /// answer that never comes.
    pub(super) fn send(&mut self, kind: Up) {
        let (Self::Opening(to_server, _) | Self::Up(to_server, _)) = self else { return };
        if to_server.try_send(AgentMessage { kind: Some(kind) }).is_err() {
            tracing::warn!("the stream takes no more messages");
            let gone = Status::unavailable("the stream takes no more messages");
            let (to_server, _) = mpsc::channel(1);
            *self = Self::Opening(to_server, async move { Err(gone) }.boxed());
        }
    }

    /// The next thing that happens. Cancelling the wait loses nothing.
    pub(super) async fn event(&mut self) -> LinkEvent {
        loop {
            match self {
                Self::Down | Self::Connected(_) => pending().await,
                Self::Dialing(connect) => match connect.await {
                    Ok(channel) => {
                        *self = Self::Connected(channel);
                        return LinkEvent::Connected;
                    }
                    Err(error) => return self.ended(Why::Unreachable(error)),
                },
                Self::Opening(to_server, response) => match response.await {
                    Ok(response) => *self = Self::Up(to_server.clone(), response.into_inner()),
                    Err(status) => return self.ended(Why::Status(status)),
                },
                Self::Up(_, messages) => match messages.message().await {
                    Ok(Some(ServerMessage { kind: Some(kind) })) => {
                        return LinkEvent::Message(kind);
                    }
                    // A kind that this version does not know.
                    Ok(Some(ServerMessage { kind: None })) => {}
                    Ok(None) => return self.ended(Why::Closed),
                    Err(status) => return self.ended(Why::Status(status)),
                },
            }
        }
    }

    fn ended(&mut self, why: Why) -> LinkEvent {
        *self = Self::Down;
        LinkEvent::Ended(why)
    }
}

impl Why {
    /// Whether trying again soon can help.
    pub(super) fn ending(&self) -> Ending {
        if self.advice().is_some() { Ending::Refused } else { Ending::Lost }
    }

    /// Whether no server answered there.
    pub(super) fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable(_))
    }

    /// Whether the server found fault with what this end said.
    pub(super) fn is_invalid(&self) -> bool {
        matches!(self, Self::Status(status) if status.code() == Code::InvalidArgument)
    }

    /// What to do, where trying again does not help.
    pub(super) fn advice(&self) -> Option<&'static str> {
        let Self::Status(status) = self else { return None };
        match status.code() {
            Code::FailedPrecondition => {
                Some("agent and server do not fit: install the version that the server names")
            }
            Code::PermissionDenied => Some(
                "the server does not take this node: check --tenant and --provider, and \
                      whether its key was revoked",
            ),
            Code::Unauthenticated => Some(
                "the server does not know this node's key, or does not accept it any more, and the \
                      join string is missing, used up, revoked or expired: start with a new one",
            ),
            Code::InvalidArgument => {
                Some("the server does not take what this agent says: check --name and the clock")
            }
            Code::Unimplemented => Some("there is no leasewatch server: check --server"),
            _ => None,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(error) => {
                write!(f, "{error}")?;
                let mut source = std::error::Error::source(error);
                while let Some(cause) = source {
                    write!(f, ": {cause}")?;
                    source = cause.source();
                }
                Ok(())
            }
            Self::Status(status) => {
                let text = leasewatch_core::id::clean_text(status.message(), 256);
                write!(f, "{:?}: {text}", status.code())
            }
            Self::Closed => f.write_str("the server closed the stream"),
        }
    }
}
