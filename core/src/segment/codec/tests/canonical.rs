//! One encoding per content: whatever decodes is exactly what would be written.

use super::super::super::bits::{put_signed, put_varint};
use super::super::super::fixture::{Lanes, node_minute};
use super::*;

/// Decodes, and where that works, encodes again: the bytes must be the same.
fn assert_canonical(bytes: &[u8]) -> bool {
    match Block::decode(bytes) {
        Ok(block) => {
            assert_eq!(block.encode().as_deref(), Ok(bytes));
            true
        }
        Err(_) => false,
    }
}

#[test]
fn every_single_byte_changed_is_other_content_or_refused() {
    for block in small_blocks() {
        let bytes = block.encode().unwrap();
        for at in 0..bytes.len() {
            for change in 1..=u8::MAX {
                let mut changed = bytes.clone();
                changed[at] ^= change;
                if assert_canonical(&changed) {
                    assert_ne!(Block::decode(&changed).as_ref(), Ok(&block), "byte {at}");
                }
            }
        }
    }
}

#[test]
fn every_bit_of_a_real_minute_counts() {
    let block = &node_minute(Lanes::SlowEach15)[5];
    let bytes = block.encode().unwrap();
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1 << (at % 8);
        if assert_canonical(&changed) {
            assert_ne!(Block::decode(&changed).as_ref(), Ok(block), "byte {at}");
        }
    }
}

#[test]
fn truncated_and_extended_bytes_are_refused() {
    for block in small_blocks() {
        let bytes = block.encode().unwrap();
        for length in 0..bytes.len() {
            assert!(Block::decode(&bytes[..length]).is_err(), "{length} bytes");
        }
        for extra in [0, 1, 0x80, b' ', b']', 0xff] {
            assert!(Block::decode(&[&bytes[..], &[extra]].concat()).is_err());
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(kind in 0_u8..5, body in prop::collection::vec(any::<u8>(), 0..200)) {
        assert_canonical(&[&[VERSION, kind], &body[..]].concat());
        assert_canonical(&body);
    }

    #[test]
    fn changed_blocks_never_panic(
        block in arbitrary::blocks(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let mut bytes = block.encode().unwrap();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        assert_canonical(&bytes);
    }
}

/// A GPU block without ticks, up to its track's times, to which tests add what they want.
fn gpu_prefix() -> Vec<u8> {
    let mut bytes = vec![VERSION, GPU, 1, b'x', 1, b'y'];
    put_varint(&mut bytes, 0); // ticks
    bytes.extend([1, 0xe8, 0x07]); // poll, 1,000 ms
    bytes
}

#[test]
fn the_hand_made_prefix_is_that_of_the_encoder() {
    let bytes = [&gpu_prefix()[..], &[1, 0, 0]].concat(); // times as ticks, no columns, no lane
    assert!(assert_canonical(&bytes));
}

#[test]
fn other_spellings_of_the_same_content_are_refused() {
    let not_canonical = Err(DecodeError::NotCanonical);
    // The track has the ticks' (no) times, but says so with a list of its own.
    assert_eq!(Block::decode(&[&gpu_prefix()[..], &[0, 0, 0, 0]].concat()), not_canonical);
    // A count in two bytes.
    assert_eq!(
        Block::decode(&[&gpu_prefix()[..], &[1, 0x80, 0x00, 0]].concat()),
        Err(DecodeError::Varint)
    );
    // A period in three bytes.
    let mut bytes = gpu_prefix();
    bytes.truncate(bytes.len() - 2);
    bytes.extend([0xe8, 0x87, 0x00, 1, 0, 0]);
    assert_eq!(Block::decode(&bytes), Err(DecodeError::Varint));
    // A lane that no column needs.
    assert_eq!(Block::decode(&[&gpu_prefix()[..], &[1, 0, 1]].concat()), not_canonical);
    // A UUID that has a short form, as text.
    let uuid = small_gpu().uuid;
    let mut bytes = vec![VERSION, GPU, 40];
    bytes.extend_from_slice(uuid.as_str().as_bytes());
    bytes.extend_from_slice(&gpu_prefix()[4..]);
    bytes.extend([1, 0, 0]);
    assert_eq!(Block::decode(&bytes), not_canonical);
}

/// Times and values of a track with three points, by hand.
fn track_with(times: &[u8], values: &[u8]) -> Result<Block, DecodeError> {
    Block::decode(&[&gpu_prefix()[..], &[0], times, values, &[0, 0]].concat())
}

#[test]
fn other_packings_of_the_same_numbers_are_refused() {
    let start = |bytes: &mut Vec<u8>| put_signed(bytes, START_MS);
    const START_MS: i64 = 1_785_556_800_000;
    // Three regular times: a delta frame and a line are equally right; the shorter one is written.
    let mut as_delta = vec![3, 3];
    start(&mut as_delta);
    put_signed(&mut as_delta, 1_000);
    as_delta.push(0);
    let mut as_line = vec![3, 4];
    start(&mut as_line);
    put_signed(&mut as_line, 1_000);
    put_signed(&mut as_line, 0);
    as_line.push(0);
    let constant_97 = [0, 0xc2, 0x01];
    assert!(track_with(&as_delta, &constant_97).is_ok());
    assert_eq!(track_with(&as_line, &constant_97), Err(DecodeError::NotCanonical));
    // The constant as a frame of width 0, and as two runs of the same value.
    let frame = [1 << 5, 0xc2, 0x01, 0];
    assert_eq!(track_with(&as_delta, &frame), Err(DecodeError::NotCanonical));
    let runs = [5 << 5, 2, 0xc2, 0x01, 0, 4, 0];
    assert_eq!(track_with(&as_delta, &runs), Err(DecodeError::NotCanonical));
    // Presence by a bitmap with all bits set; statuses spelled out; padding bits.
    assert_eq!(track_with(&as_delta, &[2, 0b111, 0xc2, 0x01]), Err(DecodeError::NotCanonical));
    assert_eq!(track_with(&as_delta, &[4 << 2, 0, 0xc2, 0x01]), Err(DecodeError::NotCanonical));
    let mixed = |statuses| [4 << 2, statuses, 0xc2, 0x01];
    assert!(track_with(&as_delta, &mixed(0b00_01_00)).is_ok());
    assert_eq!(track_with(&as_delta, &mixed(0b01_00_01_00)), Err(DecodeError::NotCanonical));
    // A packing code without numbers.
    assert!(track_with(&as_delta, &[1 << 2]).is_ok());
    assert_eq!(track_with(&as_delta, &[1 << 2 | 1 << 5]), Err(DecodeError::NotCanonical));
}
