//! Which GPU a row is of, from whatever names the log has.

use leasewatch_core::id::{BusId, GpuUuid, Hash, clean_text};
use leasewatch_core::log_fault::{LineFault, LogText};
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::GpuInventory;

use crate::import::log::LoggedRow;

/// Names and lasting properties of a GPU, as far as a row has them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(in crate::import) struct Identity {
    pub(in crate::import) index: Option<String>,
    pub(in crate::import) uuid: Option<String>,
    pub(in crate::import) bus_id: Option<String>,
    pub(in crate::import) name: Option<String>,
    pub(in crate::import) serial: Option<String>,
    pub(in crate::import) vbios: Option<String>,
    pub(in crate::import) part_number: Option<String>,
    pub(in crate::import) pci_device_id: Option<i64>,
    pub(in crate::import) pcie_generation_max: Option<i64>,
    pub(in crate::import) pcie_width_max: Option<i64>,
}

impl Identity {
    /// The best name; empty when the log names no GPUs.
    pub(super) fn key(&self) -> &str {
        let names = [&self.uuid, &self.bus_id, &self.index];
        names.into_iter().find_map(Option::as_deref).unwrap_or_default()
    }

    /// NVML's index.
    pub(super) fn index(&self) -> Option<i64> {
        self.index.as_ref().and_then(|index| index.parse().ok()).filter(|index| *index >= 0)
    }

    /// # Errors
    /// The name is not one that a GPU can have.
    pub(super) fn inventory(&self) -> Result<GpuInventory, LineFault> {
        let key = if self.key().is_empty() { "0" } else { self.key() };
        let made_up = || {
            let digest = Hash::of(key.as_bytes()).to_string();
            GpuUuid::new(&format!("imported-{}", &digest[..12]))
        };
        let uuid = self.uuid.as_deref().map_or_else(made_up, GpuUuid::new);
        let place = self.bus_id.clone().unwrap_or_else(|| format!("imported:{}", bus_text(key)));
        let wrong = |text: &str, error| LineFault::GpuName { text: LogText::quote(text), error };
        Ok(GpuInventory {
            uuid: uuid.map_err(|e| wrong(key, e))?,
            bus_id: BusId::new(&place).map_err(|e| wrong(&place, e))?,
            index: 0,
            name: String::new(),
            pci_device_id: 0,
            serial: None,
            vbios: None,
            part_number: None,
            memory_total_mib: None,
            power_limit_default_mw: None,
            power_limit_management_mw: None,
            pcie_generation_max: None,
            pcie_width_max: None,
            mig: false,
            partition: None,
        })
    }
}

/// What an inventory learns from rows: the first that says something counts.
pub(super) trait Learn {
    fn learn(&mut self, identity: &Identity, row: &LoggedRow);
}

impl Learn for GpuInventory {
    fn learn(&mut self, identity: &Identity, row: &LoggedRow) {
        let text = |known: &mut Option<String>, said: &Option<String>| {
            if known.is_none() {
                *known = said.as_deref().map(|text| clean_text(text, 120));
            }
        };
        if self.name.is_empty() {
            self.name = clean_text(identity.name.as_deref().unwrap_or_default(), 120);
        }
        text(&mut self.serial, &identity.serial);
        text(&mut self.vbios, &identity.vbios);
        text(&mut self.part_number, &identity.part_number);
        if self.pci_device_id == 0 {
            self.pci_device_id = identity.pci_device_id.unwrap_or(0);
        }
        let number = |metric| row.reading(metric).and_then(Reading::number);
        let learned = [
            (&mut self.pcie_generation_max, identity.pcie_generation_max),
            (&mut self.pcie_width_max, identity.pcie_width_max),
            (&mut self.memory_total_mib, number(Metric::MemoryTotal)),
            (&mut self.power_limit_default_mw, number(Metric::PowerLimitDefault)),
            (&mut self.power_limit_management_mw, number(Metric::PowerLimitManagement)),
        ];
        for (known, said) in learned {
            *known = known.or(said);
        }
        self.mig |= number(Metric::MigMode) == Some(1);
    }
}

/// At most 20 characters that a bus id may hold: the end of a UUID differs, its start may not.
fn bus_text(key: &str) -> String {
    let allowed: Vec<char> =
        key.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, ':' | '.' | '-')).collect();
    allowed[allowed.len().saturating_sub(20)..].iter().collect()
}

/// Domain and bus of a PCI address. Device and function say nothing more of a GPU, and messages
/// about lost ones print them wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::import) struct BusNumber {
    domain: u32,
    bus: u32,
}

impl BusNumber {
    /// Reads `00000000:07:00.0`, `0000:07:00.0` and `000:BA:80.0`.
    pub(in crate::import) fn read(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let mut hex = || u32::from_str_radix(parts.next()?, 16).ok();
        let number = Self { domain: hex()?, bus: hex()? };
        parts.next()?.contains('.').then_some(number)
    }
}

impl std::fmt::Display for BusNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:04X}:{:02X}", self.domain, self.bus)
    }
}
