//! Delivers the spool to the server and shows current values, for as long as the agent runs.
//!
//! What is sent when is decided by [`leasewatch_core::delivery::Sender`]; here are the socket, the
//! keys and the log. The server proves itself before the node shows more than its public key; the
//! identity key that it showed first is the only one accepted afterwards, until that key or the
//! server's recovery key has named another. Nothing is recorded
//! here, and nothing that a server says can make the agent run anything.

mod frame;
mod handshake;
mod link;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use leasewatch_core::delivery::{Action, CloseReason, Ending, Moment, Sender, SpoolIndex};
use leasewatch_core::evidence::chain::ChainStartReason;
use leasewatch_core::id::{ChainId, Sequence, Slug};
use leasewatch_proto::channel::ServerAddress;
use leasewatch_proto::convert::{
    Ack, ChainStartParts, Challenge, DropParts, Hello, LivePace, Refusal, SegmentParts, Welcome,
    estimate_from_wire,
};
use leasewatch_proto::v1::agent_message::Kind as Up;
use leasewatch_proto::v1::server_message::Kind as Down;
use tokio::sync::watch;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at, sleep};

use self::link::{Link, LinkEvent};
use crate::clock;
use crate::enrollment::Servers;
use crate::identity::StateDir;
use crate::observation::LiveState;
use crate::recorder::Journal;
use crate::sabotage;

/// How often live frames go out until the server asks for another pace.
const LIVE_MS: u32 = 5_000;
/// How long a stop may wait for the last acknowledgements.
const FLUSH: Duration = Duration::from_secs(5);

/// Where to deliver, and as whom to introduce the node.
#[derive(Debug, Clone)]
pub struct UplinkOptions {
    /// Where, and what a node that was never welcomed shows there.
    pub servers: Servers,
    /// The tenant that a new node asks to belong to, where it needs no join string.
    pub tenant: Slug,
    /// Who supplies the node.
    pub provider: Slug,
    /// The name that people see.
    pub node_name: String,
}

/// What the rest of the agent shares with the uplink.
#[derive(Debug, Clone)]
pub struct Shared {
    /// The chain and its spool.
    pub journal: Arc<Journal>,
    /// Where the server's key is pinned.
    pub state_dir: Arc<StateDir>,
    /// Current values, once there is a sampler.
    pub live: Arc<OnceLock<LiveState>>,
}

/// The task that holds the stream.
#[derive(Debug)]
pub struct Uplink {
    options: UplinkOptions,
    /// Which of the addresses is tried.
    address: usize,
    shared: Shared,
    welcomed: watch::Sender<bool>,
    connected: watch::Sender<bool>,
    sender: Sender,
    link: Link,
    hello: Option<Hello>,
    challenge: Option<Challenge>,
    /// Node wall clock at the proof, for the offset that the welcome shows.
    proof_sent_ms: i64,
    welcome: Option<Welcome>,
    live: Interval,
    refusal_code: String,
    /// The chain's start was sent on this stream and not answered.
    start_in_flight: bool,
}

enum Wake {
    Link(LinkEvent),
    LiveFrame,
    Look,
    Stop,
}

impl Uplink {
    /// An uplink that is not connected yet, and a flag that becomes true with the first welcome.
    #[must_use]
    pub fn new(options: UplinkOptions, shared: Shared) -> (Self, watch::Receiver<bool>) {
        let (welcomed, flag) = watch::channel(shared.journal.enrolled().is_some());
        let uplink = Self {
            options,
            address: 0,
            shared,
            welcomed,
            connected: watch::Sender::new(false),
            sender: Sender::new(now()),
            link: Link::Down,
            hello: None,
            challenge: None,
            proof_sent_ms: 0,
            welcome: None,
            live: pace(LIVE_MS),
            refusal_code: String::new(),
            start_in_flight: false,
        };
        (uplink, flag)
    }

    /// True while a welcomed stream is open.
    #[must_use]
    pub fn connected(&self) -> watch::Receiver<bool> {
        self.connected.subscribe()
    }

    /// Runs until `stop` turns true, and then for up to five seconds more while an open stream
    /// still delivers. Returns how many segments were not acknowledged.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) -> u64 {
        let mut deadline = None;
        loop {
            self.drive();
            self.connected
                .send_if_modified(|open| std::mem::replace(open, self.sender.is_open()) != *open);
            let waiting = self.shared.journal.with_spool(|spool| spool.segments());
            if let Some(deadline) = deadline
                && (waiting == 0 || !self.sender.is_open() || Instant::now() >= deadline)
            {
                return waiting;
            }
            match self.wake(&mut stop, deadline).await {
                Wake::Link(event) => self.on_link_event(event),
                Wake::LiveFrame => self.send_live_frame(),
                Wake::Look => {}
                Wake::Stop => deadline = Some(Instant::now() + FLUSH),
            }
        }
    }

    async fn wake(&mut self, stop: &mut watch::Receiver<bool>, deadline: Option<Instant>) -> Wake {
        let timer = self.sender.poll_timeout().map(|at| Duration::from_millis(at.since(now())));
        let until_deadline = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let nap = [timer, until_deadline].into_iter().flatten().min();
        let nap = nap.unwrap_or(Duration::from_secs(60)).max(Duration::from_millis(1));
        tokio::select! {
            event = self.link.event() => Wake::Link(event),
            () = self.shared.journal.sealed() => Wake::Look,
            _ = self.live.tick(), if self.sender.is_open() => Wake::LiveFrame,
            // A closed channel is a main that is gone: stop as well.
            _ = stop.wait_for(|stop| *stop), if deadline.is_none() => Wake::Stop,
            () = sleep(nap) => Wake::Look,
        }
    }

    fn drive(&mut self) {
        loop {
            let journal = Arc::clone(&self.shared.journal);
            let Some(action) = journal.with_spool(|spool| self.sender.poll(now(), spool)) else {
                return;
            };
            self.act(action, &journal);
        }
    }

    fn act(&mut self, action: Action, journal: &Journal) {
        match action {
            Action::Connect => self.link = Link::dial(self.server()),
            Action::SendHello => self.send_hello(),
            Action::SendProof => self.send_proof(),
            Action::SendStart => {
                let (statement, signature) = journal.sign_chain_start();
                let start = ChainStartParts { statement, signature };
                self.link.send(Up::ChainStart(start.into_wire()));
                self.start_in_flight = true;
            }
            Action::SendSegment(sequence) => {
                let sealed = journal.with_spool(|spool| spool.segment(sequence));
                match sealed {
                    Some(sealed) => {
                        if sabotage::is("keeps_what_it_sent") {
                            std::mem::forget(sealed.clone());
                        }
                        self.link.send(Up::Segment(SegmentParts::from(&sealed).into_wire()));
                    }
                    // Not readable any more: what became of it stands in its place.
                    None => {
                        let item = journal.with_spool(|spool| spool.item(sequence));
                        self.send_drop(sequence, item.map_or(sequence, |item| item.last));
                    }
                }
            }
            Action::SendDrop { first, last } => self.send_drop(first, last),
            Action::Trim(through) => {
                journal.with_spool(|spool| spool.trim(through, clock::Instant::now()));
            }
            Action::Quarantine(sequence) => journal.quarantine(sequence, &self.refusal_code),
            Action::Declare { first, last } => self.declare(first, last),
            Action::Close(reason) => self.close(reason),
        }
    }

    fn send_drop(&mut self, first: Sequence, last: Sequence) {
        let journal = &self.shared.journal;
        let range = journal.with_spool(|spool| spool.dropped(first, last));
        if let Some(range) = range {
            let (statement, signature) = journal.sign_drop(&range);
            self.link.send(Up::Drop(DropParts { statement, signature }.into_wire()));
        }
    }

    fn declare(&mut self, first: Sequence, last: Sequence) {
        let (since, head) = match &self.welcome {
            Some(welcome) if welcome.cursor.sequence.next() == Some(first) => {
                (welcome.recorded_until, welcome.cursor.head)
            }
            _ => (None, None),
        };
        let declared = self.shared.journal.with_spool(|spool| spool.declare(first, since, head));
        if declared {
            tracing::warn!(
                first = first.0,
                last = last.0,
                "segments of an earlier run were never delivered: declared as dropped"
            );
        } else {
            self.close(CloseReason::ChainDiverged);
        }
    }

    fn close(&mut self, reason: CloseReason) {
        match reason {
            CloseReason::ChainDiverged => self.start_chain(
                ChainStartReason::LostState,
                "the server and the state directory contradict each other about this node's \
                 chain: a new chain begins. Was the state directory copied or restored from a \
                 backup?",
            ),
            CloseReason::DropRefused => self.start_chain(
                ChainStartReason::Refused,
                "the server refused a drop, so the chain cannot go on: a new chain begins",
            ),
            CloseReason::HandshakeTimeout | CloseReason::AckTimeout | CloseReason::Unexpected => {
                tracing::warn!(?reason, "the stream is given up");
            }
        }
        self.end(Ending::Lost);
    }

    fn start_chain(&mut self, reason: ChainStartReason, why: &str) {
        let chain = ChainId(random_bytes());
        let owed = self.shared.journal.start_chain(chain, reason);
        tracing::error!(
            reason = reason.name(),
            chain.id = %chain,
            segments.lost = owed,
            "{why}"
        );
    }

    fn end(&mut self, ending: Ending) {
        self.link = Link::Down;
        self.hello = None;
        self.challenge = None;
        self.start_in_flight = false;
        let random = if sabotage::is("no_jitter") { [0; 8] } else { random_bytes() };
        self.sender.on_disconnected(now(), ending, u64::from_le_bytes(random));
    }

    fn on_link_event(&mut self, event: LinkEvent) {
        match event {
            LinkEvent::Connected => self.sender.on_connected(),
            LinkEvent::Message(message) => self.on_message(message),
            LinkEvent::Ended(why) => {
                let ending = why.ending();
                if self.start_in_flight && why.is_invalid() {
                    self.shared.journal.redate_chain_start();
                }
                tracing::warn!(
                    server = %self.server(),
                    error = %why,
                    advice = why.advice().unwrap_or("trying again"),
                    "no stream to the server"
                );
                if why.is_unreachable() {
                    self.address = (self.address + 1) % self.options.servers.addresses.len().max(1);
                }
                self.end(ending);
            }
        }
    }

    /// The address that is tried. There is at least one.
    fn server(&self) -> &ServerAddress {
        &self.options.servers.addresses[self.address]
    }

    fn on_message(&mut self, message: Down) {
        let journal = Arc::clone(&self.shared.journal);
        match message {
            Down::Challenge(wire) => self.on_challenge(&wire),
            Down::Welcome(wire) => self.on_welcome(&wire),
            Down::Ack(wire) => {
                let Ack { sequence, rewind } = Ack::from_wire(&wire);
                self.start_in_flight = false;
                journal.with_spool(|spool| self.sender.on_ack(now(), sequence, rewind, spool));
            }
            Down::Refusal(wire) => {
                let Refusal { sequence, code, message } = Refusal::from_wire(&wire);
                tracing::error!(
                    segment.sequence = sequence.0,
                    code,
                    message,
                    "the server refused a segment; it is replaced by a drop"
                );
                self.refusal_code = code;
                journal.with_spool(|spool| self.sender.on_refusal(now(), sequence, spool));
            }
            Down::Notice(wire) => self.on_notice(&wire),
            Down::TimeProbe(probe) => self.link.send(handshake::time_echo(&probe)),
            Down::TimeEstimate(wire) => {
                if let Some(estimate) = estimate_from_wire(&wire) {
                    journal.set_clock_estimate(estimate, clock::Instant::now());
                }
            }
            Down::LivePace(wire) => match LivePace::from_wire(&wire) {
                Ok(wanted) => self.live = pace(wanted.interval_ms),
                Err(error) => tracing::warn!(error = %error, "pace ignored"),
            },
        }
    }

    fn send_live_frame(&mut self) {
        let Some(live) = self.shared.live.get() else { return };
        let journal = &self.shared.journal;
        let backlog = journal.with_spool(|spool| spool.segments());
        let snapshot = live.snapshot();
        if sabotage::is("live_waits_for_nvml") && !frame::has_every_answer(&snapshot) {
            return;
        }
        let frame = frame::live_frame(&snapshot, &journal.known_gpus(), backlog);
        self.link.send(Up::Live(frame.to_wire()));
    }
}

fn pace(interval_ms: u32) -> Interval {
    let every = Duration::from_millis(u64::from(interval_ms.max(1)));
    let mut interval = interval_at(Instant::now(), every);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

/// The boot clock as delivery counts it.
fn now() -> Moment {
    Moment(u64::try_from(clock::boot_ms()).unwrap_or(0))
}

/// Bytes from the system. Should it ever have none, jitter and nonces fall back to the clock:
/// signatures stay as strong, and a replayed nonce still meets a fresh one of the server.
fn random_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    if getrandom::fill(&mut bytes).is_err() {
        let clock = clock::boot_ns().to_le_bytes();
        for (byte, value) in bytes.iter_mut().zip(clock.iter().cycle()) {
            *byte = *value;
        }
    }
    bytes
}
