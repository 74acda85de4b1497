//! U1: the stream of an agent of version 0.1.0, as it was recorded, is taken whole; so it is with what
//! a newer agent would add to each message, and with messages of kinds that nobody knows.
//!
//! The messages are the recorded bytes. Only the proof is made anew, for it answers a question that
//! the server makes up.

use std::path::PathBuf;

use leasewatch_core::id::Hash;
use leasewatch_proto::v1::agent_message::Kind;
use leasewatch_proto::v1::server_message::Kind as ToAgent;
use leasewatch_proto::v1::{self, AgentMessage, LiveFrame, LiveGpu, ServerMessage};
use prost::Message as _;
use prost::bytes::BufMut as _;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::Endpoint;
use tonic::{Request, Status, Streaming};

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

/// Field 1,000 with the number 1, and field 1,001 with two bytes.
const ADDED: [u8; 8] = [0xc0, 0x3e, 1, 0xca, 0x3e, 2, b'h', b'i'];

/// The message as a newer agent would send it: with more in it, and more beside it.
fn newer(message: &AgentMessage) -> Vec<u8> {
    let bytes = message.encode_to_vec();
    // The kind is the only field, so its bytes are all there is.
    let (tag, mut kind) = bytes.split_first().unwrap();
    assert_eq!(prost::decode_length_delimiter(&mut kind).unwrap(), kind.len());
    let mut more = vec![*tag];
    prost::encode_length_delimiter(kind.len() + ADDED.len(), &mut more).unwrap();
    [&more, kind, &ADDED, &ADDED].concat()
}

/// Sends bytes as they are.
#[derive(Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Vec<u8>;
    type Decode = ServerMessage;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = ServerMessage;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<ServerMessage>, Status> {
        ServerMessage::decode(from).map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}

/// The next answer that is not about clocks and pace.
async fn answer(answers: &mut Streaming<ServerMessage>) -> ToAgent {
    loop {
        match answers.message().await.unwrap().unwrap().kind.unwrap() {
            ToAgent::TimeProbe(_) | ToAgent::TimeEstimate(_) | ToAgent::LivePace(_) => {}
            durable => return durable,
        }
    }
}

#[tokio::test]
async fn a_newer_agent_s_stream_is_taken_whole_and_what_is_not_known_is_passed_over() {
    let rig = Rig::new().await;
    let agent = Agent::new(SEED, NOW);
    let messages = recorded();
    let Some(Kind::Hello(hello)) = messages[0].kind.clone() else { panic!("no hello") };
    let channel = Endpoint::from_shared(rig.url.clone()).unwrap().connect().await.unwrap();
    let mut client = Grpc::new(channel);
    client.ready().await.unwrap();
    let (sender, sent) = mpsc::channel(64);
    sender.send(newer(&messages[0])).await.unwrap();
    let path = PathAndQuery::from_static("/leasewatch.v1.Telemetry/Stream");
    let stream = Request::new(ReceiverStream::new(sent));
    let mut answers = client.streaming(stream, path, Raw).await.unwrap().into_inner();
    let ToAgent::Challenge(challenge) = answer(&mut answers).await else { panic!("no challenge") };
    sender.send(newer(&agent.prove(&hello, &challenge))).await.unwrap();
    let ToAgent::Welcome(_) = answer(&mut answers).await else { panic!("no welcome") };
    rig.clock.set(NOW.plus_ms(60_000));
    let mut acked = Vec::new();
    for message in &messages[1..] {
        // Nothing but fields that nobody knows: a message of a kind of its own.
        sender.send(ADDED.to_vec()).await.unwrap();
        sender.send(newer(message)).await.unwrap();
        if matches!(message.kind, Some(Kind::Live(_))) {
            continue;
        }
        let ToAgent::Ack(ack) = answer(&mut answers).await else { panic!("no ack") };
        acked.push((ack.sequence, ack.rewind));
    }
    assert_eq!(acked, [(0, false), (1, false), (2, false), (4, false), (5, false)]);
    assert_eq!(rig.heads(agent.id()).await.len(), 3);
    assert_eq!(rig.count("select count(*) from dropped_range").await, 1);
}
