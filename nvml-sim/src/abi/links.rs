//! PCI Express and NVLink.

#![expect(unsafe_code, reason = "exports NVML's C interface")]

use leasewatch_core::catalogue::gpu::{Architecture, BoardClass};
use leasewatch_core::sample::Metric;
use leasewatch_core::segment::GpuInventory;

use super::code::{Code, Result};
use super::guard::{guard, put};
use super::layout::{Device, PciInfo};
use super::read::{Call, View, getters, look, read, supported};
use crate::scenario::fault::Group;

const PCIE: Call = Call::new(Group::Pcie, 0);
const NVLINK: Call = Call::new(Group::Nvlink, 0);

getters! {
    nvmlDeviceGetCurrPcieLinkGeneration: u32 = PCIE.of(Metric::PcieGeneration), |view| {
        Ok(pcie_generation(view))
    };
    nvmlDeviceGetCurrPcieLinkWidth: u32 = PCIE.of(Metric::PcieWidth), |view| {
        Ok(view.card.active.pcie.map_or(view.card.board.pcie_width, |(_, width)| width))
    };
    nvmlDeviceGetMaxPcieLinkGeneration: u32 = PCIE.by_call(), |view| match stated(view) {
        Some(seen) => slot_limit(seen.pcie_generation_max),
        None => supported(view.card.replay.is_none(), view.card.board.pcie_generation),
    };
    nvmlDeviceGetMaxPcieLinkWidth: u32 = PCIE.by_call(), |view| match stated(view) {
        Some(seen) => slot_limit(seen.pcie_width_max),
        None => supported(view.card.replay.is_none(), view.card.board.pcie_width),
    };
    nvmlDeviceGetGpuMaxPcieLinkGeneration: u32 = Call::new(Group::Pcie, 515), |view| {
        Ok(view.card.board.pcie_generation)
    };
    nvmlDeviceGetPcieReplayCounter: u32 = PCIE.of(Metric::PcieReplays), |_| Ok(0);
}

/// What a played card said of itself.
fn stated<'a>(view: &'a View<'_>) -> Option<&'a GpuInventory> {
    view.card.replay.as_ref()?.recording.inventory.as_ref()
}

fn slot_limit(said: Option<i64>) -> Result<u32> {
    said.and_then(|said| u32::try_from(said).ok()).ok_or(Code::NOT_SUPPORTED)
}

/// Consumer boards drop to the first generation when they idle.
fn pcie_generation(view: &View<'_>) -> u32 {
    let board = &view.card.board;
    let idle = view.card.shown.busy == 0 && board.model.class == BoardClass::GeForce;
    let trained = view.card.active.pcie.map_or(board.pcie_generation, |(generation, _)| generation);
    if idle { 1 } else { trained }
}

/// KB/s. Not available to vGPU guests.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetPcieThroughput(
    device: Device,
    counter: u32,
    out: *mut u32,
) -> u32 {
    const VGPU_GUEST: u32 = 2;
    guard(|| {
        let rate = read(device, Call::new(Group::PcieThroughput, 0), |view| {
            if view.session.virtualization(view.card.slot) == VGPU_GUEST {
                return Err(Code::NOT_SUPPORTED);
            }
            match counter {
                0 => Ok(view.card.shown.pcie_tx_kib_s),
                1 => Ok(view.card.shown.pcie_rx_kib_s),
                _ => Err(Code::INVALID_ARGUMENT),
            }
        })?;
        // SAFETY: the caller passes null or a place for one value, as NVML demands.
        unsafe { put(out, rate) }
    })
}

/// Exports functions of the form `(device, link, out)`.
macro_rules! link_getters {
    ($($symbol:ident: $call:expr, $value:expr;)+) => {$(
        #[unsafe(no_mangle)]
        pub(super) unsafe extern "C" fn $symbol(device: Device, link: u32, out: *mut u32) -> u32 {
            guard(|| {
                let value: fn(&View<'_>, u32) -> Result<u32> = $value;
                let value = read(device, $call, |view| value(view, link))?;
                // SAFETY: the caller passes null or a place for one value, as NVML demands.
                unsafe { put(out, value) }
            })
        }
    )+};
}

link_getters! {
    nvmlDeviceGetNvLinkState: NVLINK.by_call(), |view, link| {
        Ok(u32::from(checked(view, link)? < active_links(view)?))
    };
    nvmlDeviceGetNvLinkVersion: NVLINK, |view, link| checked(view, link).map(|_| link_version(view));
    nvmlDeviceGetNvLinkRemoteDeviceType: NVLINK, |view, link| {
        remote_type(view, checked(view, link)?)
    };
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetNvLinkCapability(
    device: Device,
    link: u32,
    capability: u32,
    out: *mut u32,
) -> u32 {
    guard(|| {
        let has: u32 = look(device, NVLINK, |view| {
            checked(view, link)?;
            if capability > 5 { Err(Code::INVALID_ARGUMENT) } else { Ok((capability != 4).into()) }
        })?;
        // SAFETY: the caller passes null or a place for one value, as NVML demands.
        unsafe { put(out, has) }
    })
}

#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetNvLinkErrorCounter(
    device: Device,
    link: u32,
    counter: u32,
    out: *mut u64,
) -> u32 {
    guard(|| {
        let count = read(device, NVLINK, |view| {
            checked(view, link)?;
            if counter > 4 { Err(Code::INVALID_ARGUMENT) } else { Ok(0_u64) }
        })?;
        // SAFETY: the caller passes null or a place for one value, as NVML demands.
        unsafe { put(out, count) }
    })
}

/// The far end of every link is one NVSwitch.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetNvLinkRemotePciInfo_v2(
    device: Device,
    link: u32,
    out: *mut PciInfo,
) -> u32 {
    const NVSWITCH: &str = "00000000:C0:00.0";
    guard(|| {
        let info = look(device, NVLINK, |view| {
            if checked(view, link)? >= active_links(view)? {
                return Err(Code::NOT_SUPPORTED);
            }
            Ok(PciInfo {
                bus_id_legacy: super::identity::characters("0000:C0:00.0"),
                domain: 0,
                bus: 0xc0,
                device: 0,
                pci_device_id: 0x22a3_10de,
                pci_subsystem_id: 0,
                bus_id: super::identity::characters(NVSWITCH),
            })
        })?;
        // SAFETY: the caller passes null or a place for one value, as NVML demands.
        unsafe { put(out, info) }
    })
}

/// Links that are up; those of a fault are the last ones.
pub(super) fn active_links(view: &View<'_>) -> Result<u32> {
    let simulated =
        || Ok(view.card.board.connected_links().saturating_sub(view.card.active.links_down));
    view.recorded_as(Metric::NvlinkActive).unwrap_or_else(simulated)
}

/// Links that there are. A recording holds only how many were up: the most of them at once.
pub(super) fn link_count(view: &View<'_>) -> Result<u32> {
    let Some(replay) = &view.card.replay else { return Ok(view.card.board.nvlink_links) };
    active_links(view)?;
    slot_limit(replay.recording.highest(Metric::NvlinkActive))
}

fn checked(view: &View<'_>, link: u32) -> Result<u32> {
    match link_count(view)? {
        0 => Err(Code::NOT_SUPPORTED),
        links if link >= links => Err(Code::INVALID_ARGUMENT),
        _ => Ok(link),
    }
}

/// NVML's own enumeration, not the marketing generation.
pub(super) fn link_version(view: &View<'_>) -> u32 {
    match view.card.board.model.architecture {
        Architecture::Volta => 2,
        Architecture::Turing => 3,
        Architecture::Ampere | Architecture::Ada => 5,
        Architecture::Hopper => 6,
        Architecture::Blackwell => 7,
    }
}

fn remote_type(view: &View<'_>, link: u32) -> Result<u32> {
    const SWITCH: u32 = 2;
    const UNKNOWN: u32 = 255;
    Ok(if link < active_links(view)? { SWITCH } else { UNKNOWN })
}
