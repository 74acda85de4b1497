//! Faults: what goes wrong with which card, and when.

use serde::Deserialize;

/// A fault with its card (`None` = every card) and its time in seconds of the scenario.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(try_from = "toml::Table")]
pub(crate) struct Fault {
    pub(crate) card: Option<usize>,
    pub(crate) at_s: u64,
    pub(crate) until_s: Option<u64>,
    pub(crate) effect: Effect,
}

impl Fault {
    pub(crate) fn concerns(&self, card: usize) -> bool {
        self.card.is_none_or(|only| only == card)
    }

    pub(crate) fn holds_at(&self, second: u64) -> bool {
        self.at_s <= second && self.until_s.is_none_or(|until| second < until)
    }
}

/// What a fault does.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Effect {
    /// Hot: clocks at half, software and hardware thermal slowdown.
    ThermalThrottle {},
    /// The external power brake is pulled.
    PowerBrake {},
    /// Somebody lowered the management limit.
    PowerLimit { limit_mw: u32 },
    /// A limit out of band, below the management limit.
    EnforcedBelowManagement { limit_mw: u32 },
    /// The SM clock is held down without any reason bit.
    LockedClocks { sm_mhz: u32 },
    /// Memory that the driver keeps for itself.
    ReservedMemory { mib: u32 },
    /// Memory used by processes that are not listed.
    ForeignMemory { mib: u32 },
    /// Calls answer "not supported" (or `code`).
    Masked {
        metrics: Vec<Group>,
        #[serde(default = "not_supported")]
        code: u32,
    },
    /// Calls answer `code`; all of them when no metrics are named.
    NvmlError {
        code: u32,
        #[serde(default)]
        metrics: Vec<Group>,
    },
    /// Calls answer values that cannot be; all that have such values when no metrics are named.
    Garbage {
        #[serde(default)]
        metrics: Vec<Group>,
    },
    /// Readings stand still while the counters go on.
    Frozen {},
    /// All calls answer 15.
    GpuLost {},
    /// All calls answer 16.
    ResetRequired {},
    /// Not there when the library is initialised.
    MissingAfterRestart {},
    /// An XID event at the beginning of the fault.
    Xid {
        code: u64,
        #[serde(default = "no_instance")]
        gpu_instance: u32,
        #[serde(default = "no_instance")]
        compute_instance: u32,
    },
    /// Corrected errors, once, at the beginning of the fault.
    EccCorrected { count: u64 },
    /// Uncorrected errors, once, at the beginning of the fault.
    EccUncorrected { count: u64 },
    /// State of the row remapper while the fault holds.
    RemappedRows {
        #[serde(default)]
        corrected: u32,
        #[serde(default)]
        uncorrected: u32,
        #[serde(default)]
        pending: bool,
        #[serde(default)]
        failure: bool,
    },
    /// Pages retired while the fault holds (Volta and Turing).
    RetiredPages {
        count: u32,
        #[serde(default)]
        pending: bool,
    },
    /// What the driver asks for (field 230).
    RecoveryAction { code: u32 },
    /// The PCI Express link trained lower.
    PcieLink { generation: u32, width: u32 },
    /// NVLink links that are down, from the last one.
    NvlinkDown { links: u32 },
    /// MIG mode: with that many even slices, or with the slices of these GPU instances.
    MigOn {
        #[serde(default = "two")]
        instances: u32,
        #[serde(default)]
        slices: Vec<GpuInstancePlan>,
    },
    /// The driver was loaded anew: its counters begin at zero.
    DriverReload {},
    /// Driver 418: newer functions answer 13. Read at init.
    OldDriver {},
    /// Calls block for so long, or for as long as the fault holds.
    Hang { seconds: Option<u32> },
    /// The order of indices is reversed. Read at init.
    IndexReorder {},
    /// Another card sits in the slot. Read at init.
    UuidChange {},
    /// There are no cards. Read at init.
    ZeroDevices {},
    /// `nvmlInit` answers 9.
    DriverNotLoaded {},
}

/// A GPU instance of a card that is cut.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GpuInstancePlan {
    /// Its part of the card's seven compute slices.
    pub(crate) compute_slices: u32,
    /// Compute instances that it is cut into; each is a MIG device.
    #[serde(default = "one")]
    pub(crate) compute_instances: u32,
    /// How busy it is; like the card where nothing is said.
    pub(crate) percent: Option<u32>,
    /// NVML's id; from 7 upwards where nothing is said.
    pub(crate) gpu_instance: Option<u32>,
}

impl GpuInstancePlan {
    /// What is wrong with these instances as the cut of one card.
    pub(super) fn fault(plans: &[Self]) -> Option<&'static str> {
        let sum: u32 = plans.iter().map(|plan| plan.compute_slices.min(8)).sum();
        let is_cut = |plan: &Self| (1..=plan.compute_slices).contains(&plan.compute_instances);
        if sum > 7 || !plans.iter().all(is_cut) {
            return Some(
                "slices take 1 to 7 compute slices together, and as many instances at most",
            );
        }
        let is_percent = |plan: &Self| plan.percent.is_none_or(|percent| percent <= 100);
        (!plans.iter().all(is_percent)).then_some("percent of a slice is 0 to 100")
    }
}

/// Readings that fail or are masked together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u32)]
pub(crate) enum Group {
    Identity,
    Serial,
    Memory,
    Utilization,
    Samples,
    Encoder,
    Decoder,
    Processes,
    Power,
    PowerLimits,
    Energy,
    Temperature,
    MemoryTemperature,
    Clocks,
    ClocksEventReasons,
    Violation,
    Ecc,
    RemappedRows,
    RetiredPages,
    Pcie,
    PcieThroughput,
    Topology,
    Nvlink,
    Fan,
    Gpm,
    Mig,
    Modes,
    Fields,
    Events,
}

/// A set of [`Group`]s.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Groups(u32);

impl Groups {
    pub(crate) const ALL: Self = Self(u32::MAX);

    /// The named groups; all when none is named.
    pub(crate) fn named_or_all(groups: &[Group]) -> Self {
        if groups.is_empty() { Self::ALL } else { groups.iter().copied().collect() }
    }

    pub(crate) fn has(self, group: Group) -> bool {
        self.0 & 1 << group as u32 != 0
    }
}

impl FromIterator<Group> for Groups {
    fn from_iter<I: IntoIterator<Item = Group>>(groups: I) -> Self {
        Self(groups.into_iter().fold(0, |set, group| set | 1 << group as u32))
    }
}

impl TryFrom<toml::Table> for Fault {
    type Error = toml::de::Error;

    fn try_from(mut table: toml::Table) -> Result<Self, Self::Error> {
        // The common keys are taken out first, so that each effect can refuse what it does not know.
        let times = Span::deserialize(toml::Table::from_iter(
            ["card", "at_s", "until_s"].into_iter().filter_map(|key| table.remove_entry(key)),
        ))?;
        let effect = Effect::deserialize(table)?;
        Ok(Self { card: times.card, at_s: times.at_s, until_s: times.until_s, effect })
    }
}

#[derive(Deserialize)]
struct Span {
    card: Option<usize>,
    #[serde(default)]
    at_s: u64,
    until_s: Option<u64>,
}

fn not_supported() -> u32 {
    3
}

fn no_instance() -> u32 {
    u32::MAX
}

fn one() -> u32 {
    1
}

fn two() -> u32 {
    2
}
