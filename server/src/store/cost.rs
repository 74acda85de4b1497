//! What leases had of nodes, hour by hour: the sums that pages add up, and the records of hours that
//! have none yet.
//!
//! The job that judges writes them with its judgement. Throttled time by reason is not kept here.

mod hours;
mod records;

pub use hours::{LeaseHour, hours, put_hours};
pub use records::{NodeRecords, SlotPart};
