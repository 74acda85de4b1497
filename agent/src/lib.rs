//! The agent: reads the GPUs of one node, seals what it read into signed segments, delivers them.
//!
//! A library and a thin binary, so that integration tests and benchmarks use the same modules. It
//! opens no port by itself, updates nothing by itself and runs no command but the job that `exec`
//! was told to run.

pub mod clock;
pub mod command;
pub mod config;
pub mod enrollment;
pub mod identity;
pub mod observation;
pub mod recorder;
mod sabotage;
pub mod sampler;
pub mod source;
pub mod spool;
pub mod status;
pub mod uplink;
