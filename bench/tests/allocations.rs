//! How often the heap is asked for memory on the path of one segment: a number that does not
//! depend on the machine, and that grows when somebody copies what was borrowed.

#![expect(clippy::unwrap_used, reason = "what does not work here fails the test")]

use leasewatch_bench::data::SimulatedNode;
use leasewatch_bench::node::BenchNode;
use leasewatch_core::evidence::chain::{self, SealedSegment};
use leasewatch_core::segment::Origin;
use leasewatch_proto::convert::SegmentParts;
use leasewatch_proto::v1::AgentMessage;
use leasewatch_proto::v1::agent_message::Kind;
use prost::Message as _;

/// A node whose GPUs are busy in its first minute.
const NODE: u64 = 5;
/// Measured: 25, one for each block and some for the vectors they stand in.
const DECODE_MAX: u64 = 28;
/// Measured: 1,034, two for each column and some for each block.
const OPEN_MAX: u64 = 1_140;
/// Measured: 339,148, the decoded minute.
const OPEN_BYTES_MAX: u64 = 375_000;

/// A minute of 8 GPUs in training: 19,200 values.
fn sealed() -> (SealedSegment, ed25519_dalek::VerifyingKey) {
    let mut node = BenchNode::new(NODE, 8, Origin::Simulated);
    let samples = SimulatedNode::new(NODE, 8).seconds(1_785_556_800_000, 60);
    assert!(samples.gpus[0].iter().all(|sample| sample.values[0] > 50), "node {NODE} is idle");
    let sealed = node.seal(&node.blocks(&samples, false).unwrap()).unwrap();
    (sealed, node.public_key())
}

#[test]
fn ingest_of_a_segment_stays_within_its_allocations() {
    let (sealed, key) = sealed();
    let kind = Kind::Segment(SegmentParts::from(&sealed).into_wire());
    let bytes = AgentMessage { kind: Some(kind) }.encode_to_vec();
    let mut parts = None;
    let decoding = allocation_counter::measure(|| {
        let message = AgentMessage::decode(&bytes[..]).unwrap();
        let Some(Kind::Segment(wire)) = message.kind else { panic!("no segment") };
        parts = Some(SegmentParts::from_wire(wire).unwrap());
    });
    let parts = parts.unwrap();
    let opening = allocation_counter::measure(|| {
        chain::open(&parts.statement, &parts.signature, &parts.blocks, &key).unwrap();
    });
    eprintln!("decode {decoding:?}\nopen {opening:?}");
    assert!(decoding.count_total <= DECODE_MAX, "{decoding:?}");
    assert!(opening.count_total <= OPEN_MAX, "{opening:?}");
    assert!(opening.bytes_max <= OPEN_BYTES_MAX, "{opening:?}");
}
