//! Logs: nobody in use changes or deletes what is in one.

use ed25519_dalek::SigningKey;
use leasewatch_core::segment::Origin;
use leasewatch_server::clock::Clock;
use leasewatch_server::jobs::Jobs;
use leasewatch_server::jobs::publish::Publisher;
use leasewatch_server::live::Live;
use leasewatch_server::store::{Scope, tenant};

use crate::fixture::{self, AT, connect, number, run};
use crate::support;

const TABLES: [&str; 5] = ["log", "log_leaf", "log_tile", "log_minute", "log_checkpoint"];

/// A database with a log of a tile, loose leaves, a minute and a checkpoint.
async fn published(origin: Origin) -> support::TestDb {
    let test = support::database().await;
    let node = fixture::enrol(&test.db, "default", 1, origin).await;
    fixture::store(&test.db, &node, &fixture::head(&node, 1)).await;
    let mut admin = connect(&test.admin_url).await;
    let fill = "insert into log_work (tenant_id, provider_id, kind, hash)
        select tenant_id, provider_id, 'hour', sha256(convert_to(k::text, 'UTF8'))
        from node, generate_series(1, 300) k";
    assert_eq!(run(&mut admin, fill).await, Ok(()));
    let clock = Clock::manual(AT.plus_ms(120_000));
    let jobs = Jobs { db: test.db.clone(), live: Live::new(), clock };
    let (key, server) = (SigningKey::from_bytes(&[1; 32]), "0123456789abcdef".to_owned());
    assert!(matches!(Publisher { jobs, key, server }.turn().await, Ok(301)));
    for table in TABLES {
        let rows = format!("select count(*) from {table}");
        assert!(number(&mut admin, &rows).await > 0, "{table}");
    }
    test
}

#[tokio::test]
async fn nobody_in_use_can_change_or_delete_what_is_in_a_log() {
    let test = published(Origin::Measured).await;
    let mut login = connect(&test.url).await;
    for role in ["web", "ingest", "worker", "auth", "operator", "login"] {
        for table in TABLES {
            for change in [
                format!("update {table} set tenant_id = tenant_id"),
                format!("delete from {table}"),
                format!("truncate {table}"),
            ] {
                let role = format!("begin; set local role leasewatch_{role}; {change}");
                assert_eq!(run(&mut login, &role).await, Err("42501".into()), "{role}");
                run(&mut login, "rollback").await.unwrap();
            }
        }
    }
}

#[tokio::test]
async fn only_a_whole_tile_takes_the_place_of_loose_leaves() {
    let test = published(Origin::Measured).await;
    let mut login = connect(&test.url).await;
    // 45 are loose.
    for (place, code) in [(1, "LW006"), (0, "LW006"), (2, "LW006")] {
        let fold = format!(
            "begin; set local role leasewatch_worker; select leasewatch_fold_tile(1, 1, 0, {place})"
        );
        assert_eq!(run(&mut login, &fold).await, Err(code.into()), "{place}");
        run(&mut login, "rollback").await.unwrap();
    }
    let mut admin = connect(&test.admin_url).await;
    assert_eq!(number(&mut admin, "select count(*) from log_leaf where level = 0").await, 45);
}

/// A demo fleet goes with its queue; the log of what was said about it stays.
#[tokio::test]
async fn a_simulated_fleet_leaves_its_log_behind() {
    let test = published(Origin::Simulated).await;
    let mut tx = test.db.begin(Scope::Worker).await.unwrap();
    let row = tenant::by_slug(&mut tx, &fixture::slug("default")).await.unwrap().unwrap();
    assert_eq!(tenant::remove_simulated(&mut tx, row.key).await.unwrap(), 1);
    tx.commit().await.unwrap();
    let mut admin = connect(&test.admin_url).await;
    assert_eq!(number(&mut admin, "select count(*) from log_tile").await, 1);
}
