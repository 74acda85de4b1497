//! `agent`: memory and processor time of the real agent, on simulated GPUs of the real NVML path.
//!
//! The simulated library runs inside the agent's threads, and a real driver's time is not ours
//! either, so the threads that call NVML (`gpu-..`) are shown apart from all others. What those do
//! beside the calls is little and counts as NVML here; the number without them is what the agent
//! itself costs: deciding, recording, sealing, signing, delivering.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use crate::http::Client;
use crate::measure::{Runs, length, real};
use crate::peers;
use crate::process;
use crate::programs::{ProgramOptions, Running, Server};

/// Names of the agent's threads that call NVML begin so.
const NVML_THREADS: &str = "gpu-";
/// Time for the first minute's events and the inventory.
const WARM_UP: Duration = Duration::from_secs(65);
const SCRAPES: u32 = 60;

/// Eight busy H100 of one training job.
const SCENARIO: &str = "driver_version = \"590.48.01\"\nseed = 11\nstarted_s_ago = 7200\n
[[cards]]\nmodel = \"H100-SXM5-80GB\"\ncount = 8\nload = { shape = \"training\" }\n";

/// What to measure.
#[derive(Debug, Clone, clap::Args)]
pub struct AgentOptions {
    /// Seconds of each measurement, after a minute to warm up.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(10..=3_600))]
    seconds: u64,
    /// Measurements, one after the other.
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Where prometheus-node-exporter is, or its package was unpacked; without it there is no
    /// comparison.
    #[arg(long, value_name = "DIR", default_value = "/usr/bin")]
    peers: PathBuf,
    #[command(flatten)]
    programs: ProgramOptions,
}

/// Measures and prints.
///
/// # Errors
/// When a program does not start or ends early.
pub fn run(options: &AgentOptions) -> anyhow::Result<()> {
    let server = Server::start(&options.programs)?;
    let agent = start_agent(options, &server)?;
    sleep(WARM_UP);
    let mut whole = Runs::new();
    let mut without_nvml = Runs::new();
    let mut memory = Runs::new();
    for _ in 0..options.repeat.max(1) {
        let before = cpu_ms(agent.pid())?;
        sleep(Duration::from_secs(options.seconds));
        let after = cpu_ms(agent.pid())?;
        let ticks = real(options.seconds);
        whole.add((after.0 - before.0) / ticks);
        without_nvml.add((after.1 - before.1) / ticks);
        memory.add(process::usage(agent.pid())?.memory_mib);
    }
    println!("agent, 8 simulated GPUs, 1 Hz, delivering over loopback");
    println!(
        "  resident memory              {memory} MiB, peak {:.1}",
        process::peak_mib(agent.pid())?
    );
    println!("  a tick, simulated NVML incl. {whole} ms of a core");
    println!("  a tick without NVML threads  {without_nvml} ms of a core");
    let share: Runs = without_nvml.median().map(|ms| ms / 10.0).into_iter().collect();
    println!("  that is                      {share} % of a core");
    match peers::find(&options.peers, "prometheus-node-exporter") {
        Ok(program) => node_exporter(&program),
        Err(error) => {
            println!("node_exporter is not compared: {error}");
            Ok(())
        }
    }
}

fn start_agent(options: &AgentOptions, server: &Server) -> anyhow::Result<Running> {
    let folder = server.folder().join("bench-agent");
    std::fs::create_dir_all(&folder)?;
    let scenario = folder.join("scenario.toml");
    std::fs::write(&scenario, SCENARIO)?;
    let mut command = Command::new(options.programs.path("leasewatch-agent")?);
    command
        .args(["run", "--server", &server.url, "--tenant", "demo", "--provider", "provider-a"])
        .args(["--name", "bench-agent", "--state-dir"])
        .arg(folder.join("state"))
        .arg("--nvml-library")
        .arg(options.programs.path("libnvidia_ml_sim.so")?)
        .env("LEASEWATCH_SIM_SCENARIO", &scenario);
    Running::start(&mut command)
}

/// Milliseconds on a processor of all threads, and of those that do not call NVML.
fn cpu_ms(pid: u32) -> anyhow::Result<(f64, f64)> {
    let threads = process::threads_ns(pid)?;
    let sum = |of: &dyn Fn(&str) -> bool| {
        let chosen = threads.iter().filter(|(name, _)| of(name));
        real(chosen.map(|(_, ns)| ns).sum::<u64>()) / 1e6
    };
    anyhow::ensure!(
        threads.iter().any(|(name, _)| name.starts_with(NVML_THREADS)),
        "the agent has no thread that reads NVML"
    );
    Ok((sum(&|_| true), sum(&|name| !name.starts_with(NVML_THREADS))))
}

/// The same machine's node_exporter, asked once a second as a tick is.
fn node_exporter(program: &Path) -> anyhow::Result<()> {
    let address = crate::http::free_address()?;
    let mut command = Command::new(program);
    command.arg(format!("--web.listen-address={address}"));
    let exporter = Running::start(&mut command)?;
    let mut client = Client::connect_when_ready(address, "/metrics")?;
    let cpu = || -> anyhow::Result<f64> {
        let threads = process::threads_ns(exporter.pid())?;
        Ok(real(threads.iter().map(|(_, ns)| ns).sum::<u64>()) / 1e6)
    };
    let mut bytes = Runs::new();
    let before = cpu()?;
    for _ in 0..SCRAPES {
        bytes.add(length(client.get("/metrics")?.body.len()));
        sleep(Duration::from_millis(250));
    }
    let scrape = (cpu()? - before) / f64::from(SCRAPES);
    println!("node_exporter, {SCRAPES} scrapes");
    println!("  resident memory {:.1} MiB", process::usage(exporter.pid())?.memory_mib);
    println!("  a scrape        {scrape:.2} ms of a core, {bytes} bytes");
    Ok(())
}
