//! Claims: what a tenant files with its provider. A claim is written once, from proven intervals;
//! where it stands follows from its steps (`core::sla::claim`).
//!
//! No interval is claimed twice ([`draft`]): whoever drafts one stands in line with whoever assigns
//! slots, and what an open or granted claim holds is refused.

mod row;

use leasewatch_core::id::{Hash, Slug};
use leasewatch_core::money::Money;
use leasewatch_core::sla::claim::{Claim, ClaimError, ClaimStep};
use leasewatch_core::sla::claim_facts::ClaimFacts;
use leasewatch_core::time::{Period, Timestamp};

use super::assignment::hold;
use super::column::fitted;
use super::lease::Written;
use super::{LeaseKey, StoreError, TenantKey, Tx};
use row::{Row, StepRow, column, stored};

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
    /// What its text is written from; `None` for one that was drafted before there was a text.
    pub facts: Option<ClaimFacts>,
}

/// A step that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TakenStep {
    /// `notify`, `file`, `accept`, `refuse` or `withdraw`.
    pub step: String,
    /// When it happened, as the tenant says.
    pub at: Timestamp,
    /// What the provider pays.
    pub amount: Option<Money>,
    /// The provider's words.
    pub answer: Option<String>,
    /// The tenant's: a ticket's number, to whom it went.
    pub note: Option<String>,
    /// When it was written down.
    pub written_at: Timestamp,
    /// Name of the user then; `None`: nobody was signed in, or the command line.
    pub written_by: Option<String>,
}

/// Part of what was to be claimed is held by another claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AlreadyClaimed {
    /// Its number.
    pub by: i32,
    /// The first interval that both hold.
    pub period: Period,
}

/// A stored claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRow {
    /// Its number within the tenant.
    pub number: i32,
    /// The lease.
    pub lease: LeaseKey,
    /// The public name of its tenant.
    pub tenant: Slug,
    /// The name of the lease.
    pub lease_name: Slug,
    /// As it was drafted; the deadline as the last step left it.
    pub draft: ClaimDraft,
    /// Where it stands.
    pub claim: Claim,
    /// Its steps, in order.
    pub steps: Vec<TakenStep>,
    /// When it was drafted.
    pub written_at: Timestamp,
    /// Name of the user then; `None`: nobody was signed in, or the command line.
    pub written_by: Option<String>,
}

impl ClaimRow {
    /// The provider's words, where it answered.
    #[must_use]
    pub fn answer(&self) -> Option<&str> {
        self.steps.iter().rev().find_map(|step| step.answer.as_deref())
    }
}

/// Stores a draft unless another claim holds some of its time; returns its number. Scope: the tenant.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn draft(
    tx: &mut Tx,
    lease: LeaseKey,
    new: &ClaimDraft,
    written: Written<'_>,
) -> Result<Result<i32, AlreadyClaimed>, StoreError> {
    hold(tx, lease.tenant).await?;
    for other in list(tx, lease.tenant, Some(lease)).await? {
        if !other.claim.state.holds() || !overlaps(&other.draft.unit, &new.unit) {
            continue;
        }
        let theirs = &other.draft.intervals;
        let both = new.intervals.iter().flat_map(|own| theirs.iter().map(|of| own.intersect(*of)));
        if let Some(period) = both.into_iter().find(|period| !period.is_empty()) {
            return Ok(Err(AlreadyClaimed { by: other.number, period }));
        }
    }
    Ok(Ok(insert(tx, lease, new, written).await?))
}

/// Whether two units hold a slot in common: `lease` holds all, a node holds its slots.
#[must_use]
pub fn overlaps(a: &str, b: &str) -> bool {
    let holds = |all: &str, part: &str| {
        all == "lease"
            || part.strip_prefix(all).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    holds(a, b) || holds(b, a)
}

async fn insert(
    tx: &mut Tx,
    lease: LeaseKey,
    draft: &ClaimDraft,
    written: Written<'_>,
) -> Result<i32, StoreError> {
    let (tenant, lease) = lease.columns();
    let intervals: Vec<(i64, i64)> = draft.intervals.iter().map(|p| (p.start.0, p.end.0)).collect();
    let intervals =
        serde_json::to_string(&intervals).map_err(|error| column("intervals").wrong(error))?;
    let facts = draft.facts.as_ref().map(serde_json::to_string).transpose();
    let facts = facts.map_err(|error| column("facts").wrong(error))?;
    let (profile, version, profile_hash) = &draft.profile;
    let number = sqlx::query_scalar!(
        "insert into claim (tenant_id, lease_id, objective, unit, starts_at, ends_at, verdict_hash,
            profile, profile_version, profile_hash, intervals, asked, currency, deadline_at,
            written_at, written_by, facts)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11::text::jsonb, $12, $13, $14, $15, $16,
            $17::text::jsonb)
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
        written.by,
        facts
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
    // What is written beside an answer is the provider's word, else the tenant's.
    let (name, amount, answer, note) = match step {
        ClaimStep::Notify => ("notify", None, None, written.reason),
        ClaimStep::File => ("file", None, None, written.reason),
        ClaimStep::Accept(money) => ("accept", Some(money.amount_text()), written.reason, None),
        ClaimStep::Refuse(reason) => ("refuse", None, Some(reason.as_str()), None),
        ClaimStep::Withdraw => ("withdraw", None, None, written.reason),
    };
    let (tenant, _) = row.lease.columns();
    sqlx::query!(
        "insert into claim_step (tenant_id, claim_id, ordinal, step, at, amount, answer, deadline_at,
            written_at, written_by, note)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
        tenant,
        row.number,
        fitted::<_, i32>(row.steps.len().saturating_add(1), "number of steps")?,
        name,
        at.0,
        amount,
        answer,
        deadline.map(|at| at.0),
        written.at.0,
        written.by,
        note
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
    let lease = only.map(|lease| lease.columns().1);
    select(tx, Wanted { tenant: Some(tenant.number()), lease, number: None }).await
}

/// Every claim that the scope may see, the latest first.
///
/// # Errors
/// As [`list`].
pub async fn all(tx: &mut Tx) -> Result<Vec<ClaimRow>, StoreError> {
    select(tx, Wanted::default()).await
}

/// The claim of this number. Not this scope's and not there are the same answer.
///
/// # Errors
/// As [`list`].
pub async fn by_number(tx: &mut Tx, number: i32) -> Result<Option<ClaimRow>, StoreError> {
    let wanted = Wanted { number: Some(number), ..Wanted::default() };
    Ok(select(tx, wanted).await?.pop())
}

/// What is looked for; `None` is anything.
#[derive(Debug, Clone, Copy, Default)]
struct Wanted {
    tenant: Option<i32>,
    lease: Option<i32>,
    number: Option<i32>,
}

async fn select(tx: &mut Tx, wanted: Wanted) -> Result<Vec<ClaimRow>, StoreError> {
    let Wanted { tenant, lease, number } = wanted;
    let rows = sqlx::query_as!(
        Row,
        r#"select c.tenant_id, c.claim_id, c.lease_id, t.slug as tenant, l.name as lease_name,
            c.objective, c.unit, c.starts_at, c.ends_at, c.verdict_hash, c.profile,
            c.profile_version, c.profile_hash, c.intervals::text as "intervals!", c.asked,
            c.currency, c.deadline_at, c.facts::text as facts, c.written_at, c.written_by
        from claim c join lease l using (tenant_id, lease_id) join tenant t using (tenant_id)
        where ($1::int is null or c.tenant_id = $1) and ($2::int is null or c.lease_id = $2)
            and ($3::int is null or c.claim_id = $3)
        order by c.claim_id desc"#,
        tenant,
        lease,
        number
    )
    .fetch_all(tx.connection())
    .await?;
    if rows.is_empty() {
        return Ok(Vec::new());
    }
    let steps = sqlx::query_as!(
        StepRow,
        "select s.claim_id, s.step, s.at, s.amount, s.answer, s.note, s.deadline_at, s.written_at,
            s.written_by
        from claim_step s join claim c using (tenant_id, claim_id)
        where ($1::int is null or s.tenant_id = $1) and ($2::int is null or c.lease_id = $2)
            and ($3::int is null or s.claim_id = $3)
        order by s.claim_id, s.ordinal",
        tenant,
        lease,
        number
    )
    .fetch_all(tx.connection())
    .await?;
    rows.into_iter()
        .map(|row| {
            let own: Vec<&StepRow> = steps.iter().filter(|s| s.claim_id == row.claim_id).collect();
            stored(row, &own)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::overlaps;

    #[test]
    fn a_lease_holds_its_nodes_and_a_node_its_slots() {
        for (a, b) in [("lease", "aa/1"), ("aa", "aa/1"), ("aa/1", "aa/1"), ("lease", "lease")] {
            assert!(overlaps(a, b) && overlaps(b, a), "{a} {b}");
        }
        for (a, b) in [("aa/1", "aa/2"), ("aa", "ab/1"), ("aa/1", "aa/11"), ("aa", "aab")] {
            assert!(!overlaps(a, b) && !overlaps(b, a), "{a} {b}");
        }
    }
}
