//! `leasewatch-server tenant`: on the server's database, beside a running server or without one.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Subcommand;
use leasewatch_core::id::{Slug, clean_text};
use tokio::sync::mpsc;

use super::archive;
use crate::clock::Clock;
use crate::config::{Database, ServeFlags, ServeOptions};
use crate::embedded_postgres::EmbeddedPostgres;
use crate::serve::{DATABASE, LOGIN, open_database};
use crate::store::audit::{self, Action, Who};
use crate::store::tenant::{self, TenantRow};
use crate::store::{Db, Scope, StoreError};

/// Characters of a tenant's name.
pub const NAME_CHARACTERS_MAX: usize = 80;

/// Tenants.
#[derive(Debug, Subcommand)]
pub enum TenantCommand {
    /// Prints which tenants there are.
    List(Box<ServeFlags>),
    /// Makes a tenant.
    Create {
        /// Its public name: 1 to 40 of a-z, 0-9 and -. It is never changed.
        slug: Slug,
        /// What people see [default: the public name].
        #[arg(long, value_name = "TEXT")]
        name: Option<String>,
        #[command(flatten)]
        serve: Box<ServeFlags>,
    },
    /// Writes everything of a tenant into one .zip: a CSV file a table, with counts and hashes.
    Export {
        /// The tenant.
        slug: Slug,
        /// The archive; must not exist.
        file: PathBuf,
        #[command(flatten)]
        serve: Box<ServeFlags>,
    },
    /// Removes a tenant with all its nodes, hours and entries for good, sealed hours too. Refuses
    /// while nodes of it are connected; `nodes revoke` shuts them out.
    Remove {
        /// The tenant.
        slug: Slug,
        /// The tenant once more, so that nothing is removed by mistake.
        #[arg(long, value_name = "SLUG")]
        confirm: Slug,
        #[command(flatten)]
        serve: Box<ServeFlags>,
    },
}

/// Does it; progress goes to standard error.
///
/// # Errors
/// What is wrong, in words for the operator.
pub async fn run(command: TenantCommand) -> anyhow::Result<()> {
    match command {
        TenantCommand::List(serve) => on_database(*serve, async |db| list(&db).await).await,
        TenantCommand::Create { slug, name, serve } => {
            let name = clean_text(name.as_deref().unwrap_or(slug.as_str()), NAME_CHARACTERS_MAX);
            on_database(*serve, async |db| create(&db, &slug, &name).await).await
        }
        TenantCommand::Export { slug, file, serve } => {
            on_database(*serve, async |db| export(&db, &slug, &file).await).await
        }
        TenantCommand::Remove { slug, confirm, serve } => {
            if slug != confirm {
                bail!("--confirm {confirm} is not {slug}: nothing was removed");
            }
            on_database(*serve, async |db| remove(&db, &slug).await).await
        }
    }
}

async fn on_database(
    flags: ServeFlags,
    work: impl AsyncFnOnce(Db) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let options = ServeOptions::resolve(flags)?;
    let running = match options.database {
        Database::Own { .. } => EmbeddedPostgres::running_url(&options.data_dir, LOGIN, DATABASE),
        Database::External { .. } => None,
    };
    if let Some(url) = running {
        // An archive is read in one transaction while users are read in another.
        let db = Db::connect(&url, 2).await.context("the running database does not answer")?;
        return work(db).await;
    }
    let database = open_database(&options).await?;
    let done = work(database.db.clone()).await;
    database.close().await?;
    done
}

async fn found(db: &Db, slug: &Slug) -> anyhow::Result<TenantRow> {
    let mut tx = db.begin(Scope::Operator).await?;
    let row = tenant::by_slug(&mut tx, slug).await?;
    tx.commit().await?;
    row.with_context(|| format!("there is no tenant {slug}"))
}

async fn list(db: &Db) -> anyhow::Result<()> {
    let mut tx = db.begin(Scope::Operator).await?;
    let (tenants, nodes) = (tenant::list(&mut tx).await?, tenant::node_counts(&mut tx).await?);
    tx.commit().await?;
    for row in tenants {
        let nodes = nodes.iter().find(|(key, _)| *key == row.key).map_or(0, |(_, nodes)| *nodes);
        println!("{}\t{nodes} nodes\t{}", row.slug, row.name);
    }
    Ok(())
}

async fn create(db: &Db, slug: &Slug, name: &str) -> anyhow::Result<()> {
    let mut tx = db.begin(Scope::Auth).await?;
    let made = tenant::create(&mut tx, slug, name).await?;
    let key = made.with_context(|| format!("there is a tenant {slug} already"))?;
    let entry = audit::Entry {
        at: Clock::system().now(),
        tenant: Some(key),
        who: &Who::command(),
        action: Action::TenantMade,
        object: slug.as_str(),
        detail: &[("name", name.to_owned())],
    };
    audit::write(&mut tx, entry).await?;
    tx.commit().await?;
    println!("made tenant {slug}");
    Ok(())
}

async fn export(db: &Db, slug: &Slug, path: &Path) -> anyhow::Result<()> {
    let tenant = found(db, slug).await?;
    let mut file = File::create_new(path)
        .with_context(|| format!("{} cannot be made anew", path.display()))?;
    super::note_export(db, &tenant, (&Who::command(), Clock::system().now())).await?;
    let (pieces, mut taken) = mpsc::channel(4);
    let writing = archive::write(db, &tenant, pieces, |done| {
        eprintln!("{}: {} rows", done.file, done.rows);
    });
    let taking = async {
        while let Some(piece) = taken.recv().await {
            file.write_all(&piece)?;
        }
        file.sync_all()
    };
    let (written, kept) = tokio::join!(writing, taking);
    if written.is_err() || kept.is_err() {
        // Half an archive must not be taken for one.
        let _ = std::fs::remove_file(path);
    }
    let rows: u64 = written?.iter().map(|file| file.rows).sum();
    kept.with_context(|| format!("{} cannot be written", path.display()))?;
    println!("wrote {rows} rows of tenant {slug} to {}", path.display());
    Ok(())
}

async fn remove(db: &Db, slug: &Slug) -> anyhow::Result<()> {
    let tenant = found(db, slug).await?;
    let (who, at) = (Who::command(), Clock::system().now());
    let told = |done, total| eprintln!("{done} of {total} tables are empty");
    let removed = match super::remove(db, &tenant, (&who, at), told).await {
        Err(StoreError::Connected) => bail!(
            "nodes of tenant {slug} are connected: stop their agents, or shut them out with `nodes revoke`"
        ),
        other => other?,
    };
    for (table, rows) in &removed.tables {
        println!("{table}: {rows}");
    }
    println!("removed tenant {slug} with {} rows", removed.rows());
    Ok(())
}
