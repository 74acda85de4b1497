//! Who supplies nodes. Global rows.

use leasewatch_core::id::Slug;

use super::column::Column;
use super::{StoreError, Tx};

const SLUG: Column = Column("provider", "slug");

/// The internal number of a provider. It never leaves the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProviderKey(pub(super) i32);

/// A provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderRow {
    /// Internal number.
    pub key: ProviderKey,
    /// Public name.
    pub slug: Slug,
    /// What people see.
    pub name: String,
}

struct Row {
    provider_id: i32,
    slug: String,
    name: String,
}

impl TryFrom<Row> for ProviderRow {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let slug = SLUG.parsed(&row.slug)?;
        Ok(Self { key: ProviderKey(row.provider_id), slug, name: row.name })
    }
}

/// The provider with this public name.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn by_slug(tx: &mut Tx, slug: &Slug) -> Result<Option<ProviderRow>, StoreError> {
    sqlx::query_as!(
        Row,
        "select provider_id, slug, name from provider where slug = $1",
        slug.as_str()
    )
    .fetch_optional(tx.connection())
    .await?
    .map(TryInto::try_into)
    .transpose()
}

/// The provider with this public name, made with `name` if there is none. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn ensure(tx: &mut Tx, slug: &Slug, name: &str) -> Result<ProviderRow, StoreError> {
    // Looked for first: an insert that conflicts uses up a number all the same.
    if let Some(known) = by_slug(tx, slug).await? {
        return Ok(known);
    }
    sqlx::query!(
        "insert into provider (slug, name) values ($1, $2) on conflict (slug) do nothing",
        slug.as_str(),
        name
    )
    .execute(tx.connection())
    .await?;
    by_slug(tx, slug).await?.ok_or_else(|| SLUG.wrong("vanished after its insert"))
}

/// All providers, by public name.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn list(tx: &mut Tx) -> Result<Vec<ProviderRow>, StoreError> {
    sqlx::query_as!(Row, "select provider_id, slug, name from provider order by slug")
        .fetch_all(tx.connection())
        .await?
        .into_iter()
        .map(TryInto::try_into)
        .collect()
}
