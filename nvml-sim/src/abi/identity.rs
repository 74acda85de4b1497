//! Who a device is.

#![expect(unsafe_code, reason = "exports NVML's C interface")]

use std::ffi::c_char;

use leasewatch_core::catalogue::gpu::{Architecture, BoardClass};

use super::code::{Code, Result};
use super::guard::{guard, put};
use super::layout::{Device, PciInfo};
use super::read::{Call, View, getters, look, supported, text_getters};
use crate::physics::mig::MigSlice;
use crate::scenario::fault::Group;

/// Identity needs nothing that an old driver lacks.
const IDENTITY: Call = Call::with_slices(Group::Identity, 0).by_call();
const BOARD: Call = Call::new(Group::Identity, 0).by_call();
/// What follows from the model, which no recording names.
const MODEL: Call = Call::with_slices(Group::Identity, 0);

text_getters! {
    nvmlDeviceGetName = IDENTITY, |view| Ok(match view.slice {
        Some((_, slice)) if slice.recorded.is_some() => recorded_name(view)?,
        Some((_, slice)) => format!("{} MIG {}", view.card.identity.name, profile(view, slice)),
        None => supported(!view.card.identity.name.is_empty(), view.card.identity.name.clone())?,
    });
    nvmlDeviceGetUUID = IDENTITY, |view| Ok(match view.slice {
        Some((_, slice)) => view.card.slice_uuid(&slice),
        None => view.card.identity.uuid.clone(),
    });
    nvmlDeviceGetSerial = Call::new(Group::Serial, 0).by_call(), |view| {
        let readable = match &view.card.replay {
            Some(replay) => replay.recording.has_serial(),
            None => view.card.board.model.serial_readable(),
        };
        supported(readable, view.card.identity.serial.clone())
    };
    // Versions and part numbers say that they are simulated: real ones would look like evidence.
    nvmlDeviceGetBoardPartNumber = Call::new(Group::Identity, 0), |view| Ok(format!("SIM-{}", view.card.board.model.key));
    nvmlDeviceGetVbiosVersion = BOARD, |_| Ok("SIM.00.00.00.01".to_owned());
}

getters! {
    nvmlDeviceGetIndex: u32 = IDENTITY, |view| match view.slice {
        Some((index, _)) => Ok(index),
        None => small(view.session.index_of(view.card.slot).ok_or(Code::UNKNOWN)?),
    };
    nvmlDeviceGetMinorNumber: u32 = BOARD, |view| small(view.card.slot);
    nvmlDeviceGetBoardId: u32 = BOARD, |view| Ok(view.card.identity.bus << 8);
    nvmlDeviceGetBrand: u32 = Call::new(Group::Identity, 0), |view| Ok(brand(view));
    nvmlDeviceGetArchitecture: u32 = Call::with_slices(Group::Identity, 450), |view| {
        Ok(architecture(view.card.board.model.architecture))
    };
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetInforomImageVersion(
    device: Device,
    out: *mut c_char,
    length: u32,
) -> u32 {
    guard(|| {
        look(device, BOARD, |_| Ok(()))?;
        // SAFETY: the caller passes null or `length` bytes, as NVML demands.
        unsafe { super::guard::put_text(out, length, "SIM.0001.00.00") }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetCudaComputeCapability(
    device: Device,
    major: *mut i32,
    minor: *mut i32,
) -> u32 {
    guard(|| {
        let capability = look(device, MODEL, |v| Ok(v.card.board.model.compute_capability))?;
        // SAFETY: the caller passes null or places for one value each, as NVML demands.
        unsafe {
            put(major, capability.0)?;
            put(minor, capability.1)
        }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetPciInfo_v3(device: Device, out: *mut PciInfo) -> u32 {
    guard(|| {
        let info = look(device, BOARD, |view| Ok(pci_info(view)))?;
        // SAFETY: the caller passes null or a place for one value, as NVML demands.
        unsafe { put(out, info) }
    })
}

fn pci_info(view: &View<'_>) -> PciInfo {
    let (identity, model) = (&view.card.identity, view.card.board.model);
    let catalogued = model.pci_device_ids.first().copied().unwrap_or(0x10de);
    PciInfo {
        bus_id_legacy: characters(&identity.legacy_bus_id()),
        domain: identity.domain,
        bus: identity.bus,
        device: identity.device,
        pci_device_id: identity.pci_device_id.unwrap_or(catalogued),
        pci_subsystem_id: 0x0000_10de,
        bus_id: characters(&identity.bus_id),
    }
}

/// The text in a field of fixed length, cut so that a zero remains.
pub(super) fn characters<const N: usize>(text: &str) -> [c_char; N] {
    let mut field = [0; N];
    for (place, byte) in field.iter_mut().take(N - 1).zip(text.bytes()) {
        *place = c_char::try_from(byte).unwrap_or(0);
    }
    field
}

/// The name that a slice told when it was seen.
fn recorded_name(view: &View<'_>) -> Result<String> {
    let seen = view.recording().and_then(|(recording, _)| recording.inventory.as_ref());
    seen.map(|seen| seen.name.clone()).filter(|name| !name.is_empty()).ok_or(Code::NOT_SUPPORTED)
}

/// `3g.40gb`, and `1c.3g.40gb` for a part of such an instance.
fn profile(view: &View<'_>, slice: MigSlice) -> String {
    let gb = view.share_of(u64::from(view.card.board.memory_mib)).div_ceil(1_000);
    let instance = format!("{}g.{gb}gb", slice.gpu_slices);
    match slice.compute_slices {
        all if all == slice.gpu_slices => instance,
        part => format!("{part}c.{instance}"),
    }
}

fn brand(view: &View<'_>) -> u32 {
    const TESLA: u32 = 2;
    const NVIDIA_RTX: u32 = 13;
    const NVIDIA: u32 = 14;
    const GEFORCE_RTX: u32 = 15;
    let model = view.card.board.model;
    match model.class {
        BoardClass::GeForce => GEFORCE_RTX,
        BoardClass::Workstation => NVIDIA_RTX,
        BoardClass::DataCentre if model.architecture < Architecture::Ampere => TESLA,
        BoardClass::DataCentre => NVIDIA,
    }
}

fn architecture(architecture: Architecture) -> u32 {
    match architecture {
        Architecture::Volta => 5,
        Architecture::Turing => 6,
        Architecture::Ampere => 7,
        Architecture::Ada => 8,
        Architecture::Hopper => 9,
        Architecture::Blackwell => 10,
    }
}

fn small(number: usize) -> Result<u32> {
    u32::try_from(number).map_err(|_| Code::UNKNOWN)
}
