//! Checks of the node as a whole: driver, number of GPUs, whether each answers, the kernel's log.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use leasewatch_core::segment::{Origin, PathLevel};

use super::terms::Terms;
use crate::command::finding::{About, Finding, Findings};
use crate::command::once::unseen_text;
use crate::source::kmsg::{self, PciPlace};
use crate::source::nvml::{Failure, code_text};
use crate::source::survey::{Look, Survey, SurveyError, Unseen};

/// XIDs that no program of the tenant's can cause. The others can be a program's or the hardware's,
/// which one look does not tell.
const OF_HARDWARE: [u32; 25] = [
    46, 48, 54, 57, 58, 62, 64, 74, 79, 94, 95, 119, 120, 136, 140, 143, 157, 158, 161, 167, 168,
    169, 171, 172, 173,
];
/// NVML's code for library and driver of different versions.
const MISMATCH: u32 = 18;
/// NVML's code for a device that a cgroup or a missing device node keeps away.
const BLOCKED: u32 = 17;

/// Library and driver.
pub(crate) fn driver(survey: Result<&Survey, &SurveyError>, root: &Path, findings: &mut Findings) {
    let id = "driver.library";
    let survey = match survey {
        Ok(survey) => survey,
        Err(SurveyError::Open(error)) if error.code() == MISMATCH => {
            let advice = "The driver was updated without a restart: reboot, or load it anew";
            return findings.node(Finding::differs(id, code_text(MISMATCH)).advising(advice));
        }
        Err(SurveyError::Open(error)) => {
            let found = format!("{} (NVML code {})", code_text(error.code()), error.code());
            let advice = "Run `leasewatch-agent doctor`";
            return findings.node(Finding::not_readable(id, found).advising(advice));
        }
        Err(error) => {
            return findings.node(Finding::not_readable(id, error.to_string()));
        }
    };
    let versions = &survey.versions;
    let found = format!("driver {}, NVML {}", versions.driver, versions.nvml);
    findings.node(Finding::ok(id, found));
    findings.node(kernel_module(survey, root));
}

/// The loaded kernel module is of the library's version.
pub(crate) fn kernel_module(survey: &Survey, root: &Path) -> Finding {
    let id = "driver.match";
    match module_version(root).filter(|_| survey.origin == Origin::Measured) {
        Some(module) => {
            let same = module == survey.versions.driver;
            Finding::judged(id, same, format!("kernel module {module}"))
                .expecting(survey.versions.driver.clone())
                .advising("The driver was updated without a restart: reboot, or load it anew")
        }
        None => Finding::not_readable(id, "the kernel module does not tell its version"),
    }
}

/// The version in `NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  ..`.
fn module_version(root: &Path) -> Option<String> {
    let text = fs::read_to_string(root.join("proc/driver/nvidia/version")).ok()?;
    let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
    let is_version =
        |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    line.split_whitespace().find(is_version).map(str::to_owned)
}

/// How many GPUs NVML lists.
pub(crate) fn gpu_count(survey: &Survey, terms: &Terms, findings: &mut Findings) {
    let id = "gpu.count";
    let count = i64::try_from(survey.gpus.len()).unwrap_or(i64::MAX);
    let found = if count == 1 { "1 GPU".to_owned() } else { format!("{count} GPUs") };
    findings.node(match terms.gpus {
        Some(wanted) => Finding::judged(id, count == wanted, found)
            .expecting(wanted.to_string())
            .advising("Ask the provider where the missing ones are; see kernel.xid"),
        None if count == 0 => Finding::not_readable(id, "NVML works and lists no GPU")
            .advising("A container needs the NVIDIA runtime and the device nodes"),
        None => Finding::ok(id, found),
    });
}

/// Whether one GPU answers. One that is lost or does not open is wrong whatever was agreed.
pub(crate) fn answers(index: usize, gpu: &Result<Look, Unseen>, findings: &mut Findings) {
    let id = "gpu.answers";
    let unseen = match gpu {
        Ok(look) => {
            let place = look.gpu.bus_id.to_string();
            let about = About { place, uuid: Some(look.gpu.uuid.clone()) };
            return findings.gpu(&about, Finding::ok(id, "answers"));
        }
        Err(unseen) => *unseen,
    };
    let about = About { place: format!("of index {index}"), uuid: None };
    let found = unseen_text(unseen);
    let finding = match unseen {
        Unseen::Hung => Finding::not_readable(id, found).advising("Look again; see kernel.xid"),
        Unseen::Refused(Failure::Unsupported | Failure::Failed(BLOCKED)) => {
            Finding::not_readable(id, found)
                .advising("This container or account may not open it: check its device nodes")
        }
        Unseen::Refused(_) | Unseen::Gone(_) => Finding::differs(id, found)
            .advising("The GPU fell off or needs a reset: report it to the provider"),
    };
    findings.gpu(&about, finding);
}

/// What the two GPUs that are farthest apart over PCIe have in common. One alone has no such way.
pub(crate) fn paths(survey: &Survey, terms: &Terms, findings: &mut Findings) {
    let id = "topology.path";
    let seen = survey.gpus.iter().flatten().count();
    if seen < 2 {
        return;
    }
    let ways: Vec<_> = survey.wiring.iter().flat_map(|wiring| &wiring.paths).collect();
    let name = |level: PathLevel| level.name().replace('_', "-");
    let farthest = ways.iter().filter_map(|way| way.level.ok()).max();
    let unread = ways.iter().find_map(|way| way.level.err());
    let wanted = terms.farthest();
    let is_too_far = farthest.is_some_and(|level| wanted.is_some_and(|wanted| level > wanted));
    let expected = wanted.map(|wanted| format!("{} or nearer", name(wanted))).unwrap_or_default();
    let finding = match (farthest, unread) {
        (Some(level), _) if is_too_far => Finding::differs(id, name(level)),
        (_, Some(reason)) => Finding::not_readable(id, reason.name()),
        _ if survey.wiring.len() < seen => Finding::not_readable(id, "a GPU does not tell"),
        (Some(level), None) => Finding::ok(id, name(level)),
        (None, None) => Finding::not_readable(id, "the driver does not tell"),
    };
    let advice = "Traffic between these GPUs takes a longer way than agreed: ask the provider";
    findings.node(finding.expecting(expected).advising(advice));
}

/// XIDs since the boot, of the GPUs that are here and of places that no GPU answers from.
pub(crate) fn kernel_xids(survey: &Survey, root: &Path, findings: &mut Findings) {
    let id = "kernel.xid";
    let xids = match kmsg::xids(root) {
        Ok(xids) => xids,
        Err(error) => {
            let found = format!("the kernel's log: {error}");
            return findings.node(Finding::not_readable(id, found));
        }
    };
    let mut counts = BTreeMap::new();
    for xid in &xids {
        *counts.entry(*xid).or_insert(0_u32) += 1;
    }
    if counts.is_empty() {
        return findings.node(Finding::ok(id, "none in the kernel's log"));
    }
    let places: Vec<Option<PciPlace>> = survey
        .gpus
        .iter()
        .map(|gpu| gpu.as_ref().ok().and_then(|look| PciPlace::of(&look.gpu.bus_id)))
        .collect();
    for (xid, count) in counts {
        let gone =
            if places.contains(&Some(xid.place)) { "" } else { ", a place without a GPU now" };
        let found = format!("XID {} at {}{gone}, {count} times", xid.code, xid.place);
        let finding = Finding::judged(id, !OF_HARDWARE.contains(&xid.code), found);
        findings.node(finding.advising("A fault of hardware or driver: show it to the provider"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_module_s_version_is_found_in_its_line() {
        let temp = tempfile::tempdir().unwrap();
        let directory = temp.path().join("proc/driver/nvidia");
        fs::create_dir_all(&directory).unwrap();
        let text = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 \
                    UTC 2023\nGCC version:  gcc version 12.2.0\n";
        fs::write(directory.join("version"), text).unwrap();
        assert_eq!(module_version(temp.path()).as_deref(), Some("535.129.03"));
        let open =
            "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.95.05  Release Build";
        fs::write(directory.join("version"), open).unwrap();
        assert_eq!(module_version(temp.path()).as_deref(), Some("580.95.05"));
        assert_eq!(module_version(Path::new("/nowhere")), None);
    }
}
