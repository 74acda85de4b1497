//! `check`: is this the machine that was rented? Every check that an instant can answer.
//!
//! Compared with the wanted terms, else with the catalogue, else only told. What cannot be read is
//! never good and never bad. Nothing is recorded or changed. Judgements over time (throttled for a
//! minute, idle for an hour) are the server's.

mod board;
mod health;
mod links;
mod load;
pub(super) mod node;
mod subject;
mod terms;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use leasewatch_core::segment::Origin;
use serde_json::json;

pub(super) use self::health::{failed, masked};
pub(super) use self::subject::Subject;
pub(super) use self::terms::Terms;
use super::finding::{About, Findings};
use super::print;
use super::run::refuse;
use crate::source::survey::{Look, Survey, SurveyError, survey};
use crate::source::{DEFAULT_NVML_LIBRARY, Source};

/// How long the driver gets to answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// Options of `check`.
#[derive(Debug, Args)]
#[command(after_help = "\
Wanted terms, all optional: gpus, model, memory-mib, power-limit-w, pcie-width, pcie-gen, nvlink
(links that are up), path (the farthest that two GPUs may be apart over PCIe: board, switch, switches,
host-bridge, numa-node or system), ecc, mig and persistence (on or off). For example
  leasewatch-agent check --want gpus=8,model=H100-SXM,power-limit-w=700,nvlink=18
In a file for --terms they stand as TOML, with _ for - (gpus = 8, model = \"H100-SXM\", ecc = true).
PCIe generation, P-state and clocks can be judged under load only: run it beside a job to have them.

Exit codes: 0 nothing differs, 1 something differs, 2 wrong arguments, 4 nothing could be checked.")]
pub struct CheckArgs {
    /// Terms that were agreed, as KEY=VALUE with commas between; they weigh more than the file
    #[arg(long, value_name = "TERMS")]
    want: Vec<String>,
    /// A TOML file with the same terms
    #[arg(long, value_name = "FILE")]
    terms: Option<PathBuf>,
    /// The NVML library [default: libnvidia-ml.so.1]
    #[arg(long, env = "LEASEWATCH_NVML_LIBRARY", value_name = "PATH")]
    nvml_library: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Checks the node and prints one line for each check.
#[must_use]
pub fn check(args: &CheckArgs) -> ExitCode {
    let terms = match Terms::new(args.terms.as_deref(), &args.want) {
        Ok(terms) => terms,
        Err(error) => return refuse(&error, 2),
    };
    let library = args.nvml_library.as_deref().unwrap_or(Path::new(DEFAULT_NVML_LIBRARY));
    let source = Source::open(library);
    let survey = survey(&source, PATIENCE);
    let findings = findings(survey.as_ref(), &terms, Path::new("/"));
    let code = exit_code(&findings, survey.as_ref());
    let driver = survey.as_ref().map(|survey| survey.versions.driver.as_str()).unwrap_or_default();
    if args.json {
        let value = json!({
            "origin": source.origin().name(),
            "driver_version": driver,
            "checks": findings.json(),
            "counts": findings.counts().json(),
            "exit_code": code,
        });
        print(&format!("{value:#}\n"));
    } else {
        let mark = if source.origin() == Origin::Measured { "" } else { "SIMULATED GPUs\n" };
        print(&format!("{mark}{}", findings.text()));
    }
    ExitCode::from(code)
}

/// 4 where no GPU was seen and nothing is known to be wrong.
fn exit_code(findings: &Findings, survey: Result<&Survey, &SurveyError>) -> u8 {
    if findings.counts().differs > 0 {
        return 1;
    }
    let is_seen = survey.is_ok_and(|survey| survey.gpus.iter().any(Result::is_ok));
    if is_seen { 0 } else { 4 }
}

/// Everything that is found, the node's first.
fn findings(survey: Result<&Survey, &SurveyError>, terms: &Terms, root: &Path) -> Findings {
    let mut findings = Findings::default();
    node::driver(survey, root, &mut findings);
    let Ok(survey) = survey else { return findings };
    findings.gpus = survey.gpus.len();
    node::gpu_count(survey, terms, &mut findings);
    for (index, gpu) in survey.gpus.iter().enumerate() {
        node::answers(index, gpu, &mut findings);
    }
    node::paths(survey, terms, &mut findings);
    node::kernel_xids(survey, root, &mut findings);
    let looks: Vec<&Look> = survey.gpus.iter().filter_map(|gpu| gpu.as_ref().ok()).collect();
    for look in &looks {
        let subject = Subject::new(look, &looks, terms, (survey, root));
        let about = About { place: look.gpu.bus_id.to_string(), uuid: Some(look.gpu.uuid.clone()) };
        let all = [board::check(&subject), links::check(&subject), load::check(&subject)];
        for finding in all.into_iter().flatten().chain(health::check(&subject)) {
            findings.gpu(&about, finding);
        }
    }
    findings
}

#[cfg(test)]
mod tests;
