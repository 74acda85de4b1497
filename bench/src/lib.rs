//! What leasewatch costs, measured: bytes, processor time, memory, and the same of other programs
//! on the same samples.
//!
//! Everything runs on this machine and on loopback. The programs that are measured run as
//! children, as an operator would run them; nothing of the server or the agent is linked in. How
//! to read the results, and what they were: `docs/PERFORMANCE.md`.

#![forbid(unsafe_code)]

pub mod agent;
pub mod clock;
pub mod codec;
pub mod data;
pub mod fleet;
pub mod http;
pub mod ingest;
pub mod measure;
pub mod node;
pub mod pages;
pub mod peers;
pub mod process;
pub mod programs;
pub mod psql;
