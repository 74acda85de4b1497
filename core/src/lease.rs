//! The lease: what was rented, from whom, for how much, and on which terms.
//!
//! A lease is written down by people, early, late or corrected; nothing measured depends on it.
//! Which slot it covers is an [`Assignment`], what is billed of a pay-as-you-go lease is a
//! [`BillingSession`]. Contracted time comes from these alone ([`contracted`]).
//!
//! Not here: what was delivered (`metering`), whether that keeps the promise (`availability`,
//! `sla`), and what it cost (`cost`).

mod billing;
mod contract;
mod schedule;
mod terms;
pub mod written;

pub use billing::{Billing, BillingUnit, Fee, FeeCycle, Price, PriceUnit};
pub use contract::{Assignment, BillingSession, SessionSource, contracted};
pub use schedule::{Schedule, ScheduleFault};
pub use terms::{Label, LeaseKind, LeaseTerms, Minima, ProfileRef, Share, ShareKind, TermsFault};
