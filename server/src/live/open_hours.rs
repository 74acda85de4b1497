//! The snapshot of hours that are not over yet. The job `open_hours` writes it, pages read it.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use leasewatch_core::id::{NodeId, SlotNo};
use leasewatch_core::metering::HourRecord;
use leasewatch_core::time::Hour;

use super::Live;

/// Records of one node's open hour, by slot.
pub type OpenHour = Arc<Vec<(SlotNo, HourRecord)>>;

#[derive(Debug, Default)]
pub(super) struct OpenHours(RwLock<HashMap<NodeId, (Hour, OpenHour)>>);

impl Live {
    /// Replaces the open hour of a node.
    pub fn set_open_hour(&self, node: NodeId, hour: Hour, records: OpenHour) {
        let mut hours = self.open().0.write().unwrap_or_else(PoisonError::into_inner);
        hours.insert(node, (hour, records));
    }

    /// Forgets the open hours of all other nodes.
    pub fn retain_open_hours(&self, known: &[NodeId]) {
        let mut hours = self.open().0.write().unwrap_or_else(PoisonError::into_inner);
        hours.retain(|node, _| known.contains(node));
    }

    /// What was metered of `hour` so far; `None` when nothing was, or when the snapshot is of
    /// another hour.
    #[must_use]
    pub fn open_hour(&self, node: NodeId, hour: Hour) -> Option<OpenHour> {
        let hours = self.open().0.read().unwrap_or_else(PoisonError::into_inner);
        hours.get(&node).filter(|(of, _)| *of == hour).map(|(_, records)| Arc::clone(records))
    }
}
