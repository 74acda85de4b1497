//! What was checked, what it covered, what failed, and what no check can show.

use std::fmt::Write as _;

/// Why a bundle is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    /// Something in it was altered, left out or added, or contradicts the rest.
    #[error("{0}")]
    Mismatch(String),
    /// It is not a bundle, or not whole.
    #[error("{0}")]
    Malformed(String),
}

/// How it ended. The numbers are the program's exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Everything holds.
    Verified = 0,
    /// Something was altered.
    Mismatch = 1,
    /// Not a whole bundle.
    Malformed = 2,
    /// Everything holds, but the witness that was asked for did not cosign.
    Unwitnessed = 3,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it covered, or why it failed.
    pub(crate) said: Result<String, Fault>,
}

/// All of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Report {
    /// Steps in order, up to the first that failed.
    pub(crate) steps: Vec<Step>,
    /// What a reader must know: marks, gaps, what is missing.
    pub(crate) notes: Vec<String>,
    /// Witnesses that cosigned, by name.
    pub(crate) witnesses: Vec<String>,
    /// A witness was asked for and did not cosign.
    pub(crate) is_witness_missing: bool,
}

/// What no scheme here shows.
pub(crate) const NOT_PROVEN: [&str; 3] = [
    "that the readings were true: the tenant has root on the node, the provider below it",
    "what happened in time that was not measured: such time is neither good nor bad",
    "without a witness, that the server did not write its whole history anew",
];

impl Report {
    /// How it ended.
    pub(crate) fn outcome(&self) -> Outcome {
        match self.steps.last().map(|step| &step.said) {
            Some(Err(Fault::Mismatch(_))) => Outcome::Mismatch,
            Some(Err(Fault::Malformed(_))) | None => Outcome::Malformed,
            Some(Ok(_)) if self.is_witness_missing => Outcome::Unwitnessed,
            Some(Ok(_)) => Outcome::Verified,
        }
    }

    fn verdict(&self) -> &'static str {
        match self.outcome() {
            Outcome::Verified if self.witnesses.is_empty() => {
                "VERIFIED, self-attested: no witness cosigned"
            }
            Outcome::Verified => "VERIFIED",
            Outcome::Mismatch => "NOT VERIFIED: something was altered",
            Outcome::Malformed => "NOT VERIFIED: this is not a whole bundle",
            Outcome::Unwitnessed => {
                "NOT WITNESSED: valid, but the witness asked for did not cosign"
            }
        }
    }

    /// For people.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        for step in &self.steps {
            let (mark, said) = match &step.said {
                Ok(covered) => ("ok  ", covered.clone()),
                Err(fault) => ("FAIL", fault.to_string()),
            };
            let _ = writeln!(text, "{mark}  {:<10} {}", step.name, printable(&said));
        }
        let _ = writeln!(text, "\n{}", self.verdict());
        for note in &self.notes {
            let _ = writeln!(text, "note: {}", printable(note));
        }
        text.push_str("\nNot proven:\n");
        for line in NOT_PROVEN {
            let _ = writeln!(text, "- {line}");
        }
        text
    }

    /// For programs.
    pub(crate) fn to_json(&self) -> String {
        let steps = self.steps.iter().map(|step| {
            let (ok, said) = match &step.said {
                Ok(covered) => ("true", covered.clone()),
                Err(fault) => ("false", fault.to_string()),
            };
            format!("{{\"name\":{},\"ok\":{ok},\"said\":{}}}", quoted(step.name), quoted(&said))
        });
        let list =
            |texts: &[String]| texts.iter().map(|text| quoted(text)).collect::<Vec<_>>().join(",");
        let not_proven = NOT_PROVEN.map(str::to_owned);
        format!(
            "{{\"exit\":{},\"verdict\":{},\"steps\":[{}],\"witnesses\":[{}],\"notes\":[{}],\"not_proven\":[{}]}}\n",
            self.outcome() as u8,
            quoted(self.verdict()),
            steps.collect::<Vec<_>>().join(","),
            list(&self.witnesses),
            list(&self.notes),
            list(&not_proven),
        )
    }
}

/// Text of a bundle is a stranger's: nothing in it steers a terminal.
fn printable(text: &str) -> String {
    leasewatch_core::id::clean_text(text, 400)
}

fn quoted(text: &str) -> String {
    use leasewatch_core::evidence::canonical::Value;
    String::from_utf8(Value::Str(text.to_owned()).to_bytes()).unwrap_or_default()
}
