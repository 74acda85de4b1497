//! From what was committed to the log: the job that publishes, on real PostgreSQL.

use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use ed25519_dalek::SigningKey;
use leasewatch_core::evidence::chain::{Checkpoint, leaf_hash};
use leasewatch_core::evidence::log::checkpoint;
use leasewatch_core::evidence::log::leaf::{Minute, head_leaf};
use leasewatch_core::evidence::log::note::Note;
use leasewatch_core::evidence::log::tree::{
    CompactRange, Leaves, consistency, cover, fold, is_consistent,
};
use leasewatch_core::id::Hash;
use leasewatch_core::metering::SEAL_AFTER_MS;
use leasewatch_core::time::Timestamp;
use leasewatch_server::jobs::close_hours;
use leasewatch_server::jobs::publish::Publisher;
use leasewatch_server::store::log::{self, LogRow, MinuteRow};
use leasewatch_server::store::{Scope, StoreError, Tx, hour, identity_statement, tenant_data};

use crate::agent::Agent;
use crate::judge::jobs;
use crate::rig::{ALWAYS, NOW, Rig};

const MINUTE_MS: i64 = 60_000;

pub fn publisher(rig: &Rig) -> Publisher {
    let (key, server) = (SigningKey::from_bytes(&[7; 32]), "0123456789abcdef".to_owned());
    Publisher { jobs: jobs(rig), key, server }
}

/// The logs that there are.
pub async fn logs(rig: &Rig) -> Vec<LogRow> {
    let mut tx = rig.database.db.begin(Scope::Worker).await.unwrap();
    log::list(&mut tx).await.unwrap()
}

/// Every leaf of a log, after the tree over them was compared with what was signed.
async fn leaves(rig: &Rig, log: &LogRow) -> Vec<Hash> {
    let mut tx = rig.database.db.begin(Scope::Worker).await.unwrap();
    // A commit of the job may come in between.
    tenant_data::freeze(&mut tx).await.unwrap();
    let signed = log::checkpoint(&mut tx, log.key, None).await.unwrap().unwrap();
    let mut leaves = Vec::new();
    let mut tree = CompactRange::new(0);
    let take = |number, leaf| {
        assert_eq!(number, tree.leaves().to);
        tree.push(leaf);
        leaves.push(leaf);
        Ok::<(), StoreError>(())
    };
    log::leaves(&mut tx, log.key, (0, signed.state.size), take).await.unwrap();
    assert_eq!(signed.state, Checkpoint { size: tree.leaves().to, root: tree.root().unwrap() });
    assert_eq!(log::range(&mut tx, log.key).await.unwrap(), tree);
    let note = Note::parse(&signed.note).unwrap();
    let key = SigningKey::from_bytes(&[7; 32]).verifying_key();
    assert_eq!(checkpoint::open(&note, &log.origin, &key), Ok(signed.state));
    leaves
}

async fn minutes(rig: &Rig, log: &LogRow) -> Vec<MinuteRow> {
    let mut tx = rig.database.db.begin(Scope::Worker).await.unwrap();
    log::minutes(&mut tx, log.key, ALWAYS, 1_000).await.unwrap()
}

/// Everything of some agents that a log must hold, in no order: statements about keys, sealed hours,
/// and heads.
async fn committed(rig: &Rig, agents: &[Agent]) -> (Vec<Hash>, Vec<Hash>) {
    let (mut statements, mut heads) = (Vec::new(), Vec::new());
    for agent in agents {
        let node = rig.node(agent.id()).await.unwrap();
        let mut tx = rig.database.db.begin(Scope::Worker).await.unwrap();
        let rows = identity_statement::of_node(&mut tx, node.key).await.unwrap();
        statements.extend(rows.iter().map(|row| leaf_hash(&row.signed.statement)));
        let from = NOW.hour();
        let hours = hour::of_node(&mut tx, node.key, from, from.next()).await.unwrap();
        statements.extend(hours.iter().map(|row| row.hash));
        let rows = rig.heads(agent.id()).await;
        heads.extend(rows.iter().map(|row| head_leaf(&row.head.statement(), &row.signature)));
    }
    (statements, heads)
}

/// What is committed is in the log once: leaves are statements and minutes, and minutes hold heads.
async fn assert_published(rig: &Rig, agents: &[Agent]) {
    let [log] = logs(rig).await.try_into().unwrap();
    let minutes = minutes(rig, &log).await;
    let (mut wanted, mut heads) = committed(rig, agents).await;
    wanted.extend(minutes.iter().map(|row| leaf_hash(&row.statement)));
    let mut found = leaves(rig, &log).await;
    assert!(found.len() >= wanted.len(), "{} of {}", found.len(), wanted.len());
    let mut in_minutes: Vec<Hash> = minutes.iter().flat_map(|row| row.heads.clone()).collect();
    for list in [&mut wanted, &mut found, &mut heads, &mut in_minutes] {
        list.sort_unstable();
    }
    assert_eq!(found, wanted);
    assert_eq!(in_minutes, heads);
    for row in &minutes {
        let minute = Minute::from_statement(&row.statement).unwrap();
        let mut tree = CompactRange::new(0);
        row.heads.iter().for_each(|head| tree.push(*head));
        assert_eq!((minute.at, minute.heads, minute.root), (row.at, tree.leaves().to, tree.root()));
    }
}

#[tokio::test]
async fn what_is_committed_is_published_once_in_the_minutes_in_which_it_came() {
    let rig = Rig::new().await;
    let publisher = publisher(&rig);
    // A whole minute.
    let begin = Timestamp(NOW.0.div_euclid(MINUTE_MS) * MINUTE_MS).plus_ms(MINUTE_MS);
    let mut agents = vec![Agent::new(1, begin), Agent::new(2, begin)];
    for number in 0..3 {
        let minute = begin.plus_ms(3 * number * MINUTE_MS);
        rig.clock.set(minute);
        for agent in &mut agents {
            let mut client = rig.join(agent).await.unwrap();
            client.ack(rig.seal(agent)).await;
        }
        // The minute has just ended: what the server itself did in it may not be written yet.
        rig.clock.set(minute.plus_ms(MINUTE_MS + 10_000));
        let before = rig.count("select count(*) from log_minute").await;
        publisher.turn().await.unwrap();
        assert_eq!(rig.count("select count(*) from log_minute").await, before);
        rig.clock.set(minute.plus_ms(2 * MINUTE_MS));
        assert_eq!(publisher.turn().await.unwrap(), 1, "two heads, one minute");
        assert_eq!(publisher.turn().await.unwrap(), 0);
    }
    let [log] = logs(&rig).await.try_into().unwrap();
    assert_eq!(log.origin.as_str(), "leasewatch/0123456789abcdef/default/default");
    assert_eq!(
        minutes(&rig, &log).await.iter().map(|row| row.heads.len()).collect::<Vec<_>>(),
        [2; 3]
    );

    // Sealed hours follow, and nothing provisional does.
    rig.clock.set(NOW.hour().end().plus_ms(MINUTE_MS));
    close_hours::turn(&jobs(&rig), true).await.unwrap();
    assert_eq!(publisher.turn().await.unwrap(), 0);
    seal(&rig).await;
    assert_eq!(publisher.turn().await.unwrap(), 2);
    assert_published(&rig, &agents).await;
}

/// So many statements that wait, each another one.
fn fill(name: &str, count: u64) -> String {
    format!(
        "insert into log_work (tenant_id, provider_id, kind, hash)
        select tenant_id, provider_id, 'hour', sha256(convert_to('{name} ' || k, 'UTF8'))
        from node, generate_series(1, {count}) k"
    )
}

/// Lets the hours that were closed be sealed.
pub async fn seal(rig: &Rig) {
    rig.clock.set(NOW.hour().end().plus_ms(SEAL_AFTER_MS + MINUTE_MS));
    rig.administer(
        "insert into hour_work (tenant_id, node_id, hour, reason)
        select distinct tenant_id, node_id, hour, 3 from hour_record where state = 1
        on conflict do nothing",
    )
    .await;
    close_hours::turn(&jobs(rig), true).await.unwrap();
}

/// Polls a future so often, and drops it then; its output if it came before.
struct Bounded<F> {
    turns: u32,
    inner: Pin<Box<F>>,
}

impl<F: Future> Future for Bounded<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.turns == 0 {
            return Poll::Ready(None);
        }
        self.turns -= 1;
        self.inner.as_mut().poll(context).map(Some)
    }
}

/// The job is killed at each of its awaits, so before and after each statement and commit, over more
/// leaves than a tile holds. Whatever it left is a log whose tree is the one that was signed, and in
/// the end every leaf is there once.
#[tokio::test]
async fn a_job_that_is_killed_anywhere_doubles_and_misses_nothing() {
    let rig = Rig::new().await;
    let mut agents = [Agent::new(1, NOW)];
    let mut client = rig.join(&agents[0]).await.unwrap();
    client.ack(rig.seal(&mut agents[0])).await;
    let publisher = publisher(&rig);
    let (mut killed, mut size, mut is_over) = (0, 0, false);
    for turns in 1..=90 {
        if turns % 10 == 1 {
            rig.clock.advance_ms(MINUTE_MS);
            client.ack(rig.seal(&mut agents[0])).await;
            rig.clock.advance_ms(2 * MINUTE_MS);
        }
        rig.administer(&fill(&format!("turn {turns}"), 40)).await;
        let turn = Bounded { turns, inner: Box::pin(publisher.turn()) };
        is_over = pin!(turn).await.is_some();
        killed += u32::from(!is_over);
        // A commit that was under way goes through by itself, and is seen or not.
        for log in logs(&rig).await {
            let now = u64::try_from(leaves(&rig, &log).await.len()).unwrap();
            assert!(now >= size, "{now} after {size}");
            size = now;
        }
    }
    // From its first await to its last one.
    assert!(killed > 15 && is_over, "{killed}");
    publisher.turn().await.unwrap();
    let [log] = logs(&rig).await.try_into().unwrap();
    let mut found = leaves(&rig, &log).await;
    assert!(found.len() > 2_000, "{}", found.len());
    let in_all = found.len();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), in_all, "no leaf twice");
    let waiting = "select (select count(*) from log_work) + (select count(*) from head_work)";
    assert_eq!(rig.count(waiting).await, 0);
    let heads: usize = minutes(&rig, &log).await.iter().map(|row| row.heads.len()).sum();
    assert_eq!(heads, rig.heads(agents[0].id()).await.len());
    assert!(rig.count("select count(*) from log_tile").await >= 7);
    assert!(rig.count("select count(*) from log_leaf where level = 0").await < 256);
}

/// What was signed is consistent with everything that was signed before, by proofs that come of
/// stored hashes.
#[tokio::test]
async fn every_state_is_a_beginning_of_the_later_ones() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(1, NOW);
    rig.join(&agent).await.unwrap().ack(rig.seal(&mut agent)).await;
    let publisher = publisher(&rig);
    for round in 1..=9 {
        rig.administer(&fill(&format!("round {round}"), round * 31)).await;
        publisher.turn().await.unwrap();
    }
    let [log] = logs(&rig).await.try_into().unwrap();
    let mut tx = rig.database.db.begin(Scope::Worker).await.unwrap();
    let latest = log::checkpoint(&mut tx, log.key, None).await.unwrap().unwrap().state;
    let hash_of = async |tx: &mut Tx, part: Leaves| {
        fold(&log::hashes(tx, log.key, &cover(part)).await.unwrap()).unwrap()
    };
    for size in 1..=latest.size {
        let Some(old) = log::checkpoint(&mut tx, log.key, Some(size)).await.unwrap() else {
            continue;
        };
        let mut proof = Vec::new();
        for part in consistency(size, latest.size).unwrap() {
            proof.push(hash_of(&mut tx, part).await);
        }
        let states = ((size, old.state.root), (latest.size, latest.root));
        assert!(is_consistent(states.0, states.1, &proof), "{size}");
    }
}

/// A log whose rows somebody changed is not built on.
#[tokio::test]
async fn nothing_is_added_to_a_log_that_was_altered() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(1, NOW);
    rig.join(&agent).await.unwrap().ack(rig.seal(&mut agent)).await;
    let publisher = publisher(&rig);
    assert_eq!(publisher.turn().await.unwrap(), 1, "the statement about its key");
    rig.administer("update log_leaf set hash = decode(repeat('00', 32), 'hex')").await;
    rig.clock.advance_ms(2 * MINUTE_MS);
    let refused = publisher.turn().await.unwrap_err();
    assert!(
        matches!(refused, StoreError::Inconsistent { table: "log_checkpoint", .. }),
        "{refused}"
    );
    assert_eq!(rig.count("select count(*) from head_work").await, 1, "what waits goes on waiting");
}

/// A clock that is put back, or was ahead, stops no log.
#[tokio::test]
async fn a_clock_that_was_put_back_stops_no_log() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(1, NOW);
    let mut client = rig.join(&agent).await.unwrap();
    let publisher = publisher(&rig);
    client.ack(rig.seal(&mut agent)).await;
    rig.clock.advance_ms(2 * MINUTE_MS);
    assert_eq!(publisher.turn().await.unwrap(), 2);
    for minutes in [60, 30] {
        client.ack(rig.seal(&mut agent)).await;
        rig.clock.set(NOW.plus_ms(-minutes * MINUTE_MS));
        assert_eq!(publisher.turn().await.unwrap(), 1);
    }
    assert_published(&rig, &[agent]).await;
}
