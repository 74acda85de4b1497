//! Stage 6: judges what was delivered. From hour records, events, and what people told, the job
//! writes the availability of each contracted slot and hour with the sums that costs are made of, the
//! incidents that it shows, and the verdict of each window that is touched.
//!
//! The rules are `core::availability` and `core::sla`; nothing here knows when something is down.
//! Silence is unknown, never down. A revision is written only where something changed, with what
//! changed it; hour records are read and never written.

mod charges;
mod downtime;
mod facts;
mod windows;

use leasewatch_core::cost::NodeHour;
use leasewatch_core::id::Slug;
use leasewatch_core::lease::LeaseTerms;
use leasewatch_core::sla::profile::{OWN_OBJECTIVE, Profile, Profiles};
use leasewatch_core::time::{Hour, Period, Timestamp};

use super::{Jobs, pause};
use crate::store::contracted::{self, ContractedLease};
use crate::store::cost::{self, LeaseHour};
use crate::store::judge_work::{self, JudgeReason, Work};
use crate::store::{LeaseKey, Scope, StoreError, availability, profile};

const JOB: &str = "judge";
/// After an hour's end, time for its records to be written before silence is judged. What comes
/// later makes a revision.
const SETTLE_MS: i64 = 600_000;
/// Leases of one turn.
const TURN_LIMIT: u32 = 64;
/// Hours of one transaction.
const CHUNK_HOURS: i64 = 24;
/// How far back anything is judged.
const HOURS_MAX: i64 = 400 * 24;

/// Runs for ever, each ten seconds.
pub async fn run(jobs: Jobs) {
    let mut ended = None;
    loop {
        let started_at = jobs.clock.now();
        let mut result = enqueue(&jobs, &mut ended).await;
        if result.is_ok() {
            result = turn(&jobs).await;
        }
        jobs.report(JOB, started_at, &result).await;
        pause(10).await;
    }
}

/// When an hour has ended, puts it into the queue for leases that nothing was written for, and
/// windows that are over with it.
async fn enqueue(jobs: &Jobs, ended: &mut Option<Hour>) -> Result<u64, StoreError> {
    let last = Hour(jobs.clock.now().plus_ms(-SETTLE_MS).hour().0 - 1);
    if *ended != Some(last) {
        queue_ended(jobs, last).await?;
        *ended = Some(last);
    }
    Ok(0)
}

/// The same for a given last hour.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn queue_ended(jobs: &Jobs, last: Hour) -> Result<u64, StoreError> {
    let mut tx = jobs.db.begin(Scope::Worker).await?;
    let mut added = judge_work::add_ended(&mut tx, last).await?;
    added += judge_work::add_due_verdicts(&mut tx, last.end()).await?;
    tx.commit().await?;
    Ok(added)
}

/// Judges the leases that wait; returns how many rows were written. A lease that cannot be judged
/// stays in the queue and keeps no other one from being judged.
///
/// # Errors
/// The first [`StoreError`], after the turn.
pub async fn turn(jobs: &Jobs) -> Result<u64, StoreError> {
    let mut tx = jobs.db.begin(Scope::Worker).await?;
    let waiting = judge_work::list(&mut tx, TURN_LIMIT).await?;
    tx.commit().await?;
    let (mut written, mut failed) = (0, None);
    for (lease, works) in waiting {
        match judge(jobs, lease, &works).await {
            Ok(rows) => written += rows,
            Err(error) => {
                tracing::error!(
                    error = error.in_full(),
                    "a lease could not be judged and stays in the queue"
                );
                failed = failed.or(Some(error));
            }
        }
    }
    failed.map_or(Ok(written), Err)
}

/// A lease with the clauses that it may be judged by.
struct Case {
    lease: ContractedLease,
    profiles: Profiles,
    now: Timestamp,
}

async fn judge(jobs: &Jobs, key: LeaseKey, works: &[Work]) -> Result<u64, StoreError> {
    let now = jobs.clock.now();
    let mut tx = jobs.db.begin(Scope::Worker).await?;
    let Some(lease) = contracted::by_key(&mut tx, key).await? else {
        judge_work::finish(&mut tx, works).await?;
        tx.commit().await?;
        return Ok(0);
    };
    let profiles = profile::all(&mut tx, key.tenant).await?;
    tx.commit().await?;
    let case = Case { lease, profiles, now };
    // The hour that runs is judged when it is over.
    let over = now.hour();
    let to = works.iter().map(|work| work.to).max().unwrap_or(over).min(over);
    let from = works.iter().map(|work| work.from).min().unwrap_or(over);
    let from = from.max(Hour(to.0.saturating_sub(HOURS_MAX)));
    let mut written = 0;
    let mut at = from;
    while at < to {
        let end = Hour(at.0 + CHUNK_HOURS).min(to);
        written += judge_hours(jobs, &case, (at, end), works).await?;
        at = end;
    }
    let mut tx = jobs.db.begin(Scope::Worker).await?;
    if from < to {
        let asked = Period::new(from.start(), to.start());
        let reason = reason_of(works, asked);
        written += windows::put(&mut tx, &case, asked, reason).await?;
        written += downtime::put(&mut tx, &case).await?;
    }
    judge_work::finish(&mut tx, works).await?;
    tx.commit().await?;
    Ok(written)
}

/// Judges hours `[from, to)` of every slot that the lease covers or covered.
async fn judge_hours(
    jobs: &Jobs,
    case: &Case,
    (from, to): (Hour, Hour),
    works: &[Work],
) -> Result<u64, StoreError> {
    let lease = &case.lease;
    let period = Period::new(from.start(), to.start());
    let mut tx = jobs.db.begin(Scope::Worker).await?;
    let current = availability::current(&mut tx, lease.key, (from, to)).await?;
    let mut slots: Vec<_> = lease
        .assignments
        .iter()
        .map(|(node, assignment)| (*node, assignment.slot))
        .filter(|(node, slot)| !lease.of_slot(*node, *slot, period).is_empty())
        .chain(current.iter().map(|row| (row.judged.node, row.judged.slot)))
        .collect();
    slots.sort_unstable();
    slots.dedup();
    let told = facts::Told::load(&mut tx, lease.key, period).await?;
    let (mut new, mut spent) = (Vec::new(), Vec::new());
    for of_node in slots.chunk_by(|a, b| a.0 == b.0) {
        let node = facts::NodeFacts::load(&mut tx, of_node[0].0, (from, to)).await?;
        let Some(node) = node else { continue };
        let mut sums = vec![NodeHour::default(); period.hours().count()];
        for (_, slot) in of_node {
            for (hour, sum) in period.hours().zip(&mut sums) {
                let lead_ms = case.notice_lead_ms(hour.start());
                let judged = node.judge(lease, &told, (*slot, hour), lead_ms);
                node.add_spent(lease, &judged, sum);
                let row = current.iter().find(|row| {
                    (row.judged.node, row.judged.slot, row.judged.hour)
                        == (judged.node, *slot, hour)
                });
                let is_known = match row {
                    Some(row) => row.judged.is_same(&judged),
                    None => judged.stretches.is_empty(),
                };
                if !is_known {
                    let reason = reason_of(works, hour.period());
                    new.push(judged.revision(row, reason, case.now)?);
                }
            }
        }
        let of = |(hour, spent)| LeaseHour { node: of_node[0].0, hour, spent };
        spent.extend(period.hours().zip(sums).map(of));
    }
    availability::put(&mut tx, &new).await?;
    cost::put_hours(&mut tx, lease.key, (from, to), &spent).await?;
    tx.commit().await?;
    Ok(u64::try_from(new.len()).unwrap_or(u64::MAX))
}

/// The strongest reason to judge `period`.
fn reason_of(works: &[Work], period: Period) -> JudgeReason {
    let meets = |work: &&Work| {
        let asked = Period::new(work.from.start(), work.to.start());
        !asked.intersect(period).is_empty()
    };
    works.iter().filter(meets).map(|work| work.reason).min().unwrap_or(JudgeReason::Asked)
}

impl Case {
    /// The contract's profile in the version that is in force at `at`; the one that the terms name
    /// where none is.
    fn contract(&self, at: Timestamp) -> Option<&Profile> {
        self.profiles.contract(self.lease.terms.profile.as_ref()?, at)
    }

    /// Own objectives in the version that is in force at `at`.
    fn own(&self, at: Timestamp) -> Option<&Profile> {
        self.profiles.own(at)
    }

    fn notice_lead_ms(&self, at: Timestamp) -> Option<i64> {
        let named = self.lease.terms.profile.as_ref();
        self.profiles.governing(named, at).and_then(Profile::notice_lead_ms)
    }

    fn terms(&self) -> &LeaseTerms {
        &self.lease.terms
    }

    /// Until when everything that is known was judged: the start of the hour that runs, with time
    /// for records to come.
    fn as_of(&self) -> Timestamp {
        self.now.plus_ms(-SETTLE_MS).hour().start()
    }
}
