//! R4 in simulated time: two hundred agents whose server was away for six hours, each with a segment
//! for every minute of it. No machine's load is in it. That the first thing on a stream is a live
//! frame is the driver's doing (`agent/tests/delivery.rs`); here nothing stands in its way.

use std::collections::BTreeMap;

use super::HOUR_MS;
use crate::delivery::{
    Action, BACKOFF_MAX_MS, BACKOFF_YOUNG_MAX_MS, Ending, Item, ItemKind, Moment, Sender,
    SpoolIndex, Welcome, YOUNG_LOSS_MS, limits,
};
use crate::id::{Hash, Sequence};

const AGENTS: u64 = 200;
const AWAY_MS: u64 = 6 * HOUR_MS;
const SEGMENTS: u64 = 360;
/// More than eight GPUs fill in a minute.
const SEGMENT_BYTES: u64 = 40 * 1_024;
/// A message and its answer, over a slow network.
const ROUND_TRIP_MS: u64 = 400;
/// Connecting, hello and challenge, proof and welcome.
const HANDSHAKE_MS: u64 = 3 * ROUND_TRIP_MS;

struct Backlog;

impl SpoolIndex for Backlog {
    fn oldest(&self) -> Sequence {
        Sequence::FIRST
    }

    fn newest(&self) -> Sequence {
        Sequence(SEGMENTS)
    }

    fn item(&self, sequence: Sequence) -> Option<Item> {
        let (first, last, kind) = (sequence, sequence, ItemKind::Segment);
        (sequence <= self.newest()).then_some(Item { first, last, bytes: SEGMENT_BYTES, kind })
    }

    fn head_hash(&self, _: Sequence) -> Option<Hash> {
        None
    }
}

/// When one agent was back, counted from the server's return.
#[derive(Debug, Default)]
struct Returned {
    welcomed_ms: u64,
    first_segment_ms: u64,
    last_ack_ms: u64,
    /// The most that ever was unacknowledged, and so in front of a live frame.
    in_flight_max: u64,
}

/// One agent from the loss of the server to the end of its backlog.
fn come_back(away_ms: u64, mut random: impl FnMut() -> u64) -> Returned {
    let mut sender = connected(Moment(0));
    sender.on_disconnected(Moment(0), Ending::Lost, random());
    let mut now = sender.poll_timeout().unwrap();
    while now < Moment(away_ms) {
        assert_eq!(sender.poll(now, &Backlog), Some(Action::Connect));
        sender.on_disconnected(now, Ending::Lost, random());
        now = sender.poll_timeout().unwrap();
    }
    assert_eq!(sender.poll(now, &Backlog), Some(Action::Connect));
    now = now.plus_ms(HANDSHAKE_MS);
    shake_hands(&mut sender, now, random());
    let mut returned = Returned { welcomed_ms: now.since(Moment(away_ms)), ..Returned::default() };
    assert_eq!(sender.in_flight_bytes(), 0, "a live frame has nothing in front of it");
    while sender.acked() < Sequence(SEGMENTS) {
        let mut sent = 0;
        while let Some(action) = sender.poll(now, &Backlog) {
            sent += u64::from(matches!(action, Action::SendSegment(_)));
        }
        returned.in_flight_max = returned.in_flight_max.max(sender.in_flight_bytes());
        if sent == 0 {
            now = sender.poll_timeout().unwrap();
            continue;
        }
        if returned.first_segment_ms == 0 {
            returned.first_segment_ms = now.since(Moment(away_ms));
        }
        now = now.plus_ms(ROUND_TRIP_MS);
        let acked = Sequence(sender.acked().0 + sent);
        sender.on_ack(now, acked, false, &Backlog);
    }
    returned.last_ack_ms = now.since(Moment(away_ms));
    returned
}

/// A stream that had lasted.
fn connected(now: Moment) -> Sender {
    let mut sender = Sender::new(now);
    assert_eq!(sender.poll(now, &Backlog), Some(Action::Connect));
    shake_hands(&mut sender, now, 0);
    sender
}

fn shake_hands(sender: &mut Sender, now: Moment, random: u64) {
    sender.on_connected();
    assert_eq!(sender.poll(now, &Backlog), Some(Action::SendHello));
    sender.on_challenge();
    assert_eq!(sender.poll(now, &Backlog), Some(Action::SendProof));
    let (cursor, cursor_head) = (Sequence(0), None);
    let welcome = Welcome { cursor, cursor_head, start_wanted: false, window_bytes: 0 };
    sender.on_welcome(now, &welcome, &Backlog, random);
    assert!(sender.is_open());
}

fn fleet(away_ms: u64, mut random: impl FnMut() -> u64) -> Vec<Returned> {
    (0..AGENTS).map(|_| come_back(away_ms, &mut random)).collect()
}

/// The most that happen within one second.
fn most_at_once(times_ms: impl Iterator<Item = u64>) -> usize {
    let mut seconds = BTreeMap::<u64, usize>::new();
    times_ms.for_each(|at| *seconds.entry(at / 1_000).or_default() += 1);
    seconds.into_values().max().unwrap_or(0)
}

fn dice() -> impl FnMut() -> u64 {
    let mut state = 1_u64;
    move || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 20
    }
}

/// A server that is restarted or replaced is away for less than half an hour.
#[test]
fn after_a_short_outage_every_node_is_live_within_fifteen_seconds_and_not_at_once() {
    for away_ms in [60_000, 600_000, YOUNG_LOSS_MS - BACKOFF_YOUNG_MAX_MS] {
        let returned = fleet(away_ms, dice());
        for agent in &returned {
            assert!(agent.welcomed_ms <= BACKOFF_YOUNG_MAX_MS + HANDSHAKE_MS, "{agent:?}");
            assert!(agent.welcomed_ms < 15_000, "{agent:?}");
            assert!(agent.first_segment_ms - agent.welcomed_ms <= limits::SPREAD_MS, "{agent:?}");
        }
        // A fifth of them within any second, and two hundred in ten.
        let welcomed = most_at_once(returned.iter().map(|agent| agent.welcomed_ms));
        assert!(welcomed <= 60, "{welcomed} welcomes in a second after {away_ms} ms");
    }
}

#[test]
fn a_fleet_is_back_within_a_minute_and_its_backlogs_come_spread_and_behind() {
    let returned = fleet(AWAY_MS, dice());
    for agent in &returned {
        assert!(agent.welcomed_ms <= BACKOFF_MAX_MS + HANDSHAKE_MS, "{agent:?}");
        assert!(agent.first_segment_ms >= agent.welcomed_ms, "{agent:?}");
        assert!(agent.first_segment_ms - agent.welcomed_ms <= limits::SPREAD_MS, "{agent:?}");
        assert!(agent.in_flight_max <= limits::WINDOW_BYTES, "{agent:?}");
        assert!(agent.last_ack_ms > agent.welcomed_ms + 15_000, "no backlog to speak of");
    }
    let welcomed = most_at_once(returned.iter().map(|agent| agent.welcomed_ms));
    let begun = most_at_once(returned.iter().map(|agent| agent.first_segment_ms));
    assert!(welcomed <= 20 && begun <= 20, "{welcomed} welcomes, {begun} backlogs in a second");
    // The same look at a fleet without jitter.
    let in_step = fleet(AWAY_MS, || 0);
    assert_eq!(most_at_once(in_step.iter().map(|agent| agent.welcomed_ms)), 200);
    assert_eq!(most_at_once(in_step.iter().map(|agent| agent.first_segment_ms)), 200);
}
