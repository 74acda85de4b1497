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
    /// Tells the slices of this cut from those of the cuts before and after it, so that an old
    /// handle names nothing.
    pub(crate) cut: u32,
    /// Which slice of its card's recording is played; `None` where nothing is.
    pub(crate) recorded: Option<usize>,
}

/// All slices of a card at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MigCut {
    /// By NVML's index; without a slice where one was cut away and the others stayed.
    slices: [Option<MigSlice>; MOST_SLICES],
}

impl MigCut {
    /// So many slices of one compute slice, each as busy as the card.
    pub(crate) fn even(number: u32, instances: u32) -> Self {
        let whole =
            MigSlice { gpu_slices: 1, compute_slices: 1, cut: number, ..MigSlice::default() };
        let slices = (0..instances).map(|at| MigSlice {
            gpu_instance: FIRST_GPU_INSTANCE + at,
            memory: (1, instances),
            ..whole
        });
        Self::of(slices)
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
                cut: number,
                recorded: None,
            };
            (0..plan.compute_instances)
                .map(move |compute_instance| MigSlice { compute_instance, ..slice })
        });
        Self::of(slices)
    }

    /// Slices at the indices that they had; at the next free one where two claim the same.
    pub(crate) fn recorded(slices: impl Iterator<Item = (usize, MigSlice)>) -> Self {
        let mut cut = Self { slices: [None; MOST_SLICES] };
        for (index, slice) in slices {
            let places = (0..MOST_SLICES).map(|step| (index % MOST_SLICES + step) % MOST_SLICES);
            if let Some(free) = places.into_iter().find(|at| cut.slices[*at].is_none()) {
                cut.slices[free] = Some(slice);
            }
        }
        cut
    }

    fn of(from: impl Iterator<Item = MigSlice>) -> Self {
        Self::recorded(from.enumerate())
    }

    /// Every slice with its NVML index.
    pub(crate) fn slices(&self) -> impl Iterator<Item = (u32, &MigSlice)> {
        (0..).zip(&self.slices).filter_map(|(index, slice)| Some((index, slice.as_ref()?)))
    }

    /// The slice at an NVML index.
    pub(crate) fn at(&self, index: u32) -> Option<&MigSlice> {
        self.slices.get(usize::try_from(index).ok()?)?.as_ref()
    }

    /// A slice of this GPU instance, for what all of its slices share.
    pub(crate) fn gpu_instance(&self, id: u32) -> Option<&MigSlice> {
        self.slices.iter().flatten().find(|slice| slice.gpu_instance == id)
    }
}
