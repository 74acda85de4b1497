//! `run --once`: one sample of everything that the agent reads, as text or JSON.
//!
//! Readings have the names and units of the record; what is not offered is named as such and is
//! never left out. Nothing is recorded or sent.

use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use leasewatch_core::id::clean_text;
use leasewatch_core::sample::{HostMetric, Metric, Reading, Unit};
use leasewatch_core::time::Timestamp;
use serde_json::{Map, Value, json};

use super::print;
use super::run::refuse;
use crate::clock;
use crate::config::Config;
use crate::source::Source;
use crate::source::host::HostReader;
use crate::source::nvml::{Failure, Gone, code_text};
use crate::source::survey::{Look, SliceLook, Survey, SurveyError, Unseen, survey};

/// The name that utilization has in exports.
const BUSY: &str = "utilization_pct";
/// How long the driver gets to answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// A CPU share is of an interval.
const CPU_INTERVAL: Duration = Duration::from_millis(200);

/// Takes the sample and prints it. 0: printed; 4: NVML gave nothing, the host's readings alone are
/// printed.
pub(super) fn once(config: &Config, as_json: bool) -> ExitCode {
    let sample = Sample::take(config);
    print(&if as_json { sample.json() } else { sample.text() });
    match &sample.gpus {
        Ok(survey) if survey.gpus.iter().any(Result::is_ok) => ExitCode::SUCCESS,
        Ok(_) => refuse(&"no GPU was read", 4),
        Err(error) => refuse(error, 4),
    }
}

struct Sample {
    at: Timestamp,
    gpus: Result<Survey, SurveyError>,
    host: Vec<(HostMetric, Reading)>,
}

impl Sample {
    fn take(config: &Config) -> Self {
        let mut host = HostReader::new(Path::new("/"), &config.state_dir);
        host.read(clock::boot_ms());
        let source = Source::open(&config.nvml_library);
        let gpus = survey(&source, PATIENCE);
        std::thread::sleep(CPU_INTERVAL);
        Self { at: clock::wall(), gpus, host: host.read(clock::boot_ms()) }
    }

    fn text(&self) -> String {
        let mut out = format!("sample of {}\n", self.at);
        if let Ok(survey) = &self.gpus {
            let versions = &survey.versions;
            let mark = if survey.origin.name() == "measured" { "" } else { "SIMULATED, " };
            let _ = writeln!(
                out,
                "{mark}driver {}, NVML {}, CUDA {}",
                versions.driver, versions.nvml, versions.cuda
            );
            for (index, gpu) in survey.gpus.iter().enumerate() {
                match gpu {
                    Ok(look) => look_text(look, &mut out),
                    Err(unseen) => {
                        let _ = writeln!(out, "\nGPU {index}: {}", unseen_text(*unseen));
                    }
                }
            }
        }
        out.push_str("\nhost\n");
        for (metric, reading) in &self.host {
            reading_line(metric.name(), metric.unit(), *reading, &mut out);
        }
        out
    }

    fn json(&self) -> String {
        let host = self.host.iter().map(|(metric, reading)| (metric.name(), *reading));
        let mut value = json!({ "at_ms": self.at.0, "host": readings_json(host) });
        match &self.gpus {
            Ok(survey) => {
                let gpus = survey.gpus.iter().map(|gpu| match gpu {
                    Ok(look) => look_json(look),
                    Err(unseen) => json!({ "error": unseen_text(*unseen) }),
                });
                value["origin"] = json!(survey.origin.name());
                value["driver_version"] = json!(survey.versions.driver);
                value["nvml_version"] = json!(survey.versions.nvml);
                value["cuda_version"] = json!(survey.versions.cuda);
                value["gpus"] = gpus.collect();
            }
            Err(error) => value["error"] = json!(error.to_string()),
        }
        format!("{value:#}\n")
    }
}

/// Why a GPU was not read.
pub(super) fn unseen_text(unseen: Unseen) -> String {
    match unseen {
        Unseen::Hung => format!("did not answer for {} s", PATIENCE.as_secs()),
        Unseen::Refused(Failure::Unsupported) => {
            "does not open: not supported, or no permission".to_owned()
        }
        Unseen::Refused(Failure::Failed(code) | Failure::Lost(code) | Failure::NoDriver(code))
        | Unseen::Gone(Gone::Lost(code) | Gone::NoDriver(code)) => {
            format!("{} (NVML code {code})", code_text(code))
        }
    }
}

fn look_text(look: &Look, out: &mut String) {
    let gpu = &look.gpu;
    let name = clean_text(&gpu.inventory.name, 96);
    let _ = writeln!(out, "\nGPU {} {} {name}", gpu.bus_id, gpu.uuid);
    values_text(look.busy, &look.readings, out);
    for slice in &look.slices {
        let part = &slice.partition;
        let _ = writeln!(
            out,
            "\nslice {} of {}, {}/{}",
            slice.uuid, gpu.bus_id, part.slices, part.slices_of
        );
        values_text(slice.busy, &slice.readings, out);
    }
}

fn values_text(busy: Option<Reading>, readings: &[(Metric, Reading)], out: &mut String) {
    reading_line(BUSY, Unit::Percent, busy.unwrap_or(Reading::Unsupported), out);
    for (metric, reading) in readings {
        reading_line(metric.name(), metric.unit(), *reading, out);
    }
}

fn reading_line(name: &str, unit: Unit, reading: Reading, out: &mut String) {
    let _ = match reading {
        Reading::Number(bits) if unit == Unit::Bits => writeln!(out, "  {name:<28} {bits:#x}"),
        Reading::Number(value) => writeln!(out, "  {name:<28} {value}{}", unit_text(unit)),
        other => writeln!(out, "  {name:<28} {}", word(other)),
    };
}

fn unit_text(unit: Unit) -> &'static str {
    match unit {
        Unit::Percent => " %",
        Unit::PerMille => " per mille",
        Unit::Mebibyte => " MiB",
        Unit::Kibibyte => " KiB",
        Unit::Milliwatt => " mW",
        Unit::Millijoule => " mJ",
        Unit::Celsius => " C",
        Unit::Megahertz => " MHz",
        Unit::Nanosecond => " ns",
        Unit::Millisecond => " ms",
        Unit::Second => " s",
        Unit::BytesPerSecond => " B/s",
        Unit::Byte => " B",
        Unit::Count | Unit::Bits => "",
    }
}

fn word(reading: Reading) -> &'static str {
    match reading {
        Reading::Number(_) => "",
        Reading::Unsupported => "unsupported",
        Reading::Error => "error",
        Reading::Stale => "stale",
    }
}

fn look_json(look: &Look) -> Value {
    let gpu = &look.gpu;
    json!({
        "uuid": gpu.uuid.as_str(),
        "bus_id": gpu.bus_id.as_str(),
        "index": gpu.index,
        "name": gpu.inventory.name,
        "readings": values_json(look.busy, &look.readings),
        "slices": look.slices.iter().map(slice_json).collect::<Vec<_>>(),
    })
}

fn slice_json(slice: &SliceLook) -> Value {
    json!({
        "uuid": slice.uuid.as_str(),
        "slices": slice.partition.slices,
        "slices_of": slice.partition.slices_of,
        "readings": values_json(slice.busy, &slice.readings),
    })
}

fn values_json(busy: Option<Reading>, readings: &[(Metric, Reading)]) -> Value {
    let busy = (BUSY, busy.unwrap_or(Reading::Unsupported));
    let others = readings.iter().map(|(metric, reading)| (metric.name(), *reading));
    readings_json([busy].into_iter().chain(others))
}

/// Numbers as numbers, reasons as words.
fn readings_json<'a>(readings: impl Iterator<Item = (&'a str, Reading)>) -> Value {
    let value = |reading: Reading| reading.number().map_or(json!(word(reading)), |n| json!(n));
    let object: Map<String, Value> =
        readings.map(|(name, reading)| (name.to_owned(), value(reading))).collect();
    Value::Object(object)
}
