//! JSON lines of monitoring scripts: one object a line, with a time and `metric:index` keys.
//!
//! Memory is in bytes, power in watts, as NVML's bindings give them. Not here: nested objects, and
//! what such scripts say of the host.

use std::collections::BTreeMap;

use leasewatch_core::log_fault::{LineFault, LogText};
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::time::{LocalInstants, Timestamp};
use serde_json::{Map, Value};

use super::cell::{self, Measure};
use super::chosen::Chosen;
use super::log::{Draft, Gatherer, Identity, ImportLog, Reader, cut};
use super::{LogError, local_time, text};
use crate::intake::LogKind;

/// Names that such scripts have for the time.
const TIME_KEYS: [&str; 4] = ["time", "timestamp", "ts", "datetime"];

/// What a text is that somebody did not say the kind of: JSON lines begin with a brace.
#[must_use]
pub fn kind(text: &str) -> LogKind {
    if text::trim(text).starts_with('{') { LogKind::Jsonl } else { LogKind::Smi }
}

/// Reads a log.
///
/// # Errors
/// [`LogError`] when no line has a time and the utilization of a GPU.
pub fn parse(text: &str, reader: Reader<'_>) -> Result<ImportLog, LogError> {
    let mut gatherer = Gatherer::new(reader);
    for line in text::lines(text, reader) {
        match object(line.text) {
            Ok(object) => {
                if let Err(fault) = sample(&mut gatherer, line.number, &object, reader) {
                    gatherer.problem(line.number, fault);
                }
            }
            Err(fault) => gatherer.problem(line.number, fault),
        }
    }
    gatherer.finish().map_err(|_| LogError::GpusNotNamed)
}

fn object(line: &str) -> Result<Map<String, Value>, LineFault> {
    let text = || LogText::quote(line);
    if line.contains('\u{fffd}') {
        return Err(LineFault::NotText { text: text() });
    }
    match serde_json::from_str(line) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(LineFault::NoJsonObject { text: text() }),
        Err(error) => Err(LineFault::NoJson {
            said: LogText::quote(&error.to_string()),
            byte: error.column(),
            text: text(),
        }),
    }
}

/// One line: a row of each GPU in it. A GPU with a bad value loses its row, not the others'.
fn sample(
    gatherer: &mut Gatherer<'_>,
    line: usize,
    object: &Map<String, Value>,
    reader: Reader<'_>,
) -> Result<(), LineFault> {
    let time =
        TIME_KEYS.iter().find_map(|key| object.get(*key)).ok_or(LineFault::ObjectWithoutTime)?;
    let no_time = || LineFault::NotATime { text: LogText::quote(&time.to_string()) };
    let at = instant(time, reader).ok_or_else(no_time)?;
    let mut values: BTreeMap<u32, Vec<(&str, &Value)>> = BTreeMap::new();
    for (key, value) in object.iter().filter(|(key, _)| !TIME_KEYS.contains(&key.as_str())) {
        let of_gpu = key.rsplit_once(':').and_then(|(name, i)| Some((name, i.parse().ok()?)));
        match of_gpu {
            Some((name, index)) if field(name).is_some() => {
                values.entry(index).or_default().push((name, value));
            }
            Some((name, _)) => gatherer.ignored(&cut(name)),
            None => gatherer.ignored(&cut(key)),
        }
    }
    let mut found = false;
    for (index, values) in values {
        match row(gatherer, line, (index, &values)) {
            Ok(None) => {}
            Ok(Some(draft)) => {
                found = true;
                let identity = Identity { index: Some(index.to_string()), ..Identity::default() };
                gatherer.row(line, Draft { at: Some(at), identity, ..draft });
            }
            Err(fault) => {
                found = true;
                gatherer.problem(line, fault);
            }
        }
    }
    found.then_some(()).ok_or(LineFault::NoUtilization)
}

/// `None` when the GPU's utilization is not in the object.
fn row(
    gatherer: &mut Gatherer<'_>,
    line: usize,
    (index, values): (u32, &[(&str, &Value)]),
) -> Result<Option<Draft>, LineFault> {
    let mut draft = Draft::default();
    let mut chosen = Chosen::default();
    for (name, value) in values {
        let Some(field) = field(name) else { continue };
        let wrong = || LineFault::NotAValue {
            key: LogText::quote(&format!("{name}:{index}")),
            text: LogText::quote(&value.to_string()),
        };
        let read = reading(value, &field).ok_or_else(wrong)?;
        draft.needs_reset |= read.needs_reset;
        match field {
            Field::Busy => {
                let possible = read.reading.number().is_none_or(|n| (0..=100).contains(&n));
                draft.busy = Some(possible.then_some(read.reading).ok_or_else(wrong)?);
            }
            Field::Metric(metric, ..) => chosen.offer(metric, 0, read.reading),
        }
    }
    if draft.busy.is_none() {
        return Ok(None);
    }
    draft.readings = chosen.readings(gatherer, line);
    Ok(Some(draft))
}

enum Field {
    Busy,
    /// With the unit that the bare number is in.
    Metric(Metric, Measure, &'static str),
}

fn field(name: &str) -> Option<Field> {
    let field = match name {
        "gpu_usage" | "gpu_util" | "gpu_utilization" => Field::Busy,
        "gpu_temperature" | "gpu_temp" => Field::Metric(Metric::Temperature, Measure::Celsius, "C"),
        "gpu_power_limit" => Field::Metric(Metric::PowerLimitManagement, Measure::Power, "W"),
        "gpu_power" | "gpu_power_usage" | "gpu_power_draw" => {
            Field::Metric(Metric::PowerDraw, Measure::Power, "W")
        }
        "gpu_mem_used" => Field::Metric(Metric::MemoryUsed, Measure::Memory, "B"),
        "gpu_mem_total" => Field::Metric(Metric::MemoryTotal, Measure::Memory, "B"),
        "gpu_mem_usage" | "gpu_mem_util" => {
            Field::Metric(Metric::MemoryBusy, Measure::Percent, "%")
        }
        "gpu_corrected_ecc" => Field::Metric(Metric::EccCorrected, Measure::Count, ""),
        "gpu_uncorrected_ecc" => Field::Metric(Metric::EccUncorrected, Measure::Count, ""),
        "gpu_fan_speed" => Field::Metric(Metric::FanSpeed, Measure::Percent, "%"),
        "gpu_sm_clock" => Field::Metric(Metric::SmClock, Measure::Megahertz, "MHz"),
        _ => return None,
    };
    Some(field)
}

/// `null` is a value that could not be read; why is not said.
fn reading(value: &Value, field: &Field) -> Option<cell::Cell> {
    let (measure, unit) = match field {
        Field::Busy => (Measure::Percent, "%"),
        Field::Metric(_, measure, unit) => (*measure, *unit),
    };
    match value {
        Value::Null => Some(cell::Cell { reading: Reading::Error, needs_reset: false }),
        Value::Number(number) => cell::read(&format!("{number} {unit}"), measure),
        Value::String(words) => {
            cell::read(words, measure).filter(|cell| cell.reading.number().is_none())
        }
        _ => None,
    }
}

/// A local time as text, or seconds or milliseconds since 1970.
fn instant(time: &Value, reader: Reader<'_>) -> Option<LocalInstants> {
    const MILLISECONDS_FROM: i64 = 100_000_000_000;
    let at = match time {
        Value::String(text) => return local_time::read(text, reader.zone),
        Value::Number(number) => match number.as_i64() {
            Some(ms) if ms >= MILLISECONDS_FROM => Timestamp(ms),
            Some(seconds) => Timestamp(seconds.checked_mul(1_000)?),
            // Seconds with a fraction: the same digits as watts with one.
            None => {
                let cell = cell::read(&format!("{number} W"), Measure::Power)?;
                Timestamp(cell.reading.number()?)
            }
        },
        _ => return None,
    };
    Some(at.into())
}

#[cfg(test)]
mod tests;
