//! The wire protocol between agent and server.
//!
//! [`v1`] is generated from `leasewatch/v1/telemetry.proto`; [`convert`] turns what travels into
//! core types and back, and is the only place that knows both; [`channel`] is a client's way to
//! the server.

#![forbid(unsafe_code)]

pub mod channel;
pub mod convert;

/// Messages and services of protocol version 1.
#[expect(
    clippy::all,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason,
    reason = "generated code"
)]
pub mod v1 {
    tonic::include_proto!("leasewatch.v1");
}
