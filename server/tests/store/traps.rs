//! Ways around row-level security, each tried.

#![expect(clippy::unwrap_used, reason = "what does not work here fails the test")]

use futures_util::TryStreamExt as _;
use leasewatch_core::metering::HourState;
use leasewatch_core::segment::Origin;
use leasewatch_core::time::Period;
use leasewatch_server::store::node::NodeRow;
use leasewatch_server::store::segment::{Place, blocks, heads};
use leasewatch_server::store::{Scope, event, hour, node, tenant};

use crate::fixture::{self, AT, HOUR, connect, number, run, texts};
use crate::support::{self, TestDb};

const DENIED: &str = "42501";
const ROLES: [&str; 5] = [
    "leasewatch_web",
    "leasewatch_ingest",
    "leasewatch_worker",
    "leasewatch_auth",
    "leasewatch_operator",
];

/// Two tenants with a node, a segment and a sealed hour each.
async fn two_tenants() -> (TestDb, NodeRow, NodeRow) {
    let test = support::database().await;
    let mine = fixture::enrol(&test.db, "default", 1, Origin::Measured).await;
    let theirs = fixture::enrol(&test.db, "demo", 2, Origin::Simulated).await;
    for (seed, row) in [(1, &mine), (2, &theirs)] {
        fixture::store(&test.db, row, &fixture::head(row, 1)).await;
        let record = fixture::record(seed, HOUR, row.origin);
        fixture::put_hour(&test.db, row, &record, HourState::Sealed, 1).await.unwrap();
    }
    (test, mine, theirs)
}

fn web(tenant: i32) -> String {
    format!("begin; set local role leasewatch_web; set local leasewatch.tenant = '{tenant}'")
}

#[tokio::test]
async fn a_tenant_reads_its_own_rows_and_no_others() {
    let (test, mine, theirs) = two_tenants().await;
    let mut tx = test.db.begin(Scope::Tenant(mine.key.tenant)).await.unwrap();
    let period = Period::new(AT, HOUR.end());
    assert_eq!(node::list(&mut tx).await.unwrap(), std::slice::from_ref(&mine));
    assert_eq!(tenant::list(&mut tx).await.unwrap().len(), 1);
    assert_eq!(event::recent(&mut tx, 10).await.unwrap().len(), 1);
    assert_eq!(hour::page(&mut tx, (HOUR, HOUR.next()), None, None, 10).await.unwrap().len(), 1);
    assert_eq!(heads(&mut tx, mine.key, period).await.unwrap().len(), 1);
    // By name or by number, what is not yours is not there.
    assert_eq!(node::by_public_id(&mut tx, theirs.id).await.unwrap(), None);
    assert!(heads(&mut tx, theirs.key, period).await.unwrap().is_empty());
    assert!(blocks(&mut tx, theirs.key, Place::Events, period).await.unwrap().is_empty());
    assert!(hour::of_node(&mut tx, theirs.key, HOUR, HOUR.next()).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_web_role_without_a_tenant_sees_nothing() {
    let (test, ..) = two_tenants().await;
    let mut connection = connect(&test.url).await;
    for setting in ["", "; set local leasewatch.tenant = ''"] {
        run(&mut connection, &format!("begin; set local role leasewatch_web{setting}"))
            .await
            .unwrap();
        for table in
            ["tenant", "node", "segment", "segment_block", "event", "hour_record", "hour_v"]
        {
            let count = number(&mut connection, &format!("select count(*) from {table}")).await;
            assert_eq!(count, 0, "{table}");
        }
        run(&mut connection, "rollback").await.unwrap();
    }
}

#[tokio::test]
async fn a_partition_cannot_be_named_by_any_role() {
    let (test, ..) = two_tenants().await;
    let mut admin = connect(&test.admin_url).await;
    let partitions = texts(
        &mut admin,
        "select relname::text from pg_class where relispartition and relkind = 'r'",
    )
    .await;
    assert!(partitions.len() >= 5, "{partitions:?}");
    let mut connection = connect(&test.url).await;
    for partition in &partitions {
        for role in ROLES {
            let select = format!("begin; set local role {role}; select from {partition}");
            assert_eq!(
                run(&mut connection, &select).await,
                Err(DENIED.into()),
                "{role} {partition}"
            );
            run(&mut connection, "rollback").await.unwrap();
        }
    }
}

#[tokio::test]
async fn the_login_alone_may_read_nothing_and_become_nobody_else() {
    let (test, ..) = two_tenants().await;
    let mut connection = connect(&test.url).await;
    for sql in [
        "select from node",
        "set role leasewatch_owner",
        "set role leasewatch",
        "set session authorization leasewatch",
        "create table mine (x int)",
        "select leasewatch_remove_simulated(2)",
        "select leasewatch_ensure_partitions(1785240000000, 1785240000001)",
        "select leasewatch_protect('node')",
    ] {
        assert_eq!(run(&mut connection, sql).await, Err(DENIED.into()), "{sql}");
    }
    // A page that resets its role is the login again.
    run(&mut connection, &web(1)).await.unwrap();
    assert_eq!(run(&mut connection, "reset role; select from node").await, Err(DENIED.into()));
}

#[tokio::test]
async fn policies_bind_the_owner_too() {
    let (test, ..) = two_tenants().await;
    let mut admin = connect(&test.admin_url).await;
    run(&mut admin, "begin; set local role leasewatch_owner").await.unwrap();
    assert_eq!(number(&mut admin, "select count(*) from node").await, 2);
    run(&mut admin, "drop policy owner_all on node").await.unwrap();
    assert_eq!(number(&mut admin, "select count(*) from node").await, 0);
    run(&mut admin, "rollback").await.unwrap();
}

#[tokio::test]
async fn a_view_reads_with_the_eyes_of_its_reader() {
    let (test, ..) = two_tenants().await;
    let mut connection = connect(&test.url).await;
    for (tenant, name) in [(1, "node-1"), (2, "node-2")] {
        run(&mut connection, &web(tenant)).await.unwrap();
        assert_eq!(texts(&mut connection, "select node_name from hour_v").await, [name]);
        run(&mut connection, "rollback").await.unwrap();
    }
    // The trap itself, so that this test is known to be able to fail: without the option a view
    // shows everything that its owner sees.
    let mut admin = connect(&test.admin_url).await;
    run(&mut admin, "set role leasewatch_owner; create view leak as select * from node; grant select on leak to leasewatch_web").await.unwrap();
    run(&mut connection, &web(1)).await.unwrap();
    assert_eq!(number(&mut connection, "select count(*) from leak").await, 2);
}

#[tokio::test]
async fn copy_gives_only_own_rows_and_takes_none() {
    let (test, ..) = two_tenants().await;
    let mut connection = connect(&test.url).await;
    run(&mut connection, &web(1)).await.unwrap();
    let mut out = Vec::new();
    let mut rows = connection.copy_out_raw("copy node (name) to stdout").await.unwrap();
    while let Some(chunk) = rows.try_next().await.unwrap() {
        out.extend_from_slice(&chunk);
    }
    drop(rows);
    assert_eq!(out, b"node-1\n");
    for sql in [
        "copy node (name) from stdin",
        "copy node to program 'cat'",
        "copy node to '/tmp/leasewatch-copy'",
        "copy segment_d20260728 to stdout",
    ] {
        run(&mut connection, "rollback").await.unwrap();
        run(&mut connection, &web(1)).await.unwrap();
        assert_eq!(run(&mut connection, sql).await, Err(DENIED.into()), "{sql}");
    }
}

#[tokio::test]
async fn nobody_may_truncate_or_change_the_schema() {
    let (test, ..) = two_tenants().await;
    let mut connection = connect(&test.url).await;
    for role in ROLES {
        for sql in [
            "truncate hour_record",
            "truncate segment",
            "drop table node cascade",
            "alter table node disable row level security",
            "drop policy web_tenant on node",
            "alter table hour_record disable trigger keep_sealed",
            "create table mine (x int)",
        ] {
            let sql = format!("begin; set local role {role}; {sql}");
            assert_eq!(run(&mut connection, &sql).await, Err(DENIED.into()), "{sql}");
            run(&mut connection, "rollback").await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_page_writes_nothing() {
    let (test, ..) = two_tenants().await;
    let mut connection = connect(&test.url).await;
    for sql in [
        "insert into tenant (slug, name) values ('x', 'x')",
        "update node set name = 'x'",
        "delete from hour_record",
        "insert into hour_work values (1, 1, 1, 1)",
        "select from node for update",
    ] {
        run(&mut connection, &web(1)).await.unwrap();
        assert_eq!(run(&mut connection, sql).await, Err(DENIED.into()), "{sql}");
        run(&mut connection, "rollback").await.unwrap();
    }
}

#[tokio::test]
async fn a_tenant_setting_ends_with_its_transaction_and_a_leaked_one_is_overwritten() {
    let (test, mine, theirs) = two_tenants().await;
    let mut connection = connect(&test.url).await;
    run(&mut connection, &format!("{}; commit", web(1))).await.unwrap();
    let setting = "select coalesce(current_setting('leasewatch.tenant', true), '')";
    assert_eq!(texts(&mut connection, setting).await, [""]);

    // A statement that sets it for the session, as an injected one would: the next scope wins.
    let single = leasewatch_server::store::Db::connect(&test.url, 1).await.unwrap();
    run(&mut connection, "set leasewatch.tenant = '2'").await.unwrap();
    run(&mut connection, &web(1)).await.unwrap();
    assert_eq!(texts(&mut connection, "select name from node").await, ["node-1"]);
    for row in [&mine, &theirs, &mine] {
        let mut tx = single.begin(Scope::Tenant(row.key.tenant)).await.unwrap();
        assert_eq!(node::list(&mut tx).await.unwrap(), std::slice::from_ref(row));
        tx.commit().await.unwrap();
    }
}

#[tokio::test]
async fn users_sessions_and_tokens_can_be_read_by_one_role_alone() {
    let test = support::database().await;
    let mut connection = connect(&test.url).await;
    let tables = [
        "app_user",
        "user_session",
        "api_token",
        "user_link",
        "membership",
        "api_token_grant",
        "user_link_grant",
    ];
    for table in tables {
        for role in ROLES {
            let select = format!("begin; set local role {role}; select from {table}");
            let allowed = run(&mut connection, &select).await;
            let expected = if role == "leasewatch_auth" { Ok(()) } else { Err(DENIED.into()) };
            assert_eq!(allowed.map(|_| ()), expected, "{role} {table}");
            run(&mut connection, "rollback").await.unwrap();
        }
    }
    // And that role reads nothing but them, and which tenants there are.
    for table in
        ["node", "segment", "segment_block", "event", "hour_record", "node_key", "provider"]
    {
        let select = format!("begin; set local role leasewatch_auth; select from {table}");
        assert_eq!(run(&mut connection, &select).await, Err(DENIED.into()), "{table}");
        run(&mut connection, "rollback").await.unwrap();
    }
    for table in ["app_user", "api_token", "user_link"] {
        let delete = format!("begin; set local role leasewatch_auth; delete from {table}");
        assert_eq!(run(&mut connection, &delete).await, Err(DENIED.into()), "{table}");
        run(&mut connection, "rollback").await.unwrap();
    }
}
