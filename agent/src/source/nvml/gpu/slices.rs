//! The slices of a GPU in MIG mode, read by the thread of that GPU.
//!
//! NVML has no utilization of a slice. Where the hardware offers GPM, two samples of a GPU instance
//! give the share of the time between them in which graphics or compute work ran, and that is the
//! slice's track. A GPU instance that is cut into several compute instances is one thing to GPM, so
//! none of them has a utilization: it is never shared out. Not here: what a slice that came or went
//! means.

use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

use leasewatch_core::id::{BusId, GpuUuid};
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::{GpuInventory, MigInstance, Partition};
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::gpm::gpm_metrics_get;
use nvml_wrapper::{Device, GpmSample};

use super::slow::{GPM, permille, rounded};
use super::{Gone, Lane, mib};
use crate::clock;
use crate::source::nvml::failure::{Failure, NOT_FOUND};
use crate::source::nvml::{FoundGpu, SLICE_PREFIX, checked, inventory};
use crate::source::nvml_raw;

/// More slices than any GPU has; bounds the loop over what the driver claims.
const SLICES_MAX: u32 = 32;
/// A sample that is older than this, or than three periods, says too little about a moment.
const SAMPLE_AGE_MS: i64 = 3_000;

/// A slice that NVML lists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundSlice {
    /// The slice.
    pub uuid: GpuUuid,
    /// The place of its parent.
    pub bus_id: BusId,
    /// What it is a slice of.
    pub partition: Partition,
    /// What the driver says about it.
    pub inventory: GpuInventory,
}

/// What one read gave of one slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceRead {
    /// The slice.
    pub slice: Arc<FoundSlice>,
    /// The instant after its GPM sample was taken.
    pub at_boot_ms: i64,
    /// Ascending by code.
    pub readings: Vec<(Metric, Reading)>,
    /// New points of the track, whose period is the cadence. None at the first sample.
    pub points: Vec<(i64, Reading)>,
}

#[derive(Debug)]
struct Listed<'nvml> {
    found: Arc<FoundSlice>,
    device: Device<'nvml>,
}

#[derive(Debug)]
struct Taken<'nvml> {
    at_boot_ms: i64,
    sample: GpmSample<'nvml>,
}

/// The last samples of a GPU instance: of the last tick, and of the last read of the slow lane.
#[derive(Debug, Default)]
struct Samples<'nvml> {
    tick: Option<Rc<Taken<'nvml>>>,
    slow: Option<Rc<Taken<'nvml>>>,
}

/// What GPM says of a GPU instance at one read.
#[derive(Debug, Clone, Default)]
struct Activity {
    at_boot_ms: i64,
    busy: Option<Reading>,
    /// Readings of the slow lane.
    readings: Vec<(Metric, Reading)>,
}

/// The slices of one GPU, and what is needed to read them.
#[derive(Debug)]
pub(super) struct Slices<'nvml> {
    parent: (GpuUuid, BusId),
    cadence_ms: u32,
    listed: Vec<Listed<'nvml>>,
    /// Samples by GPU instance.
    samples: BTreeMap<u8, Samples<'nvml>>,
    is_gpm_offered: Result<bool, Failure>,
    /// False when the list has to be asked for before the next read.
    is_current: bool,
}

impl<'nvml> Slices<'nvml> {
    pub(super) fn new(parent: &FoundGpu, cadence_ms: u32) -> Self {
        Self {
            parent: (parent.uuid.clone(), parent.bus_id.clone()),
            cadence_ms,
            listed: Vec::new(),
            samples: BTreeMap::new(),
            is_gpm_offered: Ok(false),
            is_current: false,
        }
    }

    /// All slices, read once; `None` when NVML does not say which there are. The list is asked for
    /// with the slow lane, and when a handle of it fails.
    ///
    /// # Errors
    /// [`Gone`] when the driver is gone.
    pub(super) fn read(
        &mut self,
        card: &Device<'nvml>,
        lane: Lane,
    ) -> Result<Option<Vec<SliceRead>>, Gone> {
        let mut may_list = true;
        loop {
            if may_list && (lane == Lane::Slow || !self.is_current) {
                may_list = false;
                if !self.list(card)? {
                    return Ok(None);
                }
            }
            let activities = self.activities(card, lane)?;
            let reads = self.reads(&activities, lane)?;
            match reads {
                Some(reads) => return Ok(Some(reads)),
                None if may_list => self.is_current = false,
                None => return Ok(None),
            }
        }
    }

    /// MIG mode is off: there are none.
    pub(super) fn clear(&mut self) {
        self.listed.clear();
        self.samples.clear();
        self.is_current = false;
    }

    /// Asks which slices there are. False when NVML does not say.
    fn list(&mut self, card: &Device<'nvml>) -> Result<bool, Gone> {
        let (listed, most) = match listed(card) {
            Ok(listed) => listed,
            Err(Failure::Unsupported) => (Vec::new(), 0),
            Err(Failure::NoDriver(code)) => return Err(Gone::NoDriver(code)),
            Err(Failure::Failed(_) | Failure::Lost(_)) => {
                self.is_current = false;
                return Ok(false);
            }
        };
        let numbered = listed.into_iter();
        self.listed = numbered
            .filter_map(|(index, device)| {
                let found = found(&self.parent, &device, (index, most));
                found.map(|found| Listed { found: Arc::new(found), device })
            })
            .collect();
        let instances: Vec<u8> = self.listed.iter().map(Listed::gpu_instance).collect();
        self.samples.retain(|instance, _| instances.contains(instance));
        self.is_gpm_offered = checked(card.gpm_support());
        self.is_current = true;
        Ok(true)
    }

    /// Takes a sample of each GPU instance, all at nearly one time.
    fn activities(
        &mut self,
        card: &Device<'nvml>,
        lane: Lane,
    ) -> Result<BTreeMap<u8, Activity>, Gone> {
        let mut activities = BTreeMap::new();
        for listed in &self.listed {
            let instance = listed.gpu_instance();
            if activities.contains_key(&instance) {
                continue;
            }
            let taken = match self.is_gpm_offered {
                Ok(true) if !self.is_shared(instance) => {
                    checked(card.gpm_mig_sample(u32::from(instance)))
                }
                Ok(_) => Err(Failure::Unsupported),
                Err(failure) => Err(failure),
            };
            let at_boot_ms = clock::boot_ms();
            let activity = match taken {
                Ok(sample) => {
                    let samples = self.samples.entry(instance).or_default();
                    let taken = Rc::new(Taken { at_boot_ms, sample });
                    samples.next(card, taken, (lane, self.cadence_ms))
                }
                Err(Failure::NoDriver(code)) => return Err(Gone::NoDriver(code)),
                Err(failure) => {
                    self.samples.remove(&instance);
                    Activity::missing(at_boot_ms, lane, failure.reading())
                }
            };
            activities.insert(instance, activity);
        }
        Ok(activities)
    }

    /// True when GPM cannot tell the slices of a GPU instance apart.
    fn is_shared(&self, instance: u8) -> bool {
        self.listed.iter().filter(|listed| listed.gpu_instance() == instance).count() > 1
    }

    /// The slices' reads; `None` when a handle names nothing any more.
    fn reads(
        &self,
        activities: &BTreeMap<u8, Activity>,
        lane: Lane,
    ) -> Result<Option<Vec<SliceRead>>, Gone> {
        let mut reads = Vec::with_capacity(self.listed.len());
        for Listed { found, device } in &self.listed {
            let memory = checked(device.memory_info());
            match memory {
                Err(Failure::NoDriver(code)) => return Err(Gone::NoDriver(code)),
                Err(Failure::Failed(_)) => return Ok(None),
                Ok(_) | Err(Failure::Unsupported | Failure::Lost(_)) => {}
            }
            let instance = found.partition.instance.gpu_instance;
            let activity = activities.get(&instance).cloned().unwrap_or_default();
            let value = |number: fn(&nvml_wrapper::struct_wrappers::device::MemoryInfo) -> u64| {
                memory.as_ref().map_or_else(|f| f.reading(), |m| Reading::Number(mib(number(m))))
            };
            let mut readings = vec![(Metric::MemoryUsed, value(|memory| memory.used))];
            if lane == Lane::Slow {
                readings.push((Metric::MemoryTotal, value(|memory| memory.total)));
                readings.push((Metric::MemoryReserved, value(|memory| memory.reserved)));
            }
            readings.extend(activity.readings);
            let at_boot_ms = activity.at_boot_ms;
            let points = activity.busy.map(|busy| (at_boot_ms, busy)).into_iter().collect();
            let slice = Arc::clone(found);
            reads.push(SliceRead { slice, at_boot_ms, readings, points });
        }
        Ok(Some(reads))
    }
}

impl Listed<'_> {
    fn gpu_instance(&self) -> u8 {
        self.found.partition.instance.gpu_instance
    }
}

impl Activity {
    fn missing(at_boot_ms: i64, lane: Lane, reading: Reading) -> Self {
        let slow = GPM.iter().filter(|_| lane == Lane::Slow);
        let readings = slow.map(|(metric, _)| (*metric, reading)).collect();
        Self { at_boot_ms, busy: Some(reading), readings }
    }
}

impl<'nvml> Samples<'nvml> {
    /// Takes the next sample in: the track since the last tick, and with the slow lane the rest
    /// since the last slow read. Of a first sample, or one after a long pause, nothing is known.
    fn next(
        &mut self,
        card: &Device<'nvml>,
        taken: Rc<Taken<'nvml>>,
        (lane, cadence_ms): (Lane, u32),
    ) -> Activity {
        let mut activity = Activity { at_boot_ms: taken.at_boot_ms, ..Activity::default() };
        let oldest_ms = taken.at_boot_ms - SAMPLE_AGE_MS.max(3 * i64::from(cadence_ms));
        let before = self.tick.replace(Rc::clone(&taken));
        if let Some(before) = before.filter(|before| before.at_boot_ms >= oldest_ms) {
            let [busy] = between(card, (&before, &taken), [GpmMetricId::GraphicsUtil], percent);
            activity.busy = Some(busy);
        }
        if lane == Lane::Slow
            && let Some(before) = self.slow.replace(Rc::clone(&taken))
        {
            let ids = GPM.map(|(_, id)| id);
            let readings = between(card, (&before, &taken), ids, permille);
            activity.readings = GPM.iter().map(|(metric, _)| *metric).zip(readings).collect();
        }
        activity
    }
}

/// Metrics between two samples of one GPU instance.
fn between<const N: usize>(
    card: &Device<'_>,
    (before, after): (&Taken<'_>, &Taken<'_>),
    ids: [GpmMetricId; N],
    reading: fn(f64) -> Reading,
) -> [Reading; N] {
    match checked(gpm_metrics_get(card.nvml(), &before.sample, &after.sample, &ids)) {
        Ok(answers) => {
            let mut readings = [Reading::Error; N];
            for (place, answer) in readings.iter_mut().zip(answers) {
                *place =
                    checked(answer).map_or_else(Failure::reading, |found| reading(found.value));
            }
            readings
        }
        Err(failure) => [failure.reading(); N],
    }
}

/// GPM's percent as a whole number; what is no percent is counted by whoever records it.
fn percent(percent: f64) -> Reading {
    rounded(percent)
}

/// Handles of all slices with their indices, and how many there can be.
fn listed<'nvml>(card: &Device<'nvml>) -> Result<(Vec<(u32, Device<'nvml>)>, u32), Failure> {
    let most = checked(card.mig_device_count())?.min(SLICES_MAX);
    let mut devices = Vec::new();
    for index in 0..most {
        match checked(card.mig_device_by_index(index)) {
            Ok(device) => devices.push((index, device)),
            // A hole: the slice that had this index is gone.
            Err(Failure::Failed(NOT_FOUND)) => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok((devices, most))
}

/// Who a slice is. One that does not tell its name, its instances or its size cannot be recorded.
fn found(
    (parent, bus_id): &(GpuUuid, BusId),
    device: &Device<'_>,
    (index, most): (u32, u32),
) -> Option<FoundSlice> {
    let uuid = device.uuid().ok().filter(|uuid| uuid.starts_with(SLICE_PREFIX));
    let uuid = uuid.and_then(|uuid| GpuUuid::new(&uuid).ok());
    let (gpu_instance, compute_instance) = nvml_raw::mig_instance(device).ok()?;
    let small = |number: u32| u8::try_from(number).ok();
    let slices = device.attributes().ok().and_then(|a| small(a.compute_instance_slice_count));
    let partition = Partition {
        parent: parent.clone(),
        instance: MigInstance {
            gpu_instance: small(gpu_instance)?,
            compute_instance: small(compute_instance)?,
        },
        slices: slices.unwrap_or(0),
        slices_of: small(most)?,
    };
    let is_share = (1..=partition.slices_of).contains(&partition.slices);
    let Some(uuid) = uuid.filter(|uuid| is_share && uuid != parent) else {
        tracing::warn!(gpu.uuid = %parent, slice.index = index, "a slice has no usable name or size; not read");
        return None;
    };
    let inventory = inventory::of_slice((&uuid, bus_id), device, index, partition.clone());
    Some(FoundSlice { uuid, bus_id: bus_id.clone(), partition, inventory })
}
