//! `[[schedule]]`: the weekly rule of a lease. A lease has one at a time; another one takes its
//! place.

use leasewatch_core::lease::Schedule;
use leasewatch_core::lease::written::ScheduleEntry;
use leasewatch_core::time::Timestamp;

use super::{Fault, Run, Verb, Wrong};
use crate::store::billing_schedule;
use crate::store::lease::LeaseRow;

/// Gives a lease its rule, changes it, or ends it.
pub(super) async fn apply(run: &mut Run<'_>, entry: &ScheduleEntry) -> Result<(), Fault> {
    let lease = run.lease(&entry.lease).await?;
    let known = billing_schedule::of_lease(run.tx, lease.key).await?;
    let what = format!("schedule of {}", entry.lease);
    if entry.withdrawn {
        let at = entry.starts_at.unwrap_or(run.written.at);
        let was = billing_schedule::end(run.tx, lease.key, at, run.written).await?;
        run.did(if was { Verb::Withdraw } else { Verb::Keep }, what);
        return Ok(());
    }
    let rule: Schedule = entry.rule.parse().map_err(|fault| Wrong::of_field("rule", &fault))?;
    let is_kept = known.as_ref().is_some_and(|known| {
        let is_same = known.rule == rule && known.zone == lease.terms.zone;
        is_same && entry.starts_at.is_none_or(|at| at == known.starts_at)
    });
    if is_kept {
        run.did(Verb::Keep, what);
        return Ok(());
    }
    let verb = if known.is_some() { Verb::Change } else { Verb::Add };
    let starts_at = begin(&lease, entry.starts_at, (known.is_some(), run.written.at));
    let put = (&rule, lease.terms.zone, starts_at);
    billing_schedule::put(run.tx, lease.key, put, run.written).await?;
    run.did(verb, what);
    Ok(())
}

/// From when a rule holds: as said, else the first one from the lease's start, another one from now.
pub(crate) fn begin(
    lease: &LeaseRow,
    said: Option<Timestamp>,
    (has_one, now): (bool, Timestamp),
) -> Timestamp {
    let usual = if has_one { now } else { lease.terms.starts_at };
    said.unwrap_or(usual).max(lease.terms.starts_at)
}
