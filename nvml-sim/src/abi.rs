//! The C symbols. Each one checks its pointers, reads the state, and writes one answer.
//!
//! Exports of a library are fixed when it is linked, so the functions that an older driver lacks
//! cannot be left out for one scenario. They are there and answer 13 (function not found) when the
//! scenario's driver is older than the function; a caller must treat that like a missing symbol.
//! The `since` numbers are driver branches, accurate to the branch at best.

mod clocks;
pub(crate) mod code;
mod ecc;
mod events;
mod fields;
mod gpm;
mod guard;
mod identity;
pub(crate) mod layout;
mod links;
mod memory;
mod mig;
mod modes;
mod power;
mod processes;
mod read;
mod system;
mod topology;
mod utilization;
