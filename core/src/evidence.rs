//! Evidence: statements in one canonical form, the signed chain of heads, and the log.
//!
//! Bundles stand on top of these and are not here yet.

pub mod canonical;
pub mod capture;
pub mod chain;
pub mod identity;
pub mod log;
pub mod spool;
pub mod statement;

#[cfg(test)]
mod vectors;
