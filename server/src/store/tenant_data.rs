//! All rows of a tenant: reading them table by table, and removing them.
//!
//! Which tables there are is asked of the database, so that a new one is never forgotten. Reading
//! happens in the tenant's own scope, whose policies decide what is its own. Not here: files.

use std::pin::Pin;

use futures_util::{Stream, TryStreamExt as _};

use super::column::Column;
use super::tenant::TenantRow;
use super::{StoreError, TenantKey, Tx};

/// A table that holds rows of tenants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: String,
    /// The columns of its key, which its rows are sorted by.
    keys: String,
}

/// One row as a line of CSV, or the line with the names of the columns.
pub type Lines<'a> = Pin<Box<dyn Stream<Item = Result<Vec<u8>, StoreError>> + Send + 'a>>;

/// From here on the transaction sees what is there now, and nothing that comes later. The first
/// thing that is done in it.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn freeze(tx: &mut Tx) -> Result<(), StoreError> {
    sqlx::raw_sql("set transaction isolation level repeatable read")
        .execute(tx.connection())
        .await?;
    Ok(())
}

/// Tables that the scope reads, by name. Scope: tenant.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn tables(tx: &mut Tx) -> Result<Vec<Table>, StoreError> {
    let rows = sqlx::query!(
        r#"select t.name as "name!", (
            select string_agg(quote_ident(a.attname), ', ' order by k.place)
            from (
                select indkey from pg_index
                join pg_attribute l on l.attrelid = indrelid and l.attnum = indkey[0]
                where indrelid = t.name::regclass and indisunique and l.attname = 'tenant_id'
                order by indisprimary desc, indexrelid limit 1
            ) i, unnest(i.indkey) with ordinality k (number, place), pg_attribute a
            where a.attrelid = t.name::regclass and a.attnum = k.number
        ) as "keys!"
        from leasewatch_tenant_tables() t (name)
        where has_any_column_privilege(t.name, 'select') order by t.name"#
    );
    let rows = rows.fetch_all(tx.connection()).await?;
    Ok(rows.into_iter().map(|row| Table { name: row.name, keys: row.keys }).collect())
}

/// The rows of a table that the scope sees, by its key. Scope: tenant.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn rows<'a>(tx: &'a mut Tx, table: &Table) -> Result<Lines<'a>, StoreError> {
    let is_plain =
        table.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if !is_plain {
        return Err(Column("pg_class", "relname").wrong(&table.name));
    }
    let Table { name, keys } = table;
    let copy = format!(
        "copy (select * from public.{name} order by {keys}) to stdout with (format csv, header)"
    );
    let lines = tx.connection().copy_out_raw(&copy).await?;
    Ok(Box::pin(lines.map_ok(|line| line.to_vec()).map_err(StoreError::from)))
}

/// Who has a role in a tenant: names and roles. Scope: auth.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn members(tx: &mut Tx, tenant: TenantKey) -> Result<Vec<(String, String)>, StoreError> {
    let rows = sqlx::query!(
        "select u.name, m.role from membership m join app_user u using (user_id)
        where m.tenant_id = $1 order by u.name",
        tenant.0
    );
    let rows = rows.fetch_all(tx.connection()).await?;
    Ok(rows.into_iter().map(|row| (row.name, row.role)).collect())
}

/// Tables in an order in which they can be emptied. Scope: worker.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn order_of_removal(tx: &mut Tx) -> Result<Vec<String>, StoreError> {
    let names = sqlx::query_scalar!(r#"select t as "name!" from leasewatch_tenant_tables() t"#);
    Ok(names.fetch_all(tx.connection()).await?)
}

/// Removes the rows of a tenant from a table, sealed ones too; returns how many. Scope: worker.
///
/// # Errors
/// [`StoreError::Connected`] while one of its nodes is connected with a good key.
pub async fn remove(tx: &mut Tx, tenant: &TenantRow, table: &str) -> Result<i64, StoreError> {
    let removed = sqlx::query_scalar!(
        r#"select leasewatch_remove_tenant_rows($1, $2, $3) as "removed!""#,
        tenant.key.0,
        tenant.slug.as_str(),
        table
    );
    Ok(removed.fetch_one(tx.connection()).await?)
}
