//! Library, driver, permissions, and each sensor that a GPU of this class should offer.

use std::path::Path;
use std::time::Duration;

use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::Origin;

use crate::command::check::{Subject, Terms, failed, masked, node};
use crate::command::finding::{About, Finding, Findings};
use crate::config::Config;
use crate::source::Source;
use crate::source::nvml::code_text;
use crate::source::survey::{Look, SurveyError, survey};

/// How long the driver gets to answer.
const PATIENCE: Duration = Duration::from_secs(15);
const MISSING_LIBRARY: u32 = 12;
const MISMATCH: u32 = 18;

pub(super) fn check(config: &Config, findings: &mut Findings) {
    let source = Source::open(&config.nvml_library);
    let survey = match survey(&source, PATIENCE) {
        Ok(survey) => survey,
        Err(error) => return findings.node(no_driver(config, &error)),
    };
    findings.gpus = survey.gpus.len();
    let mark = if survey.origin == Origin::Simulated { ", SIMULATED" } else { "" };
    let versions = &survey.versions;
    let found =
        format!("driver {}, NVML {}, CUDA {}{mark}", versions.driver, versions.nvml, versions.cuda);
    findings.node(Finding::ok("driver.library", found));
    findings.node(node::kernel_module(&survey, Path::new("/")));
    if survey.gpus.is_empty() {
        let advice = "In a container start it with the NVIDIA runtime (--gpus all)";
        findings.node(Finding::differs("gpu.count", "NVML lists no GPU").advising(advice));
    }
    for (index, gpu) in survey.gpus.iter().enumerate() {
        node::answers(index, gpu, findings);
    }
    let looks: Vec<&Look> = survey.gpus.iter().filter_map(|gpu| gpu.as_ref().ok()).collect();
    let terms = Terms::default();
    for look in &looks {
        let about = About { place: look.gpu.bus_id.to_string(), uuid: Some(look.gpu.uuid.clone()) };
        let subject = Subject::new(look, &looks, &terms, (&survey, Path::new("/")));
        for finding in sensors(&subject).into_iter().chain([xids(look), profiling(&subject)]) {
            findings.gpu(&about, finding);
        }
    }
}

fn no_driver(config: &Config, error: &SurveyError) -> Finding {
    let id = "driver.library";
    let SurveyError::Open(error) = error else {
        return Finding::differs(id, error.to_string())
            .advising("The driver hangs: look at the kernel's log for NVRM, then reboot");
    };
    let code = error.code();
    let found =
        format!("{}: {} (NVML code {code})", config.nvml_library.display(), code_text(code));
    Finding::differs(id, found).advising(match code {
        MISSING_LIBRARY => {
            "Install NVIDIA's driver; in a container start it with the NVIDIA runtime; or name the \
             library with --nvml-library"
        }
        MISMATCH => "The driver was updated without a restart: reboot, or load it anew",
        _ => "Load the driver (modprobe nvidia; nvidia-smi shows whether it works)",
    })
}

/// One finding for each sensor that is masked, and for each that this class does not have.
fn sensors(subject: &Subject<'_>) -> Vec<Finding> {
    let masked = if subject.is_vgpu() { Vec::new() } else { masked(subject) };
    let mut findings: Vec<Finding> = masked
        .iter()
        .map(|name| {
            Finding::differs("sensor.masked", *name).advising(
                "This class of board offers it and the platform hides it: ask the provider. The \
                 agent records it as unsupported",
            )
        })
        .collect();
    let absent: Vec<&str> = subject
        .look
        .readings
        .iter()
        .filter(|(metric, reading)| {
            *reading == Reading::Unsupported && !masked.contains(&metric.name())
        })
        .map(|(metric, _)| metric.name())
        .filter(|name| !name.ends_with("_active_permille"))
        .collect();
    if !absent.is_empty() {
        let found = format!("{}: normal for this board, driver or mode", absent.join(", "));
        findings.push(Finding::not_readable("sensor.absent", found));
    }
    let failed = failed(subject);
    if !failed.is_empty() {
        findings.push(
            Finding::differs("sensor.error", failed.join(", "))
                .advising("The driver fails to read it, or says nonsense: see the kernel's log"),
        );
    }
    if masked.is_empty() && failed.is_empty() {
        findings.push(Finding::ok("sensor.masked", "none"));
    }
    findings
}

fn xids(look: &Look) -> Finding {
    let id = "events.xid";
    match look.settings.xid_events {
        Ok(true) => Finding::ok(id, "the driver tells XIDs"),
        Ok(false) => Finding::not_readable(id, "the driver offers no XID events here")
            .advising("Normal for a virtual GPU; else ask the provider. XIDs are not recorded"),
        Err(code) => Finding::not_readable(id, code_text(code)).advising("XIDs are not recorded"),
    }
}

/// Activity of SMs, tensor cores and memory, and the utilization of MIG slices.
fn profiling(subject: &Subject<'_>) -> Finding {
    let id = "permission.profiling";
    let active = subject.look.reading(Metric::SmActive);
    match (subject.look.settings.gpm, active) {
        (Ok(true), Some(Reading::Number(_))) => Finding::ok(id, "SM and tensor activity are read"),
        (Ok(false), _) => Finding::not_readable(id, "this board has no GPM (Hopper and newer do)"),
        (Err(4), _) => Finding::not_readable(id, "no permission").advising(
            "Only administrators may profile (NVreg_RestrictProfilingToAdminUsers=1): ask for 0",
        ),
        (Err(code), _) => Finding::not_readable(id, code_text(code)),
        (Ok(true), _) => Finding::not_readable(id, "GPM is offered and gives nothing"),
    }
}
