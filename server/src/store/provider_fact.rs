//! What people wrote down of providers. Global rows.

use leasewatch_core::id::Slug;
use leasewatch_core::provider_fact::{FactKind, FactType, FactValue};
use leasewatch_core::time::Timestamp;

use super::column::Column;
use super::{ProviderKey, StoreError, Tx};

/// A fact to store.
#[derive(Debug, Clone, Copy)]
pub struct NewFact<'a> {
    /// About whom.
    pub provider: ProviderKey,
    /// About what.
    pub kind: FactKind,
    /// The value, of the kind's type.
    pub value: &'a FactValue,
    /// Where it was read, or who said so; 1 to 400 characters.
    pub source: &'a str,
    /// When it was true.
    pub as_of: Timestamp,
    /// Now.
    pub at: Timestamp,
    /// Name of the user; `None` when nobody signed in.
    pub by: Option<&'a str>,
}

/// A stored fact.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FactRow {
    /// Its number, which forms name it by.
    pub number: i32,
    /// Public name of the provider.
    pub provider: Slug,
    /// About what.
    pub kind: FactKind,
    /// The value.
    pub value: FactValue,
    /// Its source.
    pub source: String,
    /// When it was true.
    pub as_of: Timestamp,
    /// When it was written down.
    pub written_at: Timestamp,
    /// By whom.
    pub written_by: Option<String>,
}

/// Stores a fact. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database, also for a value of another type than its kind's.
pub async fn put(tx: &mut Tx, new: NewFact<'_>) -> Result<(), StoreError> {
    let (text, bool, int) = match new.value {
        FactValue::Text(text) => (Some(text.as_str()), None, None),
        FactValue::Bool(is) => (None, Some(*is), None),
        FactValue::Int(number) => (None, None, Some(*number)),
    };
    sqlx::query!(
        "insert into provider_fact (provider_id, kind, value_text, value_bool, value_int, source,
            as_of, written_at, written_by)
        values ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        new.provider.0,
        new.kind.name(),
        text,
        bool,
        int,
        new.source,
        new.as_of.0,
        new.at.0,
        new.by
    )
    .execute(tx.connection())
    .await?;
    Ok(())
}

/// The latest fact of each provider and kind, by provider and kind; for texts, which can be
/// several (licences), all of them.
///
/// # Errors
/// [`StoreError::Inconsistent`] for a value of another type than its kind's.
pub async fn current(tx: &mut Tx) -> Result<Vec<FactRow>, StoreError> {
    let rows = sqlx::query!(
        "select f.provider_fact_id, p.slug, f.kind, f.value_text, f.value_bool, f.value_int,
            f.source, f.as_of, f.written_at, f.written_by
        from provider_fact f join provider p using (provider_id)
        where f.withdrawn_at is null
            and (f.value_text is not null or not exists (select from provider_fact n
                where n.provider_id = f.provider_id and n.kind = f.kind and n.withdrawn_at is null
                    and (n.as_of, n.provider_fact_id) > (f.as_of, f.provider_fact_id)))
        order by p.slug, f.kind, f.as_of, f.provider_fact_id"
    );
    let rows = rows.fetch_all(tx.connection()).await?.into_iter();
    rows.map(|row| {
        let kind = Column("provider_fact", "kind").named(&row.kind, FactKind::from_name)?;
        let value = match kind.value_type() {
            FactType::Text => row.value_text.map(FactValue::Text),
            FactType::Bool => row.value_bool.map(FactValue::Bool),
            FactType::Int => row.value_int.map(FactValue::Int),
        };
        let wrong = || Column("provider_fact", "value").wrong("is of another type than its kind");
        Ok(FactRow {
            number: row.provider_fact_id,
            provider: Column("provider", "slug").parsed(&row.slug)?,
            kind,
            value: value.ok_or_else(wrong)?,
            source: row.source,
            as_of: Timestamp(row.as_of),
            written_at: Timestamp(row.written_at),
            written_by: row.written_by,
        })
    })
    .collect()
}

/// Public names of providers of which every one of these kinds is known to be so: what "must have"
/// filters by. No kinds: every provider.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn having(tx: &mut Tx, kinds: &[FactKind]) -> Result<Vec<Slug>, StoreError> {
    let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
    let slugs = sqlx::query_scalar!(
        "select p.slug from provider p
        where not exists (select from unnest($1::text[]) wanted where not exists (
            select from provider_fact f
            where f.provider_id = p.provider_id and f.kind = wanted and f.withdrawn_at is null
                and f.value_bool is not false
                and (f.value_text is not null or not exists (select from provider_fact n
                    where n.provider_id = f.provider_id and n.kind = f.kind
                        and n.withdrawn_at is null
                        and (n.as_of, n.provider_fact_id) > (f.as_of, f.provider_fact_id)))))
        order by p.slug",
        &names as &[&str]
    );
    let slugs = slugs.fetch_all(tx.connection()).await?.into_iter();
    slugs.map(|slug| Column("provider", "slug").parsed(&slug)).collect()
}

/// Lets a fact count no longer; false when it did not. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn withdraw(tx: &mut Tx, number: i32, at: Timestamp) -> Result<bool, StoreError> {
    let done = sqlx::query!(
        "update provider_fact set withdrawn_at = $2
        where provider_fact_id = $1 and withdrawn_at is null",
        number,
        at.0
    );
    Ok(done.execute(tx.connection()).await?.rows_affected() == 1)
}
