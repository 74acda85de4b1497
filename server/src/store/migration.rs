//! Bringing the schema up to date, over a connection of the administrator.

use std::str::FromStr as _;

use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgConnection, PgPool, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection as _};

use super::StoreError;

static MIGRATOR: Migrator = sqlx::migrate!("../migrations");

/// Makes the database of `url` unless it is there. `url` is of a role that may create databases,
/// and the same server needs a database `postgres`.
///
/// # Errors
/// [`StoreError`] of the database.
pub async fn create_database(url: &str) -> Result<(), StoreError> {
    let target = PgConnectOptions::from_str(url)?;
    let name = target.get_database().unwrap_or("leasewatch").to_owned();
    let mut connection = PgConnection::connect_with(&target.database("postgres")).await?;
    let exists = sqlx::query_scalar!(
        r#"select exists (select from pg_database where datname = $1) as "exists!""#,
        name
    );
    if !exists.fetch_one(&mut connection).await? {
        let quoted = name.replace('"', "\"\"");
        let create = format!(r#"create database "{quoted}""#);
        sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut connection).await?;
    }
    connection.close().await?;
    Ok(())
}

/// Runs what is missing. Several servers may do so at once: one works, the others wait.
///
/// # Errors
/// [`StoreError::NewerSchema`] when the database is ahead of this program; [`StoreError::Standby`];
/// [`StoreError::Migration`] when a file does not run (nothing of it remains).
pub async fn migrate(url: &str) -> Result<(), StoreError> {
    let options = PgConnectOptions::from_str(url)?;
    let pool = PgPoolOptions::new().max_connections(1).connect_with(options).await?;
    let result = migrate_primary(&pool).await;
    pool.close().await;
    result
}

async fn migrate_primary(pool: &PgPool) -> Result<(), StoreError> {
    // The first statement of a migration would fail there, with another reason.
    let is_standby = sqlx::query_scalar!(r#"select pg_is_in_recovery() as "standby!""#);
    if is_standby.fetch_one(pool).await? {
        return Err(StoreError::Standby);
    }
    Ok(MIGRATOR.run(pool).await?)
}

/// The highest version that this program knows.
pub(super) fn newest_version() -> i64 {
    MIGRATOR.iter().map(|migration| migration.version).max().unwrap_or(0)
}
