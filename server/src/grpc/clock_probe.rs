//! Asking an agent for its clock: one question at a time, and what its answers say.

use leasewatch_core::delivery::{ClockEstimate, ClockFilter, Moment};
use leasewatch_core::time::Timestamp;
use leasewatch_proto::convert::TimeEcho;
use leasewatch_proto::v1;

/// The server's end of the time exchange on one stream.
#[derive(Debug, Default)]
pub(super) struct ClockProbe {
    filter: ClockFilter,
    asked: Option<Asked>,
    last_id: u32,
    told: Option<ClockEstimate>,
}

#[derive(Debug, Clone, Copy)]
struct Asked {
    id: u32,
    at: Moment,
    server_sent_ms: i64,
}

impl ClockProbe {
    /// The next question. An older one that was not answered is forgotten.
    pub(super) fn ask(&mut self, now: Moment, wall: Timestamp) -> v1::TimeProbe {
        self.last_id = self.last_id.wrapping_add(1);
        self.asked = Some(Asked { id: self.last_id, at: now, server_sent_ms: wall.0 });
        v1::TimeProbe { server_sent_ms: wall.0, id: self.last_id }
    }

    /// Takes an answer in; returns the estimate when it changed. An answer to anything but the
    /// open question is ignored.
    pub(super) fn on_echo(&mut self, echo: &v1::TimeEcho, now: Moment) -> Option<ClockEstimate> {
        let asked = self
            .asked
            .filter(|asked| asked.id == echo.id && asked.server_sent_ms == echo.server_sent_ms)?;
        self.asked = None;
        // The way there and back by the clock that never steps: a step of the server's wall clock
        // in between is not the agent's fault.
        let round = i64::try_from(now.since(asked.at)).ok()?;
        let received_ms = asked.server_sent_ms.checked_add(round)?;
        let exchange = TimeEcho::from_wire(echo).exchange(asked.server_sent_ms, received_ms);
        self.filter.on_exchange(&exchange);
        let estimate = self.filter.estimate()?;
        (self.told.replace(estimate) != Some(estimate)).then_some(estimate)
    }
}

/// The message; both sides mean server time minus agent time.
pub(super) fn to_wire(estimate: ClockEstimate) -> v1::TimeEstimate {
    v1::TimeEstimate { offset_ms: estimate.offset_ms, bound_ms: estimate.bound_ms }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: Timestamp = Timestamp(1_790_000_000_000);

    fn echo(probe: &v1::TimeProbe, offset_ms: i64) -> v1::TimeEcho {
        let at = probe.server_sent_ms + offset_ms + 10;
        v1::TimeEcho {
            id: probe.id,
            server_sent_ms: probe.server_sent_ms,
            agent_received_ms: at,
            agent_sent_ms: at,
        }
    }

    #[test]
    fn an_answer_gives_the_offset_and_a_repeat_gives_nothing_new() {
        let mut probe = ClockProbe::default();
        let asked = probe.ask(Moment(100), WALL);
        let answer = echo(&asked, 2_000);
        let estimate = probe.on_echo(&answer, Moment(120)).unwrap();
        assert_eq!((estimate.offset_ms, estimate.bound_ms), (-2_000, 11));
        assert_eq!(to_wire(estimate).offset_ms, -2_000);
        assert_eq!(probe.on_echo(&answer, Moment(120)), None);
        let asked = probe.ask(Moment(200), WALL);
        assert_eq!(probe.on_echo(&echo(&asked, 2_000), Moment(220)), None);
    }

    #[test]
    fn answers_to_no_question_are_ignored() {
        let mut probe = ClockProbe::default();
        let asked = probe.ask(Moment(0), WALL);
        let mut answer = echo(&asked, 0);
        answer.id += 1;
        assert_eq!(probe.on_echo(&answer, Moment(20)), None);
        let mut answer = echo(&asked, 0);
        answer.server_sent_ms += 1;
        assert_eq!(probe.on_echo(&answer, Moment(20)), None);
        let extreme = v1::TimeEcho { agent_sent_ms: i64::MIN, ..echo(&asked, 0) };
        assert_eq!(probe.on_echo(&extreme, Moment(20)), None);
    }
}
