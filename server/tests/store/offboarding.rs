//! Taking a whole tenant out, and removing it: nothing of it is forgotten, and nothing of others is
//! touched, in tables that nobody thought of either.

#![expect(clippy::unwrap_used, reason = "what does not work here fails the test")]

use std::io::{Cursor, Read as _};

use leasewatch_core::metering::HourState;
use leasewatch_core::segment::Origin;
use leasewatch_server::store::audit::{Action, Who};
use leasewatch_server::store::tenant::TenantRow;
use leasewatch_server::store::{Db, Scope, StoreError, session, tenant};
use leasewatch_server::tenancy::archive::File;
use leasewatch_server::tenancy::{self, archive};
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use crate::fixture::{self, AT, HOUR, connect, number, run, slug, texts};
use crate::support;
use crate::tenancy::{FOREIGN, OWN, filled, rows_of};

async fn row(db: &Db, name: &str) -> TenantRow {
    let mut tx = db.begin(Scope::Operator).await.unwrap();
    tenant::by_slug(&mut tx, &slug(name)).await.unwrap().unwrap()
}

async fn archive(db: &Db, tenant: &TenantRow) -> (Vec<File>, Vec<u8>) {
    let (pieces, mut taken) = mpsc::channel(4);
    let writing = archive::write(db, tenant, pieces, |_| ());
    let taking = async {
        let mut bytes = Vec::new();
        while let Some(piece) = taken.recv().await {
            bytes.extend(piece);
        }
        bytes
    };
    let (files, bytes) = tokio::join!(writing, taking);
    (files.unwrap(), bytes)
}

#[tokio::test]
async fn an_archive_holds_every_row_of_its_tenant_and_none_of_others() {
    let (test, _admin, tables) = filled().await;
    let own = row(&test.db, "second").await;
    let (files, bytes) = archive(&test.db, &own).await;
    assert_eq!(archive(&test.db, &own).await.1, bytes, "the same rows give the same bytes");
    let mut zip = zip::ZipArchive::new(Cursor::new(&bytes)).unwrap();
    let mut manifest = String::new();
    zip.by_name("manifest.json").unwrap().read_to_string(&mut manifest).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let left_out = manifest["left_out"].as_array().unwrap();
    for table in &tables {
        let name = format!("tables/{table}.csv");
        let Some(file) = files.iter().find(|file| file.file == name) else {
            assert!(
                left_out.iter().any(|left| left["table"] == table.as_str()),
                "{table} is missing"
            );
            continue;
        };
        let mut text = String::new();
        zip.by_name(&name).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(file.rows, 1, "{table}");
        // Each text and key of the filling says whose it is.
        assert!(!text.contains("text-1") && !text.contains("0101"), "{table}: {text}");
        let sum: String = Sha256::digest(&text).iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(file.sha256, sum, "{table}");
        assert_eq!(file.bytes, text.len() as u64, "{table}");
    }
    assert_eq!(manifest["files"].as_array().unwrap().len(), files.len());
    let mut users = String::new();
    zip.by_name("users.csv").unwrap().read_to_string(&mut users).unwrap();
    assert!(users.starts_with("name,role\n"), "{users}");
}

#[tokio::test]
async fn a_removed_tenant_leaves_no_row_and_others_are_untouched() {
    let (test, mut admin, tables) = filled().await;
    // The filling leaves a stream open.
    run(&mut admin, "update node_session set closed_at = opened_at").await.unwrap();
    let before = rows_of(&mut admin, &tables, FOREIGN).await;
    let own = row(&test.db, "second").await;
    let steps = std::sync::Mutex::new(Vec::new());
    let who = Who::command();
    let told = |done, total| steps.lock().unwrap().push((done, total));
    let removed = tenancy::remove(&test.db, &own, (&who, AT), told).await.unwrap();
    assert_eq!(removed.rows(), i64::try_from(tables.len()).unwrap(), "{removed:?}");
    assert!(rows_of(&mut admin, &tables, OWN).await.is_empty());
    assert_eq!(rows_of(&mut admin, &tables, FOREIGN).await, before);
    let steps = steps.into_inner().unwrap();
    assert_eq!((steps.len(), steps[0].0), (steps[0].1, 0));
    let entry = "select object || ' ' || (detail->>'segment') from audit_entry
        where tenant_id is null and action = 'tenant_removed'";
    assert_eq!(texts(&mut admin, entry).await, ["second 1"]);
    assert_eq!(Action::TenantRemoved.name(), "tenant_removed");
}

/// What stays of a demo fleet's tenant, and why. A table that hangs on a node, a lease or a provider
/// and is not named here goes.
const STAYS: [(&str, &str); 12] = [
    ("tenant", "people may sign in to it"),
    ("membership", "who they are"),
    ("api_token_grant", "reach of their tokens"),
    ("user_link_grant", "reach of their links"),
    ("join_token", "made by people, for nodes to come"),
    ("profile", "contracts that people wrote"),
    ("audit_entry", "what they did"),
    ("log", "a log only grows"),
    ("log_leaf", "a log only grows"),
    ("log_tile", "a log only grows"),
    ("log_minute", "a log only grows"),
    ("log_checkpoint", "a log only grows"),
];

#[tokio::test]
async fn a_demo_fleet_leaves_no_row_in_any_table_that_hangs_on_it() {
    let (test, mut admin, tables) = filled().await;
    run(&mut admin, "update node set origin = 'simulated'").await.unwrap();
    let before = rows_of(&mut admin, &tables, FOREIGN).await;
    let own = row(&test.db, "second").await;
    let mut tx = test.db.begin(Scope::Worker).await.unwrap();
    assert_eq!(tenant::remove_simulated(&mut tx, own.key).await.unwrap(), 1);
    tx.commit().await.unwrap();
    let hangs = "select distinct c.relname::text from pg_class c
        join pg_attribute k on k.attrelid = c.oid and k.attname in
            ('node_id', 'lease_id', 'claim_id', 'bill_id', 'ticket_id')
        join pg_attribute t on t.attrelid = c.oid and t.attname = 'tenant_id'
        where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
            and not c.relispartition order by 1";
    let hangs = texts(&mut admin, hangs).await;
    assert!(hangs.len() > 30, "{hangs:?}");
    for table in &tables {
        let left = format!("select count(*) from {table} where tenant_id = {OWN}");
        let left = number(&mut admin, &left).await;
        let stays = STAYS.iter().any(|(name, _)| name == table);
        assert_eq!(left, i64::from(stays), "{table}");
        // A token forgets the lease that is gone.
        let hangs = hangs.contains(table) && table != "join_token";
        assert!(!stays || !hangs, "{table} hangs on what is gone");
    }
    let named = "select count(*) from join_token where lease_id is not null";
    assert_eq!(number(&mut admin, &format!("{named} and tenant_id = {OWN}")).await, 0);
    assert_eq!(rows_of(&mut admin, &tables, FOREIGN).await, before);
}

#[tokio::test]
async fn a_tenant_whose_nodes_are_connected_stays_until_they_are_revoked() {
    let test = support::database().await;
    let mine = fixture::enrol(&test.db, "default", 1, Origin::Measured).await;
    let node = fixture::enrol(&test.db, "leaving", 2, Origin::Measured).await;
    for (seed, row) in [(1, &mine), (2, &node)] {
        fixture::store(&test.db, row, &fixture::head(row, 1)).await;
        let record = fixture::record(seed, HOUR, row.origin);
        fixture::put_hour(&test.db, row, &record, HourState::Sealed, 1).await.unwrap();
    }
    let mut tx = test.db.begin(Scope::Ingest).await.unwrap();
    session::open(&mut tx, node.key, "0.1.0", AT).await.unwrap();
    tx.commit().await.unwrap();
    let leaving = row(&test.db, "leaving").await;
    let who = Who::command();
    let remove = async || tenancy::remove(&test.db, &leaving, (&who, AT), |_, _| ()).await;
    assert!(matches!(remove().await, Err(StoreError::Connected)));
    let mut admin = connect(&test.admin_url).await;
    assert_eq!(
        number(&mut admin, "select count(*) from hour_record").await,
        2,
        "nothing was removed"
    );
    let revoke = format!("update node_key set revoked_at = 1 where tenant_id = {}", 2);
    run(&mut admin, &revoke).await.unwrap();
    assert!(remove().await.unwrap().rows() > 5);
    // Sealed hours of the other tenant are as they were.
    assert_eq!(texts(&mut admin, "select gpu_uuid from hour_record").await, ["GPU-0001"]);
    assert!(matches!(remove().await, Err(StoreError::Query(_))), "it is gone");
}
