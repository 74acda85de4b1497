//! The event loop: one agent, one server, the network between them, and what can go wrong.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use super::faults::{Faults, Fired};
use super::model::{Durable, Entry, Segment, Span, Spool, State};
use crate::delivery::{
    Action, CloseReason, DropDecision, Ending, IncomingDrop, IncomingSegment, Moment,
    SegmentDecision, Sender, StartDecision, Welcome, limits,
};
use crate::id::{Hash, Sequence};

const SEAL_EVERY_MS: u64 = 60_000;
const COMMIT_EVERY_MS: u64 = 100;
/// When a side without traffic finds out that its stream is dead.
const KEEP_ALIVE_MS: u64 = 30_000;

#[derive(Debug, Clone, Copy)]
enum ToServer {
    Hello { chain: u64 },
    Proof,
    Start(Hash),
    Segment(IncomingSegment, Span),
    Drop(IncomingDrop, Span),
}

#[derive(Debug, Clone, Copy)]
enum ToAgent {
    Challenge,
    Welcome(Welcome),
    Ack { sequence: Sequence, rewind: bool },
    Refusal(Sequence),
}

#[derive(Debug, Clone, Copy)]
enum Happening {
    Seal,
    AgentTimer,
    Connected { stream: u64 },
    StreamEnds { stream: u64 },
    ServerNotices { stream: u64 },
    AtServer { stream: u64, message: ToServer },
    AtAgent { stream: u64, message: ToAgent },
    Commit,
    Cut,
    LongPartition,
    Heal,
    AgentCrash,
    AgentStart,
    ServerCrash,
    ServerStart,
    Snapshot,
    Restore,
}

#[derive(Debug, Default)]
struct Server {
    down: bool,
    durable: BTreeMap<u64, Durable>,
    snapshot: BTreeMap<u64, Durable>,
    /// The chain of each stream that ever said hello.
    chains: BTreeMap<u64, u64>,
    /// Streams that were proven and that the server has not seen end.
    open: Vec<u64>,
    queue: Vec<(u64, ToServer)>,
    commit_due: bool,
}

/// One node, one server, one network.
pub(super) struct World {
    now: u64,
    order: u64,
    random: u64,
    faults: Faults,
    agenda: BinaryHeap<Reverse<(u64, u64, usize)>>,
    happenings: Vec<Happening>,
    partitioned_until: u64,
    sealing: bool,
    timer_at: Option<u64>,
    sender: Option<Sender>,
    stream: u64,
    lives: u64,
    chains: u64,
    spool: Spool,
    /// An older copy of the agent's state.
    copy: State,
    /// End of the server's record at the last welcome.
    recorded_until: u64,
    /// Everything that was ever sealed, by its head.
    sealed: BTreeMap<Hash, Span>,
    /// Heads that nobody can account for: they died with a process whose state was gone afterwards.
    unaccountable: BTreeSet<Hash>,
    server: Server,
    /// When a stream's last message arrives, each way: one stream keeps its order.
    arrivals: BTreeMap<(u64, bool), u64>,
    open_lost_at: Option<u64>,
    pub(super) fired: Fired,
}

impl World {
    pub(super) fn new(seed: u64, faults: Faults) -> Self {
        let mut world = Self {
            now: 0,
            order: 0,
            random: seed,
            faults,
            agenda: BinaryHeap::new(),
            happenings: Vec::new(),
            partitioned_until: 0,
            sealing: true,
            timer_at: None,
            sender: Some(Sender::new(Moment(0))),
            stream: 0,
            lives: 1,
            chains: 0,
            spool: Spool::default(),
            copy: State::default(),
            recorded_until: 0,
            sealed: BTreeMap::new(),
            unaccountable: BTreeSet::new(),
            server: Server::default(),
            arrivals: BTreeMap::new(),
            open_lost_at: None,
            fired: Fired::default(),
        };
        world.after(SEAL_EVERY_MS, Happening::Seal);
        world.after(0, Happening::AgentTimer);
        if faults.cuts {
            world.after(600_000, Happening::Cut);
        }
        if faults.crashes {
            world.after(1_000_000, Happening::AgentCrash);
            world.after(1_500_000, Happening::ServerCrash);
        }
        if faults.long_partition_ms > 0 {
            world.after(1_800_000, Happening::LongPartition);
        }
        if faults.restore_after_ms > 0 {
            world.after(faults.restore_after_ms - 3_600_000, Happening::Snapshot);
            world.after(faults.restore_after_ms, Happening::Restore);
        }
        world
    }

    pub(super) fn run_until(&mut self, end: u64) {
        while let Some(Reverse((at, _, index))) = self.agenda.peek().copied() {
            if at > end {
                break;
            }
            self.agenda.pop();
            self.now = at;
            self.happen(self.happenings[index]);
            self.drive_agent();
        }
        self.now = end;
    }

    /// Ends every fault and the sealing, so that what is left can be delivered.
    pub(super) fn heal(&mut self) {
        self.faults = Faults { spool_items: self.faults.spool_items, ..Faults::NONE };
        self.sealing = false;
        self.partitioned_until = self.now;
    }

    pub(super) fn dropped_sequences(&self) -> u64 {
        let drops = self.server.durable.values().flat_map(|durable| &durable.dropped);
        drops.map(|(first, last, _)| last - first + 1).sum()
    }

    /// Invariants 1 and 5, for every chain; and the same once more in time: what an agent that
    /// knew of it sealed is stored, or a drop covers its time.
    pub(super) fn check_delivered(&self) {
        let state = self.spool.state;
        let current = &self.server.durable[&state.chain];
        assert_eq!(current.chain().cursor.sequence.0, state.newest);
        assert!(self.sealed.len() > 100, "the run sealed too little to show anything");
        for (chain, durable) in &self.server.durable {
            durable.check(*chain);
        }
        let durable = || self.server.durable.values();
        let stored: BTreeSet<Hash> =
            durable().flat_map(|durable| durable.stored.values()).map(|(head, _)| *head).collect();
        for (head, span) in &self.sealed {
            let covered = durable()
                .flat_map(|durable| &durable.dropped)
                .any(|(_, _, period)| period.covers(*span));
            assert!(
                stored.contains(head) || covered || self.unaccountable.contains(head),
                "what was sealed at {span:?} is neither stored nor dropped"
            );
        }
        assert!(self.spool.entries.is_empty());
        assert_eq!(self.sender.as_ref().map(Sender::in_flight_bytes), Some(0));
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Seal => self.seal(),
            Happening::AgentTimer => self.timer_at = self.timer_at.filter(|at| *at != self.now),
            Happening::ServerNotices { stream } => self.server.open.retain(|open| *open != stream),
            Happening::Heal => {}
            Happening::Connected { stream } => self.connected(stream),
            Happening::StreamEnds { stream } => self.stream_ends(stream),
            Happening::AtServer { stream, message } => self.at_server(stream, message),
            Happening::AtAgent { stream, message } => self.at_agent(stream, message),
            Happening::Commit => self.commit(),
            Happening::Cut => self.cut(),
            Happening::LongPartition => {
                let length = self.faults.long_partition_ms;
                let length = length * 2 / 3 + self.below(length / 3);
                self.partition(length);
            }
            Happening::AgentCrash => self.agent_crashes(),
            Happening::AgentStart => self.agent_starts(),
            Happening::ServerCrash => self.server_crashes(),
            Happening::ServerStart => self.server.down = false,
            Happening::Snapshot => self.server.snapshot = self.server.durable.clone(),
            Happening::Restore => {
                self.fired.restores += 1;
                self.server.durable = self.server.snapshot.clone();
                self.server_crashes();
            }
        }
    }

    fn seal(&mut self) {
        if self.sealing {
            let wait = if self.one_in(20) { 5_000 } else { SEAL_EVERY_MS };
            self.after(wait, Happening::Seal);
        }
        if !self.sealing || self.sender.is_none() {
            return;
        }
        let bytes = 4_000 + self.below(120_000);
        let State { chain, newest, newest_head: previous, newest_at } = self.spool.state;
        let sequence = newest + 1;
        let text = format!("{sequence} of chain {chain} in life {}", self.lives);
        let head = Hash::of(text.as_bytes());
        let from = self.now.saturating_sub(SEAL_EVERY_MS).max(newest_at);
        let span = Span { from, to: self.now };
        let segment = Segment { head, previous, bytes, span };
        self.sealed.insert(head, span);
        // The chain position is written before the segment may leave.
        let newest_at = self.now;
        self.spool.state = State { chain, newest: sequence, newest_head: Some(head), newest_at };
        if self.one_in(40) {
            self.copy = self.spool.state;
        }
        self.spool.entries.insert(sequence, Entry::Segment(segment));
        if self.spool.entries.len() > self.faults.spool_items {
            self.fired.evictions += 1;
            self.spool.evict_oldest();
        }
    }

    fn connected(&mut self, stream: u64) {
        if stream != self.stream || self.sender.is_none() {
            return;
        }
        if self.server.down || self.partitioned() {
            return self.stream_ends(stream);
        }
        self.fired.streams += 1;
        if let Some(sender) = &mut self.sender {
            sender.on_connected();
        }
    }

    fn stream_ends(&mut self, stream: u64) {
        if stream != self.stream {
            return;
        }
        let noticed = self.below(KEEP_ALIVE_MS);
        self.after(noticed, Happening::ServerNotices { stream });
        let random = self.next_random();
        if let Some(sender) = &mut self.sender {
            if sender.is_open() {
                self.open_lost_at = Some(self.now);
            }
            sender.on_disconnected(Moment(self.now), Ending::Lost, random);
            self.stream += 1;
        }
    }

    fn cut(&mut self) {
        if !self.faults.cuts {
            return;
        }
        let next = 300_000 + self.below(1_200_000);
        self.after(next, Happening::Cut);
        let length = if self.one_in(3) { self.below(400_000) } else { 0 };
        self.partition(length);
    }

    fn partition(&mut self, length: u64) {
        self.fired.cuts += 1;
        self.partitioned_until = self.partitioned_until.max(self.now + length);
        let noticed = self.below(KEEP_ALIVE_MS);
        let stream = self.stream;
        self.after(noticed, Happening::StreamEnds { stream });
        self.after(length + 1, Happening::Heal);
    }

    fn agent_crashes(&mut self) {
        if !self.faults.crashes {
            return;
        }
        let next = 2_000_000 + self.below(6_000_000);
        self.after(next, Happening::AgentCrash);
        self.fired.agent_crashes += 1;
        let stream = self.stream;
        self.after(1_000, Happening::ServerNotices { stream });
        self.sender = None;
        self.stream += 1;
        let down = 1_000 + self.below(300_000);
        self.after(down, Happening::AgentStart);
    }

    /// The next process finds the state as it was, gone, or an older copy.
    fn agent_starts(&mut self) {
        self.lives += 1;
        let fate = if self.faults.states { self.below(4) } else { 3 };
        if fate < 2 {
            let heads = self.spool.entries.values().filter_map(|entry| match entry {
                Entry::Segment(segment) => Some(segment.head),
                Entry::Drop { .. } => None,
            });
            self.unaccountable.extend(heads);
            let dropped = self.spool.entries.values().filter_map(|entry| match entry {
                Entry::Drop { span, .. } => Some(*span),
                Entry::Segment(_) => None,
            });
            let dropped: Vec<Span> = dropped.collect();
            let known = self.sealed.iter().filter(|(_, at)| dropped.iter().any(|d| d.covers(**at)));
            self.unaccountable.extend(known.map(|(head, _)| *head).collect::<Vec<_>>());
        }
        self.spool.entries.clear();
        match fate {
            0 => {
                self.fired.lost_states += 1;
                self.chains += 1;
                self.spool.state = State { chain: self.chains, ..State::default() };
            }
            1 => {
                self.fired.old_states += 1;
                self.spool.state = self.copy;
            }
            _ => {}
        }
        self.sender = Some(Sender::new(Moment(self.now)));
    }

    fn give_up_chain(&mut self) {
        self.fired.given_up_chains += 1;
        self.chains += 1;
        let carried = self.spool.start_chain(self.chains);
        self.fired.carried_over += u64::from(carried > 0);
    }

    fn server_crashes(&mut self) {
        if !self.faults.crashes && self.faults.restore_after_ms == 0 {
            return;
        }
        if self.faults.crashes {
            let next = 2_000_000 + self.below(6_000_000);
            self.after(next, Happening::ServerCrash);
        }
        self.fired.server_crashes += 1;
        self.server.down = true;
        self.server.queue.clear();
        self.server.open.clear();
        let stream = self.stream;
        let noticed = self.below(2_000);
        self.after(noticed, Happening::StreamEnds { stream });
        let down = 3_000 + self.below(120_000);
        self.after(down, Happening::ServerStart);
    }

    fn at_server(&mut self, stream: u64, message: ToServer) {
        if self.server.down {
            return;
        }
        match message {
            ToServer::Hello { chain } => {
                self.server.chains.insert(stream, chain);
                self.send_to_agent(stream, ToAgent::Challenge);
            }
            ToServer::Proof => {
                self.server.open.push(stream);
                let welcome = self.welcome(self.server.chains[&stream]);
                self.send_to_agent(stream, ToAgent::Welcome(welcome));
            }
            ToServer::Start(_) | ToServer::Segment(..) | ToServer::Drop(..) => {
                if !self.server.open.contains(&stream) {
                    return;
                }
                if stream != self.stream {
                    self.fired.stale += 1;
                }
                self.server.queue.push((stream, message));
                if !self.server.commit_due {
                    self.server.commit_due = true;
                    self.after(COMMIT_EVERY_MS, Happening::Commit);
                }
            }
        }
    }

    fn welcome(&mut self, chain: u64) -> Welcome {
        let stored = self.server.durable.values().flat_map(|durable| durable.stored.values());
        self.recorded_until = stored.map(|(_, span)| span.to).max().unwrap_or(0);
        let known = self.server.durable.get(&chain).cloned().unwrap_or_default().chain();
        Welcome {
            cursor: known.cursor.sequence,
            cursor_head: known.cursor.head,
            start_wanted: !known.has_begun(),
            window_bytes: 0,
        }
    }

    fn commit(&mut self) {
        self.server.commit_due = false;
        for (stream, message) in std::mem::take(&mut self.server.queue) {
            let chain = self.server.chains[&stream];
            let mut durable = self.server.durable.remove(&chain).unwrap_or_default();
            let answer = match message {
                ToServer::Start(start) => Some(commit_start(&mut durable, start)),
                ToServer::Segment(segment, span) => {
                    self.commit_segment(&mut durable, segment, span)
                }
                ToServer::Drop(drop, span) => self.commit_drop(&mut durable, drop, span),
                ToServer::Hello { .. } | ToServer::Proof => continue,
            };
            if durable.chain().has_begun() {
                self.server.durable.insert(chain, durable);
            }
            match answer {
                Some(answer) => self.send_to_agent(stream, answer),
                None => self.end_at_server(stream),
            }
        }
    }

    /// The server closes a stream whose chain has not begun.
    fn end_at_server(&mut self, stream: u64) {
        self.fired.not_begun += 1;
        self.server.open.retain(|open| *open != stream);
        let latency = 1 + self.below(150);
        self.after(latency, Happening::StreamEnds { stream });
    }

    /// `None` ends the stream.
    fn commit_segment(
        &mut self,
        durable: &mut Durable,
        segment: IncomingSegment,
        span: Span,
    ) -> Option<ToAgent> {
        let refuses = self.faults.refusals && segment.head.0[0] < 5;
        let sequence = durable.chain().cursor.sequence;
        let kept = durable.stored.get(&segment.sequence.0).map(|(head, _)| *head);
        Some(match durable.chain().on_segment(&segment, kept) {
            SegmentDecision::NotBegun => return None,
            SegmentDecision::Store(_) if refuses => {
                self.fired.refusals += 1;
                ToAgent::Refusal(segment.sequence)
            }
            SegmentDecision::Store(cursor) => {
                let before = durable.stored.insert(segment.sequence.0, (segment.head, span));
                assert_eq!(before, None, "stored twice");
                durable.cursor = Some(cursor);
                ToAgent::Ack { sequence: cursor.sequence, rewind: false }
            }
            SegmentDecision::AlreadyStored => {
                self.fired.repeats += 1;
                ToAgent::Ack { sequence, rewind: false }
            }
            SegmentDecision::Ahead => ToAgent::Ack { sequence, rewind: true },
            other => panic!("one honest agent never causes {other:?}"),
        })
    }

    fn commit_drop(
        &mut self,
        durable: &mut Durable,
        drop: IncomingDrop,
        span: Span,
    ) -> Option<ToAgent> {
        let sequence = durable.chain().cursor.sequence;
        Some(match durable.chain().on_drop(&drop) {
            DropDecision::NotBegun => return None,
            DropDecision::MoveCursor(cursor) => {
                durable.dropped.push((drop.first.0, drop.last.0, span));
                durable.cursor = Some(cursor);
                ToAgent::Ack { sequence: cursor.sequence, rewind: false }
            }
            DropDecision::AlreadyCovered => ToAgent::Ack { sequence, rewind: false },
            DropDecision::Rewind => ToAgent::Ack { sequence, rewind: true },
            DropDecision::Malformed => panic!("{drop:?}"),
        })
    }

    fn at_agent(&mut self, stream: u64, message: ToAgent) {
        let random = self.next_random();
        let now = Moment(self.now);
        if stream != self.stream {
            return;
        }
        let Some(sender) = &mut self.sender else { return };
        match message {
            ToAgent::Challenge => sender.on_challenge(),
            ToAgent::Welcome(welcome) => {
                sender.on_welcome(now, &welcome, &self.spool, random);
                if let Some(lost_at) = self.open_lost_at.take() {
                    let outage = self.now - lost_at;
                    self.fired.longest_outage_ms = self.fired.longest_outage_ms.max(outage);
                }
            }
            ToAgent::Ack { sequence, rewind } => {
                let chain = self.server.chains[&stream];
                let durable = self.server.durable.get(&chain).map(Durable::chain);
                assert!(
                    durable.is_some_and(|known| sequence <= known.cursor.sequence)
                        || self.fired.restores > 0,
                    "acknowledged and not durable: {sequence}"
                );
                sender.on_ack(now, sequence, rewind, &self.spool);
            }
            ToAgent::Refusal(sequence) => sender.on_refusal(now, sequence, &self.spool),
        }
    }

    fn drive_agent(&mut self) {
        loop {
            let Some(sender) = &mut self.sender else { return };
            let Some(action) = sender.poll(Moment(self.now), &self.spool) else { break };
            self.act(action);
        }
        if let Some(Moment(at)) = self.sender.as_ref().and_then(Sender::poll_timeout)
            && at > self.now
            && self.timer_at.is_none_or(|timer_at| at < timer_at)
        {
            self.timer_at = Some(at);
            self.after(at - self.now, Happening::AgentTimer);
        }
    }

    fn act(&mut self, action: Action) {
        let stream = self.stream;
        match action {
            Action::Connect => {
                let delay = 1 + self.below(500);
                self.after(delay, Happening::Connected { stream });
            }
            Action::SendHello => {
                self.send_to_server(ToServer::Hello { chain: self.spool.state.chain });
            }
            Action::SendProof => self.send_to_server(ToServer::Proof),
            Action::SendStart => {
                let start = Hash::of(format!("start of {}", self.spool.state.chain).as_bytes());
                self.send_to_server(ToServer::Start(start));
            }
            Action::SendSegment(sequence) => {
                let Some(Entry::Segment(segment)) = self.spool.entries.get(&sequence.0).copied()
                else {
                    panic!("the sender asked for {sequence}, which is no segment")
                };
                self.check_window(segment.bytes);
                let Segment { head, previous, span, .. } = segment;
                let incoming = IncomingSegment { sequence, head, previous };
                self.send_to_server(ToServer::Segment(incoming, span));
            }
            Action::SendDrop { first, last } => {
                let Some(Entry::Drop { last_head, span, .. }) =
                    self.spool.entries.get(&last.0).copied()
                else {
                    panic!("the sender asked for a drop up to {last}, which is none")
                };
                let incoming = IncomingDrop { first, last, last_head };
                self.send_to_server(ToServer::Drop(incoming, span));
            }
            Action::Trim(through) => self.spool.trim(through.0),
            Action::Quarantine(sequence) => self.spool.replace_by_drop(sequence.0),
            Action::Declare { first, last } => {
                // What the next segment names as its previous head is the head at `last`.
                let last_head = match self.spool.entries.get(&(last.0 + 1)) {
                    Some(Entry::Segment(segment)) => segment.previous.unwrap(),
                    Some(Entry::Drop { .. }) => Hash::of(b"unknown"),
                    None => self.spool.state.newest_head.unwrap(),
                };
                let next = self.spool.entries.values().next();
                let to = next.map_or(self.spool.state.newest_at, |entry| entry.span().from);
                let span = Span { from: self.recorded_until.min(to), to };
                let drop = Entry::Drop { first: first.0, last_head, span };
                self.spool.entries.insert(last.0, drop);
            }
            Action::Close(CloseReason::ChainDiverged | CloseReason::DropRefused) => {
                self.give_up_chain();
                self.stream_ends(stream);
            }
            Action::Close(_) => self.stream_ends(stream),
        }
    }

    /// Invariant 3.
    fn check_window(&self, bytes: u64) {
        let in_flight = self.sender.as_ref().map_or(0, Sender::in_flight_bytes);
        assert!(in_flight <= limits::WINDOW_BYTES || in_flight == bytes);
    }

    fn send_to_server(&mut self, message: ToServer) {
        let stream = self.stream;
        self.deliver(stream, true, Happening::AtServer { stream, message });
    }

    fn send_to_agent(&mut self, stream: u64, message: ToAgent) {
        self.deliver(stream, false, Happening::AtAgent { stream, message });
    }

    /// One stream keeps its order; a message can be lost or come twice, and one that is on the way
    /// when its stream is cut can still arrive after the next stream was opened.
    fn deliver(&mut self, stream: u64, up: bool, happening: Happening) {
        if self.partitioned() {
            return;
        }
        if self.faults.messages && self.one_in(60) {
            self.fired.lost += 1;
            return;
        }
        let slow = self.faults.cuts && self.one_in(40);
        let latency = if slow { self.below(45_000) } else { 1 + self.below(150) };
        let earliest = self.arrivals.get(&(stream, up)).copied().unwrap_or(0);
        let at = earliest.max(self.now + latency);
        self.arrivals.insert((stream, up), at);
        self.after(at - self.now, happening);
        if self.faults.messages && self.one_in(60) {
            self.fired.duplicates += 1;
            self.after(at - self.now, happening);
        }
    }

    fn partitioned(&self) -> bool {
        self.now < self.partitioned_until
    }

    fn after(&mut self, delay: u64, happening: Happening) {
        self.order += 1;
        self.happenings.push(happening);
        self.agenda.push(Reverse((self.now + delay, self.order, self.happenings.len() - 1)));
    }

    /// SplitMix64.
    fn next_random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next_random() % bound.max(1)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

fn commit_start(durable: &mut Durable, start: Hash) -> ToAgent {
    match durable.chain().on_start(start) {
        StartDecision::Store => durable.start = Some(start),
        StartDecision::AlreadyStored => {}
        other => panic!("one honest agent never causes {other:?}"),
    }
    ToAgent::Ack { sequence: durable.chain().cursor.sequence, rewind: false }
}
