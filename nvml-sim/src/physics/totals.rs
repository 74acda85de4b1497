//! Counters of a card: integrals of its readings, and counts of its errors.

use super::instant::{Instant, reason};

/// Counters since driver load, except where noted. Sums over ticks are kept in the unit times the
/// tick, and divided only when read, so nothing is lost to rounding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) ticks: u64,
    power_mw: u128,
    busy: u64,
    tensor_permille: u64,
    pcie_tx_kib_s: u64,
    pcie_rx_kib_s: u64,
    nvlink_kib_s: u128,
    sw_power: u64,
    sw_thermal: u64,
    hw_thermal: u64,
    power_brake: u64,
    idle: u64,
    pub(crate) ecc_corrected: u64,
    pub(crate) ecc_uncorrected: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, instant: &Instant) {
        let holds = |bit| u64::from(instant.reasons & bit != 0);
        self.ticks += 1;
        self.power_mw += u128::from(instant.power_mw);
        self.busy += u64::from(instant.busy);
        self.tensor_permille += u64::from(instant.tensor_permille);
        self.pcie_tx_kib_s += u64::from(instant.pcie_tx_kib_s);
        self.pcie_rx_kib_s += u64::from(instant.pcie_rx_kib_s);
        self.nvlink_kib_s += u128::from(instant.nvlink_kib_s);
        self.sw_power += holds(reason::SW_POWER_CAP);
        self.sw_thermal += holds(reason::SW_THERMAL);
        self.hw_thermal += holds(reason::HW_THERMAL);
        self.power_brake += holds(reason::HW_POWER_BRAKE);
        self.idle += holds(reason::IDLE);
    }

    pub(crate) fn energy_mj(&self, ticks_per_second: u32) -> u64 {
        u64::try_from(self.power_mw / u128::from(ticks_per_second)).unwrap_or(u64::MAX)
    }

    pub(crate) fn pcie_kib(&self, ticks_per_second: u32) -> (u64, u64) {
        let per_second = u64::from(ticks_per_second);
        (self.pcie_tx_kib_s / per_second, self.pcie_rx_kib_s / per_second)
    }

    /// Of all links, one direction.
    pub(crate) fn nvlink_kib(&self, ticks_per_second: u32) -> u64 {
        u64::try_from(self.nvlink_kib_s / u128::from(ticks_per_second)).unwrap_or(u64::MAX)
    }

    /// Nanoseconds in which a reason bit was set; 0 for bits that the simulation never sets.
    pub(crate) fn reason_ns(&self, bit: u64, ticks_per_second: u32) -> u64 {
        let ticks = match bit {
            reason::SW_POWER_CAP => self.sw_power,
            reason::SW_THERMAL => self.sw_thermal,
            reason::HW_THERMAL => self.hw_thermal,
            reason::HW_POWER_BRAKE => self.power_brake,
            reason::IDLE => self.idle,
            _ => 0,
        };
        ticks.saturating_mul(1_000_000_000) / u64::from(ticks_per_second)
    }

    /// Means between an `earlier` state and this one; `None` when no tick lies between them, or the
    /// counters began anew.
    pub(crate) fn means_since(&self, earlier: &Self) -> Option<Means> {
        let ticks = self.ticks.checked_sub(earlier.ticks).filter(|ticks| *ticks > 0)?;
        let small = |now: u64, then: u64| now.checked_sub(then).map(|sum| sum / ticks);
        let nvlink = self.nvlink_kib_s.checked_sub(earlier.nvlink_kib_s)? / u128::from(ticks);
        Some(Means {
            busy_permille: small(self.busy * 10, earlier.busy * 10)?,
            tensor_permille: small(self.tensor_permille, earlier.tensor_permille)?,
            pcie_tx_kib_s: small(self.pcie_tx_kib_s, earlier.pcie_tx_kib_s)?,
            pcie_rx_kib_s: small(self.pcie_rx_kib_s, earlier.pcie_rx_kib_s)?,
            nvlink_kib_s: u64::try_from(nvlink).unwrap_or(u64::MAX),
        })
    }
}

/// Means over some ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Means {
    pub(crate) busy_permille: u64,
    pub(crate) tensor_permille: u64,
    pub(crate) pcie_tx_kib_s: u64,
    pub(crate) pcie_rx_kib_s: u64,
    pub(crate) nvlink_kib_s: u64,
}
