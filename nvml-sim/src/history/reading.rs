//! What an agent reads of a card on past days: the same metrics, supported or not, as through the
//! library. A test compares both.

use leasewatch_core::catalogue::gpu::BoardClass;
use leasewatch_core::sample::{Metric, Reading};

use super::STEP_S;
use super::card::PlayedCard;
use crate::physics::instant::{enforced_limit_mw, management_limit_mw, reason};
use crate::scenario::fault::Group;

type Found = (Metric, Reading);

/// Nanoseconds, KiB and millijoules of the counters are summed once a step, at one tick a second.
const TICKS_PER_SECOND: u32 = 1;

impl PlayedCard<'_> {
    /// What is read at each row, ascending by metric.
    pub(super) fn fast(&self) -> [Found; 8] {
        let shown = &self.shown;
        let memory = self.since(510, self.number(Group::Memory, shown.memory_used_mib));
        let number = |group, value: u32| self.number(group, value);
        let reasons = i64::try_from(shown.reasons).unwrap_or(i64::MAX);
        [
            (Metric::MemoryBusy, number(Group::Utilization, shown.memory_busy)),
            (Metric::MemoryUsed, memory),
            (Metric::PowerDraw, number(Group::Power, shown.power_mw)),
            (Metric::Temperature, number(Group::Temperature, shown.temperature_milli_c / 1_000)),
            (Metric::SmClock, number(Group::Clocks, shown.sm_mhz)),
            (Metric::MemoryClock, number(Group::Clocks, shown.memory_mhz)),
            (Metric::ClockEventReasons, self.masked(Group::ClocksEventReasons, reasons)),
            (Metric::PerformanceState, number(Group::Clocks, shown.pstate)),
        ]
    }

    pub(super) fn busy(&self) -> Reading {
        self.number(Group::Utilization, self.shown.busy)
    }

    /// What is read once a minute, in no order. Shares over time are of the time since the call
    /// before.
    pub(super) fn slow(&mut self) -> Vec<Found> {
        let mut found = Vec::with_capacity(36);
        self.memory_and_limits(&mut found);
        self.links(&mut found);
        self.errors(&mut found);
        self.throttling(&mut found);
        self.activity(&mut found);
        self.counted = self.totals;
        found
    }

    fn memory_and_limits(&self, out: &mut Vec<Found>) {
        let (board, active) = (&self.board, &self.active);
        let reserved = self.number(Group::Memory, board.reserved_mib + active.reserved_mib);
        let limit = |value| self.number(Group::PowerLimits, value);
        let clock = |value| self.number(Group::Clocks, value);
        let energy = self.totals.energy_mj(TICKS_PER_SECOND);
        let mig = self.if_has(board.model.mig(), self.number(Group::Mig, 0));
        let celsius = self.shown.temperature_milli_c / 1_000;
        let above = 4 + self.shown.memory_busy / 10;
        let has_sensor = board.model.memory_temperature_readable() == Some(true);
        let memory_celsius = self.number(Group::MemoryTemperature, celsius + above);
        out.extend([
            (Metric::MemoryTotal, self.number(Group::Memory, board.memory_mib)),
            (Metric::MemoryReserved, self.since(510, reserved)),
            (Metric::MemoryTemperature, self.if_has(has_sensor, memory_celsius)),
            (Metric::PowerLimitEnforced, limit(enforced_limit_mw(board, active))),
            (Metric::PowerLimitManagement, limit(management_limit_mw(board, active))),
            (Metric::PowerLimitDefault, limit(board.default_limit_mw)),
            (Metric::SmClockMax, clock(board.max_sm_mhz)),
            (Metric::MemoryClockMax, clock(board.max_memory_mhz)),
            (Metric::Energy, self.since(384, self.counter(Group::Energy, energy))),
            (Metric::FanSpeed, self.if_has(board.model.has_fan(), self.fan(celsius))),
            (Metric::EncoderBusy, self.number(Group::Encoder, self.shown.encoder)),
            (Metric::DecoderBusy, self.number(Group::Decoder, self.shown.decoder)),
            (Metric::MigMode, self.since(450, mig)),
        ]);
    }

    /// Off below 50 degrees, then in step with the temperature.
    fn fan(&self, celsius: u32) -> Reading {
        let percent = if celsius < 50 { 0 } else { (celsius - 35).min(100) };
        self.number(Group::Fan, percent)
    }

    fn links(&self, out: &mut Vec<Found>) {
        let (board, active, totals) = (&self.board, &self.active, &self.totals);
        let idle = self.shown.busy == 0 && board.model.class == BoardClass::GeForce;
        let trained = active.pcie.map_or(board.pcie_generation, |(generation, _)| generation);
        let width = active.pcie.map_or(board.pcie_width, |(_, width)| width);
        let (sent, received) = totals.pcie_kib(TICKS_PER_SECOND);
        let linked = board.nvlink_links > 0;
        let up = board.connected_links().saturating_sub(active.links_down);
        let nvlink =
            self.if_has(linked, self.counter(Group::Nvlink, totals.nvlink_kib(TICKS_PER_SECOND)));
        let throughput = |kib| self.counter(Group::PcieThroughput, kib);
        out.extend([
            (Metric::PcieGeneration, self.number(Group::Pcie, if idle { 1 } else { trained })),
            (Metric::PcieWidth, self.number(Group::Pcie, width)),
            (Metric::PcieReplays, self.number(Group::Pcie, 0)),
            (Metric::PcieTx, throughput(sent)),
            (Metric::PcieRx, throughput(received)),
            (Metric::NvlinkActive, self.if_has(linked, self.number(Group::Nvlink, up))),
            (Metric::NvlinkTx, nvlink),
            (Metric::NvlinkRx, nvlink),
        ]);
    }

    fn errors(&self, out: &mut Vec<Found>) {
        let (board, totals) = (&self.board, &self.totals);
        let ecc = |count: u64| {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.if_has(board.ecc_on(), self.masked(Group::Ecc, count))
        };
        let rows = self.active.remapped;
        let remapped = |count: u32| {
            let rows = self.number(Group::RemappedRows, count);
            self.since(450, self.if_has(board.remaps_rows(), rows))
        };
        let action = self.number(Group::Fields, self.active.recovery_action);
        out.extend([
            (Metric::EccCorrected, ecc(totals.ecc_corrected)),
            (Metric::EccUncorrected, ecc(totals.ecc_uncorrected)),
            (Metric::EccUncorrectedAggregate, ecc(self.ecc_uncorrected_aggregate)),
            (Metric::RemappedCorrected, remapped(rows.corrected)),
            (Metric::RemappedUncorrected, remapped(rows.uncorrected)),
            (Metric::RemapPending, remapped(rows.pending.into())),
            (Metric::RemapFailure, remapped(rows.failure.into())),
            (Metric::RecoveryAction, self.since(550, action)),
        ]);
    }

    fn throttling(&self, out: &mut Vec<Found>) {
        let held = |bit| {
            let ns = self.totals.reason_ns(bit, TICKS_PER_SECOND);
            self.counter(Group::Violation, ns)
        };
        let named = |bit| self.since(560, held(bit));
        out.extend([
            (Metric::ThrottleSwPower, held(reason::SW_POWER_CAP)),
            (Metric::ThrottleSwThermal, named(reason::SW_THERMAL)),
            (Metric::ThrottleHwThermal, named(reason::HW_THERMAL)),
            (Metric::ThrottleHwPowerBrake, named(reason::HW_POWER_BRAKE)),
            (Metric::ThrottleSyncBoost, self.number(Group::Violation, 0)),
        ]);
    }

    /// GPM, as means since the slow row before.
    fn activity(&self, out: &mut Vec<Found>) {
        let metrics = [Metric::SmActive, Metric::TensorActive, Metric::DramActive];
        if self.board.model.gpm() != Some(true) || self.driver.major < 520 {
            out.extend(metrics.map(|metric| (metric, Reading::Unsupported)));
            return;
        }
        let Some(means) = self.totals.means_since(&self.counted) else {
            out.extend(metrics.map(|metric| (metric, Reading::Error)));
            return;
        };
        let shares =
            [means.busy_permille * 92 / 100, means.tensor_permille, means.busy_permille * 55 / 100];
        let shares = shares.map(|share| i64::try_from(share).unwrap_or(i64::MAX));
        out.extend(metrics.into_iter().zip(shares.map(|share| self.masked(Group::Gpm, share))));
    }

    fn number(&self, group: Group, value: u32) -> Reading {
        self.masked(group, i64::from(value))
    }

    fn counter(&self, group: Group, sum: u64) -> Reading {
        let sum = i64::try_from(sum).unwrap_or(i64::MAX);
        self.masked(group, sum.saturating_mul(STEP_S))
    }

    /// NVML's codes "not supported" and the like last; others are errors.
    fn masked(&self, group: Group, value: i64) -> Reading {
        match self.active.refusal(group) {
            None => Reading::Number(value),
            Some(3 | 4 | 13 | 25 | 26) => Reading::Unsupported,
            Some(_) => Reading::Error,
        }
    }

    fn since(&self, branch: u32, reading: Reading) -> Reading {
        self.if_has(self.driver.major >= branch, reading)
    }

    fn if_has(&self, has: bool, reading: Reading) -> Reading {
        if has { reading } else { Reading::Unsupported }
    }
}
