//! The queue of stage 6: leases whose contracted time is to be judged, or judged anew.
//!
//! A lease stands in it once for each reason; a second change widens the row. Whoever judges leaves
//! the row where it is until it is done, and takes it out only if nobody wrote it meanwhile: a row
//! that was written again has another version, and stays.

use leasewatch_core::time::{Hour, Period, Timestamp};

use super::column::{Column, fitted, hour_column};
use super::{LeaseKey, NodeKey, StoreError, Tx};

/// Hours before the last one that are looked after without being asked.
const DAYS_MAX: i32 = 400;

/// What changed. Order is precedence: where several reasons hold for an hour, the first is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JudgeReason {
    /// Which slots the lease covers.
    Assignment,
    /// Its terms.
    Terms,
    /// What is billed.
    Session,
    /// A notice, or a stop of the tenant.
    Notice,
    /// A provider's record, or a probe.
    Evidence,
    /// Hour records.
    Hours,
    /// Somebody, or the end of a window, asked.
    Asked,
}

impl JudgeReason {
    /// Every reason.
    pub const ALL: [Self; 7] = [
        Self::Assignment,
        Self::Terms,
        Self::Session,
        Self::Notice,
        Self::Evidence,
        Self::Hours,
        Self::Asked,
    ];

    /// Its name in tables and on pages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Assignment => "assignment",
            Self::Terms => "terms",
            Self::Session => "session",
            Self::Notice => "notice",
            Self::Evidence => "evidence",
            Self::Hours => "hours",
            Self::Asked => "asked",
        }
    }

    /// The reason with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

/// A row of the queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Work {
    /// Whose lease.
    pub lease: LeaseKey,
    /// Why.
    pub reason: JudgeReason,
    /// The first hour that may have changed.
    pub from: Hour,
    /// The hour after the last one.
    pub to: Hour,
    /// Of the row; another one once it was written again.
    version: String,
}

/// Puts the hours of `changed` up to the one of `now` into the queue; what lies ahead is judged when
/// it comes. Scope: the tenant, or worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn add(
    tx: &mut Tx,
    lease: LeaseKey,
    changed: Period,
    (reason, now): (JudgeReason, Timestamp),
) -> Result<(), StoreError> {
    let from = changed.start.hour();
    let to = changed.end.plus_ms(-1).min(now).hour().next();
    if from >= to {
        return Ok(());
    }
    let (tenant, lease) = lease.columns();
    sqlx::query!(
        "insert into judge_work (tenant_id, lease_id, from_hour, to_hour, reason)
        values ($1, $2, $3, $4, $5)
        on conflict (tenant_id, lease_id, reason) do update set
            from_hour = least(judge_work.from_hour, excluded.from_hour),
            to_hour = greatest(judge_work.to_hour, excluded.to_hour)",
        tenant,
        lease,
        hour_column(from)?,
        hour_column(to)?,
        reason.name()
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// Records of a node's hour were written: every lease that covers a slot of it then is to be
/// judged, also for slots that have no record, since what the others show speaks of them too. In
/// the transaction that writes the records. Scope: worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn add_hour(tx: &mut Tx, key: NodeKey, hour: Hour) -> Result<(), StoreError> {
    let (tenant, node) = key.columns();
    let period = hour.period();
    sqlx::query!(
        "insert into judge_work (tenant_id, lease_id, from_hour, to_hour, reason)
        select distinct a.tenant_id, a.lease_id, $3::int, $3::int + 1, 'hours' from assignment a
        where a.tenant_id = $1 and a.node_id = $2 and a.withdrawn_at is null
            and a.starts_at < $5 and (a.ends_at is null or a.ends_at > $4)
        order by a.tenant_id, a.lease_id
        on conflict (tenant_id, lease_id, reason) do update set
            from_hour = least(judge_work.from_hour, excluded.from_hour),
            to_hour = greatest(judge_work.to_hour, excluded.to_hour)",
        tenant,
        node,
        hour_column(hour)?,
        period.start.0,
        period.end.0
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// Puts ended hours of leases into the queue that nothing was written for: behind the last hour
/// that was judged, up to `last`. This is how silence becomes unknown time. Scope: worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn add_ended(tx: &mut Tx, last: Hour) -> Result<u64, StoreError> {
    let last = hour_column(last)?;
    let added = sqlx::query!(
        "insert into judge_work (tenant_id, lease_id, from_hour, to_hour, reason)
        select l.tenant_id, l.lease_id, s.from_hour, $1::int + 1, 'hours' from lease l
        cross join lateral (
            select starts_at, ends_at from lease_terms t
            where t.tenant_id = l.tenant_id and t.lease_id = l.lease_id
            order by t.revision desc limit 1
        ) as t
        cross join lateral (
            select max(a.hour) as hour from availability a
            where a.tenant_id = l.tenant_id and a.lease_id = l.lease_id
        ) as judged
        cross join lateral (
            select greatest(coalesce(judged.hour + 1, (t.starts_at / 3600000)::int), $2)
        ) as s (from_hour)
        where s.from_hour <= $1 and (t.ends_at is null or t.ends_at > s.from_hour::bigint * 3600000)
            and exists (select from assignment a where a.tenant_id = l.tenant_id
                and a.lease_id = l.lease_id and a.withdrawn_at is null)
        order by l.tenant_id, l.lease_id
        on conflict (tenant_id, lease_id, reason) do update set
            from_hour = least(judge_work.from_hour, excluded.from_hour),
            to_hour = greatest(judge_work.to_hour, excluded.to_hour)",
        last,
        last - DAYS_MAX * 24
    )
    .execute(tx.connection())
    .await?;
    Ok(added.rows_affected())
}

/// Windows that are over and whose verdict was computed while they ran are judged once more.
/// Scope: worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn add_due_verdicts(tx: &mut Tx, over_at: Timestamp) -> Result<u64, StoreError> {
    let added = sqlx::query!(
        "insert into judge_work (tenant_id, lease_id, from_hour, to_hour, reason)
        select tenant_id, lease_id, (max(ends_at) / 3600000)::int - 1,
            (max(ends_at) / 3600000)::int, 'asked'
        from verdict where not is_over and ends_at <= $1
        group by tenant_id, lease_id order by tenant_id, lease_id
        on conflict (tenant_id, lease_id, reason) do update set
            from_hour = least(judge_work.from_hour, excluded.from_hour),
            to_hour = greatest(judge_work.to_hour, excluded.to_hour)",
        over_at.0
    )
    .execute(tx.connection())
    .await?;
    Ok(added.rows_affected())
}

/// Up to `limit` leases that wait, each with all of its reasons.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn list(tx: &mut Tx, limit: u32) -> Result<Vec<(LeaseKey, Vec<Work>)>, StoreError> {
    let rows = sqlx::query!(
        r#"select tenant_id, lease_id, reason, from_hour, to_hour, xmin::text as "version!"
        from judge_work
        where (tenant_id, lease_id) in (
            select tenant_id, lease_id from judge_work group by 1, 2 order by 1, 2 limit $1)
        order by tenant_id, lease_id, reason"#,
        i64::from(limit)
    )
    .fetch_all(tx.connection())
    .await?;
    let mut leases: Vec<(LeaseKey, Vec<Work>)> = Vec::new();
    for row in rows {
        let lease = LeaseKey::new(row.tenant_id, row.lease_id);
        let work = Work {
            lease,
            reason: Column("judge_work", "reason").named(&row.reason, JudgeReason::from_name)?,
            from: Hour(i64::from(row.from_hour)),
            to: Hour(i64::from(row.to_hour)),
            version: row.version,
        };
        match leases.last_mut() {
            Some((last, works)) if *last == lease => works.push(work),
            _ => leases.push((lease, vec![work])),
        }
    }
    Ok(leases)
}

/// Takes work that is done out of the queue; what was written again since it was listed stays.
///
/// A row that somebody is writing right now is passed over and not waited for: it will have another
/// version, so it stays anyway, and whoever writes several reasons of a lease in another order
/// cannot wait for this transaction while it waits for theirs. Scope: worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn finish(tx: &mut Tx, done: &[Work]) -> Result<(), StoreError> {
    for work in done {
        let (tenant, lease) = work.lease.columns();
        sqlx::query!(
            "delete from judge_work where (tenant_id, lease_id, reason) in (
                select tenant_id, lease_id, reason from judge_work
                where tenant_id = $1 and lease_id = $2 and reason = $3 and xmin::text = $4
                for update skip locked)",
            tenant,
            lease,
            work.reason.name(),
            work.version
        )
        .execute(tx.connection())
        .await?;
    }
    Ok(())
}

/// Hours `[from, to)` of a lease that wait.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn of_lease(tx: &mut Tx, key: LeaseKey) -> Result<Vec<(Hour, Hour)>, StoreError> {
    let (tenant, lease) = key.columns();
    let rows = sqlx::query!(
        "select from_hour, to_hour from judge_work where tenant_id = $1 and lease_id = $2",
        tenant,
        lease
    );
    let rows = rows.fetch_all(tx.connection()).await?.into_iter();
    Ok(rows.map(|row| (Hour(i64::from(row.from_hour)), Hour(i64::from(row.to_hour)))).collect())
}

/// How many rows wait.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn waiting(tx: &mut Tx) -> Result<u64, StoreError> {
    let count = sqlx::query_scalar!(r#"select count(*) as "count!" from judge_work"#);
    fitted(count.fetch_one(tx.connection()).await?, "number of leases")
}
