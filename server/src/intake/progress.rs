//! How far an import is, for whoever looks.

use std::sync::{Arc, Mutex, PoisonError};

/// What an import does now. Each holds how much is done and how much there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Reads the log; bytes.
    Reading(u64, u64),
    /// Makes segments of it; rows.
    Sealing(u64, u64),
    /// Waits for the server's acknowledgements; segments.
    Delivering(u64, u64),
}

impl Step {
    /// Whole percent of this step. A step of nothing is done, but for a log that is not open yet.
    #[must_use]
    pub fn percent(self) -> u64 {
        if self == Self::Reading(0, 0) {
            return 0;
        }
        let (Self::Reading(done, all) | Self::Sealing(done, all) | Self::Delivering(done, all)) =
            self;
        (done.min(all) * 100).checked_div(all).unwrap_or(100)
    }
}

/// Shared between an import and those who watch it. Clones show the same.
#[derive(Debug, Clone)]
pub struct Progress(Arc<Mutex<Step>>);

impl Default for Progress {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Step::Reading(0, 0))))
    }
}

impl Progress {
    /// Says what the import does.
    pub fn set(&self, step: Step) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = step;
    }

    /// What the import does.
    #[must_use]
    pub fn step(&self) -> Step {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percents_are_whole_and_never_above_the_whole() {
        assert_eq!(Step::Reading(0, 0).percent(), 0);
        assert_eq!(Step::Sealing(0, 0).percent(), 100);
        assert_eq!(Step::Sealing(1, 3).percent(), 33);
        assert_eq!(Step::Delivering(299, 300).percent(), 99);
        assert_eq!(Step::Delivering(4, 3).percent(), 100);
        let progress = Progress::default();
        progress.clone().set(Step::Sealing(1, 2));
        assert_eq!(progress.step(), Step::Sealing(1, 2));
    }
}
