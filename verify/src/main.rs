//! leasewatch-verify: checks evidence offline, without a server, a database or a network.
//!
//! It reads a bundle as a stream, says of each step what it covered, and last what is not proven.
//! It never unpacks anything, writes nothing and asks nobody.

#![forbid(unsafe_code)]

mod archive;
mod check;
#[cfg(test)]
mod corpus;
#[cfg(test)]
mod fixture;
mod report;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use leasewatch_core::evidence::log::note::parse_key_line;

use check::Trust;

/// Checks evidence of leasewatch offline.
#[derive(Debug, Parser)]
#[command(name = "leasewatch-verify", version, about, long_about = None, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXIT_CODES: &str = "Exit codes: 0 verified; 1 altered or contradictory (the first bad hour or \
    file is named); 2 no bundle, or not whole; 3 valid, but a witness that was asked for did not \
    cosign; 64 wrong usage.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Check a bundle.
    #[command(after_help = EXIT_CODES)]
    Check {
        /// The .zip.
        bundle: PathBuf,
        /// A file of keys of servers that you trust, one a line: `name+id+key` as checkpoints have
        /// them. Without it the key in the bundle is taken, and printed for you to compare.
        #[arg(long, value_name = "FILE")]
        trust: Option<PathBuf>,
        /// A file of keys of witnesses that must have cosigned, one a line.
        #[arg(long, value_name = "FILE")]
        witness: Option<PathBuf>,
        /// Print one JSON object.
        #[arg(long)]
        json: bool,
    },
}

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 64 } else { 0 });
        }
    };
    match run(&arguments.command) {
        Ok(code) => ExitCode::from(code),
        Err(what) => {
            eprintln!("leasewatch-verify: {what}");
            ExitCode::from(64)
        }
    }
}

fn run(command: &Command) -> Result<u8, String> {
    let Command::Check { bundle, trust, witness, json } = command;
    let mut known = Trust::default();
    for (_, key, is_witness) in keys(trust.as_deref())? {
        if is_witness {
            return Err("--trust has the key of a witness; name it with --witness".to_owned());
        }
        known.servers.push(key);
    }
    for (name, key, is_witness) in keys(witness.as_deref())? {
        if !is_witness {
            return Err("--witness has the key of a server; name it with --trust".to_owned());
        }
        known.witnesses.push((name, key));
    }
    let report = check::check(bundle, &known);
    print(&if *json { report.to_json() } else { report.to_text() });
    Ok(report.outcome() as u8)
}

type KeyLine = (String, ed25519_dalek::VerifyingKey, bool);

fn keys(path: Option<&Path>) -> Result<Vec<KeyLine>, String> {
    let Some(path) = path else { return Ok(Vec::new()) };
    let cannot = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| cannot(&error))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let keys: Vec<KeyLine> = lines
        .map(|(at, line)| {
            let found = parse_key_line(line.trim());
            found.ok_or_else(|| {
                cannot(&format!("line {} is no key of the form name+id+key", at + 1))
            })
        })
        .collect::<Result<_, _>>()?;
    if keys.is_empty() { Err(cannot(&"there is no key in it")) } else { Ok(keys) }
}

/// A reader that has gone away is no error of ours.
fn print(text: &str) {
    use std::io::Write as _;
    let _ = std::io::stdout().write_all(text.as_bytes());
}
