//! The result of one check, and how results are shown: for people, and as JSON.
//!
//! A result is ok, differs, or not readable. What cannot be read is never good and never bad, so
//! it decides no exit code as long as something else could be read.

use std::fmt::Write;

use leasewatch_core::id::{GpuUuid, clean_text};
use serde_json::{Value, json};

/// Characters of a line's part that comes from a driver or a file.
const TEXT_MAX: usize = 200;

/// What a check came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// As expected.
    Ok,
    /// Not as expected.
    Differs,
    /// Nothing can be said.
    NotReadable,
}

impl Outcome {
    fn words(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Differs => "differs",
            Self::NotReadable => "not readable",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Differs => "differs",
            Self::NotReadable => "not_readable",
        }
    }
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// The check's name, which never changes.
    pub(super) id: &'static str,
    pub(super) outcome: Outcome,
    /// What is there.
    pub(super) found: String,
    /// What should be there; empty where nothing in particular is expected.
    pub(super) expected: String,
    /// What to do; empty where nothing is to be done.
    pub(super) advice: String,
}

impl Finding {
    pub(super) fn ok(id: &'static str, found: impl Into<String>) -> Self {
        Self::new(id, Outcome::Ok, found)
    }

    pub(super) fn differs(id: &'static str, found: impl Into<String>) -> Self {
        Self::new(id, Outcome::Differs, found)
    }

    pub(super) fn not_readable(id: &'static str, found: impl Into<String>) -> Self {
        Self::new(id, Outcome::NotReadable, found)
    }

    /// Ok or not, with the same words either way.
    pub(super) fn judged(id: &'static str, is_ok: bool, found: impl Into<String>) -> Self {
        Self::new(id, if is_ok { Outcome::Ok } else { Outcome::Differs }, found)
    }

    fn new(id: &'static str, outcome: Outcome, found: impl Into<String>) -> Self {
        let found = clean_text(&found.into(), TEXT_MAX);
        Self { id, outcome, found, expected: String::new(), advice: String::new() }
    }

    pub(super) fn expecting(mut self, expected: impl Into<String>) -> Self {
        self.expected = clean_text(&expected.into(), TEXT_MAX);
        self
    }

    /// What to do, which is kept only where something is to be done.
    pub(super) fn advising(mut self, advice: impl Into<String>) -> Self {
        if self.outcome != Outcome::Ok {
            self.advice = advice.into();
        }
        self
    }
}

/// A GPU that a finding is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct About {
    /// Its place, or NVML's index where it does not tell.
    pub(super) place: String,
    pub(super) uuid: Option<GpuUuid>,
}

/// Findings in the order in which they were made. Equal ones of several GPUs stand together.
#[derive(Debug, Default)]
pub(super) struct Findings {
    lines: Vec<(Finding, Vec<About>)>,
    /// GPUs that were looked at.
    pub(super) gpus: usize,
}

/// How many findings there are of each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) ok: usize,
    pub(super) differs: usize,
    pub(super) not_readable: usize,
}

impl Findings {
    /// One about the node.
    pub(super) fn node(&mut self, finding: Finding) {
        self.lines.push((finding, Vec::new()));
    }

    /// One about a GPU. All lines of a check stand together.
    pub(super) fn gpu(&mut self, about: &About, finding: Finding) {
        if let Some((_, gpus)) =
            self.lines.iter_mut().find(|(other, gpus)| *other == finding && !gpus.is_empty())
        {
            return gpus.push(about.clone());
        }
        let last = self.lines.iter().rposition(|(other, _)| other.id == finding.id);
        let at = last.map_or(self.lines.len(), |last| last + 1);
        self.lines.insert(at, (finding, vec![about.clone()]));
    }

    pub(super) fn counts(&self) -> Counts {
        let of = |outcome| self.lines.iter().filter(|(line, _)| line.outcome == outcome).count();
        Counts {
            ok: of(Outcome::Ok),
            differs: of(Outcome::Differs),
            not_readable: of(Outcome::NotReadable),
        }
    }

    /// One line for each finding, and one that counts them.
    pub(super) fn text(&self) -> String {
        let mut out = String::new();
        for (line, gpus) in &self.lines {
            let _ = write!(out, "{:<13} {:<20} ", line.outcome.words(), line.id);
            if !gpus.is_empty() {
                let _ = write!(out, "{}: ", self.whose(gpus));
            }
            out.push_str(&line.found);
            if line.outcome != Outcome::Ok && !line.expected.is_empty() {
                let _ = write!(out, "; expected {}", line.expected);
            }
            if !line.advice.is_empty() {
                let _ = write!(out, ". {}", line.advice);
            }
            out.push('\n');
        }
        let Counts { ok, differs, not_readable } = self.counts();
        let _ = writeln!(out, "{ok} ok, {differs} differ, {not_readable} not readable");
        out
    }

    fn whose(&self, gpus: &[About]) -> String {
        match gpus {
            all if all.len() == self.gpus && self.gpus > 1 => format!("all {} GPUs", all.len()),
            some => {
                let places: Vec<_> = some.iter().map(|gpu| gpu.place.as_str()).collect();
                format!("GPU {}", places.join(", "))
            }
        }
    }

    /// The same as a list of objects.
    pub(super) fn json(&self) -> Value {
        let line = |(line, gpus): &(Finding, Vec<About>)| {
            let gpus: Vec<Value> = gpus
                .iter()
                .map(|gpu| json!({"place": gpu.place, "uuid": gpu.uuid.as_ref().map(GpuUuid::as_str)}))
                .collect();
            json!({
                "id": line.id,
                "outcome": line.outcome.name(),
                "found": line.found,
                "expected": line.expected,
                "advice": line.advice,
                "gpus": gpus,
            })
        };
        self.lines.iter().map(line).collect()
    }
}

impl Counts {
    pub(super) fn json(self) -> Value {
        json!({"ok": self.ok, "differs": self.differs, "not_readable": self.not_readable})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(place: &str) -> About {
        About { place: place.to_owned(), uuid: None }
    }

    #[test]
    fn equal_findings_of_several_gpus_are_one_line_and_a_check_stands_together() {
        let mut findings = Findings { gpus: 3, ..Findings::default() };
        for place in ["18", "2a", "3b"] {
            findings.gpu(&about(place), Finding::ok("a", "fine"));
            let limit = Finding::judged("b", place != "2a", format!("{} W", place.len()));
            findings.gpu(&about(place), limit.advising("Ask"));
        }
        let text = findings.text();
        let expected = "\
ok            a                    all 3 GPUs: fine
ok            b                    GPU 18, 3b: 2 W
differs       b                    GPU 2a: 2 W. Ask
2 ok, 1 differ, 0 not readable
";
        assert_eq!(text, expected);
        assert_eq!(findings.json()[2]["gpus"][0]["place"], "2a");
    }

    #[test]
    fn text_of_a_driver_is_made_inert() {
        let finding = Finding::ok("a", "x\u{1b}[2Jy").expecting("\u{202e}z");
        assert!(!finding.found.contains('\u{1b}') && !finding.expected.contains('\u{202e}'));
    }
}
