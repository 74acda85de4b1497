//! The faults that hold for one card right now, folded into what each of them changes.

use super::mig::MigCut;
use crate::scenario::fault::{Effect, Fault, Group, Groups};

/// Level-like effects: they hold exactly while their fault does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ActiveFaults {
    pub(crate) thermal: bool,
    pub(crate) power_brake: bool,
    pub(crate) management_limit_mw: Option<u32>,
    pub(crate) enforced_limit_mw: Option<u32>,
    pub(crate) locked_sm_mhz: Option<u32>,
    pub(crate) reserved_mib: u32,
    pub(crate) foreign_mib: u32,
    pub(crate) garbage: Groups,
    pub(crate) frozen: bool,
    pub(crate) lost: bool,
    pub(crate) reset_required: bool,
    pub(crate) remapped: Remapped,
    pub(crate) retired_pages: u32,
    pub(crate) retirement_pending: bool,
    pub(crate) recovery_action: u32,
    pub(crate) pcie: Option<(u32, u32)>,
    pub(crate) links_down: u32,
    pub(crate) mig: Option<MigCut>,
    /// `Some(None)` blocks for as long as the fault holds.
    pub(crate) hang: Option<Option<u32>>,
    masked: [(Groups, u32); 4],
    masks: usize,
}

/// State of the row remapper.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Remapped {
    pub(crate) corrected: u32,
    pub(crate) uncorrected: u32,
    pub(crate) pending: bool,
    pub(crate) failure: bool,
}

impl ActiveFaults {
    /// The faults of `card`: those of the scenario that hold at `second`, and all of `control`,
    /// which have no time and so always hold.
    pub(crate) fn of(card: usize, second: u64, scenario: &[Fault], control: &[Fault]) -> Self {
        let mut active = Self::default();
        for (number, fault) in (1..).zip(scenario.iter().chain(control)) {
            if fault.concerns(card) && fault.holds_at(second) {
                active.add(&fault.effect, number);
            }
        }
        active
    }

    /// The code that a call of this group fails with, if it does.
    pub(crate) fn refusal(&self, group: Group) -> Option<u32> {
        const GPU_IS_LOST: u32 = 15;
        const RESET_REQUIRED: u32 = 16;
        if self.lost {
            return Some(GPU_IS_LOST);
        }
        if self.reset_required {
            return Some(RESET_REQUIRED);
        }
        let masked = &self.masked[..self.masks];
        masked.iter().find(|(groups, _)| groups.has(group)).map(|(_, code)| *code)
    }

    /// `number` tells this fault from all others that the card knows of.
    fn add(&mut self, effect: &Effect, number: u32) {
        match effect {
            Effect::ThermalThrottle {} => self.thermal = true,
            Effect::PowerBrake {} => self.power_brake = true,
            Effect::PowerLimit { limit_mw } => self.management_limit_mw = Some(*limit_mw),
            Effect::EnforcedBelowManagement { limit_mw } => {
                self.enforced_limit_mw = Some(*limit_mw)
            }
            Effect::LockedClocks { sm_mhz } => self.locked_sm_mhz = Some(*sm_mhz),
            Effect::ReservedMemory { mib } => self.reserved_mib += mib,
            Effect::ForeignMemory { mib } => self.foreign_mib += mib,
            Effect::Masked { metrics, code } => self.mask(metrics.iter().copied().collect(), *code),
            Effect::NvmlError { code, metrics } => self.mask(Groups::named_or_all(metrics), *code),
            Effect::Garbage { metrics } => self.garbage = Groups::named_or_all(metrics),
            Effect::Frozen {} => self.frozen = true,
            Effect::GpuLost {} => self.lost = true,
            Effect::ResetRequired {} => self.reset_required = true,
            Effect::RecoveryAction { code } => self.recovery_action = *code,
            Effect::PcieLink { generation, width } => self.pcie = Some((*generation, *width)),
            Effect::NvlinkDown { links } => self.links_down = *links,
            Effect::MigOn { instances, slices } if slices.is_empty() => {
                self.mig = Some(MigCut::even(number, *instances));
            }
            Effect::MigOn { slices, .. } => self.mig = Some(MigCut::planned(number, slices)),
            Effect::Hang { seconds } => self.hang = Some(*seconds),
            Effect::RetiredPages { count, pending } => {
                (self.retired_pages, self.retirement_pending) = (*count, *pending);
            }
            Effect::RemappedRows { corrected, uncorrected, pending, failure } => {
                let (corrected, uncorrected) = (*corrected, *uncorrected);
                let (pending, failure) = (*pending, *failure);
                self.remapped = Remapped { corrected, uncorrected, pending, failure };
            }
            // Edges, and what is read at init only.
            Effect::Xid { .. }
            | Effect::EccCorrected { .. }
            | Effect::EccUncorrected { .. }
            | Effect::DriverReload {}
            | Effect::MissingAfterRestart {}
            | Effect::OldDriver {}
            | Effect::IndexReorder {}
            | Effect::UuidChange {}
            | Effect::ZeroDevices {}
            | Effect::DriverNotLoaded {} => {}
        }
    }

    /// Later masks than the array holds replace its last one.
    fn mask(&mut self, groups: Groups, code: u32) {
        let at = self.masks.min(self.masked.len() - 1);
        self.masked[at] = (groups, code);
        self.masks = at + 1;
    }
}
