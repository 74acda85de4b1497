//! What the sampler tells the recorder, and what the live lane may look at.
//!
//! Times are milliseconds of CLOCK_BOOTTIME; only the recorder turns them into wall time, with the
//! anchor of [`crate::clock`]. Readings are rounded to their metric's resolution and checked
//! against its range before they get here. Nothing here decides what is recorded or sent.

use std::sync::{Arc, Mutex, PoisonError};

use leasewatch_core::id::{BusId, GpuUuid};
use leasewatch_core::sample::{HostMetric, Metric, Reading};
use leasewatch_core::segment::{EventKind, Partition, TrackSource};

/// Observations that may wait for the recorder. A full channel drops ticks and counts them; the
/// sampling threads never wait.
pub const CHANNEL_CAPACITY: usize = 4_096;

/// One thing that the sampler saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Observation {
    /// One GPU read at one tick.
    Gpu(GpuObservation),
    /// The host read at one tick of the slow lane.
    Host(HostObservation),
    /// Something happened.
    Event(EventObservation),
    /// A watermark, about once a second: every [`Observation::Gpu`], [`Observation::Host`] and
    /// [`Observation::Event`] of an instant at or before this one was sent. It trails the clock by
    /// a tick, and by up to five seconds more while a call is slow.
    TickEnd(i64),
}

/// Readings of one GPU, or of one slice of it, at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuObservation {
    /// The physical device, or the slice.
    pub uuid: GpuUuid,
    /// The place it sits in.
    pub bus_id: BusId,
    /// What it is a slice of; `None` for a whole GPU.
    pub partition: Option<Partition>,
    /// When it was read. Strictly ascending for each GPU.
    pub at_boot_ms: i64,
    /// Ascending by metric code, each at most once. A metric of the slow lane is absent at most
    /// ticks.
    pub readings: Vec<(Metric, Reading)>,
    /// Utilization.
    pub track: TrackObservation,
}

/// Points of a utilization track, in percent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrackObservation {
    /// The one source of this GPU's track in this epoch.
    pub source: TrackSource,
    /// The source's period.
    pub period_ms: u32,
    /// (boot ms at the end of the described window, busy), strictly ascending for each GPU over
    /// all observations. Empty when the driver has nothing new. Points of the driver's own samples
    /// lie between the last observation and this one, also a little before the last watermark: the
    /// driver hands them out late.
    pub points: Vec<(i64, Reading)>,
}

/// Readings of the host at one instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostObservation {
    /// When it was read. Strictly ascending.
    pub at_boot_ms: i64,
    /// Ascending by metric code, each at most once.
    pub readings: Vec<(HostMetric, Reading)>,
}

/// An event and how much of a hurry it is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventObservation {
    /// When it was seen. Never descending.
    pub at_boot_ms: i64,
    /// The GPU it is about.
    pub gpu: Option<GpuUuid>,
    /// What happened.
    pub kind: EventKind,
    /// True when the open segment should close early to carry it.
    pub urgent: bool,
}

/// The latest values of one GPU, for live frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveGpu {
    /// The physical device, or the slice.
    pub uuid: GpuUuid,
    /// The place it sits in.
    pub bus_id: BusId,
    /// True for a slice of a GPU.
    pub is_slice: bool,
    /// When it last answered; `None` before the first answer.
    pub at_boot_ms: Option<i64>,
    /// Its last utilization in percent; `None` before the first point.
    pub busy: Option<Reading>,
    /// The last reading of each metric that was read so far, ascending by metric code.
    pub readings: Vec<(Metric, Reading)>,
    /// Since when a call has not returned, once the watchdog gave it up.
    pub stalled_since_boot_ms: Option<i64>,
    /// True while NVML says that the GPU is lost or needs a reset, or no longer lists it.
    pub lost: bool,
}

impl LiveGpu {
    /// The last reading of each metric, with those of a newer read.
    pub(crate) fn show(&mut self, readings: &[(Metric, Reading)]) {
        for (metric, reading) in readings {
            match self.readings.binary_search_by_key(&metric.code(), |(other, _)| other.code()) {
                Ok(at) => self.readings[at].1 = *reading,
                Err(at) => self.readings.insert(at, (*metric, *reading)),
            }
        }
    }

    /// A GPU that has not answered yet.
    #[must_use]
    pub fn new(uuid: GpuUuid, bus_id: BusId) -> Self {
        Self {
            uuid,
            bus_id,
            is_slice: false,
            at_boot_ms: None,
            busy: None,
            readings: Vec::new(),
            stalled_since_boot_ms: None,
            lost: false,
        }
    }

    /// For how long its collector has been stalled; `None` while it is not.
    #[must_use]
    pub fn stalled_ms(&self, now_boot_ms: i64) -> Option<i64> {
        self.stalled_since_boot_ms.map(|since| now_boot_ms.saturating_sub(since).max(0))
    }
}

/// A copy of the latest values of the node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LiveSnapshot {
    /// When the sampler last ticked; `None` before the first tick.
    pub tick_boot_ms: Option<i64>,
    /// GPUs known in this epoch, lost ones included, ascending by bus id, each followed by its
    /// slices.
    pub gpus: Vec<LiveGpu>,
    /// When the host was last read.
    pub host_at_boot_ms: Option<i64>,
    /// Its last readings, ascending by metric code.
    pub host: Vec<(HostMetric, Reading)>,
    /// False while the NVML library is missing or does not initialise.
    pub nvml_available: bool,
}

/// The latest values of the node, shared between the sampler and the live lane. Held for the time
/// of a copy only, never over a call that can block.
#[derive(Debug, Clone, Default)]
pub struct LiveState(Arc<Mutex<LiveSnapshot>>);

impl LiveState {
    /// A copy of the latest values.
    #[must_use]
    pub fn snapshot(&self) -> LiveSnapshot {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the values; only the sampler does.
    pub(crate) fn update(&self, change: impl FnOnce(&mut LiveSnapshot)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
