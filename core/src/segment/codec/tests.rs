mod arbitrary;
mod canonical;
mod refusal;
mod size;

use super::super::fixture::{small_events, small_gpu, small_host, small_slice};
use super::*;
use crate::id::{BusId, GpuUuid};
use proptest::prelude::*;

proptest! {
    #[test]
    fn any_block_round_trips(block in arbitrary::blocks()) {
        let bytes = block.encode().unwrap();
        prop_assert_eq!(Block::decode(&bytes), Ok(block));
    }
}

#[test]
fn the_smallest_and_the_largest_block_round_trip() {
    let mut gpu = small_gpu();
    gpu.ticks.clear();
    gpu.track.points.clear();
    gpu.columns.clear();
    let smallest = Block::Gpu(gpu.clone());
    assert_eq!(Block::decode(&smallest.encode().unwrap()), Ok(smallest));

    let at = |n: usize| Timestamp::MIN.plus_ms(i64::try_from(n * n).unwrap());
    gpu.ticks = (0..limits::TICKS).map(at).collect();
    gpu.track.points = (0..limits::TRACK_POINTS)
        .map(|n| TrackPoint { at: at(n), busy: Reading::Number(i64::try_from(n % 101).unwrap()) })
        .collect();
    let noisy = |metric: crate::sample::Metric| {
        let value = |n: usize| {
            let spread = i64::try_from(n * 7_919 + 1).unwrap().wrapping_mul(0x5851_f42d_4c95_7f2d);
            let number = (spread & i64::MAX) % (metric.highest() / metric.resolution());
            Some(Reading::Number(number * metric.resolution()))
        };
        Column { metric, readings: (0..limits::TICKS).map(value).collect() }
    };
    gpu.columns = crate::sample::Metric::ALL.iter().copied().map(noisy).collect();
    let largest = Block::Gpu(gpu);
    let bytes = largest.encode().unwrap();
    assert!(bytes.len() > limits::BLOCK_BYTES / 2, "{} bytes", bytes.len());
    assert_eq!(Block::decode(&bytes), Ok(largest));
}

#[test]
fn extreme_values_and_times_round_trip() {
    let mut gpu = small_gpu();
    gpu.ticks = vec![Timestamp::MIN, Timestamp(0).max(Timestamp::MIN).plus_ms(1), Timestamp::MAX];
    gpu.track.points = vec![TrackPoint { at: Timestamp::MAX, busy: Reading::Stale }];
    let numbers = |values: [i64; 3]| values.map(|value| Some(Reading::Number(value))).to_vec();
    gpu.columns = vec![
        Column { metric: crate::sample::Metric::Temperature, readings: numbers([-100, 200, 0]) },
        Column {
            metric: crate::sample::Metric::PcieTx,
            readings: numbers([i64::MAX, 0, i64::MAX - 1]),
        },
    ];
    let block = Block::Gpu(gpu);
    assert_eq!(Block::decode(&block.encode().unwrap()), Ok(block));
}

#[test]
fn ids_of_any_form_round_trip() {
    let texts = [
        "GPU-0a1b2c3d-0011-2233-4455-66778899aabb",
        "GPU-0A1b2c3d-0011-2233-4455-66778899aabb",
        "GPU-0a1b2c3d-0011-2233-4455-66778899aab",
        "GPU-0a1b2c3d00112233445566778899aabb-",
        "MIG-0a1b2c3d-0011-2233-4455-66778899aabb",
        "GPU-+a1b2c3d-0011-2233-4455-66778899aabb",
        "imported-0",
        "-",
    ];
    for text in texts {
        let Ok(uuid) = GpuUuid::new(text) else { continue };
        let block = Block::Gpu(GpuBlock { uuid, ..small_gpu() });
        assert_eq!(Block::decode(&block.encode().unwrap()), Ok(block));
    }
    let long = GpuBlock { uuid: GpuUuid::new(&"a".repeat(96)).unwrap(), ..small_gpu() };
    let block = Block::Gpu(long);
    assert_eq!(Block::decode(&block.encode().unwrap()), Ok(block));
}

fn small_blocks() -> [Block; 4] {
    [
        Block::Gpu(small_gpu()),
        Block::Gpu(small_slice()),
        Block::Host(small_host()),
        Block::Events(small_events()),
    ]
}

#[test]
fn a_slice_is_the_block_of_a_gpu_behind_a_header() {
    let whole = Block::Gpu(GpuBlock { partition: None, ..small_slice() }).encode().unwrap();
    let slice = Block::Gpu(small_slice()).encode().unwrap();
    let parent = small_gpu().uuid;
    let mut expected = vec![VERSION, SLICE];
    ids::put_uuid(&mut expected, &parent);
    expected.extend([9, 0, 1, 7]);
    expected.extend(&whole[2..]);
    assert_eq!(slice, expected);
}
