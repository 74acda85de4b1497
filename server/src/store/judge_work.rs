//! The queue of leases whose availability is to be judged anew, with the hours that may have
//! changed. A lease stands in it once for each reason.

use leasewatch_core::time::{Hour, Period, Timestamp};

use super::column::hour_column;
use super::{LeaseKey, StoreError, Tx};

/// Why a lease has to be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JudgeReason {
    /// Hours were metered.
    Hours,
    /// Terms were written.
    Terms,
    /// An assignment was made, ended or withdrawn.
    Assignment,
    /// The same of a billing session.
    Session,
    /// A notice of maintenance.
    Notice,
    /// Something else that proves time up or down.
    Evidence,
    /// Somebody asked for it.
    Asked,
}

impl JudgeReason {
    /// Every reason.
    pub const ALL: [Self; 7] = [
        Self::Hours,
        Self::Terms,
        Self::Assignment,
        Self::Session,
        Self::Notice,
        Self::Evidence,
        Self::Asked,
    ];

    /// Its name in the database.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Hours => "hours",
            Self::Terms => "terms",
            Self::Assignment => "assignment",
            Self::Session => "session",
            Self::Notice => "notice",
            Self::Evidence => "evidence",
            Self::Asked => "asked",
        }
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.name() == name)
    }
}

/// Hours of a lease that are to be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JudgeRow {
    /// The lease.
    pub lease: LeaseKey,
    /// The first hour that may have changed.
    pub from: Hour,
    /// The hour after the last one.
    pub to: Hour,
    /// Why.
    pub reason: JudgeReason,
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

/// Up to `limit` rows that wait, in the order of leases. Nothing is taken.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn list(tx: &mut Tx, limit: u32) -> Result<Vec<JudgeRow>, StoreError> {
    let rows = sqlx::query!(
        "select tenant_id, lease_id, from_hour, to_hour, reason from judge_work
        order by tenant_id, lease_id, reason limit $1",
        i64::from(limit)
    );
    let rows = rows.fetch_all(tx.connection()).await?;
    rows.into_iter()
        .map(|row| {
            Ok(JudgeRow {
                lease: LeaseKey::new(row.tenant_id, row.lease_id),
                from: Hour(i64::from(row.from_hour)),
                to: Hour(i64::from(row.to_hour)),
                reason: super::column::Column("judge_work", "reason")
                    .named(&row.reason, JudgeReason::from_name)?,
            })
        })
        .collect()
}

/// Takes everything of one lease out of the queue; the hours from the first to the last. `None`
/// when nothing of it waits, or another transaction writes or takes it at this moment. Rolled
/// back, it is in it again. Scope: worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn take(tx: &mut Tx, lease: LeaseKey) -> Result<Option<(Hour, Hour)>, StoreError> {
    let (tenant, lease) = lease.columns();
    let taken = sqlx::query!(
        r#"with taken as materialized (
            select tenant_id, lease_id, reason from judge_work
            where tenant_id = $1 and lease_id = $2 for update skip locked
        ), gone as (
            delete from judge_work w using taken t
            where w.tenant_id = t.tenant_id and w.lease_id = t.lease_id and w.reason = t.reason
            returning w.from_hour, w.to_hour
        )
        select min(from_hour) as "from_hour", max(to_hour) as "to_hour" from gone"#,
        tenant,
        lease
    );
    let taken = taken.fetch_one(tx.connection()).await?;
    let hours = taken.from_hour.zip(taken.to_hour);
    Ok(hours.map(|(from, to)| (Hour(i64::from(from)), Hour(i64::from(to)))))
}
