//! How often the heap is asked for memory by the calls of one tick of eight GPUs. Deciding, showing
//! and recording have theirs beside the sampler (`src/sampler/fleet/tests`).

use std::time::Duration;

use leasewatch_agent::source::Source;
use leasewatch_agent::source::nvml::{GpuReader, Lane, ReadOptions, Session, TrackSlot};

use crate::case::{library, play};

/// Measured: 33, four for each GPU with new samples of the driver: the vector of readings, that of
/// the samples as the wrapper hands them over, and those of the points.
const FAST_MAX: u64 = 36;
/// Measured: 57.
const SLOW_MAX: u64 = 63;
/// Measured: 11,264 for all eight at once.
const BYTES_MAX: u64 = 12_400;
/// The driver samples six times a second, and tells nobody when.
const SAMPLES: Duration = Duration::from_millis(400);

const SCENARIO: &str = "driver_version = \"590.48.01\"\nseed = 11\nstarted_s_ago = 7200\n\
    [[cards]]\nmodel = \"H100-SXM5-80GB\"\ncount = 8\nload = { shape = \"training\" }\n";

#[test]
fn the_calls_of_a_tick_ask_for_the_same_memory_each_time_and_keep_none() {
    play(SCENARIO, |case| {
        // The sampler's threads would only be in the way.
        case.stop();
        let session = Session::open(&Source::open(&library())).unwrap();
        let options =
            ReadOptions { cadence_ms: 1_000, driver_samples: true, process_counts: false };
        let found: Vec<_> = (0..8).map(|index| session.identify(index).unwrap()).collect();
        let reader = |gpu| session.reader(gpu, TrackSlot::default(), options).unwrap();
        let mut readers: Vec<GpuReader<'_>> = found.iter().map(reader).collect();
        let mut tick = |lane| {
            allocation_counter::measure(|| {
                let reads: Vec<_> = readers.iter_mut().map(|reader| reader.read(lane)).collect();
                assert!(reads.iter().all(Result::is_ok));
            })
        };
        // What is not supported is asked once, tracks are planned, buffers reach their size.
        for _ in 0..20 {
            tick(Lane::Slow);
            tick(Lane::Fast);
        }
        let mut later = |lane| {
            std::thread::park_timeout(SAMPLES);
            tick(lane)
        };
        let fast: Vec<_> = (0..4).map(|_| later(Lane::Fast)).collect();
        let slow: Vec<_> = (0..2).map(|_| later(Lane::Slow)).collect();
        let most =
            |of: &[allocation_counter::AllocationInfo]| of.iter().map(|a| a.count_total).max();
        let bytes = fast.iter().chain(&slow).map(|a| a.bytes_max).max().unwrap();
        eprintln!("fast {:?}, slow {:?}, {bytes} bytes at most", most(&fast), most(&slow));
        let kept = |a: &allocation_counter::AllocationInfo| (a.count_current, a.bytes_current);
        assert!(fast.iter().chain(&slow).all(|a| kept(a) == (0, 0)), "nothing is kept");
        assert!(most(&fast).unwrap() <= FAST_MAX && most(&slow).unwrap() <= SLOW_MAX);
        assert!(bytes <= BYTES_MAX);
    });
}
