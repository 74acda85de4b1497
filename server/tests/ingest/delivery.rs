//! The durable lane: what is acknowledged is stored exactly once and exactly as it came.

use leasewatch_core::id::{ChainId, Hash, Sequence, SlotNo};
use leasewatch_core::segment::{EventKind, Origin};
use leasewatch_core::time::{HOUR_MS, Hour, Timestamp};
use leasewatch_proto::v1::server_message::Kind as ToAgent;
use leasewatch_server::store::segment::Place;
use leasewatch_server::store::{Scope, event, gpu, hour_work};

use crate::agent::{Agent, gpu, segment};
use crate::rig::{ALWAYS, NOW, Rig};

#[tokio::test]
async fn a_segment_is_stored_byte_for_byte_and_then_acknowledged() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(1, NOW);
    agent.gpus = vec![gpu(1, 5), gpu(1, 2)];
    let mut client = rig.join(&agent).await.unwrap();
    assert_eq!(client.welcome.node, agent.id().to_string());
    assert_eq!((client.welcome.cursor, client.welcome.tenant.as_str()), (0, "default"));
    let sealed = agent.seal();
    rig.clock.set(agent.at);
    assert_eq!(client.ack(segment(&sealed)).await, (1, false));

    let heads = rig.heads(agent.id()).await;
    assert_eq!(heads.len(), 1);
    assert_eq!(heads[0].head.statement(), sealed.signed.statement);
    assert_eq!(heads[0].signature, sealed.signed.signature);
    assert_eq!(heads[0].received_at, agent.at);
    let blocks = rig.blocks(agent.id()).await;
    let mut stored: Vec<_> = blocks.iter().map(|(_, block)| block.body.clone()).collect();
    let mut sent = sealed.blocks.clone();
    stored.sort();
    sent.sort();
    assert_eq!(stored, sent);
    // Slots are numbered in the order of bus ids, not in the order of the agent.
    let slots: Vec<_> = blocks
        .iter()
        .filter_map(|(place, block)| match place {
            Place::Slot(slot) => Some((*slot, block.gpu.clone().unwrap())),
            Place::Host | Place::Events => None,
        })
        .collect();
    assert_eq!(slots, [(SlotNo(0), gpu(1, 2).0), (SlotNo(1), gpu(1, 5).0)]);
}

#[tokio::test]
async fn events_and_inventories_are_stored_with_the_segment() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(2, NOW);
    let mut client = rig.join(&agent).await.unwrap();
    assert_eq!(client.ack(rig.seal(&mut agent)).await, (1, false));
    let node = rig.node(agent.id()).await.unwrap();
    assert_eq!((node.enrolled_at, node.origin), (NOW, Origin::Measured));
    let mut tx = rig.database.db.begin(Scope::Operator).await.unwrap();
    let events = event::of_node(&mut tx, node.key, ALWAYS, 10).await.unwrap();
    assert_eq!(events.len(), 1);
    assert!(matches!(events[0].event.kind, EventKind::GpuSeen(_)));
    let gpus = gpu::of_node(&mut tx, node.key).await.unwrap();
    assert_eq!(gpus.len(), 1);
    assert_eq!(gpus[0].name.as_deref(), Some("NVIDIA H100 80GB HBM3"));
    assert!(gpus[0].catalogue_key.is_some());
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_repeat_is_acknowledged_again_and_not_stored() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(3, NOW);
    let mut client = rig.join(&agent).await.unwrap();
    let (first, second) = (rig.seal(&mut agent), rig.seal(&mut agent));
    assert_eq!(client.ack(first.clone()).await, (1, false));
    assert_eq!(client.ack(second.clone()).await, (2, false));
    for _ in 0..20 {
        assert_eq!(client.ack(first.clone()).await, (2, false));
    }
    let mut again = rig.join(&agent).await.unwrap();
    assert_eq!((again.welcome.cursor, again.welcome.recorded_until_ms), (2, agent.at.0));
    assert_eq!(again.welcome.cursor_head, agent.last.unwrap().1.0);
    assert_eq!(again.ack(second).await, (2, false));
    assert_eq!(rig.heads(agent.id()).await.len(), 2);
    assert_eq!(rig.count("select count(*) from segment_block").await, 5);
}

#[tokio::test]
async fn a_segment_ahead_is_answered_with_the_cursor() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(4, NOW);
    let mut client = rig.join(&agent).await.unwrap();
    let segments: Vec<_> = (0..3).map(|_| rig.seal(&mut agent)).collect();
    assert_eq!(client.ack(segments[2].clone()).await, (0, true));
    assert_eq!(client.ack(segments[0].clone()).await, (1, false));
    assert_eq!(client.ack(segments[2].clone()).await, (1, true));
    assert_eq!(rig.heads(agent.id()).await.len(), 1);
}

#[tokio::test]
async fn many_in_flight_end_in_one_acknowledgement_of_the_last() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(5, NOW);
    let mut client = rig.join(&agent).await.unwrap();
    for _ in 0..40 {
        client.send(rig.seal(&mut agent)).await;
    }
    let mut last = 0;
    while last < 40 {
        let ToAgent::Ack(ack) = client.answer().await.unwrap() else { panic!("no ack") };
        assert!(!ack.rewind && ack.sequence > last, "{ack:?} after {last}");
        last = ack.sequence;
    }
    let sequences: Vec<u64> =
        rig.heads(agent.id()).await.iter().map(|row| row.head.sequence.0).collect();
    assert_eq!(sequences, (1..=40).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_second_head_for_one_sequence_is_refused_and_the_first_stays() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(6, NOW);
    let mut client = rig.join(&agent).await.unwrap();
    let mut twin = agent.clone();
    assert_eq!(client.ack(rig.seal(&mut agent)).await, (1, false));
    twin.at = twin.at.plus_ms(1);
    let other = rig.seal(&mut twin);
    assert_eq!(client.refusal(other).await, (1, "equivocation".to_owned()));
    let heads = rig.heads(agent.id()).await;
    assert_eq!((heads.len(), heads[0].hash), (1, agent.last.unwrap().1));
    assert_eq!(rig.count("select count(*) from equivocation").await, 1);
    assert!(rig.live.node(agent.id()).unwrap().contested);
    // The honest chain goes on.
    assert_eq!(client.ack(rig.seal(&mut agent)).await, (2, false));
}

#[tokio::test]
async fn a_head_that_follows_another_one_is_refused_until_a_drop_leads_around() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(7, NOW);
    let mut client = rig.join(&agent).await.unwrap();
    assert_eq!(client.ack(rig.seal(&mut agent)).await, (1, false));
    agent.last = Some((Sequence(1), Hash([9; 32])));
    let refused = rig.seal(&mut agent);
    let head = agent.last.unwrap().1;
    assert_eq!(client.refusal(refused).await, (2, "chain_broken".to_owned()));
    assert_eq!(client.ack(agent.drop_range(3, 3, head)).await, (1, true));
    assert_eq!(client.ack(agent.drop_range(2, 2, head)).await, (2, false));
    assert_eq!(client.ack(agent.drop_range(1, 2, head)).await, (2, false));
    assert_eq!(rig.cursor(&agent).await, (2, Some(head)));
    assert_eq!(client.ack(rig.seal(&mut agent)).await, (3, false));
    assert_eq!(rig.count("select count(*) from dropped_range").await, 1);
}

#[tokio::test]
async fn hours_of_the_segment_and_of_the_silence_before_it_are_queued() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(8, NOW);
    let mut client = rig.join(&agent).await.unwrap();
    assert_eq!(client.ack(rig.seal(&mut agent)).await, (1, false));
    let taken = |rig: &Rig| {
        let db = rig.database.db.clone();
        async move {
            let mut tx = db.begin(Scope::Worker).await.unwrap();
            let taken = hour_work::list(&mut tx, Hour(1_000_000), true, 100).await.unwrap();
            for (key, hour) in &taken {
                assert!(hour_work::take(&mut tx, *key, *hour).await.unwrap());
            }
            tx.commit().await.unwrap();
            taken.into_iter().map(|(_, hour)| hour.0).collect::<Vec<_>>()
        }
    };
    let hour = NOW.hour().0;
    assert_eq!(taken(&rig).await, [hour]);
    rig.live.hour_work().await;
    agent.at = Timestamp(NOW.0 + 2 * HOUR_MS);
    assert_eq!(client.ack(rig.seal(&mut agent)).await, (2, false));
    assert_eq!(taken(&rig).await, [hour + 2, hour + 1, hour]);
    rig.live.hour_work().await;
    // A new chain after lost state: the silence since the old one is known by the node.
    agent.lose_state(ChainId([99; 16]));
    agent.at = Timestamp(NOW.0 + 4 * HOUR_MS);
    let mut client = rig.join(&agent).await.unwrap();
    assert_eq!(client.ack(rig.seal(&mut agent)).await, (1, false));
    assert_eq!(taken(&rig).await, [hour + 4, hour + 3, hour + 2]);
}

#[tokio::test]
async fn an_import_enrolls_its_node_for_the_time_that_it_brings() {
    let rig = Rig::new().await;
    let old = NOW.plus_ms(-400 * 24 * HOUR_MS);
    let mut agent = Agent::new(9, old);
    agent.origin = Origin::Imported;
    let mut client = rig.join(&agent).await.unwrap();
    assert_eq!(client.ack(rig.seal(&mut agent)).await, (1, false));
    let end = agent.at;
    let node = rig.node(agent.id()).await.unwrap();
    assert_eq!((node.enrolled_at, node.retired_at), (old, Some(end)));
    assert_eq!(client.ack(rig.seal(&mut agent)).await, (2, false));
    let node = rig.node(agent.id()).await.unwrap();
    assert_eq!((node.enrolled_at, node.retired_at), (old, Some(agent.at)));
}

#[tokio::test]
async fn one_bad_node_in_a_batch_does_not_hurt_the_others() {
    let gather = std::time::Duration::from_millis(300);
    let rig = Rig::with(|options| options.writer.gather = gather).await;
    let mut agents: Vec<Agent> = (10..14).map(|seed| Agent::new(seed, NOW)).collect();
    let mut clients = Vec::new();
    for agent in &agents {
        clients.push(rig.join(agent).await.unwrap());
    }
    // The database takes nothing of the second node.
    rig.administer(
        "do $$ begin execute (select 'alter table segment add check (node_id <> ' || node_id || ')'
        from node order by node_id offset 1 limit 1); end $$",
    )
    .await;
    for (agent, client) in agents.iter_mut().zip(&clients) {
        client.send(rig.seal(agent)).await;
    }
    for (index, client) in clients.iter_mut().enumerate() {
        match client.answer().await.unwrap() {
            ToAgent::Ack(ack) => assert_eq!((index != 1, ack.sequence), (true, 1)),
            ToAgent::Refusal(refusal) => {
                assert_eq!((index, refusal.code.as_str()), (1, "not_storable"));
            }
            other => panic!("{other:?}"),
        }
    }
    for (index, agent) in agents.iter().enumerate() {
        assert_eq!(rig.heads(agent.id()).await.len(), usize::from(index != 1));
    }
}

#[tokio::test]
async fn a_database_that_is_gone_gives_no_answer_and_the_stream_ends() {
    let rig = Rig::new().await;
    let mut agent = Agent::new(15, NOW);
    let mut client = rig.join(&agent).await.unwrap();
    assert_eq!(client.ack(rig.seal(&mut agent)).await, (1, false));
    rig.state.db.close().await;
    client.send(rig.seal(&mut agent)).await;
    let status = client.end().await;
    assert_eq!(status.code(), tonic::Code::Unavailable, "{status:?}");
}
