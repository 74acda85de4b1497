//! What a GPU says about itself once: name, place, board, limits.
//!
//! Everything but UUID and bus id may be missing. Texts are cleaned and cut here; a UUID or bus id
//! that is not made of the allowed characters makes the GPU unusable rather than being repaired.

use leasewatch_core::id::{BusId, GpuUuid, clean_text};
use leasewatch_core::segment::{GpuInventory, Partition};
use nvml_wrapper::Device;
use nvml_wrapper::error::NvmlError;

use super::failure::Failure;
use super::{FoundGpu, checked};
use crate::source::nvml_raw;

/// Characters of a text that are kept.
const TEXT_MAX: usize = 96;
/// NVML's code for an answer that makes no sense.
const UNKNOWN: u32 = 999;

pub(super) fn identify(device: &Device<'_>, index: u32) -> Result<FoundGpu, Failure> {
    let unusable = |_| Failure::Failed(UNKNOWN);
    let uuid = GpuUuid::new(&checked(device.uuid())?).map_err(unusable)?;
    let pci = checked(device.pci_info())?;
    let bus_id = BusId::new(&pci.bus_id).map_err(unusable)?;
    let inventory = GpuInventory {
        uuid: uuid.clone(),
        bus_id: bus_id.clone(),
        index: i64::from(index),
        name: text(device.name()).unwrap_or_default(),
        pci_device_id: i64::from(pci.pci_device_id),
        serial: text(device.serial()),
        vbios: text(device.vbios_version()),
        part_number: text(device.board_part_number()),
        memory_total_mib: memory_total_mib(device),
        power_limit_default_mw: number(device.power_management_limit_default()),
        power_limit_management_mw: number(device.power_management_limit()),
        pcie_generation_max: number(device.max_pcie_link_gen()),
        pcie_width_max: number(device.max_pcie_link_width()),
        mig: is_mig_enabled(device),
        partition: None,
    };
    Ok(FoundGpu { index, uuid, bus_id, inventory })
}

/// The inventory of a slice: its name and memory; the board is its parent's.
pub(super) fn of_slice(
    (uuid, bus_id): (&GpuUuid, &BusId),
    device: &Device<'_>,
    index: u32,
    partition: Partition,
) -> GpuInventory {
    GpuInventory {
        uuid: uuid.clone(),
        bus_id: bus_id.clone(),
        index: i64::from(index),
        name: text(device.name()).unwrap_or_default(),
        pci_device_id: 0,
        serial: None,
        vbios: None,
        part_number: None,
        memory_total_mib: memory_total_mib(device),
        power_limit_default_mw: None,
        power_limit_management_mw: None,
        pcie_generation_max: None,
        pcie_width_max: None,
        mig: true,
        partition: Some(partition),
    }
}

/// True when the GPU is cut into MIG slices, which takes its utilization away.
pub(super) fn is_mig_enabled(device: &Device<'_>) -> bool {
    device.mig_mode().is_ok_and(|mode| mode.current == 1)
}

fn memory_total_mib(device: &Device<'_>) -> Option<i64> {
    let bytes = device
        .memory_info()
        .map(|memory| memory.total)
        .or_else(|_| nvml_raw::memory_v1(device).map(|(total, _)| total))
        .ok()?;
    i64::try_from(bytes >> 20).ok()
}

fn text(answer: Result<String, NvmlError>) -> Option<String> {
    let text = clean_text(answer.ok()?.trim(), TEXT_MAX);
    (!text.is_empty()).then_some(text)
}

fn number(answer: Result<u32, NvmlError>) -> Option<i64> {
    answer.ok().map(i64::from)
}
