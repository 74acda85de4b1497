//! What a GPU says about itself, as the agent reads it through the library.

use leasewatch_core::id::{BusId, GpuUuid, IdError};
use leasewatch_core::segment::GpuInventory;

use crate::physics::board::Board;
use crate::physics::identity::Identity;

/// Of the card in `slot`, which is its NVML index as well.
///
/// # Errors
/// [`IdError`] for a UUID or bus id that no agent would record.
pub(super) fn inventory(
    identity: &Identity,
    board: &Board,
    slot: usize,
) -> Result<GpuInventory, IdError> {
    let model = board.model;
    let catalogued = model.pci_device_ids.first().copied().unwrap_or(0x10de);
    let serial = model.serial_readable().then(|| identity.serial.clone());
    Ok(GpuInventory {
        uuid: GpuUuid::new(&identity.uuid)?,
        bus_id: BusId::new(&identity.bus_id)?,
        index: i64::try_from(slot).unwrap_or(0),
        name: identity.name.clone(),
        pci_device_id: i64::from(identity.pci_device_id.unwrap_or(catalogued)),
        serial,
        vbios: Some("SIM.00.00.00.01".to_owned()),
        part_number: Some(format!("SIM-{}", model.key)),
        memory_total_mib: Some(i64::from(board.memory_mib)),
        power_limit_default_mw: Some(i64::from(board.default_limit_mw)),
        power_limit_management_mw: Some(i64::from(board.default_limit_mw)),
        pcie_generation_max: Some(i64::from(board.pcie_generation)),
        pcie_width_max: Some(i64::from(board.pcie_width)),
        mig: false,
        partition: None,
    })
}
