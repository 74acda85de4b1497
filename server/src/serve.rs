//! The running server: database, writer, jobs and the one port, put together.
//!
//! One listener carries pages (HTTP/1.1 or HTTP/2) and the agents' stream (HTTP/2). There are no
//! users yet, so it is plain and on loopback only; `config` refuses anything else.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use leasewatch_core::id::Slug;
use leasewatch_core::time::Timestamp;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::clock::Clock;
use crate::config::{Database, ServeOptions};
use crate::embedded_postgres::{EmbeddedPostgres, Options, SUPERUSER};
use crate::grpc::{self, GrpcOptions, GrpcState};
use crate::http::{self, Http};
use crate::identity::Identity;
use crate::jobs::Jobs;
use crate::live::Live;
use crate::store::{self, Db, Durability, Scope};

/// The role that the server logs in as; it may become each role of a [`Scope`] and is none itself.
pub(crate) const LOGIN: &str = "leasewatch_login";
/// Name of the database in the own PostgreSQL.
pub(crate) const DATABASE: &str = "leasewatch";
const POOL_CONNECTIONS: u32 = 16;
const CONNECTIONS_MAX: usize = 8_192;
/// Tenants that a first use may ask for.
const TENANTS: [(&str, &str); 2] = [("default", "default"), ("demo", "demo")];

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
    let durability = Durability::Durable;
    let options = Options { base_dir: data_dir.to_owned(), bin_dir, helper, durability };
    let own = EmbeddedPostgres::start(options).await?;
    let admin = own.url(SUPERUSER, DATABASE);
    store::create_database(&admin).await?;
    store::migrate(&admin).await.context("the migrations failed")?;
    let db = Db::connect(&own.url(LOGIN, DATABASE), POOL_CONNECTIONS).await?;
    Ok(OpenDatabase { db, own: Some(own) })
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
    store::preflight(&database.db, Durability::Durable).await?;
    let identity = Arc::new(Identity::load_or_create(&options.data_dir)?);
    let (clock, live, db) = (Clock::system(), Live::new(), database.db.clone());
    prepare(&db, clock.now()).await?;
    grpc::introduce_nodes(&db, &live).await?;
    grpc::spawn_liveness(db.clone(), live.clone(), clock.clone());
    Jobs { db: db.clone(), live: live.clone(), clock: clock.clone() }.spawn();
    let tenants = TENANTS.iter().filter_map(|(slug, _)| Slug::new(slug).ok()).collect();
    let state = GrpcState::new(
        db.clone(),
        live.clone(),
        clock.clone(),
        identity,
        GrpcOptions::new(tenants),
    );
    let pages = http::router(Http { db, live, clock, address: address.to_string() });
    let router = grpc::routes(state).merge(pages);
    tracing::info!(%address, "serving");
    let ended = tokio::select! {
        () = accept(listener, router) => Ok(()),
        reason = database.exited() => Err(anyhow::anyhow!("the database ended: {reason}")),
    };
    database.close().await?;
    ended
}

async fn prepare(db: &Db, now: Timestamp) -> Result<(), store::StoreError> {
    let mut tx = db.begin(Scope::Ingest).await?;
    for (slug, name) in TENANTS.iter().filter(|(slug, _)| *slug == "default") {
        if let Ok(slug) = Slug::new(slug) {
            store::tenant::ensure(&mut tx, &slug, name).await?;
        }
    }
    tx.commit().await?;
    // Streams that a killed server left open ended, as far as anybody knows, when it did.
    let mut tx = db.begin(Scope::Worker).await?;
    let last = store::liveness::last(&mut tx).await?.unwrap_or(now);
    store::session::close_all_open(&mut tx, last).await?;
    tx.commit().await
}

/// Accepts connections until a signal, then lets open requests end for a few seconds.
async fn accept(listener: TcpListener, router: Router) {
    let graceful = GracefulShutdown::new();
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut stop = std::pin::pin!(signal());
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut stop => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(error = %error, "a connection could not be accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        // Without room the connection is dropped at once: those that are open go on.
        let Ok(permit) = Arc::clone(&room).try_acquire_owned() else { continue };
        let connection = connection(stream, router.clone(), &graceful);
        tokio::spawn(async move {
            connection.await;
            drop(permit);
        });
    }
    tokio::select! {
        () = graceful.shutdown() => {}
        () = tokio::time::sleep(Duration::from_secs(3)) => {}
    }
}

fn connection(
    stream: TcpStream,
    router: Router,
    graceful: &GracefulShutdown,
) -> impl Future<Output = ()> + Send + 'static {
    // Small acknowledgements must not wait for the next one.
    let _ = stream.set_nodelay(true);
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(Duration::from_secs(10))
        .max_buf_size(64 * 1_024);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Some(grpc::KEEP_ALIVE_INTERVAL))
        .keep_alive_timeout(grpc::KEEP_ALIVE_TIMEOUT)
        .max_concurrent_streams(64)
        .max_header_list_size(16 * 1_024);
    let service = TowerToHyperService::new(router);
    let connection =
        builder.serve_connection_with_upgrades(TokioIo::new(stream), service).into_owned();
    let watched = graceful.watch(connection);
    async move {
        if let Err(error) = watched.await {
            tracing::debug!(error = %error, "a connection ended with an error");
        }
    }
}

async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("stopping");
}
