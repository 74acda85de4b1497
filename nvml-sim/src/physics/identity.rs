//! Names of a card: derived from scenario and slot, so that they survive a restart of the agent.

use super::mig::MigSlice;
use super::noise::text_hash;
use crate::scenario::{CardPlan, Scenario};

/// PCI buses of the eight GPUs of a common baseboard; further slots continue in the next domain.
const BUSES: [u32; 8] = [0x18, 0x2a, 0x3a, 0x5d, 0x9a, 0xab, 0xba, 0xdb];

/// What tells one card from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) uuid: String,
    pub(crate) bus_id: String,
    pub(crate) serial: String,
    pub(crate) name: String,
    pub(crate) domain: u32,
    pub(crate) bus: u32,
    pub(crate) device: u32,
    /// The PCI id that the card claims; `None` = its model's.
    pub(crate) pci_device_id: Option<u32>,
}

impl Identity {
    /// The identity of the card in `slot`; another one when the card was `replaced`.
    pub(crate) fn of(scenario: &Scenario, slot: usize, plan: &CardPlan, replaced: bool) -> Self {
        let domain = u32::try_from(slot / BUSES.len()).unwrap_or(0);
        let default_bus = format!("{domain:08X}:{:02X}:00.0", BUSES[slot % BUSES.len()]);
        let bus_id = plan.facts.bus_id.clone().unwrap_or(default_bus);
        let (domain, bus, device) = bus_parts(&bus_id).unwrap_or((domain, 0, 0));
        let origin = format!("{}/{slot}{}", scenario.name, if replaced { "/replaced" } else { "" });
        let kept = |text: &Option<String>| text.clone().filter(|_| !replaced);
        Self {
            uuid: kept(&plan.facts.uuid).unwrap_or_else(|| uuid("GPU-", &origin)),
            serial: kept(&plan.facts.serial)
                .unwrap_or_else(|| format!("{:013}", text_hash(3, &origin) % 10_000_000_000_000)),
            name: plan.facts.name.clone().unwrap_or_else(|| plan.model.nvml_name.clone()),
            bus_id,
            domain,
            bus,
            device,
            pci_device_id: plan.facts.pci_device_id,
        }
    }

    /// The UUID of one of the card's MIG slices. It follows from the instances, so a slice that is
    /// cut away and made again has the name that it had.
    pub(crate) fn mig_uuid(&self, slice: &MigSlice) -> String {
        let MigSlice { gpu_instance, compute_instance, gpu_slices, .. } = slice;
        uuid("MIG-", &format!("{}/{gpu_instance}/{compute_instance}/{gpu_slices}", self.uuid))
    }

    /// The bus id in the older form, with a domain of four digits.
    pub(crate) fn legacy_bus_id(&self) -> String {
        let (_, rest) = self.bus_id.split_once(':').unwrap_or(("", &self.bus_id));
        format!("{:04X}:{rest}", self.domain & 0xffff)
    }

    /// True when `text` names this card's bus in any of the forms that NVML takes.
    pub(crate) fn sits_at(&self, text: &str) -> bool {
        let full =
            if text.matches(':').count() == 1 { format!("0:{text}") } else { text.to_owned() };
        bus_parts(&full) == Some((self.domain, self.bus, self.device))
    }
}

/// Domain, bus and device of `00000000:18:00.0`.
fn bus_parts(bus_id: &str) -> Option<(u32, u32, u32)> {
    let mut parts = bus_id.split([':', '.']);
    let mut next = || u32::from_str_radix(parts.next()?, 16).ok();
    Some((next()?, next()?, next()?))
}

fn uuid(prefix: &str, origin: &str) -> String {
    let (high, low) = (text_hash(1, origin), text_hash(2, origin));
    format!(
        "{prefix}{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}
