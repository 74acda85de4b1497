//! U1: the stream of an agent of version 0.1.0, as it was recorded, is taken whole.
//!
//! The messages are the recorded bytes. Only the proof is made anew, for it answers a question that
//! the server makes up.

use std::path::PathBuf;

use leasewatch_core::id::Hash;
use leasewatch_proto::v1::agent_message::Kind;
use leasewatch_proto::v1::server_message::Kind as ToAgent;
use leasewatch_proto::v1::{self, AgentMessage, LiveFrame, LiveGpu};
use prost::Message as _;

use crate::agent::{Agent, chain_start, gpu, message, segment};
use crate::rig::{NOW, Rig};

const SEED: u8 = 77;

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../proto/fixtures/agent-0.1.0.bin")
}

/// The stream as this version would say it; how the recorded one was made.
fn said() -> Vec<AgentMessage> {
    let mut agent = Agent::new(SEED, NOW);
    let hello = message(Kind::Hello(agent.hello()));
    let start = chain_start(&agent.start(NOW), &agent.key);
    let first = [agent.seal(), agent.seal()].map(|sealed| segment(&sealed));
    let (uuid, bus_id) = gpu(SEED, 0);
    let shown = LiveGpu {
        uuid: uuid.to_string(),
        bus_id: bus_id.to_string(),
        name: "NVIDIA H100 80GB HBM3".to_owned(),
        ..LiveGpu::default()
    };
    let live = LiveFrame { at_ms: NOW.0, gpus: vec![shown], ..LiveFrame::default() };
    // What was sealed as the third and fourth was given up.
    agent.seal();
    let last = agent.seal().signed.head.hash();
    let drop = agent.drop_range(3, 4, last);
    let behind = segment(&agent.seal());
    let live = message(Kind::Live(live));
    [vec![hello, start], first.to_vec(), vec![live, drop, behind]].concat()
}

fn recorded() -> Vec<AgentMessage> {
    if std::env::var_os("LEASEWATCH_WRITE_FIXTURES").is_some() && !path().exists() {
        let bytes: Vec<u8> =
            said().iter().flat_map(prost::Message::encode_length_delimited_to_vec).collect();
        std::fs::write(path(), bytes).unwrap();
    }
    let bytes = std::fs::read(path()).unwrap();
    let mut left = bytes.as_slice();
    let mut messages = Vec::new();
    while !left.is_empty() {
        messages.push(AgentMessage::decode_length_delimited(&mut left).unwrap());
    }
    messages
}

#[tokio::test]
async fn the_stream_of_an_agent_of_0_1_0_is_taken_whole() {
    let rig = Rig::new().await;
    let agent = Agent::new(SEED, NOW);
    let mut messages = recorded().into_iter();
    let first = messages.next().unwrap();
    let Some(Kind::Hello(hello)) = first.kind.clone() else { panic!("{first:?}") };
    let mut client = rig.call(first).await.unwrap();
    let ToAgent::Challenge(challenge) = client.next().await.unwrap() else {
        panic!("no challenge")
    };
    client.send(agent.prove(&hello, &challenge)).await;
    let ToAgent::Welcome(welcome) = client.next().await.unwrap() else { panic!("no welcome") };
    assert!(welcome.start_wanted);
    rig.clock.set(NOW.plus_ms(60_000));
    let (mut answers, mut sent) = (Vec::new(), Vec::new());
    for message in messages {
        match &message.kind {
            Some(Kind::Live(_)) => client.send(message).await,
            kind => {
                if let Some(Kind::Segment(v1::Segment { head, .. })) = kind {
                    sent.push(head.clone());
                }
                answers.push(client.ack(message).await);
            }
        }
    }
    assert_eq!(answers, [(0, false), (1, false), (2, false), (4, false), (5, false)]);
    let stored: Vec<Hash> = rig.heads(agent.id()).await.iter().map(|row| row.hash).collect();
    let heads: Vec<Hash> = sent
        .iter()
        .map(|head| leasewatch_core::evidence::chain::Head::from_statement(head).unwrap().hash())
        .collect();
    assert_eq!(stored, heads);
    assert_eq!(rig.count("select count(*) from dropped_range").await, 1);
}
