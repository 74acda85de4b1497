//! One node's live state: facts and the time at which they were learned.

use std::sync::Arc;

use leasewatch_core::delivery::{ClockEstimate, Moment, NodeState, Presence};
use leasewatch_core::time::Timestamp;
use tokio::sync::watch;

use super::{Control, LiveFrame, RESTING_INTERVAL_MS, WATCHED_INTERVAL_MS};

/// What the store knows of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Introduction {
    /// Whether anything of it was ever stored.
    pub ever_seen: bool,
    /// Whether the last thing recorded is a planned stop.
    pub said_goodbye: bool,
    /// Whether its key was revoked.
    pub revoked: bool,
    /// Whether two users of its key were seen.
    pub contested: bool,
}

/// What is known of a node at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSnapshot {
    /// Up, late or unknown.
    pub state: NodeState,
    /// Milliseconds since the last live frame or segment; `None` since the server's start.
    pub silent_ms: Option<u64>,
    /// The last live frame.
    pub frame: Option<Arc<LiveFrame>>,
    /// Milliseconds since it came.
    pub frame_age_ms: Option<u64>,
    /// End of the last segment that was committed since the server's start, by the node's clock.
    pub recorded_until: Option<Timestamp>,
    /// Proven streams that are open.
    pub streams_open: u32,
    /// Server time minus node time; `None` before the first exchange of this process.
    pub clock: Option<ClockEstimate>,
    /// Version of the agent on the last stream.
    pub agent_version: Option<String>,
    /// Whether its key was revoked.
    pub revoked: bool,
    /// Whether two users of its key were seen.
    pub contested: bool,
}

#[derive(Debug)]
pub(super) struct Node {
    known: Introduction,
    last_heard_at: Option<Moment>,
    frame: Option<(Arc<LiveFrame>, Moment)>,
    recorded_until: Option<Timestamp>,
    streams_open: u32,
    watchers: u32,
    clock: Option<ClockEstimate>,
    agent_version: Option<String>,
    control: watch::Sender<Control>,
}

impl Default for Node {
    fn default() -> Self {
        Self {
            known: Introduction::default(),
            last_heard_at: None,
            frame: None,
            recorded_until: None,
            streams_open: 0,
            watchers: 0,
            clock: None,
            agent_version: None,
            control: watch::Sender::new(Control {
                interval_ms: RESTING_INTERVAL_MS,
                revoked: false,
            }),
        }
    }
}

impl Node {
    /// Flags are only raised: the store may be behind what this process has seen. The goodbye
    /// counts only as long as nothing was heard after it.
    pub(super) fn introduce(&mut self, introduction: Introduction) {
        self.known.ever_seen |= introduction.ever_seen;
        self.known.contested |= introduction.contested;
        if self.last_heard_at.is_none() {
            self.known.said_goodbye |= introduction.said_goodbye;
        }
        if introduction.revoked {
            self.revoke();
        }
    }

    pub(super) fn stream_opened(&mut self, agent_version: &str) {
        self.streams_open = self.streams_open.saturating_add(1);
        self.agent_version = Some(agent_version.to_owned());
        self.known.ever_seen = true;
    }

    pub(super) fn stream_closed(&mut self) {
        self.streams_open = self.streams_open.saturating_sub(1);
    }

    pub(super) fn frame(&mut self, frame: LiveFrame, now: Moment) {
        self.frame = Some((Arc::new(frame), now));
        self.heard(now);
        // An agent that still sends live frames has not stopped, whatever its chain says.
        self.known.said_goodbye = false;
    }

    pub(super) fn segment(&mut self, ended_at: Timestamp, goodbye: bool, now: Moment) {
        self.recorded_until = self.recorded_until.max(Some(ended_at));
        self.heard(now);
        self.known.said_goodbye = goodbye;
    }

    pub(super) fn clock(&mut self, estimate: ClockEstimate) {
        self.clock = Some(estimate);
    }

    pub(super) fn contested(&mut self) {
        self.known.contested = true;
    }

    pub(super) fn revoke(&mut self) {
        self.known.revoked = true;
        self.control.send_if_modified(|control| !std::mem::replace(&mut control.revoked, true));
    }

    pub(super) fn admit(&mut self) {
        self.known.revoked = false;
        self.control.send_if_modified(|control| std::mem::replace(&mut control.revoked, false));
    }

    pub(super) fn watchers_changed(&mut self, by: i32) {
        self.watchers = self.watchers.saturating_add_signed(by);
        let wanted = if self.watchers > 0 { WATCHED_INTERVAL_MS } else { RESTING_INTERVAL_MS };
        self.control.send_if_modified(|control| {
            std::mem::replace(&mut control.interval_ms, wanted) != wanted
        });
    }

    pub(super) fn control(&self) -> watch::Receiver<Control> {
        self.control.subscribe()
    }

    pub(super) fn state(&self, server_started_at: Moment, now: Moment) -> NodeState {
        let presence = Presence {
            server_started_at,
            last_heard_at: self.last_heard_at,
            ever_seen: self.known.ever_seen,
            stream_open: self.streams_open > 0,
            said_goodbye: self.known.said_goodbye,
            revoked: self.known.revoked,
            contested: self.known.contested,
        };
        presence.state(now)
    }

    pub(super) fn snapshot(&self, server_started_at: Moment, now: Moment) -> NodeSnapshot {
        NodeSnapshot {
            state: self.state(server_started_at, now),
            silent_ms: self.last_heard_at.map(|at| now.since(at)),
            frame: self.frame.as_ref().map(|(frame, _)| Arc::clone(frame)),
            frame_age_ms: self.frame.as_ref().map(|(_, at)| now.since(*at)),
            recorded_until: self.recorded_until,
            streams_open: self.streams_open,
            clock: self.clock,
            agent_version: self.agent_version.clone(),
            revoked: self.known.revoked,
            contested: self.known.contested,
        }
    }

    fn heard(&mut self, now: Moment) {
        self.last_heard_at = self.last_heard_at.max(Some(now));
        self.known.ever_seen = true;
    }
}

#[cfg(test)]
pub(super) mod fixture {
    use super::*;

    /// A frame of a node without GPUs.
    pub(in crate::live) fn frame() -> LiveFrame {
        LiveFrame {
            at: Timestamp(1_790_000_000_000),
            gpus: Vec::new(),
            backlog_segments: 0,
            cpu_busy_permille: None,
            host_memory_used_mib: None,
            host_memory_total_mib: None,
            agent_rss_kib: None,
            nvml_unavailable: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fixture::frame;
    use super::*;
    use leasewatch_core::delivery::UnknownReason;

    const START: Moment = Moment(0);

    #[test]
    fn a_goodbye_lasts_until_something_is_heard_again() {
        let mut node = Node::default();
        node.segment(Timestamp(10), true, Moment(1_000));
        let later = Moment(200_000);
        assert_eq!(node.state(START, later), NodeState::Unknown(UnknownReason::Stopped));
        node.frame(frame(), Moment(201_000));
        assert_eq!(node.state(START, Moment(201_000)), NodeState::Up);
        assert_eq!(node.state(START, Moment(400_000)), NodeState::Unknown(UnknownReason::Network));
    }

    #[test]
    fn an_introduction_does_not_undo_what_was_seen() {
        let mut node = Node::default();
        node.contested();
        node.frame(frame(), Moment(5));
        node.introduce(Introduction { said_goodbye: true, ..Introduction::default() });
        let snapshot = node.snapshot(START, Moment(6));
        assert_eq!((snapshot.state, snapshot.contested), (NodeState::Up, true));
        assert_eq!((snapshot.silent_ms, snapshot.frame_age_ms), (Some(1), Some(1)));
    }

    #[test]
    fn an_older_segment_does_not_move_the_record_back() {
        let mut node = Node::default();
        node.segment(Timestamp(20), false, Moment(1));
        node.segment(Timestamp(10), false, Moment(2));
        assert_eq!(node.snapshot(START, Moment(3)).recorded_until, Some(Timestamp(20)));
    }
}
