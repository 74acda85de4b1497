//! What happened on a node, as typed values.
//!
//! Every event travels in the signed chain, inside a segment's events block. Text in it comes
//! from a driver, a kernel or a provider and is hostile: [`Event::new`] makes it inert, and the
//! codec refuses text that is not. Not here: what an event means for an hour (`metering`) or for
//! a person (`catalogue`).

mod fields;

use crate::evidence::canonical::Value;
use crate::evidence::statement::{Fields, StatementError};
use crate::id::{BusId, GpuUuid, LifeUnitId, clean_text};
use crate::segment::{GpuWiring, Partition, Place, WorkDisk, limits};
use crate::time::Timestamp;

pub(super) use fields::{read_events, write_events};

/// Something that happened at an instant, to a GPU or to the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When, by the node's clock.
    pub at: Timestamp,
    /// To which GPU; `None` when it concerns the node, or when the GPU is not known.
    pub gpu: Option<GpuUuid>,
    /// What.
    pub kind: EventKind,
}

impl Event {
    /// An event whose texts are cut to [`limits::TEXT_CHARS`] and freed of control characters.
    #[must_use]
    pub fn new(at: Timestamp, gpu: Option<GpuUuid>, mut kind: EventKind) -> Self {
        for text in kind.texts_mut() {
            *text = clean_text(text, limits::TEXT_CHARS);
        }
        Self { at, gpu, kind }
    }

    /// The event as it stands in an events block: one canonical JSON object.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        fields::to_fields(self).to_bytes()
    }

    /// Reads what [`Event::to_json`] wrote.
    ///
    /// # Errors
    /// [`StatementError`] with the name of the field.
    pub fn from_json(bytes: &[u8]) -> Result<Self, StatementError> {
        let value = Value::parse(bytes, limits::BLOCK_BYTES)?;
        fields::from_fields(Fields::of_value("event", value)?)
    }
}

/// What happened. All numbers are below 2^53 in absolute value; counts, sizes, durations and
/// limits are not negative.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EventKind {
    /// First event of each epoch.
    AgentStarted {
        /// Version of the agent program.
        version: String,
        /// The life that the epoch belongs to.
        life_unit: LifeUnit,
        /// The kernel's clock source, as it names it.
        clock_source: String,
    },
    /// A planned stop: silence after it is not a failure.
    Goodbye {
        /// Why the agent stops.
        reason: StopReason,
    },
    /// The host at the start of an epoch.
    HostSeen(HostInventory),
    /// First sight of a GPU in an epoch, and each change. The event's `gpu` is the inventory's
    /// `uuid`.
    GpuSeen(GpuInventory),
    /// How a GPU hangs in its host: at first sight in an epoch, and each change.
    GpuWired(GpuWiring),
    /// The disk below the working directory: at the start of an epoch, and each change.
    DiskSeen(WorkDisk),
    /// The GPU fell off: from here on there are no readings of it.
    GpuLost {
        /// NVML's return code.
        nvml_code: i64,
    },
    /// A lost GPU answers again.
    GpuBack,
    /// Present in an earlier epoch and absent after a start.
    GpuMissing {
        /// The place it sat in.
        bus_id: BusId,
    },
    /// Another GPU now sits in the same place. The event's `gpu` is `old`.
    GpuReplaced {
        /// The place.
        bus_id: BusId,
        /// The GPU that sat there.
        old: GpuUuid,
        /// The GPU that sits there now.
        new: GpuUuid,
    },
    /// A slice of a GPU is not there any more: it was cut anew, or MIG mode is off. The event's
    /// `gpu` is the slice.
    PartitionRemoved,
    /// NVML works and sees no device.
    NoGpuAttached,
    /// NVML's library is missing, cannot be loaded or does not fit the driver.
    NvmlUnavailable {
        /// NVML's return code, or -1 when the library could not be loaded.
        nvml_code: i64,
    },
    /// Counters went back, or NVML had to be initialised anew.
    DriverReloaded,
    /// A driver error report.
    Xid {
        /// NVIDIA's code, raw.
        code: i64,
    },
    /// New uncorrected ECC errors.
    EccUncorrected {
        /// How many since the reading before.
        count: i64,
    },
    /// A call into the driver has not returned for 5 s.
    CollectorStalled,
    /// It returned.
    CollectorResumed {
        /// How long it had hung, in milliseconds.
        stalled_ms: i64,
    },
    /// The wall clock was set, seen against the boot clock.
    ClockStepped {
        /// Milliseconds that it was set forward (negative: back).
        by_ms: i64,
    },
    /// MIG mode changed.
    MigChanged {
        /// The mode now.
        enabled: bool,
    },
    /// The enforced power limit changed.
    PowerLimitChanged {
        /// Milliwatts before.
        from_mw: i64,
        /// Milliwatts now.
        to_mw: i64,
    },
    /// Implausible values that were not recorded.
    ReadingsDropped {
        /// Name of the metric.
        metric: String,
        /// How many.
        count: i64,
    },
    /// Ticks that the sampler did not come to.
    TicksMissed {
        /// How many.
        count: i64,
    },
    /// A job of the tenant began under the agent's eyes. What it runs is not recorded.
    JobStarted {
        /// The name that whoever started it gave it.
        name: String,
    },
    /// That job ended.
    JobEnded {
        /// The name that it began with.
        name: String,
        /// How.
        end: JobEnd,
    },
}

impl EventKind {
    /// Its name in the events block, in tables and on pages: `xid`, `gpu_lost` ..
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::AgentStarted { .. } => "agent_started",
            Self::Goodbye { .. } => "goodbye",
            Self::HostSeen(_) => "host_seen",
            Self::GpuSeen(_) => "gpu_seen",
            Self::GpuWired(_) => "gpu_wired",
            Self::DiskSeen(_) => "disk_seen",
            Self::GpuLost { .. } => "gpu_lost",
            Self::GpuBack => "gpu_back",
            Self::GpuMissing { .. } => "gpu_missing",
            Self::GpuReplaced { .. } => "gpu_replaced",
            Self::PartitionRemoved => "partition_removed",
            Self::NoGpuAttached => "no_gpu_attached",
            Self::NvmlUnavailable { .. } => "nvml_unavailable",
            Self::DriverReloaded => "driver_reloaded",
            Self::Xid { .. } => "xid",
            Self::EccUncorrected { .. } => "ecc_uncorrected",
            Self::CollectorStalled => "collector_stalled",
            Self::CollectorResumed { .. } => "collector_resumed",
            Self::ClockStepped { .. } => "clock_stepped",
            Self::MigChanged { .. } => "mig_changed",
            Self::PowerLimitChanged { .. } => "power_limit_changed",
            Self::ReadingsDropped { .. } => "readings_dropped",
            Self::TicksMissed { .. } => "ticks_missed",
            Self::JobStarted { .. } => "job_started",
            Self::JobEnded { .. } => "job_ended",
        }
    }

    /// Every free text in it.
    fn texts_mut(&mut self) -> Vec<&mut String> {
        match self {
            Self::AgentStarted { version, life_unit, clock_source } => {
                vec![version, &mut life_unit.boot_id, clock_source]
            }
            Self::HostSeen(host) => vec![
                &mut host.hostname,
                &mut host.kernel,
                &mut host.driver_version,
                &mut host.nvml_version,
                &mut host.cuda_version,
            ],
            Self::GpuSeen(gpu) => [
                Some(&mut gpu.name),
                gpu.serial.as_mut(),
                gpu.vbios.as_mut(),
                gpu.part_number.as_mut(),
            ]
            .into_iter()
            .flatten()
            .collect(),
            Self::GpuWired(wiring) => {
                wiring.numa_nodes.iter_mut().chain(&mut wiring.cpus).collect()
            }
            Self::DiskSeen(disk) => disk.filesystem.iter_mut().collect(),
            Self::ReadingsDropped { metric, .. } => vec![metric],
            Self::JobStarted { name } | Self::JobEnded { name, .. } => vec![name],
            _ => Vec::new(),
        }
    }
}

/// Why an agent stops as planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StopReason {
    /// Replaced by another version.
    Upgrade,
    /// Told to stop, or the host shuts down.
    Shutdown,
    /// The lease is over.
    LeaseEnd,
    /// The end of an imported log.
    ImportEnd,
}

impl StopReason {
    /// Every reason.
    pub const ALL: [Self; 4] = [Self::Upgrade, Self::Shutdown, Self::LeaseEnd, Self::ImportEnd];

    /// `upgrade`, `shutdown`, `lease_end` or `import_end`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Upgrade => "upgrade",
            Self::Shutdown => "shutdown",
            Self::LeaseEnd => "lease_end",
            Self::ImportEnd => "import_end",
        }
    }

    /// The reason with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JobEnd {
    /// By itself, with this exit code, 0 to 255.
    Exited(i64),
    /// By this signal, 1 to 127.
    Signalled(i64),
}

/// The stretch of life that counters and gaps belong to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LifeUnit {
    /// Its id, the same as in the head.
    pub id: LifeUnitId,
    /// What kind of life it is.
    pub kind: LifeUnitKind,
    /// The kernel's boot id, as it prints it.
    pub boot_id: String,
    /// When it began, by the node's clock.
    pub started_at: Timestamp,
}

/// What a life unit is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LifeUnitKind {
    /// A boot of a host.
    Host,
    /// One life of a container.
    Container,
}

impl LifeUnitKind {
    /// `host` or `container`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Container => "container",
        }
    }

    /// The kind with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Host, Self::Container].into_iter().find(|kind| kind.name() == name)
    }
}

/// What the host is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostInventory {
    /// Its name.
    pub hostname: String,
    /// Kernel release.
    pub kernel: String,
    /// Logical CPUs that the agent may use.
    pub cpus: i64,
    /// Memory in MiB.
    pub memory_mib: i64,
    /// Version of the GPU driver.
    pub driver_version: String,
    /// Version of NVML.
    pub nvml_version: String,
    /// Highest CUDA version that the driver supports.
    pub cuda_version: String,
    /// True when the agent runs in a container.
    pub container: bool,
}

/// What a GPU or a slice of one is, as NVML reports it. `None` = not offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuInventory {
    /// The physical device, or the slice.
    pub uuid: GpuUuid,
    /// The place it sits in; a slice's is that of its parent.
    pub bus_id: BusId,
    /// NVML's index in this epoch.
    pub index: i64,
    /// Product name.
    pub name: String,
    /// PCI device id (device in the high, vendor in the low 16 bits); 0 when not known.
    pub pci_device_id: i64,
    /// Serial number of the board.
    pub serial: Option<String>,
    /// VBIOS version.
    pub vbios: Option<String>,
    /// Part number of the board.
    pub part_number: Option<String>,
    /// Memory in MiB.
    pub memory_total_mib: Option<i64>,
    /// Power limit of the VBIOS in milliwatts.
    pub power_limit_default_mw: Option<i64>,
    /// Power limit set in-band in milliwatts.
    pub power_limit_management_mw: Option<i64>,
    /// Highest PCIe generation of board and slot.
    pub pcie_generation_max: Option<i64>,
    /// Most PCIe lanes of board and slot.
    pub pcie_width_max: Option<i64>,
    /// True while MIG mode is on.
    pub mig: bool,
    /// What it is a slice of; `None` for a whole GPU.
    pub partition: Option<Partition>,
}

impl GpuInventory {
    /// The place that it sits in.
    #[must_use]
    pub fn place(&self) -> Place {
        Place::of(&self.bus_id, self.partition.as_ref())
    }
}
