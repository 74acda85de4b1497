//! What a card's sensors show during one tick.

use super::board::Board;
use super::faults::ActiveFaults;
use super::noise::noise;
use crate::scenario::load::{Demand, Moment};

/// NVML's clocks event reason bits.
pub(crate) mod reason {
    pub(crate) const IDLE: u64 = 0x1;
    pub(crate) const SW_POWER_CAP: u64 = 0x4;
    pub(crate) const HW_SLOWDOWN: u64 = 0x8;
    pub(crate) const SW_THERMAL: u64 = 0x20;
    pub(crate) const HW_THERMAL: u64 = 0x40;
    pub(crate) const HW_POWER_BRAKE: u64 = 0x80;
    pub(crate) const SUPPORTED: u64 = 0x1ff;
}

const AMBIENT_MILLI_C: u32 = 28_000;
/// How much warmer than the air a card gets at its default limit.
const RISE_MILLI_C: u32 = 42_000;
/// Ticks in which a card gets about two thirds of the way to its final temperature (20 s).
const LAG_TICKS: u32 = 120;

/// Sensor readings of one tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Instant {
    pub(crate) busy: u32,
    pub(crate) memory_busy: u32,
    pub(crate) encoder: u32,
    pub(crate) decoder: u32,
    pub(crate) power_mw: u32,
    pub(crate) temperature_milli_c: u32,
    pub(crate) sm_mhz: u32,
    pub(crate) memory_mhz: u32,
    pub(crate) reasons: u64,
    pub(crate) memory_used_mib: u32,
    pub(crate) pstate: u32,
    pub(crate) tensor_permille: u32,
    pub(crate) pcie_tx_kib_s: u32,
    pub(crate) pcie_rx_kib_s: u32,
    pub(crate) nvlink_kib_s: u64,
}

impl Instant {
    /// The readings of the tick after one that ended at `temperature_milli_c`.
    pub(crate) fn next(
        board: &Board,
        active: &ActiveFaults,
        demand: Demand,
        at: Moment,
        temperature_milli_c: u32,
    ) -> Self {
        let power = power(board, active, demand, at);
        let temperature = temperature(board, active, demand, (power.drawn_mw, temperature_milli_c));
        let working = demand.busy > 0;
        let busy_memory = if working { board.busy_memory_mhz } else { board.idle_memory_mhz };
        let links = board.connected_links().saturating_sub(active.links_down);
        let usable_mib = board.memory_mib.saturating_sub(board.reserved_mib + active.reserved_mib);
        let wanted_mib =
            demand.memory_used_mib.unwrap_or(permille(usable_mib, demand.memory_permille));
        Self {
            busy: demand.busy,
            memory_busy: demand.busy * 3 / 5,
            encoder: 0,
            decoder: 0,
            power_mw: power.drawn_mw,
            temperature_milli_c: temperature,
            sm_mhz: sm_mhz(board, active, demand, power.kept_permille),
            memory_mhz: busy_memory,
            reasons: reasons(active, demand, power.kept_permille),
            memory_used_mib: wanted_mib.saturating_add(active.foreign_mib).min(usable_mib),
            pstate: if working { board.busy_pstate } else { board.idle_pstate },
            tensor_permille: demand.busy * demand.tensor_permille / 100,
            pcie_tx_kib_s: demand.busy * 9_000,
            pcie_rx_kib_s: demand.busy * 14_000,
            nvlink_kib_s: u64::from(links)
                * u64::from(board.link_mb_s())
                * u64::from(demand.busy)
                * 4,
        }
    }

    /// The resting temperature, with which a card begins.
    pub(crate) fn ambient_milli_c() -> u32 {
        AMBIENT_MILLI_C
    }
}

struct Power {
    drawn_mw: u32,
    /// What the enforced limit leaves of the wanted power above idle; 1000 = no cap.
    kept_permille: u32,
}

/// Idle power plus a share of the rest, cut at the enforced limit.
fn power(board: &Board, active: &ActiveFaults, demand: Demand, at: Moment) -> Power {
    let jitter = noise(at.seed, 8 << 32 | at.slot, at.tick, 21);
    let full = permille(board.default_limit_mw, 930);
    let above_idle = full.saturating_sub(board.idle_power_mw) / 100 * demand.busy;
    let free_mw = board.idle_power_mw + above_idle;
    let wanted = demand.power_mw.unwrap_or(permille(free_mw, 990 + jitter));
    let slowed = if active.thermal || active.power_brake {
        board.idle_power_mw + wanted.saturating_sub(board.idle_power_mw) * 6 / 10
    } else {
        wanted
    };
    let limit = enforced_limit_mw(board, active);
    if slowed <= limit {
        return Power { drawn_mw: slowed, kept_permille: 1_000 };
    }
    let room = u64::from(limit.saturating_sub(board.idle_power_mw)) * 1_000;
    let kept = room / u64::from(slowed.saturating_sub(board.idle_power_mw).max(1));
    let drawn_mw = permille(limit, 990 + jitter / 3).min(limit);
    Power { drawn_mw, kept_permille: u32::try_from(kept).unwrap_or(1_000) }
}

/// The management limit: the default one unless somebody lowered it.
pub(crate) fn management_limit_mw(board: &Board, active: &ActiveFaults) -> u32 {
    active.management_limit_mw.unwrap_or(board.default_limit_mw)
}

/// The lowest of all limits.
pub(crate) fn enforced_limit_mw(board: &Board, active: &ActiveFaults) -> u32 {
    let management = management_limit_mw(board, active);
    active.enforced_limit_mw.map_or(management, |enforced| enforced.min(management))
}

fn temperature(
    board: &Board,
    active: &ActiveFaults,
    demand: Demand,
    (power_mw, before): (u32, u32),
) -> u32 {
    if active.thermal {
        return board.slowdown_c * 1_000 + 1_500;
    }
    if let Some(recorded) = demand.temperature_c {
        return recorded * 1_000;
    }
    let rise =
        u64::from(power_mw) * u64::from(RISE_MILLI_C) / u64::from(board.default_limit_mw.max(1));
    let target = AMBIENT_MILLI_C + u32::try_from(rise).unwrap_or(RISE_MILLI_C);
    if target >= before {
        before + (target - before) / LAG_TICKS
    } else {
        before - (before - target) / LAG_TICKS
    }
}

fn sm_mhz(board: &Board, active: &ActiveFaults, demand: Demand, kept_permille: u32) -> u32 {
    if demand.busy == 0 {
        return board.idle_sm_mhz;
    }
    let capped = permille(board.max_sm_mhz, kept_permille.max(250));
    let slowed = if active.thermal || active.power_brake { capped / 2 } else { capped };
    let locked = active.locked_sm_mhz.map_or(slowed, |locked| slowed.min(locked));
    // Clocks come in steps of 15 MHz.
    if locked == board.max_sm_mhz { locked } else { (locked / 15 * 15).max(board.idle_sm_mhz) }
}

fn reasons(active: &ActiveFaults, demand: Demand, kept_permille: u32) -> u64 {
    let mut reasons = 0;
    if demand.busy == 0 {
        reasons |= reason::IDLE;
    }
    if kept_permille < 1_000 {
        reasons |= reason::SW_POWER_CAP;
    }
    if active.thermal {
        reasons |= reason::SW_THERMAL | reason::HW_THERMAL | reason::HW_SLOWDOWN;
    }
    if active.power_brake {
        reasons |= reason::HW_POWER_BRAKE | reason::HW_SLOWDOWN;
    }
    reasons
}

fn permille(value: u32, share: u32) -> u32 {
    u32::try_from(u64::from(value) * u64::from(share) / 1_000).unwrap_or(u32::MAX)
}
