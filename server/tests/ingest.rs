//! Ingest on real PostgreSQL: what a stream stores, what it refuses, what survives its end.

#![expect(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "what does not work fails the test, and a test binary exports nothing"
)]

mod support;

#[path = "ingest/access.rs"]
mod access;
#[path = "ingest/agent.rs"]
mod agent;
#[path = "ingest/beginning.rs"]
mod beginning;
#[path = "ingest/cancelled.rs"]
mod cancelled;
#[path = "ingest/claims_page.rs"]
mod claims_page;
#[path = "ingest/clock_steps.rs"]
mod clock_steps;
#[path = "ingest/delivery.rs"]
mod delivery;
#[path = "ingest/enrollment.rs"]
mod enrollment;
#[path = "ingest/gpu_page.rs"]
mod gpu_page;
#[path = "ingest/handshake.rs"]
mod handshake;
#[path = "ingest/hours.rs"]
mod hours;
#[path = "ingest/inputs.rs"]
mod inputs;
#[path = "ingest/judge.rs"]
mod judge;
#[path = "ingest/leases_page.rs"]
mod leases_page;
#[path = "ingest/live_lane.rs"]
mod live_lane;
#[path = "ingest/money_pages.rs"]
mod money_pages;
#[path = "ingest/refusal.rs"]
mod refusal;
#[path = "ingest/rig.rs"]
mod rig;
#[path = "ingest/timescale.rs"]
mod timescale;
#[path = "ingest/versions.rs"]
mod versions;
#[path = "ingest/wal.rs"]
mod wal;
#[path = "ingest/wasm.rs"]
mod wasm;
