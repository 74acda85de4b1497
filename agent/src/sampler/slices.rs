//! The slices of one GPU as the sampler sees them: which came, which went, and their readings.
//!
//! Pure. Slices are read by their GPU's thread and come with its answers, so what befalls the GPU
//! (lost, stalled) is told of the GPU alone. A slice that is not listed any more is removed; while
//! the GPU does not answer, its slices stay.

use std::collections::BTreeMap;
use std::sync::Arc;

use leasewatch_core::id::GpuUuid;
use leasewatch_core::segment::{EventKind, TrackSource};

use super::fleet::Effects;
use super::plausible::Implausible;
use crate::observation::{GpuObservation, LiveGpu, Observation, TrackObservation};
use crate::source::nvml::{FoundSlice, SliceRead};

#[derive(Debug)]
struct Slice {
    found: Arc<FoundSlice>,
    live: LiveGpu,
    last_at_ms: i64,
    last_point_ms: i64,
    missed: i64,
    implausible: Implausible,
}

/// The slices of one GPU.
#[derive(Debug, Default)]
pub(super) struct Slices(BTreeMap<GpuUuid, Slice>);

impl Slices {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// All slices that there are, each read once. Those that went are told before those that came:
    /// a new slice may have the place of an old one.
    pub(super) fn observe(
        &mut self,
        at_ms: i64,
        (reads, cadence_ms): (Vec<SliceRead>, u32),
        out: &mut Effects,
    ) {
        let is_same = |slice: &Slice| {
            let found = &slice.found;
            let listed = reads.iter().find(|read| read.slice.uuid == found.uuid);
            // A share or a place that changed under one name is a slice that was cut anew.
            listed.is_some_and(|read| read.slice.partition == found.partition)
        };
        let gone: Vec<GpuUuid> =
            self.0.values().filter(|slice| !is_same(slice)).map(Slice::uuid).collect();
        for uuid in &gone {
            self.remove(at_ms, uuid, out);
        }
        for read in reads {
            let uuid = read.slice.uuid.clone();
            let slice = self.0.entry(uuid.clone()).or_insert_with(|| {
                let seen = EventKind::GpuSeen(read.slice.inventory.clone());
                out.event(read.at_boot_ms, Some(uuid), seen, false);
                Slice::new(Arc::clone(&read.slice))
            });
            slice.observe(read, cadence_ms, out);
        }
    }

    /// The GPU is another one now, or not looked after any more.
    pub(super) fn remove_all(&mut self, at_ms: i64, out: &mut Effects) {
        let all: Vec<GpuUuid> = self.0.keys().cloned().collect();
        all.iter().for_each(|uuid| self.remove(at_ms, uuid, out));
    }

    fn remove(&mut self, at_ms: i64, uuid: &GpuUuid, out: &mut Effects) {
        if let Some(mut slice) = self.0.remove(uuid) {
            slice.flush(at_ms, out);
            out.event(at_ms, Some(uuid.clone()), EventKind::PartitionRemoved, false);
        }
    }

    /// Latest values; `parent` says what state the GPU is in.
    pub(super) fn live(&self, parent: &LiveGpu) -> Vec<LiveGpu> {
        let live = |slice: &Slice| LiveGpu {
            lost: parent.lost,
            busy: slice.live.busy.filter(|_| !parent.lost),
            stalled_since_boot_ms: parent.stalled_since_boot_ms,
            ..slice.live.clone()
        };
        self.0.values().map(live).collect()
    }

    /// An observation of a slice found no room on its way to the recorder. False for a slice that
    /// is not one of these.
    pub(super) fn count_missed(&mut self, uuid: &GpuUuid) -> bool {
        self.0.get_mut(uuid).map(|slice| slice.missed += 1).is_some()
    }

    /// Once a minute: what was missed and dropped since the last time.
    pub(super) fn flush(&mut self, now_ms: i64, out: &mut Effects) {
        self.0.values_mut().for_each(|slice| slice.flush(now_ms, out));
    }
}

impl Slice {
    fn new(found: Arc<FoundSlice>) -> Self {
        let live = LiveGpu::new(found.uuid.clone(), found.bus_id.clone());
        Self {
            live: LiveGpu { is_slice: true, ..live },
            found,
            last_at_ms: i64::MIN,
            last_point_ms: i64::MIN,
            missed: 0,
            implausible: Implausible::default(),
        }
    }

    fn uuid(&self) -> GpuUuid {
        self.found.uuid.clone()
    }

    fn observe(&mut self, read: SliceRead, cadence_ms: u32, out: &mut Effects) {
        if read.at_boot_ms <= self.last_at_ms {
            self.missed += 1;
            return;
        }
        self.last_at_ms = read.at_boot_ms;
        let readings = self.implausible.readings(read.readings);
        let points = self.implausible.points(read.points, &mut self.last_point_ms);
        self.live.at_boot_ms = Some(read.at_boot_ms);
        self.live.busy = points.last().map(|(_, busy)| *busy).or(self.live.busy);
        self.live.show(&readings);
        out.observe(Observation::Gpu(GpuObservation {
            uuid: self.uuid(),
            bus_id: self.found.bus_id.clone(),
            partition: Some(self.found.partition.clone()),
            at_boot_ms: read.at_boot_ms,
            readings,
            track: TrackObservation { source: TrackSource::Gpm, period_ms: cadence_ms, points },
        }));
    }

    fn flush(&mut self, now_ms: i64, out: &mut Effects) {
        let missed = std::mem::take(&mut self.missed);
        let missed = (missed > 0).then_some(EventKind::TicksMissed { count: missed });
        for kind in missed.into_iter().chain(self.implausible.take()) {
            out.event(now_ms, Some(self.uuid()), kind, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use leasewatch_core::id::BusId;
    use leasewatch_core::sample::{Metric, Reading};
    use leasewatch_core::segment::{GpuInventory, MigInstance, Partition};

    use super::super::watch::tests::{events, gpu, reads};
    use super::*;

    /// The slice of GPU instance `gpu_instance` of GPU 1, of so many compute slices.
    fn slice(gpu_instance: u8, slices: u8) -> Arc<FoundSlice> {
        let parent = gpu(1);
        let uuid = GpuUuid::new(&format!("MIG-{gpu_instance}")).unwrap();
        let instance = MigInstance { gpu_instance, compute_instance: 0 };
        let partition = Partition { parent: parent.uuid, instance, slices, slices_of: 7 };
        let inventory = GpuInventory {
            uuid: uuid.clone(),
            partition: Some(partition.clone()),
            ..parent.inventory
        };
        Arc::new(FoundSlice { uuid, bus_id: parent.bus_id, partition, inventory })
    }

    fn read(slice: &Arc<FoundSlice>, at_boot_ms: i64, busy: i64) -> SliceRead {
        SliceRead {
            slice: Arc::clone(slice),
            at_boot_ms,
            readings: vec![(Metric::MemoryUsed, Reading::Number(7))],
            points: vec![(at_boot_ms, Reading::Number(busy))],
        }
    }

    #[test]
    fn slices_are_seen_once_read_at_each_tick_and_removed_once() {
        let (mut slices, mut out) = (Slices::default(), Effects::default());
        let (a, b) = (slice(9, 1), slice(10, 1));
        slices.observe(1_000, (vec![read(&a, 1_002, 0), read(&b, 1_002, 40)], 1_000), &mut out);
        slices.observe(2_000, (vec![read(&a, 2_002, 3), read(&b, 2_002, 41)], 1_000), &mut out);
        let seen = |slice: &Arc<FoundSlice>| EventKind::GpuSeen(slice.inventory.clone());
        assert_eq!(events(&out), [seen(&a), seen(&b)]);
        let first: Vec<_> = reads(&out).into_iter().filter(|read| read.uuid == a.uuid).collect();
        assert_eq!(first[0].track.points, [(1_002, Reading::Number(0))], "idle is a number");
        assert_eq!(first[1].track.points, [(2_002, Reading::Number(3))]);
        assert_eq!(first[0].track.source, TrackSource::Gpm);
        assert_eq!(first[0].partition, Some(a.partition.clone()));
        let mut out = Effects::default();
        slices.observe(3_000, (vec![read(&b, 3_002, 40)], 1_000), &mut out);
        slices.observe(4_000, (Vec::new(), 1_000), &mut out);
        assert_eq!(events(&out), [EventKind::PartitionRemoved, EventKind::PartitionRemoved]);
        assert_eq!(slices.len(), 0);
    }

    #[test]
    fn a_slice_of_another_size_is_another_slice_even_under_the_same_name() {
        let (mut slices, mut out) = (Slices::default(), Effects::default());
        let (small, large) = (slice(9, 1), slice(9, 2));
        slices.observe(1_000, (vec![read(&small, 1_002, 5)], 1_000), &mut out);
        slices.observe(2_000, (vec![read(&large, 2_002, 5)], 1_000), &mut out);
        let seen = |slice: &Arc<FoundSlice>| EventKind::GpuSeen(slice.inventory.clone());
        assert_eq!(events(&out), [seen(&small), EventKind::PartitionRemoved, seen(&large)]);
    }

    #[test]
    fn what_cannot_be_is_an_error_and_counted_for_the_slice() {
        let (mut slices, mut out) = (Slices::default(), Effects::default());
        let a = slice(9, 1);
        slices.observe(1_000, (vec![read(&a, 1_002, 4_000)], 1_000), &mut out);
        assert_eq!(reads(&out)[0].track.points, [(1_002, Reading::Error)]);
        assert!(slices.count_missed(&a.uuid) && !slices.count_missed(&gpu(1).uuid));
        let mut out = Effects::default();
        slices.flush(60_000, &mut out);
        let dropped = EventKind::ReadingsDropped { metric: "busy_pct".to_owned(), count: 1 };
        assert_eq!(events(&out), [EventKind::TicksMissed { count: 1 }, dropped]);
    }

    #[test]
    fn a_lost_gpu_has_lost_slices_that_are_still_there() {
        let (mut slices, mut out) = (Slices::default(), Effects::default());
        slices.observe(1_000, (vec![read(&slice(9, 1), 1_002, 5)], 1_000), &mut out);
        let mut parent = LiveGpu::new(gpu(1).uuid, BusId::new("0:1").unwrap());
        assert_eq!(slices.live(&parent)[0].busy, Some(Reading::Number(5)));
        parent.lost = true;
        let live = slices.live(&parent);
        assert!(live[0].is_slice && live[0].lost && live[0].busy.is_none());
    }
}
