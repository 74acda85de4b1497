//! Verdicts: whether an objective was kept in a window, as it was computed.
//!
//! Of a window that is over each change is a new revision with its reason, and no role can touch
//! one. A window that still runs has one row, which is replaced.

mod row;

use leasewatch_core::id::{Hash, Slug};
use leasewatch_core::money::Money;
use leasewatch_core::sla::Target;
use leasewatch_core::sla::claim_facts::{CreditDetail, OutageDetail};
use leasewatch_core::sla::profile::CreditForm;
use leasewatch_core::sla::verdict::Outcome;
use leasewatch_core::time::{Period, Timestamp};
use serde::{Deserialize, Serialize};

use super::column::fitted;
use super::judge_work::JudgeReason;
use super::{LeaseKey, StoreError, Tx};
use row::{Row, column};

/// Which of the two verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Basis {
    /// By the provider's profile.
    Contract,
    /// By own objectives.
    Quality,
}

impl Basis {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Contract, Self::Quality];

    /// `contract` or `quality`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Contract => "contract",
            Self::Quality => "quality",
        }
    }

    /// The one with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }
}

/// What is judged.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VerdictOf {
    /// By the contract or by own objectives.
    pub basis: Basis,
    /// The objective.
    pub objective: Slug,
    /// What is down or up as one: `lease`, a node's id, or `node/slot`.
    pub unit: String,
    /// The window.
    pub window: Period,
}

/// The profile that judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JudgedBy {
    /// Its name.
    pub id: Slug,
    /// Its version.
    pub version: u32,
    /// SHA-256 of its text.
    pub hash: Hash,
    /// Whether a person checked it.
    pub is_reviewed: bool,
}

/// Time of a unit in a window, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Figures {
    /// What downtime is divided by.
    pub whole_ms: i64,
    /// How much of it may be down; `None` without a target.
    pub allowed_ms: Option<i64>,
    /// Downtime as the contract counts it, by what is proven.
    pub proven_ms: i64,
    /// The same if all unknown time had been down.
    pub possible_ms: i64,
    /// Proven, and claimed before.
    pub claimed_ms: i64,
    /// As promised.
    pub up_ms: i64,
    /// Down.
    pub down_ms: i64,
    /// Not known.
    pub unknown_ms: i64,
    /// Not in the account.
    pub excluded_ms: i64,
}

/// What has no column of its own. Kept as JSON.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Details {
    /// Proven outages, in order.
    pub outages: Vec<OutageDetail>,
    /// What kept the verdict from being certain, the longest first: remedy and ms.
    pub lacks: Vec<(String, i64)>,
    /// Unknown time by cause, in ms.
    pub unknown_ms: Vec<(String, i64)>,
    /// How the credit came about.
    pub credit: CreditDetail,
}

/// A verdict as it is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judged {
    /// What it is about.
    pub of: VerdictOf,
    /// Whether the window was over.
    pub is_over: bool,
    /// The answer.
    pub outcome: Outcome,
    /// What was promised.
    pub target: Option<Target>,
    /// Sums.
    pub figures: Figures,
    /// The rest.
    pub details: Details,
    /// What is owed; an estimate where the profile was not reviewed.
    pub credit: Option<(Money, CreditForm)>,
    /// By what.
    pub by: JudgedBy,
}

/// A stored verdict.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerdictRow {
    /// What it says.
    pub judged: Judged,
    /// From 1.
    pub revision: u32,
    /// SHA-256 over what it says.
    pub hash: Hash,
    /// Why it was computed.
    pub reason: JudgeReason,
    /// When.
    pub computed_at: Timestamp,
}

impl Judged {
    /// Whether the contract was broken by what is proven: a target is missed, or single outages are
    /// paid for and there was one.
    #[must_use]
    pub fn is_owed(&self) -> bool {
        self.of.basis == Basis::Contract
            && match self.target {
                Some(_) => self.outcome == Outcome::Breached,
                None => self.figures.proven_ms > 0,
            }
    }

    /// SHA-256 over everything that it says.
    #[must_use]
    pub fn hash(&self) -> Hash {
        Hash::of(format!("leasewatch verdict 1\n{self:?}").as_bytes())
    }
}

/// Stores a verdict unless the last one says the same; returns whether it was written. A verdict
/// over a window that runs is replaced; one over a window that is over gets a revision. Scope:
/// worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn put(
    tx: &mut Tx,
    lease: LeaseKey,
    judged: &Judged,
    (reason, at): (JudgeReason, Timestamp),
) -> Result<bool, StoreError> {
    let last = last_of(tx, lease, &judged.of).await?;
    let hash = judged.hash();
    if last.as_ref().is_some_and(|last| last.hash == hash) {
        return Ok(false);
    }
    let revision = match &last {
        Some(last) if last.is_over => last.revision.saturating_add(1),
        Some(_) => {
            remove_running(tx, lease, &judged.of).await?;
            1
        }
        None => 1,
    };
    insert(tx, lease, judged, (revision, hash, reason, at)).await?;
    Ok(true)
}

struct Last {
    revision: i32,
    is_over: bool,
    hash: Hash,
}

async fn last_of(tx: &mut Tx, lease: LeaseKey, of: &VerdictOf) -> Result<Option<Last>, StoreError> {
    let (tenant, lease) = lease.columns();
    let row = sqlx::query!(
        "select revision, is_over, hash from verdict
        where tenant_id = $1 and lease_id = $2 and basis = $3 and objective = $4 and unit = $5
            and starts_at = $6 and ends_at = $7
        order by revision desc limit 1",
        tenant,
        lease,
        of.basis.name(),
        of.objective.as_str(),
        of.unit,
        of.window.start.0,
        of.window.end.0
    )
    .fetch_optional(tx.connection())
    .await?;
    row.map(|row| {
        let hash = Hash(column("hash").array(&row.hash)?);
        Ok(Last { revision: row.revision, is_over: row.is_over, hash })
    })
    .transpose()
}

async fn remove_running(tx: &mut Tx, lease: LeaseKey, of: &VerdictOf) -> Result<(), StoreError> {
    let (tenant, lease) = lease.columns();
    sqlx::query!(
        "delete from verdict where tenant_id = $1 and lease_id = $2 and basis = $3
            and objective = $4 and unit = $5 and starts_at = $6 and ends_at = $7 and not is_over",
        tenant,
        lease,
        of.basis.name(),
        of.objective.as_str(),
        of.unit,
        of.window.start.0,
        of.window.end.0
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

async fn insert(
    tx: &mut Tx,
    lease: LeaseKey,
    judged: &Judged,
    (revision, hash, reason, at): (i32, Hash, JudgeReason, Timestamp),
) -> Result<(), StoreError> {
    let (tenant, lease) = lease.columns();
    let details =
        serde_json::to_string(&judged.details).map_err(|error| column("details").wrong(error))?;
    let Judged { of, figures, by, credit, .. } = judged;
    sqlx::query!(
        "insert into verdict (tenant_id, lease_id, basis, objective, unit, starts_at, ends_at,
            revision, is_over, outcome, target_ppm, whole_ms, allowed_ms, proven_ms, possible_ms,
            claimed_ms, up_ms, down_ms, unknown_ms, excluded_ms, details, credit, currency,
            credit_form, profile, profile_version, profile_hash, is_reviewed, hash, reason,
            computed_at)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19,
            $20, $21::text::jsonb, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31)",
        tenant,
        lease,
        of.basis.name(),
        of.objective.as_str(),
        of.unit,
        of.window.start.0,
        of.window.end.0,
        revision,
        judged.is_over,
        judged.outcome.name(),
        judged.target.map(|target| fitted::<_, i32>(target.ppm(), "target")).transpose()?,
        figures.whole_ms,
        figures.allowed_ms,
        figures.proven_ms,
        figures.possible_ms,
        figures.claimed_ms,
        figures.up_ms,
        figures.down_ms,
        figures.unknown_ms,
        figures.excluded_ms,
        details,
        credit.as_ref().map(|(money, _)| money.amount_text()),
        credit.as_ref().map(|(money, _)| money.currency.as_str()),
        credit.as_ref().map(|(_, form)| form.name()),
        by.id.as_str(),
        fitted::<_, i32>(by.version, "version")?,
        &by.hash.0[..],
        by.is_reviewed,
        &hash.0[..],
        reason.name(),
        at.0
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// Every revision of a lease's verdicts whose window meets `period`, by basis, window, objective,
/// unit and number.
///
/// # Errors
/// [`StoreError::Inconsistent`] for a row that this program did not write.
pub async fn revisions(
    tx: &mut Tx,
    lease: LeaseKey,
    period: Period,
) -> Result<Vec<VerdictRow>, StoreError> {
    let (tenant, lease) = lease.columns();
    let rows = sqlx::query_as!(
        Row,
        r#"select tenant_id, lease_id, basis, objective, unit, starts_at, ends_at, revision, is_over, outcome, target_ppm,
            whole_ms, allowed_ms, proven_ms, possible_ms, claimed_ms, up_ms, down_ms, unknown_ms,
            excluded_ms, details::text as "details!", credit, currency, credit_form, profile,
            profile_version, profile_hash, is_reviewed, hash, reason, computed_at
        from verdict
        where tenant_id = $1 and lease_id = $2 and starts_at < $4 and ends_at > $3
        order by basis, starts_at, ends_at, objective, unit, revision"#,
        tenant,
        lease,
        period.start.0,
        period.end.0
    );
    rows.fetch_all(tx.connection()).await?.into_iter().map(TryInto::try_into).collect()
}

/// The last revision of each.
///
/// # Errors
/// As [`revisions`].
pub async fn current(
    tx: &mut Tx,
    lease: LeaseKey,
    period: Period,
) -> Result<Vec<VerdictRow>, StoreError> {
    let mut last: Vec<VerdictRow> = Vec::new();
    for row in revisions(tx, lease, period).await? {
        match last.last_mut() {
            Some(before) if before.judged.of == row.judged.of => *before = row,
            _ => last.push(row),
        }
    }
    Ok(last)
}

/// The last revision of every contract's verdict by which something is owed, of windows that end
/// after an instant, each with its lease.
///
/// # Errors
/// As [`revisions`].
pub async fn owed(
    tx: &mut Tx,
    after: Timestamp,
) -> Result<Vec<(LeaseKey, VerdictRow)>, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        r#"select v.tenant_id, v.lease_id, v.basis, v.objective, v.unit, v.starts_at, v.ends_at,
            v.revision, v.is_over, v.outcome, v.target_ppm, v.whole_ms, v.allowed_ms, v.proven_ms,
            v.possible_ms, v.claimed_ms, v.up_ms, v.down_ms, v.unknown_ms, v.excluded_ms,
            v.details::text as "details!", v.credit, v.currency, v.credit_form, v.profile,
            v.profile_version, v.profile_hash, v.is_reviewed, v.hash, v.reason, v.computed_at
        from verdict v
        where v.basis = 'contract'
            and (v.outcome = 'breached' or (v.target_ppm is null and v.proven_ms > 0))
            and v.ends_at > $1
            and not exists (select from verdict n
                where n.tenant_id = v.tenant_id and n.lease_id = v.lease_id and n.basis = v.basis
                    and n.objective = v.objective and n.unit = v.unit
                    and n.starts_at = v.starts_at and n.ends_at = v.ends_at
                    and n.revision > v.revision)
        order by v.tenant_id, v.lease_id, v.starts_at, v.objective, v.unit"#,
        after.0
    );
    let rows = rows.fetch_all(tx.connection()).await?.into_iter();
    rows.map(|row| Ok((LeaseKey::new(row.tenant_id, row.lease_id), row.try_into()?))).collect()
}
