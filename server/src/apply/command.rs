//! `leasewatch-server apply` and `leasewatch-server leases`: on the server's database, beside a
//! running server or without one.

use std::io::Read as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use leasewatch_core::id::Slug;
use leasewatch_core::time::{Timestamp, Zone};

use super::table::{self, Mapping, TableKind};
use super::{Change, Document, Run, Verb, export, note};
use crate::clock::Clock;
use crate::config::{Database, ServeFlags, ServeOptions};
use crate::embedded_postgres::EmbeddedPostgres;
use crate::serve::{DATABASE, LOGIN, open_database};
use crate::store::audit::Who;
use crate::store::lease::{self, LeaseRow, Written};
use crate::store::{Db, Scope, TenantKey, tenant};

/// What `apply` is asked for.
#[derive(Debug, Args)]
pub struct Apply {
    /// TOML files; `-` is standard input.
    #[arg(short, long = "file", value_name = "FILE", required = true, num_args = 1..)]
    files: Vec<PathBuf>,
    /// The tenant that rents.
    #[arg(long, value_name = "SLUG", default_value = "default")]
    tenant: Slug,
    /// Say what would change, and store nothing.
    #[arg(long)]
    dry_run: bool,
    /// Why terms are corrected, for their history.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    reason: Option<String>,
    #[command(flatten)]
    serve: ServeFlags,
}

/// Leases.
#[derive(Debug, Subcommand)]
pub enum LeasesCommand {
    /// Lists leases of every tenant.
    List(Box<ServeFlags>),
    /// Prints everything of a tenant as a file for `apply`; applied at once, it changes nothing.
    Export {
        /// The tenant that rents.
        #[arg(long, value_name = "SLUG", default_value = "default")]
        tenant: Slug,
        #[command(flatten)]
        serve: Box<ServeFlags>,
    },
    /// Imports a CSV table of leases, one a row. Columns are known by their names, in English or
    /// Chinese.
    Import(Box<ImportTable>),
    /// Imports a CSV table of billing sessions, one a row.
    ImportSessions(Box<ImportTable>),
    /// Imports a CSV table of the tenant's own stops, one a row.
    ImportStops(Box<ImportTable>),
    /// Imports a CSV table of outages as the provider's own records state them, one a row.
    ImportRecords(Box<ImportTable>),
}

/// A table that is to be imported.
#[derive(Debug, Args)]
pub struct ImportTable {
    /// The table; `-` is standard input.
    file: PathBuf,
    /// The tenant that rents.
    #[arg(long, value_name = "SLUG", default_value = "default")]
    tenant: Slug,
    /// What columns hold whose names are not known, such as `name=Instance,price=Unit Price`.
    #[arg(long, value_name = "FIELD=COLUMN", value_delimiter = ',')]
    column: Vec<String>,
    /// Zone of times without one, an IANA name.
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = zone)]
    timezone: Zone,
    /// Store the rows that are right also when others are refused.
    #[arg(long)]
    partial: bool,
    /// Say what would change, and store nothing.
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    serve: ServeFlags,
}

fn reason(text: &str) -> Result<String, String> {
    let fits = (1..=200).contains(&text.chars().count());
    if fits { Ok(text.to_owned()) } else { Err("must be 1 to 200 characters".to_owned()) }
}

fn zone(name: &str) -> Result<Zone, String> {
    Zone::parse(name).map_err(|error| error.to_string())
}

/// Applies files.
///
/// # Errors
/// Everything that is wrong with them; then nothing is stored.
pub async fn apply(asked: Apply) -> anyhow::Result<()> {
    let documents = read(&asked.files)?;
    let options = ServeOptions::resolve(asked.serve)?;
    on_database(&options, async |db| {
        let tenant = tenant_key(&db, &asked.tenant).await?;
        let now = Clock::system().now();
        let mut tx = db.begin(Scope::Tenant(tenant)).await?;
        let written = Written { at: now, by: None, reason: asked.reason.as_deref() };
        let changes = match Run::new(&mut tx, tenant, written).apply(&documents).await? {
            Ok(changes) => changes,
            Err(refused) => {
                tx.rollback().await?;
                bail!("nothing was stored\n{}", lines(&refused));
            }
        };
        if asked.dry_run {
            tx.rollback().await?
        } else {
            note(&mut tx, tenant, (now, &Who::command()), &changes).await?;
            tx.commit().await?
        }
        print!("{}", report(&changes, asked.dry_run));
        Ok(())
    })
    .await
}

fn read(files: &[PathBuf]) -> anyhow::Result<Vec<Document>> {
    let (mut documents, mut refused) = (Vec::new(), Vec::new());
    for file in files {
        let (name, bytes) = bytes_of(file)?;
        let text = String::from_utf8(bytes).with_context(|| format!("{name}: is not UTF-8"))?;
        match Document::parse(&name, text) {
            Ok(document) => documents.push(document),
            Err(wrong) => refused.push(wrong),
        }
    }
    if refused.is_empty() {
        Ok(documents)
    } else {
        bail!("nothing was stored\n{}", lines(&refused))
    }
}

pub(super) fn bytes_of(file: &PathBuf) -> anyhow::Result<(String, Vec<u8>)> {
    let name = file.display().to_string();
    if name == "-" {
        let mut bytes = Vec::new();
        std::io::stdin().read_to_end(&mut bytes).context("cannot read standard input")?;
        return Ok(("standard input".to_owned(), bytes));
    }
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {name}"))?;
    Ok((name, bytes))
}

fn lines(all: &[impl ToString]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Changes line by line, and how many things stay as they are.
fn report(changes: &[Change], dry_run: bool) -> String {
    let told: Vec<_> = changes.iter().filter(|change| change.verb != Verb::Keep).collect();
    let changed: Vec<_> = told.iter().filter(|change| change.verb.is_change()).collect();
    let mut out: String = told.iter().map(|change| format!("{change}\n")).collect();
    let kept = changes.len() - told.len();
    let done = if dry_run { "would change" } else { "changed" };
    out.push_str(&format!("{done}: {}, unchanged: {kept}\n", changed.len()));
    out
}

/// Runs a command about leases.
///
/// # Errors
/// What is wrong, in words for the operator.
pub async fn leases(command: LeasesCommand) -> anyhow::Result<()> {
    match command {
        LeasesCommand::List(serve) => {
            let options = ServeOptions::resolve(*serve)?;
            let now = Clock::system().now();
            on_database(&options, async |db| {
                let mut tx = db.begin(Scope::Operator).await?;
                let rows = lease::list(&mut tx).await?;
                tx.commit().await?;
                rows.iter().for_each(|row| println!("{}", line(row, now)));
                Ok(())
            })
            .await
        }
        LeasesCommand::Export { tenant, serve } => {
            let options = ServeOptions::resolve(*serve)?;
            on_database(&options, async |db| {
                let key = tenant_key(&db, &tenant).await?;
                let mut tx = db.begin(Scope::Tenant(key)).await?;
                print!("{}", export(&mut tx).await?);
                Ok(tx.commit().await?)
            })
            .await
        }
        LeasesCommand::Import(asked) => import(*asked, TableKind::Leases).await,
        LeasesCommand::ImportSessions(asked) => import(*asked, TableKind::Sessions).await,
        LeasesCommand::ImportStops(asked) => import(*asked, TableKind::Stops).await,
        LeasesCommand::ImportRecords(asked) => import(*asked, TableKind::Records).await,
    }
}

/// `h100-train  research  acme  8 x H100  2026-08-01 to 2026-09-01  2.49 USD`.
fn line(row: &LeaseRow, now: Timestamp) -> String {
    let terms = &row.terms;
    let day = |at: Timestamp| at.to_string().chars().take(10).collect::<String>();
    let end = terms.ends_at.map_or("open".to_owned(), day);
    let price = terms.prices.iter().rev().find(|price| price.from <= now);
    let price = price.or(terms.prices.first());
    let price = price.map_or("no price".to_owned(), |price| {
        format!("{} per {}", price.amount, price.unit.name())
    });
    let (name, tenant, provider) = (&terms.name, &row.tenant, &terms.provider);
    let (count, model, start) = (terms.gpu_count, &terms.gpu_model, day(terms.starts_at));
    format!("{name}  {tenant}  {provider}  {count} x {model}  {start} to {end}  {price}")
}

async fn import(asked: ImportTable, kind: TableKind) -> anyhow::Result<()> {
    let (name, bytes) = bytes_of(&asked.file)?;
    let mapping = Mapping::parse(kind, &asked.column, asked.timezone);
    let mapping = mapping.map_err(anyhow::Error::msg)?;
    let options = ServeOptions::resolve(asked.serve)?;
    on_database(&options, async |db| {
        let tenant = tenant_key(&db, &asked.tenant).await?;
        let written = Written { at: Clock::system().now(), by: None, reason: None };
        let rows =
            table::read(&bytes, &mapping).map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
        let keep =
            if asked.dry_run { table::Keep::Nothing } else { table::Keep::of(asked.partial) };
        let who = Who::command();
        let outcome = table::store(&db, tenant, rows, (written, keep, &who)).await?;
        for refused in &outcome.refused {
            eprintln!("{name}:{}: {}", refused.line, refused.said());
        }
        print!("{}", report(&outcome.changes, !outcome.is_stored));
        if outcome.refused.is_empty() {
            return Ok(());
        }
        let count = outcome.refused.len();
        match outcome.is_stored {
            true => bail!("{count} rows were refused, see above; the others are stored"),
            false => bail!("{count} rows were refused, see above; nothing was stored"),
        }
    })
    .await
}

pub(super) async fn tenant_key(db: &Db, slug: &Slug) -> anyhow::Result<TenantKey> {
    let mut tx = db.begin(Scope::Operator).await?;
    let found = tenant::by_slug(&mut tx, slug).await?;
    tx.commit().await?;
    let row = found.with_context(|| {
        format!("there is no tenant {slug}; it is made with its first join string or node")
    })?;
    Ok(row.key)
}

pub(super) async fn on_database<T>(
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
