//! Which lease covers which slot, from when to when. Scope of what writes: the tenant.
//!
//! A slot is covered by one lease at a time: what would cover it twice is refused by the name of
//! the other. An assignment that reaches beyond its lease's term is kept as it was entered, and
//! counts within the term alone. Rows that were wrong are withdrawn and stay.

mod overlap;

use leasewatch_core::id::{NodeId, SlotNo, Slug};
use leasewatch_core::lease::{Assignment, LeaseTerms};
use leasewatch_core::time::{Period, Timestamp};

use super::column::Column;
use super::judge_work::{self, JudgeReason};
use super::lease::Written;
use super::slot::{slot_column, slot_no};
use super::{LeaseKey, NodeKey, StoreError, TenantKey, Tx};

pub(super) use overlap::{hold, overlap_of};

pub use overlap::Overlap;

/// The most slots that are assigned at once where those are more than the lease has GPUs, and since
/// when; `None` where they never are.
#[must_use]
pub fn surplus(terms: &LeaseTerms, rows: &[AssignmentRow]) -> Option<(usize, Timestamp)> {
    let term = Period::new(terms.starts_at, terms.ends_at.unwrap_or(Timestamp::MAX));
    let counting = rows.iter().filter(|row| row.withdrawn_at.is_none());
    let periods: Vec<Period> = counting
        .map(|row| row.period().intersect(term))
        .filter(|period| !period.is_empty())
        .collect();
    let at_once = |at: Timestamp| periods.iter().filter(|period| period.contains(at)).count();
    let mut starts: Vec<Timestamp> = periods.iter().map(|period| period.start).collect();
    starts.sort_unstable();
    starts.dedup();
    let contracted = usize::try_from(terms.gpu_count).unwrap_or(usize::MAX);
    let all = starts.into_iter().map(|at| (at_once(at), at));
    all.filter(|(count, _)| *count > contracted)
        .max_by_key(|(count, at)| (*count, std::cmp::Reverse(*at)))
}

/// The internal key of an assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AssignmentKey {
    tenant: TenantKey,
    assignment: i32,
}

impl AssignmentKey {
    /// The assignment of this number, which a form of this tenant names.
    #[must_use]
    pub fn new(tenant: TenantKey, number: i32) -> Self {
        Self { tenant, assignment: number }
    }

    /// Its number within the tenant, for forms.
    #[must_use]
    pub fn number(self) -> i32 {
        self.assignment
    }
}

/// An assignment as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssignmentRow {
    /// Internal key.
    pub key: AssignmentKey,
    /// The lease.
    pub lease: LeaseKey,
    /// The node.
    pub node: NodeKey,
    /// What counts.
    pub assignment: Assignment,
    /// When it was written.
    pub written_at: Timestamp,
    /// Name of the user then; `None`: the command line.
    pub written_by: Option<String>,
    /// Since when it counts no longer.
    pub withdrawn_at: Option<Timestamp>,
    /// Why it was withdrawn.
    pub reason: Option<String>,
}

impl AssignmentRow {
    /// As it was entered; without an end, up to the last instant that is accepted.
    #[must_use]
    pub fn period(&self) -> Period {
        let Assignment { starts_at, ends_at, .. } = self.assignment;
        Period::new(starts_at, ends_at.unwrap_or(Timestamp::MAX))
    }
}

/// Slots that a lease is to cover.
#[derive(Debug, Clone, Copy)]
pub struct NewAssignment {
    /// The node.
    pub node: NodeKey,
    /// The slot; it may never have been seen.
    pub slot: SlotNo,
    /// From when.
    pub starts_at: Timestamp,
    /// Until when; `None`: as long as the lease. Later than the start.
    pub ends_at: Option<Timestamp>,
}

struct Row {
    tenant_id: i32,
    assignment_id: i32,
    lease_id: i32,
    node_id: i32,
    lease: String,
    public_id: Vec<u8>,
    slot_no: i16,
    starts_at: i64,
    ends_at: Option<i64>,
    written_at: i64,
    written_by: Option<String>,
    withdrawn_at: Option<i64>,
    reason: Option<String>,
}

impl TryFrom<Row> for AssignmentRow {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        Ok(Self {
            key: AssignmentKey::new(TenantKey(row.tenant_id), row.assignment_id),
            lease: LeaseKey::new(row.tenant_id, row.lease_id),
            node: NodeKey::new(row.tenant_id, row.node_id),
            assignment: Assignment {
                lease: lease_name(&row.lease)?,
                node: NodeId(Column("node", "public_id").array(&row.public_id)?),
                slot: slot_no(row.slot_no)?,
                starts_at: Timestamp(row.starts_at),
                ends_at: row.ends_at.map(Timestamp),
            },
            written_at: Timestamp(row.written_at),
            written_by: row.written_by,
            withdrawn_at: row.withdrawn_at.map(Timestamp),
            reason: row.reason,
        })
    }
}

fn lease_name(text: &str) -> Result<Slug, StoreError> {
    Column("lease", "name").parsed(text)
}

/// Assignments that the scope may see and that count, by lease, node, slot and start.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn list(tx: &mut Tx) -> Result<Vec<AssignmentRow>, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        "select a.tenant_id, a.assignment_id, a.lease_id, a.node_id, l.name as lease, n.public_id,
            a.slot_no, a.starts_at, a.ends_at, a.written_at, a.written_by, a.withdrawn_at, a.reason
        from assignment a join lease l using (tenant_id, lease_id)
        join node n using (tenant_id, node_id)
        where a.withdrawn_at is null
        order by a.tenant_id, l.name, n.name, a.node_id, a.slot_no, a.starts_at"
    );
    rows.fetch_all(tx.connection()).await?.into_iter().map(TryInto::try_into).collect()
}

/// Every assignment of a lease, withdrawn ones included, by node, slot and start.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn of_lease(tx: &mut Tx, lease: LeaseKey) -> Result<Vec<AssignmentRow>, StoreError> {
    let (tenant, lease) = lease.columns();
    let rows = sqlx::query_as!(
        Row,
        "select a.tenant_id, a.assignment_id, a.lease_id, a.node_id, l.name as lease, n.public_id,
            a.slot_no, a.starts_at, a.ends_at, a.written_at, a.written_by, a.withdrawn_at, a.reason
        from assignment a join lease l using (tenant_id, lease_id)
        join node n using (tenant_id, node_id)
        where a.tenant_id = $1 and a.lease_id = $2
        order by n.name, a.node_id, a.slot_no, a.starts_at, a.assignment_id",
        tenant,
        lease
    );
    rows.fetch_all(tx.connection()).await?.into_iter().map(TryInto::try_into).collect()
}

/// Assignments of a node's slots that count, by slot and start.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn of_node(tx: &mut Tx, node: NodeKey) -> Result<Vec<AssignmentRow>, StoreError> {
    let (tenant, node) = node.columns();
    let rows = sqlx::query_as!(
        Row,
        "select a.tenant_id, a.assignment_id, a.lease_id, a.node_id, l.name as lease, n.public_id,
            a.slot_no, a.starts_at, a.ends_at, a.written_at, a.written_by, a.withdrawn_at, a.reason
        from assignment a join lease l using (tenant_id, lease_id)
        join node n using (tenant_id, node_id)
        where a.tenant_id = $1 and a.node_id = $2 and a.withdrawn_at is null
        order by a.slot_no, a.starts_at",
        tenant,
        node
    );
    rows.fetch_all(tx.connection()).await?.into_iter().map(TryInto::try_into).collect()
}

/// Assigns a slot to a lease. Refused, it is to be rolled back.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn put(
    tx: &mut Tx,
    lease: LeaseKey,
    new: NewAssignment,
    written: Written<'_>,
) -> Result<Result<AssignmentKey, Overlap>, StoreError> {
    hold(tx, lease.tenant).await?;
    let (tenant, lease_id) = lease.columns();
    let made = sqlx::query_scalar!(
        "insert into assignment (tenant_id, lease_id, node_id, slot_no, starts_at, ends_at,
            written_at, written_by)
        values ($1, $2, $3, $4, $5, $6, $7, $8) returning assignment_id",
        tenant,
        lease_id,
        new.node.columns().1,
        slot_column(new.slot)?,
        new.starts_at.0,
        new.ends_at.map(|at| at.0),
        written.at.0,
        written.by
    );
    let key = AssignmentKey::new(lease.tenant, made.fetch_one(tx.connection()).await?);
    if let Some(overlap) = overlap_of(tx, lease).await? {
        return Ok(Err(overlap));
    }
    let changed = Period::new(new.starts_at, new.ends_at.unwrap_or(Timestamp::MAX));
    judge_work::add(tx, lease, changed, (JudgeReason::Assignment, written.at)).await?;
    Ok(Ok(key))
}

/// An assignment that counts, by its key, within the scope.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn by_key(tx: &mut Tx, key: AssignmentKey) -> Result<Option<AssignmentRow>, StoreError> {
    let row = sqlx::query_as!(
        Row,
        "select a.tenant_id, a.assignment_id, a.lease_id, a.node_id, l.name as lease, n.public_id,
            a.slot_no, a.starts_at, a.ends_at, a.written_at, a.written_by, a.withdrawn_at, a.reason
        from assignment a join lease l using (tenant_id, lease_id)
        join node n using (tenant_id, node_id)
        where a.tenant_id = $1 and a.assignment_id = $2 and a.withdrawn_at is null",
        key.tenant.0,
        key.assignment
    );
    row.fetch_optional(tx.connection()).await?.map(TryInto::try_into).transpose()
}

/// Ends an assignment that had no end.
///
/// # Errors
/// [`StoreError::Constraint`] for an end that is not behind the start.
pub async fn end(
    tx: &mut Tx,
    row: &AssignmentRow,
    ends_at: Timestamp,
    written: Written<'_>,
) -> Result<(), StoreError> {
    sqlx::query!(
        "update assignment set ends_at = $3
        where tenant_id = $1 and assignment_id = $2 and ends_at is null and withdrawn_at is null",
        row.key.tenant.0,
        row.key.assignment,
        ends_at.0
    )
    .execute(tx.connection())
    .await?;
    let changed = Period::new(ends_at, row.period().end);
    judge_work::add(tx, row.lease, changed, (JudgeReason::Assignment, written.at)).await
}

/// Withdraws an assignment that was wrong: it stays, and counts no longer.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn withdraw(
    tx: &mut Tx,
    row: &AssignmentRow,
    written: Written<'_>,
) -> Result<(), StoreError> {
    sqlx::query!(
        "update assignment set withdrawn_at = $3, reason = $4
        where tenant_id = $1 and assignment_id = $2 and withdrawn_at is null",
        row.key.tenant.0,
        row.key.assignment,
        written.at.0,
        written.reason
    )
    .execute(tx.connection())
    .await?;
    judge_work::add(tx, row.lease, row.period(), (JudgeReason::Assignment, written.at)).await
}
