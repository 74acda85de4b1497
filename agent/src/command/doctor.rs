//! `doctor`: can the agent do its work here, and what to do where it cannot.
//!
//! It looks, and tries a write in the state directory; it joins no server, sends no reading and
//! changes nothing. It works beside a running agent.

mod disk;
mod gpus;
mod server;
mod time;

use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use serde_json::json;

use super::finding::{Finding, Findings};
use super::print;
use super::run::refuse;
use crate::config::{Config, RunArgs};
use crate::source::kmsg;
use crate::status;

/// Options of `doctor`.
#[derive(Debug, Default, Args)]
#[command(after_help = "\
Give it the options, variables and configuration file that `run` gets, and the same account.

Exit codes: 0 nothing is wrong, 1 something is wrong, 2 wrong arguments. What cannot be looked at
is named and decides no exit code.")]
pub struct DoctorArgs {
    #[command(flatten)]
    config: RunArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Looks at everything and prints one line for each check.
#[must_use]
pub fn doctor(args: DoctorArgs) -> ExitCode {
    let config = match Config::new(args.config) {
        Ok(config) => config,
        Err(error) => return refuse(&error, 2),
    };
    let mut findings = Findings::default();
    gpus::check(&config, &mut findings);
    kernel_log(Path::new("/"), &mut findings);
    time::check(&config, &mut findings);
    disk::check(&config.state_dir, &mut findings);
    server::check(&config, &mut findings);
    running(&config, &mut findings);
    let code = u8::from(findings.counts().differs > 0);
    if args.json {
        let value = json!({
            "checks": findings.json(),
            "counts": findings.counts().json(),
            "exit_code": code,
        });
        print(&format!("{value:#}\n"));
    } else {
        print(&findings.text());
    }
    ExitCode::from(code)
}

fn kernel_log(root: &Path, findings: &mut Findings) {
    let id = "kernel.log";
    findings.node(match kmsg::probe(root) {
        Ok(()) => Finding::ok(id, "can be read"),
        Err(error) => Finding::not_readable(id, error.to_string()).advising(
            "Normal in a container. XIDs still come through NVML; `check` does not see those of \
             before. On a host, sysctl kernel.dmesg_restrict=0 or CAP_SYSLOG opens it",
        ),
    });
}

fn running(config: &Config, findings: &mut Findings) {
    let id = "agent.running";
    findings.node(match status::read(&config.state_dir) {
        Ok(Some(file)) if file.is_of_a_living_process(Path::new("/")) => {
            Finding::ok(id, format!("process {}; see `leasewatch-agent status`", file.pid))
        }
        Ok(_) => Finding::not_readable(id, "no agent runs on this state directory"),
        Err(error) => Finding::not_readable(id, error.to_string())
            .advising("Run it as the account that the agent has"),
    });
}
