//! The measuring program: command line only.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use leasewatch_bench::{agent, codec, fleet, ingest, pages, peers};
use leasewatch_proto::channel::install_cryptography;

/// Measures leasewatch on this machine. Results and how they came about: docs/PERFORMANCE.md.
#[derive(Parser)]
#[command(name = "leasewatch-bench", version)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Bytes per value, and values per second of a core, of the segment format alone.
    Codec(codec::CodecOptions),
    /// A simulated fleet against a running server on loopback.
    Fleet(fleet::FleetOptions),
    /// The same against a server of its own, with the cost in processor time, bytes and memory.
    Ingest(ingest::IngestOptions),
    /// The same samples for leasewatch, VictoriaMetrics and Prometheus, in turn.
    Peers(peers::PeerOptions),
    /// Memory and processor time of the agent on simulated GPUs, beside node_exporter.
    Agent(agent::AgentOptions),
    /// Time to the last byte of the server's pages.
    Pages(pages::PageOptions),
}

fn main() -> ExitCode {
    install_cryptography();
    let result = match Program::parse().command {
        Command::Codec(options) => codec::run(options),
        Command::Fleet(options) => fleet::run(&options),
        Command::Ingest(options) => ingest::run(&options),
        Command::Peers(options) => peers::run(&options),
        Command::Agent(options) => agent::run(&options),
        Command::Pages(options) => pages::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
