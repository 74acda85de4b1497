//! The rules of leasewatch: values and time in, values out.
//!
//! This crate has no I/O, no clock, no randomness and no floating point, so that the agent, the
//! server, the dashboard and a verifier on somebody else's laptop compute the same thing bit for
//! bit. Modules further down this list may use those above them, never the reverse.

#![forbid(unsafe_code)]
#![deny(missing_docs, clippy::float_arithmetic, clippy::print_stdout)]

pub mod id;
pub mod time;

pub mod join;
pub mod sample;

pub mod log_fault;

pub mod evidence;
pub mod segment;

pub mod delivery;
pub mod metering;

pub mod availability;

pub mod catalogue;
pub mod money;

pub mod lease;

pub mod cost;
pub mod provider_fact;
pub mod sla;
