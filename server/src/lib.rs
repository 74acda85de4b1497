//! The leasewatch server: everything behind the port, as modules that only `serve` puts together.

#![forbid(unsafe_code)]

pub mod accounts;
pub mod apply;
pub mod bundle;
pub mod clock;
pub mod config;
pub mod demo;
pub mod embedded_postgres;
pub mod enrollment;
pub mod export;
pub mod grpc;
pub mod http;
pub mod identity;
pub mod import;
pub mod installer;
pub mod intake;
pub mod jobs;
pub mod live;
pub mod password;
mod sabotage;
pub mod secret;
pub mod serve;
pub mod store;
pub mod tenancy;
