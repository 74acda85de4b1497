//! `leasewatch-server bundle export`.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use leasewatch_core::evidence::bundle::BundleForm;
use leasewatch_core::id::Slug;
use leasewatch_core::time::{Period, Timestamp, Zone};

use super::{Request, Written};
use crate::clock::Clock;
use crate::config::{Database, ServeFlags, ServeOptions};
use crate::embedded_postgres::EmbeddedPostgres;
use crate::export::time;
use crate::identity::Identity;
use crate::serve::{DATABASE, LOGIN, open_database};
use crate::store::{Db, Scope, audit, tenant};

/// Evidence for somebody else.
#[derive(Debug, Subcommand)]
pub enum BundleCommand {
    /// Writes what was published about a time into one .zip, which `leasewatch-verify check` takes.
    ///
    /// The same request gives the same bytes, if --log-size says up to which state of the log.
    Export(Box<BundleFlags>),
}

/// What is exported.
#[derive(Debug, Args)]
pub struct BundleFlags {
    #[command(flatten)]
    serve: ServeFlags,
    /// The bundle; must not exist.
    file: PathBuf,
    /// The tenant.
    #[arg(long, value_name = "SLUG", default_value = "default")]
    tenant: Slug,
    /// The provider, for all of its nodes.
    #[arg(long, value_name = "SLUG", required_unless_present = "lease")]
    provider: Option<Slug>,
    /// A rental, by name; several of one provider may be named.
    #[arg(long, value_name = "NAME")]
    lease: Vec<Slug>,
    /// From here on.
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Timestamp,
    /// Before this.
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Timestamp,
    /// Every signed header of the time, not only those around claimed intervals.
    #[arg(long)]
    full: bool,
    /// The segments too, so that every hour can be computed again; with every header.
    #[arg(long)]
    with_raw: bool,
    /// Zone of the times in the report, an IANA name.
    #[arg(long, value_name = "ZONE", default_value = "UTC", value_parser = zone)]
    timezone: Zone,
    /// The state of the log by its number of leaves [default: the latest].
    #[arg(long, value_name = "LEAVES")]
    log_size: Option<u64>,
}

fn zone(name: &str) -> Result<Zone, String> {
    Zone::parse(name).map_err(|error| error.to_string())
}

/// Works beside a running server and without one.
///
/// # Errors
/// What is wrong, in words for the operator. No file is left then.
pub async fn run(command: BundleCommand) -> anyhow::Result<()> {
    let BundleCommand::Export(flags) = command;
    let options = ServeOptions::resolve(flags.serve.clone())?;
    let identity = Identity::of_server(&options.data_dir)?;
    let running = match options.database {
        Database::Own { .. } => EmbeddedPostgres::running_url(&options.data_dir, LOGIN, DATABASE),
        Database::External { .. } => None,
    };
    let written = match running {
        Some(url) => {
            let db = Db::connect(&url, 4).await.context("the running database does not answer")?;
            export(&db, &identity, &flags).await?
        }
        None => {
            let database = open_database(&options).await?;
            let written = export(&database.db, &identity, &flags).await;
            database.close().await?;
            written?
        }
    };
    println!(
        "wrote {}: {} hour statements and {} headers at {} leaves of the log\nsha256 {}",
        flags.file.display(),
        written.hours,
        written.heads,
        written.log_size,
        written.sha256
    );
    Ok(())
}

async fn export(db: &Db, identity: &Identity, flags: &BundleFlags) -> anyhow::Result<Written> {
    let form = match (flags.with_raw, flags.full) {
        (true, _) => BundleForm::Raw,
        (false, true) => BundleForm::Full,
        (false, false) => BundleForm::Small,
    };
    let request = Request {
        tenant: flags.tenant.clone(),
        provider: flags.provider.clone(),
        leases: flags.lease.clone(),
        window: Period::new(flags.from, flags.to),
        form,
        zone: flags.timezone,
        log_size: flags.log_size,
    };
    let written = super::write(db, identity, &request, &flags.file, |_| ()).await?;
    note(db, &request, &written).await?;
    Ok(written)
}

/// Taking evidence out is noted, with the hash of what was taken.
async fn note(db: &Db, request: &Request, written: &Written) -> anyhow::Result<()> {
    let mut tx = db.begin(Scope::Worker).await?;
    let tenant = tenant::by_slug(&mut tx, &request.tenant).await?.context("the tenant is gone")?;
    let leases: Vec<&str> = request.leases.iter().map(Slug::as_str).collect();
    let entry = audit::Entry {
        at: Clock::system().now(),
        tenant: Some(tenant.key),
        who: &audit::Who::command(),
        action: audit::Action::Exported,
        object: "evidence bundle",
        detail: &[
            ("rentals", leases.join(" ")),
            ("from", request.window.start.to_string()),
            ("to", request.window.end.to_string()),
            ("form", request.form.name().to_owned()),
            ("log_size", written.log_size.to_string()),
            ("sha256", written.sha256.to_string()),
        ],
    };
    audit::write(&mut tx, entry).await?;
    Ok(tx.commit().await?)
}
