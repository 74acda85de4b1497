//! The whole product along its one line, on real input: from a log or a GPU to a page.
//!
//! Every test here runs the real programs: `leasewatch-server` on its own PostgreSQL, and agents
//! on `nvml-sim` through the C interface. What they show is compared with computations that share
//! no code with the product.

#![expect(clippy::unwrap_used, reason = "what does not work here fails the test")]

#[path = "straight_line/attacks.rs"]
mod attacks;
#[path = "straight_line/behind_nginx.rs"]
mod behind_nginx;
#[path = "straight_line/deployed.rs"]
mod deployed;
#[path = "straight_line/first_user.rs"]
mod first_user;
#[path = "straight_line/fleet.rs"]
mod fleet;
#[path = "straight_line/history.rs"]
mod history;
#[path = "straight_line/imports.rs"]
mod imports;
#[path = "straight_line/installing.rs"]
mod installing;
#[path = "straight_line/joining.rs"]
mod joining;
#[path = "straight_line/kills.rs"]
mod kills;
#[path = "straight_line/power_cut.rs"]
mod power_cut;
#[path = "support/process.rs"]
mod process;
#[path = "straight_line/promises.rs"]
mod promises;
#[path = "straight_line/recording.rs"]
mod recording;
#[path = "straight_line/replay.rs"]
mod replay;
#[path = "straight_line/returning.rs"]
mod returning;
#[path = "straight_line/rotation.rs"]
mod rotation;
#[path = "straight_line/round_trip.rs"]
mod round_trip;
#[path = "straight_line/secure.rs"]
mod secure;
#[path = "straight_line/through_proxy.rs"]
mod through_proxy;
#[path = "straight_line/wire_node.rs"]
mod wire_node;
