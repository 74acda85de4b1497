//! Claims: what a tenant files with its provider. A claim is written once, from proven intervals;
//! where it stands follows from its steps (`core::sla::claim`).

use leasewatch_core::id::{Hash, Slug};
use leasewatch_core::money::Money;
use leasewatch_core::sla::claim::{Claim, ClaimError, ClaimStep};
use leasewatch_core::time::{Period, Timestamp};

use super::column::{Column, fitted};
use super::lease::Written;
use super::{LeaseKey, StoreError, TenantKey, Tx};

/// What a claim is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimDraft {
    /// The objective of the contract that was missed.
    pub objective: Slug,
    /// What was down as one.
    pub unit: String,
    /// The window that was judged.
    pub window: Period,
    /// The verdict that it rests on.
    pub verdict: Hash,
    /// The profile, its version and the hash of its text.
    pub profile: (Slug, u32, Hash),
    /// Proven downtime that is claimed, in order.
    pub intervals: Vec<Period>,
    /// What is asked for.
    pub asked: Money,
    /// The last instant at which it is in time; `None` where the contract states none.
    pub deadline: Option<Timestamp>,
}

/// A stored claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRow {
    /// Its number within the tenant.
    pub number: i32,
    /// The lease.
    pub lease: LeaseKey,
    /// As it was drafted; the deadline as the last step left it.
    pub draft: ClaimDraft,
    /// Where it stands.
    pub claim: Claim,
    /// How many steps it took.
    pub steps: u32,
    /// When it was drafted.
    pub written_at: Timestamp,
    /// The provider's words, where it answered.
    pub answer: Option<String>,
}

struct Row {
    claim_id: i32,
    lease_id: i32,
    objective: String,
    unit: String,
    starts_at: i64,
    ends_at: i64,
    verdict_hash: Vec<u8>,
    profile: String,
    profile_version: i32,
    profile_hash: Vec<u8>,
    intervals: String,
    asked: String,
    currency: String,
    deadline_at: Option<i64>,
    written_at: i64,
}

struct StepRow {
    claim_id: i32,
    step: String,
    at: i64,
    amount: Option<String>,
    answer: Option<String>,
    deadline_at: Option<i64>,
}

/// Stores a draft; returns its number. Scope: the tenant.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn insert(
    tx: &mut Tx,
    lease: LeaseKey,
    draft: &ClaimDraft,
    written: Written<'_>,
) -> Result<i32, StoreError> {
    let (tenant, lease) = lease.columns();
    let intervals: Vec<(i64, i64)> = draft.intervals.iter().map(|p| (p.start.0, p.end.0)).collect();
    let intervals =
        serde_json::to_string(&intervals).map_err(|error| column("intervals").wrong(error))?;
    let (profile, version, profile_hash) = &draft.profile;
    let number = sqlx::query_scalar!(
        "insert into claim (tenant_id, lease_id, objective, unit, starts_at, ends_at, verdict_hash,
            profile, profile_version, profile_hash, intervals, asked, currency, deadline_at,
            written_at, written_by)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::text::jsonb, $12, $13, $14, $15, $16)
        returning claim_id",
        tenant,
        lease,
        draft.objective.as_str(),
        draft.unit,
        draft.window.start.0,
        draft.window.end.0,
        &draft.verdict.0[..],
        profile.as_str(),
        fitted::<_, i32>(*version, "version")?,
        &profile_hash.0[..],
        intervals,
        draft.asked.amount_text(),
        draft.asked.currency.as_str(),
        draft.deadline.map(|at| at.0),
        written.at.0,
        written.by
    );
    Ok(number.fetch_one(tx.connection()).await?)
}

/// Takes a step that the claim allows. Two people who take one at once cannot both. Scope: the
/// tenant.
///
/// # Errors
/// [`StoreError::Constraint`] when another step came first.
pub async fn take(
    tx: &mut Tx,
    row: &ClaimRow,
    (step, at, deadline): (&ClaimStep, Timestamp, Option<Timestamp>),
    written: Written<'_>,
) -> Result<Result<(), ClaimError>, StoreError> {
    if let Err(error) = row.claim.step(step.clone(), at) {
        return Ok(Err(error));
    }
    let (name, amount, answer) = match step {
        ClaimStep::Notify => ("notify", None, None),
        ClaimStep::File => ("file", None, None),
        ClaimStep::Accept(money) => ("accept", Some(money.amount_text()), written.reason),
        ClaimStep::Refuse(reason) => ("refuse", None, Some(reason.as_str())),
    };
    let (tenant, _) = row.lease.columns();
    sqlx::query!(
        "insert into claim_step (tenant_id, claim_id, ordinal, step, at, amount, answer, deadline_at,
            written_at, written_by)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
        tenant,
        row.number,
        fitted::<_, i32>(row.steps.saturating_add(1), "number of steps")?,
        name,
        at.0,
        amount,
        answer,
        deadline.map(|at| at.0),
        written.at.0,
        written.by
    )
    .execute(tx.connection())
    .await?;
    Ok(Ok(()))
}

/// The claims of a tenant, or of one lease of it, the latest first.
///
/// # Errors
/// [`StoreError::Inconsistent`] for steps that do not follow each other.
pub async fn list(
    tx: &mut Tx,
    tenant: TenantKey,
    only: Option<LeaseKey>,
) -> Result<Vec<ClaimRow>, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        r#"select claim_id, lease_id, objective, unit, starts_at, ends_at, verdict_hash, profile,
            profile_version, profile_hash, intervals::text as "intervals!", asked, currency,
            deadline_at, written_at
        from claim where tenant_id = $1 and ($2::int is null or lease_id = $2)
        order by claim_id desc"#,
        tenant.number(),
        only.map(|lease| lease.columns().1)
    )
    .fetch_all(tx.connection())
    .await?;
    let steps = sqlx::query_as!(
        StepRow,
        "select s.claim_id, s.step, s.at, s.amount, s.answer, s.deadline_at
        from claim_step s join claim c using (tenant_id, claim_id)
        where s.tenant_id = $1 and ($2::int is null or c.lease_id = $2)
        order by s.claim_id, s.ordinal",
        tenant.number(),
        only.map(|lease| lease.columns().1)
    )
    .fetch_all(tx.connection())
    .await?;
    rows.into_iter()
        .map(|row| {
            let own: Vec<&StepRow> = steps.iter().filter(|s| s.claim_id == row.claim_id).collect();
            stored(tenant, row, &own)
        })
        .collect()
}

fn stored(tenant: TenantKey, row: Row, steps: &[&StepRow]) -> Result<ClaimRow, StoreError> {
    let currency = column("currency").parsed(&row.currency)?;
    let money =
        |text: &str| Money::parse(text, currency).map_err(|error| column("asked").wrong(error));
    let intervals: Vec<(i64, i64)> =
        serde_json::from_str(&row.intervals).map_err(|error| column("intervals").wrong(error))?;
    let asked = money(&row.asked)?;
    let mut claim = Claim::draft(asked);
    let mut deadline = row.deadline_at;
    let mut answer = None;
    for taken in steps {
        let step = match (taken.step.as_str(), &taken.amount, &taken.answer) {
            ("notify", None, _) => ClaimStep::Notify,
            ("file", None, _) => ClaimStep::File,
            ("accept", Some(amount), _) => ClaimStep::Accept(money(amount)?),
            ("refuse", None, Some(reason)) => ClaimStep::Refuse(reason.clone()),
            _ => return Err(Column("claim_step", "step").wrong("does not fit its amount")),
        };
        claim = claim
            .step(step, Timestamp(taken.at))
            .map_err(|error| Column("claim_step", "step").wrong(error))?;
        deadline = taken.deadline_at.or(deadline);
        answer = taken.answer.clone().or(answer);
    }
    Ok(ClaimRow {
        number: row.claim_id,
        lease: LeaseKey::new(tenant.number(), row.lease_id),
        draft: ClaimDraft {
            objective: column("objective").parsed(&row.objective)?,
            unit: row.unit,
            window: Period::new(Timestamp(row.starts_at), Timestamp(row.ends_at)),
            verdict: Hash(column("verdict_hash").array(&row.verdict_hash)?),
            profile: (
                column("profile").parsed(&row.profile)?,
                column("profile_version").number(row.profile_version)?,
                Hash(column("profile_hash").array(&row.profile_hash)?),
            ),
            intervals: intervals
                .into_iter()
                .map(|(start, end)| Period::new(Timestamp(start), Timestamp(end)))
                .collect(),
            asked,
            deadline: deadline.map(Timestamp),
        },
        claim,
        steps: u32::try_from(steps.len()).unwrap_or(u32::MAX),
        written_at: Timestamp(row.written_at),
        answer,
    })
}

fn column(name: &'static str) -> Column {
    Column("claim", name)
}
