//! Agents on scenarios, as processes of their own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use leasewatch_server::clock::Clock;
use rustix::time::{ClockId, clock_gettime};

use crate::process::RunningServer;

/// An agent that runs. Dropped, it is killed.
pub(crate) struct Agent {
    child: Child,
    launch: Launch,
}

/// How it was started, to start it again on the same state.
#[derive(Clone)]
struct Launch {
    server: String,
    folder: PathBuf,
    name: &'static str,
    cadence: Option<&'static str>,
}

impl Agent {
    /// Starts an agent named `name` in `folder` on the scenario in `folder/name.toml`.
    pub(crate) fn start(
        server: &RunningServer,
        folder: &Path,
        name: &'static str,
        cadence: Option<&'static str>,
    ) -> Self {
        let launch = Launch { server: server.url(), folder: folder.to_owned(), name, cadence };
        Self { child: launch.spawn(), launch }
    }

    /// Second of its scenario; `None` while it has not begun.
    pub(crate) fn scenario_second(&self) -> Option<i64> {
        let text = std::fs::read_to_string(self.launch.epoch_file()).ok()?;
        let began_ms: i64 = text.trim().parse().ok()?;
        Some((boot_ms() - began_ms) / 1_000)
    }

    fn ask_to_stop(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    }

    fn wait(&mut self) {
        assert!(self.child.wait().unwrap().success(), "{} ends well", self.launch.name);
    }

    /// Stops the agents as a supervisor would; they say goodbye and deliver what they have.
    pub(crate) fn stop_all(mut agents: Vec<&mut Self>) {
        agents.iter().for_each(|agent| agent.ask_to_stop());
        agents.iter_mut().for_each(|agent| agent.wait());
    }

    /// Starts a stopped agent again, on the same state directory.
    pub(super) fn start_again(&mut self) {
        self.child = self.launch.spawn();
    }
}

impl Launch {
    fn epoch_file(&self) -> PathBuf {
        epoch_file(&self.folder, self.name)
    }

    fn spawn(&self) -> Child {
        let programs = programs();
        let mut command = Command::new(programs.join("leasewatch-agent"));
        command
            .args(["run", "--tenant", "default", "--provider", "provider-a", "--name", self.name])
            .args(["--server", &self.server, "--state-dir"])
            .arg(self.folder.join(self.name))
            .arg("--nvml-library")
            .arg(programs.join("libnvidia_ml_sim.so"))
            .env("LEASEWATCH_SIM_SCENARIO", self.folder.join(format!("{}.toml", self.name)))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(cadence) = self.cadence {
            command.args(["--cadence", cadence]);
        }
        command.spawn().unwrap()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where cargo puts the programs of the workspace; `./test` builds them all first.
pub(crate) fn programs() -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_leasewatch-server")).parent().unwrap();
    for name in ["leasewatch-agent", "leasewatch-sim-history", "libnvidia_ml_sim.so"] {
        assert!(folder.join(name).exists(), "{name} is not built: run `cargo build --workspace`");
    }
    folder.to_owned()
}

fn epoch_file(folder: &Path, name: &str) -> PathBuf {
    folder.join(format!("{name}.epoch"))
}

/// When the scenario `folder/name.toml` began, in milliseconds since 1970.
pub(crate) fn epoch_wall_ms(folder: &Path, name: &str) -> i64 {
    let text = std::fs::read_to_string(epoch_file(folder, name)).unwrap();
    let began_ms: i64 = text.trim().parse().unwrap();
    Clock::system().now().0 - boot_ms() + began_ms
}

fn boot_ms() -> i64 {
    let now = clock_gettime(ClockId::Boottime);
    now.tv_sec * 1_000 + now.tv_nsec / 1_000_000
}

/// The text of a scenario that comes with the simulator.
pub(crate) fn scenario(name: &str) -> String {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../nvml-sim/scenarios/{name}.toml"));
    std::fs::read_to_string(path).unwrap()
}

/// Writes `folder/name.toml`: the scenario `text` with a beginning that outlives the agent. With
/// `begins_s` its faults begin at that second.
pub(super) fn write_scenario(folder: &Path, name: &str, text: &str, begins_s: Option<u32>) {
    let mut lines = vec![format!("epoch_file = {:?}", epoch_file(folder, name))];
    let is_begin = |line: &&str| line.starts_with("at_s = ");
    match begins_s {
        None => lines.extend(text.lines().map(str::to_owned)),
        Some(second) => {
            for line in text.lines().filter(|line| !is_begin(line)) {
                lines.push(line.to_owned());
                if line == "[[faults]]" {
                    lines.push(format!("at_s = {second}"));
                }
            }
        }
    }
    std::fs::write(folder.join(format!("{name}.toml")), lines.join("\n")).unwrap();
}
