//! The control file: faults that a test switches on and off while the library runs.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::lock;
use crate::physics::card::ControlFaults;
use crate::scenario::control_faults;

/// The file is read again at most this often. Its bytes are compared, not its time stamp: two
/// writes within one step of the file system's clock would look like one.
const REREAD_AFTER: Duration = Duration::from_millis(50);

pub(super) struct Control {
    path: Option<PathBuf>,
    cards: usize,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    text: String,
    read_at: Option<Instant>,
    faults: Arc<ControlFaults>,
}

impl Control {
    /// The file that the environment names, or one that is always empty.
    pub(super) fn from_environment(cards: usize) -> Self {
        let path = std::env::var_os(crate::CONTROL_VARIABLE).map(PathBuf::from);
        Self { path, cards, seen: Mutex::default() }
    }

    /// The faults that the file holds. A missing file is an empty one; one that is not understood
    /// is reported and changes nothing.
    pub(super) fn refresh(&self) -> Arc<ControlFaults> {
        let mut seen = lock(&self.seen);
        let Some(path) = &self.path else { return Arc::clone(&seen.faults) };
        if seen.read_at.is_some_and(|at| at.elapsed() < REREAD_AFTER) {
            return Arc::clone(&seen.faults);
        }
        seen.read_at = Some(Instant::now());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if text != seen.text {
            match control_faults(path, &text, self.cards) {
                Ok(faults) => {
                    let generation = seen.faults.generation + 1;
                    seen.faults = Arc::new(ControlFaults { generation, faults });
                }
                Err(error) => eprintln!("nvml-sim: {error}"),
            }
            seen.text = text;
        }
        Arc::clone(&seen.faults)
    }
}
