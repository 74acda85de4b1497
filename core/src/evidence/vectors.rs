//! The test vectors of `docs/EVIDENCE.md`, kept true by tests: each stands in a fenced block whose
//! first line is "vector" and a name. White space in a hex vector means nothing.

use super::canonical::Value;
use super::chain::tests::{key, small_segment};
use super::chain::{
    ChainStart, ChainStartReason, Checkpoint, Drop, DropReason, leaf_hash, sign, verify_inclusion,
};
use super::identity::tests as identity;
use super::log::checkpoint::{self, LogOrigin};
use super::log::leaf::{BreakReason, LogBreak, Minute, head_leaf};
use super::log::note::{Note, verifier_line, witness_line};
use super::log::tree::{CompactRange, Leaves, consistency, is_consistent};
use super::statement::StatementKind;
use crate::id::{ChainId, Hash, KeyId, NodeId, Sequence};
use crate::segment::Block;
use crate::segment::fixture::{START, small_jobs, small_slice, small_wiring};
use crate::time::Period;

const DOCUMENT: &str = include_str!("../../../docs/EVIDENCE.md");

fn vector(name: &str) -> &'static str {
    let fence = format!("```vector {name}\n");
    let mut parts = DOCUMENT.split(&fence);
    let after = parts.nth(1).unwrap_or_else(|| panic!("no vector {name} in the document"));
    assert_eq!(parts.next(), None, "vector {name} stands twice");
    after.split("\n```").next().unwrap()
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Says what would have to stand in the document.
fn assert_vector(name: &str, actual: &str) {
    let written: String = vector(name).to_owned();
    assert!(written == actual, "vector {name} should be:\n{actual}");
}

fn assert_hex_vector(name: &str, actual: impl AsRef<[u8]>) {
    let written: String = vector(name).split_whitespace().collect();
    let actual = hex(actual);
    assert!(written == actual, "vector {name} should be:\n{actual}");
}

#[test]
fn canonical_statements() {
    let written = vector("canonical");
    let value = Value::parse(written.as_bytes(), 1_000).unwrap();
    assert_eq!(value.to_bytes(), written.as_bytes());
    assert_hex_vector("canonical.leaf_hash", leaf_hash(written.as_bytes()).0);
    for refused in vector("canonical.refused").lines() {
        assert!(Value::parse(refused.as_bytes(), 1_000).is_err(), "{refused}");
    }
}

#[test]
fn keys_and_ids() {
    let public = key().verifying_key().to_bytes();
    assert_hex_vector("key.seed", key().to_bytes());
    assert_hex_vector("key.public", public);
    let key_id = KeyId::of_public_key(&public);
    assert_hex_vector("key.id", key_id.0);
    assert_hex_vector("node.id", key_id.first_node_id().0);
}

#[test]
fn head_and_signature() {
    let signed = small_segment().signed;
    assert_vector("head", std::str::from_utf8(&signed.statement).unwrap());
    assert_hex_vector("head.leaf_hash", signed.head.hash().0);
    assert_hex_vector("head.signature", signed.signature);
}

#[test]
fn drop_and_signature() {
    let drop = Drop {
        node: NodeId([0x22; 16]),
        chain: ChainId([0x33; 16]),
        first: Sequence(4),
        last: Sequence(9),
        period: Period::new(START, START.plus_ms(360_000)),
        reason: DropReason::Quota,
        last_head: Hash([0x66; 32]),
    };
    assert_vector("drop", std::str::from_utf8(&drop.statement()).unwrap());
    assert_hex_vector("drop.signature", sign(StatementKind::Drop, &drop.statement(), &key()));
}

#[test]
fn chain_start_and_signature() {
    let start = ChainStart {
        node: NodeId([0x22; 16]),
        chain: ChainId([0x33; 16]),
        at: START,
        reason: ChainStartReason::LostState,
    };
    let statement = start.statement();
    assert_vector("chain_start", std::str::from_utf8(&statement).unwrap());
    let signature = sign(StatementKind::ChainStart, &statement, &key());
    assert_hex_vector("chain_start.signature", signature);
    for reason in ChainStartReason::ALL {
        assert!(DOCUMENT.contains(&format!("| `{}` |", reason.name())));
    }
}

#[test]
fn identity() {
    let signed = |name: &str, kind, statement: Vec<u8>| {
        assert_vector(name, std::str::from_utf8(&statement).unwrap());
        assert_hex_vector(&format!("{name}.signature"), sign(kind, &statement, &key()));
    };
    signed("enrollment", StatementKind::Enrollment, identity::enrollment().statement());
    signed("rotation", StatementKind::Rotation, identity::rotation().statement());
    signed("revocation", StatementKind::Revocation, identity::revocation().statement());
    let rotation = identity::server_rotation().statement();
    signed("server_rotation", StatementKind::ServerRotation, rotation);
    signed("server_notice", StatementKind::ServerNotice, identity::server_notice().statement());
}

#[test]
fn blocks_and_root() {
    let sealed = small_segment();
    let names = ["block.gpu", "block.host", "block.events"];
    for (name, bytes) in names.into_iter().zip(&sealed.blocks) {
        assert_hex_vector(name, bytes);
        assert!(Block::decode(bytes).is_ok());
        assert_hex_vector(&format!("{name}.leaf_hash"), leaf_hash(bytes).0);
    }
    let slice = Block::Gpu(small_slice()).encode().unwrap();
    assert_hex_vector("block.slice", &slice);
    assert_hex_vector("block.slice.leaf_hash", leaf_hash(&slice).0);
    let jobs = Block::Events(small_jobs()).encode().unwrap();
    assert_hex_vector("block.jobs", &jobs);
    assert_hex_vector("block.jobs.leaf_hash", leaf_hash(&jobs).0);
    let wiring = Block::Events(small_wiring()).encode().unwrap();
    assert_eq!(Block::decode(&wiring).unwrap(), Block::Events(small_wiring()));
    assert_vector("events.wiring", std::str::from_utf8(&wiring[2..]).unwrap());
    assert_hex_vector("block.wiring.leaf_hash", leaf_hash(&wiring).0);
    assert_hex_vector("root", sealed.signed.head.root.0);
    let leaves: Vec<Hash> = sealed.blocks.iter().map(|block| leaf_hash(block)).collect();
    let proof = super::chain::inclusion_proof(&leaves, 0).unwrap();
    assert_hex_vector(
        "root.proof_of_gpu",
        proof.iter().flat_map(|hash| hash.0).collect::<Vec<_>>(),
    );
    assert!(verify_inclusion(leaves[0], 0, 3, &proof, sealed.signed.head.root));
}

#[test]
fn log() {
    let leaves: Vec<Hash> =
        (0..7).map(|n| leaf_hash(format!("{{\"n\":{n}}}").as_bytes())).collect();
    let range = |part: Leaves| {
        let mut range = CompactRange::new(part.from);
        let at = |index| usize::try_from(index).unwrap();
        leaves[at(part.from)..at(part.to)].iter().for_each(|leaf| range.push(*leaf));
        range
    };
    let root = |size| range(Leaves { from: 0, to: size }).root().unwrap();
    assert_hex_vector("log.root_3", root(3).0);
    assert_hex_vector("log.root_7", root(7).0);
    let parts = consistency(3, 7).unwrap();
    let hash = |part| super::log::tree::fold(&range(part).hashes().collect::<Vec<_>>()).unwrap();
    let proof: Vec<Hash> = parts.into_iter().map(hash).collect();
    assert!(is_consistent((3, root(3)), (7, root(7)), &proof));
    assert_hex_vector("log.consistency_3_7", proof.iter().flat_map(|h| h.0).collect::<Vec<_>>());

    let origin = LogOrigin::from_text("leasewatch/34750f98bd59fcfc/tenant-a/provider-a").unwrap();
    let state = Checkpoint { size: 7, root: root(7) };
    let mut note = checkpoint::sign(&origin, state, &key());
    let witness = ed25519_dalek::SigningKey::from_bytes(&[2; 32]);
    note.cosign("witness-a", &witness, 1_785_556_860);
    assert_vector("log.checkpoint", note.to_text().trim_end());
    let read = Note::parse(&format!("{}\n", vector("log.checkpoint"))).unwrap();
    assert_eq!(checkpoint::open(&read, &origin, &key().verifying_key()), Ok(state));
    let keys = [
        verifier_line(origin.as_str(), &key().verifying_key()),
        witness_line("witness-a", &witness.verifying_key()),
    ];
    assert_vector("log.keys", &keys.join("\n"));
}

#[test]
fn leaves_of_a_log() {
    let signed = small_segment().signed;
    let leaf = head_leaf(&signed.statement, &signed.signature);
    let minute = Minute::of(START, 60_000, vec![(signed.head.node, signed.head.sequence, leaf)]);
    assert_vector("log.minute", std::str::from_utf8(&minute.statement()).unwrap());
    let found = LogBreak {
        old: LogOrigin::from_text("leasewatch/34750f98bd59fcfc/tenant-a/provider-a").unwrap(),
        state: Checkpoint { size: 3, root: Hash([0x33; 32]) },
        presented: Some(Checkpoint { size: 7, root: Hash([0x77; 32]) }),
        reason: BreakReason::Restored,
        at: START,
    };
    assert_vector("log.log_break", std::str::from_utf8(&found.statement()).unwrap());
}
