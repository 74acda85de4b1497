//! Column names of `nvidia-smi --help-query-gpu`, old and new spellings.

use leasewatch_core::id::clean_text;
use leasewatch_core::sample::Metric;

use super::super::cell::Measure;

/// What a column holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Column {
    /// When the row was written.
    Time,
    /// Utilization of the GPU.
    Busy,
    /// A metric.
    Metric {
        metric: Metric,
        measure: Measure,
        /// Lower is better when several columns hold the metric.
        rank: u8,
    },
    Index,
    Uuid,
    BusId,
    Name,
    Serial,
    Vbios,
    PartNumber,
    PciDeviceId,
    PcieGenerationMax,
    PcieWidthMax,
    /// Not recorded.
    Ignored(String),
}

/// The name without its unit: `memory.used [MiB]` is `memory.used`.
pub(super) fn name_of(cell: &str) -> String {
    cell.split('[').next().unwrap_or_default().trim().to_ascii_lowercase()
}

pub(super) fn is_known(name: &str) -> bool {
    !matches!(column(name), Column::Ignored(_))
}

/// True for a name that a row of data does not hold.
pub(super) fn is_of_header(name: &str) -> bool {
    name.contains(['.', '_']) && is_known(name)
}

pub(super) fn column(name: &str) -> Column {
    match name {
        "timestamp" => Column::Time,
        "utilization.gpu" => Column::Busy,
        "index" => Column::Index,
        "uuid" | "gpu_uuid" => Column::Uuid,
        "pci.bus_id" | "gpu_bus_id" => Column::BusId,
        "name" | "gpu_name" => Column::Name,
        "serial" | "gpu_serial" => Column::Serial,
        "vbios_version" => Column::Vbios,
        "gpu_part_number" => Column::PartNumber,
        "pci.device_id" => Column::PciDeviceId,
        "pcie.link.gen.max" => Column::PcieGenerationMax,
        "pcie.link.width.max" => Column::PcieWidthMax,
        _ => match metric(name) {
            Some((metric, measure, rank)) => Column::Metric { metric, measure, rank },
            None => Column::Ignored(clean_text(name, 80)),
        },
    }
}

fn metric(name: &str) -> Option<(Metric, Measure, u8)> {
    use Measure::{
        Bits, Celsius, Count, Flag, Megahertz, Memory, Percent, PerformanceState, Power,
    };
    let found = match name {
        "utilization.memory" => (Metric::MemoryBusy, Percent, 0),
        "memory.used" => (Metric::MemoryUsed, Memory, 0),
        "memory.total" => (Metric::MemoryTotal, Memory, 0),
        "memory.reserved" => (Metric::MemoryReserved, Memory, 0),
        "power.draw" => (Metric::PowerDraw, Power, 0),
        "power.draw.average" => (Metric::PowerDraw, Power, 1),
        "power.draw.instant" => (Metric::PowerDraw, Power, 2),
        "enforced.power.limit" => (Metric::PowerLimitEnforced, Power, 0),
        "power.limit" => (Metric::PowerLimitManagement, Power, 0),
        "power.default_limit" => (Metric::PowerLimitDefault, Power, 0),
        "temperature.gpu" => (Metric::Temperature, Celsius, 0),
        "temperature.memory" => (Metric::MemoryTemperature, Celsius, 0),
        "clocks.sm" | "clocks.current.sm" => (Metric::SmClock, Megahertz, 0),
        "clocks.mem" | "clocks.current.memory" => (Metric::MemoryClock, Megahertz, 0),
        "clocks.max.sm" => (Metric::SmClockMax, Megahertz, 0),
        "clocks.max.mem" | "clocks.max.memory" => (Metric::MemoryClockMax, Megahertz, 0),
        "clocks_event_reasons.active" | "clocks_throttle_reasons.active" => {
            (Metric::ClockEventReasons, Bits, 0)
        }
        "pstate" => (Metric::PerformanceState, PerformanceState, 0),
        "pcie.link.gen.gpucurrent" => (Metric::PcieGeneration, Count, 0),
        "pcie.link.gen.current" => (Metric::PcieGeneration, Count, 1),
        "pcie.link.width.current" => (Metric::PcieWidth, Count, 0),
        "fan.speed" => (Metric::FanSpeed, Percent, 0),
        "encoder.utilization" | "utilization.encoder" => (Metric::EncoderBusy, Percent, 0),
        "decoder.utilization" | "utilization.decoder" => (Metric::DecoderBusy, Percent, 0),
        "ecc.errors.corrected.volatile.total" => (Metric::EccCorrected, Count, 0),
        "ecc.errors.uncorrected.volatile.total" => (Metric::EccUncorrected, Count, 0),
        "ecc.errors.uncorrected.aggregate.total" => (Metric::EccUncorrectedAggregate, Count, 0),
        "remapped_rows.correctable" => (Metric::RemappedCorrected, Count, 0),
        "remapped_rows.uncorrectable" => (Metric::RemappedUncorrected, Count, 0),
        "remapped_rows.pending" => (Metric::RemapPending, Flag, 0),
        "remapped_rows.failure" => (Metric::RemapFailure, Flag, 0),
        "mig.mode.current" => (Metric::MigMode, Flag, 0),
        "gpu_recovery_action" => (Metric::RecoveryAction, Measure::RecoveryAction, 0),
        _ => (throttle_counter(name)?, Measure::Duration, 0),
    };
    Some(found)
}

/// Cumulative time below maximum clocks.
fn throttle_counter(name: &str) -> Option<Metric> {
    let reason = name
        .strip_prefix("clocks_event_reasons_counters.")
        .or_else(|| name.strip_prefix("clocks_throttle_reasons_counters."))?;
    match reason {
        "sw_power_cap" => Some(Metric::ThrottleSwPower),
        "sw_thermal_slowdown" => Some(Metric::ThrottleSwThermal),
        "hw_thermal_slowdown" => Some(Metric::ThrottleHwThermal),
        "hw_power_brake_slowdown" => Some(Metric::ThrottleHwPowerBrake),
        "sync_boost" => Some(Metric::ThrottleSyncBoost),
        _ => None,
    }
}
