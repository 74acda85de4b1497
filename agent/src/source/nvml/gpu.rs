//! The reader of one GPU: a fast lane at each tick, a slow lane on top of it every few ticks.
//!
//! It answers with readings in base units, neither rounded nor checked for plausibility. A call
//! that fails gives a typed reason, never a number. Calls that the GPU does not support are asked
//! again every few minutes only.

mod permanent;
mod slices;
mod slow;

use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::TrackSource;
use nvml_wrapper::enum_wrappers::device::{Clock, PerformanceState, Sampling, TemperatureSensor};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::{Device, GpmSample};

use super::failure::{Failure, NOT_FOUND};
use super::field::{Numbering, low_63_bits};
use super::inventory::is_mig_enabled;
use super::track::{ClockMap, DriverSample, TrackPlan, TrackSlot, plan_from, points_of};
use super::{FoundGpu, checked};
use crate::clock;
use crate::source::nvml_raw;
use permanent::Permanent;
use slices::Slices;

pub use slices::{FoundSlice, SliceRead};

/// What is read at each tick beside the track, ascending by code.
pub const FAST_LANE: [Metric; 8] = [
    Metric::MemoryBusy,
    Metric::MemoryUsed,
    Metric::PowerDraw,
    Metric::Temperature,
    Metric::SmClock,
    Metric::MemoryClock,
    Metric::ClockEventReasons,
    Metric::PerformanceState,
];

/// How much is read at a tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lane {
    /// [`FAST_LANE`] and the track.
    Fast,
    /// Everything.
    Slow,
}

/// What a reader may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions {
    /// Time between ticks, the period of a polled track.
    pub cadence_ms: u32,
    /// Take the driver's own samples as the track where they are good enough.
    pub driver_samples: bool,
    /// Count compute processes. Off by default: it tells something about the tenant's work.
    pub process_counts: bool,
}

/// Everything that one read gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuRead {
    /// The instant after the utilization was read.
    pub at_boot_ms: i64,
    /// Ascending by code.
    pub readings: Vec<(Metric, Reading)>,
    /// The source of `points`.
    pub plan: TrackPlan,
    /// New points of the track.
    pub points: Vec<(i64, Reading)>,
    /// The slices that the GPU is cut into, each read; `None` when NVML did not say which.
    pub slices: Option<Vec<SliceRead>>,
}

/// Why a GPU gives no readings at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// It fell off or needs a reset; NVML's code.
    Lost(u32),
    /// The driver is gone; NVML's code.
    NoDriver(u32),
}

/// The reader of one GPU. One thread uses it.
#[derive(Debug)]
pub struct GpuReader<'nvml> {
    device: Device<'nvml>,
    numbering: Numbering,
    options: ReadOptions,
    track: TrackSlot,
    permanent: Permanent,
    mig: bool,
    last_sample_us: u64,
    clock_map: Option<ClockMap>,
    last_point_ms: i64,
    gpm: Option<GpmSample<'nvml>>,
    nvlink_links: Option<u32>,
    slices: Slices<'nvml>,
}

impl<'nvml> GpuReader<'nvml> {
    pub(super) fn new(
        (gpu, device): (&FoundGpu, Device<'nvml>),
        numbering: Numbering,
        track: TrackSlot,
        options: ReadOptions,
    ) -> Self {
        Self {
            slices: Slices::new(gpu, options.cadence_ms),
            mig: is_mig_enabled(&device),
            device,
            numbering,
            options,
            track,
            permanent: Permanent::default(),
            last_sample_us: 0,
            clock_map: None,
            last_point_ms: i64::MIN,
            gpm: None,
            nvlink_links: None,
        }
    }

    /// Reads one lane.
    ///
    /// # Errors
    /// [`Gone`] when a call of the fast lane says that the GPU is lost, or any call that the
    /// driver is.
    pub fn read(&mut self, lane: Lane) -> Result<GpuRead, Gone> {
        let (busy, memory_busy) = self.utilization()?;
        let at_boot_ms = clock::boot_ms();
        let (plan, points) = self.track_points(at_boot_ms, busy)?;
        let mut readings = Vec::with_capacity(48);
        readings.push((Metric::MemoryBusy, memory_busy));
        self.fast(&mut readings)?;
        if lane == Lane::Slow {
            self.slow(&mut readings)?;
        }
        readings.sort_unstable_by_key(|(metric, _)| metric.code());
        let slices = self.read_slices(lane)?;
        Ok(GpuRead { at_boot_ms, readings, plan, points, slices })
    }

    fn read_slices(&mut self, lane: Lane) -> Result<Option<Vec<SliceRead>>, Gone> {
        if self.mig {
            return self.slices.read(&self.device, lane);
        }
        self.slices.clear();
        Ok(Some(Vec::new()))
    }

    fn fast(&mut self, out: &mut Vec<(Metric, Reading)>) -> Result<(), Gone> {
        self.take(out, Metric::MemoryUsed, |device| {
            checked(device.memory_info()).map(|memory| mib(memory.used))
        })?;
        self.take(out, Metric::PowerDraw, |device| checked(device.power_usage()).map(i64::from))?;
        self.take(out, Metric::Temperature, |device| {
            checked(device.temperature(TemperatureSensor::Gpu)).map(i64::from)
        })?;
        self.take(out, Metric::SmClock, |device| {
            checked(device.clock_info(Clock::SM)).map(i64::from)
        })?;
        self.take(out, Metric::MemoryClock, |device| {
            checked(device.clock_info(Clock::Memory)).map(i64::from)
        })?;
        self.take(out, Metric::ClockEventReasons, |device| {
            nvml_raw::clock_event_reasons(device).map(low_63_bits).map_err(Failure::from_code)
        })?;
        self.take(out, Metric::PerformanceState, |device| {
            match checked(device.performance_state())? {
                PerformanceState::Unknown => Err(Failure::Failed(999)),
                state => Ok(i64::from(state.as_c())),
            }
        })
    }

    /// Makes one call for one metric, unless it is known to be pointless at present.
    fn take(
        &mut self,
        out: &mut Vec<(Metric, Reading)>,
        metric: Metric,
        call: impl FnOnce(&Device<'nvml>) -> Result<i64, Failure>,
    ) -> Result<(), Gone> {
        let now = clock::boot_ms();
        if self.permanent.holds(metric, now) {
            out.push((metric, Reading::Unsupported));
            return Ok(());
        }
        let reading = match call(&self.device) {
            Ok(number) => Reading::Number(number),
            Err(failure) => {
                if failure.is_permanent() {
                    self.permanent.remember(metric, now);
                }
                present(failure)?
            }
        };
        out.push((metric, reading));
        Ok(())
    }

    /// Busy shares of GPU and memory. In MIG mode the driver has none; some versions say 0.
    fn utilization(&self) -> Result<(Reading, Reading), Gone> {
        if self.mig {
            // Still ask, so that a lost GPU is noticed.
            if let Err(failure) = checked(self.device.temperature(TemperatureSensor::Gpu)) {
                present(failure)?;
            }
            return Ok((Reading::Unsupported, Reading::Unsupported));
        }
        match checked(self.device.utilization_rates()) {
            Ok(rates) => {
                let number = |share: u32| Reading::Number(i64::from(share));
                Ok((number(rates.gpu), number(rates.memory)))
            }
            Err(failure) => present(failure).map(|reading| (reading, reading)),
        }
    }

    fn track_points(
        &mut self,
        at_boot_ms: i64,
        busy: Reading,
    ) -> Result<(TrackPlan, Vec<(i64, Reading)>), Gone> {
        let plan = match self.track.get() {
            Some(plan) => *plan,
            None => {
                let plan = self.probe();
                *self.track.get_or_init(|| plan)
            }
        };
        let points = match plan.source {
            TrackSource::DriverSamples if !self.mig => self.driver_points(at_boot_ms)?,
            _ => vec![(at_boot_ms, busy)],
        };
        if let Some((at, _)) = points.last() {
            self.last_point_ms = *at;
        }
        Ok((plan, points))
    }

    fn probe(&self) -> TrackPlan {
        let poll = TrackPlan::poll(self.options.cadence_ms);
        if !self.options.driver_samples || self.mig {
            return poll;
        }
        let now_us = u64::try_from(clock::wall().0).unwrap_or(0).saturating_mul(1_000);
        self.samples().ok().and_then(|samples| plan_from(&samples, now_us)).unwrap_or(poll)
    }

    /// The driver's samples since the last read. Nothing new is no point, not an error.
    fn driver_points(&mut self, at_boot_ms: i64) -> Result<Vec<(i64, Reading)>, Gone> {
        match self.samples() {
            Ok(samples) => {
                let map = ClockMap::at(self.clock_map, clock::boot_us(), clock::wall_us());
                self.clock_map = Some(map);
                // What was buffered before this reader belongs to a time in which the agent did
                // not observe; the newest sample of the first read stands for it.
                let samples = match self.last_sample_us {
                    0 => samples.get(samples.len().saturating_sub(1)..).unwrap_or_default(),
                    _ => &samples[..],
                };
                if let Some(newest) = samples.last() {
                    self.last_sample_us = newest.at_us;
                }
                Ok(points_of(samples, map, self.last_point_ms))
            }
            Err(Failure::Failed(NOT_FOUND)) => Ok(Vec::new()),
            Err(failure) => Ok(vec![(at_boot_ms, present(failure)?)]),
        }
    }

    fn samples(&self) -> Result<Vec<DriverSample>, Failure> {
        let samples = checked(self.device.samples(Sampling::GpuUtilization, self.last_sample_us))?;
        Ok(samples
            .into_iter()
            .map(|sample| DriverSample {
                at_us: sample.timestamp,
                busy: match sample.value {
                    SampleValue::U32(value) => Some(i64::from(value)),
                    SampleValue::U64(value) => i64::try_from(value).ok(),
                    SampleValue::I64(value) => Some(value),
                    SampleValue::F64(_) => None,
                },
            })
            .collect())
    }
}

/// The reading of a failed call of a GPU that is there; otherwise why it is gone.
fn present(failure: Failure) -> Result<Reading, Gone> {
    match failure {
        Failure::Lost(code) => Err(Gone::Lost(code)),
        Failure::NoDriver(code) => Err(Gone::NoDriver(code)),
        Failure::Unsupported | Failure::Failed(_) => Ok(failure.reading()),
    }
}

/// Bytes as whole MiB.
fn mib(bytes: u64) -> i64 {
    i64::try_from(bytes >> 20).unwrap_or(i64::MAX)
}
