//! What a lease had of one node in one hour, in one value: the row that pages add up.

use crate::id::SlotNo;
use crate::metering::HourProfile;
use crate::sample::Metric;
use crate::segment::Origin;

use super::measures::{MeasuredGpu, Measures, SlotTime, measure};
use super::straggler::clock_under_load;

/// One node and hour of a lease, or a part of the hour.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeHour {
    /// Its slots, added up.
    pub measures: Measures,
    /// Time in which the node was delivered: that of the GPU that was delivered longest.
    pub node_ms: i64,
    /// The least trustworthy source; `None`: nothing was measured.
    pub origin: Option<Origin>,
    /// By slot: the median SM clock of minutes under full load, in MHz, of GPUs of the model in the
    /// contract. `None`: no such minute.
    pub clocks_mhz: Vec<(SlotNo, i64)>,
    /// By slot: the most memory that was in use, in MiB.
    pub memory_peaks_mib: Vec<(SlotNo, i64)>,
}

impl NodeHour {
    /// Adds a slot of the node.
    pub fn add(&mut self, number: SlotNo, slot: &SlotTime<'_>) {
        let measures = measure(slot);
        if measures.contracted_ms == 0 {
            return;
        }
        self.node_ms = self.node_ms.max(measures.delivered_pct_ms / 100);
        self.measures.merge(&measures);
        self.origin = self.origin.max(slot.gpus.iter().map(|gpu| gpu.record.origin).max());
        let own = slot.gpus.iter().filter(|gpu| gpu.is_as_contracted);
        let profiles: Vec<&HourProfile> = own.filter_map(|gpu| gpu.profile).collect();
        self.clocks_mhz.extend(clock_under_load(&profiles).map(|clock| (number, clock)));
        let peak = slot.gpus.iter().filter_map(memory_peak).max();
        self.memory_peaks_mib.extend(peak.map(|peak| (number, peak)));
    }
}

fn memory_peak(gpu: &MeasuredGpu<'_>) -> Option<i64> {
    let metrics = &gpu.profile?.metrics;
    let (_, cells) = metrics.iter().find(|(metric, _)| *metric == Metric::MemoryUsed)?;
    cells.iter().flatten().map(|cell| cell.max).max()
}
