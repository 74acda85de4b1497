//! Migrations and the preflight check.

use leasewatch_core::segment::Origin;
use leasewatch_server::embedded_postgres::{EmbeddedPostgres, SUPERUSER};
use leasewatch_server::store::{
    Db, Durability, PreflightError, StoreError, TimeLayout, create_database, migrate, preflight,
};

use crate::fixture::{self, connect, number, run};
use crate::support;

#[tokio::test]
async fn running_again_changes_nothing() {
    let test = support::database().await;
    let mut admin = connect(&test.admin_url).await;
    let count = "select count(*) from _sqlx_migrations";
    let before = number(&mut admin, count).await;
    migrate(&test.admin_url).await.unwrap();
    create_database(&test.admin_url).await.unwrap();
    assert_eq!(number(&mut admin, count).await, before);
}

#[tokio::test]
async fn databases_of_one_cluster_can_be_migrated_at_once() {
    let base = fixture::base_dir();
    let server = EmbeddedPostgres::start(support::throwaway(base.path())).await.unwrap();
    let tasks: Vec<_> = (0..6)
        .map(|number| {
            let url = server.url(SUPERUSER, &format!("db_{number}"));
            tokio::spawn(async move {
                create_database(&url).await?;
                migrate(&url).await
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
    for number in 0..6 {
        let db =
            Db::connect(&server.url("leasewatch_login", &format!("db_{number}")), 1).await.unwrap();
        preflight(&db, Durability::Throwaway).await.unwrap();
        db.close().await;
    }
    server.stop().await.unwrap();
}

#[tokio::test]
async fn a_database_that_is_ahead_is_refused_by_both() {
    let test = support::database().await;
    let mut admin = connect(&test.admin_url).await;
    run(&mut admin, "insert into _sqlx_migrations values (9999, 'later', now(), true, '\\x00', 0)")
        .await
        .unwrap();
    let refused = migrate(&test.admin_url).await;
    assert!(matches!(refused, Err(StoreError::NewerSchema(9_999))), "{refused:?}");
    let refused = preflight(&test.db, Durability::Throwaway).await;
    assert!(
        matches!(refused, Err(PreflightError::NewerSchema { found: 9_999, .. })),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_database_without_our_schema_is_refused() {
    let test = support::database().await;
    let empty = test.url.replace("postgres:///test_", "postgres:///empty_test_");
    create_database(&test.admin_url.replace("postgres:///test_", "postgres:///empty_test_"))
        .await
        .unwrap();
    let db = Db::connect(&empty, 1).await.unwrap();
    let refused = preflight(&db, Durability::Throwaway).await;
    assert!(matches!(refused, Err(PreflightError::OlderSchema { found: 0, .. })), "{refused:?}");
}

#[tokio::test]
async fn settings_that_lose_rows_are_refused_unless_nobody_misses_them() {
    let test = support::database().await;
    preflight(&test.db, Durability::Throwaway).await.unwrap();
    let refused = preflight(&test.db, Durability::Durable).await.unwrap_err();
    assert!(matches!(refused, PreflightError::Setting { setting: "fsync", .. }), "{refused:?}");
    assert!(refused.to_string().contains("fsync = off"), "{refused}");
}

#[tokio::test]
async fn a_superuser_login_is_refused_by_name() {
    let test = support::database().await;
    let db = Db::connect(&test.admin_url, 1).await.unwrap();
    let refused = preflight(&db, Durability::Throwaway).await;
    assert!(
        matches!(&refused, Err(PreflightError::PrivilegedRole(role)) if role == SUPERUSER),
        "{refused:?}"
    );
}

/// The extension as the catalogue knows it, without its library: for what is decided before any of
/// it is called. The branch itself is tested with the real one (`tests/ingest/timescale.rs`).
async fn claim_extension(admin_url: &str, version: &str) -> Result<(), String> {
    let sql = format!(
        "set allow_system_table_mods = on; delete from pg_extension where extname = 'timescaledb';
        insert into pg_extension (oid, extname, extowner, extnamespace, extrelocatable, extversion)
        values (99999, 'timescaledb', 10, 'public'::regnamespace, false, '{version}')"
    );
    run(&mut connect(admin_url).await, &sql).await
}

#[tokio::test]
async fn rows_from_before_the_extension_keep_their_partitions() {
    let test = support::database().await;
    let row = fixture::enrol(&test.db, "default", 1, Origin::Measured).await;
    fixture::store(&test.db, &row, &fixture::head(&row, 1)).await;
    let mut admin = connect(&test.admin_url).await;
    run(&mut admin, "delete from _sqlx_migrations where version = 12").await.unwrap();
    claim_extension(&test.admin_url, "2.23.0").await.unwrap();
    migrate(&test.admin_url).await.unwrap();
    let layout = preflight(&test.db, Durability::Throwaway).await.unwrap();
    assert_eq!(layout, TimeLayout::Partitions);
    fixture::store(&test.db, &row, &fixture::head(&row, 2)).await;
    assert_eq!(number(&mut admin, "select count(*) from segment").await, 2);
    let chunks = "select count(*) from pg_namespace where nspname = 'leasewatch_chunk'";
    assert_eq!(number(&mut admin, chunks).await, 0, "no schema for chunks that will never be");
}

#[tokio::test]
async fn hypertables_without_their_extension_are_refused() {
    let test = support::database().await;
    let mut admin = connect(&test.admin_url).await;
    run(&mut admin, "drop table segment").await.unwrap();
    let said = async |url: &str| {
        let db = Db::connect(url, 1).await.unwrap();
        let result = preflight(&db, Durability::Throwaway).await.map_err(|error| error.to_string());
        db.close().await;
        result
    };
    assert!(said(&test.url).await.unwrap_err().contains("the extension is missing"));
    claim_extension(&test.admin_url, "2.22.1").await.unwrap();
    assert!(said(&test.url).await.unwrap_err().contains("shared_preload_libraries"));
    // A setting of the library; its name is all that is asked for.
    let loaded = format!("{}&options[timescaledb.license]=apache", test.url);
    assert!(said(&loaded).await.unwrap_err().contains("2.23 is the oldest"));
    claim_extension(&test.admin_url, "2.23.0").await.unwrap();
    assert_eq!(said(&loaded).await, Ok(TimeLayout::Hypertables));
}
