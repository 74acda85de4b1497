//! What a one-time look at a GPU adds to its readings: modes, pages, links, processes.
//!
//! For the commands that judge an instant; nothing of it is recorded. An answer is a value or
//! NVML's return code, never a default.

use nvml_wrapper::Device;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enum_wrappers::device::{
    ComputeMode as Mode, GpuVirtualizationMode, RetirementCause,
};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;

use super::field::{NVLINK_COUNT, whole};
use super::{FoundGpu, GPU_NOT_FOUND, Session};
use crate::source::nvml::{Failure, checked};
use crate::source::nvml_raw::{self, FieldQuery};

/// More links than any board has; bounds the loop over what the driver claims.
const NVLINK_MAX: u32 = 64;
/// Speed of one link in MB/s, by scope.
const NVLINK_SPEED: u32 = 164;
/// NVML's code for an answer that makes no sense.
const UNKNOWN: u32 = 999;

/// A setting, or NVML's return code.
pub type Answer<T> = Result<T, u32>;

/// ECC mode now and after the next reset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EccMode {
    /// Now.
    pub enabled: bool,
    /// After the next reset.
    pub pending: bool,
}

/// Pages that are not used any more because of ECC errors (boards before Ampere).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetiredPages {
    /// How many.
    pub count: u32,
    /// True while one of them waits for the driver to be loaded anew.
    pub pending: bool,
}

/// Who may open a CUDA context.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComputeMode {
    /// Everybody.
    Default,
    /// One process at a time.
    Exclusive,
    /// Nobody.
    Prohibited,
}

/// How the GPU reaches this system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Virtualization {
    /// As it is.
    None,
    /// Handed through to a virtual machine as a whole.
    Passthrough,
    /// A share of it, as a vGPU.
    Vgpu,
    /// This system hands it to others.
    Host,
}

/// A process that NVML lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuProcess {
    /// Its id, in a name space that the driver chooses.
    pub pid: u32,
    /// Device memory that it holds in MiB; `None` = not told.
    pub memory_mib: Option<i64>,
}

/// One NVLink link that the board has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NvlinkLink {
    /// Its number.
    pub link: u32,
    /// True while it is up.
    pub active: bool,
    /// Its speed in MB/s, one direction.
    pub speed_mb_s: Answer<i64>,
}

/// Everything that one look gave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// ECC mode.
    pub ecc: Answer<EccMode>,
    /// Retired pages.
    pub retired_pages: Answer<RetiredPages>,
    /// Compute mode.
    pub compute_mode: Answer<ComputeMode>,
    /// True while the driver keeps the GPU initialised without a client.
    pub persistence: Answer<bool>,
    /// Virtualization.
    pub virtualization: Answer<Virtualization>,
    /// Compute and graphics processes.
    pub processes: Answer<Vec<GpuProcess>>,
    /// Links that the board has; those that it leaves out on purpose are not listed.
    pub links: Answer<Vec<NvlinkLink>>,
    /// True when XIDs come as events.
    pub xid_events: Answer<bool>,
    /// True when GPM counters can be read.
    pub gpm: Answer<bool>,
}

impl Session {
    /// Looks at the settings of one GPU. Takes as long as the driver likes, as any call here.
    ///
    /// # Errors
    /// [`Failure`] when its handle cannot be had.
    pub fn settings(&self, gpu: &FoundGpu) -> Result<Settings, Failure> {
        let device = self.device(gpu)?;
        let device = &device;
        Ok(Settings {
            ecc: coded(device.is_ecc_enabled()).map(|mode| EccMode {
                enabled: mode.currently_enabled,
                pending: mode.pending_enabled,
            }),
            retired_pages: retired_pages(device),
            compute_mode: coded(device.compute_mode()).map(|mode| match mode {
                Mode::Default => ComputeMode::Default,
                Mode::ExclusiveThread | Mode::ExclusiveProcess => ComputeMode::Exclusive,
                Mode::Prohibited => ComputeMode::Prohibited,
            }),
            persistence: coded(device.is_in_persistent_mode()),
            virtualization: coded(device.virtualization_mode()).map(|mode| match mode {
                GpuVirtualizationMode::Bare => Virtualization::None,
                GpuVirtualizationMode::PassThrough => Virtualization::Passthrough,
                GpuVirtualizationMode::Vgpu => Virtualization::Vgpu,
                GpuVirtualizationMode::HostVgpu | GpuVirtualizationMode::HostVsga => {
                    Virtualization::Host
                }
            }),
            processes: processes(device),
            links: links(device),
            xid_events: coded(device.supported_event_types())
                .map(|kinds| kinds.contains(EventTypes::CRITICAL_XID_ERROR)),
            gpm: match checked(device.gpm_support()) {
                Ok(true) => coded(device.gpm_sample()).map(|_| true),
                Ok(false) => Ok(false),
                Err(_) => coded(device.gpm_support()),
            },
        })
    }
}

fn coded<T>(answer: Result<T, NvmlError>) -> Answer<T> {
    answer.map_err(nvml_raw::code_of)
}

fn retired_pages(device: &Device<'_>) -> Answer<RetiredPages> {
    let of = |cause| coded(device.retired_pages(cause)).map(|pages| pages.len());
    let single = of(RetirementCause::MultipleSingleBitEccErrors)?;
    let double = of(RetirementCause::DoubleBitEccError)?;
    Ok(RetiredPages {
        count: u32::try_from(single.saturating_add(double)).unwrap_or(u32::MAX),
        pending: coded(device.are_pages_pending_retired())?,
    })
}

/// Compute, MPS and graphics processes, each once. MPS has a list of its own, which old drivers lack.
fn processes(device: &Device<'_>) -> Answer<Vec<GpuProcess>> {
    let mut all: Vec<GpuProcess> =
        coded(device.running_compute_processes())?.iter().map(process).collect();
    let mps = device.mps_running_compute_processes().unwrap_or_default();
    let graphics = coded(device.running_graphics_processes())?;
    for process in mps.iter().chain(&graphics).map(process) {
        if !all.iter().any(|other| other.pid == process.pid) {
            all.push(process);
        }
    }
    Ok(all)
}

fn process(info: &ProcessInfo) -> GpuProcess {
    let memory_mib = match info.used_gpu_memory {
        UsedGpuMemory::Used(bytes) => i64::try_from(bytes >> 20).ok(),
        UsedGpuMemory::Unavailable => None,
    };
    GpuProcess { pid: info.pid, memory_mib }
}

pub(super) fn links(device: &Device<'_>) -> Answer<Vec<NvlinkLink>> {
    let count = nvml_raw::field_values(device, &[NVLINK_COUNT])?.into_iter().next();
    let count = whole(count.unwrap_or(Err(UNKNOWN))?).ok_or(UNKNOWN)?;
    let count = u32::try_from(count).ok().filter(|count| *count <= NVLINK_MAX).ok_or(UNKNOWN)?;
    let mut links = Vec::new();
    for link in 0..count {
        let active = match checked(device.link_wrapper_for(link).is_active()) {
            Ok(active) => active,
            Err(Failure::Unsupported) => continue,
            Err(_) => return Err(UNKNOWN),
        };
        links.push(NvlinkLink { link, active, speed_mb_s: link_speed(device, link) });
    }
    Ok(links)
}

fn link_speed(device: &Device<'_>, link: u32) -> Answer<i64> {
    let query = FieldQuery { id: NVLINK_SPEED, scope: link, always_u32: false };
    let answer = nvml_raw::field_values(device, &[query])?.into_iter().next();
    whole(answer.unwrap_or(Err(UNKNOWN))?).ok_or(UNKNOWN)
}

/// NVML's return code in words; for people.
#[must_use]
pub fn code_text(code: u32) -> &'static str {
    match code {
        1 | 9 => "the driver is not loaded",
        3 => "not supported",
        4 => "no permission",
        12 => "the library was not found",
        13 => "this driver has no such function",
        15 => "the GPU is lost",
        16 => "the GPU needs a reset",
        17 => "blocked by the operating system (a missing device node or a cgroup)",
        18 => "driver and library have different versions",
        25 | 26 => "not offered any more by this driver",
        GPU_NOT_FOUND => "the driver does not list the GPU",
        _ => "the call failed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_that_mean_different_things_read_differently() {
        let codes = [3, 4, 9, 12, 13, 15, 16, 17, 18, 999];
        let texts: std::collections::BTreeSet<_> = codes.map(code_text).into_iter().collect();
        assert_eq!(texts.len(), codes.len());
    }
}
