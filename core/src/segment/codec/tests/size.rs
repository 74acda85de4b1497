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

#[test]
#[ignore]
fn zz_temporary_speed() {
    for lanes in [Lanes::AllFast, Lanes::SlowEach15] {
        let blocks = node_minute(lanes);
        let count = recorded(&blocks);
        let rounds = 2000;
        let start = std::time::Instant::now();
        let mut bytes = Vec::new();
        for _ in 0..rounds { bytes = blocks.iter().map(|b| b.encode().unwrap()).collect::<Vec<_>>(); }
        let encode = start.elapsed();
        let start = std::time::Instant::now();
        for _ in 0..rounds { for b in &bytes { std::hint::black_box(Block::decode(b).unwrap()); } }
        let decode = start.elapsed();
        let v = (count * rounds) as u128;
        eprintln!("encode {} M/s decode {} M/s", v * 1000 / encode.as_nanos(), v * 1000 / decode.as_nanos());
        if let Block::Gpu(gpu) = &blocks[0] {
            let mut w = Columns::new(&[]);
            for c in &gpu.columns { let mut o = Vec::new(); w.write(&mut o, c.metric.rule(), &c.readings).unwrap(); eprint!("{}={}:{} ", c.metric, o[0] >> 5, o.len()); }
            let mut o = Vec::new(); put_times(&mut o, "t", &gpu.ticks, 100).unwrap(); eprintln!("ticks={}:{}", o[1], o.len());
        }
        let s = sealed(lanes);
        eprintln!("head {} blocks {:?}", s.signed.statement.len(), s.blocks.iter().map(Vec::len).collect::<Vec<_>>());
        let start = std::time::Instant::now();
        for _ in 0..200 { std::hint::black_box(crate::evidence::chain::open(&s.signed.statement, &s.signed.signature, &s.blocks, &key().verifying_key()).unwrap()); }
        eprintln!("open {} us", start.elapsed().as_micros() / 200);
    }
}
