//! Which path of a `<gpu>` element holds what, in both generations of the schema.

use leasewatch_core::sample::Metric;

use super::super::cell::Measure;

/// A path and what stands there.
#[derive(Clone, Copy)]
pub(super) struct Field {
    pub(super) path: &'static str,
    /// Lower is better when several paths hold the metric.
    pub(super) rank: u8,
    /// `None` for the utilization.
    pub(super) metric: Option<Metric>,
    pub(super) measure: Measure,
}

const fn of(path: &'static str, rank: u8, metric: Metric, measure: Measure) -> Field {
    Field { path, rank, metric: Some(metric), measure }
}

/// Temperatures that are margins to a limit (`.._tlimit`) are no temperatures and stand not here.
pub(super) const FIELDS: [Field; 36] = [
    Field { path: "utilization/gpu_util", rank: 0, metric: None, measure: Measure::Percent },
    of("utilization/memory_util", 0, Metric::MemoryBusy, Measure::Percent),
    of("utilization/encoder_util", 0, Metric::EncoderBusy, Measure::Percent),
    of("utilization/decoder_util", 0, Metric::DecoderBusy, Measure::Percent),
    of("fb_memory_usage/total", 0, Metric::MemoryTotal, Measure::Memory),
    of("fb_memory_usage/reserved", 0, Metric::MemoryReserved, Measure::Memory),
    of("fb_memory_usage/used", 0, Metric::MemoryUsed, Measure::Memory),
    of("gpu_power_readings/power_draw", 0, Metric::PowerDraw, Measure::Power),
    of("gpu_power_readings/average_power_draw", 1, Metric::PowerDraw, Measure::Power),
    of("gpu_power_readings/instant_power_draw", 2, Metric::PowerDraw, Measure::Power),
    of("power_readings/power_draw", 3, Metric::PowerDraw, Measure::Power),
    of("gpu_power_readings/current_power_limit", 0, Metric::PowerLimitEnforced, Measure::Power),
    of("power_readings/enforced_power_limit", 1, Metric::PowerLimitEnforced, Measure::Power),
    of("gpu_power_readings/requested_power_limit", 0, Metric::PowerLimitManagement, Measure::Power),
    of("power_readings/power_limit", 1, Metric::PowerLimitManagement, Measure::Power),
    of("gpu_power_readings/default_power_limit", 0, Metric::PowerLimitDefault, Measure::Power),
    of("power_readings/default_power_limit", 1, Metric::PowerLimitDefault, Measure::Power),
    of("temperature/gpu_temp", 0, Metric::Temperature, Measure::Celsius),
    of("temperature/memory_temp", 0, Metric::MemoryTemperature, Measure::Celsius),
    of("clocks/sm_clock", 0, Metric::SmClock, Measure::Megahertz),
    of("clocks/mem_clock", 0, Metric::MemoryClock, Measure::Megahertz),
    of("max_clocks/sm_clock", 0, Metric::SmClockMax, Measure::Megahertz),
    of("max_clocks/mem_clock", 0, Metric::MemoryClockMax, Measure::Megahertz),
    of("performance_state", 0, Metric::PerformanceState, Measure::PerformanceState),
    of("fan_speed", 0, Metric::FanSpeed, Measure::Percent),
    of(
        "pci/pci_gpu_link_info/pcie_gen/device_current_link_gen",
        0,
        Metric::PcieGeneration,
        Measure::Count,
    ),
    of(
        "pci/pci_gpu_link_info/pcie_gen/current_link_gen",
        1,
        Metric::PcieGeneration,
        Measure::Count,
    ),
    of(
        "pci/pci_gpu_link_info/link_widths/current_link_width",
        0,
        Metric::PcieWidth,
        Measure::Count,
    ),
    of("pci/replay_counter", 0, Metric::PcieReplays, Measure::Count),
    of("mig_mode/current_mig", 0, Metric::MigMode, Measure::Flag),
    of("remapped_rows/remapped_row_corr", 0, Metric::RemappedCorrected, Measure::Count),
    of("remapped_rows/remapped_row_unc", 0, Metric::RemappedUncorrected, Measure::Count),
    of("remapped_rows/remapped_row_pending", 0, Metric::RemapPending, Measure::Flag),
    of("remapped_rows/remapped_row_failure", 0, Metric::RemapFailure, Measure::Flag),
    of("ecc_errors/volatile/total/corrected", 0, Metric::EccCorrected, Measure::Count),
    of("ecc_errors/volatile/total/uncorrected", 0, Metric::EccUncorrected, Measure::Count),
];
