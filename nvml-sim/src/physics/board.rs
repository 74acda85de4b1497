//! A board: the catalogue's facts about a model, completed with plausible values where the
//! catalogue knows none, because a driver always answers something.

use leasewatch_core::catalogue::gpu::{Architecture, BoardClass, EccSupport, GpuModel};

use crate::scenario::CardPlan;

/// The fixed side of a card.
#[derive(Debug, Clone)]
pub(crate) struct Board {
    pub(crate) model: &'static GpuModel,
    pub(crate) memory_mib: u32,
    /// What the driver keeps for itself.
    pub(crate) reserved_mib: u32,
    pub(crate) default_limit_mw: u32,
    pub(crate) min_limit_mw: u32,
    pub(crate) max_limit_mw: u32,
    pub(crate) idle_power_mw: u32,
    pub(crate) max_sm_mhz: u32,
    pub(crate) max_memory_mhz: u32,
    pub(crate) idle_sm_mhz: u32,
    pub(crate) idle_memory_mhz: u32,
    pub(crate) busy_memory_mhz: u32,
    pub(crate) idle_pstate: u32,
    pub(crate) busy_pstate: u32,
    pub(crate) slowdown_c: u32,
    pub(crate) shutdown_c: u32,
    pub(crate) max_operating_c: u32,
    pub(crate) nvlink_links: u32,
    pub(crate) pcie_generation: u32,
    pub(crate) pcie_width: u32,
}

impl Board {
    pub(crate) fn of(plan: &CardPlan) -> Self {
        let model = plan.model;
        let hbm = model.memory_temperature_readable() == Some(true);
        let geforce = model.class == BoardClass::GeForce;
        let nominal_mib = model.memory_nominal_gb.map(|gb| gb * 1_000_000_000 / (1 << 20));
        let memory_mib =
            plan.facts.memory_mib.unwrap_or(known(model.memory_mib.or(nominal_mib), 16_384));
        let default_limit_mw = plan
            .facts
            .default_limit_mw
            .unwrap_or(known(model.default_limit_mw.or(model.tdp_mw), 300_000));
        let max_memory_mhz = known(model.max_memory_mhz, if hbm { 1_593 } else { 7_001 });
        Self {
            model,
            memory_mib,
            reserved_mib: memory_mib / 165,
            default_limit_mw,
            min_limit_mw: known(model.min_limit_mw, i64::from(default_limit_mw / 2)),
            max_limit_mw: known(model.max_limit_mw, i64::from(default_limit_mw))
                .max(default_limit_mw),
            idle_power_mw: default_limit_mw / if geforce { 20 } else { 10 },
            max_sm_mhz: known(model.max_sm_mhz.or(model.boost_mhz), 1_500),
            max_memory_mhz,
            idle_sm_mhz: idle_sm_mhz(model.architecture, hbm),
            idle_memory_mhz: if hbm { max_memory_mhz } else { 405 },
            // GeForce under CUDA stays in P2, a step below its highest memory clock.
            busy_memory_mhz: max_memory_mhz - if geforce { 250 } else { 0 },
            idle_pstate: if hbm { 0 } else { 8 },
            busy_pstate: if geforce { 2 } else { 0 },
            slowdown_c: celsius(model.temperature.slowdown_c, 87),
            shutdown_c: celsius(model.temperature.shutdown_c, 92),
            max_operating_c: celsius(model.temperature.max_operating_c, 85),
            nvlink_links: known(model.nvlink_links, 0),
            pcie_generation: known(model.pcie_gen, 4),
            pcie_width: known(model.pcie_width, 16),
        }
    }

    /// True for boards with ECC that NVML can show.
    pub(crate) fn has_ecc(&self) -> bool {
        matches!(self.model.ecc, Some(EccSupport::OnByDefault | EccSupport::OffByDefault))
    }

    pub(crate) fn ecc_on(&self) -> bool {
        self.model.ecc == Some(EccSupport::OnByDefault)
    }

    /// Ampere and later remap rows; Volta and Turing retire pages.
    pub(crate) fn remaps_rows(&self) -> bool {
        self.model.architecture >= Architecture::Ampere && self.model.class != BoardClass::GeForce
    }

    pub(crate) fn retires_pages(&self) -> bool {
        self.model.architecture < Architecture::Ampere && self.ecc_on()
    }

    /// Ada and later tell temperatures as a margin to the limit.
    pub(crate) fn tells_margins(&self) -> bool {
        self.model.architecture >= Architecture::Ada && self.model.class != BoardClass::GeForce
    }

    /// NVLink of modules is always connected; that of PCIe boards needs a bridge, which is absent.
    pub(crate) fn connected_links(&self) -> u32 {
        if self.model.form == "PCIe" { 0 } else { self.nvlink_links }
    }

    /// Megabytes a second of one link and direction.
    pub(crate) fn link_mb_s(&self) -> u32 {
        let total = known(self.model.nvlink_total_mb_s, 0);
        total.checked_div(self.nvlink_links * 2).unwrap_or(0)
    }
}

fn idle_sm_mhz(architecture: Architecture, hbm: bool) -> u32 {
    match architecture {
        Architecture::Hopper => 345,
        Architecture::Volta => 135,
        Architecture::Turing => 300,
        Architecture::Blackwell if hbm => 120,
        Architecture::Ampere | Architecture::Ada | Architecture::Blackwell => 210,
    }
}

fn known(fact: Option<i64>, otherwise: i64) -> u32 {
    u32::try_from(fact.unwrap_or(otherwise)).unwrap_or(0)
}

fn celsius(fact: Option<i32>, otherwise: u32) -> u32 {
    fact.and_then(|c| u32::try_from(c).ok()).unwrap_or(otherwise)
}
