//! Bundles: what is handed to somebody who checks it without this server.
//!
//! A bundle is a pure function of what is asked for and of the log up to a size: hours, minutes and
//! heads are read in one snapshot of the database, each is looked for in the log, and what was
//! published later is left out. What is neither in the log nor waiting for it was written past the
//! log: there is no bundle then. Files are first written beside the bundle, one line at a time, so
//! memory grows only with the hashes of what is shown.
//!
//! The layout is `docs/EVIDENCE.md`, section 9. Not here: who may ask (`http`, the command line).

mod archive;
pub mod command;
mod disclosed;
mod document;
mod heads;
mod hours;
mod identity;
mod leaves;
mod parts;
mod plan;

use std::io;
use std::path::{Path, PathBuf};

use leasewatch_core::evidence::bundle::{BundleForm, Manifest, Scope as Asked, name};
use leasewatch_core::evidence::log::checkpoint;
use leasewatch_core::id::{Hash, Slug};
use leasewatch_core::time::{Period, Zone, tz_database_version};
use sha2::{Digest as _, Sha256};

use crate::identity::Identity;
use crate::store::log::CheckpointRow;
use crate::store::{Db, Scope, StoreError, TenantKey, Tx, log, provider, tenant, tenant_data};

use disclosed::Disclosed;
use parts::Parts;
use plan::Plan;

/// What somebody asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Whose.
    pub tenant: Slug,
    /// Whose nodes. `None`: the provider of the leases.
    pub provider: Option<Slug>,
    /// Leases by name; none: every node of the provider.
    pub leases: Vec<Slug>,
    /// From when to when.
    pub window: Period,
    /// How much.
    pub form: BundleForm,
    /// The zone that documents print times in, beside UTC.
    pub zone: Zone,
    /// How many leaves of the log; `None`: all that are signed now.
    pub log_size: Option<u64>,
}

/// A bundle that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// SHA-256 of the file.
    pub sha256: Hash,
    /// Its bytes.
    pub bytes: u64,
    /// How many leaves the log had.
    pub log_size: u64,
    /// Hour statements in it.
    pub hours: u64,
    /// Heads in it.
    pub heads: u64,
}

/// Why there is no bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file.
    #[error("the bundle cannot be written")]
    Io(#[from] io::Error),
    /// The archive.
    #[error("the bundle cannot be packed; a shorter time may do")]
    Zip(#[from] zip::result::ZipError),
    /// Segments that were asked for.
    #[error("segments cannot be taken out: {0:#}")]
    Segments(anyhow::Error),
    /// What was asked for is not there, or contradicts itself.
    #[error("{0}")]
    Request(String),
    /// The database says something that was never published.
    #[error("{0} is not what was published: the database was changed past the log")]
    Altered(String),
}

/// Everything that the parts of a bundle are made with.
struct Making<'a> {
    db: &'a Db,
    tx: Tx,
    identity: &'a Identity,
    plan: Plan,
    at: CheckpointRow,
    disclosed: Disclosed,
    parts: Parts,
}

/// Writes a bundle; `progress` hears what is being done. Nothing is left when that fails.
///
/// # Errors
/// [`BundleError`].
pub async fn write(
    db: &Db,
    identity: &Identity,
    request: &Request,
    out: &Path,
    progress: impl Fn(Stage),
) -> Result<Written, BundleError> {
    let folder = Folder::beside(out)?;
    let (mut making, log_size) = begin(db, identity, request, &folder).await?;
    progress(Stage::Finding);
    let found = making.find().await?;
    progress(Stage::Writing);
    let mut report = document::Report::new(&making.plan, &making.at);
    identity::write(&mut making, &mut report).await?;
    let heads = heads::write(&mut making, found, &mut report).await?;
    let hours = hours::write(&mut making, &mut report).await?;
    leaves::write(&mut making).await?;
    if request.form == BundleForm::Raw {
        progress(Stage::Segments);
        heads::write_segments(&mut making).await?;
    }
    document::write(&mut making, report)?;
    progress(Stage::Packing);
    let bound = making.bind()?;
    making.tx.rollback().await?;
    let packed = archive::pack(&making.parts, &bound, out);
    if packed.is_err() {
        // Half a bundle is none.
        let _ = std::fs::remove_file(out);
    }
    let (sha256, bytes) = packed?;
    Ok(Written { sha256, bytes, log_size, hours, heads })
}

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Statements are looked for in the log.
    Finding,
    /// Files are written.
    Writing,
    /// Segments are taken out.
    Segments,
    /// They are packed.
    Packing,
}

async fn begin<'a>(
    db: &'a Db,
    identity: &'a Identity,
    request: &Request,
    folder: &Folder,
) -> Result<(Making<'a>, u64), BundleError> {
    let tenant = tenant_key(db, &request.tenant).await?;
    let mut tx = db.begin(Scope::Tenant(tenant)).await?;
    tenant_data::freeze(&mut tx).await?;
    let plan = plan::make(&mut tx, tenant, request).await?;
    let at = log::checkpoint(&mut tx, plan.log.key, request.log_size).await?;
    let at = at.ok_or_else(|| {
        let log = plan.log.origin.as_str();
        BundleError::Request(match request.log_size {
            Some(size) => format!("no checkpoint of {log} was signed at {size} leaves"),
            None => {
                format!("nothing was published in {log} yet; a minute is published after its end")
            }
        })
    })?;
    let log_size = at.state.size;
    let (disclosed, parts) = (Disclosed::default(), Parts::new(&folder.0));
    Ok((Making { db, tx, identity, plan, at, disclosed, parts }, log_size))
}

async fn tenant_key(db: &Db, slug: &Slug) -> Result<TenantKey, BundleError> {
    let mut tx = db.begin(Scope::Worker).await?;
    let found = tenant::by_slug(&mut tx, slug).await?;
    tx.rollback().await?;
    let found = found.ok_or_else(|| BundleError::Request(format!("there is no tenant {slug}")))?;
    Ok(found.key)
}

impl Making<'_> {
    /// Looks for everything that may be shown in the log.
    async fn find(&mut self) -> Result<heads::Found, BundleError> {
        identity::gather(self).await?;
        hours::gather(self).await?;
        let found = heads::gather(self).await?;
        self.disclosed.add(self.plan.log.first_statement.as_deref());
        let key = self.plan.log.key;
        self.disclosed.locate(&mut self.tx, key, self.at.state.size).await?;
        if self.disclosed.has_unknown() {
            let (tenant, provider) = (self.plan.tenant, self.plan.provider);
            let waiting = log::waiting_work(&mut self.tx, tenant, provider).await?;
            self.disclosed.excuse(waiting);
        }
        if self.disclosed.first_and_last().is_none() {
            let what = "nothing of this time is published yet; hours are, a day after their end";
            return Err(BundleError::Request(what.to_owned()));
        }
        Ok(found)
    }

    /// The manifest over the files, and its signature.
    fn bind(&self) -> Result<archive::Bound, BundleError> {
        let manifest = Manifest {
            scope: self.plan.asked.clone(),
            log: self.plan.log.origin.clone(),
            log_size: self.at.state.size,
            files: self.parts.listed(),
            key: self.identity.public_key(),
            tool: env!("CARGO_PKG_VERSION").to_owned(),
            tz_database: tz_database_version().to_owned(),
        };
        let statement = manifest.statement();
        let signature = Manifest::signature_file(&statement, self.identity.signing_key());
        Manifest::from_statement(&statement)
            .map_err(|error| BundleError::Request(format!("{}: {error}", name::MANIFEST)))?;
        Ok(archive::Bound { statement, signature })
    }

    /// The state of the log, signed by the key of today: what was signed once may be by one that it
    /// took the place of.
    fn checkpoint(&self) -> String {
        let key = self.identity.signing_key();
        checkpoint::sign(&self.plan.log.origin, self.at.state, key).to_text()
    }
}

/// A folder for the files, removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn beside(out: &Path) -> io::Result<Self> {
        let mut name = out.as_os_str().to_owned();
        name.push(format!(".{}.parts", std::process::id()));
        let folder = PathBuf::from(name);
        std::fs::create_dir(&folder)?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, folder = %self.0.display(), "the parts of a bundle could not be removed");
        }
    }
}

/// SHA-256 of bytes that come in pieces.
fn digest(sum: Sha256) -> Hash {
    Hash(sum.finalize().into())
}

/// What is asked for, with everything in it named.
fn asked(request: &Request, provider: Slug, leases: Vec<Slug>) -> Asked {
    let Request { tenant, window, form, zone, .. } = request;
    Asked { tenant: tenant.clone(), provider, leases, window: *window, form: *form, zone: *zone }
}

/// The provider that is asked for.
async fn provider_row(tx: &mut Tx, slug: &Slug) -> Result<provider::ProviderRow, BundleError> {
    let found = provider::by_slug(tx, slug).await?;
    found.ok_or_else(|| BundleError::Request(format!("there is no provider {slug}")))
}
