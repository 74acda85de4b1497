//! Whether a node is up, late or unknown, judged by the server's clock alone.
//!
//! Unknown is not down: silence proves nothing about a GPU. The contract's four states are
//! `sla`'s, made from evidence.

use super::Moment;

/// Silence after which a node is late, in milliseconds.
pub const LATE_AFTER_MS: u64 = 15_000;
/// Silence after which a node is unknown, in milliseconds; also the grace after a server's start.
pub const UNKNOWN_AFTER_MS: u64 = 60_000;

/// What the server knows of a node's presence. Times are of the server's monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Presence {
    /// When this server process started to listen.
    pub server_started_at: Moment,
    /// The last live frame or segment that this server process received; `None` since its start.
    pub last_heard_at: Option<Moment>,
    /// Whether anything was ever stored or heard of the node, also before the server's start.
    pub ever_seen: bool,
    /// Whether a proven stream of the node is open.
    pub stream_open: bool,
    /// Whether the last thing recorded is a planned stop.
    pub said_goodbye: bool,
    /// Whether the key was revoked.
    pub revoked: bool,
    /// Whether two users of the key were seen.
    pub contested: bool,
}

/// The live state of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeState {
    /// Heard within 15 s.
    Up,
    /// Heard within 60 s, or the server itself started less than 60 s ago.
    Late,
    /// Nothing for more than 60 s.
    Unknown(UnknownReason),
}

/// Why a node's state is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UnknownReason {
    /// Its key was revoked, so it is not listened to.
    Revoked,
    /// Two users of one key: what arrives may be the other's.
    Contested,
    /// It announced a planned stop.
    Stopped,
    /// A stream is open, and nothing comes through it.
    Stalled,
    /// There is no stream: agent, host or network.
    Network,
    /// It has never been heard.
    NeverSeen,
}

impl UnknownReason {
    /// Its name in the API and in exports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Revoked => "revoked",
            Self::Contested => "contested",
            Self::Stopped => "stopped",
            Self::Stalled => "stalled",
            Self::Network => "network",
            Self::NeverSeen => "never_seen",
        }
    }
}

impl NodeState {
    /// Its name in the API and in exports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Late => "late",
            Self::Unknown(_) => "unknown",
        }
    }
}

impl Presence {
    /// The state at `now`.
    #[must_use]
    pub fn state(&self, now: Moment) -> NodeState {
        if self.revoked {
            return NodeState::Unknown(UnknownReason::Revoked);
        }
        match self.last_heard_at.map(|at| now.since(at)) {
            Some(silent_ms) if silent_ms < LATE_AFTER_MS => NodeState::Up,
            Some(silent_ms) if silent_ms <= UNKNOWN_AFTER_MS => NodeState::Late,
            None if self.in_grace(now) => NodeState::Late,
            _ => NodeState::Unknown(self.reason()),
        }
    }

    /// Only nodes that were seen before get the grace: a node that never came is not late.
    fn in_grace(&self, now: Moment) -> bool {
        self.ever_seen
            && !self.said_goodbye
            && now.since(self.server_started_at) <= UNKNOWN_AFTER_MS
    }

    fn reason(&self) -> UnknownReason {
        if !self.ever_seen && self.last_heard_at.is_none() && !self.stream_open {
            UnknownReason::NeverSeen
        } else if self.contested {
            UnknownReason::Contested
        } else if self.stream_open {
            UnknownReason::Stalled
        } else if self.said_goodbye {
            UnknownReason::Stopped
        } else {
            UnknownReason::Network
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTED: Moment = Moment(1_000_000);

    fn presence() -> Presence {
        Presence {
            server_started_at: STARTED,
            last_heard_at: None,
            ever_seen: true,
            stream_open: false,
            said_goodbye: false,
            revoked: false,
            contested: false,
        }
    }

    #[test]
    fn silence_turns_up_into_late_into_unknown() {
        let heard = STARTED.plus_ms(500_000);
        let node = Presence { last_heard_at: Some(heard), ..presence() };
        let after = |ms| node.state(heard.plus_ms(ms));
        assert_eq!(after(0), NodeState::Up);
        assert_eq!(after(14_999), NodeState::Up);
        assert_eq!(after(15_000), NodeState::Late);
        assert_eq!(after(60_000), NodeState::Late);
        assert_eq!(after(60_001), NodeState::Unknown(UnknownReason::Network));
    }

    #[test]
    fn a_server_start_grants_a_minute_to_nodes_it_knows() {
        let at = |node: Presence, ms| node.state(STARTED.plus_ms(ms));
        assert_eq!(at(presence(), 60_000), NodeState::Late);
        assert_eq!(at(presence(), 60_001), NodeState::Unknown(UnknownReason::Network));
        let stranger = Presence { ever_seen: false, ..presence() };
        assert_eq!(at(stranger, 1), NodeState::Unknown(UnknownReason::NeverSeen));
        let stopped = Presence { said_goodbye: true, ..presence() };
        assert_eq!(at(stopped, 1), NodeState::Unknown(UnknownReason::Stopped));
    }

    #[test]
    fn the_reason_says_what_is_known() {
        let late = STARTED.plus_ms(100_000);
        let reason = |node: Presence| node.state(late);
        assert_eq!(
            reason(Presence { stream_open: true, ..presence() }),
            NodeState::Unknown(UnknownReason::Stalled)
        );
        assert_eq!(
            reason(Presence { contested: true, ..presence() }),
            NodeState::Unknown(UnknownReason::Contested)
        );
        let revoked = Presence { revoked: true, last_heard_at: Some(late), ..presence() };
        assert_eq!(reason(revoked), NodeState::Unknown(UnknownReason::Revoked));
    }
}
