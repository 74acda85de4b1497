//! What tenants asked of providers. Scope of what writes: the tenant.

use leasewatch_core::id::Slug;
use leasewatch_core::time::Timestamp;

use super::column::Column;
use super::{ProviderKey, StoreError, TenantKey, Tx};

/// A ticket to store.
#[derive(Debug, Clone, Copy)]
pub struct NewTicket<'a> {
    /// Who asks.
    pub tenant: TenantKey,
    /// Whom.
    pub provider: ProviderKey,
    /// What about; 1 to 200 characters.
    pub subject: &'a str,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// What became of it so far.
    pub course: &'a Course,
    /// Now.
    pub at: Timestamp,
    /// Name of the user; `None` when nobody signed in.
    pub by: Option<&'a str>,
}

/// What became of a ticket.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Course {
    /// The provider's number of it.
    pub number: Option<String>,
    /// The first answer that was no receipt.
    pub answered_at: Option<Timestamp>,
    /// When it was mended.
    pub fixed_at: Option<Timestamp>,
    /// When hardware was replaced.
    pub replaced_at: Option<Timestamp>,
    /// What the provider said.
    pub answer: Option<String>,
    /// Why it happened, as the provider gave it.
    pub reason: Option<String>,
}

/// A stored ticket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TicketRow {
    /// Who asks.
    pub tenant: TenantKey,
    /// Its number in the tenant, which forms name it by.
    pub number: i32,
    /// Public name of the tenant.
    pub tenant_slug: Slug,
    /// Public name of the provider.
    pub provider: Slug,
    /// What about.
    pub subject: String,
    /// When it was opened.
    pub opened_at: Timestamp,
    /// What became of it.
    pub course: Course,
}

/// Stores a ticket. Scope: the tenant.
///
/// # Errors
/// [`StoreError`] of the database, also for an answer before the question.
pub async fn put(tx: &mut Tx, new: NewTicket<'_>) -> Result<(), StoreError> {
    let course = new.course;
    sqlx::query!(
        "insert into ticket (tenant_id, provider_id, subject, number, opened_at, answered_at,
            fixed_at, replaced_at, answer, reason, written_at, written_by)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        new.tenant.0,
        new.provider.0,
        new.subject,
        course.number,
        new.opened_at.0,
        course.answered_at.map(|at| at.0),
        course.fixed_at.map(|at| at.0),
        course.replaced_at.map(|at| at.0),
        course.answer,
        course.reason,
        new.at.0,
        new.by
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// Writes what became of a ticket; false when it is not there. Scope: the tenant.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn follow(
    tx: &mut Tx,
    tenant: TenantKey,
    number: i32,
    course: &Course,
) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "update ticket set number = $3, answered_at = $4, fixed_at = $5, replaced_at = $6,
            answer = $7, reason = $8
        where tenant_id = $1 and ticket_id = $2",
        tenant.0,
        number,
        course.number,
        course.answered_at.map(|at| at.0),
        course.fixed_at.map(|at| at.0),
        course.replaced_at.map(|at| at.0),
        course.answer,
        course.reason
    );
    Ok(done.execute(tx.connection()).await?.rows_affected() == 1)
}

/// Tickets, latest first.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn list(tx: &mut Tx) -> Result<Vec<TicketRow>, StoreError> {
    let rows = sqlx::query!(
        "select k.tenant_id, k.ticket_id, t.slug as tenant, p.slug as provider, k.subject, k.number,
            k.opened_at, k.answered_at, k.fixed_at, k.replaced_at, k.answer, k.reason
        from ticket k join tenant t using (tenant_id) join provider p using (provider_id)
        order by k.opened_at desc, k.ticket_id desc"
    );
    let rows = rows.fetch_all(tx.connection()).await?.into_iter();
    rows.map(|row| {
        Ok(TicketRow {
            tenant: TenantKey(row.tenant_id),
            number: row.ticket_id,
            tenant_slug: Column("tenant", "slug").parsed(&row.tenant)?,
            provider: Column("provider", "slug").parsed(&row.provider)?,
            subject: row.subject,
            opened_at: Timestamp(row.opened_at),
            course: Course {
                number: row.number,
                answered_at: row.answered_at.map(Timestamp),
                fixed_at: row.fixed_at.map(Timestamp),
                replaced_at: row.replaced_at.map(Timestamp),
                answer: row.answer,
                reason: row.reason,
            },
        })
    })
    .collect()
}
