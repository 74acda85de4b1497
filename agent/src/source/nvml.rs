//! GPUs through NVML: one initialised library, the devices it lists, and their readers.
//!
//! The only place that knows `nvml-wrapper`. Devices are named by UUID and PCI bus id, never by
//! index: the order changes over reboots. Any call here can block for as long as the driver
//! likes, so callers give each GPU a thread of its own and never wait for one.

mod attached;
mod event;
mod failure;
mod field;
mod gpu;
mod inventory;
mod settings;
mod track;
mod wiring;

use std::ffi::OsStr;
use std::sync::Arc;

use leasewatch_core::id::{BusId, GpuUuid, clean_text};
use leasewatch_core::segment::{GpuInventory, Origin};
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::{Device, Nvml};

use super::{Source, nvml_raw};

pub use attached::attached_gpus;
pub use event::watch_xids;
pub use failure::{Failure, GPU_NOT_FOUND};
pub use field::Numbering;
pub use gpu::{FAST_LANE, FoundSlice, Gone, GpuRead, GpuReader, Lane, ReadOptions, SliceRead};
pub use settings::{
    Answer, ComputeMode, EccMode, GpuProcess, NvlinkLink, RetiredPages, Settings, Virtualization,
    code_text,
};
pub use track::{TrackPlan, TrackSlot};

/// How NVML's names of MIG slices begin. Older drivers name them after their parent, in a form
/// that no id takes; such slices have no utilization either.
pub const SLICE_PREFIX: &str = "MIG-";

/// Why the library cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// Missing, not initialised, or at odds with the driver.
    #[error("NVML is not available (code {0})")]
    Unavailable(u32),
    /// A node has one origin for its life: neither may the simulator stand in for a driver, nor
    /// a driver for the simulator.
    #[error("the NVML library is {found:?}, but this node's data is {expected:?}")]
    Origin {
        /// What the node was enrolled as.
        expected: Origin,
        /// What the library is now.
        found: Origin,
    },
}

impl OpenError {
    /// NVML's code for events: a library of the wrong origin counts as one that was not found.
    #[must_use]
    pub fn code(self) -> u32 {
        match self {
            Self::Unavailable(code) => code,
            Self::Origin { .. } => 12,
        }
    }
}

/// Versions as the driver tells them; empty where it does not.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Versions {
    /// `580.82.07`.
    pub driver: String,
    /// `13.580.82.07`.
    pub nvml: String,
    /// `13.0`.
    pub cuda: String,
}

/// A GPU that NVML lists and that answered to its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundGpu {
    /// NVML's index in this session; only good for finding the handle again.
    pub index: u32,
    /// The physical device.
    pub uuid: GpuUuid,
    /// The place it sits in.
    pub bus_id: BusId,
    /// What the driver says about it.
    pub inventory: GpuInventory,
}

/// One initialisation of the library. Dropping it shuts NVML down, which can block as well.
#[derive(Debug)]
pub struct Session {
    nvml: Nvml,
    versions: Versions,
    numbering: Numbering,
}

impl Session {
    /// Loads and initialises the library.
    ///
    /// # Errors
    /// [`OpenError`] when it is missing, does not initialise, or has another origin than
    /// `source`.
    pub fn open(source: &Source) -> Result<Arc<Self>, OpenError> {
        let path: &OsStr = source.library().as_os_str();
        let nvml = Nvml::builder()
            .lib_path(path)
            .init()
            .map_err(|error| OpenError::Unavailable(nvml_raw::code_of(error)))?;
        let found =
            if nvml_raw::is_simulated(&nvml) { Origin::Simulated } else { Origin::Measured };
        if found != source.origin() {
            return Err(OpenError::Origin { expected: source.origin(), found });
        }
        let versions = versions(&nvml);
        let numbering = Numbering::of_driver(&versions.driver);
        Ok(Arc::new(Self { nvml, versions, numbering }))
    }

    /// What the driver says about itself.
    #[must_use]
    pub fn versions(&self) -> &Versions {
        &self.versions
    }

    /// How many GPUs the driver lists, those included that the agent may not open.
    ///
    /// # Errors
    /// [`Failure`] of the one call.
    pub fn device_count(&self) -> Result<u32, Failure> {
        checked(self.nvml.device_count())
    }

    /// Name, place and inventory of the GPU at `index`.
    ///
    /// # Errors
    /// [`Failure`] when the GPU does not open or does not tell its UUID and bus id. Anything else
    /// that it does not tell is absent from the inventory.
    pub fn identify(&self, index: u32) -> Result<FoundGpu, Failure> {
        inventory::identify(&checked(self.nvml.device_by_index(index))?, index)
    }

    /// The handle of the GPU that was found at `index`, or wherever it is listed now.
    fn device(&self, gpu: &FoundGpu) -> Result<Device<'_>, Failure> {
        let by_index = checked(self.nvml.device_by_index(gpu.index));
        match by_index {
            Ok(device) if device.uuid().is_ok_and(|uuid| uuid == gpu.uuid.as_str()) => Ok(device),
            _ => checked(self.nvml.device_by_uuid(gpu.uuid.as_str())),
        }
    }

    /// A reader of one GPU.
    ///
    /// # Errors
    /// [`Failure`] when its handle cannot be had.
    pub fn reader(
        &self,
        gpu: &FoundGpu,
        track: TrackSlot,
        options: ReadOptions,
    ) -> Result<GpuReader<'_>, Failure> {
        Ok(GpuReader::new((gpu, self.device(gpu)?), self.numbering, track, options))
    }
}

fn versions(nvml: &Nvml) -> Versions {
    let text = |answer: Result<String, NvmlError>| {
        answer.map(|text| clean_text(&text, 80)).unwrap_or_default()
    };
    Versions {
        driver: text(nvml.sys_driver_version()),
        nvml: text(nvml.sys_nvml_version()),
        cuda: nvml
            .sys_cuda_driver_version()
            .map(|version| format!("{}.{}", version / 1_000, version % 1_000 / 10))
            .unwrap_or_default(),
    }
}

/// A wrapper's answer with its error as a meaning.
fn checked<T>(answer: Result<T, NvmlError>) -> Result<T, Failure> {
    answer.map_err(|error| Failure::from_code(nvml_raw::code_of(error)))
}
