//! Readings and the metrics they are readings of.
//!
//! A [`Reading`] is a number or a typed reason why there is none: never a sentinel, so nobody can
//! mistake "not supported" for zero. A [`Metric`] carries its unit, its declared resolution (the
//! step in which it is recorded, part of the segment format) and whether it is a gauge, a counter
//! or a bit mask. Codes are part of the format: they are never reused.

use std::fmt;

/// One value of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reading {
    /// A value, in the metric's base unit.
    Number(i64),
    /// The hardware, driver or sharing mode does not offer this value.
    Unsupported,
    /// The value should be there, but the call failed.
    Error,
    /// The call did not return in time; what it would have said is not known.
    Stale,
}

impl Reading {
    /// The number, if there is one.
    #[must_use]
    pub fn number(self) -> Option<i64> {
        match self {
            Self::Number(value) => Some(value),
            Self::Unsupported | Self::Error | Self::Stale => None,
        }
    }

    /// A number rounded to a multiple of `resolution` (half to even); other readings unchanged.
    #[must_use]
    pub fn rounded_to(self, resolution: i64) -> Self {
        match self {
            Self::Number(value) => Self::Number(round_half_even(value, resolution)),
            other => other,
        }
    }
}

/// `value` rounded to a multiple of `step`, half to even. `step` below 2 changes nothing.
fn round_half_even(value: i64, step: i64) -> i64 {
    if step < 2 {
        return value;
    }
    let quotient = value.div_euclid(step);
    let rest = value.rem_euclid(step);
    let up = match (rest * 2).cmp(&step) {
        std::cmp::Ordering::Less => 0,
        std::cmp::Ordering::Greater => 1,
        std::cmp::Ordering::Equal => quotient.rem_euclid(2),
    };
    (quotient + up).saturating_mul(step)
}

/// How a metric behaves over time, which decides how it is reduced to an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MetricKind {
    /// An instantaneous or averaged quantity.
    Gauge,
    /// Only grows, until a driver reload or reboot resets it.
    Counter,
    /// A set of bits; the raw code is kept.
    Mask,
    /// A setting or state that rarely changes.
    State,
}

/// The unit of a metric's base value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are the units")]
pub enum Unit {
    Percent,
    PerMille,
    Mebibyte,
    Kibibyte,
    Milliwatt,
    Millijoule,
    Celsius,
    Megahertz,
    Nanosecond,
    Millisecond,
    Second,
    BytesPerSecond,
    Byte,
    Count,
    Bits,
}

macro_rules! metrics {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $code:literal, $text:literal, $kind:ident, $unit:ident, $resolution:literal, $max:literal;)+ }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$vdoc])* $variant = $code,)+
        }

        impl $name {
            /// Every metric, by ascending code.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// The metric with this code.
            #[must_use]
            pub fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)+
                    _ => None,
                }
            }

            /// Its code in the segment format.
            #[must_use]
            pub fn code(self) -> u8 {
                self as u8
            }

            /// Its name in exports and statements, unit included.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            /// How it behaves over time.
            #[must_use]
            pub fn kind(self) -> MetricKind {
                match self {
                    $(Self::$variant => MetricKind::$kind,)+
                }
            }

            /// The unit of its base value.
            #[must_use]
            pub fn unit(self) -> Unit {
                match self {
                    $(Self::$variant => Unit::$unit,)+
                }
            }

            /// The step in which it is recorded, in base units (1 = every integer).
            #[must_use]
            pub fn resolution(self) -> i64 {
                match self {
                    $(Self::$variant => $resolution,)+
                }
            }

            /// The largest plausible value; a number outside `[lowest, highest]` is dropped and counted.
            #[must_use]
            pub fn highest(self) -> i64 {
                match self {
                    $(Self::$variant => $max,)+
                }
            }

            /// The smallest plausible value: only temperatures can be negative.
            #[must_use]
            pub fn lowest(self) -> i64 {
                match self.unit() {
                    Unit::Celsius => -100,
                    _ => 0,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

metrics! {
    /// What is read of a GPU at each tick (fast lane) or every 10-30 s (slow lane), beside the
    /// utilization track. Masks and counters are kept as their low 63 bits.
    Metric {
        /// Share of the last sample period in which device memory was read or written.
        MemoryBusy = 1, "memory_busy_pct", Gauge, Percent, 1, 100;
        /// Device memory in use, reserved memory not included.
        MemoryUsed = 2, "memory_used_mib", Gauge, Mebibyte, 1, 16_777_216;
        /// Device memory in all, as NVML reports it.
        MemoryTotal = 3, "memory_total_mib", State, Mebibyte, 1, 16_777_216;
        /// Device memory reserved by driver and firmware.
        MemoryReserved = 4, "memory_reserved_mib", State, Mebibyte, 1, 16_777_216;
        /// Board power draw.
        PowerDraw = 5, "power_draw_mw", Gauge, Milliwatt, 100, 10_000_000;
        /// Core temperature.
        Temperature = 6, "temperature_c", Gauge, Celsius, 1, 200;
        /// Memory temperature; not readable on GeForce.
        MemoryTemperature = 7, "memory_temperature_c", Gauge, Celsius, 1, 200;
        /// SM clock.
        SmClock = 8, "sm_clock_mhz", Gauge, Megahertz, 1, 20_000;
        /// Memory clock.
        MemoryClock = 9, "memory_clock_mhz", Gauge, Megahertz, 1, 50_000;
        /// Why clocks are below maximum, NVML's raw bits.
        ClockEventReasons = 10, "clock_event_reasons", Mask, Bits, 1, 9_223_372_036_854_775_807;
        /// Performance state, 0 (highest) to 15.
        PerformanceState = 11, "performance_state", State, Count, 1, 32;
        /// Power limit after every limiter, out-of-band ones included.
        PowerLimitEnforced = 12, "power_limit_enforced_mw", State, Milliwatt, 100, 10_000_000;
        /// Power limit as set in-band.
        PowerLimitManagement = 13, "power_limit_management_mw", State, Milliwatt, 100, 10_000_000;
        /// Power limit of the board's VBIOS.
        PowerLimitDefault = 14, "power_limit_default_mw", State, Milliwatt, 100, 10_000_000;
        /// Highest SM clock.
        SmClockMax = 15, "sm_clock_max_mhz", State, Megahertz, 1, 20_000;
        /// Highest memory clock.
        MemoryClockMax = 16, "memory_clock_max_mhz", State, Megahertz, 1, 50_000;
        /// Energy since driver load.
        Energy = 17, "energy_mj", Counter, Millijoule, 1_000, 9_223_372_036_854_775_807;
        /// PCIe generation in use.
        PcieGeneration = 18, "pcie_generation", State, Count, 1, 16;
        /// PCIe lanes in use.
        PcieWidth = 19, "pcie_width", State, Count, 1, 64;
        /// PCIe replays since driver load.
        PcieReplays = 20, "pcie_replays", Counter, Count, 1, 9_223_372_036_854_775_807;
        /// Bytes sent over PCIe.
        PcieTx = 21, "pcie_tx_kib", Counter, Kibibyte, 1, 9_223_372_036_854_775_807;
        /// Bytes received over PCIe.
        PcieRx = 22, "pcie_rx_kib", Counter, Kibibyte, 1, 9_223_372_036_854_775_807;
        /// Active NVLink links.
        NvlinkActive = 23, "nvlink_active_links", State, Count, 1, 256;
        /// Data sent over NVLink, all links.
        NvlinkTx = 24, "nvlink_tx_kib", Counter, Kibibyte, 1, 9_223_372_036_854_775_807;
        /// Data received over NVLink, all links.
        NvlinkRx = 25, "nvlink_rx_kib", Counter, Kibibyte, 1, 9_223_372_036_854_775_807;
        /// Corrected ECC errors since driver load.
        EccCorrected = 26, "ecc_corrected_volatile", Counter, Count, 1, 9_223_372_036_854_775_807;
        /// Uncorrected ECC errors since driver load.
        EccUncorrected = 27, "ecc_uncorrected_volatile", Counter, Count, 1, 9_223_372_036_854_775_807;
        /// Uncorrected ECC errors over the board's life.
        EccUncorrectedAggregate = 28, "ecc_uncorrected_aggregate", Counter, Count, 1, 9_223_372_036_854_775_807;
        /// Rows remapped for corrected errors.
        RemappedCorrected = 29, "remapped_rows_corrected", Counter, Count, 1, 1_000_000;
        /// Rows remapped for uncorrected errors.
        RemappedUncorrected = 30, "remapped_rows_uncorrected", Counter, Count, 1, 1_000_000;
        /// 1 while a remap waits for a reset.
        RemapPending = 31, "remap_pending", State, Count, 1, 1;
        /// 1 after a remap failed.
        RemapFailure = 32, "remap_failure", State, Count, 1, 1;
        /// Time below maximum clocks by the software power cap.
        ThrottleSwPower = 33, "throttle_sw_power_ns", Counter, Nanosecond, 1_000_000, 9_223_372_036_854_775_807;
        /// Time below maximum clocks by software thermal slowdown.
        ThrottleSwThermal = 34, "throttle_sw_thermal_ns", Counter, Nanosecond, 1_000_000, 9_223_372_036_854_775_807;
        /// Time below maximum clocks by hardware thermal slowdown.
        ThrottleHwThermal = 35, "throttle_hw_thermal_ns", Counter, Nanosecond, 1_000_000, 9_223_372_036_854_775_807;
        /// Time below maximum clocks by the external power brake.
        ThrottleHwPowerBrake = 36, "throttle_hw_power_brake_ns", Counter, Nanosecond, 1_000_000, 9_223_372_036_854_775_807;
        /// Time below maximum clocks to keep a sync boost group together.
        ThrottleSyncBoost = 37, "throttle_sync_boost_ns", Counter, Nanosecond, 1_000_000, 9_223_372_036_854_775_807;
        /// Share of time in which at least one warp was resident on an SM (GPM).
        SmActive = 38, "sm_active_permille", Gauge, PerMille, 1, 1_000;
        /// Share of peak tensor pipe activity (GPM).
        TensorActive = 39, "tensor_active_permille", Gauge, PerMille, 1, 1_000;
        /// Share of peak DRAM activity (GPM).
        DramActive = 40, "dram_active_permille", Gauge, PerMille, 1, 1_000;
        /// Fan speed; passive boards have none.
        FanSpeed = 41, "fan_speed_pct", Gauge, Percent, 1, 200;
        /// Encoder utilization.
        EncoderBusy = 42, "encoder_busy_pct", Gauge, Percent, 1, 100;
        /// Decoder utilization.
        DecoderBusy = 43, "decoder_busy_pct", Gauge, Percent, 1, 100;
        /// Compute processes that the agent may see.
        ComputeProcesses = 44, "compute_processes", Gauge, Count, 1, 1_000_000;
        /// What the driver asks for after an error (NVML's code).
        RecoveryAction = 45, "recovery_action", State, Count, 1, 255;
        /// 1 while MIG mode is on.
        MigMode = 46, "mig_mode", State, Count, 1, 1;
    }
}

metrics! {
    /// What is read of the host, each 10-30 s.
    HostMetric {
        /// CPU time used by this cgroup or host, of its quota.
        CpuBusy = 1, "cpu_busy_permille", Gauge, PerMille, 1, 1_000_000;
        /// CPUs that the cgroup quota (or the host) allows, in thousandths.
        CpuQuota = 2, "cpu_quota_millicores", State, Count, 1, 100_000_000;
        /// Time in which the cgroup was throttled by its CPU quota.
        CpuThrottled = 3, "cpu_throttled_ms", Counter, Millisecond, 1, 9_223_372_036_854_775_807;
        /// Memory in use.
        MemoryUsed = 4, "host_memory_used_mib", Gauge, Mebibyte, 1, 1_073_741_824;
        /// Memory that the cgroup (or the host) allows.
        MemoryTotal = 5, "host_memory_total_mib", State, Mebibyte, 1, 1_073_741_824;
        /// Received over all interfaces but loopback.
        NetworkRx = 6, "network_rx_kib", Counter, Kibibyte, 1, 9_223_372_036_854_775_807;
        /// Sent over all interfaces but loopback.
        NetworkTx = 7, "network_tx_kib", Counter, Kibibyte, 1, 9_223_372_036_854_775_807;
        /// Receive and send errors and drops.
        NetworkErrors = 8, "network_errors", Counter, Count, 1, 9_223_372_036_854_775_807;
        /// TCP segments sent again.
        TcpRetransmits = 9, "tcp_retransmits", Counter, Count, 1, 9_223_372_036_854_775_807;
        /// Read from all block devices.
        DiskRead = 10, "disk_read_kib", Counter, Kibibyte, 1, 9_223_372_036_854_775_807;
        /// Written to all block devices.
        DiskWritten = 11, "disk_written_kib", Counter, Kibibyte, 1, 9_223_372_036_854_775_807;
        /// Free space where the agent keeps its state.
        DiskFree = 12, "disk_free_mib", Gauge, Mebibyte, 1, 1_099_511_627_776;
        /// InfiniBand or RoCE ports that are active.
        RdmaPortsActive = 13, "rdma_ports_active", State, Count, 1, 10_000;
        /// InfiniBand or RoCE ports in all.
        RdmaPorts = 14, "rdma_ports", State, Count, 1, 10_000;
        /// Received over all InfiniBand and RoCE ports.
        RdmaRx = 15, "rdma_rx_kib", Counter, Kibibyte, 1, 9_223_372_036_854_775_807;
        /// Sent over all InfiniBand and RoCE ports.
        RdmaTx = 16, "rdma_tx_kib", Counter, Kibibyte, 1, 9_223_372_036_854_775_807;
        /// Link downs and symbol errors of all ports.
        RdmaErrors = 17, "rdma_errors", Counter, Count, 1, 9_223_372_036_854_775_807;
        /// Time since the life unit began.
        Uptime = 18, "uptime_s", Counter, Second, 1, 9_223_372_036_854_775_807;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_half_to_even_and_keeps_reasons() {
        let round = |value, step| Reading::Number(value).rounded_to(step);
        assert_eq!(round(11_650, 100), Reading::Number(11_600));
        assert_eq!(round(11_750, 100), Reading::Number(11_800));
        assert_eq!(round(11_751, 100), Reading::Number(11_800));
        assert_eq!(round(-150, 100), Reading::Number(-200));
        assert_eq!(round(7, 1), Reading::Number(7));
        assert_eq!(Reading::Stale.rounded_to(100), Reading::Stale);
    }

    #[test]
    fn codes_are_unique_ascending_and_resolve() {
        for pair in Metric::ALL.windows(2) {
            assert!(pair[0].code() < pair[1].code());
        }
        for metric in Metric::ALL {
            assert_eq!(Metric::from_code(metric.code()), Some(*metric));
            assert!(metric.resolution() >= 1 && metric.highest() >= 1, "{metric}");
        }
        for metric in HostMetric::ALL {
            assert_eq!(HostMetric::from_code(metric.code()), Some(*metric));
        }
    }
}
