//! The events block's body: a canonical JSON array with one object per event.
//!
//! JSON, because events are rare and because whoever checks a segment wants to read them. The
//! reader is strict, so bytes and content name each other as in the rest of the format.

use super::{
    Event, EventKind, GpuInventory, HostInventory, JobEnd, LifeUnit, LifeUnitKind, StopReason,
};
use crate::evidence::canonical::{INT_MAX, Value};
use crate::evidence::statement::{Fields, StatementBuilder, StatementError};
use crate::id::GpuUuid;
use crate::segment::{GpuWiring, Partition, WorkDisk, limits};

const CODES: std::ops::RangeInclusive<i64> = -INT_MAX..=INT_MAX;

/// The canonical array of events. It can hold what [`read_events`] refuses.
pub(in crate::segment) fn write_events(events: &[Event]) -> Vec<u8> {
    Value::Array(events.iter().map(|event| to_fields(event).into_value()).collect()).to_bytes()
}

/// Reads the canonical array back, with every check of the events block.
///
/// # Errors
/// [`StatementError`] with the name of the field.
pub(in crate::segment) fn read_events(bytes: &[u8]) -> Result<Vec<Event>, StatementError> {
    let field = "events";
    let Value::Array(items) = Value::parse(bytes, limits::BLOCK_BYTES)? else {
        return Err(StatementError::Type { field, expected: "a list" });
    };
    if items.is_empty() || items.len() > limits::EVENTS {
        return Err(StatementError::Invalid { field });
    }
    let read = |item| from_fields(Fields::of_value(field, item)?);
    let events = items.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    if events.is_sorted_by_key(|event| event.at) {
        Ok(events)
    } else {
        Err(StatementError::Invalid { field: "at" })
    }
}

pub(super) fn to_fields(event: &Event) -> StatementBuilder {
    let fields = StatementBuilder::object_of()
        .time("at", event.at)
        .opt_id("gpu", event.gpu.as_ref())
        .text("kind", event.kind.name());
    match &event.kind {
        EventKind::GpuBack
        | EventKind::PartitionRemoved
        | EventKind::NoGpuAttached
        | EventKind::DriverReloaded
        | EventKind::CollectorStalled => fields,
        EventKind::AgentStarted { version, life_unit, clock_source } => fields
            .text("version", version)
            .object("life_unit", life_unit_to_fields(life_unit))
            .text("clock_source", clock_source),
        EventKind::Goodbye { reason } => fields.text("reason", reason.name()),
        EventKind::HostSeen(host) => host_to_fields(fields, host),
        EventKind::GpuSeen(gpu) => gpu_to_fields(fields, gpu),
        EventKind::GpuWired(wiring) => wiring.put(fields),
        EventKind::DiskSeen(disk) => disk.put(fields),
        EventKind::GpuLost { nvml_code } | EventKind::NvmlUnavailable { nvml_code } => {
            fields.int("nvml_code", *nvml_code)
        }
        EventKind::GpuMissing { bus_id } => fields.id("bus_id", bus_id),
        EventKind::GpuReplaced { bus_id, old, new } => {
            fields.id("bus_id", bus_id).id("old", old).id("new", new)
        }
        EventKind::Xid { code } => fields.int("code", *code),
        EventKind::EccUncorrected { count } | EventKind::TicksMissed { count } => {
            fields.int("count", *count)
        }
        EventKind::CollectorResumed { stalled_ms } => fields.int("stalled_ms", *stalled_ms),
        EventKind::ClockStepped { by_ms } => fields.int("by_ms", *by_ms),
        EventKind::MigChanged { enabled } => fields.flag("enabled", *enabled),
        EventKind::PowerLimitChanged { from_mw, to_mw } => {
            fields.int("from_mw", *from_mw).int("to_mw", *to_mw)
        }
        EventKind::ReadingsDropped { metric, count } => {
            fields.text("metric", metric).int("count", *count)
        }
        EventKind::JobStarted { name } => fields.text("name", name),
        EventKind::JobEnded { name, end } => job_end_to_fields(fields.text("name", name), *end),
    }
}

pub(super) fn from_fields(mut fields: Fields) -> Result<Event, StatementError> {
    let at = fields.time("at")?;
    let gpu = fields.opt_id("gpu")?;
    let name = fields.text("kind", limits::TEXT_CHARS)?;
    let kind = read_kind(&name, &mut fields)?;
    fields.finish()?;
    if gpu_fits(&kind, gpu.as_ref()) {
        Ok(Event { at, gpu, kind })
    } else {
        Err(StatementError::Invalid { field: "gpu" })
    }
}

fn read_kind(name: &str, fields: &mut Fields) -> Result<EventKind, StatementError> {
    Ok(match name {
        "agent_started" => EventKind::AgentStarted {
            version: text(fields, "version")?,
            life_unit: life_unit_from_fields(fields.object("life_unit")?)?,
            clock_source: text(fields, "clock_source")?,
        },
        "goodbye" => EventKind::Goodbye { reason: fields.name("reason", StopReason::from_name)? },
        "host_seen" => EventKind::HostSeen(host_from_fields(fields)?),
        "gpu_seen" => EventKind::GpuSeen(gpu_from_fields(fields)?),
        "gpu_wired" => EventKind::GpuWired(GpuWiring::take(fields)?),
        "disk_seen" => EventKind::DiskSeen(WorkDisk::take(fields)?),
        "gpu_lost" => EventKind::GpuLost { nvml_code: fields.int("nvml_code", CODES)? },
        "gpu_back" => EventKind::GpuBack,
        "gpu_missing" => EventKind::GpuMissing { bus_id: fields.id("bus_id")? },
        "gpu_replaced" => EventKind::GpuReplaced {
            bus_id: fields.id("bus_id")?,
            old: fields.id("old")?,
            new: fields.id("new")?,
        },
        "partition_removed" => EventKind::PartitionRemoved,
        "no_gpu_attached" => EventKind::NoGpuAttached,
        "nvml_unavailable" => {
            EventKind::NvmlUnavailable { nvml_code: fields.int("nvml_code", CODES)? }
        }
        "driver_reloaded" => EventKind::DriverReloaded,
        "xid" => EventKind::Xid { code: fields.int("code", CODES)? },
        "ecc_uncorrected" => EventKind::EccUncorrected { count: fields.count("count")? },
        "collector_stalled" => EventKind::CollectorStalled,
        "collector_resumed" => {
            EventKind::CollectorResumed { stalled_ms: fields.count("stalled_ms")? }
        }
        "clock_stepped" => EventKind::ClockStepped { by_ms: fields.int("by_ms", CODES)? },
        "mig_changed" => EventKind::MigChanged { enabled: fields.flag("enabled")? },
        "power_limit_changed" => EventKind::PowerLimitChanged {
            from_mw: fields.count("from_mw")?,
            to_mw: fields.count("to_mw")?,
        },
        "readings_dropped" => EventKind::ReadingsDropped {
            metric: text(fields, "metric")?,
            count: fields.count("count")?,
        },
        "ticks_missed" => EventKind::TicksMissed { count: fields.count("count")? },
        "job_started" => EventKind::JobStarted { name: text(fields, "name")? },
        "job_ended" => {
            EventKind::JobEnded { name: text(fields, "name")?, end: job_end_from_fields(fields)? }
        }
        _ => return Err(StatementError::Invalid { field: "kind" }),
    })
}

/// Whether an event of this kind may name this GPU, or none.
fn gpu_fits(kind: &EventKind, gpu: Option<&GpuUuid>) -> bool {
    match kind {
        EventKind::GpuSeen(inventory) => gpu == Some(&inventory.uuid),
        EventKind::GpuReplaced { old, .. } => gpu == Some(old),
        EventKind::GpuLost { .. }
        | EventKind::GpuBack
        | EventKind::GpuWired(_)
        | EventKind::GpuMissing { .. }
        | EventKind::PartitionRemoved
        | EventKind::EccUncorrected { .. }
        | EventKind::MigChanged { .. }
        | EventKind::PowerLimitChanged { .. } => gpu.is_some(),
        EventKind::AgentStarted { .. }
        | EventKind::Goodbye { .. }
        | EventKind::HostSeen(_)
        | EventKind::DiskSeen(_)
        | EventKind::NoGpuAttached
        | EventKind::NvmlUnavailable { .. }
        | EventKind::ClockStepped { .. }
        | EventKind::JobStarted { .. }
        | EventKind::JobEnded { .. } => gpu.is_none(),
        EventKind::DriverReloaded
        | EventKind::Xid { .. }
        | EventKind::CollectorStalled
        | EventKind::CollectorResumed { .. }
        | EventKind::ReadingsDropped { .. }
        | EventKind::TicksMissed { .. } => true,
    }
}

fn text(fields: &mut Fields, field: &'static str) -> Result<String, StatementError> {
    fields.text(field, limits::TEXT_CHARS)
}

fn job_end_to_fields(fields: StatementBuilder, end: JobEnd) -> StatementBuilder {
    match end {
        JobEnd::Exited(code) => fields.int("exit_code", code),
        JobEnd::Signalled(signal) => fields.int("signal", signal),
    }
}

/// Exactly one of the two fields.
fn job_end_from_fields(fields: &mut Fields) -> Result<JobEnd, StatementError> {
    match (fields.opt_count("exit_code")?, fields.opt_count("signal")?) {
        (Some(code), None) => (code <= 255).then_some(JobEnd::Exited(code)),
        (None, Some(signal)) => (1..=127).contains(&signal).then_some(JobEnd::Signalled(signal)),
        _ => None,
    }
    .ok_or(StatementError::Invalid { field: "exit_code" })
}

fn life_unit_to_fields(life_unit: &LifeUnit) -> StatementBuilder {
    StatementBuilder::object_of()
        .id("id", life_unit.id)
        .text("kind", life_unit.kind.name())
        .text("boot_id", &life_unit.boot_id)
        .time("started_at", life_unit.started_at)
}

fn life_unit_from_fields(mut fields: Fields) -> Result<LifeUnit, StatementError> {
    let life_unit = LifeUnit {
        id: fields.id("id")?,
        kind: fields.name("kind", LifeUnitKind::from_name)?,
        boot_id: text(&mut fields, "boot_id")?,
        started_at: fields.time("started_at")?,
    };
    fields.finish()?;
    Ok(life_unit)
}

fn host_to_fields(fields: StatementBuilder, host: &HostInventory) -> StatementBuilder {
    fields
        .text("hostname", &host.hostname)
        .text("kernel", &host.kernel)
        .int("cpus", host.cpus)
        .int("memory_mib", host.memory_mib)
        .text("driver_version", &host.driver_version)
        .text("nvml_version", &host.nvml_version)
        .text("cuda_version", &host.cuda_version)
        .flag("container", host.container)
}

fn host_from_fields(fields: &mut Fields) -> Result<HostInventory, StatementError> {
    Ok(HostInventory {
        hostname: text(fields, "hostname")?,
        kernel: text(fields, "kernel")?,
        cpus: fields.count("cpus")?,
        memory_mib: fields.count("memory_mib")?,
        driver_version: text(fields, "driver_version")?,
        nvml_version: text(fields, "nvml_version")?,
        cuda_version: text(fields, "cuda_version")?,
        container: fields.flag("container")?,
    })
}

fn gpu_to_fields(fields: StatementBuilder, gpu: &GpuInventory) -> StatementBuilder {
    fields
        .id("uuid", &gpu.uuid)
        .id("bus_id", &gpu.bus_id)
        .int("index", gpu.index)
        .text("name", &gpu.name)
        .int("pci_device_id", gpu.pci_device_id)
        .opt_text("serial", gpu.serial.as_deref())
        .opt_text("vbios", gpu.vbios.as_deref())
        .opt_text("part_number", gpu.part_number.as_deref())
        .opt_int("memory_total_mib", gpu.memory_total_mib)
        .opt_int("power_limit_default_mw", gpu.power_limit_default_mw)
        .opt_int("power_limit_management_mw", gpu.power_limit_management_mw)
        .opt_int("pcie_generation_max", gpu.pcie_generation_max)
        .opt_int("pcie_width_max", gpu.pcie_width_max)
        .flag("mig", gpu.mig)
        .opt_object("partition", gpu.partition.as_ref().map(Partition::to_fields))
}

fn gpu_from_fields(fields: &mut Fields) -> Result<GpuInventory, StatementError> {
    let uuid = fields.id("uuid")?;
    let partition = fields.opt_object("partition")?;
    let partition = partition.map(|fields| Partition::from_fields(fields, &uuid)).transpose()?;
    Ok(GpuInventory {
        uuid,
        bus_id: fields.id("bus_id")?,
        index: fields.count("index")?,
        name: text(fields, "name")?,
        pci_device_id: fields.count("pci_device_id")?,
        serial: fields.opt_text("serial", limits::TEXT_CHARS)?,
        vbios: fields.opt_text("vbios", limits::TEXT_CHARS)?,
        part_number: fields.opt_text("part_number", limits::TEXT_CHARS)?,
        memory_total_mib: fields.opt_count("memory_total_mib")?,
        power_limit_default_mw: fields.opt_count("power_limit_default_mw")?,
        power_limit_management_mw: fields.opt_count("power_limit_management_mw")?,
        pcie_generation_max: fields.opt_count("pcie_generation_max")?,
        pcie_width_max: fields.opt_count("pcie_width_max")?,
        mig: fields.flag("mig")?,
        partition,
    })
}
