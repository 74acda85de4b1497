//! From columns to a verdict.

use leasewatch_core::id::Hash;
use leasewatch_core::money::Money;
use leasewatch_core::sla::Target;
use leasewatch_core::sla::profile::CreditForm;
use leasewatch_core::sla::verdict::Outcome;
use leasewatch_core::time::{Period, Timestamp};

use super::{Basis, Figures, Judged, JudgedBy, VerdictOf, VerdictRow};
use crate::store::StoreError;
use crate::store::column::Column;
use crate::store::judge_work::JudgeReason;

pub(super) struct Row {
    pub(super) tenant_id: i32,
    pub(super) lease_id: i32,
    pub(super) basis: String,
    pub(super) objective: String,
    pub(super) unit: String,
    pub(super) starts_at: i64,
    pub(super) ends_at: i64,
    pub(super) revision: i32,
    pub(super) is_over: bool,
    pub(super) outcome: String,
    pub(super) target_ppm: Option<i32>,
    pub(super) whole_ms: i64,
    pub(super) allowed_ms: Option<i64>,
    pub(super) proven_ms: i64,
    pub(super) possible_ms: i64,
    pub(super) claimed_ms: i64,
    pub(super) up_ms: i64,
    pub(super) down_ms: i64,
    pub(super) unknown_ms: i64,
    pub(super) excluded_ms: i64,
    pub(super) details: String,
    pub(super) credit: Option<String>,
    pub(super) currency: Option<String>,
    pub(super) credit_form: Option<String>,
    pub(super) profile: String,
    pub(super) profile_version: i32,
    pub(super) profile_hash: Vec<u8>,
    pub(super) is_reviewed: bool,
    pub(super) hash: Vec<u8>,
    pub(super) reason: String,
    pub(super) computed_at: i64,
}

impl TryFrom<Row> for VerdictRow {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let target = row.target_ppm.map(|ppm| {
            u32::try_from(ppm)
                .ok()
                .and_then(Target::from_ppm)
                .ok_or_else(|| column("target_ppm").wrong("out of range"))
        });
        let credit = match (&row.credit, &row.currency, &row.credit_form) {
            (Some(amount), Some(currency), Some(form)) => {
                let money = Money::parse(amount, column("currency").parsed(currency)?)
                    .map_err(|error| column("credit").wrong(error))?;
                Some((money, column("credit_form").named(form, CreditForm::from_name)?))
            }
            _ => None,
        };
        let judged = Judged {
            of: VerdictOf {
                basis: column("basis").named(&row.basis, Basis::from_name)?,
                objective: column("objective").parsed(&row.objective)?,
                unit: row.unit,
                window: Period::new(Timestamp(row.starts_at), Timestamp(row.ends_at)),
            },
            is_over: row.is_over,
            outcome: column("outcome").named(&row.outcome, Outcome::from_name)?,
            target: target.transpose()?,
            figures: Figures {
                whole_ms: row.whole_ms,
                allowed_ms: row.allowed_ms,
                proven_ms: row.proven_ms,
                possible_ms: row.possible_ms,
                claimed_ms: row.claimed_ms,
                up_ms: row.up_ms,
                down_ms: row.down_ms,
                unknown_ms: row.unknown_ms,
                excluded_ms: row.excluded_ms,
            },
            details: serde_json::from_str(&row.details)
                .map_err(|error| column("details").wrong(error))?,
            credit,
            by: JudgedBy {
                id: column("profile").parsed(&row.profile)?,
                version: column("profile_version").number(row.profile_version)?,
                hash: Hash(column("profile_hash").array(&row.profile_hash)?),
                is_reviewed: row.is_reviewed,
            },
        };
        Ok(Self {
            judged,
            revision: column("revision").number(row.revision)?,
            hash: Hash(column("hash").array(&row.hash)?),
            reason: column("reason").named(&row.reason, JudgeReason::from_name)?,
            computed_at: Timestamp(row.computed_at),
        })
    }
}

pub(super) fn column(name: &'static str) -> Column {
    Column("verdict", name)
}
