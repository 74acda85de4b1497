//! U1, the wire: what version 0.1.0 said is read as it was meant, and what a newer version adds is
//! passed over.

use std::path::PathBuf;

use prost::Message;

use super::*;
use crate::v1::agent_message::Kind as Up;
use crate::v1::server_message::Kind as Down;
use crate::v1::{self, AgentMessage, ServerMessage};

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

fn read<M: Message + Default>(name: &str) -> Vec<M> {
    let bytes = std::fs::read(path(name)).unwrap();
    let mut left = bytes.as_slice();
    let mut messages = Vec::new();
    while !left.is_empty() {
        messages.push(M::decode_length_delimited(&mut left).unwrap());
    }
    messages
}

/// One of each kind.
fn said_by_server() -> Vec<ServerMessage> {
    let kinds = [
        Down::Challenge(v1::Challenge {
            server_nonce: vec![1; 32],
            identity_key: vec![2; 32],
            signature: vec![3; 64],
            // Of a later version; none of them is no byte.
            rotations: Vec::new(),
        }),
        Down::Welcome(v1::Welcome {
            node: "0102030405060708090a0b0c0d0e0f10".to_owned(),
            tenant: "default".to_owned(),
            cursor: 41,
            cursor_head: vec![4; 32],
            cadence_ms: 1_000,
            live_interval_ms: 5_000,
            server_time_ms: 1_790_000_000_000,
            recorded_until_ms: 1_789_999_990_000,
            window_bytes: 262_144,
            start_wanted: false,
            session: 7,
        }),
        Down::Ack(v1::Ack { sequence: 42, rewind: false }),
        Down::Ack(v1::Ack { sequence: 41, rewind: true }),
        Down::Refusal(v1::Refusal {
            sequence: 43,
            code: "clock_out_of_range".to_owned(),
            message: "times must lie between".to_owned(),
        }),
        Down::TimeProbe(v1::TimeProbe { server_sent_ms: 1_790_000_000_123, id: 5 }),
        Down::LivePace(v1::LivePace { interval_ms: 1_000 }),
        Down::TimeEstimate(v1::TimeEstimate { offset_ms: -40, bound_ms: 11 }),
    ];
    kinds.into_iter().map(|kind| ServerMessage { kind: Some(kind) }).collect()
}

#[test]
fn what_a_server_of_0_1_0_said_is_read_as_it_was_meant() {
    let file = path("server-0.1.0.bin");
    if std::env::var_os("LEASEWATCH_WRITE_FIXTURES").is_some() && !file.exists() {
        let said = said_by_server();
        let bytes = said.iter().flat_map(Message::encode_length_delimited_to_vec);
        std::fs::write(&file, bytes.collect::<Vec<u8>>()).unwrap();
    }
    let messages: Vec<ServerMessage> = read("server-0.1.0.bin");
    assert_eq!(messages, said_by_server());
    for message in messages {
        match message.kind.unwrap() {
            Down::Challenge(wire) => {
                assert_eq!(Challenge::from_wire(&wire).unwrap().to_wire(), wire)
            }
            Down::Welcome(wire) => {
                let welcome = Welcome::from_wire(&wire).unwrap();
                assert_eq!((welcome.cursor.sequence, welcome.session), (Sequence(41), 7));
                assert_eq!(welcome.to_wire(), wire);
            }
            Down::Ack(wire) => assert_eq!(Ack::from_wire(&wire).to_wire(), wire),
            Down::Refusal(wire) => assert_eq!(Refusal::from_wire(&wire).code, wire.code),
            Down::TimeProbe(wire) => assert_eq!(TimeProbe::from_wire(&wire).to_wire(), wire),
            Down::LivePace(wire) => {
                assert_eq!(LivePace::from_wire(&wire).unwrap().interval_ms, 1_000)
            }
            Down::TimeEstimate(wire) => {
                let estimate = estimate_from_wire(&wire).unwrap();
                assert_eq!((estimate.offset_ms, estimate.bound_ms), (-40, 11));
            }
            Down::Notice(_) => panic!("0.1.0 said none"),
        }
    }
}

#[test]
fn what_an_agent_of_0_1_0_said_is_read() {
    let messages: Vec<AgentMessage> = read("agent-0.1.0.bin");
    let kinds: Vec<&str> = messages
        .iter()
        .map(|message| match message.kind.as_ref().unwrap() {
            Up::Hello(wire) => {
                let hello = Hello::from_wire(wire).unwrap();
                assert_eq!(
                    (hello.tenant.as_str(), hello.node_name.as_str()),
                    ("default", "node-77")
                );
                "hello"
            }
            Up::Proof(_) => "proof",
            Up::ChainStart(wire) => {
                ChainStartParts::from_wire(wire.clone()).unwrap();
                "chain_start"
            }
            Up::Segment(wire) => {
                assert!(!SegmentParts::from_wire(wire.clone()).unwrap().blocks.is_empty());
                "segment"
            }
            Up::Drop(wire) => {
                DropParts::from_wire(wire.clone()).unwrap();
                "drop"
            }
            Up::Live(wire) => {
                assert_eq!(LiveFrame::from_wire(wire).unwrap().gpus.len(), 1);
                "live"
            }
            Up::TimeEcho(_) => "time_echo",
        })
        .collect();
    let wanted = ["hello", "chain_start", "segment", "segment", "live", "drop", "segment"];
    assert_eq!(kinds, wanted);
}

/// A newer minor version may add fields; this one passes over them.
#[test]
fn what_a_newer_version_adds_is_passed_over() {
    // Field 1,000 with the number 1, and field 1,001 with two bytes.
    let added = [0xc0, 0x3e, 1, 0xca, 0x3e, 2, b'h', b'i'];
    let with_more = |bytes: Vec<u8>| [bytes.as_slice(), &added].concat();
    for message in said_by_server() {
        let newer = with_more(message.encode_to_vec());
        assert_eq!(ServerMessage::decode(newer.as_slice()).unwrap(), message);
    }
    for message in read::<AgentMessage>("agent-0.1.0.bin") {
        let newer = with_more(message.encode_to_vec());
        assert_eq!(AgentMessage::decode(newer.as_slice()).unwrap(), message);
        if let Some(Up::Hello(hello)) = message.kind {
            let newer = with_more(hello.encode_to_vec());
            assert_eq!(v1::Hello::decode(newer.as_slice()).unwrap(), hello);
        }
    }
}
