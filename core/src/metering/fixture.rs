//! Hour records that tests of this folder share.

use super::counter::CounterDelta;
use super::gap::GapCause;
use super::record::{HourRecord, SequenceRange};
use crate::id::{ChainId, GpuUuid, Hash, Sequence};
use crate::sample::Metric;
use crate::segment::{MigInstance, Origin, Partition, TrackSource};
use crate::time::Hour;

pub(super) fn sample() -> HourRecord {
    let mut record =
        HourRecord::empty(Hour(490_000), GpuUuid::new("GPU-1").unwrap(), Origin::Simulated);
    record.enrolled_ms = 3_600_000;
    record.histogram.add(97, 3_000_000);
    record.histogram.add(0, 599_000);
    record.gaps.add(GapCause::GpuLost, 1_000);
    record.samples = 3_599;
    record.sources = vec![TrackSource::Poll, TrackSource::DriverSamples];
    record.counters =
        vec![(Metric::Energy, CounterDelta { delta: 2_500_000_000, covered_ms: 3_585_000 })];
    record.gpu_count_min = Some(7);
    record.clock_bound_max_ms = Some(3);
    record.heads =
        vec![SequenceRange { chain: ChainId([7; 16]), first: Sequence(12), last: Sequence(72) }];
    record.head_count = 61;
    record.head_root = Some(Hash([5; 32]));
    record
}

pub(super) fn slice() -> HourRecord {
    let partition = Partition {
        parent: GpuUuid::new("GPU-2").unwrap(),
        instance: MigInstance { gpu_instance: 9, compute_instance: 1 },
        slices: 2,
        slices_of: 7,
    };
    HourRecord { partition: Some(partition), ..sample() }
}
