//! What a capture says about one GPU, at any instant of it.
//!
//! Pure. A reading describes the time up to its tick, so an instant is answered by the first
//! reading at or after it, as metering weighs it. Where nothing was recorded, nothing is known: the
//! card answers "unknown error", and no earlier value stands in.

use std::collections::BTreeMap;

use leasewatch_core::id::{BusId, GpuUuid};
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::GpuInventory;

use super::slices::Slice;

/// NVML's code for a value that a card does not offer, and for what was not recorded at all.
const NOT_SUPPORTED: u32 = 3;
/// NVML's code for a call that did not return in time.
const TIMEOUT: u32 = 10;
/// NVML's code for a call that failed, and for time in which nothing was recorded.
const UNKNOWN: u32 = 999;

/// The recording of one GPU. Times are milliseconds since 1970.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) uuid: GpuUuid,
    pub(crate) bus_id: BusId,
    /// What it said of itself first; `None` when the capture has no such event.
    pub(crate) inventory: Option<GpuInventory>,
    /// Ascending, apart from each other.
    pub(super) runs: Vec<Run>,
    pub(super) metrics: BTreeMap<Metric, Vec<Held>>,
    pub(super) busy: Vec<Held>,
    /// Every point of the driver's own samples; empty where utilization was polled.
    pub(super) points: Vec<(i64, Reading)>,
    pub(super) absences: Vec<Absence>,
    /// Ascending.
    pub(super) incidents: Vec<(i64, Incident)>,
    /// Every slice that it had.
    pub(super) slices: Vec<Slice>,
}

/// A stretch that was recorded without a gap: after `from_ms`, up to and with `until_ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) from_ms: i64,
    pub(super) until_ms: i64,
}

/// A reading that holds up to and with `until_ms`, from where the one before ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) until_ms: i64,
    pub(super) reading: Reading,
}

/// Time in which the GPU, or the driver, was not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Absence {
    pub(super) from_ms: i64,
    pub(super) until_ms: i64,
    pub(super) kind: AbsenceKind,
}

/// What was not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AbsenceKind {
    /// The GPU fell off; NVML's code.
    Lost(u32),
    /// The GPU was not listed.
    Missing,
    /// NVML did not initialise; its code.
    NoDriver(u32),
}

/// Something that a driver tells whoever registered for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Incident {
    Xid(u64),
    EccUncorrected,
}

impl Recording {
    /// The reading of a metric at an instant, or NVML's code for why there is none.
    pub(crate) fn reading(&self, metric: Metric, at_ms: i64) -> Result<i64, u32> {
        match self.metrics.get(&metric) {
            Some(held) => self.held(held, at_ms),
            None => self.stated(metric).ok_or(NOT_SUPPORTED),
        }
    }

    /// Utilization in percent at an instant.
    pub(crate) fn busy(&self, at_ms: i64) -> Result<i64, u32> {
        if self.busy.is_empty() { Err(NOT_SUPPORTED) } else { self.held(&self.busy, at_ms) }
    }

    /// True when a number of its utilization was recorded.
    pub(crate) fn is_busy_known(&self) -> bool {
        self.busy.iter().any(|held| held.reading.number().is_some())
    }

    /// True while no call returned: nothing came for utilization, not even an error.
    pub(crate) fn hangs(&self, at_ms: i64) -> bool {
        self.busy(at_ms) == Err(TIMEOUT)
    }

    /// True when it told its serial number.
    pub(crate) fn has_serial(&self) -> bool {
        self.inventory.as_ref().is_some_and(|seen| seen.serial.is_some())
    }

    /// True when at least one number of a metric was recorded.
    pub(crate) fn offers(&self, metric: Metric) -> bool {
        self.highest(metric).is_some()
    }

    /// The highest number of a metric in the whole recording.
    pub(crate) fn highest(&self, metric: Metric) -> Option<i64> {
        self.metrics.get(&metric)?.iter().filter_map(|held| held.reading.number()).max()
    }

    /// The code that every call fails with at an instant, if it does.
    pub(crate) fn refusal(&self, at_ms: i64) -> Option<u32> {
        const GPU_IS_LOST: u32 = 15;
        self.absence(at_ms).map(|kind| match kind {
            AbsenceKind::Lost(code) | AbsenceKind::NoDriver(code) => code,
            AbsenceKind::Missing => GPU_IS_LOST,
        })
    }

    /// False when NVML does not list the GPU if it is initialised at this instant.
    pub(crate) fn is_listed(&self, at_ms: i64) -> bool {
        self.absence(at_ms) != Some(AbsenceKind::Missing)
    }

    /// The code with which NVML refuses to be initialised at this instant.
    pub(crate) fn init_refusal(&self, at_ms: i64) -> Option<u32> {
        match self.absence(at_ms) {
            Some(AbsenceKind::NoDriver(code)) => Some(code),
            _ => None,
        }
    }

    /// Points of the driver's own samples before an instant, oldest first.
    pub(super) fn driver_points(&self, before_ms: i64) -> Option<&[(i64, Reading)]> {
        let end = self.points.partition_point(|(at_ms, _)| *at_ms < before_ms);
        (!self.points.is_empty()).then(|| &self.points[..end])
    }

    /// What happened after `from_ms`, up to and with `until_ms`.
    pub(super) fn incidents(&self, from_ms: i64, until_ms: i64) -> Vec<Incident> {
        let from = self.incidents.partition_point(|(at_ms, _)| *at_ms <= from_ms);
        let within = self.incidents[from..].iter().take_while(|(at_ms, _)| *at_ms <= until_ms);
        within.map(|(_, incident)| *incident).collect()
    }

    /// After its last reading in a run, a metric of the slow lane is as it was read last: the card
    /// answered and was not asked.
    fn held(&self, held: &[Held], at_ms: i64) -> Result<i64, u32> {
        let run = self.run(at_ms).ok_or(UNKNOWN)?;
        let next = held.partition_point(|held| held.until_ms < at_ms);
        let after = held.get(next).filter(|held| held.until_ms <= run.until_ms);
        let before = || held[..next].last().filter(|held| held.until_ms > run.from_ms);
        match after.or_else(before).ok_or(UNKNOWN)?.reading {
            Reading::Number(number) => Ok(number),
            Reading::Unsupported => Err(NOT_SUPPORTED),
            Reading::Error => Err(UNKNOWN),
            Reading::Stale => Err(TIMEOUT),
        }
    }

    fn run(&self, at_ms: i64) -> Option<Run> {
        let at = self.runs.partition_point(|run| run.until_ms < at_ms);
        self.runs.get(at).copied().filter(|run| run.from_ms < at_ms)
    }

    /// What the GPU said of itself where its blocks hold no reading of it.
    fn stated(&self, metric: Metric) -> Option<i64> {
        let inventory = self.inventory.as_ref()?;
        match metric {
            Metric::MemoryTotal => inventory.memory_total_mib,
            Metric::PowerLimitDefault => inventory.power_limit_default_mw,
            Metric::PowerLimitManagement => inventory.power_limit_management_mw,
            _ => None,
        }
    }

    fn absence(&self, at_ms: i64) -> Option<AbsenceKind> {
        let holds = |absence: &&Absence| absence.from_ms < at_ms && at_ms <= absence.until_ms;
        self.absences.iter().find(holds).map(|absence| absence.kind)
    }
}
