//! The event loop: one agent, one server, the network between them, and what can go wrong.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::faults::{Faults, Fired};
use super::model::{Durable, Entry, Segment, Spool};
use crate::delivery::{
    Action, DropDecision, Ending, IncomingDrop, IncomingSegment, Moment, SegmentDecision, Sender,
    SpoolIndex, Welcome, limits,
};
use crate::id::{Hash, Sequence};

const SEAL_EVERY_MS: u64 = 60_000;
const COMMIT_EVERY_MS: u64 = 100;
/// When a side without traffic finds out that its stream is dead.
const KEEP_ALIVE_MS: u64 = 30_000;

#[derive(Debug, Clone, Copy)]
enum ToServer {
    Hello,
    Proof,
    Segment(IncomingSegment),
    Drop(IncomingDrop),
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
    durable: Durable,
    snapshot: Durable,
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
    spool: Spool,
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
            spool: Spool::default(),
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
        self.server.durable.dropped.iter().map(|(first, last)| last - first + 1).sum()
    }

    /// Invariant 1: every sealed sequence is stored once, or covered by one drop.
    pub(super) fn check_delivered(&self) {
        let durable = &self.server.durable;
        assert_eq!(durable.cursor().sequence.0, self.spool.newest);
        assert!(self.spool.newest > 100, "the run sealed too little to show anything");
        for sequence in 1..=self.spool.newest {
            let stored = usize::from(durable.stored.contains_key(&sequence));
            let covering = durable.dropped.iter().filter(|(f, l)| (*f..=*l).contains(&sequence));
            assert_eq!(stored + covering.count(), 1, "sequence {sequence}");
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
            Happening::AgentStart => {
                self.lives += 1;
                self.sender = Some(Sender::new(Moment(self.now)));
            }
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
        let sequence = self.spool.newest + 1;
        let head = Hash::of(format!("{sequence} of life {}", self.lives).as_bytes());
        let segment =
            Segment { head, previous: self.spool.newest_head, bytes: 4_000 + self.below(120_000) };
        // The chain position is written before the segment may leave.
        self.spool.newest = sequence;
        self.spool.newest_head = Some(head);
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
        self.spool.entries.clear();
        self.stream += 1;
        let down = 1_000 + self.below(300_000);
        self.after(down, Happening::AgentStart);
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
            ToServer::Hello => self.send_to_agent(stream, ToAgent::Challenge),
            ToServer::Proof => {
                self.server.open.push(stream);
                let cursor = self.server.durable.cursor();
                let welcome =
                    Welcome { cursor: cursor.sequence, cursor_head: cursor.head, window_bytes: 0 };
                self.send_to_agent(stream, ToAgent::Welcome(welcome));
            }
            ToServer::Segment(_) | ToServer::Drop(_) => {
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

    fn commit(&mut self) {
        self.server.commit_due = false;
        for (stream, message) in std::mem::take(&mut self.server.queue) {
            let answer = match message {
                ToServer::Segment(segment) => self.commit_segment(segment),
                ToServer::Drop(drop) => self.commit_drop(drop),
                ToServer::Hello | ToServer::Proof => continue,
            };
            self.send_to_agent(stream, answer);
        }
    }

    fn commit_segment(&mut self, segment: IncomingSegment) -> ToAgent {
        let refuses = self.faults.refusals && segment.head.0[0] < 5;
        let durable = &mut self.server.durable;
        let sequence = durable.cursor().sequence;
        let kept = durable.stored.get(&segment.sequence.0).copied();
        match durable.cursor().on_segment(&segment, kept) {
            SegmentDecision::Store(_) if refuses => {
                self.fired.refusals += 1;
                ToAgent::Refusal(segment.sequence)
            }
            SegmentDecision::Store(cursor) => {
                let before = durable.stored.insert(segment.sequence.0, segment.head);
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
        }
    }

    fn commit_drop(&mut self, drop: IncomingDrop) -> ToAgent {
        let durable = &mut self.server.durable;
        let sequence = durable.cursor().sequence;
        match durable.cursor().on_drop(&drop) {
            DropDecision::MoveCursor(cursor) => {
                durable.dropped.push((drop.first.0, drop.last.0));
                durable.cursor = Some(cursor);
                ToAgent::Ack { sequence: cursor.sequence, rewind: false }
            }
            DropDecision::AlreadyCovered => ToAgent::Ack { sequence, rewind: false },
            DropDecision::Rewind => ToAgent::Ack { sequence, rewind: true },
            DropDecision::Malformed => panic!("{drop:?}"),
        }
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
                let durable = self.server.durable.cursor().sequence;
                assert!(
                    sequence <= durable || self.fired.restores > 0,
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
            Action::SendHello => self.send_to_server(ToServer::Hello),
            Action::SendProof => self.send_to_server(ToServer::Proof),
            Action::SendSegment(sequence) => {
                let Some(Entry::Segment(segment)) = self.spool.entries.get(&sequence.0).copied()
                else {
                    panic!("the sender asked for {sequence}, which is no segment")
                };
                self.check_window(segment.bytes);
                let Segment { head, previous, .. } = segment;
                self.send_to_server(ToServer::Segment(IncomingSegment {
                    sequence,
                    head,
                    previous,
                }));
            }
            Action::SendDrop { first, last } => {
                let last_head = self.spool.head_hash(last).unwrap();
                self.send_to_server(ToServer::Drop(IncomingDrop { first, last, last_head }));
            }
            Action::Trim(through) => self.spool.trim(through.0),
            Action::Quarantine(sequence) => self.spool.replace_by_drop(sequence.0),
            Action::Declare { first, last } => {
                // What the next segment names as its previous head is the head at `last`.
                let last_head = match self.spool.entries.get(&(last.0 + 1)) {
                    Some(Entry::Segment(segment)) => segment.previous.unwrap(),
                    Some(Entry::Drop { .. }) => Hash::of(b"unknown"),
                    None => self.spool.newest_head.unwrap(),
                };
                self.spool.entries.insert(last.0, Entry::Drop { first: first.0, last_head });
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
