//! The store on real PostgreSQL: what each role may see and do, what survives, what is refused.

mod support;

#[path = "store/audit.rs"]
mod audit;
#[path = "store/fixture.rs"]
mod fixture;
#[path = "store/hours.rs"]
mod hours;
#[path = "store/launcher.rs"]
mod launcher;
#[path = "store/lease_hours.rs"]
mod lease_hours;
#[path = "store/leases.rs"]
mod leases;
#[path = "store/migrations.rs"]
mod migrations;
#[path = "store/nodes.rs"]
mod nodes;
#[path = "store/offboarding.rs"]
mod offboarding;
#[path = "store/prices.rs"]
mod prices;
#[path = "store/refusals.rs"]
mod refusals;
#[path = "store/schema.rs"]
mod schema;
#[path = "store/segments.rs"]
mod segments;
#[path = "store/tenancy.rs"]
mod tenancy;
#[path = "store/tokens.rs"]
mod tokens;
#[path = "store/transactions.rs"]
mod transactions;
#[path = "store/traps.rs"]
mod traps;
