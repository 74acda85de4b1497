//! The live lane: state, pace and clock of a node, none of it stored.

use std::time::Duration;

use leasewatch_core::delivery::{NodeState, UnknownReason};
use leasewatch_core::sample::Reading;
use leasewatch_proto::v1;
use leasewatch_proto::v1::agent_message::Kind;
use leasewatch_proto::v1::live_reading::Status;
use leasewatch_proto::v1::server_message::Kind as ToAgent;
use leasewatch_server::grpc::{introduce_nodes, serve};
use leasewatch_server::live::{Changed, Live};

use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;

use crate::agent::{Agent, message};
use crate::rig::{NOW, Rig};

pub fn frame(agent: &Agent) -> v1::LiveFrame {
    let busy_pct = Some(v1::LiveReading { number: 88, status: Status::Number.into() });
    let gpus = agent.gpus.iter().map(|(uuid, bus_id)| v1::LiveGpu {
        uuid: uuid.to_string(),
        bus_id: bus_id.to_string(),
        busy_pct,
        ..v1::LiveGpu::default()
    });
    v1::LiveFrame { at_ms: NOW.0, gpus: gpus.collect(), ..v1::LiveFrame::default() }
}

#[tokio::test]
async fn a_live_frame_makes_the_node_up_and_is_not_stored() {
    let rig = Rig::new().await;
    let agent = Agent::new(1, NOW);
    let mut changes = rig.live.changes();
    let client = rig.join(&agent).await.unwrap();
    assert_eq!(rig.live.node(agent.id()).unwrap().streams_open, 1);
    let mut twice = frame(&agent);
    twice.gpus.push(twice.gpus[0].clone());
    client.send(message(Kind::Live(frame(&agent)))).await;
    while changes.recv().await.unwrap().what != Changed::Frame {}
    let node = rig.live.node(agent.id()).unwrap();
    assert_eq!(node.state, NodeState::Up);
    assert_eq!(node.frame.unwrap().gpus[0].busy_pct, Some(Reading::Number(88)));
    drop(client);
    while changes.recv().await.unwrap().what != Changed::Stream {}
    assert_eq!(rig.live.node(agent.id()).unwrap().streams_open, 0);
    assert_eq!(rig.count("select count(*) from segment").await, 0);
}

#[tokio::test]
async fn the_pace_follows_whoever_watches() {
    let rig = Rig::new().await;
    let agent = Agent::new(2, NOW);
    let mut client = rig.join(&agent).await.unwrap();
    assert_eq!(client.welcome.live_interval_ms, 5_000);
    let watch = rig.live.watch(agent.id());
    assert_eq!(next_pace(&mut client).await, 1_000);
    drop(watch);
    assert_eq!(next_pace(&mut client).await, 5_000);
}

async fn next_pace(client: &mut crate::rig::Client) -> u32 {
    loop {
        if let ToAgent::LivePace(pace) = client.next().await.unwrap() {
            return pace.interval_ms;
        }
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_is_closed_and_its_session_with_it() {
    let rig = Rig::with(|options| {
        options.probe = Duration::from_millis(1);
        options.patience = Duration::from_millis(20);
    })
    .await;
    let agent = Agent::new(9, NOW);
    let (sender, messages) = tokio::sync::mpsc::channel(8);
    let mut answers = serve(&rig.state, ReceiverStream::new(messages)).unwrap();
    let hello = agent.hello();
    sender.send(Ok(message(Kind::Hello(hello.clone())))).await.unwrap();
    let challenge = answers.next().await.unwrap().unwrap();
    let Some(ToAgent::Challenge(challenge)) = challenge.kind else { panic!() };
    sender.send(Ok(agent.prove(&hello, &challenge))).await.unwrap();
    // From here on nothing is read, until the server has had enough.
    sender.closed().await;
    assert_eq!(rig.live.node(agent.id()).unwrap().streams_open, 0);
}

#[tokio::test]
async fn the_nodes_clock_is_estimated_and_told() {
    let rig = Rig::with(|options| options.probe = Duration::from_millis(5)).await;
    let agent = Agent::new(3, NOW);
    let mut client = rig.join(&agent).await.unwrap();
    let estimate = loop {
        match client.next().await.unwrap() {
            ToAgent::TimeProbe(probe) => {
                let at = probe.server_sent_ms + 7_000;
                client
                    .send(message(Kind::TimeEcho(v1::TimeEcho {
                        id: probe.id,
                        server_sent_ms: probe.server_sent_ms,
                        agent_received_ms: at,
                        agent_sent_ms: at,
                    })))
                    .await;
            }
            ToAgent::TimeEstimate(estimate) => break estimate,
            _ => {}
        }
    };
    // The agent's clock is 7 s ahead, so the server's minus the agent's is about -7 s.
    assert!((estimate.offset_ms + 7_000).abs() <= estimate.bound_ms, "{estimate:?}");
    let known = rig.live.node(agent.id()).unwrap().clock.unwrap();
    assert!((known.offset_ms + 7_000).abs() <= known.bound_ms, "{known:?}");
}

#[tokio::test]
async fn the_session_is_noted_from_its_proof_to_its_end() {
    let rig = Rig::new().await;
    let agent = Agent::new(4, NOW);
    let mut changes = rig.live.changes();
    let client = rig.join(&agent).await.unwrap();
    assert_eq!(rig.count("select count(*) from node_session where closed_at is null").await, 1);
    rig.clock.advance_ms(1_234);
    drop(client);
    while rig.live.node(agent.id()).unwrap().streams_open > 0 {
        changes.recv().await.unwrap();
    }
    let length = "select coalesce(max(closed_at - opened_at), 0) from node_session";
    // The row follows the stream's end by a transaction of its own.
    let mut closed = 0;
    for _ in 0..1_000 {
        closed = rig.count(length).await;
        if closed > 0 {
            break;
        }
    }
    assert_eq!(closed, 1_234);
}

#[tokio::test]
async fn a_restart_knows_who_was_seen_and_who_said_goodbye() {
    let rig = Rig::new().await;
    let (mut seen, never) = (Agent::new(5, NOW), Agent::new(6, NOW));
    let mut client = rig.join(&seen).await.unwrap();
    rig.join(&never).await.unwrap();
    assert_eq!(client.ack(rig.seal(&mut seen)).await, (1, false));
    let restarted = Live::new();
    introduce_nodes(&rig.database.db, &restarted).await.unwrap();
    assert_eq!(restarted.state(seen.id()), NodeState::Late);
    assert_eq!(restarted.state(never.id()), NodeState::Unknown(UnknownReason::NeverSeen));
    let goodbye = seen.seal_goodbye();
    rig.clock.set(seen.at);
    assert_eq!(client.ack(goodbye).await, (2, false));
    let restarted = Live::new();
    introduce_nodes(&rig.database.db, &restarted).await.unwrap();
    assert_eq!(restarted.state(seen.id()), NodeState::Unknown(UnknownReason::Stopped));
}
