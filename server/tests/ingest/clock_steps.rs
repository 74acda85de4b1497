//! C2: the server's clock is set, or the server is started anew, twenty times: no node's state
//! changes for it, no hour shows that anything was down, and no lease is judged down or breached.
//! C1 for verdicts: the same when a node's own clock is set.
//!
//! A suspended server is a step of its clock too, for the clock that never steps stands still
//! meanwhile; that such a stretch does not count as recorded is tested in `server/src/grpc/liveness.rs`.

use leasewatch_core::availability::StateSums;
use leasewatch_core::delivery::NodeState;
use leasewatch_core::evidence::chain::seal;
use leasewatch_core::metering::GapCause;
use leasewatch_core::segment::{Block, Event, EventKind, EventsBlock};
use leasewatch_core::sla::verdict::Outcome;
use leasewatch_core::time::Hour;
use leasewatch_proto::v1::agent_message::Kind;
use leasewatch_proto::v1::server_message::Kind as ToAgent;
use leasewatch_server::grpc::introduce_nodes;
use leasewatch_server::jobs::{Jobs, close_hours, judge};
use leasewatch_server::live::{Changed, Live};
use leasewatch_server::store::{Scope, availability, hour, verdict};

use crate::agent::{Agent, message, segment};
use crate::judge::{assign, jobs, rent};
use crate::live_lane::frame;
use crate::rig::{ALWAYS, Client, NOW, Rig};

const STEPS_MS: [i64; 10] =
    [1_000, -1_000, 6_000, -6_000, 60_000, -60_000, 3_600_000, -3_600_000, 86_400_000, -86_400_000];

/// Causes that say that a GPU or a node was not there.
const DOWN: [GapCause; 6] = [
    GapCause::GpuLost,
    GapCause::GpuReplaced,
    GapCause::NoGpuAttached,
    GapCause::DriverReload,
    GapCause::NodeReboot,
    GapCause::InstanceRestart,
];

#[tokio::test]
async fn a_step_of_the_server_s_clock_changes_no_state_and_makes_no_downtime() {
    let rig = Rig::new().await;
    let (mut seed, mut refused) = (0, 0);
    for restarts in [false, true] {
        for by_ms in STEPS_MS {
            seed += 1;
            let mut agent = Agent::new(seed, rig.clock.now());
            let was_refused = step(&rig, &mut agent, (by_ms, restarts)).await;
            refused += u32::from(was_refused);
            let now = rig.clock.now();
            rig.clock.set(agent.at.hour().end().plus_ms(60_000));
            check_hours(&rig, &agent, was_refused).await;
            rig.clock.set(now);
        }
    }
    // Steps of the clock mattered to some and not to others.
    assert!((4..=16).contains(&refused), "{refused} segments were refused");
}

/// Sets the clock between two segments of a node and back again. Returns whether what the node said
/// in between was refused for its time.
async fn step(rig: &Rig, agent: &mut Agent, (by_ms, restarts): (i64, bool)) -> bool {
    let mut changes = rig.live.changes();
    let mut client = rig.join(agent).await.unwrap();
    assert_eq!(client.ack(rig.seal(agent)).await, (1, false));
    client.send(message(Kind::Live(frame(agent)))).await;
    while changes.recv().await.unwrap().what != Changed::Frame {}
    let true_now = rig.clock.now();

    rig.clock.advance_ms(by_ms);
    if restarts {
        let anew = Live::new();
        introduce_nodes(&rig.database.db, &anew).await.unwrap();
        assert_eq!(anew.state(agent.id()), NodeState::Late, "a minute's grace, {by_ms}");
    }
    assert_eq!(rig.live.state(agent.id()), NodeState::Up, "{by_ms}");
    let sealed = agent.seal();
    client.send(segment(&sealed)).await;
    let was_refused = match client.answer().await.unwrap() {
        ToAgent::Ack(ack) => {
            assert_eq!((ack.sequence, ack.rewind), (2, false));
            false
        }
        ToAgent::Refusal(refusal) => {
            assert_eq!(refusal.code, "clock_out_of_range");
            let head = sealed.signed.head.hash();
            assert_eq!(client.ack(agent.drop_range(2, 2, head)).await, (2, false));
            true
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(rig.live.state(agent.id()), NodeState::Up, "{by_ms}");

    rig.clock.set(true_now.plus_ms(3_000));
    assert_eq!(client.ack(rig.seal(agent)).await, (3, false), "the chain goes on");
    was_refused
}

/// C1, what a lease is told of it: the node's own clock is set forward or back, by a hand or by NTP,
/// known to the server or not yet. What was measured may become unknown; nothing becomes downtime,
/// and no verdict a breach.
#[tokio::test]
async fn a_step_of_the_node_s_clock_is_no_downtime_and_no_breach_of_its_lease() {
    let rig = Rig::new().await;
    let (mut seed, mut accepted) = (100, 0);
    for is_known in [false, true] {
        for by_ms in STEPS_MS {
            seed += 1;
            let mut agent = Agent::new(seed, rig.clock.now());
            accepted += u32::from(node_steps(&rig, &mut agent, (by_ms, is_known)).await);
            let now = rig.clock.now();
            rig.clock.set(agent.at.hour().end().plus_ms(60_000));
            close_hours::turn(&jobs(&rig), true).await.unwrap();
            check_judgement(&rig, &agent).await;
            rig.clock.set(now);
        }
    }
    // Some steps were small enough to be taken, and some were not.
    assert!((2..=18).contains(&accepted), "{accepted} stepped segments were taken");
}

/// A segment before the step, one under the wrong clock, and one after it was set right. Returns
/// whether the one in between was taken.
async fn node_steps(rig: &Rig, agent: &mut Agent, (by_ms, is_known): (i64, bool)) -> bool {
    let mut client = rig.join(agent).await.unwrap();
    assert_eq!(client.ack(rig.seal(agent)).await, (1, false));
    let right = agent.at;
    rig.clock.advance_ms(3_000);
    agent.at = right.plus_ms(by_ms);
    let is_taken = says_stepped(&mut client, agent, (by_ms, is_known.then_some(by_ms))).await;
    rig.clock.advance_ms(3_000);
    agent.at = right.plus_ms(3_000);
    let is_right = says_stepped(&mut client, agent, (-by_ms, Some(0))).await;
    // After a step back the segment may tell of a time that was told of already.
    assert!(is_right || is_taken, "{by_ms}: the chain goes on");
    is_taken
}

/// A segment with the step as an event, or its drop where the server refuses its time.
async fn says_stepped(
    client: &mut Client,
    agent: &mut Agent,
    (by_ms, offset_ms): (i64, Option<i64>),
) -> bool {
    let mut draft = agent.draft();
    let (period, sequence) = (draft.period, draft.sequence.0);
    draft.clock.offset_ms = offset_ms;
    draft.clock.bound_ms = offset_ms.map(|_| 2);
    draft.clock.anchor_wall = period.start;
    let stepped = Event::new(period.start, None, EventKind::ClockStepped { by_ms });
    let mut blocks = agent.blocks(period);
    blocks.push(Block::Events(EventsBlock { events: vec![stepped] }));
    let sealed = seal(draft, &blocks, &agent.key).unwrap();
    let head = sealed.signed.head.hash();
    agent.last = Some((sealed.signed.head.sequence, head));
    client.send(segment(&sealed)).await;
    let is_taken = match client.answer().await.unwrap() {
        ToAgent::Ack(ack) => {
            assert_eq!((ack.sequence, ack.rewind), (sequence, false));
            true
        }
        ToAgent::Refusal(refusal) => {
            assert_eq!(refusal.code, "clock_out_of_range", "{by_ms}");
            let drop = agent.drop_range(sequence, sequence, head);
            assert_eq!(client.ack(drop).await, (sequence, false));
            false
        }
        other => panic!("{other:?}"),
    };
    agent.at = period.end;
    is_taken
}

async fn check_hours(rig: &Rig, agent: &Agent, was_refused: bool) {
    let (db, live, clock) = (rig.database.db.clone(), rig.live.clone(), rig.clock.clone());
    close_hours::turn(&Jobs { db, live, clock }, true).await.unwrap();
    check_judgement(rig, agent).await;
    let key = rig.node(agent.id()).await.unwrap().key;
    let mut tx = rig.database.db.begin(Scope::Operator).await.unwrap();
    let rows = hour::of_node(&mut tx, key, Hour(0), Hour(1_000_000)).await.unwrap();
    let records: Vec<_> = rows.iter().map(|row| &row.record).collect();
    let measured: i64 = records.iter().map(|record| record.measured_ms()).sum();
    assert_eq!(measured, if was_refused { 6_000 } else { 9_000 });
    for record in records {
        assert!(record.sum().is_conserved(), "{record:?}");
        assert!(DOWN.iter().all(|cause| record.gaps.ms(*cause) == 0), "{record:?}");
    }
}

/// No step and no restart of the server is downtime for anybody's lease, and none is a breach.
async fn check_judgement(rig: &Rig, agent: &Agent) {
    let start = NOW.hour().start();
    let lease = rent(rig, agent, (start, 31), "").await;
    assign(rig, agent, lease, (0, start)).await;
    judge::turn(&jobs(rig)).await.unwrap();
    let mut tx = rig.database.db.begin(Scope::Operator).await.unwrap();
    let hours = (Hour(0), Hour(1_000_000));
    let rows = availability::current(&mut tx, lease, hours).await.unwrap();
    let sums = StateSums::of(rows.iter().flat_map(|row| &row.judged.stretches));
    assert_eq!((sums.down_total_ms(), sums.is_conserved()), (0, true), "{sums:?}");
    assert!(sums.up_ms > 0 && sums.unknown_total_ms() > 0, "{sums:?}");
    let verdicts = verdict::current(&mut tx, lease, ALWAYS).await.unwrap();
    assert!(verdicts.iter().all(|row| row.judged.outcome != Outcome::Breached), "{verdicts:?}");
    assert!(!verdicts.is_empty());
}
