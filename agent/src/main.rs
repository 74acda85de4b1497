//! The agent's program: takes the command line apart and does what it says.

use std::process::ExitCode;

use clap::Parser;
use leasewatch_agent::command;
use leasewatch_agent::config::{Cli, Command};

fn main() -> ExitCode {
    leasewatch_proto::channel::install_cryptography();
    match Cli::parse().command {
        Command::Run(args) => command::run(*args),
        Command::Check(args) => command::check(&args),
        Command::Doctor(args) => command::doctor(*args),
        Command::Status(args) => command::status(&args),
        Command::Exec(args) => command::exec(*args),
        Command::Record(args) => command::record(*args),
        Command::Report(args) => command::report(&args),
    }
}
