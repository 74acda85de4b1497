//! Column names of `nvidia-smi --help-query-gpu`, old and new spellings.

use leasewatch_core::id::clean_text;
use leasewatch_core::sample::Metric;

use super::LogError;

/// What a column holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Column {
    /// When the row was written.
    Time,
    /// Utilization of the GPU.
    Busy,
    /// A metric; a cell's unit is `scale` base units.
    Metric {
        /// Which.
        metric: Metric,
        /// Base units per unit of the cell.
        scale: i64,
    },
    /// NVML's index.
    Index,
    /// NVML's UUID.
    Uuid,
    /// PCI bus id.
    BusId,
    /// Product name.
    Name,
    /// Not recorded.
    Ignored(String),
}

impl Column {
    pub(super) fn ignored_name(self) -> Option<String> {
        match self {
            Self::Ignored(name) => Some(name),
            _ => None,
        }
    }
}

/// A header names its time column; a row of data does not.
pub(super) fn is_header(line: &str) -> bool {
    line.split(',').any(|cell| name_of(cell) == "timestamp")
}

pub(super) fn header(line: &str) -> Result<Vec<Column>, LogError> {
    let columns: Vec<Column> = line.split(',').map(|cell| column(name_of(cell))).collect();
    for (index, column) in columns.iter().enumerate() {
        if !matches!(column, Column::Ignored(_)) && columns[..index].contains(column) {
            let name = line.split(',').nth(index).map(name_of).unwrap_or_default();
            return Err(LogError::ColumnTwice { name });
        }
    }
    if columns.contains(&Column::Time) && columns.contains(&Column::Busy) {
        Ok(columns)
    } else {
        Err(LogError::Columns { found: clean_text(line, 300) })
    }
}

/// The name without its unit: `memory.used [MiB]` is `memory.used`.
fn name_of(cell: &str) -> String {
    cell.split('[').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn column(name: String) -> Column {
    let metric = |metric| Column::Metric { metric, scale: 1 };
    let watts = |metric| Column::Metric { metric, scale: 1_000 };
    match name.as_str() {
        "timestamp" => Column::Time,
        "utilization.gpu" => Column::Busy,
        "index" => Column::Index,
        "uuid" | "gpu_uuid" => Column::Uuid,
        "pci.bus_id" | "gpu_bus_id" => Column::BusId,
        "name" | "gpu_name" => Column::Name,
        "utilization.memory" => metric(Metric::MemoryBusy),
        "memory.used" => metric(Metric::MemoryUsed),
        "memory.total" => metric(Metric::MemoryTotal),
        "memory.reserved" => metric(Metric::MemoryReserved),
        "power.draw" | "power.draw.average" => watts(Metric::PowerDraw),
        "enforced.power.limit" => watts(Metric::PowerLimitEnforced),
        "power.limit" => watts(Metric::PowerLimitManagement),
        "power.default_limit" => watts(Metric::PowerLimitDefault),
        "temperature.gpu" => metric(Metric::Temperature),
        "temperature.memory" => metric(Metric::MemoryTemperature),
        "clocks.sm" | "clocks.current.sm" => metric(Metric::SmClock),
        "clocks.mem" | "clocks.current.memory" => metric(Metric::MemoryClock),
        "clocks.max.sm" => metric(Metric::SmClockMax),
        "clocks.max.mem" | "clocks.max.memory" => metric(Metric::MemoryClockMax),
        "clocks_event_reasons.active" | "clocks_throttle_reasons.active" => {
            metric(Metric::ClockEventReasons)
        }
        "pstate" => metric(Metric::PerformanceState),
        "pcie.link.gen.current" | "pcie.link.gen.gpucurrent" => metric(Metric::PcieGeneration),
        "pcie.link.width.current" => metric(Metric::PcieWidth),
        "fan.speed" => metric(Metric::FanSpeed),
        "encoder.utilization" | "utilization.encoder" => metric(Metric::EncoderBusy),
        "decoder.utilization" | "utilization.decoder" => metric(Metric::DecoderBusy),
        "ecc.errors.corrected.volatile.total" => metric(Metric::EccCorrected),
        "ecc.errors.uncorrected.volatile.total" => metric(Metric::EccUncorrected),
        "ecc.errors.uncorrected.aggregate.total" => metric(Metric::EccUncorrectedAggregate),
        _ => Column::Ignored(clean_text(&name, 80)),
    }
}
