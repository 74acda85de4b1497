//! What a lease costs, where the money goes, and whether a bill is right.
//!
//! Invariants, in the order in which a reader should doubt them:
//! 1. **Charges telescope**: what is charged in a window is what was charged by its end less what
//!    was charged by its start, so any split of a window adds up to the window to 10^-9 units.
//! 2. **Parts are a partition**: effective, degraded, waiting, idle, unavailable, unknown and
//!    excluded time add up to contracted time exactly, and their costs to what was paid exactly.
//! 3. **A bill is explained to the last digit**: the differences add up to what was billed less
//!    what was due.
//! 4. **Missing is not zero**: time without a price is listed as time, a price that is not there
//!    is not free, time that was not measured is unknown.
//!
//! Amounts of two currencies never meet ([`Amounts`]). Not here: exchange rates, credits of an SLA
//! (`sla`), and what makes time down (`availability`).

mod amounts;
pub mod bill;
mod billed;
pub mod comparison;
#[cfg(test)]
mod fixture;
pub mod interruption;
mod measures;
mod minutes;
mod node_hour;
mod parts;
mod poisson;
pub mod price_table;
pub mod response;
pub mod straggler;
mod stretch;
mod what_if;

pub use amounts::Amounts;
pub use billed::{Billable, Charge, ChargeKind, Charges, DayAmount};
pub use measures::{MeasuredGpu, Measures, Reference, SlotTime, StateTime, measure};
pub use minutes::HELD_MEMORY_MIB;
pub use node_hour::NodeHour;
pub use parts::{Formula, Grain, Part, Parts};
pub use what_if::{MemoryNeed, OverRenting, WhatIf, over_renting, per_hour, what_if};
