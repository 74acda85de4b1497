//! Stretches that are billed of a pay-as-you-go lease. Scope of what writes: the tenant.
//!
//! Sessions of one lease do not overlap. A row that was wrong is withdrawn and stays.

use std::fmt;

use leasewatch_core::lease::{BillingSession, SessionSource};
use leasewatch_core::time::{Period, Timestamp};

use super::assignment::hold;
use super::column::Column;
use super::judge_work::{self, JudgeReason};
use super::lease::Written;
use super::{LeaseKey, StoreError, TenantKey, Tx};

/// The internal key of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BillingSessionKey {
    tenant: TenantKey,
    session: i32,
}

impl BillingSessionKey {
    /// The session of this number, which a form of this tenant names.
    #[must_use]
    pub fn new(tenant: TenantKey, number: i32) -> Self {
        Self { tenant, session: number }
    }

    /// Its number within the tenant, for forms.
    #[must_use]
    pub fn number(self) -> i32 {
        self.session
    }
}

/// A session that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRow {
    /// Internal key.
    pub key: BillingSessionKey,
    /// The lease.
    pub lease: LeaseKey,
    /// What counts.
    pub session: BillingSession,
    /// When it was written.
    pub written_at: Timestamp,
    /// Name of the user then; `None`: the command line.
    pub written_by: Option<String>,
    /// Where it comes from.
    pub from: SessionFrom,
}

/// Where a session comes from, beside its source; nothing for one that was entered by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionFrom {
    /// The provider's id of it.
    pub external_id: Option<String>,
    /// The rule that it follows from.
    pub schedule: Option<i32>,
}

/// Time that would be billed twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionOverlap(pub Period);

impl std::error::Error for SessionOverlap {}

impl fmt::Display for SessionOverlap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "starts_at: another session of the lease goes from {}", self.0.start)?;
        if self.0.end < Timestamp::MAX { write!(f, " to {}", self.0.end) } else { Ok(()) }
    }
}

struct Row {
    tenant_id: i32,
    session_id: i32,
    lease_id: i32,
    starts_at: i64,
    ends_at: Option<i64>,
    source: String,
    written_at: i64,
    written_by: Option<String>,
    external_id: Option<String>,
    schedule_id: Option<i32>,
}

impl TryFrom<Row> for SessionRow {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let source = Column("billing_session", "source");
        Ok(Self {
            key: BillingSessionKey::new(TenantKey(row.tenant_id), row.session_id),
            lease: LeaseKey::new(row.tenant_id, row.lease_id),
            session: BillingSession {
                starts_at: Timestamp(row.starts_at),
                ends_at: row.ends_at.map(Timestamp),
                source: source.named(&row.source, SessionSource::from_name)?,
            },
            written_at: Timestamp(row.written_at),
            written_by: row.written_by,
            from: SessionFrom { external_id: row.external_id, schedule: row.schedule_id },
        })
    }
}

fn period(session: &BillingSession) -> Period {
    Period::new(session.starts_at, session.ends_at.unwrap_or(Timestamp::MAX))
}

/// Sessions of a lease that count, in order of time.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn of_lease(tx: &mut Tx, lease: LeaseKey) -> Result<Vec<SessionRow>, StoreError> {
    let (tenant, lease) = lease.columns();
    let rows = sqlx::query_as!(
        Row,
        "select tenant_id, session_id, lease_id, starts_at, ends_at, source, written_at, written_by,
            external_id, schedule_id
        from billing_session where tenant_id = $1 and lease_id = $2 and withdrawn_at is null
        order by starts_at",
        tenant,
        lease
    );
    rows.fetch_all(tx.connection()).await?.into_iter().map(TryInto::try_into).collect()
}

/// Writes a session down. Refused, nothing is written.
///
/// # Errors
/// [`StoreError::Constraint`] for an end that is not behind the start.
pub async fn put(
    tx: &mut Tx,
    lease: LeaseKey,
    new: &BillingSession,
    written: Written<'_>,
) -> Result<Result<BillingSessionKey, SessionOverlap>, StoreError> {
    put_from(tx, lease, (new, &SessionFrom::default()), written).await
}

/// The same with where it comes from. Scope: the tenant, or worker.
///
/// # Errors
/// As [`put`].
pub async fn put_from(
    tx: &mut Tx,
    lease: LeaseKey,
    (new, from): (&BillingSession, &SessionFrom),
    written: Written<'_>,
) -> Result<Result<BillingSessionKey, SessionOverlap>, StoreError> {
    hold(tx, lease.tenant).await?;
    let known = of_lease(tx, lease).await?;
    let wanted = period(new);
    let other = known.iter().map(|row| period(&row.session));
    if let Some(other) = other.into_iter().find(|other| !other.intersect(wanted).is_empty()) {
        return Ok(Err(SessionOverlap(other)));
    }
    let (tenant, lease_id) = lease.columns();
    let made = sqlx::query_scalar!(
        "insert into billing_session (tenant_id, lease_id, starts_at, ends_at, source, written_at,
            written_by, external_id, schedule_id)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9) returning session_id",
        tenant,
        lease_id,
        new.starts_at.0,
        new.ends_at.map(|at| at.0),
        new.source.name(),
        written.at.0,
        written.by,
        from.external_id,
        from.schedule
    );
    let session = made.fetch_one(tx.connection()).await?;
    // The first session changes what is contracted beside it too.
    let changed =
        if known.is_empty() { Period::new(Timestamp::MIN, Timestamp::MAX) } else { wanted };
    judge_work::add(tx, lease, changed, (JudgeReason::Session, written.at)).await?;
    Ok(Ok(BillingSessionKey::new(lease.tenant, session)))
}

/// Ends a session that was running.
///
/// # Errors
/// [`StoreError::Constraint`] for an end that is not behind the start.
pub async fn end(
    tx: &mut Tx,
    row: &SessionRow,
    ends_at: Timestamp,
    written: Written<'_>,
) -> Result<(), StoreError> {
    sqlx::query!(
        "update billing_session set ends_at = $3
        where tenant_id = $1 and session_id = $2 and ends_at is null and withdrawn_at is null",
        row.key.tenant.0,
        row.key.session,
        ends_at.0
    )
    .execute(tx.connection())
    .await?;
    let changed = Period::new(ends_at, Timestamp::MAX);
    judge_work::add(tx, row.lease, changed, (JudgeReason::Session, written.at)).await
}

/// Withdraws a session that was wrong: it stays, and counts no longer.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn withdraw(
    tx: &mut Tx,
    row: &SessionRow,
    written: Written<'_>,
) -> Result<(), StoreError> {
    sqlx::query!(
        "update billing_session set withdrawn_at = $3
        where tenant_id = $1 and session_id = $2 and withdrawn_at is null",
        row.key.tenant.0,
        row.key.session,
        written.at.0
    )
    .execute(tx.connection())
    .await?;
    // Without the last session the whole term is contracted.
    let left = of_lease(tx, row.lease).await?;
    let changed = match left.is_empty() {
        true => Period::new(Timestamp::MIN, Timestamp::MAX),
        false => period(&row.session),
    };
    judge_work::add(tx, row.lease, changed, (JudgeReason::Session, written.at)).await
}
