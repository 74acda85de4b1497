//! The running server: database, writer, jobs and the one port, put together.
//!
//! One listener carries pages (HTTP/1.1 or HTTP/2) and the agents' stream (HTTP/2), over TLS, and
//! from this machine plain too. While there are no users it is on loopback only.

mod certificate;
pub mod command;
mod opening;
mod port;
mod probe;
mod showing;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use leasewatch_core::id::Slug;
use leasewatch_core::join::{JoinAddress, TlsTrust};
use leasewatch_core::time::Timestamp;
use leasewatch_proto::channel::{ServerAddress, ServerCertificate, public_key_hash};
use tokio::net::TcpListener;

use crate::accounts;
use crate::clock::Clock;
use crate::config::{Database, NodeCertificate, ServeOptions};
use crate::embedded_postgres::{EmbeddedPostgres, Options, SUPERUSER};
use crate::enrollment::Issuer;
use crate::grpc::{self, GrpcOptions, GrpcState};
use crate::http::{self, Entrance, Http, TrustedProxies};
use crate::identity::{Identity, RECOVERY_FILE};
use crate::import::uploaded::Importer;
use crate::installer::Installers;
use crate::intake::Intake;
use crate::jobs::Jobs;
use crate::jobs::publish::Publisher;
use crate::live::Live;
use crate::sabotage;
use crate::store::{self, Db, Durability, Scope};
use crate::tenancy::Removals;

use certificate::Certificate;
use port::{OPENING, Port};
pub use probe::ready;
use showing::{LOOK_EVERY, Source};

/// The role that the server logs in as; it may become each role of a [`Scope`] and is none itself.
pub(crate) const LOGIN: &str = "leasewatch_login";
/// Name of the database in the own PostgreSQL.
pub(crate) const DATABASE: &str = "leasewatch";
const POOL_CONNECTIONS: u32 = 16;
/// Connections of ingest alone: whatever pages ask for, segments are stored.
const INGEST_CONNECTIONS: u32 = 4;
/// The tenant that is always there.
const DEFAULT_TENANT: &str = "default";

/// An open database, with the PostgreSQL that runs for it.
pub struct OpenDatabase {
    /// Its pool.
    pub db: Db,
    own: Option<EmbeddedPostgres>,
}

/// Opens the database: starts the own PostgreSQL or connects to the given one, and migrates.
///
/// # Errors
/// What is wrong, and what to do about it.
pub async fn open_database(options: &ServeOptions) -> anyhow::Result<OpenDatabase> {
    match &options.database {
        Database::Own { pg_bin } => open_own(&options.data_dir, pg_bin.clone()).await,
        Database::External { url, admin_url } => {
            if let Some(admin) = admin_url {
                store::migrate(admin.secret()).await.context("the migrations failed")?;
            }
            let db = Db::connect(url.secret(), POOL_CONNECTIONS).await?;
            Ok(OpenDatabase { db, own: None })
        }
    }
}

async fn open_own(data_dir: &Path, bin_dir: Option<PathBuf>) -> anyhow::Result<OpenDatabase> {
    let helper = std::env::current_exe().context("this program's own path is not known")?;
    let durability = durability();
    let options = Options { base_dir: data_dir.to_owned(), bin_dir, helper, durability };
    let own = EmbeddedPostgres::start(options).await?;
    let admin = own.url(SUPERUSER, DATABASE);
    store::create_database(&admin).await?;
    store::migrate(&admin).await.context("the migrations failed")?;
    let db = Db::connect(&own.url(LOGIN, DATABASE), POOL_CONNECTIONS).await?;
    Ok(OpenDatabase { db, own: Some(own) })
}

/// What is acknowledged survives a power cut.
fn durability() -> Durability {
    if sabotage::is("fsync_off") { Durability::Throwaway } else { Durability::Durable }
}

impl OpenDatabase {
    /// Closes the pool and stops the own PostgreSQL.
    ///
    /// # Errors
    /// When PostgreSQL does not stop.
    pub async fn close(self) -> anyhow::Result<()> {
        self.db.close().await;
        if let Some(own) = self.own {
            own.stop().await?;
        }
        Ok(())
    }

    /// Waits until the own PostgreSQL ends by itself; for ever with another one.
    async fn exited(&self) -> String {
        match &self.own {
            Some(own) => own.exited().await,
            None => std::future::pending().await,
        }
    }
}

/// Serves until SIGTERM or SIGINT.
///
/// # Errors
/// What kept the server from starting, or ended it.
pub async fn serve(options: ServeOptions) -> anyhow::Result<()> {
    // Bound first: a second server on the port ends here, before it touches any data.
    let listener = TcpListener::bind(options.listen).await.with_context(|| {
        format!(
            "cannot listen on {}; is another server running? choose another with --listen",
            options.listen
        )
    })?;
    let address = listener.local_addr()?;
    let database = open_database(&options).await?;
    store::preflight(&database.db, durability()).await?;
    if let Err(refused) = greet(&database.db, &options, address).await {
        // Commands that come next find no database that is about to end.
        database.close().await?;
        return Err(refused);
    }
    let identity = Arc::new(Identity::of_server(&options.data_dir)?);
    let recovery = options.data_dir.join(RECOVERY_FILE);
    if recovery.exists() {
        tracing::warn!(file = %recovery.display(), "move the recovery key off this machine, and keep it");
    }
    let (clock, live, db) = (Clock::system(), Live::new(), database.db.clone());
    let showing = Source::new(&options, Arc::clone(&identity), clock.clone()).show(LOOK_EVERY)?;
    prepare(&db, clock.now()).await?;
    grpc::introduce_nodes(&db, &live).await?;
    grpc::spawn_liveness(db.clone(), live.clone(), clock.clone());
    spawn_jobs(Jobs { db: db.clone(), live: live.clone(), clock: clock.clone() }, &identity);
    // Those that a first use may ask for.
    let tenants = [DEFAULT_TENANT].iter().chain(&crate::demo::TENANTS);
    let tenants = tenants.filter_map(|slug| Slug::new(slug).ok()).collect();
    let issuer = Issuer {
        db: db.clone(),
        clock: clock.clone(),
        identity: Arc::clone(&identity),
        trust: showing.trust.clone(),
        addresses: node_addresses(&options, address)?,
    };
    let installers = look_for_agents(&options, &issuer);
    let grpc_options =
        GrpcOptions { open_enrollment: options.open_enrollment, ..GrpcOptions::new(tenants) };
    let ingest = db.apart(INGEST_CONNECTIONS).await?;
    let state = GrpcState::new(ingest.clone(), live.clone(), clock.clone(), identity, grpc_options)
        .announcing(showing.notice.clone());
    grpc::spawn_revocations(state.clone());
    let intake = take_uploads(&options, address, issuer.clone())?;
    let (address, entrance, removals) =
        (reached_at(address), Entrance::default(), Removals::default());
    let pages = http::router(Http {
        db,
        live,
        clock,
        address,
        intake,
        entrance,
        issuer,
        installers,
        removals,
    });
    let router = grpc::routes(state).merge(pages);
    let file = showing.file.display();
    tracing::info!(certificate = %file, sha256 = showing.fingerprint, "https shows this certificate");
    tracing::info!(address = %listener.local_addr()?, "serving");
    let trusted = TrustedProxies::new(options.trusted_proxies.clone());
    let port = Port { tls: showing.tls, router, opening: OPENING, trusted };
    let ended = tokio::select! {
        () = port::accept(listener, port) => Ok(()),
        reason = database.exited() => Err(anyhow::anyhow!("the database ended: {reason}")),
    };
    ingest.close().await;
    database.close().await?;
    ended
}

/// Starts every job; the one that publishes signs with the identity key.
fn spawn_jobs(jobs: Jobs, identity: &Identity) {
    let (key, server) = (identity.signing_key().clone(), identity.log_name());
    tokio::spawn(Publisher { jobs: jobs.clone(), key, server }.run());
    jobs.spawn();
}

/// Without a user: refuses an address that others reach, and says on standard error, the only place,
/// where the first one is made.
async fn greet(db: &Db, options: &ServeOptions, address: SocketAddr) -> anyhow::Result<()> {
    let base = page_address(options, address);
    let link = accounts::setup_link(db, Clock::system().now(), &base).await?;
    let Some(link) = link else { return Ok(()) };
    if !options.trusted_proxies.is_empty() {
        anyhow::bail!(
            "a proxy brings others here, and there are no users yet, so everybody could read and change everything; \
             make the first one with `leasewatch-server users sign-in NAME`, or start without --trusted-proxy, on \
             127.0.0.1, and open the set-up link, then start here again"
        );
    }
    if !address.ip().is_loopback() {
        anyhow::bail!(
            "{address} is reached by others, and there are no users yet, so everybody could read and change \
             everything; make the first one with `leasewatch-server users sign-in NAME`, or start on 127.0.0.1 and \
             open the set-up link, then start here again"
        );
    }
    eprintln!("there are no users yet; this makes the first one, once, within a day: {link}");
    Ok(())
}

/// Where people and agents find a server: `http://127.0.0.1:7443`, or `https://` and the address
/// that others reach. An address that stands for all of the machine's is named by the machine.
#[must_use]
pub(crate) fn reached_at(listen: SocketAddr) -> String {
    if listen.ip().is_loopback() {
        return format!("http://{listen}");
    }
    if !listen.ip().is_unspecified() {
        return format!("https://{listen}");
    }
    let machine = rustix::system::uname();
    format!("https://{}:{}", machine.nodename().to_string_lossy(), listen.port())
}

/// What links begin with.
pub(crate) fn page_address(options: &ServeOptions, listen: SocketAddr) -> String {
    let said = options.page_address.as_ref().map(|address| address.as_str().to_owned());
    said.unwrap_or_else(|| reached_at(listen))
}

/// How nodes know the certificate that they see: that of a proxy in front, or the server's own, which
/// is made where there is none yet.
pub(crate) fn node_trust(options: &ServeOptions, now: Timestamp) -> anyhow::Result<TlsTrust> {
    if let Some(seen) = &options.node_certificate {
        return in_front(seen);
    }
    let own = match &options.tls {
        Some(given) => Certificate::given(&given.certificate, &given.key)?,
        None => Certificate::load_or_create(&options.data_dir, now)?,
    };
    Ok(TlsTrust::Pin(own.pin))
}

/// How the certificate of a proxy in front is known.
fn in_front(seen: &NodeCertificate) -> anyhow::Result<TlsTrust> {
    let path = match seen {
        NodeCertificate::Web => return Ok(TlsTrust::Web),
        NodeCertificate::File(path) => path,
    };
    let read = ServerCertificate::read_first(path);
    let read = read.with_context(|| format!("node_certificate: {}", path.display()))?;
    Ok(TlsTrust::Pin(public_key_hash(read.der())?))
}

/// Where the server finds itself.
fn own_address(listen: SocketAddr) -> SocketAddr {
    let ip = match listen.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listen.port())
}

/// Where nodes reach the server: as it was said, else where it listens, by this machine's name where
/// it listens everywhere.
pub(crate) fn node_addresses(
    options: &ServeOptions,
    listen: SocketAddr,
) -> anyhow::Result<Vec<JoinAddress>> {
    if !options.node_addresses.is_empty() {
        return Ok(options.node_addresses.clone());
    }
    let host = if listen.ip().is_unspecified() {
        let uname = rustix::system::uname();
        format!("{}:{}", uname.nodename().to_string_lossy(), listen.port())
    } else {
        listen.to_string()
    };
    let address = JoinAddress::new(&format!("https://{host}"));
    Ok(vec![address.context("say with --node-address where nodes reach this server")?])
}

/// Says what nodes can install from here. A server without agents serves as well.
fn look_for_agents(options: &ServeOptions, issuer: &Issuer) -> Installers {
    let installers = Installers::new(options.agent_dir.clone(), issuer.addresses.clone());
    match installers.current() {
        Ok(found) => {
            let agents: Vec<&str> = found.agents.iter().map(|agent| agent.name.as_str()).collect();
            tracing::info!(agents = agents.join(" "), "nodes can install these");
        }
        Err(error) => tracing::warn!(%error, "nodes cannot install an agent from here"),
    }
    installers
}

/// Starts the importer of uploaded logs, which delivers to this server's own port.
fn take_uploads(
    options: &ServeOptions,
    address: SocketAddr,
    issuer: Issuer,
) -> anyhow::Result<Intake> {
    let folder = options.data_dir.join("uploads");
    let bytes_max = u64::from(options.upload_mib_max) * 1_024 * 1_024;
    let (intake, queue) = Intake::open(folder, bytes_max).context("no folder for uploads")?;
    let server = ServerAddress::new(&format!("http://{}", own_address(address)), None)?;
    let key_dir = options.data_dir.join("imports");
    let clock = issuer.clock.clone();
    tokio::spawn(Importer { server, key_dir, clock, issuer }.run(queue));
    Ok(intake)
}

async fn prepare(db: &Db, now: Timestamp) -> Result<(), store::StoreError> {
    let mut tx = db.begin(Scope::Ingest).await?;
    if let Ok(slug) = Slug::new(DEFAULT_TENANT) {
        store::tenant::ensure(&mut tx, &slug, DEFAULT_TENANT).await?;
    }
    tx.commit().await?;
    // Streams that a killed server left open ended, as far as anybody knows, when it did.
    let mut tx = db.begin(Scope::Worker).await?;
    let last = store::liveness::last(&mut tx).await?.unwrap_or(now);
    store::session::close_all_open(&mut tx, last).await?;
    tx.commit().await
}
