//! From committed segments to hour records: the job that closes hours, on real PostgreSQL.

use leasewatch_core::metering::{GapCause, HourState, SEAL_AFTER_MS};
use leasewatch_core::segment::Origin;
use leasewatch_core::time::{HOUR_MS, Hour, Period, Timestamp};
use leasewatch_server::jobs::{Jobs, close_hours, open_hours};
use leasewatch_server::store::hour::{self, HourRow};
use leasewatch_server::store::{Scope, hour_work};

use crate::agent::{Agent, gpu, segment};
use crate::rig::{NOW, Rig};

fn jobs(rig: &Rig) -> Jobs {
    Jobs { db: rig.database.db.clone(), live: rig.live.clone(), clock: rig.clock.clone() }
}

async fn hours(rig: &Rig, agent: &Agent) -> Vec<HourRow> {
    let key = rig.node(agent.id()).await.unwrap().key;
    let mut tx = rig.database.db.begin(Scope::Operator).await.unwrap();
    hour::of_node(&mut tx, key, Hour(0), Hour(1_000_000)).await.unwrap()
}

async fn waiting(rig: &Rig) -> u64 {
    let mut tx = rig.database.db.begin(Scope::Worker).await.unwrap();
    hour_work::waiting(&mut tx).await.unwrap()
}

/// Moves the server's clock a minute behind the end of the hour that holds `at`.
fn pass(rig: &Rig, at: Timestamp) {
    rig.clock.set(at.hour().end().plus_ms(60_000));
}

#[tokio::test]
async fn the_weight_that_crosses_the_hour_is_added_when_its_segment_comes() {
    let rig = Rig::new().await;
    let edge = NOW.hour().end();
    let mut agent = Agent::new(1, NOW);
    let mut client = rig.join(&agent).await.unwrap();
    // The last reading of the hour lies 437 ms before its end; the recorder cut at the minute.
    let mut draft = agent.draft();
    draft.period = Period::new(edge.plus_ms(-3_437), edge);
    let last = agent.seal_as(draft);
    agent.last = Some((last.signed.head.sequence, last.signed.head.hash()));
    agent.at = edge;
    rig.clock.set(edge);
    assert_eq!(client.ack(segment(&last)).await, (1, false));
    pass(&rig, NOW);
    assert_eq!(close_hours::turn(&jobs(&rig), true).await.unwrap(), 1);
    let gap = |rows: &[HourRow]| rows[0].record.enrolled_ms - rows[0].record.measured_ms();
    let before = hours(&rig, &agent).await;

    assert_eq!(client.ack(rig.seal(&mut agent)).await, (2, false));
    assert_eq!(close_hours::turn(&jobs(&rig), true).await.unwrap(), 1);
    let after = hours(&rig, &agent).await;
    assert_eq!(gap(&before) - gap(&after), 437, "the hour's last part is measured now");
    assert_eq!((after[0].revision, after[0].state), (1, HourState::Provisional));
}

#[tokio::test]
async fn an_hour_is_sealed_a_day_later_and_late_data_makes_one_revision() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(2, NOW);
    let mut client = rig.join(&agent).await.unwrap();
    client.ack(rig.seal(&mut agent)).await;
    pass(&rig, NOW);
    close_hours::turn(&jobs(&rig), true).await.unwrap();
    rig.clock.set(NOW.hour().end().plus_ms(SEAL_AFTER_MS + 60_000));
    let key = rig.node(agent.id()).await.unwrap().key;
    let requeue = async |reason| {
        let mut tx = rig.database.db.begin(Scope::Worker).await.unwrap();
        hour_work::add(&mut tx, &[(key, NOW.hour())], reason).await.unwrap();
        tx.commit().await.unwrap();
    };
    requeue(hour_work::WorkReason::Again).await;
    assert_eq!(close_hours::turn(&jobs(&rig), true).await.unwrap(), 1);
    let sealed = hours(&rig, &agent).await;
    assert_eq!((sealed[0].state, sealed[0].revision), (HourState::Sealed, 1));

    // What the node recorded then and delivers now. It may have more: nothing is revised yet.
    assert_eq!(client.ack(rig.seal(&mut agent)).await, (2, false));
    assert_eq!(close_hours::turn(&jobs(&rig), true).await.unwrap(), 0);
    assert_eq!(waiting(&rig).await, 1, "it waits in the database, not in memory");
    rig.clock.advance_ms(11 * 60_000);
    assert_eq!(close_hours::turn(&jobs(&rig), true).await.unwrap(), 1);
    let revised = hours(&rig, &agent).await;
    assert_eq!((revised[0].state, revised[0].revision), (HourState::Sealed, 2));
    assert_eq!(revised[0].previous, Some(sealed[0].hash));
    assert_eq!(revised[0].record.measured_ms() - sealed[0].record.measured_ms(), 3_000);
    assert_eq!(waiting(&rig).await, 0);
}

#[tokio::test]
async fn an_hour_that_cannot_be_closed_keeps_no_other_from_being_closed() {
    let rig = Rig::new().await;
    let (mut broken, mut sound) = (Agent::new(3, NOW), Agent::new(4, NOW));
    for agent in [&mut broken, &mut sound] {
        let mut client = rig.join(agent).await.unwrap();
        client.ack(rig.seal(agent)).await;
    }
    let key = rig.count("select min(node_id)::bigint from node").await;
    rig.administer(&format!("update segment_block set body = '\\x00' where node_id = {key}")).await;
    assert!(open_hours::turn(&jobs(&rig)).await.is_err(), "the fault is reported");
    let open = |agent: &Agent| rig.live.open_hour(agent.id(), NOW.hour()).is_some();
    assert_eq!((open(&sound), open(&broken)), (true, false), "the open hour of the other is shown");
    pass(&rig, NOW);
    assert!(close_hours::turn(&jobs(&rig), true).await.is_err(), "the fault is reported");
    assert_eq!(hours(&rig, &sound).await.len(), 1);
    assert_eq!(hours(&rig, &broken).await.len(), 0);
    assert_eq!(waiting(&rig).await, 1, "it stays in the queue");
}

#[tokio::test]
async fn an_hour_far_from_today_gets_its_partition() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(5, Timestamp(NOW.0 - 400 * 24 * HOUR_MS));
    agent.origin = Origin::Imported;
    let mut client = rig.join(&agent).await.unwrap();
    client.ack(rig.seal(&mut agent)).await;
    // Nothing was logged for three days, across the end of a month somewhere.
    agent.at = Timestamp(agent.at.0 + 72 * HOUR_MS);
    client.ack(rig.seal(&mut agent)).await;
    close_hours::turn(&jobs(&rig), true).await.unwrap();
    let rows = hours(&rig, &agent).await;
    assert_eq!(rows.len(), 73, "each hour of the hole has its row");
    let missing: i64 = rows.iter().map(|row| row.record.gaps.ms(GapCause::Unexplained)).sum();
    assert_eq!(missing, 72 * HOUR_MS, "the hole and nothing else");
    assert!(rows.iter().all(|row| row.record.origin == Origin::Imported), "the mark is on each");
}

#[tokio::test]
async fn a_gpu_that_late_data_displaces_gives_its_sealed_time_back() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(6, NOW);
    let mut client = rig.join(&agent).await.unwrap();
    client.ack(rig.seal(&mut agent)).await;
    // The next hour passes in silence and is sealed with the first GPU in it.
    let silent = NOW.hour().next();
    rig.clock.set(silent.end().plus_ms(SEAL_AFTER_MS + 60_000));
    let key = rig.node(agent.id()).await.unwrap().key;
    let mut tx = rig.database.db.begin(Scope::Worker).await.unwrap();
    hour_work::add(&mut tx, &[(key, silent)], hour_work::WorkReason::Ended).await.unwrap();
    tx.commit().await.unwrap();
    close_hours::turn(&jobs(&rig), true).await.unwrap();

    // It was another one that sat there, from before that hour on.
    let (uuid, _) = gpu(6, 9);
    agent.gpus[0].0 = uuid.clone();
    agent.at = silent.start().plus_ms(-60_000);
    client.ack(rig.seal(&mut agent)).await;
    agent.at = silent.start().plus_ms(60_000);
    client.ack(rig.seal(&mut agent)).await;
    rig.clock.advance_ms(11 * 60_000);
    close_hours::turn(&jobs(&rig), true).await.unwrap();
    let rows = hours(&rig, &agent).await;
    let of_silent: Vec<_> = rows.iter().filter(|row| row.record.hour == silent).collect();
    let enrolled: i64 = of_silent.iter().map(|row| row.record.enrolled_ms).sum();
    assert_eq!(of_silent.len(), 2);
    assert_eq!(enrolled, HOUR_MS, "the rows of a slot add up to its time: {of_silent:?}");
}
