//! A proven stream: segments in, acknowledgements out, live frames beside them.
//!
//! Segments are checked here and written elsewhere; up to [`PIPELINE`] of them wait for the writer
//! at once, in order. Acknowledgements are cumulative: of several that are ready only the last
//! goes out.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use futures_util::{Stream, StreamExt as _};
use leasewatch_core::delivery::Moment;
use leasewatch_core::evidence::identity::SignedStatement;
use leasewatch_core::id::{KeyId, Sequence};
use leasewatch_proto::convert::{LiveFrame, statement_to_wire};
use leasewatch_proto::v1::agent_message::Kind as FromAgent;
use leasewatch_proto::v1::server_message::Kind as ToAgent;
use leasewatch_proto::v1::{self, AgentMessage};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tonic::Status;

use super::GrpcState;
use super::beginning;
use super::check::{self, Refused, Unreadable};
use super::clock_probe::{self, ClockProbe};
use super::outbox::{Outbox, busy, gone};
use super::registry::Seat;
use super::session::{Joined, ProvenNode, unauthenticated, unavailable};
use super::telemetry::out_of_place;
use super::writer::{Item, Outcome, Receipt, WriteError};
use crate::live::Control;
use crate::sabotage;
use crate::store::{Scope, node_key};

/// Items of one stream that wait for the writer.
const PIPELINE: usize = 32;
/// Live frames that come faster than this are not looked at.
const FRAME_INTERVAL_MIN_MS: u64 = 200;
/// When a client that was turned away should come back.
const RETRY_MS: u32 = 5_000;

/// One end of one stream.
pub(super) struct ProvenStream<'a> {
    state: &'a GrpcState,
    node: Arc<ProvenNode>,
    outbox: &'a Outbox,
    waiting: VecDeque<Waiting>,
    clock: ClockProbe,
    last_frame_at: Option<Moment>,
    control: watch::Receiver<Control>,
    /// The interval of live frames that the client was last told.
    told_interval_ms: u32,
    notice: watch::Receiver<Option<SignedStatement>>,
    key_id: KeyId,
    /// The stream's number, until the client's first words say that it has kept it.
    unconfirmed: Option<u64>,
}

/// What the next answer will be.
enum Waiting {
    /// Of the writer.
    Written(Receipt),
    /// Refused before the writer, but behind what waits: answers keep the order of the items.
    Refused(Refused),
}

impl<'a> ProvenStream<'a> {
    pub(super) fn new(state: &'a GrpcState, joined: &Joined, outbox: &'a Outbox) -> Self {
        let node = Arc::clone(&joined.node);
        let mut control = state.live.control(node.facts.id);
        let told_interval_ms = control.borrow_and_update().interval_ms;
        Self {
            state,
            node,
            outbox,
            waiting: VecDeque::new(),
            clock: ClockProbe::default(),
            last_frame_at: None,
            control,
            told_interval_ms,
            notice: state.notice.clone(),
            key_id: joined.key_id,
            unconfirmed: Some(joined.number),
        }
    }

    /// What the welcome says about live frames; later changes are told on the stream.
    pub(super) fn interval_ms(&self) -> u32 {
        self.told_interval_ms
    }

    /// Carries the stream to its end.
    ///
    /// # Errors
    /// The status that the stream ends with; `Ok` when the client ended it and has its answers.
    pub(super) async fn carry(
        mut self,
        mut inbound: impl Stream<Item = Result<AgentMessage, Status>> + Send + Unpin,
        seat: &Seat,
    ) -> Result<(), Status> {
        let mut probe = interval(self.state.options.probe);
        probe.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut silent_until = Instant::now() + self.state.options.silence;
        self.tell_notice().await?;
        loop {
            self.follow_control().await?;
            tokio::select! {
                message = inbound.next(), if self.waiting.len() < PIPELINE => {
                    silent_until = Instant::now() + self.state.options.silence;
                    match message {
                        Some(message) => self.on_message(message?).await?,
                        None => return self.finish().await,
                    }
                }
                answer = next_answer(&mut self.waiting), if !self.waiting.is_empty() => {
                    self.answer(answer).await?;
                }
                _ = probe.tick() => {
                    let asked = self.clock.ask(self.state.live.now(), self.state.clock.now());
                    self.outbox.send(ToAgent::TimeProbe(asked)).await?;
                }
                // The sender is gone when the node was removed.
                changed = self.control.changed() => changed.map_err(|_| unauthenticated())?,
                () = changed(&mut self.notice) => self.tell_notice().await?,
                () = seat.displaced() => {
                    return Err(Status::aborted("newer streams of this node are open"));
                }
                () = seat.revoked() => return Err(unauthenticated()),
                () = self.outbox.closed() => return Err(gone()),
                () = sleep_until(silent_until), if self.waiting.len() < PIPELINE => {
                    return Err(Status::deadline_exceeded("the client is silent"));
                }
            }
        }
    }

    /// What nodes are told of the server, if anything.
    async fn tell_notice(&mut self) -> Result<(), Status> {
        let notice = self.notice.borrow_and_update().as_ref().map(statement_to_wire);
        match notice {
            Some(notice) => self.outbox.send(ToAgent::Notice(notice)).await,
            None => Ok(()),
        }
    }

    async fn follow_control(&mut self) -> Result<(), Status> {
        let Control { interval_ms, revoked } = *self.control.borrow_and_update();
        if revoked {
            return Err(unauthenticated());
        }
        if std::mem::replace(&mut self.told_interval_ms, interval_ms) == interval_ms {
            return Ok(());
        }
        self.outbox.send(ToAgent::LivePace(v1::LivePace { interval_ms })).await
    }

    async fn on_message(&mut self, message: AgentMessage) -> Result<(), Status> {
        if let Some(number) = self.unconfirmed.take() {
            self.confirm(number).await;
        }
        let now = self.state.clock.now();
        match message.kind {
            Some(FromAgent::Segment(wire)) => {
                let checked = check::segment(&self.node.facts, wire, now);
                let checked = checked.map(|checked| checked.map(|s| Item::Segment(Box::new(s))));
                self.hand_over(checked).await
            }
            Some(FromAgent::Drop(wire)) => {
                let checked = check::drop(&self.node.facts, wire, now);
                let checked = checked.map(|checked| checked.map(|d| Item::Drop(Box::new(d))));
                self.hand_over(checked).await
            }
            Some(FromAgent::ChainStart(wire)) => {
                let checked = beginning::start(&self.node.facts, wire, now);
                let start = checked.map_err(|why| {
                    tracing::warn!(node.id = %self.node.facts.id, why, "a chain_start is not taken");
                    Status::invalid_argument(format!("the chain_start is not taken: {why}"))
                })?;
                self.hand_over(Ok(Ok(Item::Start(Box::new(start))))).await
            }
            Some(FromAgent::Live(wire)) => {
                self.on_frame(&wire);
                Ok(())
            }
            Some(FromAgent::TimeEcho(echo)) => self.on_echo(&echo).await,
            Some(FromAgent::Hello(_) | FromAgent::Proof(_)) => Err(out_of_place()),
            // A kind that this version does not know, from a newer agent.
            None => Ok(()),
        }
    }

    /// Should it fail, an honest node is not accused: the number before stays good as well.
    async fn confirm(&self, number: u64) {
        let confirmed = async {
            let mut tx = self.state.db.begin(Scope::Ingest).await?;
            node_key::confirm_session(&mut tx, &self.key_id, number).await?;
            tx.commit().await
        };
        if let Err(error) = confirmed.await {
            tracing::warn!(error = %error, "the number of a stream could not be noted");
        }
    }

    async fn hand_over(
        &mut self,
        checked: Result<Result<Item, Refused>, Unreadable>,
    ) -> Result<(), Status> {
        let waiting = match checked {
            Ok(Ok(item)) => match self.state.writer.submit(&self.node, item).await {
                Ok(receipt) => Waiting::Written(receipt),
                Err(error) => return Err(self.not_written(error)),
            },
            Ok(Err(refused)) => Waiting::Refused(refused),
            Err(Unreadable) => {
                tracing::warn!(node.id = %self.node.facts.id, "a statement without a readable sequence");
                return Err(Status::invalid_argument("a statement that cannot be read"));
            }
        };
        self.waiting.push_back(waiting);
        Ok(())
    }

    /// A frame that is none is not worth a stream: it is left out, and the node stays late.
    fn on_frame(&mut self, wire: &v1::LiveFrame) {
        let (now, node) = (self.state.live.now(), self.node.facts.id);
        if self.last_frame_at.is_some_and(|last| now.since(last) < FRAME_INTERVAL_MIN_MS) {
            return;
        }
        self.last_frame_at = Some(now);
        match LiveFrame::from_wire(wire) {
            Ok(frame) if frame.backlog_segments > 0 && sabotage::is("live_behind_backlog") => {}
            Ok(frame) if names_each_gpu_once(&frame) => self.state.live.frame(node, frame),
            Ok(_) => tracing::warn!(node.id = %node, "a live frame names a gpu twice"),
            Err(error) => {
                tracing::warn!(node.id = %node, code = error.code(), "a live frame is left out")
            }
        }
    }

    async fn on_echo(&mut self, echo: &v1::TimeEcho) -> Result<(), Status> {
        let Some(estimate) = self.clock.on_echo(echo, self.state.live.now()) else {
            return Ok(());
        };
        self.state.live.clock(self.node.facts.id, estimate);
        self.outbox.send(ToAgent::TimeEstimate(clock_probe::to_wire(estimate))).await
    }

    /// Sends an answer and all that are ready behind it.
    async fn answer(&mut self, mut answer: Result<Outcome, WriteError>) -> Result<(), Status> {
        loop {
            let next = self.ready_answer();
            match (&answer, &next) {
                // The later acknowledgement says it all.
                (Ok(Outcome::Durable(_)), Some(Ok(Outcome::Durable(_)))) => {}
                _ => self.send(answer).await?,
            }
            match next {
                Some(next) => answer = next,
                None => return Ok(()),
            }
        }
    }

    fn ready_answer(&mut self) -> Option<Result<Outcome, WriteError>> {
        let answer = match self.waiting.front_mut()? {
            Waiting::Written(receipt) => receipt.ready()?,
            Waiting::Refused(refused) => Ok(Outcome::Refused(refused.clone())),
        };
        self.waiting.pop_front();
        Some(answer)
    }

    async fn send(&self, answer: Result<Outcome, WriteError>) -> Result<(), Status> {
        match answer {
            Ok(Outcome::Durable(sequence)) => self.ack(sequence, false).await,
            Ok(Outcome::Rewind(sequence)) => self.ack(sequence, true).await,
            Ok(Outcome::Refused(refused)) => self.refuse(refused).await,
            Ok(Outcome::Ends(why)) => {
                tracing::warn!(node.id = %self.node.facts.id, why, "a stream is closed");
                Err(Status::failed_precondition(why))
            }
            Err(error) => Err(self.not_written(error)),
        }
    }

    async fn ack(&self, sequence: Sequence, rewind: bool) -> Result<(), Status> {
        self.outbox.send(ToAgent::Ack(v1::Ack { sequence: sequence.0, rewind })).await
    }

    async fn refuse(&self, refused: Refused) -> Result<(), Status> {
        tracing::warn!(
            node.id = %self.node.facts.id,
            sequence = refused.sequence.0,
            code = refused.code,
            "refused"
        );
        let refusal = v1::Refusal {
            sequence: refused.sequence.0,
            code: refused.code.to_owned(),
            message: refused.message,
        };
        self.outbox.send(ToAgent::Refusal(refusal)).await
    }

    fn not_written(&self, error: WriteError) -> Status {
        tracing::warn!(node.id = %self.node.facts.id, error = %error, "a stream is closed unanswered");
        match error {
            WriteError::Busy => busy("too much is waiting to be written", RETRY_MS),
            WriteError::Unavailable => unavailable(),
        }
    }

    /// The client sends no more and waits for its answers.
    async fn finish(mut self) -> Result<(), Status> {
        while !self.waiting.is_empty() {
            let answer = next_answer(&mut self.waiting).await;
            self.answer(answer).await?;
        }
        Ok(())
    }
}

/// Waits for a change; for ever where nothing changes any more.
async fn changed<T>(watched: &mut watch::Receiver<T>) {
    if watched.changed().await.is_err() {
        std::future::pending().await
    }
}

fn names_each_gpu_once(frame: &LiveFrame) -> bool {
    let mut seen = BTreeSet::new();
    frame.gpus.iter().all(|gpu| seen.insert(&gpu.uuid))
}

/// Takes the first answer out when it is there. Cancelled before, it takes nothing.
async fn next_answer(waiting: &mut VecDeque<Waiting>) -> Result<Outcome, WriteError> {
    let answer = match waiting.front_mut() {
        Some(Waiting::Written(receipt)) => receipt.outcome().await,
        Some(Waiting::Refused(refused)) => Ok(Outcome::Refused(refused.clone())),
        None => std::future::pending().await,
    };
    waiting.pop_front();
    answer
}
