//! The demo fleet: whose it is, and taking it out again.
//!
//! It belongs to two tenants that rent from the same providers, so that what is kept apart can be
//! seen. `scripts/demo.sh` says which node is whose.

use anyhow::Context as _;
use leasewatch_core::id::Slug;

use crate::config::{Database, ServeOptions};
use crate::embedded_postgres::EmbeddedPostgres;
use crate::serve::{DATABASE, LOGIN, open_database};
use crate::store::{Db, Scope, tenant};

/// Public names of the tenants of simulated nodes.
pub const TENANTS: [&str; 2] = ["demo", "demo-team-b"];

/// Removes every node of [`TENANTS`]; returns how many. Works beside a running server and without
/// one.
///
/// # Errors
/// When the database cannot be opened, or a node of theirs holds data that is not simulated; then
/// nothing is removed.
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
    let mut tx = db.begin(Scope::Worker).await?;
    let mut removed = 0;
    for slug in TENANTS {
        if let Some(row) = tenant::by_slug(&mut tx, &Slug::new(slug)?).await? {
            removed += tenant::remove_simulated(&mut tx, row.key).await?;
        }
    }
    tx.commit().await?;
    Ok(removed)
}
