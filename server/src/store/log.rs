//! Logs of statements: their hashes in tiles and loose, their minutes and checkpoints.
//!
//! Rows are only added. The arithmetic of trees is `core::evidence::log::tree`'s; here is where its
//! hashes are kept: those of full tiles as one row, the others loose, and the root of each full tile
//! as a loose hash of the level above.

mod queue;
mod tree;

use leasewatch_core::evidence::chain::Checkpoint;
use leasewatch_core::evidence::log::checkpoint::LogOrigin;
use leasewatch_core::id::{Hash, Slug};
use leasewatch_core::time::{Period, Timestamp};

pub use queue::{
    Due, Window, due, oldest_head, take_heads, take_work, waiting_heads, waiting_work,
};
pub use tree::{append, hashes, leaves, range};

use super::column::{Column, fitted};
use super::{ProviderKey, StoreError, TenantKey, Tx};

/// The internal key of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogKey {
    pub(super) tenant: i32,
    pub(super) log: i32,
}

/// A log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogRow {
    /// Internal key.
    pub key: LogKey,
    /// Its tenant.
    pub tenant: Slug,
    /// Its provider.
    pub provider: Slug,
    /// From 1; a log that succeeds another has one more.
    pub generation: u32,
    /// Its name.
    pub origin: LogOrigin,
    /// The statement that it begins with, if it succeeds another.
    pub first_statement: Option<Vec<u8>>,
}

/// A state that was signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckpointRow {
    /// How many leaves, and the root over them.
    pub state: Checkpoint,
    /// When, by the server's clock.
    pub at: Timestamp,
    /// The signed note.
    pub note: String,
}

/// A minute statement with the leaves of its tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MinuteRow {
    /// Its start.
    pub at: Timestamp,
    /// Canonical bytes.
    pub statement: Vec<u8>,
    /// Leaves of heads, by node and sequence.
    pub heads: Vec<Hash>,
}

struct Row {
    tenant_id: i32,
    log_id: i32,
    tenant: String,
    provider: String,
    generation: i32,
    origin: String,
    first_statement: Option<Vec<u8>>,
}

impl TryFrom<Row> for LogRow {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let origin = Column("log", "origin");
        Ok(Self {
            key: LogKey { tenant: row.tenant_id, log: row.log_id },
            tenant: Column("tenant", "slug").parsed(&row.tenant)?,
            provider: Column("provider", "slug").parsed(&row.provider)?,
            generation: Column("log", "generation").number(row.generation)?,
            origin: origin.named(&row.origin, LogOrigin::from_text)?,
            first_statement: row.first_statement,
        })
    }
}

/// The log of a tenant and provider that goes on; `None` before its first leaf.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn current(
    tx: &mut Tx,
    tenant: TenantKey,
    provider: ProviderKey,
) -> Result<Option<LogRow>, StoreError> {
    let row = sqlx::query_as!(
        Row,
        "select l.tenant_id, l.log_id, t.slug as tenant, p.slug as provider, l.generation, l.origin,
            l.first_statement
        from log l join tenant t using (tenant_id) join provider p using (provider_id)
        where l.tenant_id = $1 and l.provider_id = $2 order by l.generation desc limit 1",
        tenant.number(),
        provider.0
    );
    row.fetch_optional(tx.connection()).await?.map(TryInto::try_into).transpose()
}

/// Every log that the scope may see, by tenant, provider and generation.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn list(tx: &mut Tx) -> Result<Vec<LogRow>, StoreError> {
    let rows = sqlx::query_as!(
        Row,
        "select l.tenant_id, l.log_id, t.slug as tenant, p.slug as provider, l.generation, l.origin,
            l.first_statement
        from log l join tenant t using (tenant_id) join provider p using (provider_id)
        order by t.slug, p.slug, l.generation"
    );
    rows.fetch_all(tx.connection()).await?.into_iter().map(TryInto::try_into).collect()
}

/// A log that begins.
#[derive(Debug, Clone, Copy)]
pub struct NewLog<'a> {
    /// Whose.
    pub tenant: TenantKey,
    /// About whose nodes.
    pub provider: ProviderKey,
    /// From 1.
    pub generation: u32,
    /// Its name.
    pub origin: &'a LogOrigin,
    /// What it begins with, from the second on.
    pub first_statement: Option<&'a [u8]>,
    /// Server time.
    pub at: Timestamp,
}

/// Begins a log. Scope: worker.
///
/// # Errors
/// [`StoreError::Constraint`] when there is one of that generation.
pub async fn open(tx: &mut Tx, new: NewLog<'_>) -> Result<(), StoreError> {
    sqlx::query!(
        "insert into log (tenant_id, provider_id, generation, origin, first_statement, opened_at)
        values ($1, $2, $3, $4, $5, $6)",
        new.tenant.number(),
        new.provider.0,
        fitted::<_, i32>(new.generation, "generation")?,
        new.origin.as_str(),
        new.first_statement,
        new.at.0
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// Stores a state that was signed. Scope: worker.
///
/// # Errors
/// [`StoreError::Constraint`] when there is one of that size.
pub async fn put_checkpoint(
    tx: &mut Tx,
    key: LogKey,
    row: &CheckpointRow,
) -> Result<(), StoreError> {
    sqlx::query!(
        "insert into log_checkpoint (tenant_id, log_id, size, root, at, note)
        values ($1, $2, $3, $4, $5, $6)",
        key.tenant,
        key.log,
        fitted::<_, i64>(row.state.size, "size of a log")?,
        &row.state.root.0,
        row.at.0,
        row.note
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// The state of `size` leaves that was signed, or the latest one; `None` where there is none.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn checkpoint(
    tx: &mut Tx,
    key: LogKey,
    size: Option<u64>,
) -> Result<Option<CheckpointRow>, StoreError> {
    let size = size.map(|size| fitted::<_, i64>(size, "size of a log")).transpose()?;
    let row = sqlx::query!(
        "select size, root, at, note from log_checkpoint
        where tenant_id = $1 and log_id = $2 and ($3::bigint is null or size = $3)
        order by size desc limit 1",
        key.tenant,
        key.log,
        size
    );
    let Some(row) = row.fetch_optional(tx.connection()).await? else { return Ok(None) };
    let root = Hash(Column("log_checkpoint", "root").array(&row.root)?);
    let size = Column("log_checkpoint", "size").number(row.size)?;
    let state = Checkpoint { size, root };
    Ok(Some(CheckpointRow { state, at: Timestamp(row.at), note: row.note }))
}

/// Stores a minute. Scope: worker.
///
/// # Errors
/// [`StoreError::Constraint`] when there is one at that time.
pub async fn put_minute(tx: &mut Tx, key: LogKey, row: &MinuteRow) -> Result<(), StoreError> {
    let heads: Vec<u8> = row.heads.iter().flat_map(|hash| hash.0).collect();
    sqlx::query!(
        "insert into log_minute (tenant_id, log_id, at, statement, heads)
        values ($1, $2, $3, $4, $5)",
        key.tenant,
        key.log,
        row.at.0,
        row.statement,
        heads
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// The start of the last minute in a log.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn last_minute(tx: &mut Tx, key: LogKey) -> Result<Option<Timestamp>, StoreError> {
    let at = sqlx::query_scalar!(
        "select at from log_minute where tenant_id = $1 and log_id = $2 order by at desc limit 1",
        key.tenant,
        key.log
    );
    Ok(at.fetch_optional(tx.connection()).await?.map(Timestamp))
}

/// Up to `limit` minutes of a log that begin in `period`, in order.
///
/// # Errors
/// [`StoreError::Inconsistent`] for hashes that are cut off.
pub async fn minutes(
    tx: &mut Tx,
    key: LogKey,
    period: Period,
    limit: u32,
) -> Result<Vec<MinuteRow>, StoreError> {
    let rows = sqlx::query!(
        "select at, statement, heads from log_minute
        where tenant_id = $1 and log_id = $2 and at >= $3 and at < $4 order by at limit $5",
        key.tenant,
        key.log,
        period.start.0,
        period.end.0,
        i64::from(limit)
    );
    let rows = rows.fetch_all(tx.connection()).await?;
    rows.into_iter()
        .map(|row| {
            let heads = tree::split(Column("log_minute", "heads"), &row.heads)?;
            Ok(MinuteRow { at: Timestamp(row.at), statement: row.statement, heads })
        })
        .collect()
}
