//! PostgreSQL: the only place with SQL.
//!
//! Plain functions, one module per noun, over a [`Tx`] that [`Db::begin`] opened in a [`Scope`].
//! The scope decides the database role, so what a caller may see is not up to the query: a query
//! without a scope does not compile, and one with the wrong scope is refused by the database.
//!
//! Rules:
//! 1. Queries are checked at compile time against the migrated schema (`scripts/sqlx-prepare`
//!    writes `.sqlx`); the places that build SQL text are [`Db::begin`], `migration` and
//!    `tenant_data`, which takes names from the catalogue.
//! 2. A row becomes a value of `leasewatch_core` or an error that names table and column.
//! 3. Nothing here knows the time, the network, or what the data means.

mod column;
mod db;
mod error;
mod migration;
mod preflight;

pub mod assignment;
pub mod audit;
pub mod availability;
pub mod bill;
pub mod billing_schedule;
pub mod billing_session;
pub mod chain;
pub mod claim;
pub mod contracted;
pub mod cost;
pub mod enrollment;
pub mod event;
pub mod gpu;
pub mod hour;
pub mod hour_work;
pub mod identity_statement;
pub mod incident;
pub mod job_status;
pub mod judge_work;
pub mod lease;
pub mod liveness;
pub mod node;
pub mod node_key;
pub mod node_label;
pub mod notice;
pub mod partition;
pub mod price;
pub mod profile;
pub mod provider;
pub mod provider_fact;
pub mod segment;
pub mod session;
pub mod slot;
pub mod tenant;
pub mod tenant_data;
pub mod ticket;
pub mod token;
pub mod user;
pub mod user_link;
pub mod user_session;
pub mod verdict;

pub use db::{Db, Scope, Tx};
pub use error::StoreError;
pub use lease::LeaseKey;
pub use migration::{create_database, migrate};
pub use node::NodeKey;
pub use preflight::{Durability, PreflightError, TimeLayout, preflight};
pub use provider::ProviderKey;
pub use tenant::TenantKey;
