//! Field values: one call for many readings, each with a code of its own.

#![expect(unsafe_code, reason = "exports NVML's C interface")]

use leasewatch_core::sample::{Metric, MetricKind};

use super::clocks::violation_ns;
use super::code::{Code, Result};
use super::guard::{get, guard, put};
use super::layout::{Device, FieldValue};
use super::links::{active_links, link_count, link_version};
use super::read::{Call, View, look, supported};
use crate::physics::instant::{enforced_limit_mw, management_limit_mw, reason};
use crate::scenario::fault::Group;

/// A value with its NVML type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    Unsigned(u32),
    Wide(u64),
    Signed(i32),
    /// Drivers of branch 545 call the memory temperature a double, and store an integer.
    MislabelledDouble(u32),
}

/// Asks for many values. Fails as a whole only when the device cannot be asked at all.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn nvmlDeviceGetFieldValues(
    device: Device,
    count: i32,
    values: *mut FieldValue,
) -> u32 {
    guard(|| {
        let count = usize::try_from(count).map_err(|_| Code::INVALID_ARGUMENT)?;
        look(device, Call::new(Group::Fields, 384).by_call(), |view| {
            for at in 0..count {
                // SAFETY: the caller passes null or `count` values with their ids set; null is
                // refused at the first.
                unsafe {
                    let place = values.wrapping_add(at);
                    let asked =
                        (get(&raw const (*place).field_id)?, get(&raw const (*place).scope_id)?);
                    put(place, answer(view, asked))?;
                }
            }
            Ok(())
        })
    })
}

fn answer(view: &View<'_>, (field_id, scope_id): (u32, u32)) -> FieldValue {
    let found = field(view, field_id, scope_id);
    let (value_type, value) = match found {
        Ok(Value::MislabelledDouble(value)) => (0, u64::from(value)),
        Ok(Value::Unsigned(value)) => (1, u64::from(value)),
        Ok(Value::Wide(value)) => (3, value),
        Ok(Value::Signed(value)) => (5, u64::from(value.cast_unsigned())),
        Err(_) => (0, 0),
    };
    FieldValue {
        field_id,
        scope_id,
        at_us: i64::try_from(view.session.now_us()).unwrap_or(0),
        latency_us: 0,
        value_type,
        code: found.err().map_or(Code::SUCCESS, |code| code.0),
        value,
    }
}

/// One field. Its group can be masked apart from the others.
fn field(view: &View<'_>, id: u32, scope: u32) -> Result<Value> {
    let group = group(id);
    if let Some(code) = view.card.active.refusal(group) {
        return Err(Code(code));
    }
    if view.card.replay.is_some() {
        return recorded(view, id, scope);
    }
    let value = match id {
        74..=79 => violation_ns(view, id - 74).map(Value::Wide).map_err(|_| Code::NOT_SUPPORTED),
        82 => memory_temperature(view),
        83 => Ok(Value::Wide(view.card.totals.energy_mj(view.card.ticks_per_second))),
        90 | 91 | 138..=141 | 147 | 160..=166 => nvlink(view, id, scope),
        94 | 95 | 173..=183 => Ok(Value::Unsigned(0)),
        142..=145 => remapped(view, id),
        185..=192 => power(view, id, scope),
        193..=196 => margin(view, id),
        197 => Ok(Value::Wide(view.card.totals.pcie_kib(view.card.ticks_per_second).0 * 1_024)),
        198 => Ok(Value::Wide(view.card.totals.pcie_kib(view.card.ticks_per_second).1 * 1_024)),
        226 => since(view, 550, Value::Unsigned(u32::from(view.card.active.recovery_action == 1))),
        227 => since(view, 550, Value::Unsigned(u32::from(view.card.active.recovery_action == 4))),
        230 => since(view, 550, Value::Unsigned(view.card.active.recovery_action)),
        251..=273 => reason_time(view, id),
        _ => Err(Code::NOT_SUPPORTED),
    }?;
    Ok(if view.card.active.garbage.has(group) { implausible(value) } else { value })
}

/// One field of a card that plays a recording.
fn recorded(view: &View<'_>, id: u32, scope: u32) -> Result<Value> {
    const ALL_LINKS: u32 = u32::MAX;
    let first_reason = if view.session.driver.renumbered_fields() { 269 } else { 251 };
    let metric = match id {
        74 => Metric::ThrottleSwPower,
        76 => Metric::ThrottleSyncBoost,
        82 => Metric::MemoryTemperature,
        83 => Metric::Energy,
        91 => return link_count(view).map(Value::Unsigned),
        94 => Metric::PcieReplays,
        138 if scope == ALL_LINKS => Metric::NvlinkTx,
        139 if scope == ALL_LINKS => Metric::NvlinkRx,
        142 => Metric::RemappedCorrected,
        143 => Metric::RemappedUncorrected,
        144 => Metric::RemapPending,
        145 => Metric::RemapFailure,
        186 if scope == 0 => Metric::PowerDraw,
        189 if scope == 0 => Metric::PowerLimitDefault,
        190 if scope == 0 => Metric::PowerLimitEnforced,
        192 if scope == 0 => Metric::PowerLimitManagement,
        197 => Metric::PcieTx,
        198 => Metric::PcieRx,
        230 => Metric::RecoveryAction,
        _ => match id.checked_sub(first_reason) {
            Some(0) => Metric::ThrottleSwThermal,
            Some(1) => Metric::ThrottleHwThermal,
            Some(2) => Metric::ThrottleHwPowerBrake,
            _ => return Err(Code::NOT_SUPPORTED),
        },
    };
    let number: u64 = view.recorded_as(metric).unwrap_or(Err(Code::NOT_SUPPORTED))?;
    Ok(match metric {
        Metric::PcieTx | Metric::PcieRx => Value::Wide(number.saturating_mul(1_024)),
        _ if metric.kind() == MetricKind::Counter => Value::Wide(number),
        _ => Value::Unsigned(u32::try_from(number).map_err(|_| Code::UNKNOWN)?),
    })
}

fn group(id: u32) -> Group {
    match id {
        74..=81 | 251..=273 => Group::Violation,
        82 => Group::MemoryTemperature,
        83 => Group::Energy,
        90 | 91 | 138..=141 | 147 | 160..=166 => Group::Nvlink,
        94 | 95 | 173..=183 => Group::Pcie,
        197 | 198 => Group::PcieThroughput,
        142..=145 => Group::RemappedRows,
        185 | 186 => Group::Power,
        187..=192 => Group::PowerLimits,
        193..=196 => Group::Temperature,
        _ => Group::Fields,
    }
}

fn memory_temperature(view: &View<'_>) -> Result<Value> {
    supported(view.card.board.model.memory_temperature_readable() == Some(true), ())?;
    // Memory runs some degrees above the die, more so under load.
    let above = 4 + view.card.shown.memory_busy / 10;
    let celsius = view.card.shown.temperature_milli_c / 1_000 + above;
    let mislabelled = view.session.driver.major == 545;
    Ok(if mislabelled { Value::MislabelledDouble(celsius) } else { Value::Unsigned(celsius) })
}

/// Scope: a link, or all of them.
fn nvlink(view: &View<'_>, id: u32, scope: u32) -> Result<Value> {
    const ALL_LINKS: u32 = u32::MAX;
    let board = &view.card.board;
    supported(board.nvlink_links > 0, ())?;
    let active = active_links(view)?;
    let one = scope != ALL_LINKS;
    if one && scope >= board.nvlink_links {
        return Err(Code::INVALID_ARGUMENT);
    }
    let total_kib = view.card.totals.nvlink_kib(view.card.ticks_per_second);
    let share = match (one, active) {
        (false, _) => total_kib,
        (true, links) if scope < links => total_kib / u64::from(links),
        (true, _) => 0,
    };
    match id {
        90 => Ok(Value::Unsigned(board.link_mb_s())),
        91 => Ok(Value::Unsigned(board.nvlink_links)),
        // Raw counters include the protocol's share.
        138 | 139 => Ok(Value::Wide(share)),
        140 | 141 => Ok(Value::Wide(share + share / 8)),
        147 => Ok(Value::Unsigned(active)),
        160..=163 => Ok(Value::Wide(0)),
        164 => Ok(Value::Unsigned(if one && scope >= active { 0 } else { board.link_mb_s() })),
        165 => Ok(Value::Unsigned(u32::from(!one || scope < active))),
        _ => Ok(Value::Unsigned(link_version(view))),
    }
}

fn remapped(view: &View<'_>, id: u32) -> Result<Value> {
    supported(view.card.board.remaps_rows() && !view.mig_on(), ())?;
    let rows = view.card.active.remapped;
    Ok(Value::Unsigned(match id {
        142 => rows.corrected,
        143 => rows.uncorrected,
        144 => rows.pending.into(),
        _ => rows.failure.into(),
    }))
}

/// Scope: 0 the GPU; modules and memory have no sensor of their own here.
fn power(view: &View<'_>, id: u32, scope: u32) -> Result<Value> {
    let (board, active) = (&view.card.board, &view.card.active);
    supported(scope == 0 && view.session.driver.major >= 530, ())?;
    Ok(Value::Unsigned(match id {
        185 | 186 => view.card.shown.power_mw,
        187 => board.min_limit_mw,
        188 => board.max_limit_mw,
        189 => board.default_limit_mw,
        190 => enforced_limit_mw(board, active),
        192 => management_limit_mw(board, active),
        _ => return Err(Code::NOT_SUPPORTED),
    }))
}

/// Thresholds as degrees of margin, in the order shutdown, slowdown, memory, GPU.
fn margin(view: &View<'_>, id: u32) -> Result<Value> {
    let board = &view.card.board;
    supported(board.tells_margins(), ())?;
    let margin = board.model.margin;
    Ok(Value::Signed(match id {
        193 => margin.shutdown_c.unwrap_or(-8),
        194 => margin.slowdown_c.unwrap_or(-2),
        195 => return Err(Code::NOT_SUPPORTED),
        _ => margin.max_operating_c.unwrap_or(0),
    }))
}

/// Time in slowdown. Driver 580.82 moved these counters from 251..253 to 269..271, and power
/// smoothing, which no simulated board has, into their place.
fn reason_time(view: &View<'_>, id: u32) -> Result<Value> {
    let first = if view.session.driver.renumbered_fields() { 269 } else { 251 };
    supported(view.session.driver.major >= 560, ())?;
    let bit = match id.checked_sub(first) {
        Some(0) => reason::SW_THERMAL,
        Some(1) => reason::HW_THERMAL,
        Some(2) => reason::HW_POWER_BRAKE,
        _ => return Err(Code::NOT_SUPPORTED),
    };
    Ok(Value::Wide(view.card.totals.reason_ns(bit, view.card.ticks_per_second)))
}

fn since(view: &View<'_>, branch: u32, value: Value) -> Result<Value> {
    // An unknown field is "not supported", other than an unknown function.
    supported(view.session.driver.major >= branch, value)
}

fn implausible(value: Value) -> Value {
    match value {
        Value::Unsigned(_) => Value::Unsigned(u32::MAX),
        Value::Wide(_) => Value::Wide(u64::MAX),
        Value::Signed(_) => Value::Signed(i32::MAX),
        Value::MislabelledDouble(_) => Value::MislabelledDouble(u32::MAX),
    }
}
