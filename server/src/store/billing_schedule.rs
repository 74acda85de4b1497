//! Weekly rules by which leases run, one a lease. Their stretches become billing sessions, some days
//! ahead; a session that somebody entered stays, and the rule goes around it.

use leasewatch_core::availability::without;
use leasewatch_core::lease::{BillingSession, Schedule, SessionSource};
use leasewatch_core::time::{DAY_MS, Period, Timestamp, Zone};

use super::billing_session::{self, SessionFrom};
use super::column::Column;
use super::lease::{self, Written};
use super::{LeaseKey, StoreError, Tx};

/// How far ahead stretches become sessions.
const AHEAD_MS: i64 = 14 * DAY_MS;

/// A rule that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleRow {
    /// Its number within the tenant.
    pub number: i32,
    /// The lease.
    pub lease: LeaseKey,
    /// The rule.
    pub rule: Schedule,
    /// The zone of its times.
    pub zone: Zone,
    /// No session before.
    pub starts_at: Timestamp,
    /// Stretches that begin before this have become sessions.
    pub expanded_to: Timestamp,
}

struct Row {
    tenant_id: i32,
    schedule_id: i32,
    lease_id: i32,
    rule: String,
    zone: String,
    starts_at: i64,
    expanded_to: i64,
}

impl TryFrom<Row> for ScheduleRow {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let zone = Column("billing_schedule", "zone");
        Ok(Self {
            number: row.schedule_id,
            lease: LeaseKey::new(row.tenant_id, row.lease_id),
            rule: Column("billing_schedule", "rule").parsed(&row.rule)?,
            zone: Zone::parse(&row.zone).map_err(|error| zone.wrong(error))?,
            starts_at: Timestamp(row.starts_at),
            expanded_to: Timestamp(row.expanded_to),
        })
    }
}

/// The rule of a lease, if it has one.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn of_lease(tx: &mut Tx, lease: LeaseKey) -> Result<Option<ScheduleRow>, StoreError> {
    let (tenant, lease) = lease.columns();
    let row = sqlx::query_as!(
        Row,
        "select tenant_id, schedule_id, lease_id, rule, zone, starts_at, expanded_to
        from billing_schedule
        where tenant_id = $1 and lease_id = $2 and withdrawn_at is null",
        tenant,
        lease
    );
    row.fetch_optional(tx.connection()).await?.map(TryInto::try_into).transpose()
}

/// Every rule whose sessions do not reach far enough ahead. Scope: worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn due(tx: &mut Tx, now: Timestamp) -> Result<Vec<ScheduleRow>, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        "select tenant_id, schedule_id, lease_id, rule, zone, starts_at, expanded_to
        from billing_schedule where withdrawn_at is null and expanded_to < $1
        order by tenant_id, schedule_id",
        now.plus_ms(AHEAD_MS - DAY_MS).0
    );
    rows.fetch_all(tx.connection()).await?.into_iter().map(TryInto::try_into).collect()
}

/// Gives a lease a rule from an instant on, in place of the one that it has. Its sessions up to
/// some days ahead are written with it. Scope: the tenant.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn put(
    tx: &mut Tx,
    lease: LeaseKey,
    (rule, zone, starts_at): (&Schedule, Zone, Timestamp),
    written: Written<'_>,
) -> Result<(), StoreError> {
    end(tx, lease, starts_at, written).await?;
    let (tenant, lease_id) = lease.columns();
    let number = sqlx::query_scalar!(
        "insert into billing_schedule (tenant_id, lease_id, rule, zone, starts_at, expanded_to,
            written_at, written_by)
        values ($1, $2, $3, $4, $5, $5, $6, $7) returning schedule_id",
        tenant,
        lease_id,
        rule.to_string(),
        zone.name(),
        starts_at.0,
        written.at.0,
        written.by
    );
    let number = number.fetch_one(tx.connection()).await?;
    let rule = rule.clone();
    let row = ScheduleRow { number, lease, rule, zone, starts_at, expanded_to: starts_at };
    expand(tx, &row, written).await?;
    Ok(())
}

/// Ends the rule of a lease at an instant: sessions that follow from it and begin later are
/// withdrawn, one that runs then ends. False when there is none. Scope: the tenant.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn end(
    tx: &mut Tx,
    lease: LeaseKey,
    at: Timestamp,
    written: Written<'_>,
) -> Result<bool, StoreError> {
    let Some(row) = of_lease(tx, lease).await? else { return Ok(false) };
    let (tenant, _) = lease.columns();
    sqlx::query!(
        "update billing_schedule set withdrawn_at = $3
        where tenant_id = $1 and schedule_id = $2 and withdrawn_at is null",
        tenant,
        row.number,
        written.at.0
    )
    .execute(tx.connection())
    .await?;
    let known = billing_session::of_lease(tx, lease).await?;
    for session in known.iter().filter(|known| known.from.schedule == Some(row.number)) {
        let BillingSession { starts_at, ends_at, .. } = session.session;
        if ends_at.is_some_and(|end| end <= at) {
            continue;
        }
        billing_session::withdraw(tx, session, written).await?;
        if starts_at < at {
            let cut = BillingSession { ends_at: Some(at), ..session.session };
            // It was there until now, so nothing else can be.
            let _ = billing_session::put_from(tx, lease, (&cut, &session.from), written).await?;
        }
    }
    Ok(true)
}

/// Writes the sessions of a rule up to some days ahead; returns how many. Scope: the tenant, or
/// worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn expand(
    tx: &mut Tx,
    row: &ScheduleRow,
    written: Written<'_>,
) -> Result<u64, StoreError> {
    let Some(lease) = lease::by_key(tx, row.lease).await? else { return Ok(0) };
    let ends = [lease.terms.ends_at, lease.terms.auto_release_at].into_iter().flatten().min();
    let term = Period::new(lease.terms.starts_at, ends.unwrap_or(Timestamp::MAX));
    let horizon = written.at.plus_ms(AHEAD_MS).max(row.expanded_to);
    let whole = Period::new(row.starts_at, Timestamp::MAX).intersect(term);
    let known = billing_session::of_lease(tx, row.lease).await?;
    let taken: Vec<Period> = known
        .iter()
        .map(|known| {
            let end = known.session.ends_at.unwrap_or(Timestamp::MAX);
            Period::new(known.session.starts_at, end)
        })
        .collect();
    let is_first = row.expanded_to == row.starts_at;
    let mut added = 0;
    for stretch in row.rule.stretches(row.zone, Period::new(row.expanded_to, horizon)) {
        // One that began before has become a session, but for the one that the rule begins in.
        let is_new = (row.expanded_to..horizon).contains(&stretch.start) || is_first;
        let part = stretch.intersect(whole);
        if !is_new || stretch.start >= horizon || part.is_empty() {
            continue;
        }
        for free in without(&[part], &taken) {
            let session = BillingSession {
                starts_at: free.start,
                ends_at: Some(free.end),
                source: SessionSource::Schedule,
            };
            let from = SessionFrom { external_id: None, schedule: Some(row.number) };
            let put = billing_session::put_from(tx, row.lease, (&session, &from), written).await?;
            added += u64::from(put.is_ok());
        }
    }
    let (tenant, _) = row.lease.columns();
    sqlx::query!(
        "update billing_schedule set expanded_to = $3 where tenant_id = $1 and schedule_id = $2",
        tenant,
        row.number,
        horizon.0
    )
    .execute(tx.connection())
    .await?;
    Ok(added)
}
