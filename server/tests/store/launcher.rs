//! Starting, stopping, and what is found on disk.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use leasewatch_server::embedded_postgres::{
    Binaries, EmbeddedError, EmbeddedPostgres, Options, SUPERUSER,
};
use leasewatch_server::store::Db;
use leasewatch_server::store::{
    Durability, PreflightError, StoreError, create_database, migrate, preflight,
};

use crate::fixture::{self, connect, number, run, texts};
use crate::support;

async fn start(base: &Path) -> Result<EmbeddedPostgres, EmbeddedError> {
    EmbeddedPostgres::start(support::throwaway(base)).await
}

fn is_alive(pid: u32) -> bool {
    // A zombie has no memory map.
    fs::read_to_string(format!("/proc/{pid}/statm")).is_ok_and(|statm| !statm.starts_with("0 "))
}

#[tokio::test]
async fn data_survives_a_stop_and_nothing_listens_on_tcp() {
    let base = fixture::base_dir();
    let server = start(base.path()).await.unwrap();
    let mut connection = connect(&server.url(SUPERUSER, "postgres")).await;
    run(&mut connection, "create table kept (x int); insert into kept values (7)").await.unwrap();
    assert_eq!(texts(&mut connection, "select current_setting('listen_addresses')").await, [""]);
    assert_eq!(texts(&mut connection, "select current_setting('data_checksums')").await, ["on"]);
    let pid = server.pid();
    server.stop().await.unwrap();
    assert!(!is_alive(pid));

    let server = start(base.path()).await.unwrap();
    let mut connection = connect(&server.url(SUPERUSER, "postgres")).await;
    assert_eq!(number(&mut connection, "select x::bigint from kept").await, 7);
    let socket = fs::metadata(base.path().join("postgres/run")).unwrap();
    assert_eq!(socket.mode() & 0o777, 0o700);
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_durable_server_passes_the_preflight_check_and_a_standby_does_not() {
    let base = fixture::base_dir();
    let durable = || Options { durability: Durability::Durable, ..support::throwaway(base.path()) };
    let server = EmbeddedPostgres::start(durable()).await.unwrap();
    let url = server.url(SUPERUSER, "leasewatch");
    create_database(&url).await.unwrap();
    migrate(&url).await.unwrap();
    let login = server.url("leasewatch_login", "leasewatch");
    let db = Db::connect(&login, 1).await.unwrap();
    preflight(&db, Durability::Durable).await.unwrap();
    db.close().await;
    server.stop().await.unwrap();

    fs::write(base.path().join("postgres/data/standby.signal"), "").unwrap();
    let server = EmbeddedPostgres::start(durable()).await.unwrap();
    let db = Db::connect(&login, 1).await.unwrap();
    let refused = preflight(&db, Durability::Durable).await;
    assert!(matches!(refused, Err(PreflightError::Standby)), "{refused:?}");
    let refused = migrate(&url).await;
    assert!(matches!(refused, Err(StoreError::Standby)), "{refused:?}");
    db.close().await;
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_second_server_on_the_same_data_is_refused() {
    let base = fixture::base_dir();
    let first = start(base.path()).await.unwrap();
    let second = start(base.path()).await;
    assert!(matches!(&second, Err(EmbeddedError::InUse(_))), "{second:?}");
    // It did no harm to the first.
    let mut connection = connect(&first.url(SUPERUSER, "postgres")).await;
    assert_eq!(number(&mut connection, "select 1::bigint").await, 1);
    first.stop().await.unwrap();
    start(base.path()).await.unwrap().stop().await.unwrap();
}

#[tokio::test]
async fn a_postmaster_that_was_left_behind_is_stopped_and_its_rows_are_there() {
    let base = fixture::base_dir();
    start(base.path()).await.unwrap().stop().await.unwrap();
    let data = base.path().join("postgres/data");
    let owner = fs::metadata(&data).unwrap();
    let mut command = Command::new(Binaries::find(None, base.path()).unwrap().program("postgres"));
    command.arg("-D").arg(&data).args(["-c", "listen_addresses=", "-c"]);
    command.arg(format!("unix_socket_directories={}", base.path().join("postgres/run").display()));
    command.current_dir("/").stdout(Stdio::null()).stderr(Stdio::null());
    if owner.uid() != fs::metadata("/proc/self").unwrap().uid() {
        command.uid(owner.uid()).gid(owner.gid());
    }
    let mut left_behind = command.spawn().unwrap();
    let pid = left_behind.id();
    // It is a child of this test, so somebody has to take its exit status.
    let reaper = std::thread::spawn(move || left_behind.wait());
    let pid_file = data.join("postmaster.pid");
    while !fs::read_to_string(&pid_file).is_ok_and(|text| text.contains("ready")) {
        tokio::task::yield_now().await;
    }

    let server = start(base.path()).await.unwrap();
    assert!(!is_alive(pid));
    assert_ne!(server.pid(), pid);
    assert!(reaper.join().unwrap().unwrap().success());
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_pid_file_that_names_another_program_is_not_believed() {
    let base = fixture::base_dir();
    start(base.path()).await.unwrap().stop().await.unwrap();
    let pid_file = base.path().join("postgres/data/postmaster.pid");
    fs::write(&pid_file, format!("{}\n", std::process::id())).unwrap();
    start(base.path()).await.unwrap().stop().await.unwrap();
    // Of the same account, as in a container whose first process waits for nobody.
    let other = fixture::base_dir();
    let alive = start(other.path()).await.unwrap();
    let lock = base.path().join("postgres/run/.s.PGSQL.5432.lock");
    fs::write(&lock, format!("{}\n", alive.pid())).unwrap();
    start(base.path()).await.unwrap().stop().await.unwrap();
    alive.stop().await.unwrap();
}

#[tokio::test]
async fn an_interrupted_initdb_is_done_again() {
    let base = fixture::base_dir();
    let unfinished = base.path().join("postgres/data.new");
    fs::create_dir_all(&unfinished).unwrap();
    fs::write(unfinished.join("PG_VERSION"), "15\n").unwrap();
    start(base.path()).await.unwrap().stop().await.unwrap();
    assert!(!unfinished.exists());
}

#[tokio::test]
async fn data_of_another_major_version_is_refused_with_a_way_out_and_left_alone() {
    let base = fixture::base_dir();
    let version = base.path().join("postgres/data/PG_VERSION");
    fs::create_dir_all(version.parent().unwrap()).unwrap();
    fs::write(&version, "9\n").unwrap();
    let refused = start(base.path()).await.unwrap_err();
    assert!(matches!(refused, EmbeddedError::OtherMajor { found: 9, .. }), "{refused:?}");
    let message = refused.to_string();
    assert!(message.contains("PostgreSQL 9") && message.contains("pg_upgrade"), "{message}");
    assert_eq!(fs::read_to_string(&version).unwrap(), "9\n");
}

#[tokio::test]
async fn a_path_that_no_socket_can_have_is_refused_before_anything_is_made() {
    let base = fixture::base_dir();
    let long = base.path().join("x".repeat(90));
    let refused = start(&long).await;
    assert!(matches!(&refused, Err(EmbeddedError::PathTooLong(_))), "{refused:?}");
    assert!(!long.exists());
}

#[tokio::test]
async fn a_postgres_that_cannot_start_says_why() {
    let base = fixture::base_dir();
    start(base.path()).await.unwrap().stop().await.unwrap();
    let settings = base.path().join("postgres/data/postgresql.auto.conf");
    fs::write(settings, "no_such_setting = 1\n").unwrap();
    let refused = start(base.path()).await.unwrap_err().to_string();
    assert!(refused.contains("no_such_setting"), "{refused}");
}

/// A server whose umask closes everything that it makes to others. As root, PostgreSQL has to walk
/// there as another account all the same.
#[tokio::test]
async fn a_closed_umask_does_not_close_the_way_to_the_data() {
    let base = fixture::base_dir();
    let data_dir = base.path().join("made/by the server");
    let mut server = Command::new("sh")
        .args(["-c", "umask 077; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_leasewatch-server")])
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(&data_dir)
        .env_remove("DATABASE_URL")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = Vec::new();
    for line in BufReader::new(server.stderr.take().unwrap()).lines().map_while(Result::ok) {
        said.push(line);
        if said.last().is_some_and(|line| line.contains("serving")) {
            break;
        }
    }
    let mode = |path: &str| fs::metadata(data_dir.join(path)).map(|found| found.mode() & 0o777);
    let modes =
        ["..", ".", "postgres", "postgres/run", "postgres/data"].map(|path| mode(path).ok());
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(said.last().is_some_and(|line| line.contains("serving")), "{said:#?}");
    assert_eq!(modes, [0o711, 0o711, 0o711, 0o700, 0o700].map(Some));
}

#[tokio::test]
async fn postgres_ends_when_the_server_is_killed() {
    let base = fixture::base_dir();
    let mut server = Command::new(env!("CARGO_BIN_EXE_leasewatch-server"))
        .args(["serve", "--listen", "127.0.0.1:0", "--data-dir"])
        .arg(base.path())
        .env_remove("DATABASE_URL")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("serving")), "the server ended before it served");
    let postmaster = fs::read_to_string(base.path().join("postgres/data/postmaster.pid")).unwrap();
    let pid: u32 = postmaster.lines().next().unwrap().parse().unwrap();
    assert!(is_alive(pid));
    server.kill().unwrap();
    server.wait().unwrap();
    while is_alive(pid) {
        tokio::task::yield_now().await;
    }
    // A clean end: there is nothing to recover.
    let log = fs::read_to_string(base.path().join("postgres/postgres.log")).unwrap();
    assert!(log.contains("database system is shut down"), "{log}");
    start(base.path()).await.unwrap().stop().await.unwrap();
}
