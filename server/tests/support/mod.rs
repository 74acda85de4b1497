//! Real PostgreSQL for tests: one throwaway server per test binary, one database per test.
//!
//! The server is started by our own launcher from a base directory under /tmp that is named after
//! this process; it stops when the process ends. Directories of processes that are gone are
//! removed at the next start. Databases are copies of one that the migrations made.

#![expect(clippy::unwrap_used, reason = "what does not work here fails the test")]

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use leasewatch_server::embedded_postgres::{EmbeddedPostgres, Options, SUPERUSER};
use leasewatch_server::store::{self, Db, Durability};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::sync::OnceCell;

const BASE: &str = "/tmp/leasewatch-test-";
const TEMPLATE: &str = "template_leasewatch";
const CONNECTIONS: u32 = 4;

static SERVER: OnceCell<EmbeddedPostgres> = OnceCell::const_new();
static NEXT: AtomicU32 = AtomicU32::new(1);

/// A migrated, otherwise empty database of this test alone.
pub(crate) struct TestDb {
    /// Connected as `leasewatch_login`, as the server is.
    pub(crate) db: Db,
    /// For more connections of that kind.
    pub(crate) url: String,
    /// As the superuser, for what only a test does.
    pub(crate) admin_url: String,
}

/// A fresh database.
pub(crate) async fn database() -> TestDb {
    let server = SERVER.get_or_init(start).await;
    let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
    let mut admin = PgConnection::connect(&server.url(SUPERUSER, "postgres")).await.unwrap();
    let create = format!("create database {name} template {TEMPLATE}");
    sqlx::raw_sql(AssertSqlSafe(create)).execute(&mut admin).await.unwrap();
    admin.close().await.unwrap();
    let url = server.url("leasewatch_login", &name);
    let db = Db::connect(&url, CONNECTIONS).await.unwrap();
    TestDb { db, url, admin_url: server.url(SUPERUSER, &name) }
}

// By hand, so that each field counts as used in every test binary that shares this file.
impl fmt::Debug for TestDb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {} {}", self.db, self.url, self.admin_url)
    }
}

/// Options for a server of a test: nothing in it has to survive a power cut.
pub(crate) fn throwaway(base_dir: &Path) -> Options {
    Options {
        base_dir: base_dir.to_owned(),
        bin_dir: None,
        helper: PathBuf::from(env!("CARGO_BIN_EXE_leasewatch-server")),
        durability: Durability::Throwaway,
    }
}

async fn start() -> EmbeddedPostgres {
    remove_left_behind();
    let base = PathBuf::from(format!("{BASE}{}", std::process::id()));
    let server = EmbeddedPostgres::start(throwaway(&base)).await.unwrap();
    let template = server.url(SUPERUSER, TEMPLATE);
    store::create_database(&template).await.unwrap();
    store::migrate(&template).await.unwrap();
    server
}

fn remove_left_behind() {
    for entry in fs::read_dir("/tmp").into_iter().flatten().flatten() {
        let path = entry.path();
        let process = path.to_str().and_then(|path| path.strip_prefix(BASE));
        let process = process.and_then(|process| process.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            // Another test binary may be removing it too.
            let _ = fs::remove_dir_all(&path);
        }
    }
}
