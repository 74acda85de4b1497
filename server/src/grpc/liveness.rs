//! The server records that it was recording: time that is missing here is nobody's fault but ours.

use std::time::Duration;

use leasewatch_core::delivery::Moment;
use leasewatch_core::time::{Period, Timestamp};
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::clock::Clock;
use crate::live::Live;
use crate::store::{Db, Scope, StoreError, liveness};

const INTERVAL: Duration = Duration::from_secs(10);
/// A longer pause is one in which the server did not run.
const PAUSE_MAX_MS: u64 = 20_000;
/// How far the wall clock may leave the clock that never steps before a stretch counts as unknown:
/// a step, or a suspend, which the latter does not see.
const STEP_MAX_MS: u64 = 2_000;

/// Records each 10 s that the server is recording, until the task is aborted. A stretch is only
/// written after it has passed, by the database that segments go to: while that does not answer,
/// the server is not recording.
pub fn spawn_liveness(db: Db, live: Live, clock: Clock) -> JoinHandle<()> {
    tokio::spawn(async move {
        let mut ticks = interval(INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut before = None;
        loop {
            ticks.tick().await;
            let now = Reading { moment: live.now(), wall: clock.now() };
            let stretch = before.replace(now).and_then(|before| stretch(before, now));
            let Some(stretch) = stretch else { continue };
            if let Err(error) = record(&db, stretch).await {
                tracing::error!(error = %error, "the server's own recording could not be noted");
                // What failed to be noted is not noted later, so the next stretch begins anew.
                before = Some(Reading { moment: live.now(), wall: clock.now() });
            }
        }
    })
}

/// Both clocks at one instant.
#[derive(Debug, Clone, Copy)]
struct Reading {
    moment: Moment,
    wall: Timestamp,
}

/// The stretch between two readings, if the server ran all through it and knows what time it was.
fn stretch(before: Reading, now: Reading) -> Option<Period> {
    let ran_ms = now.moment.since(before.moment);
    let wall_ms = u64::try_from(now.wall.since(before.wall)).ok()?;
    let credible = ran_ms <= PAUSE_MAX_MS && wall_ms.abs_diff(ran_ms) <= STEP_MAX_MS;
    credible.then(|| Period::new(before.wall, now.wall))
}

async fn record(db: &Db, stretch: Period) -> Result<(), StoreError> {
    let mut tx = db.begin(Scope::Worker).await?;
    liveness::record(&mut tx, stretch).await?;
    tx.commit().await
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(moment: u64, wall: i64) -> Reading {
        Reading { moment: Moment(moment), wall: Timestamp(1_790_000_000_000 + wall) }
    }

    #[test]
    fn a_steady_stretch_counts() {
        let (before, now) = (reading(5, 0), reading(10_005, 10_003));
        assert_eq!(stretch(before, now), Some(Period::new(before.wall, now.wall)));
    }

    #[test]
    fn a_pause_a_step_and_a_suspend_do_not() {
        let before = reading(0, 0);
        assert_eq!(stretch(before, reading(25_000, 25_000)), None);
        assert_eq!(stretch(before, reading(10_000, -5_000)), None);
        assert_eq!(stretch(before, reading(10_000, 13_000)), None);
        assert_eq!(stretch(before, reading(10_000, 3_600_000)), None);
    }
}
