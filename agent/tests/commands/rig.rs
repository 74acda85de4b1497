//! The program with a scenario, and a state directory of a node that a server welcomed once.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use leasewatch_agent::identity::{Enrolled, State, StateDir, load_or_create_key};
use leasewatch_core::evidence::chain::ChainStartReason;
use leasewatch_core::id::{ChainId, KeyId, Slug};
use serde_json::Value;

/// What a test waits for at most.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a command ended and what it printed.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ended {
    pub(crate) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), out: text(&output.stdout), err: text(&output.stderr) }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {}{}", self.out, self.err))
    }

    /// Ids of the checks with this outcome, in their order, each once.
    pub(crate) fn ids(&self, outcome: &str) -> Vec<String> {
        let json = self.json();
        let checks = json["checks"].as_array().unwrap().clone();
        let mut ids: Vec<String> = checks
            .iter()
            .filter(|check| check["outcome"] == outcome)
            .map(|check| check["id"].as_str().unwrap().to_owned())
            .collect();
        ids.dedup();
        ids
    }
}

/// A folder with a scenario, and a state directory beside it.
pub(crate) struct Rig {
    temp: tempfile::TempDir,
}

impl Rig {
    pub(crate) fn new(scenario: &str) -> Self {
        let temp = tempfile::tempdir().unwrap();
        std::fs::write(temp.path().join("plan.toml"), scenario).unwrap();
        Self { temp }
    }

    /// Two cards of a model at a constant load, with faults.
    pub(crate) fn of_cards(model: &str, percent: u32, faults: &str) -> Self {
        Self::new(&format!(
            "driver_version = \"590.48.01\"\nstarted_s_ago = 60\n[[cards]]\nmodel = \"{model}\"\n\
             count = 2\nload = {{ shape = \"constant\", percent = {percent} }}\n{faults}\n"
        ))
    }

    pub(crate) fn state_dir(&self) -> PathBuf {
        self.temp.path().join("state")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    /// Makes the state directory of a node that was welcomed, so that it records without a server.
    pub(crate) fn enrolled(self) -> Self {
        let dir = StateDir::open(&self.state_dir()).unwrap();
        let mut state = State::new(ChainId([3; 16]), ChainStartReason::Joined);
        let key = load_or_create_key(&dir).unwrap().verifying_key().to_bytes();
        let node = KeyId::of_public_key(&key).first_node_id();
        let tenant = Slug::new("default").unwrap();
        state.enrolled = Some(Enrolled { node, tenant, cadence_ms: 1_000 });
        state.save(dir.path()).unwrap();
        self
    }

    /// The program with these words; no variable of whoever runs the tests reaches it.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        self.command_of(Path::new(env!("CARGO_BIN_EXE_leasewatch-agent")), words)
    }

    /// The same with another program.
    pub(crate) fn command_of(&self, program: &Path, words: &[&str]) -> Command {
        let mut command = Command::new(program);
        let library = nvidia_ml_sim::library_path().expect("cargo builds it beside this test");
        command
            .args(words)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("LEASEWATCH_NVML_LIBRARY", library)
            .env(nvidia_ml_sim::SCENARIO_VARIABLE, self.temp.path().join("plan.toml"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, words: &[&str]) -> Ended {
        Ended::of(&self.command(words).output().unwrap())
    }

    /// The program with options of `run`: this rig's state directory, and a server that is none.
    pub(crate) fn options(&self) -> Vec<String> {
        let state_dir = self.state_dir().display().to_string();
        ["--state-dir", &state_dir, "--server", "http://127.0.0.1:9", "--cadence", "200ms"]
            .map(str::to_owned)
            .to_vec()
    }
}

/// The program that was built to break promises; `scripts/sabotage` puts it beside the others.
pub(crate) fn sabotaged() -> PathBuf {
    let folder = Path::new(env!("CARGO_BIN_EXE_leasewatch-agent")).parent().unwrap();
    let program = folder.join("sabotage/leasewatch-agent");
    assert!(program.exists(), "{} is not built: run scripts/sabotage", program.display());
    program
}

/// The program that nodes install; `scripts/agent-dir` puts it beside the folders of the others.
pub(crate) fn installed() -> PathBuf {
    let programs = Path::new(env!("CARGO_BIN_EXE_leasewatch-agent")).parent().unwrap();
    let folder = programs.parent().unwrap().join("agents");
    let name = concat!("leasewatch-agent-", env!("CARGO_PKG_VERSION"), "-x86_64");
    let program = folder.join(name);
    let is_there = program.exists();
    assert!(is_there, "{} is not built: run scripts/agent-dir {}", name, folder.display());
    program
}

/// Looks again until there is something.
pub(crate) fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "no {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// Borrowed words, for [`Rig::run`].
pub(crate) fn words<'a>(first: &'a [&'a str], more: &'a [String]) -> Vec<&'a str> {
    first.iter().copied().chain(more.iter().map(String::as_str)).collect()
}

pub(crate) fn exists(path: &Path) -> Option<()> {
    path.exists().then_some(())
}
