//! The commands of the agent as programs, on simulated GPUs behind NVML's real interface.
//!
//! Each test runs the built program with a scenario in its environment and looks at what it prints
//! and how it ends. Nothing waits for a time: tests wait for a file or an exit.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod check;
mod doctor;
mod exec;
mod footprint;
mod live_lane;
mod once;
mod refusals;
mod returning;
mod rig;
mod sink;
mod status;
mod versions;
