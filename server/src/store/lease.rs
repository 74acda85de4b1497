//! Leases and their terms. Scope of what writes: the tenant.
//!
//! Terms are corrected by a new revision, never changed. What was written is given to
//! [`judge_work`] in the same transaction.

use leasewatch_core::id::Slug;
use leasewatch_core::lease::LeaseTerms;
use leasewatch_core::time::{Period, Timestamp};

use super::assignment::{self, Overlap};
use super::column::{Column, fitted};
use super::judge_work::{self, JudgeReason};
use super::{StoreError, TenantKey, Tx, profile, provider};

const TERMS: Column = Column("lease_terms", "terms");

/// The internal key of a lease. It never leaves the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseKey {
    /// The tenant that rents.
    pub tenant: TenantKey,
    pub(super) lease: i32,
}

impl LeaseKey {
    pub(super) fn new(tenant_id: i32, lease_id: i32) -> Self {
        Self { tenant: TenantKey(tenant_id), lease: lease_id }
    }

    pub(super) fn columns(self) -> (i32, i32) {
        (self.tenant.0, self.lease)
    }
}

/// When, by whom and why something is written.
#[derive(Debug, Clone, Copy)]
pub struct Written<'a> {
    /// Now.
    pub at: Timestamp,
    /// Name of the user; `None`: the command line.
    pub by: Option<&'a str>,
    /// Why something is corrected, 1 to 200 characters.
    pub reason: Option<&'a str>,
}

/// A lease with its terms in one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseRow {
    /// Internal key.
    pub key: LeaseKey,
    /// Public name of the tenant.
    pub tenant: Slug,
    /// When the lease was first written down.
    pub created_at: Timestamp,
    /// From 1.
    pub revision: u32,
    /// What the contract says; without faults.
    pub terms: LeaseTerms,
    /// When this revision was written.
    pub written_at: Timestamp,
    /// Name of the user then; `None`: the command line.
    pub written_by: Option<String>,
    /// Why; `None` at revision 1 and where nobody said.
    pub reason: Option<String>,
}

/// Why terms are not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotWritten {
    /// Another lease of the tenant has the name.
    #[error("name: another lease has this name")]
    NameTaken,
    /// A lease is of one provider for its life.
    #[error("provider: a lease stays with its provider; write down another lease")]
    OtherProvider,
    /// There are no such clauses, or not in this version.
    #[error("profile: there is no SLA profile {0}@{1}")]
    NoProfile(Slug, u32),
    /// The new period would cover a slot twice.
    #[error("{0}")]
    Overlap(#[from] Overlap),
}

struct Row {
    tenant_id: i32,
    lease_id: i32,
    tenant: String,
    created_at: i64,
    revision: i32,
    /// JSON.
    terms: String,
    written_at: i64,
    written_by: Option<String>,
    reason: Option<String>,
}

impl TryFrom<Row> for LeaseRow {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        Ok(Self {
            key: LeaseKey::new(row.tenant_id, row.lease_id),
            tenant: Column("tenant", "slug").parsed(&row.tenant)?,
            created_at: Timestamp(row.created_at),
            revision: Column("lease_terms", "revision").number(row.revision)?,
            terms: serde_json::from_str(&row.terms).map_err(|error| TERMS.wrong(error))?,
            written_at: Timestamp(row.written_at),
            written_by: row.written_by,
            reason: row.reason,
        })
    }
}

/// The period of a lease; without an end, up to the last instant that is accepted.
#[must_use]
pub fn period(terms: &LeaseTerms) -> Period {
    Period::new(terms.starts_at, terms.ends_at.unwrap_or(Timestamp::MAX))
}

/// Leases that the scope may see with their last terms, by name.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn list(tx: &mut Tx) -> Result<Vec<LeaseRow>, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        r#"select l.tenant_id, l.lease_id, n.slug as tenant, l.created_at, t.revision,
            t.terms::text as "terms!", t.written_at, t.written_by, t.reason
        from lease l join tenant n using (tenant_id)
        join lease_terms t on t.tenant_id = l.tenant_id and t.lease_id = l.lease_id
        where t.revision = (select max(m.revision) from lease_terms m
            where m.tenant_id = l.tenant_id and m.lease_id = l.lease_id)
        order by l.name, l.tenant_id"#
    );
    rows.fetch_all(tx.connection()).await?.into_iter().map(TryInto::try_into).collect()
}

/// The lease of this name with its last terms. Not this scope's and not there are the same answer.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn by_name(
    tx: &mut Tx,
    tenant: TenantKey,
    name: &Slug,
) -> Result<Option<LeaseRow>, StoreError> {
    let found = sqlx::query_scalar!(
        "select lease_id from lease where tenant_id = $1 and name = $2",
        tenant.0,
        name.as_str()
    );
    match found.fetch_optional(tx.connection()).await? {
        Some(lease) => by_key(tx, LeaseKey { tenant, lease }).await,
        None => Ok(None),
    }
}

/// A lease by its internal key with its last terms.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn by_key(tx: &mut Tx, key: LeaseKey) -> Result<Option<LeaseRow>, StoreError> {
    Ok(revisions(tx, key).await?.pop())
}

/// A lease with each revision of its terms, the first first.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn revisions(tx: &mut Tx, key: LeaseKey) -> Result<Vec<LeaseRow>, StoreError> {
    let (tenant, lease) = key.columns();
    let rows = sqlx::query_as!(
        Row,
        r#"select l.tenant_id, l.lease_id, n.slug as tenant, l.created_at, t.revision,
            t.terms::text as "terms!", t.written_at, t.written_by, t.reason
        from lease l join tenant n using (tenant_id)
        join lease_terms t on t.tenant_id = l.tenant_id and t.lease_id = l.lease_id
        where l.tenant_id = $1 and l.lease_id = $2 order by t.revision"#,
        tenant,
        lease
    );
    rows.fetch_all(tx.connection()).await?.into_iter().map(TryInto::try_into).collect()
}

/// Writes a lease down. The terms have no faults; a provider that is not known is named here first.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn create(
    tx: &mut Tx,
    tenant: TenantKey,
    terms: &LeaseTerms,
    written: Written<'_>,
) -> Result<Result<LeaseKey, NotWritten>, StoreError> {
    if let Some(refused) = no_profile(tx, tenant, terms).await? {
        return Ok(Err(refused));
    }
    let provider = provider::ensure(tx, &terms.provider, terms.provider.as_str()).await?;
    let made = sqlx::query_scalar!(
        "insert into lease (tenant_id, name, provider_id, created_at) values ($1, $2, $3, $4)
        on conflict (tenant_id, name) do nothing returning lease_id",
        tenant.0,
        terms.name.as_str(),
        provider.key.0,
        written.at.0
    );
    let Some(lease) = made.fetch_optional(tx.connection()).await? else {
        return Ok(Err(NotWritten::NameTaken));
    };
    let key = LeaseKey { tenant, lease };
    insert(tx, key, (1, terms), written).await?;
    judge_work::add(tx, key, period(terms), (JudgeReason::Terms, written.at)).await?;
    Ok(Ok(key))
}

/// Corrects the terms of a lease, which may get another name by that. Returns the new revision.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn revise(
    tx: &mut Tx,
    before: &LeaseRow,
    terms: &LeaseTerms,
    written: Written<'_>,
) -> Result<Result<u32, NotWritten>, StoreError> {
    let key = before.key;
    assignment::hold(tx, key.tenant).await?;
    if terms.provider != before.terms.provider {
        return Ok(Err(NotWritten::OtherProvider));
    }
    // What was written before profiles were looked for stays as it is.
    if terms.profile != before.terms.profile
        && let Some(refused) = no_profile(tx, key.tenant, terms).await?
    {
        return Ok(Err(refused));
    }
    if terms.name != before.terms.name {
        if by_name(tx, key.tenant, &terms.name).await?.is_some() {
            return Ok(Err(NotWritten::NameTaken));
        }
        let (tenant, lease) = key.columns();
        sqlx::query!(
            "update lease set name = $3 where tenant_id = $1 and lease_id = $2",
            tenant,
            lease,
            terms.name.as_str()
        )
        .execute(tx.connection())
        .await?;
    }
    let revision = before.revision.saturating_add(1);
    insert(tx, key, (revision, terms), written).await?;
    if let Some(overlap) = assignment::overlap_of(tx, key).await? {
        return Ok(Err(overlap.into()));
    }
    let (old, new) = (period(&before.terms), period(terms));
    let changed = Period::new(old.start.min(new.start), old.end.max(new.end));
    judge_work::add(tx, key, changed, (JudgeReason::Terms, written.at)).await?;
    Ok(Ok(revision))
}

async fn no_profile(
    tx: &mut Tx,
    tenant: TenantKey,
    terms: &LeaseTerms,
) -> Result<Option<NotWritten>, StoreError> {
    let Some(named) = &terms.profile else { return Ok(None) };
    let is_there = profile::exists(tx, tenant, named).await?;
    Ok((!is_there).then(|| NotWritten::NoProfile(named.id.clone(), named.version)))
}

async fn insert(
    tx: &mut Tx,
    key: LeaseKey,
    (revision, terms): (u32, &LeaseTerms),
    written: Written<'_>,
) -> Result<(), StoreError> {
    let (tenant, lease) = key.columns();
    let json = serde_json::to_string(terms).map_err(|error| TERMS.wrong(error))?;
    let revision: i32 = fitted(revision, "revision")?;
    sqlx::query!(
        "insert into lease_terms (tenant_id, lease_id, revision, starts_at, ends_at, terms,
            written_at, written_by, reason)
        values ($1, $2, $3, $4, $5, $6::text::jsonb, $7, $8, $9)",
        tenant,
        lease,
        revision,
        terms.starts_at.0,
        terms.ends_at.map(|at| at.0),
        json,
        written.at.0,
        written.by,
        written.reason
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}
