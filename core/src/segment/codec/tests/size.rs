//! How small a real minute is.

use super::super::super::fixture::{GPUS, Lanes, READINGS, SECONDS, node_minute};
use super::*;
use crate::evidence::chain::tests::{draft, key};
use crate::evidence::chain::{SealedSegment, seal};

fn sealed(lanes: Lanes) -> SealedSegment {
    seal(draft(), &node_minute(lanes), &key()).unwrap()
}

/// Every byte of the segment: blocks of GPUs and host, head and signature.
fn bytes(segment: &SealedSegment) -> usize {
    let blocks: usize = segment.blocks.iter().map(Vec::len).sum();
    blocks + segment.signed.statement.len() + segment.signed.signature.len()
}

/// Readings of GPUs that were recorded, the host's not counted.
fn recorded(blocks: &[Block]) -> usize {
    let of_gpu = |block: &Block| match block {
        Block::Gpu(gpu) => {
            let columns = gpu.columns.iter().flat_map(|column| &column.readings);
            gpu.track.points.len() + columns.flatten().count()
        }
        _ => 0,
    };
    blocks.iter().map(of_gpu).sum()
}

/// Thousandths of a byte per value.
fn millibytes(bytes: usize, values: usize) -> usize {
    bytes * 1_000 / values
}

#[test]
fn a_minute_of_eight_gpus_stays_under_its_bytes_per_value() {
    let slots = usize::try_from(SECONDS * i64::try_from(GPUS).unwrap()).unwrap() * READINGS;
    let all_fast = bytes(&sealed(Lanes::AllFast));
    assert_eq!(recorded(&node_minute(Lanes::AllFast)), slots);
    let per_value = millibytes(all_fast, slots);
    eprintln!("all 40 readings each second: {all_fast} B, {per_value} mB per value");
    assert!(per_value <= 650, "{per_value}");

    let lanes = bytes(&sealed(Lanes::SlowEach15));
    let count = recorded(&node_minute(Lanes::SlowEach15));
    let (per_value, per_slot) = (millibytes(lanes, count), millibytes(lanes, slots));
    eprintln!(
        "slow lane each 15 s: {lanes} B, {count} values, {per_value} mB per value, {per_slot} mB per slot of a grid of {slots}"
    );
    assert!(per_slot <= 650, "{per_slot}");
    // A slow column costs a few bytes, not a bit for each tick that it was not read at.
    assert!(lanes < all_fast);
}
