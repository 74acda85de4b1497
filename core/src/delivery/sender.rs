//! The agent's end of the stream: when to connect, what to send next, what to forget.
//!
//! The driver owns the socket and the spool. It reports what happened through `on_*`, then calls
//! [`Sender::poll`] until it returns `None`, carrying out each [`Action`] before the next call;
//! [`Sender::poll_timeout`] says when to call again if nothing else happens.
//!
//! Not here: keys and signatures (the driver verifies a challenge before it reports one), live
//! frames (never stored, so nothing to deliver) and where segments are kept.

use std::collections::VecDeque;

use super::driver::{Action, CloseReason, Ending, ItemKind, SpoolIndex, Welcome, limits};
use super::{Moment, backoff_ms};
use crate::id::Sequence;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Waiting { until: Moment },
    Connecting { since: Moment },
    Greeting { since: Moment },
    Proving { since: Moment },
    Open { since: Moment },
    Closing,
}

#[derive(Debug, Clone, Copy)]
struct Flight {
    last: Sequence,
    bytes: u64,
}

/// The agent's end of the stream.
#[derive(Debug)]
pub struct Sender {
    phase: Phase,
    failures: u32,
    down_since: Moment,
    window_bytes: u64,
    acked: Sequence,
    next: Sequence,
    in_flight: VecDeque<Flight>,
    /// The cursor of the rewind that was last obeyed: its echoes for other messages that were
    /// already on the way must not start the same work again.
    rewound_to: Option<Sequence>,
    spread_until: Option<Moment>,
    progress_at: Moment,
    pending: VecDeque<Action>,
}

impl Sender {
    /// A disconnected end that connects at once.
    #[must_use]
    pub fn new(now: Moment) -> Self {
        Self {
            phase: Phase::Waiting { until: now },
            failures: 0,
            down_since: now,
            window_bytes: limits::WINDOW_BYTES,
            acked: Sequence(0),
            next: Sequence::FIRST,
            in_flight: VecDeque::new(),
            rewound_to: None,
            spread_until: None,
            progress_at: now,
            pending: VecDeque::new(),
        }
    }

    /// True between a welcome and the end of its stream.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open { .. })
    }

    /// The highest sequence known to be durable, from the last welcome and the acks since.
    #[must_use]
    pub fn acked(&self) -> Sequence {
        self.acked
    }

    /// Bytes that were sent on this stream and not acknowledged.
    #[must_use]
    pub fn in_flight_bytes(&self) -> u64 {
        self.in_flight.iter().map(|flight| flight.bytes).sum()
    }

    /// The transport is there.
    pub fn on_connected(&mut self) {
        if let Phase::Connecting { since } = self.phase {
            self.phase = Phase::Greeting { since };
            self.pending.push_back(Action::SendHello);
        } else {
            self.unexpected();
        }
    }

    /// A challenge came, and the driver found its signature and its key to be the server's.
    pub fn on_challenge(&mut self) {
        if let Phase::Greeting { since } = self.phase {
            self.phase = Phase::Proving { since };
            self.pending.push_back(Action::SendProof);
        } else {
            self.unexpected();
        }
    }

    /// The stream is open. `random` spreads the backlog of a fleet after an outage.
    pub fn on_welcome(
        &mut self,
        now: Moment,
        welcome: &Welcome,
        spool: &impl SpoolIndex,
        random: u64,
    ) {
        if !matches!(self.phase, Phase::Proving { .. }) {
            return self.unexpected();
        }
        if diverged(welcome, spool) {
            return self.close(CloseReason::ChainDiverged);
        }
        self.phase = Phase::Open { since: now };
        self.window_bytes = match welcome.window_bytes {
            0 => limits::WINDOW_BYTES,
            asked => asked.min(limits::WINDOW_BYTES),
        };
        self.acked = welcome.cursor;
        self.next = after(welcome.cursor);
        self.in_flight.clear();
        self.rewound_to = None;
        self.progress_at = now;
        let returns_late = now.since(self.down_since) >= limits::OUTAGE_MS;
        self.spread_until = returns_late.then(|| now.plus_ms(random % (limits::SPREAD_MS + 1)));
        if welcome.start_wanted {
            self.pending.push_back(Action::SendStart);
        }
        if welcome.cursor >= spool.oldest() {
            self.pending.push_back(Action::Trim(welcome.cursor));
        }
    }

    /// Everything up to `sequence` is durable; with `rewind`, what follows has to be sent again.
    pub fn on_ack(
        &mut self,
        now: Moment,
        sequence: Sequence,
        rewind: bool,
        spool: &impl SpoolIndex,
    ) {
        if !self.is_open() {
            return self.unexpected();
        }
        // More than was sent on this stream can be durable: an earlier stream's last segments may
        // have been committed after this one's welcome.
        if sequence > spool.newest() {
            return self.close(CloseReason::ChainDiverged);
        }
        if sequence > self.acked {
            self.acked = sequence;
            self.next = self.next.max(after(sequence));
            self.progress_at = now;
            self.rewound_to = None;
            while self.in_flight.front().is_some_and(|flight| flight.last <= sequence) {
                self.in_flight.pop_front();
            }
            self.pending.push_back(Action::Trim(sequence));
        }
        if rewind && sequence == self.acked && self.rewound_to != Some(sequence) {
            self.rewound_to = Some(sequence);
            self.next = after(sequence);
            self.in_flight.clear();
        }
    }

    /// The server refuses this sequence and will refuse it again.
    pub fn on_refusal(&mut self, now: Moment, sequence: Sequence, spool: &impl SpoolIndex) {
        if !self.is_open() {
            return self.unexpected();
        }
        if sequence <= self.acked {
            return;
        }
        match spool.item(sequence).map(|item| item.kind) {
            Some(ItemKind::Segment) => {
                self.pending.push_back(Action::Quarantine(sequence));
                self.in_flight.retain(|flight| flight.last < sequence);
                self.next = sequence;
                self.progress_at = now;
                // What is behind it on the wire will be answered with rewinds to the one before.
                self.rewound_to = Some(Sequence(sequence.0 - 1));
            }
            Some(ItemKind::Drop) => self.close(CloseReason::DropRefused),
            None => {}
        }
    }

    /// The stream ended, or could not be opened. `random` is the jitter of the next attempt.
    pub fn on_disconnected(&mut self, now: Moment, ending: Ending, random: u64) {
        if let Phase::Open { since } = self.phase {
            self.down_since = now;
            if now.since(since) >= limits::SETTLED_MS {
                self.failures = 0;
            }
        }
        self.failures = self.failures.saturating_add(1);
        let wait = match ending {
            Ending::Lost => backoff_ms(self.failures, now.since(self.down_since), random),
            Ending::Refused => limits::REFUSED_MS + random % (limits::REFUSED_MS + 1),
        };
        self.phase = Phase::Waiting { until: now.plus_ms(wait) };
        self.in_flight.clear();
        self.pending.clear();
    }

    /// The next thing to do at `now`; `None` when there is nothing.
    pub fn poll(&mut self, now: Moment, spool: &impl SpoolIndex) -> Option<Action> {
        if let Some(action) = self.pending.pop_front() {
            return Some(action);
        }
        match self.phase {
            Phase::Waiting { until } if now >= until => {
                self.phase = Phase::Connecting { since: now };
                Some(Action::Connect)
            }
            Phase::Connecting { since } | Phase::Greeting { since } | Phase::Proving { since }
                if now.since(since) >= limits::HANDSHAKE_MS =>
            {
                self.phase = Phase::Closing;
                Some(Action::Close(CloseReason::HandshakeTimeout))
            }
            Phase::Open { .. } => self.poll_open(now, spool),
            _ => None,
        }
    }

    /// When [`Sender::poll`] may have something to do though no input came; `None` for never.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Moment> {
        match self.phase {
            Phase::Waiting { until } => Some(until),
            Phase::Connecting { since } | Phase::Greeting { since } | Phase::Proving { since } => {
                Some(since.plus_ms(limits::HANDSHAKE_MS))
            }
            Phase::Open { .. } if !self.in_flight.is_empty() => {
                Some(self.progress_at.plus_ms(limits::ACK_MS))
            }
            Phase::Open { .. } => self.spread_until,
            Phase::Closing => None,
        }
    }

    fn poll_open(&mut self, now: Moment, spool: &impl SpoolIndex) -> Option<Action> {
        if !self.in_flight.is_empty() && now.since(self.progress_at) >= limits::ACK_MS {
            self.phase = Phase::Closing;
            return Some(Action::Close(CloseReason::AckTimeout));
        }
        if self.spread_until.is_some_and(|until| now < until) {
            return None;
        }
        self.spread_until = None;
        if self.next > spool.newest() {
            return None;
        }
        let Some(item) = spool.item(self.next) else {
            let last = Sequence(spool.oldest().0.saturating_sub(1));
            return (last >= self.next).then_some(Action::Declare { first: self.next, last });
        };
        let in_flight = self.in_flight_bytes();
        if in_flight > 0 && in_flight.saturating_add(item.bytes) > self.window_bytes {
            return None;
        }
        if self.in_flight.is_empty() {
            self.progress_at = now;
        }
        let first = self.next;
        self.in_flight.push_back(Flight { last: item.last, bytes: item.bytes.max(1) });
        self.next = after(item.last);
        Some(match item.kind {
            ItemKind::Segment => Action::SendSegment(first),
            ItemKind::Drop => Action::SendDrop { first, last: item.last },
        })
    }

    fn unexpected(&mut self) {
        // Messages that were on the way when this end closed the stream are no fault.
        if !matches!(self.phase, Phase::Closing | Phase::Waiting { .. }) {
            self.close(CloseReason::Unexpected);
        }
    }

    fn close(&mut self, reason: CloseReason) {
        self.phase = Phase::Closing;
        self.pending.clear();
        self.pending.push_back(Action::Close(reason));
    }
}

fn diverged(welcome: &Welcome, spool: &impl SpoolIndex) -> bool {
    if welcome.cursor > spool.newest() {
        return true;
    }
    match (welcome.cursor_head, spool.head_hash(welcome.cursor)) {
        (Some(theirs), Some(ours)) => theirs != ours,
        _ => false,
    }
}

/// The sequence behind another. The last number is never reached by a chain of minutes, so
/// staying there is safe.
fn after(sequence: Sequence) -> Sequence {
    sequence.next().unwrap_or(sequence)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::delivery::Item;
    use crate::id::Hash;

    /// Sequences `oldest ..= newest`, each a segment of 100 KiB, but for one drop.
    struct Fixed {
        oldest: u64,
        newest: u64,
        drop: Option<(u64, u64)>,
    }

    const SEGMENT_BYTES: u64 = 100 * 1_024;

    impl SpoolIndex for Fixed {
        fn oldest(&self) -> Sequence {
            Sequence(self.oldest)
        }

        fn newest(&self) -> Sequence {
            Sequence(self.newest)
        }

        fn item(&self, sequence: Sequence) -> Option<Item> {
            if !(self.oldest..=self.newest).contains(&sequence.0) {
                return None;
            }
            let (first, last, kind) = match self.drop {
                Some((first, last)) if (first..=last).contains(&sequence.0) => {
                    (Sequence(first), Sequence(last), ItemKind::Drop)
                }
                _ => (sequence, sequence, ItemKind::Segment),
            };
            let bytes = if kind == ItemKind::Drop { 300 } else { SEGMENT_BYTES };
            Some(Item { first, last, bytes, kind })
        }

        fn head_hash(&self, sequence: Sequence) -> Option<Hash> {
            (sequence.0 > 0).then_some(Hash([7; 32]))
        }
    }

    fn welcome(cursor: u64) -> Welcome {
        let cursor_head = (cursor > 0).then_some(Hash([7; 32]));
        Welcome { cursor: Sequence(cursor), cursor_head, start_wanted: false, window_bytes: 0 }
    }

    fn drain(sender: &mut Sender, now: Moment, spool: &Fixed) -> Vec<Action> {
        std::iter::from_fn(|| sender.poll(now, spool)).take(100).collect()
    }

    fn opened(spool: &Fixed, cursor: u64) -> Sender {
        let mut sender = proving(spool);
        sender.on_welcome(Moment(0), &welcome(cursor), spool, 0);
        sender
    }

    fn proving(spool: &Fixed) -> Sender {
        let now = Moment(0);
        let mut sender = Sender::new(now);
        assert_eq!(drain(&mut sender, now, spool), [Action::Connect]);
        sender.on_connected();
        assert_eq!(drain(&mut sender, now, spool), [Action::SendHello]);
        sender.on_challenge();
        assert_eq!(drain(&mut sender, now, spool), [Action::SendProof]);
        sender
    }

    #[test]
    fn the_window_holds_back_and_an_ack_lets_on() {
        let spool = Fixed { oldest: 1, newest: 9, drop: None };
        let mut sender = opened(&spool, 0);
        let sent = drain(&mut sender, Moment(1), &spool);
        assert_eq!(sent, [1, 2].map(|n| Action::SendSegment(Sequence(n))));
        assert_eq!(sender.in_flight_bytes(), 2 * SEGMENT_BYTES);
        sender.on_ack(Moment(2), Sequence(1), false, &spool);
        assert_eq!(
            drain(&mut sender, Moment(2), &spool),
            [Action::Trim(Sequence(1)), Action::SendSegment(Sequence(3))]
        );
    }

    #[test]
    fn a_chain_that_the_server_does_not_know_begins_with_its_start() {
        let spool = Fixed { oldest: 1, newest: 1, drop: None };
        let mut sender = proving(&spool);
        let unknown = Welcome { start_wanted: true, ..welcome(0) };
        sender.on_welcome(Moment(0), &unknown, &spool, 0);
        let sent = drain(&mut sender, Moment(0), &spool);
        assert_eq!(sent, [Action::SendStart, Action::SendSegment(Sequence(1))]);
        // Its acknowledgement says that nothing behind it is durable, and starts nothing anew.
        sender.on_ack(Moment(1), Sequence(0), false, &spool);
        assert_eq!(drain(&mut sender, Moment(1), &spool), []);
    }

    #[test]
    fn echoes_of_one_rewind_do_not_multiply_the_work() {
        let spool = Fixed { oldest: 1, newest: 2, drop: None };
        let mut sender = opened(&spool, 0);
        assert_eq!(drain(&mut sender, Moment(1), &spool).len(), 2);
        sender.on_ack(Moment(2), Sequence(0), true, &spool);
        assert_eq!(drain(&mut sender, Moment(2), &spool).len(), 2);
        sender.on_ack(Moment(3), Sequence(0), true, &spool);
        assert_eq!(drain(&mut sender, Moment(3), &spool), []);
    }

    #[test]
    fn a_refused_segment_is_set_aside_and_replaced_by_a_drop() {
        let mut spool = Fixed { oldest: 1, newest: 2, drop: None };
        let mut sender = opened(&spool, 0);
        assert_eq!(drain(&mut sender, Moment(1), &spool).len(), 2);
        sender.on_refusal(Moment(2), Sequence(1), &spool);
        assert_eq!(sender.poll(Moment(2), &spool), Some(Action::Quarantine(Sequence(1))));
        spool.drop = Some((1, 1));
        let (first, last) = (Sequence(1), Sequence(1));
        assert_eq!(
            drain(&mut sender, Moment(2), &spool),
            [Action::SendDrop { first, last }, Action::SendSegment(Sequence(2))]
        );
        sender.on_ack(Moment(3), Sequence(0), true, &spool);
        assert_eq!(drain(&mut sender, Moment(3), &spool), []);
        sender.on_refusal(Moment(4), Sequence(1), &spool);
        assert_eq!(
            drain(&mut sender, Moment(4), &spool),
            [Action::Close(CloseReason::DropRefused)]
        );
    }

    #[test]
    fn what_an_earlier_process_lost_is_declared_first() {
        let spool = Fixed { oldest: 6, newest: 8, drop: None };
        let mut sender = opened(&spool, 3);
        let declare = Action::Declare { first: Sequence(4), last: Sequence(5) };
        assert_eq!(sender.poll(Moment(1), &spool), Some(declare));
        let spool = Fixed { oldest: 4, newest: 8, drop: Some((4, 5)) };
        let (first, last) = (Sequence(4), Sequence(5));
        assert_eq!(sender.poll(Moment(1), &spool), Some(Action::SendDrop { first, last }));
        assert_eq!(sender.poll(Moment(1), &spool), Some(Action::SendSegment(Sequence(6))));
    }

    #[test]
    fn a_drop_that_grew_in_flight_goes_on_where_it_was_sent() {
        let mut spool = Fixed { oldest: 1, newest: 4, drop: Some((1, 2)) };
        let mut sender = opened(&spool, 0);
        let (first, last) = (Sequence(1), Sequence(2));
        assert_eq!(sender.poll(Moment(1), &spool), Some(Action::SendDrop { first, last }));
        spool.drop = Some((1, 3));
        let (first, last) = (Sequence(3), Sequence(3));
        assert_eq!(sender.poll(Moment(1), &spool), Some(Action::SendDrop { first, last }));
        assert_eq!(sender.poll(Moment(1), &spool), Some(Action::SendSegment(Sequence(4))));
    }

    #[test]
    fn a_server_that_knows_more_than_we_do_ends_the_chain() {
        let spool = Fixed { oldest: 3, newest: 2, drop: None };
        let mut ahead = opened(&spool, 3);
        let diverged = [Action::Close(CloseReason::ChainDiverged)];
        assert_eq!(drain(&mut ahead, Moment(1), &spool), diverged);
        let mut acked_beyond = opened(&spool, 2);
        acked_beyond.on_ack(Moment(1), Sequence(3), false, &spool);
        assert_eq!(drain(&mut acked_beyond, Moment(1), &spool), diverged);
    }

    #[test]
    fn an_open_stream_without_acks_is_given_up() {
        let spool = Fixed { oldest: 1, newest: 1, drop: None };
        let mut sender = opened(&spool, 0);
        assert_eq!(drain(&mut sender, Moment(1), &spool).len(), 1);
        let due = sender.poll_timeout().unwrap();
        assert_eq!(due, Moment(1 + limits::ACK_MS));
        assert_eq!(drain(&mut sender, due, &spool), [Action::Close(CloseReason::AckTimeout)]);
        sender.on_disconnected(due, Ending::Lost, 0);
        assert_eq!(sender.poll_timeout(), Some(due.plus_ms(1_000)));
    }

    #[test]
    fn a_backlog_is_spread_after_an_outage_and_live_frames_need_not_wait() {
        let spool = Fixed { oldest: 1, newest: 1, drop: None };
        let mut sender = opened(&spool, 0);
        sender.on_disconnected(Moment(10), Ending::Refused, 5);
        assert_eq!(sender.poll_timeout(), Some(Moment(10 + limits::REFUSED_MS + 5)));
        let back = Moment(10 + limits::OUTAGE_MS + 5);
        assert_eq!(drain(&mut sender, back, &spool), [Action::Connect]);
        sender.on_connected();
        sender.on_challenge();
        assert_eq!(drain(&mut sender, back, &spool), [Action::SendHello, Action::SendProof]);
        sender.on_welcome(back, &welcome(0), &spool, 12_000);
        assert!(sender.is_open());
        assert_eq!(drain(&mut sender, back, &spool), []);
        assert_eq!(sender.poll_timeout(), Some(back.plus_ms(12_000)));
        assert_eq!(
            drain(&mut sender, back.plus_ms(12_000), &spool),
            [Action::SendSegment(Sequence(1))]
        );
    }

    #[test]
    fn messages_out_of_place_close_the_stream_but_late_ones_do_not() {
        let spool = Fixed { oldest: 1, newest: 1, drop: None };
        let mut sender = opened(&spool, 0);
        sender.on_challenge();
        assert_eq!(drain(&mut sender, Moment(1), &spool), [Action::Close(CloseReason::Unexpected)]);
        sender.on_ack(Moment(1), Sequence(1), false, &spool);
        assert_eq!(drain(&mut sender, Moment(1), &spool), []);
    }
}
