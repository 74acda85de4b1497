//! Keys that are no longer accepted, wherever they were revoked: their streams end.
//!
//! The store is asked each second for the keys of all open streams and for those that were revoked
//! lately, so it does not matter whether a page, another program or SQL revoked them, nor whether
//! the database was away in between. New streams are turned away by the handshake itself.

use std::collections::HashSet;
use std::time::Duration;

use leasewatch_core::id::KeyId;
use tokio::time::{MissedTickBehavior, interval};

use super::GrpcState;
use crate::sabotage;
use crate::store::{Scope, StoreError, node_key};

/// The promise is five seconds from the revocation to the end of the stream.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How far back nodes without an open stream are looked for, so that pages show them as revoked.
const LATELY_MS: i64 = 3_600_000;

/// Looks for revoked keys for as long as the runtime lives.
pub fn spawn_revocations(state: GrpcState) {
    if sabotage::is("revocation_ignored") {
        return;
    }
    tokio::spawn(async move {
        let mut told = HashSet::new();
        let mut look = interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            look.tick().await;
            if let Err(error) = end_revoked(&state, &mut told).await {
                tracing::warn!(error = error.in_full(), "revoked keys cannot be looked for");
            }
        }
    });
}

/// Ends the streams of revoked keys; `told` are those that pages know of.
async fn end_revoked(state: &GrpcState, told: &mut HashSet<KeyId>) -> Result<(), StoreError> {
    let keys = state.registry.keys();
    let since = state.clock.now().plus_ms(-LATELY_MS);
    let mut tx = state.db.begin(Scope::Ingest).await?;
    let revoked = node_key::revoked(&mut tx, &keys, since).await?;
    tx.commit().await?;
    for key in &revoked {
        let streams = state.registry.revoke(key.key_id);
        if streams > 0 {
            tracing::info!(node.id = %key.node, streams, "streams end: their key was revoked");
        }
        if key.is_last && (told.insert(key.key_id) || streams > 0) {
            state.live.revoke(key.node);
        }
    }
    told.retain(|told| revoked.iter().any(|key| key.key_id == *told));
    Ok(())
}
