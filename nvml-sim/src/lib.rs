//! A `libnvidia-ml.so.1` that plays a scenario: the agent's real NVML path without a GPU.
//!
//! The C symbols are in [`abi`]; they answer from [`state`], which advances [`physics`] along the
//! [`scenario`] that `LEASEWATCH_SIM_SCENARIO` names. Everything is a function of seed, card and
//! time, so two runs of one scenario read the same. The library carries the symbol
//! `leasewatch_nvml_sim_version`, which no real driver has: whoever loads it can tell, and must
//! mark what it reads as simulated.
//!
//! Not here: nothing is computed on a GPU, no driver is touched, and functions that the agent does
//! not call are absent (`dlsym` fails, as on an older driver).

#![deny(clippy::print_stdout)]

mod abi;
pub mod history;
mod physics;
mod replay;
mod scenario;
mod state;

use std::path::{Path, PathBuf};

/// What `leasewatch_nvml_sim_version` returns.
pub const VERSION: u32 = 1;
/// Environment variable: path of the scenario, read at `nvmlInit`.
pub const SCENARIO_VARIABLE: &str = "LEASEWATCH_SIM_SCENARIO";
/// Environment variable: path of the control file, read again while the library is in use.
pub const CONTROL_VARIABLE: &str = "LEASEWATCH_SIM_CONTROL";
/// File name of the library as cargo builds it.
pub const LIBRARY_FILE: &str = "libnvidia_ml_sim.so";

/// The library that cargo built beside the running program or test: the newest of
/// `./libnvidia_ml_sim.so`, `./deps/..` and `../..` as seen from the executable. `None` when there
/// is none.
#[must_use]
pub fn library_path() -> Option<PathBuf> {
    let executable = std::env::current_exe().ok()?;
    let directory = executable.parent()?;
    let places = [directory.to_owned(), directory.join("deps"), directory.join("..")];
    let built = places.iter().map(|place| place.join(LIBRARY_FILE));
    built.filter(|path| path.is_file()).max_by_key(|path| modified(path))
}

/// The scenarios that come with the source, for tests and the demo.
#[must_use]
pub fn scenario_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios").join(format!("{name}.toml"))
}

fn modified(path: &Path) -> Option<std::time::SystemTime> {
    path.metadata().and_then(|data| data.modified()).ok()
}
