//! The second branch of the schema: the whole line on TimescaleDB, and everything that must not
//! differ from plain PostgreSQL. One test in steps, since that server has one connection.

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt as _;
use leasewatch_core::segment::Origin;
use leasewatch_core::time::{DAY_MS, Hour, Period, Timestamp};
use leasewatch_server::http::{self, Entrance, Http};
use leasewatch_server::intake::Intake;
use leasewatch_server::jobs::{Jobs, close_hours};
use leasewatch_server::live::Live;
use leasewatch_server::store::hour::{self, HourRow};
use leasewatch_server::store::{
    Db, Durability, Scope, StoreError, TimeLayout, migrate, node, partition, preflight, segment,
    tenant,
};
use leasewatch_server::tenancy::Removals;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};
use tower::ServiceExt as _;

use crate::agent::{Agent, gpu, slug};
use crate::rig::{ALWAYS, NOW, Rig};
use crate::wasm::Wasm;

const DENIED: &str = "42501";
const RAW: [&str; 3] = ["segment", "segment_block", "event"];
const ROLES: [&str; 6] = [
    "leasewatch_web",
    "leasewatch_ingest",
    "leasewatch_worker",
    "leasewatch_auth",
    "leasewatch_operator",
    "leasewatch_login",
];

/// Everything that a role may see or do of the tables of raw data, line by line. Rights are those
/// in effect: the web role holds them by column in one branch and by table in the other.
const SHAPE: &str = r"
with raw as (
    select * from pg_class where oid in ('segment'::regclass, 'segment_block'::regclass, 'event'::regclass)
), role as (
    select * from pg_roles where rolname like 'leasewatch\_%' and rolname <> 'leasewatch_owner'
), line (text) as (
    select concat_ws(' ', 'table', relowner::regrole, relrowsecurity, relforcerowsecurity, obj_description(r.oid))
    from raw r
    union all
    select concat_ws(' ', 'column', attnum, attname, format_type(atttypid, atttypmod), attnotnull, attstorage,
        atthasdef, col_description(attrelid, attnum), attrelid::regclass)
    from pg_attribute join raw r on r.oid = attrelid where attnum > 0
    union all
    select concat_ws(' ', 'constraint', conname, pg_get_constraintdef(c.oid), conrelid::regclass)
    from pg_constraint c join raw r on r.oid = conrelid
    union all
    select replace(pg_get_indexdef(indexrelid), ' ON ONLY ', ' ON ')
    from pg_index join raw r on r.oid = indrelid
    union all
    select concat_ws(' ', 'policy', polname, polcmd, polpermissive, polroles::regrole[],
        pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid), polrelid::regclass)
    from pg_policy join raw r on r.oid = polrelid
    union all
    select 'trigger ' || pg_get_triggerdef(t.oid) from pg_trigger t join raw r on r.oid = tgrelid
    where not tgisinternal and tgname <> 'ts_insert_blocker'
    union all
    select concat_ws(' ', rolname, 'may', may, attname, relname)
    from role, raw r join pg_attribute a on a.attrelid = r.oid and attnum > 0,
        unnest(array['select', 'insert', 'update', 'references']) may
    where has_column_privilege(rolname, r.oid, attnum, may)
    union all
    select concat_ws(' ', rolname, 'may', may, relname)
    from role, raw r, unnest(array['delete', 'truncate', 'trigger']) may
    where has_table_privilege(rolname, r.oid, may)
)
select text from line order by 1";

const CHUNKS: &str =
    "select chunk_schema || '.' || chunk_name from timescaledb_information.chunks order by 1";

#[tokio::test]
async fn the_whole_line_on_timescaledb_is_the_one_on_plain_postgresql() {
    let wasm = Wasm::start();
    let admin_url = wasm.url("postgres");
    migrate(&admin_url).await.unwrap();
    migrate(&admin_url).await.unwrap();
    let plain = Rig::new().await;
    let shape = texts(&mut connect(&plain.database.admin_url).await, SHAPE).await;
    assert!(shape.len() > 100, "{shape:?}");
    let mut admin = connect(&admin_url).await;
    assert_eq!(texts(&mut admin, SHAPE).await, shape);
    admin.close().await.unwrap();

    let database = wasm.database().await;
    let db = database.db.clone();
    assert_eq!(preflight(&db, Durability::Throwaway).await.unwrap(), TimeLayout::Hypertables);
    let ours = preflight(&plain.database.db, Durability::Throwaway).await.unwrap();
    assert_eq!(ours, TimeLayout::Partitions);
    partitions_are_made_for_hours_alone(&db).await;
    let rig = Rig::on(database, db.clone(), |_| ()).await;
    let (expected, found) = (recorded(&plain).await, recorded(&rig).await);
    assert_eq!(found.hours, expected.hours);
    for (page, expected) in found.pages.iter().zip(&expected.pages) {
        let differences =
            page.lines().zip(expected.lines()).find(|(line, expected)| line != expected);
        assert_eq!((differences, page.len()), (None, expected.len()));
    }
    tenants_are_kept_apart(&rig).await;
    db.close().await;

    nobody_looks_into_chunks(&wasm).await;
    let mut login = connect(&wasm.url("leasewatch_login")).await;
    let later = "begin; set local role leasewatch_ingest; insert into event select tenant_id, node_id, \
        at + 90 * 86400000::bigint, chain_id, sequence, ordinal, gpu_uuid, kind, body from event; commit";
    run(&mut login, later).await.unwrap();
    login.close().await.unwrap();
    nobody_looks_into_chunks(&wasm).await;
    what_is_simulated_can_be_removed(&wasm).await;
}

async fn partitions_are_made_for_hours_alone(db: &Db) {
    let month = Period::new(Timestamp(1_785_542_400_000), Timestamp(1_785_542_400_000 + DAY_MS));
    // A month of hour records and of profiles.
    assert_eq!(partition::ensure(db, month).await.unwrap(), 2);
    assert_eq!(partition::ensure(db, month).await.unwrap(), 0);
}

/// What a server made of it: rows of each node, and its pages.
struct Recorded {
    hours: Vec<Vec<HourRow>>,
    pages: Vec<String>,
}

/// Two nodes of two tenants deliver over a stream on two days; the hours are closed and shown.
async fn recorded(rig: &Rig) -> Recorded {
    let (mut mine, mut theirs) = (Agent::new(31, NOW), Agent::new(32, NOW));
    mine.gpus.push(gpu(31, 1));
    theirs.tenant = slug("demo");
    theirs.origin = Origin::Simulated;
    let mut clients = [rig.join(&mine).await.unwrap(), rig.join(&theirs).await.unwrap()];
    for sequence in 1..=3 {
        for (agent, client) in [&mut mine, &mut theirs].into_iter().zip(&mut clients) {
            assert_eq!(client.ack(rig.seal(agent)).await, (sequence, false));
            // The third one is recorded a day later.
            agent.at = agent.at.plus_ms(if sequence == 2 { DAY_MS } else { 0 });
        }
    }
    rig.clock.set(mine.at.hour().end().plus_ms(60_000));
    let jobs = Jobs { db: rig.state.db.clone(), live: rig.live.clone(), clock: rig.clock.clone() };
    assert_eq!(close_hours::turn(&jobs, true).await.unwrap(), 75);
    let (mut hours, mut pages) = (Vec::new(), vec![page(&jobs, "/").await]);
    for agent in [&mine, &theirs] {
        let key = rig.node(agent.id()).await.unwrap().key;
        let mut tx = jobs.db.begin(Scope::Operator).await.unwrap();
        hours.push(hour::of_node(&mut tx, key, Hour(0), Hour(1_000_000)).await.unwrap());
        tx.commit().await.unwrap();
        for path in ["", "/gpus/0"] {
            let html = page(&jobs, &format!("/nodes/{}{path}", agent.id())).await;
            assert!(html.contains(&agent.name), "{html}");
            pages.push(html);
        }
    }
    let csv = page(&jobs, "/hours.csv?from=2026-09-21&to=2026-09-22").await;
    assert_eq!(csv.matches(",GPU-").count(), 75, "{csv}");
    pages.push(csv);
    Recorded { hours, pages }
}

async fn page(jobs: &Jobs, path: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let state = Http {
        db: jobs.db.clone(),
        // Live values have times of their own: these are the pages of a server that just started.
        live: Live::new(),
        clock: jobs.clock.clone(),
        address: "http://127.0.0.1:7443".to_owned(),
        intake: Intake::open(folder.path().join("uploads"), 1).unwrap().0,
        entrance: Entrance::default(),
        issuer: crate::rig::issuer(&jobs.db, &jobs.clock),
        installers: crate::rig::no_installers(),
        removals: Removals::default(),
    };
    let request = Request::get(path).body(Body::empty()).unwrap();
    let answer = http::router(state).oneshot(request).await.unwrap();
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let body = String::from_utf8(body.to_vec()).unwrap();
    assert_eq!(status, 200, "{path}: {body}");
    body
}

async fn tenants_are_kept_apart(rig: &Rig) {
    let db = &rig.database.db;
    let nodes = [31, 32].map(|seed| Agent::new(seed, NOW).id());
    for (own, other) in [(0, 1), (1, 0)] {
        let [own, other] =
            [rig.node(nodes[own]).await.unwrap(), rig.node(nodes[other]).await.unwrap()];
        let mut tx = db.begin(Scope::Tenant(own.key.tenant)).await.unwrap();
        assert_eq!(node::list(&mut tx).await.unwrap().len(), 1);
        assert_eq!(segment::heads(&mut tx, own.key, ALWAYS).await.unwrap().len(), 3);
        assert!(segment::heads(&mut tx, other.key, ALWAYS).await.unwrap().is_empty());
        tx.commit().await.unwrap();
    }
}

/// Chunks have the grants of their table and no policies, so no role of ours may name one, nor read
/// the statistics of one, nor drop one; and the tables themselves show each tenant its own rows.
async fn nobody_looks_into_chunks(wasm: &Wasm) {
    let mut admin = connect(&wasm.url("postgres")).await;
    let chunks = texts(&mut admin, CHUNKS).await;
    for table in RAW {
        let of_table = format!(
            "select count(*) from timescaledb_information.chunks where hypertable_name = '{table}'"
        );
        assert!(number(&mut admin, &of_table).await >= 1, "{table}");
    }
    let owners =
        "select count(*) from pg_class where relnamespace = 'leasewatch_chunk'::regnamespace
        and relkind = 'r' and relowner = 'leasewatch_owner'::regrole";
    assert_eq!(number(&mut admin, owners).await, i64::try_from(chunks.len()).unwrap());
    for chunk in &chunks {
        run(&mut admin, &format!("analyze {chunk}")).await.unwrap();
    }
    admin.close().await.unwrap();

    let mut login = connect(&wasm.url("leasewatch_login")).await;
    for role in ROLES {
        for chunk in &chunks {
            for what in ["select from", "delete from", "truncate", "drop table"] {
                denied(&mut login, role, &format!("{what} {chunk}")).await;
            }
        }
        denied(&mut login, role, "select drop_chunks('event', 9000000000000)").await;
        denied(&mut login, role, "create table leasewatch_chunk.mine (x int)").await;
    }
    begin(&mut login, "leasewatch_web", 1).await;
    let known = "select count(*) from pg_stats where schemaname = 'leasewatch_chunk'";
    assert_eq!(number(&mut login, known).await, 0, "values of other tenants as statistics");
    for (tenant, own) in [(0, 0), (1, 1), (2, 1)] {
        run(&mut login, "rollback").await.unwrap();
        begin(&mut login, "leasewatch_web", tenant).await;
        for table in RAW {
            let tenants = format!("select count(distinct tenant_id) from {table}");
            assert_eq!(number(&mut login, &tenants).await, own, "{table} of tenant {tenant}");
            let others = format!("select count(*) from {table} where tenant_id <> {tenant}");
            assert_eq!(number(&mut login, &others).await, 0, "{table} of tenant {tenant}");
        }
    }
    login.close().await.unwrap();
}

async fn what_is_simulated_can_be_removed(wasm: &Wasm) {
    let database = wasm.database().await;
    for (name, removable) in [("demo", true), ("default", false)] {
        let mut tx = database.db.begin(Scope::Worker).await.unwrap();
        let row = tenant::by_slug(&mut tx, &slug(name)).await.unwrap().unwrap();
        match tenant::remove_simulated(&mut tx, row.key).await {
            Ok(removed) => assert_eq!((removed, removable), (1, true)),
            Err(StoreError::NotSimulated) => assert!(!removable),
            Err(other) => panic!("{other:?}"),
        }
        if removable {
            tx.commit().await.unwrap();
        }
    }
    database.db.close().await;
    let mut admin = connect(&wasm.url("postgres")).await;
    for (table, left) in [("segment", 3), ("segment_block", 10), ("event", 4)] {
        assert_eq!(number(&mut admin, &format!("select count(*) from {table}")).await, left);
        let tenants = format!("select count(distinct tenant_id) from {table}");
        assert_eq!(number(&mut admin, &tenants).await, 1, "{table}");
    }
}

async fn connect(url: &str) -> PgConnection {
    PgConnection::connect(url).await.unwrap()
}

async fn begin(connection: &mut PgConnection, role: &str, tenant: i32) {
    let scope = format!("begin; set local role {role}; set local leasewatch.tenant = '{tenant}'");
    run(connection, &scope).await.unwrap();
}

async fn denied(connection: &mut PgConnection, role: &str, sql: &str) {
    begin(connection, role, 1).await;
    assert_eq!(run(connection, sql).await, Err(DENIED.to_owned()), "{role}: {sql}");
    run(connection, "rollback").await.unwrap();
}

/// The SQLSTATE where the database refuses.
async fn run(connection: &mut PgConnection, sql: &str) -> Result<(), String> {
    let result = connection.execute(sqlx::raw_sql(AssertSqlSafe(sql.to_owned()))).await;
    result.map(|_| ()).map_err(|error| match error.as_database_error() {
        Some(error) => error.code().unwrap_or_default().into_owned(),
        None => error.to_string(),
    })
}

async fn number(connection: &mut PgConnection, sql: &str) -> i64 {
    sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(connection).await.unwrap()
}

async fn texts(connection: &mut PgConnection, sql: &str) -> Vec<String> {
    sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_all(connection).await.unwrap()
}
