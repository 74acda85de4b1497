//! What the agent can be told to do: one file for each command.
//!
//! Each takes its arguments and gives an exit code, which its `--help` explains. What a command
//! prints goes to the standard output, why it refuses to the standard error.

mod check;
mod doctor;
mod exec;
mod finding;
mod machine;
mod once;
mod record;
mod report;
mod run;
mod status;

use std::io::Write;

pub use check::{CheckArgs, check};
pub use doctor::{DoctorArgs, doctor};
pub use exec::{ExecArgs, exec};
pub use record::{RecordArgs, record};
pub use report::{ReportArgs, report};
pub use run::{RunCommand, run};
pub use status::{StatusArgs, status};

/// Prints the result of a command. A reader that went away is no failure of the command.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
