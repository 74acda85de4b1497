//! Playing a scenario in a child process.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

const CHILD: &str = "NVML_SIM_TEST_DIRECTORY";

/// Scenarios: one of the project's by name, or the text of one.
pub(crate) enum Scene {
    Named(&'static str),
    Text(&'static str),
    /// The text that it gives, after it wrote what that names into the folder.
    Made(fn(&Path) -> String),
}

/// The running child of one test.
pub(crate) struct Stage {
    directory: PathBuf,
}

/// Runs `body` with the scenario, in a process of its own. `test` is the test's full name.
pub(crate) fn play(test: &str, scene: Scene, body: fn(&Stage)) {
    play_saying(test, scene, body);
}

/// The same; gives what the process and the library in it wrote to standard error, and `None` in
/// that process itself.
pub(crate) fn play_saying(test: &str, scene: Scene, body: fn(&Stage)) -> Option<String> {
    if let Some(directory) = std::env::var_os(CHILD) {
        body(&Stage { directory: directory.into() });
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let scenario = match scene {
        Scene::Named(name) => nvidia_ml_sim::scenario_path(name),
        Scene::Text(text) => {
            let path = directory.path().join("scenario.toml");
            let epoch = directory.path().join("epoch");
            std::fs::write(&path, text.replace("EPOCH", epoch.to_str().unwrap())).unwrap();
            path
        }
        Scene::Made(make) => {
            let path = directory.path().join("scenario.toml");
            std::fs::write(&path, make(directory.path())).unwrap();
            path
        }
    };
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, directory.path())
        .env(nvidia_ml_sim::SCENARIO_VARIABLE, scenario)
        .env(nvidia_ml_sim::CONTROL_VARIABLE, directory.path().join("control.toml"))
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&child.stdout);
    let said = String::from_utf8_lossy(&child.stderr);
    // A name that matches no test would pass without running anything.
    assert!(child.status.success() && text.contains("1 passed"), "{text}{said}");
    Some(said.into_owned())
}

impl Stage {
    pub(crate) fn init(&self) -> Nvml {
        self.try_init().unwrap()
    }

    pub(crate) fn try_init(&self) -> Result<Nvml, NvmlError> {
        Nvml::builder().lib_path(library().as_os_str()).init()
    }

    /// Sets the faults that hold from now on.
    pub(crate) fn faults(&self, text: &str) {
        // A rename, so that the library never reads half of it.
        let next = self.directory.join("next.toml");
        std::fs::write(&next, text).unwrap();
        std::fs::rename(next, self.directory.join("control.toml")).unwrap();
    }
}

pub(crate) fn library() -> PathBuf {
    nvidia_ml_sim::library_path().expect("cargo builds the library with its tests")
}

/// Waits until `found` gives something.
pub(crate) fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    for _ in 0..1_000 {
        if let Some(value) = found() {
            return value;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("never happened: {what}");
}

/// Every scenario of the project.
pub(crate) fn all_scenarios() -> Vec<PathBuf> {
    let directory = nvidia_ml_sim::scenario_path("idle").parent().map(Path::to_owned).unwrap();
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|kind| kind == "toml")).collect()
}
