//! How a GPU hangs in its host, and on what disk the tenant works: facts that a lease is about and
//! that no reading shows.
//!
//! Each fact is there or has a typed reason; a fact that could not be read is never the best or the
//! worst one. Not here: what a path or a link is good for.

use crate::evidence::canonical::Value;
use crate::evidence::statement::{Fields, StatementBuilder, StatementError};
use crate::id::BusId;
use crate::segment::limits;

/// Groups of links of one GPU; no board has more links.
const LINK_GROUPS: usize = 64;

/// Why a fact could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Unread {
    /// Not offered here: by this hardware, driver, kernel or container.
    Unsupported,
    /// There, and not for this account.
    Denied,
    /// It should be there, and asking for it failed or gave nonsense.
    Failed,
}

impl Unread {
    /// Every reason.
    pub const ALL: [Self; 3] = [Self::Unsupported, Self::Denied, Self::Failed];

    /// `unsupported`, `denied` or `failed`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unsupported => "unsupported",
            Self::Denied => "denied",
            Self::Failed => "failed",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

/// A fact, or why there is none.
pub type Found<T> = Result<T, Unread>;

/// How a GPU hangs in its host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuWiring {
    /// NUMA nodes whose memory is near, as Linux writes lists: `0`, `0-1`.
    pub numa_nodes: Found<String>,
    /// CPUs that are near, as Linux writes lists: `0-31,64-95`.
    pub cpus: Found<String>,
    /// NVLink links that the board has, those with equal properties together; empty = none.
    pub nvlinks: Found<Vec<NvlinkGroup>>,
    /// What lies between this GPU and those whose bus id is greater: each pair of a node stands
    /// once. Ascending by level, those that were not read last; each level once.
    pub paths: Vec<GpuPaths>,
}

/// NVLink links of a GPU that are alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NvlinkGroup {
    /// How many.
    pub count: i64,
    /// True while they are up.
    pub up: bool,
    /// NVML's number of their version, which is not the marketing generation.
    pub version: Option<i64>,
    /// Megabytes a second of one link and direction.
    pub speed_mb_s: Option<i64>,
    /// What is on the other side.
    pub remote: NvlinkRemote,
}

/// What an NVLink link leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NvlinkRemote {
    /// Another GPU.
    Gpu,
    /// A switch.
    Switch,
    /// A processor with links of its own.
    Cpu,
    /// The driver does not say, or nothing answers there.
    Unknown,
}

impl NvlinkRemote {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Gpu, Self::Switch, Self::Cpu, Self::Unknown];

    /// `gpu`, `switch`, `cpu` or `unknown`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Switch => "switch",
            Self::Cpu => "cpu",
            Self::Unknown => "unknown",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|remote| remote.name() == name)
    }
}

/// GPUs that are equally far over PCIe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuPaths {
    /// The nearest that both have in common.
    pub level: Found<PathLevel>,
    /// Where the other GPUs sit, ascending; at least one.
    pub bus_ids: Vec<BusId>,
}

/// What two GPUs have in common, from near to far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PathLevel {
    /// One board.
    Board,
    /// One PCIe switch.
    Switch,
    /// Several PCIe switches, and no host bridge between.
    Switches,
    /// A host bridge.
    HostBridge,
    /// A NUMA node.
    NumaNode,
    /// The system: the way leads from one NUMA node to another.
    System,
}

impl PathLevel {
    /// Every level, from near to far.
    pub const ALL: [Self; 6] =
        [Self::Board, Self::Switch, Self::Switches, Self::HostBridge, Self::NumaNode, Self::System];

    /// `board`, `switch`, `switches`, `host_bridge`, `numa_node` or `system`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Board => "board",
            Self::Switch => "switch",
            Self::Switches => "switches",
            Self::HostBridge => "host_bridge",
            Self::NumaNode => "numa_node",
            Self::System => "system",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|level| level.name() == name)
    }
}

/// The disk below the working directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkDisk {
    /// What it is.
    pub medium: Found<DiskMedium>,
    /// The file system on it, as the kernel names it; `None` = not read.
    pub filesystem: Option<String>,
}

/// What a disk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DiskMedium {
    /// Flash on an NVMe bus.
    Nvme,
    /// Another disk without moving parts.
    SolidState,
    /// A spinning disk.
    Rotational,
    /// A disk of a virtual machine, which does not tell what is below it.
    Virtual,
    /// Another machine's.
    Network,
    /// A layer of a container, which does not tell on which disk it lies.
    Overlay,
    /// Memory.
    Memory,
}

impl DiskMedium {
    /// Every medium.
    pub const ALL: [Self; 7] = [
        Self::Nvme,
        Self::SolidState,
        Self::Rotational,
        Self::Virtual,
        Self::Network,
        Self::Overlay,
        Self::Memory,
    ];

    /// `nvme`, `solid_state`, `rotational`, `virtual`, `network`, `overlay` or `memory`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nvme => "nvme",
            Self::SolidState => "solid_state",
            Self::Rotational => "rotational",
            Self::Virtual => "virtual",
            Self::Network => "network",
            Self::Overlay => "overlay",
            Self::Memory => "memory",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|medium| medium.name() == name)
    }
}

impl GpuWiring {
    pub(super) fn put(&self, fields: StatementBuilder) -> StatementBuilder {
        let fields = match &self.numa_nodes {
            Ok(nodes) => fields.text("numa_nodes", nodes),
            Err(reason) => fields.text("numa_nodes_unread", reason.name()),
        };
        let fields = match &self.cpus {
            Ok(cpus) => fields.text("cpus", cpus),
            Err(reason) => fields.text("cpus_unread", reason.name()),
        };
        let fields = match &self.nvlinks {
            Ok(groups) => fields.objects("nvlinks", groups.iter().map(NvlinkGroup::to_fields)),
            Err(reason) => fields.text("nvlinks_unread", reason.name()),
        };
        fields.objects("paths", self.paths.iter().map(GpuPaths::to_fields))
    }

    pub(super) fn take(fields: &mut Fields) -> Result<Self, StatementError> {
        let text = |fields: &mut Fields, name| fields.text(name, limits::TEXT_CHARS);
        let wiring = Self {
            numa_nodes: found(fields, ("numa_nodes", "numa_nodes_unread"), text)?,
            cpus: found(fields, ("cpus", "cpus_unread"), text)?,
            nvlinks: found(fields, ("nvlinks", "nvlinks_unread"), |fields, name| {
                list(fields, (name, LINK_GROUPS), NvlinkGroup::from_fields)
            })?,
            paths: list(fields, ("paths", PathLevel::ALL.len() + 3), GpuPaths::from_fields)?,
        };
        if wiring.paths.is_sorted_by(|a, b| rank(a.level) < rank(b.level)) {
            Ok(wiring)
        } else {
            Err(StatementError::Invalid { field: "paths" })
        }
    }
}

/// Where a level stands in [`GpuWiring::paths`].
fn rank(level: Found<PathLevel>) -> (bool, Option<PathLevel>, Option<Unread>) {
    (level.is_err(), level.ok(), level.err())
}

impl NvlinkGroup {
    fn to_fields(&self) -> StatementBuilder {
        StatementBuilder::object_of()
            .int("count", self.count)
            .flag("up", self.up)
            .opt_int("version", self.version)
            .opt_int("speed_mb_s", self.speed_mb_s)
            .text("remote", self.remote.name())
    }

    fn from_fields(fields: &mut Fields) -> Result<Self, StatementError> {
        Ok(Self {
            count: fields.count("count")?,
            up: fields.flag("up")?,
            version: fields.opt_count("version")?,
            speed_mb_s: fields.opt_count("speed_mb_s")?,
            remote: fields.name("remote", NvlinkRemote::from_name)?,
        })
    }
}

impl GpuPaths {
    fn to_fields(&self) -> StatementBuilder {
        let bus_ids = self.bus_ids.iter().map(|id| Value::Str(id.to_string())).collect();
        let fields = StatementBuilder::object_of().value("bus_ids", Value::Array(bus_ids));
        match self.level {
            Ok(level) => fields.text("level", level.name()),
            Err(reason) => fields.text("level_unread", reason.name()),
        }
    }

    fn from_fields(fields: &mut Fields) -> Result<Self, StatementError> {
        let invalid = StatementError::Invalid { field: "bus_ids" };
        let level = found(fields, ("level", "level_unread"), |fields, name| {
            fields.name(name, PathLevel::from_name)
        })?;
        let read = |value| match value {
            Value::Str(text) => text.parse::<BusId>().ok(),
            _ => None,
        };
        let ids = fields.array("bus_ids", limits::GPUS)?.into_iter().map(read);
        let bus_ids: Vec<BusId> = ids.collect::<Option<_>>().ok_or(invalid.clone())?;
        if bus_ids.is_empty() || !bus_ids.is_sorted_by(|a, b| a < b) {
            return Err(invalid);
        }
        Ok(Self { level, bus_ids })
    }
}

impl WorkDisk {
    pub(super) fn put(&self, fields: StatementBuilder) -> StatementBuilder {
        let fields = fields.opt_text("filesystem", self.filesystem.as_deref());
        match self.medium {
            Ok(medium) => fields.text("medium", medium.name()),
            Err(reason) => fields.text("medium_unread", reason.name()),
        }
    }

    pub(super) fn take(fields: &mut Fields) -> Result<Self, StatementError> {
        let medium = found(fields, ("medium", "medium_unread"), |fields, name| {
            fields.name(name, DiskMedium::from_name)
        })?;
        Ok(Self { medium, filesystem: fields.opt_text("filesystem", limits::TEXT_CHARS)? })
    }
}

/// A fact under its own name, or its reason under the other; never both, never neither.
fn found<T>(
    fields: &mut Fields,
    (name, unread): (&'static str, &'static str),
    read: impl FnOnce(&mut Fields, &'static str) -> Result<T, StatementError>,
) -> Result<Found<T>, StatementError> {
    match fields.opt_name(unread, Unread::from_name)? {
        // A fact beside its reason is left over, and refused as unknown.
        Some(reason) => Ok(Err(reason)),
        None => read(fields, name).map(Ok),
    }
}

fn list<T>(
    fields: &mut Fields,
    (name, max): (&'static str, usize),
    read: impl Fn(&mut Fields) -> Result<T, StatementError>,
) -> Result<Vec<T>, StatementError> {
    let read = |item| {
        let mut fields = Fields::of_value(name, item)?;
        let item = read(&mut fields)?;
        fields.finish().map(|()| item)
    };
    fields.array(name, max)?.into_iter().map(read).collect()
}
