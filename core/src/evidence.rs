//! Evidence: statements in one canonical form, and the signed chain of heads.
//!
//! The log, checkpoints and bundles stand on top of these and are not here yet.

pub mod canonical;
pub mod capture;
pub mod chain;
pub mod identity;
pub mod spool;
pub mod statement;

#[cfg(test)]
mod vectors;
