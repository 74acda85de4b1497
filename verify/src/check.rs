//! The checks, as a list. Each says what it covered; the first that fails ends the run, because
//! what comes after it would stand on nothing.

mod heads;
mod hours;
mod identity;
mod log;
mod manifest;
mod minutes;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use ed25519_dalek::VerifyingKey;
use leasewatch_core::evidence::bundle::Manifest;
use leasewatch_core::id::{Hash, NodeId};
use leasewatch_core::time::Timestamp;

use crate::archive::Archive;
use crate::report::{Fault, Report, Step};

/// What the person who checks knows beforehand.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    /// Identity keys that are taken; any, if none is given.
    pub(crate) servers: Vec<VerifyingKey>,
    /// Witnesses that must have cosigned, by name and key.
    pub(crate) witnesses: Vec<(String, VerifyingKey)>,
}

/// A bundle while it is checked.
struct Evidence<'a> {
    archive: Archive,
    trust: &'a Trust,
    report: &'a mut Report,
    /// After the step `manifest`.
    manifest: Option<Manifest>,
    /// Keys of nodes, after the step `identity`.
    keys: BTreeMap<NodeId, identity::NodeKeys>,
    /// Leaves of minutes that are in the log, each with its minute, after the step `minutes`.
    committed: HashMap<Hash, Timestamp>,
}

type Check = fn(&mut Evidence<'_>) -> Result<String, Fault>;

/// Every step after the archive, in order. A test leaves each one out and sees a bundle pass that
/// should not.
const STEPS: [(&str, Check); 6] = [
    ("manifest", manifest::check),
    ("log", log::check),
    ("identity", identity::check),
    ("minutes", minutes::check),
    ("heads", heads::check),
    ("hours", hours::check),
];

/// Checks a bundle.
pub(crate) fn check(path: &Path, trust: &Trust) -> Report {
    check_without(path, trust, None)
}

fn check_without(path: &Path, trust: &Trust, left_out: Option<&str>) -> Report {
    let mut report = Report::default();
    let archive = match Archive::open(path) {
        Ok(archive) => archive,
        Err(fault) => {
            report.steps.push(Step { name: "archive", said: Err(fault) });
            return report;
        }
    };
    let said = format!("{} files, each once, nothing between them", archive.names().len());
    report.steps.push(Step { name: "archive", said: Ok(said) });
    let mut steps = Vec::new();
    let mut evidence = Evidence {
        archive,
        trust,
        report: &mut report,
        manifest: None,
        keys: BTreeMap::new(),
        committed: HashMap::new(),
    };
    for (name, check) in STEPS {
        let said = check(&mut evidence);
        // Left out: what it found out is kept for the others, what it objects to is not heard.
        let said = if left_out == Some(name) { Ok(said.unwrap_or_default()) } else { said };
        let failed = said.is_err();
        steps.push(Step { name, said });
        if failed {
            break;
        }
    }
    report.steps.extend(steps);
    report
}

impl Evidence<'_> {
    fn manifest(&self) -> Result<&Manifest, Fault> {
        self.manifest.as_ref().ok_or_else(|| Fault::Malformed("there is no manifest".to_owned()))
    }
}

fn at_line(name: &str, line: u64, what: impl std::fmt::Display) -> Fault {
    Fault::Mismatch(format!("{name}, line {line}: {what}"))
}

#[cfg(test)]
mod agreement;
#[cfg(test)]
mod tests;
