use super::*;
use crate::evidence::chain::tests::{draft, key};
use crate::evidence::chain::{SealedSegment, seal};
use crate::evidence::statement::sign;
use crate::id::NodeId;
use crate::segment::fixture::{small_events, small_gpu, small_host};

/// The segment of the test vectors, by a node with the id of its key.
fn sealed() -> SealedSegment {
    let node = KeyId::of_public_key(key().verifying_key().as_bytes()).first_node_id();
    let blocks =
        [Block::Gpu(small_gpu()), Block::Host(small_host()), Block::Events(small_events())];
    seal(crate::evidence::chain::HeadDraft { node, ..draft() }, &blocks, &key()).unwrap()
}

fn capture_of(sealed: &SealedSegment, left_out: &[usize]) -> Vec<u8> {
    let parts: Vec<Part<'_>> = sealed
        .blocks
        .iter()
        .enumerate()
        .map(|(at, bytes)| {
            if left_out.contains(&at) {
                Part::LeftOut(leaf_hash(bytes))
            } else {
                Part::Block(bytes)
            }
        })
        .collect();
    let signed = &sealed.signed;
    [
        start(key().verifying_key().as_bytes()),
        segment(&signed.statement, &signed.signature, &parts),
        end(1),
    ]
    .concat()
}

#[test]
fn what_is_captured_is_read_with_or_without_some_blocks() {
    let sealed = sealed();
    let all = [Block::Gpu(small_gpu()), Block::Host(small_host()), Block::Events(small_events())];
    for left_out in [&[][..], &[1], &[0, 2]] {
        let found = read(&capture_of(&sealed, left_out)).unwrap();
        let kept = all.iter().enumerate().filter(|(at, _)| !left_out.contains(at));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].head, sealed.signed.head);
        assert_eq!(found[0].blocks, kept.map(|(_, block)| block.clone()).collect::<Vec<_>>());
    }
}

#[test]
fn every_altered_byte_and_every_truncation_is_refused() {
    let good = capture_of(&sealed(), &[1]);
    for at in 0..good.len() {
        let mut altered = good.clone();
        altered[at] ^= 0x10;
        assert!(read(&altered).is_err(), "byte {at}");
        assert!(read(&good[..at]).is_err(), "{at} bytes");
    }
    assert!(matches!(read(&[good, vec![0]].concat()), Err(CaptureError::Record { .. })));
}

#[test]
fn what_does_not_hold_is_named() {
    let sealed = sealed();
    let mut other = sealed.clone();
    other.blocks.swap(0, 1);
    let wrong = read(&capture_of(&other, &[])).unwrap_err();
    assert_eq!(wrong, CaptureError::Segment { number: 1, source: OpenError::Root });
    other.blocks.pop();
    let wrong = read(&capture_of(&other, &[])).unwrap_err();
    let source = OpenError::BlockCount { got: 2, named: 3 };
    assert_eq!(wrong, CaptureError::Segment { number: 1, source });
    let nobody = crate::evidence::chain::HeadDraft { node: NodeId([0x22; 16]), ..draft() };
    let foreign = seal(nobody, &[Block::Host(small_host())], &key()).unwrap();
    assert_eq!(read(&capture_of(&foreign, &[])), Err(CaptureError::Node { number: 1 }));
    let whole = capture_of(&sealed, &[]);
    let two = [&whole[..whole.len() - 13], &end(2)].concat();
    assert_eq!(read(&two), Err(CaptureError::Count { got: 1, named: 2 }));
    assert_eq!(read(b"leasewatch-capture/v3\n"), Err(CaptureError::Magic));
}

/// A node that began with the key of the seed 8 and goes on with that of the vectors; a server signed
/// the change.
fn changed(change: impl FnOnce(&mut Rotation)) -> Vec<u8> {
    let seed = |seed: u8| ed25519_dalek::SigningKey::from_bytes(&[seed; 32]);
    let (first, server) = (seed(8), seed(9));
    let old = first.verifying_key().to_bytes();
    let node = KeyId::of_public_key(&old).first_node_id();
    let new = key().verifying_key().to_bytes();
    let at = crate::segment::fixture::START;
    let mut rotation = Rotation { node, old, new, at, token: 3 };
    change(&mut rotation);
    let statement = rotation.statement();
    let signature = sign(StatementKind::Rotation, &statement, &server);
    let signed = SignedStatement { statement, signature };
    let changes = [KeyChange { server: server.verifying_key().to_bytes(), signed }];
    let mut out = start_over(&old, &changes);
    for by in [&first, &key()] {
        let draft = crate::evidence::chain::HeadDraft { node, ..draft() };
        let sealed = seal(draft, &[Block::Host(small_host())], by).unwrap();
        let (signed, blocks) = (&sealed.signed, [Part::Block(&sealed.blocks[0])]);
        out.extend(segment(&signed.statement, &signed.signature, &blocks));
    }
    [out, end(2)].concat()
}

#[test]
fn over_a_change_of_the_key_both_keys_count_when_the_change_is_signed() {
    let good = changed(|_| {});
    assert_eq!(read(&good).unwrap().len(), 2);
    for at in 0..good.len() {
        let mut altered = good.clone();
        altered[at] ^= 0x10;
        assert!(read(&altered).is_err(), "byte {at}");
        assert!(read(&good[..at]).is_err(), "{at} bytes");
    }
    let wrong: [fn(&mut Rotation); 2] =
        [|rotation| rotation.node = NodeId([1; 16]), |rotation| rotation.old = [1; 32]];
    for change in wrong {
        assert_eq!(read(&changed(change)), Err(CaptureError::KeyChange { number: 1 }));
    }
    // A key that no change leads to is nobody's.
    let astray = changed(|rotation| rotation.new = key().verifying_key().to_bytes().map(|b| b ^ 1));
    assert!(read(&astray).is_err());
    assert_eq!(start_over(&[7; 32], &[]), start(&[7; 32]));
}
