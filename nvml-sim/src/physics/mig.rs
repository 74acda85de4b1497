//! How a card is cut while MIG mode is on: its slices, in the order of NVML's indices.

use crate::scenario::fault::GpuInstancePlan;

/// The most slices of one card.
pub(crate) const MOST_SLICES: usize = 7;
/// Instance ids do not begin at 0 unless a scenario says so: 0 to 6 name larger slices.
const FIRST_GPU_INSTANCE: u32 = 7;

/// One compute instance, which is what NVML calls a MIG device.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct MigSlice {
    pub(crate) gpu_instance: u32,
    pub(crate) compute_instance: u32,
    /// Compute slices of its GPU instance, and its own.
    pub(crate) gpu_slices: u32,
    pub(crate) compute_slices: u32,
    /// Its memory as a share of the card's: so many of so many parts.
    pub(crate) memory: (u32, u32),
    /// How busy its GPU instance is; `None` = like the card.
    pub(crate) percent: Option<u32>,
}

/// All slices of a card at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MigCut {
    /// Tells this cut from the one before and after it, so that an old handle names nothing.
    pub(crate) number: u32,
    slices: [MigSlice; MOST_SLICES],
    count: usize,
}

impl MigCut {
    /// So many slices of one compute slice, each as busy as the card.
    pub(crate) fn even(number: u32, instances: u32) -> Self {
        let whole = MigSlice { gpu_slices: 1, compute_slices: 1, ..MigSlice::default() };
        let slices = (0..instances).map(|at| MigSlice {
            gpu_instance: FIRST_GPU_INSTANCE + at,
            memory: (1, instances),
            ..whole
        });
        Self::of(number, slices)
    }

    /// The slices of these GPU instances.
    pub(crate) fn planned(number: u32, plans: &[GpuInstancePlan]) -> Self {
        let numbered = (FIRST_GPU_INSTANCE..).zip(plans);
        let slices = numbered.flat_map(|(default_id, plan)| {
            let slice = MigSlice {
                gpu_instance: plan.gpu_instance.unwrap_or(default_id),
                compute_instance: 0,
                gpu_slices: plan.compute_slices,
                compute_slices: plan.compute_slices / plan.compute_instances,
                memory: (plan.compute_slices, 7),
                percent: plan.percent,
            };
            (0..plan.compute_instances)
                .map(move |compute_instance| MigSlice { compute_instance, ..slice })
        });
        Self::of(number, slices)
    }

    fn of(number: u32, from: impl Iterator<Item = MigSlice>) -> Self {
        let mut slices = [MigSlice::default(); MOST_SLICES];
        let mut count = 0;
        for (place, slice) in slices.iter_mut().zip(from) {
            *place = slice;
            count += 1;
        }
        Self { number, slices, count }
    }

    pub(crate) fn slices(&self) -> &[MigSlice] {
        &self.slices[..self.count]
    }

    /// The slice at an NVML index.
    pub(crate) fn at(&self, index: u32) -> Option<&MigSlice> {
        self.slices().get(usize::try_from(index).ok()?)
    }

    /// A slice of this GPU instance, for what all of its slices share.
    pub(crate) fn gpu_instance(&self, id: u32) -> Option<&MigSlice> {
        self.slices().iter().find(|slice| slice.gpu_instance == id)
    }
}
