//! Who rents nodes.

use leasewatch_core::id::Slug;

use super::column::{Column, fitted};
use super::{StoreError, Tx};

const SLUG: Column = Column("tenant", "slug");

/// The internal number of a tenant. It never leaves the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TenantKey(pub(super) i32);

impl TenantKey {
    pub(super) fn number(self) -> i32 {
        self.0
    }
}

/// A tenant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TenantRow {
    /// Internal number.
    pub key: TenantKey,
    /// Public name.
    pub slug: Slug,
    /// What people see.
    pub name: String,
}

struct Row {
    tenant_id: i32,
    slug: String,
    name: String,
}

impl TryFrom<Row> for TenantRow {
    type Error = StoreError;

    fn try_from(row: Row) -> Result<Self, StoreError> {
        let slug = SLUG.parsed(&row.slug)?;
        Ok(Self { key: TenantKey(row.tenant_id), slug, name: row.name })
    }
}

/// The tenant with this public name. Any scope; a tenant's own scope finds only itself.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn by_slug(tx: &mut Tx, slug: &Slug) -> Result<Option<TenantRow>, StoreError> {
    sqlx::query_as!(Row, "select tenant_id, slug, name from tenant where slug = $1", slug.as_str())
        .fetch_optional(tx.connection())
        .await?
        .map(TryInto::try_into)
        .transpose()
}

/// The tenant with this public name, made with `name` if there is none. Scope: ingest.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn ensure(tx: &mut Tx, slug: &Slug, name: &str) -> Result<TenantRow, StoreError> {
    // Looked for first: an insert that conflicts uses up a number all the same.
    if let Some(known) = by_slug(tx, slug).await? {
        return Ok(known);
    }
    sqlx::query!(
        "insert into tenant (slug, name) values ($1, $2) on conflict (slug) do nothing",
        slug.as_str(),
        name
    )
    .execute(tx.connection())
    .await?;
    by_slug(tx, slug).await?.ok_or_else(|| SLUG.wrong("vanished after its insert"))
}

/// Tenants that the scope may see, by public name.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn list(tx: &mut Tx) -> Result<Vec<TenantRow>, StoreError> {
    sqlx::query_as!(Row, "select tenant_id, slug, name from tenant order by slug")
        .fetch_all(tx.connection())
        .await?
        .into_iter()
        .map(TryInto::try_into)
        .collect()
}

/// Makes a tenant; `None` when there is one of that public name. Scope: auth.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn create(tx: &mut Tx, slug: &Slug, name: &str) -> Result<Option<TenantKey>, StoreError> {
    let made = sqlx::query_scalar!(
        "insert into tenant (slug, name) values ($1, $2) on conflict (slug) do nothing
        returning tenant_id",
        slug.as_str(),
        name
    );
    Ok(made.fetch_optional(tx.connection()).await?.map(TenantKey))
}

/// Gives a tenant another name; its public name stays. Scope: auth.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn rename(tx: &mut Tx, key: TenantKey, name: &str) -> Result<(), StoreError> {
    sqlx::query!("update tenant set name = $2 where tenant_id = $1", key.0, name)
        .execute(tx.connection())
        .await?;
    Ok(())
}

/// How many nodes each tenant has that the scope may see; those without one are left out.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn node_counts(tx: &mut Tx) -> Result<Vec<(TenantKey, i64)>, StoreError> {
    let rows = sqlx::query!(
        r#"select tenant_id, count(*) as "nodes!" from node group by tenant_id order by tenant_id"#
    );
    let rows = rows.fetch_all(tx.connection()).await?;
    Ok(rows.into_iter().map(|row| (TenantKey(row.tenant_id), row.nodes)).collect())
}

/// How many users have a role in each tenant; those without one are left out. Scope: auth.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn user_counts(tx: &mut Tx) -> Result<Vec<(TenantKey, i64)>, StoreError> {
    let rows = sqlx::query!(
        r#"select tenant_id, count(*) as "users!" from membership group by tenant_id order by tenant_id"#
    );
    let rows = rows.fetch_all(tx.connection()).await?;
    Ok(rows.into_iter().map(|row| (TenantKey(row.tenant_id), row.users)).collect())
}

/// Removes all nodes of a tenant with everything that hangs on them; the tenant stays. Returns how
/// many nodes that were. Scope: worker.
///
/// # Errors
/// [`StoreError::NotSimulated`] when one of its nodes has measured or imported data; then nothing
/// is removed.
pub async fn remove_simulated(tx: &mut Tx, tenant: TenantKey) -> Result<u32, StoreError> {
    let removed =
        sqlx::query_scalar!(r#"select leasewatch_remove_simulated($1) as "removed!""#, tenant.0)
            .fetch_one(tx.connection())
            .await?;
    fitted(removed, "number of removed nodes")
}
