//! Taking the demo fleet out again.

use anyhow::Context as _;
use leasewatch_core::id::Slug;

use crate::config::{Database, ServeOptions};
use crate::embedded_postgres::EmbeddedPostgres;
use crate::serve::{DATABASE, LOGIN, open_database};
use crate::store::{Db, Scope, tenant};

/// Removes every node of the tenant `demo`; returns how many. Works beside a running server and
/// without one.
///
/// # Errors
/// When the database cannot be opened, or a node of the tenant holds data that is not simulated.
pub async fn remove(options: &ServeOptions) -> anyhow::Result<u32> {
    let running = match options.database {
        Database::Own { .. } => EmbeddedPostgres::running_url(&options.data_dir, LOGIN, DATABASE),
        Database::External { .. } => None,
    };
    if let Some(url) = running {
        let db = Db::connect(&url, 1).await.context("the running database does not answer")?;
        return remove_from(&db).await;
    }
    let database = open_database(options).await?;
    let removed = remove_from(&database.db).await;
    database.close().await?;
    removed
}

async fn remove_from(db: &Db) -> anyhow::Result<u32> {
    let demo = Slug::new("demo")?;
    let mut tx = db.begin(Scope::Worker).await?;
    let Some(row) = tenant::by_slug(&mut tx, &demo).await? else { return Ok(0) };
    let removed = tenant::remove_simulated(&mut tx, row.key).await?;
    tx.commit().await?;
    Ok(removed)
}
