//! What people tell about a lease that no agent can know: the provider's maintenance notices, its
//! own records of outages, and the tenant's stops. A row that was wrong is withdrawn, never changed.
//! What was written or withdrawn is given to [`judge_work`] in the same transaction.

use leasewatch_core::availability::{
    DownCause, DownEvidence, EvidenceClass, EvidenceSource, Exclusion, ExclusionCause, Ground,
};
use leasewatch_core::id::{Hash, clean_text};
use leasewatch_core::time::{Period, Timestamp};

use super::column::Column;
use super::judge_work::{self, JudgeReason};
use super::lease::Written;
use super::{LeaseKey, StoreError, Tx};

/// Characters of a text that stand for it where evidence is listed.
const SOURCE_CHARS: usize = 200;

/// Maintenance that the provider announced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoticeRow {
    /// Its number within the tenant.
    pub number: i32,
    /// What was announced.
    pub period: Period,
    /// When it came.
    pub received_at: Timestamp,
    /// The text as it was received.
    pub body: String,
    /// SHA-256 of the text.
    pub hash: Hash,
}

/// An outage as the provider itself states it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordRow {
    /// Its number within the tenant.
    pub number: i32,
    /// When it says that something was down.
    pub period: Period,
    /// What.
    pub cause: DownCause,
    /// Where it is written.
    pub source: String,
    /// The text as it was read.
    pub body: String,
    /// SHA-256 of the text.
    pub hash: Hash,
}

/// Time that the tenant takes out of the account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopRow {
    /// Its number within the tenant.
    pub number: i32,
    /// When.
    pub period: Period,
    /// Why.
    pub kind: StopKind,
    /// In the tenant's words.
    pub reason: Option<String>,
}

/// Why a tenant takes time out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopKind {
    /// The instance was off.
    Stopped,
    /// Own maintenance.
    Maintenance,
    /// A clause of the profile, by its id.
    Other(String),
}

impl NoticeRow {
    /// As the rule of availability takes it.
    #[must_use]
    pub fn exclusion(&self) -> Exclusion {
        let (notice, received_at) = (self.hash, self.received_at);
        let cause = ExclusionCause::ProviderMaintenanceAnnounced { notice, received_at };
        Exclusion { period: self.period, cause }
    }
}

impl RecordRow {
    /// As the rule of availability takes it.
    #[must_use]
    pub fn evidence(&self) -> DownEvidence {
        let ground = Ground { class: EvidenceClass::E5, cause: self.cause };
        let source = EvidenceSource { hash: self.hash, text: self.source.clone() };
        DownEvidence { period: self.period, ground, source }
    }
}

impl StopRow {
    /// As the rule of availability takes it.
    #[must_use]
    pub fn exclusion(&self) -> Exclusion {
        let cause = match &self.kind {
            StopKind::Stopped => ExclusionCause::TenantStopped,
            StopKind::Maintenance => ExclusionCause::TenantMaintenance,
            StopKind::Other(clause) => ExclusionCause::Other(clause.clone()),
        };
        Exclusion { period: self.period, cause }
    }
}

impl StopKind {
    fn columns(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Stopped => ("stopped", None),
            Self::Maintenance => ("maintenance", None),
            Self::Other(clause) => ("other", Some(clause)),
        }
    }
}

/// Stores a notice; returns its number. Scope: the tenant.
///
/// # Errors
/// [`StoreError::Constraint`] for an empty text or period.
pub async fn insert(
    tx: &mut Tx,
    lease: LeaseKey,
    (period, received_at, body): (Period, Timestamp, &str),
    written: Written<'_>,
) -> Result<i32, StoreError> {
    judge_work::add(tx, lease, period, (JudgeReason::Notice, written.at)).await?;
    let (tenant, lease) = lease.columns();
    let number = sqlx::query_scalar!(
        "insert into notice (tenant_id, lease_id, starts_at, ends_at, received_at, body, hash,
            written_at, written_by)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9) returning notice_id",
        tenant,
        lease,
        period.start.0,
        period.end.0,
        received_at.0,
        body,
        &Hash::of(body.as_bytes()).0[..],
        written.at.0,
        written.by
    );
    Ok(number.fetch_one(tx.connection()).await?)
}

/// Stores a provider's record; returns its number. Scope: the tenant.
///
/// # Errors
/// [`StoreError::Constraint`] for an empty text or period.
pub async fn insert_record(
    tx: &mut Tx,
    lease: LeaseKey,
    (period, cause, source, body): (Period, DownCause, &str, &str),
    written: Written<'_>,
) -> Result<i32, StoreError> {
    judge_work::add(tx, lease, period, (JudgeReason::Evidence, written.at)).await?;
    let (tenant, lease) = lease.columns();
    let number = sqlx::query_scalar!(
        "insert into provider_record (tenant_id, lease_id, starts_at, ends_at, cause, source, body,
            hash, written_at, written_by)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) returning record_id",
        tenant,
        lease,
        period.start.0,
        period.end.0,
        cause.name(),
        clean_text(source, SOURCE_CHARS),
        body,
        &Hash::of(body.as_bytes()).0[..],
        written.at.0,
        written.by
    );
    Ok(number.fetch_one(tx.connection()).await?)
}

/// Stores a stop; returns its number. Scope: the tenant.
///
/// # Errors
/// [`StoreError::Constraint`] for an empty period.
pub async fn insert_stop(
    tx: &mut Tx,
    lease: LeaseKey,
    (period, kind, reason): (Period, &StopKind, Option<&str>),
    written: Written<'_>,
) -> Result<i32, StoreError> {
    judge_work::add(tx, lease, period, (JudgeReason::Notice, written.at)).await?;
    let (tenant, lease) = lease.columns();
    let (kind, clause) = kind.columns();
    let number = sqlx::query_scalar!(
        "insert into tenant_stop (tenant_id, lease_id, starts_at, ends_at, kind, clause, reason,
            written_at, written_by)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9) returning stop_id",
        tenant,
        lease,
        period.start.0,
        period.end.0,
        kind,
        clause,
        reason,
        written.at.0,
        written.by
    );
    Ok(number.fetch_one(tx.connection()).await?)
}

/// The notices of a lease that speak of `period`, by their start.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn notices(
    tx: &mut Tx,
    lease: LeaseKey,
    period: Period,
) -> Result<Vec<NoticeRow>, StoreError> {
    let (tenant, lease) = lease.columns();
    let rows = sqlx::query!(
        "select notice_id, starts_at, ends_at, received_at, body, hash from notice
        where tenant_id = $1 and lease_id = $2 and withdrawn_at is null
            and starts_at < $4 and ends_at > $3
        order by starts_at, notice_id",
        tenant,
        lease,
        period.start.0,
        period.end.0
    )
    .fetch_all(tx.connection())
    .await?;
    let notices = rows.into_iter().map(|row| {
        Ok(NoticeRow {
            number: row.notice_id,
            period: Period::new(Timestamp(row.starts_at), Timestamp(row.ends_at)),
            received_at: Timestamp(row.received_at),
            body: row.body,
            hash: Hash(Column("notice", "hash").array(&row.hash)?),
        })
    });
    notices.collect()
}

/// The provider's records about a lease that speak of `period`, by their start.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn records(
    tx: &mut Tx,
    lease: LeaseKey,
    period: Period,
) -> Result<Vec<RecordRow>, StoreError> {
    let (tenant, lease) = lease.columns();
    let rows = sqlx::query!(
        "select record_id, starts_at, ends_at, cause, source, body, hash from provider_record
        where tenant_id = $1 and lease_id = $2 and withdrawn_at is null
            and starts_at < $4 and ends_at > $3
        order by starts_at, record_id",
        tenant,
        lease,
        period.start.0,
        period.end.0
    )
    .fetch_all(tx.connection())
    .await?;
    let records = rows.into_iter().map(|row| {
        Ok(RecordRow {
            number: row.record_id,
            period: Period::new(Timestamp(row.starts_at), Timestamp(row.ends_at)),
            cause: Column("provider_record", "cause").named(&row.cause, DownCause::from_name)?,
            source: row.source,
            body: row.body,
            hash: Hash(Column("provider_record", "hash").array(&row.hash)?),
        })
    });
    records.collect()
}

/// The tenant's stops of a lease that speak of `period`, by their start.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn stops(
    tx: &mut Tx,
    lease: LeaseKey,
    period: Period,
) -> Result<Vec<StopRow>, StoreError> {
    let (tenant, lease) = lease.columns();
    let rows = sqlx::query!(
        "select stop_id, starts_at, ends_at, kind, clause, reason from tenant_stop
        where tenant_id = $1 and lease_id = $2 and withdrawn_at is null
            and starts_at < $4 and ends_at > $3
        order by starts_at, stop_id",
        tenant,
        lease,
        period.start.0,
        period.end.0
    )
    .fetch_all(tx.connection())
    .await?;
    let stops = rows.into_iter().map(|row| {
        let kind = match (row.kind.as_str(), row.clause) {
            ("stopped", None) => StopKind::Stopped,
            ("maintenance", None) => StopKind::Maintenance,
            ("other", Some(clause)) => StopKind::Other(clause),
            _ => return Err(Column("tenant_stop", "kind").wrong("does not fit its clause")),
        };
        Ok(StopRow {
            number: row.stop_id,
            period: Period::new(Timestamp(row.starts_at), Timestamp(row.ends_at)),
            kind,
            reason: row.reason,
        })
    });
    stops.collect()
}

/// Which of the three a number is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// A notice.
    Notice,
    /// A provider's record.
    Record,
    /// A stop.
    Stop,
}

/// Withdraws a row, and has what it spoke of judged anew; returns the time that it spoke of, or `None` when there is no such row or it
/// was withdrawn before. Scope: the tenant.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn withdraw(
    tx: &mut Tx,
    lease: LeaseKey,
    (told, number): (Told, i32),
    at: Timestamp,
) -> Result<Option<Period>, StoreError> {
    let (tenant, lease_id) = lease.columns();
    let found = match told {
        Told::Notice => sqlx::query!(
            "update notice set withdrawn_at = $4 where tenant_id = $1 and lease_id = $2
                and notice_id = $3 and withdrawn_at is null returning starts_at, ends_at",
            tenant,
            lease_id,
            number,
            at.0
        )
        .fetch_optional(tx.connection())
        .await?
        .map(|row| (row.starts_at, row.ends_at)),
        Told::Record => sqlx::query!(
            "update provider_record set withdrawn_at = $4 where tenant_id = $1 and lease_id = $2
                and record_id = $3 and withdrawn_at is null returning starts_at, ends_at",
            tenant,
            lease_id,
            number,
            at.0
        )
        .fetch_optional(tx.connection())
        .await?
        .map(|row| (row.starts_at, row.ends_at)),
        Told::Stop => sqlx::query!(
            "update tenant_stop set withdrawn_at = $4 where tenant_id = $1 and lease_id = $2
                and stop_id = $3 and withdrawn_at is null returning starts_at, ends_at",
            tenant,
            lease_id,
            number,
            at.0
        )
        .fetch_optional(tx.connection())
        .await?
        .map(|row| (row.starts_at, row.ends_at)),
    };
    let told_of = found.map(|(start, end)| Period::new(Timestamp(start), Timestamp(end)));
    if let Some(period) = told_of {
        let reason = match told {
            Told::Notice | Told::Stop => JudgeReason::Notice,
            Told::Record => JudgeReason::Evidence,
        };
        judge_work::add(tx, lease, period, (reason, at)).await?;
    }
    Ok(told_of)
}
