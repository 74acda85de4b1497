//! Evidence: statements in one canonical form, the signed chain of heads, and the log.
//!
//! A bundle ([`bundle`]) is what is handed over; everything in it is of the other modules.

pub mod bundle;
pub mod canonical;
pub mod capture;
pub mod chain;
pub mod identity;
pub mod log;
pub mod spool;
pub mod statement;

#[cfg(test)]
mod vectors;
