//! Where readings come from: one library that speaks NVML, and the host's own files.
//!
//! A [`Source`] names the library and knows whether it is the simulator. That mark is looked for
//! in the loaded library itself, again at each initialisation, so a simulated GPU cannot pass for
//! a measured one by configuration. Nothing here schedules reads or judges what they mean.

pub mod host;
pub mod kmsg;
pub mod nvml;
mod nvml_raw;
pub mod survey;

use std::path::{Path, PathBuf};

use leasewatch_core::segment::Origin;

/// The library that the driver installs.
pub const DEFAULT_NVML_LIBRARY: &str = "libnvidia-ml.so.1";

/// The library that a node's readings come from, and what kind of readings those are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    library: PathBuf,
    origin: Origin,
}

impl Source {
    /// Looks at the library without initialising it. A library that cannot be loaded counts as
    /// measured: nothing is read from it, and if the simulator turns up there later, it is
    /// refused.
    #[must_use]
    pub fn open(library: &Path) -> Self {
        let simulated = nvml_raw::is_library_simulated(library.as_os_str()).unwrap_or(false);
        let origin = if simulated { Origin::Simulated } else { Origin::Measured };
        Self { library: library.to_owned(), origin }
    }

    /// Measured, or simulated when the library is `nvml-sim`.
    #[must_use]
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The library, as it was named.
    #[must_use]
    pub fn library(&self) -> &Path {
        &self.library
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_is_not_simulated() {
        let source = Source::open(Path::new("/nonexistent/libnvidia-ml.so.1"));
        assert_eq!(source.origin(), Origin::Measured);
    }
}
