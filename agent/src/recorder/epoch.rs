//! One run of the agent.

use leasewatch_core::evidence::chain::ClockSource;
use leasewatch_core::id::{EpochId, Hash};
use leasewatch_core::segment::{LifeUnit, Origin};

/// What stays the same for one run of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Epoch {
    /// Its id.
    pub id: EpochId,
    /// The life that it belongs to.
    pub life_unit: LifeUnit,
    /// Where its data comes from.
    pub origin: Origin,
    /// Time between samples in milliseconds.
    pub cadence_ms: u32,
    /// Who keeps the wall clock.
    pub clock_source: ClockSource,
    /// Version of this program.
    pub version: String,
    /// SHA-256 of its file, if it could be read.
    pub digest: Option<Hash>,
}
