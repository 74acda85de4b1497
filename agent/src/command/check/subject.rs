//! One GPU as the checks see it: what was read, what product it is, what was agreed.

use std::path::Path;

use leasewatch_core::catalogue::gpu::{self, GpuModel};
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::Origin;

use super::terms::Terms;
use crate::source::nvml::Virtualization;
use crate::source::survey::{Look, Survey};

/// Share of time from which a GPU counts as under load, in percent.
const LOADED_PCT: i64 = 50;

/// One GPU and what it is compared with.
pub(crate) struct Subject<'a> {
    pub(crate) look: &'a Look,
    /// The product; `None` for a virtual GPU and for one that the catalogue does not know.
    pub(crate) model: Option<&'static GpuModel>,
    /// Every GPU of the node that answered, this one too.
    pub(crate) node: &'a [&'a Look],
    pub(crate) terms: &'a Terms,
    pub(crate) is_simulated: bool,
    /// Branch of the driver, such as 580; 0 when it does not tell.
    pub(crate) driver_branch: u32,
    /// Where `/proc` is.
    pub(crate) root: &'a Path,
}

impl<'a> Subject<'a> {
    pub(crate) fn new(
        look: &'a Look,
        node: &'a [&'a Look],
        terms: &'a Terms,
        (survey, root): (&Survey, &'a Path),
    ) -> Self {
        let inventory = &look.gpu.inventory;
        let memory = look.number(Metric::MemoryTotal).or(inventory.memory_total_mib);
        let [by_id, by_name] = products(look, memory);
        let model = match (by_id, by_name) {
            // Two products at once are none to compare with.
            (Some(by_id), Some(by_name)) if by_id.key != by_name.key => None,
            _ => gpu::find(pci_id(look), &inventory.name, memory),
        };
        let branch = survey.versions.driver.split('.').next().unwrap_or_default();
        Self {
            look,
            model,
            node,
            terms,
            is_simulated: survey.origin == Origin::Simulated,
            driver_branch: branch.parse().unwrap_or(0),
            root,
        }
    }

    pub(crate) fn number(&self, metric: Metric) -> Option<i64> {
        self.look.number(metric)
    }

    /// Utilization, where it is a number.
    pub(crate) fn busy(&self) -> Option<i64> {
        self.look.busy.and_then(Reading::number)
    }

    /// `None` where utilization is not known.
    pub(crate) fn is_loaded(&self) -> Option<bool> {
        self.busy().map(|busy| busy >= LOADED_PCT)
    }

    pub(crate) fn is_mig(&self) -> bool {
        self.look.gpu.inventory.mig
    }

    /// True for a share of a GPU in a virtual machine, whose driver offers less.
    pub(crate) fn is_vgpu(&self) -> bool {
        self.look.settings.virtualization == Ok(Virtualization::Vgpu)
    }
}

/// The product by PCI id, and by name.
pub(crate) fn products(look: &Look, memory_mib: Option<i64>) -> [Option<&'static GpuModel>; 2] {
    let name = &look.gpu.inventory.name;
    let by_id = pci_id(look).and_then(|pci| gpu::find(Some(pci), name, memory_mib));
    [by_id, gpu::find(None, name, memory_mib)]
}

/// The PCI id of a GPU, if it tells one.
fn pci_id(look: &Look) -> Option<u32> {
    u32::try_from(look.gpu.inventory.pci_device_id).ok().filter(|id| *id != 0)
}
