//! `[[session]]`: a stretch that is billed. Lease and start name it.

use leasewatch_core::lease::BillingSession;
use leasewatch_core::lease::written::SessionEntry;

use super::{Fault, Run, Verb, Wrong};
use crate::store::billing_session;

/// Writes a session down, ends it, corrects it or withdraws it.
pub(super) async fn apply(run: &mut Run<'_>, entry: &SessionEntry) -> Result<(), Fault> {
    let lease = run.lease(&entry.lease).await?;
    let wanted =
        BillingSession { starts_at: entry.starts_at, ends_at: entry.ends_at, source: entry.source };
    if wanted.ends_at.is_some_and(|end| end <= wanted.starts_at) {
        return Err(Wrong::new("ends_at", "must be after the start").into());
    }
    let what = format!("session {} of {}", wanted.starts_at, entry.lease);
    let known = billing_session::of_lease(run.tx, lease.key).await?;
    let known = known.into_iter().find(|row| row.session.starts_at == wanted.starts_at);
    let verb = match known {
        None if entry.withdrawn => Verb::Keep,
        Some(row) if entry.withdrawn => {
            billing_session::withdraw(run.tx, &row, run.written).await?;
            Verb::Withdraw
        }
        Some(row) if row.session == wanted => Verb::Keep,
        Some(row) => {
            let before = BillingSession { ends_at: wanted.ends_at, ..row.session };
            match wanted.ends_at.filter(|_| row.session.ends_at.is_none() && before == wanted) {
                Some(end) => billing_session::end(run.tx, &row, end, run.written).await?,
                None => {
                    billing_session::withdraw(run.tx, &row, run.written).await?;
                    put(run, lease.key, &wanted).await?;
                }
            }
            Verb::Change
        }
        None => {
            put(run, lease.key, &wanted).await?;
            Verb::Add
        }
    };
    run.did(verb, what);
    Ok(())
}

async fn put(
    run: &mut Run<'_>,
    lease: crate::store::LeaseKey,
    wanted: &BillingSession,
) -> Result<(), Fault> {
    let put = billing_session::put(run.tx, lease, wanted, run.written).await?;
    put.map_err(|overlap| Wrong::of(&overlap))?;
    Ok(())
}
