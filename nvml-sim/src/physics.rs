//! A card over time: clocks, power, heat, memory and counters that follow its utilization.
//!
//! Integer arithmetic, one step per tick of the driver's sampler, so that a scenario plays the same
//! everywhere. The constants are plausible, not measured; only the catalogue's facts are real.

pub(crate) mod board;
pub(crate) mod card;
pub(crate) mod faults;
pub(crate) mod identity;
pub(crate) mod instant;
pub(crate) mod mig;
pub(crate) mod noise;
pub(crate) mod totals;
