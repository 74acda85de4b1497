//! From columns to a claim and its steps.

use leasewatch_core::id::Hash;
use leasewatch_core::money::Money;
use leasewatch_core::sla::claim::{Claim, ClaimStep};
use leasewatch_core::time::{Period, Timestamp};

use super::{ClaimDraft, ClaimRow, TakenStep};
use crate::store::column::Column;
use crate::store::{LeaseKey, StoreError};

pub(super) struct Row {
    pub(super) tenant_id: i32,
    pub(super) claim_id: i32,
    pub(super) lease_id: i32,
    pub(super) tenant: String,
    pub(super) lease_name: String,
    pub(super) objective: String,
    pub(super) unit: String,
    pub(super) starts_at: i64,
    pub(super) ends_at: i64,
    pub(super) verdict_hash: Vec<u8>,
    pub(super) profile: String,
    pub(super) profile_version: i32,
    pub(super) profile_hash: Vec<u8>,
    pub(super) intervals: String,
    pub(super) asked: String,
    pub(super) currency: String,
    pub(super) deadline_at: Option<i64>,
    pub(super) facts: Option<String>,
    pub(super) written_at: i64,
    pub(super) written_by: Option<String>,
}

pub(super) struct StepRow {
    pub(super) claim_id: i32,
    pub(super) step: String,
    pub(super) at: i64,
    pub(super) amount: Option<String>,
    pub(super) answer: Option<String>,
    pub(super) note: Option<String>,
    pub(super) deadline_at: Option<i64>,
    pub(super) written_at: i64,
    pub(super) written_by: Option<String>,
}

/// A claim with its steps taken one after another.
pub(super) fn stored(row: Row, steps: &[&StepRow]) -> Result<ClaimRow, StoreError> {
    let currency = column("currency").parsed(&row.currency)?;
    let money =
        |text: &str| Money::parse(text, currency).map_err(|error| column("asked").wrong(error));
    let asked = money(&row.asked)?;
    let mut claim = Claim::draft(asked);
    let mut deadline = row.deadline_at;
    let mut taken = Vec::new();
    for of in steps {
        let amount = of.amount.as_deref().map(money).transpose()?;
        let step = step(of, amount)?;
        claim = claim.step(step, Timestamp(of.at)).map_err(|error| STEP.wrong(error))?;
        deadline = of.deadline_at.or(deadline);
        taken.push(TakenStep {
            step: of.step.clone(),
            at: Timestamp(of.at),
            amount,
            answer: of.answer.clone(),
            note: of.note.clone(),
            written_at: Timestamp(of.written_at),
            written_by: of.written_by.clone(),
        });
    }
    let facts = row.facts.as_deref().map(serde_json::from_str).transpose();
    Ok(ClaimRow {
        number: row.claim_id,
        lease: LeaseKey::new(row.tenant_id, row.lease_id),
        tenant: Column("tenant", "slug").parsed(&row.tenant)?,
        lease_name: Column("lease", "name").parsed(&row.lease_name)?,
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
            intervals: intervals(&row.intervals)?,
            asked,
            deadline: deadline.map(Timestamp),
            facts: facts.map_err(|error| column("facts").wrong(error))?,
        },
        claim,
        steps: taken,
        written_at: Timestamp(row.written_at),
        written_by: row.written_by,
    })
}

const STEP: Column = Column("claim_step", "step");

fn step(of: &StepRow, amount: Option<Money>) -> Result<ClaimStep, StoreError> {
    Ok(match (of.step.as_str(), amount, &of.answer) {
        ("notify", None, _) => ClaimStep::Notify,
        ("file", None, _) => ClaimStep::File,
        ("accept", Some(amount), _) => ClaimStep::Accept(amount),
        ("refuse", None, Some(reason)) => ClaimStep::Refuse(reason.clone()),
        ("withdraw", None, _) => ClaimStep::Withdraw,
        _ => return Err(STEP.wrong("does not fit its amount")),
    })
}

fn intervals(text: &str) -> Result<Vec<Period>, StoreError> {
    let intervals: Vec<(i64, i64)> =
        serde_json::from_str(text).map_err(|error| column("intervals").wrong(error))?;
    let period = |(start, end)| Period::new(Timestamp(start), Timestamp(end));
    Ok(intervals.into_iter().map(period).collect())
}

pub(super) fn column(name: &'static str) -> Column {
    Column("claim", name)
}
