//! The demo fleet: whose it is, its leases, and taking it out again.
//!
//! It belongs to two tenants that rent from the same providers, so that what is kept apart can be
//! seen. `scripts/demo.sh` says which node is whose.

pub mod leases;
mod papers;

use anyhow::Context as _;
use clap::Subcommand;
use leasewatch_core::id::Slug;

use crate::config::{Database, ServeFlags, ServeOptions};
use crate::embedded_postgres::EmbeddedPostgres;
use crate::serve::{DATABASE, LOGIN, open_database};
use crate::store::{Db, Scope, tenant};

/// The demo fleet.
#[derive(Debug, Subcommand)]
pub enum DemoCommand {
    /// Writes leases for the nodes of the demo that are there, and the nights since the last time.
    Leases(ServeFlags),
    /// Removes every node of the demo's tenants with its hours. Refuses if one holds real data.
    Remove(ServeFlags),
}

/// Runs a command; what it did, in words.
///
/// # Errors
/// What is wrong, in words for the operator.
pub async fn command(command: DemoCommand) -> anyhow::Result<String> {
    Ok(match command {
        DemoCommand::Leases(flags) => {
            let (leases, changes) = leases::apply(&ServeOptions::resolve(flags)?).await?;
            format!("demo: {leases} rentals, {changes} changes")
        }
        DemoCommand::Remove(flags) => {
            let removed = remove(&ServeOptions::resolve(flags)?).await?;
            format!("removed {removed} demo nodes")
        }
    })
}

/// Public names of the tenants of simulated nodes.
pub const TENANTS: [&str; 2] = ["demo", "demo-team-b"];

/// Removes every node of [`TENANTS`]; returns how many. Works beside a running server and without
/// one.
///
/// # Errors
/// When the database cannot be opened, or a node of theirs holds data that is not simulated; then
/// nothing is removed.
pub async fn remove(options: &ServeOptions) -> anyhow::Result<u32> {
    on_database(options, async |db| remove_from(&db).await).await
}

async fn on_database<T>(
    options: &ServeOptions,
    work: impl AsyncFnOnce(Db) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let running = match options.database {
        Database::Own { .. } => EmbeddedPostgres::running_url(&options.data_dir, LOGIN, DATABASE),
        Database::External { .. } => None,
    };
    if let Some(url) = running {
        let db = Db::connect(&url, 1).await.context("the running database does not answer")?;
        return work(db).await;
    }
    let database = open_database(options).await?;
    let done = work(database.db.clone()).await;
    database.close().await?;
    done
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
