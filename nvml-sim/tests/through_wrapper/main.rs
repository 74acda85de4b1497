//! The simulated library as a caller sees it: loaded by nvml-wrapper, in a process of its own for
//! each scenario, because NVML is one per process and reads its scenario from the environment.
//!
//! Each test runs twice: once in the test runner, which starts this binary again for that test
//! alone, and once there. Conditions are awaited, never timed.

#![expect(unsafe_code, reason = "calls NVML functions that the wrapper does not wrap")]

#[cfg(test)]
mod faults;
#[cfg(test)]
mod history;
#[cfg(test)]
mod lifecycle;
mod mig;
#[cfg(test)]
mod play;
#[cfg(test)]
mod readings;
#[cfg(test)]
mod replay;
