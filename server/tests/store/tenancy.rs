//! Tenants are kept apart by the database alone (promise T2): every table with a tenant gets a row
//! of two tenants, and whatever one of them asks is answered as if the other were not there. What is
//! asked are the program's own queries with every condition taken out.
//!
//! Nothing here knows a table or a query by name: a new one is covered as soon as it exists. Not
//! here: what pages make of it (`tests/ingest/access`), and ways around policies (`traps`).

#![expect(clippy::unwrap_used, reason = "what does not work here fails the test")]

use std::collections::BTreeMap;
use std::path::Path;

use sqlx::PgConnection;

use crate::fixture::{connect, number, run, texts};
use crate::support::{self, TestDb};

const DENIED: &str = "42501";
/// Whoever asks, and whose rows must not matter.
pub(crate) const OWN: i32 = 2;
pub(crate) const FOREIGN: i32 = 1;

/// Rows of two tenants in each table that has a tenant. Constraints are dropped first, in this
/// database of the test's own: values that fit them all are not to be had without knowing each
/// table, and policies do not depend on them.
const FILL: &str = r#"
set session_replication_role = replica;
insert into tenant (slug, name) values ('second', 'second');
insert into provider (slug, name) values ('second', 'second');
do $fill$
declare
    target record;
    dropped int;
    tenant int;
    columns text;
    contents text;
begin
    -- A partition keeps its own copy of a check when its parent drops it.
    loop
        dropped := 0;
        for target in select conrelid::regclass as name, conname from pg_constraint
            where connamespace = 'public'::regnamespace and contype in ('c', 'f', 'x')
                and conrelid <> 0 and conparentid = 0 and coninhcount = 0
        loop
            execute format('alter table %s drop constraint %I', target.name, target.conname);
            dropped := dropped + 1;
        end loop;
        exit when dropped = 0;
    end loop;
    for target in select c.oid, c.oid::regclass as name from pg_class c
        join pg_attribute t on t.attrelid = c.oid and t.attname = 'tenant_id'
        where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p')
            and not c.relispartition and c.relname <> 'tenant'
    loop
        for tenant in 1 .. 2 loop
            select string_agg(quote_ident(attname), ', ' order by attnum),
                string_agg(case
                    when attname = 'tenant_id' then tenant::text
                    when attname = 'hour' then '495900'
                    when typname in ('int2', 'int4', 'numeric', 'float8') then tenant::text
                    when typname = 'int8' then (1785240000000 + tenant)::text
                    when typname = 'bool' then 'true'
                    when typname = 'bytea' then format('decode(repeat(%L, 32), ''hex'')', '0' || tenant)
                    when typname in ('json', 'jsonb') then quote_literal('{}')
                    when typname in ('date', 'timestamptz') then quote_literal('2026-07-28')
                    when typcategory = 'S' then quote_literal('text-' || tenant)
                    when typcategory = 'A' then quote_literal('{}')
                    when typcategory = 'R' then quote_literal('empty')
                    else 'null'
                end, ', ' order by attnum)
            into columns, contents
            from pg_attribute join pg_type y on y.oid = atttypid
            where attrelid = target.oid and attnum > 0 and not attisdropped and attgenerated = '';
            execute format('insert into %s (%s) overriding system value values (%s)', target.name, columns, contents);
        end loop;
    end loop;
end
$fill$;
set session_replication_role = origin;
"#;

/// Tables that hold rows of tenants.
const TABLES: &str = "select c.relname::text from pg_class c
    join pg_attribute t on t.attrelid = c.oid and t.attname = 'tenant_id'
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
    order by 1";

/// A database in which each of those tables has a row of either tenant, and a superuser in it.
pub(crate) async fn filled() -> (TestDb, PgConnection, Vec<String>) {
    let test = support::database().await;
    let mut login = connect(&test.url).await;
    let ensure = "begin; set local role leasewatch_worker; select leasewatch_ensure_partitions(1785240000000, 1785240000001); commit";
    run(&mut login, ensure).await.unwrap();
    let mut admin = connect(&test.admin_url).await;
    run(&mut admin, FILL).await.unwrap();
    let tables = texts(&mut admin, TABLES).await;
    assert!(tables.len() > 20, "{tables:?}");
    for table in &tables {
        let rows = format!("select count(distinct tenant_id) from {table}");
        assert_eq!(number(&mut admin, &rows).await, 2, "{table} has no row of each tenant");
    }
    (test, admin, tables)
}

fn web() -> String {
    format!("set local role leasewatch_web; set local leasewatch.tenant = '{OWN}'")
}

/// The program's queries, by their text, with the types of their parameters.
fn queries() -> BTreeMap<String, Vec<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.sqlx");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    files
        .map(|file| {
            let json: serde_json::Value =
                serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
            let types = json["describe"]["parameters"]["Left"].as_array().unwrap();
            let types = types.iter().map(|kind| kind.as_str().unwrap_or("text").to_owned());
            (json["query"].as_str().unwrap().to_owned(), types.collect())
        })
        .collect()
}

/// A query without any `where`, without limits, and with nothing for its parameters.
fn stripped(query: &str, types: &[String]) -> String {
    let spaced = query.replace('(', " ( ").replace(')', " ) ").replace(',', " , ");
    let (mut depth, mut skipping, mut out) = (0_usize, None, Vec::new());
    for word in spaced.split_whitespace() {
        if word == ")" {
            depth -= 1;
        }
        let ends = ["order", "group", "having", "limit", "returning", "union", "for", "window"];
        if skipping.is_some_and(|from| depth < from || depth == from && ends.contains(&word)) {
            skipping = None;
        }
        if skipping.is_none() && ["where", "for"].contains(&word) {
            skipping = Some(depth);
        }
        if skipping.is_none() {
            out.push(word);
        }
        if word == "(" {
            depth += 1;
        }
    }
    // Conditions of joins that name the tenant go too, with or without the table's short name.
    while let Some(at) = out.windows(3).position(|three| {
        three[0].ends_with("tenant_id") && three[1] == "=" && three[2].starts_with('$')
    }) {
        out.splice(at..at + 3, ["true"]);
    }
    let mut text = out.join(" ").replace("filter ( )", "");
    for (index, kind) in types.iter().enumerate().rev() {
        let place = format!("${}", index + 1);
        text = text.replace(&format!("limit {place}"), "limit all");
        text = text.replace(&place, &format!("null::{}", kind.replace("Array", "[]")));
    }
    text
}

fn writes(query: &str) -> bool {
    let spaced = query.replace('(', " ( ");
    let words: Vec<_> = spaced.split_whitespace().collect();
    let changes = |two: &[&str]| {
        two == ["insert", "into"] || two == ["delete", "from"] || two == ["(", "update"]
    };
    words.first() == Some(&"update") || words.windows(2).any(changes)
}

/// What each query gives in a role, as one text; or why it gives nothing. In the transaction of
/// `connection`.
async fn answers(
    connection: &mut PgConnection,
    role: &str,
    queries: &[String],
) -> Vec<Result<String, String>> {
    let mut answers = Vec::new();
    for query in queries {
        run(connection, &format!("savepoint query; {role}")).await.unwrap();
        let whole = format!(
            "select coalesce(string_agg(q::text, '|' order by q::text), '') from ({query}) q"
        );
        let answer =
            sqlx::query_scalar(sqlx::AssertSqlSafe(whole)).fetch_one(&mut *connection).await;
        answers
            .push(answer.map_err(|error| format!("{} {error}", crate::fixture::sqlstate(&error))));
        run(connection, "rollback to query; reset role").await.unwrap();
    }
    answers
}

/// Everything that a tenant has, as one text.
pub(crate) async fn rows_of(
    connection: &mut PgConnection,
    tables: &[String],
    tenant: i32,
) -> Vec<String> {
    let mut rows = Vec::new();
    for table in tables {
        let all = format!("select t::text from {table} t where tenant_id = {tenant} order by 1");
        rows.extend(texts(connection, &all).await.into_iter().map(|row| format!("{table} {row}")));
    }
    rows
}

#[tokio::test]
async fn what_a_tenant_reads_does_not_depend_on_others_in_any_query_without_its_conditions() {
    let (_test, mut admin, tables) = filled().await;
    let stripped: Vec<_> = queries()
        .iter()
        .filter(|(query, _)| !writes(query))
        .map(|(query, types)| stripped(query, types))
        // Each table whole, too: whatever a query would make of it, it has no more than this.
        .chain(tables.iter().map(|table| format!("select * from {table}")))
        .collect();
    run(&mut admin, "begin").await.unwrap();
    let with_others = answers(&mut admin, &web(), &stripped).await;
    let operator = "set local role leasewatch_operator";
    let of_operator = answers(&mut admin, operator, &stripped).await;
    run(&mut admin, "set local session_replication_role = replica").await.unwrap();
    for table in &tables {
        run(&mut admin, &format!("delete from {table} where tenant_id = {FOREIGN}")).await.unwrap();
    }
    let alone = answers(&mut admin, &web(), &stripped).await;
    let of_operator_alone = answers(&mut admin, operator, &stripped).await;
    let (mut read, mut would_differ) = (0, 0);
    for (index, query) in stripped.iter().enumerate() {
        match &with_others[index] {
            Ok(_) => read += 1,
            Err(why) => assert!(why.starts_with(DENIED), "{query}: {why}"),
        }
        assert_eq!(with_others[index], alone[index], "{query}");
        would_differ += i32::from(of_operator[index] != of_operator_alone[index]);
    }
    // The queries do ask for others' rows: who may see them gets other answers.
    assert!(read > 40 && would_differ > 40, "{read} read, {would_differ} would differ");
}

#[tokio::test]
async fn a_tenant_changes_nothing_of_others_by_any_query_without_its_conditions() {
    let (_test, mut admin, tables) = filled().await;
    let before = rows_of(&mut admin, &tables, FOREIGN).await;
    let changes: Vec<_> = queries()
        .iter()
        .filter(|(query, _)| writes(query))
        .map(|(query, types)| stripped(query, types))
        .collect();
    assert!(changes.len() > 40, "{}", changes.len());
    let mut refused = 0;
    for change in &changes {
        run(&mut admin, &format!("begin; {}", web())).await.unwrap();
        match run(&mut admin, change).await {
            Err(code) => {
                assert!(!code.starts_with("42") || code == DENIED, "{change}: {code}");
                refused += i32::from(code == DENIED);
                run(&mut admin, "rollback").await.unwrap();
            }
            // It may change the tenant's own.
            Ok(()) => run(&mut admin, "reset role; commit").await.unwrap(),
        }
        assert_eq!(rows_of(&mut admin, &tables, FOREIGN).await, before, "{change}");
    }
    assert!(refused > 20, "{refused}");
}

/// Rights of the web role on a table.
async fn may(admin: &mut PgConnection, right: &str, table: &str) -> bool {
    let on_columns = match right {
        "insert" | "update" => {
            format!("has_any_column_privilege('leasewatch_web', '{table}', '{right}')")
        }
        _ => "false".to_owned(),
    };
    let sql = format!(
        "select (has_table_privilege('leasewatch_web', '{table}', '{right}') or {on_columns})::int::bigint"
    );
    number(admin, &sql).await == 1
}

#[tokio::test]
async fn who_may_write_into_a_table_writes_within_its_tenant_alone() {
    let (_test, mut admin, tables) = filled().await;
    let before = rows_of(&mut admin, &tables, FOREIGN).await;
    for table in &tables {
        let columns = format!(
            "select quote_ident(attname) from pg_attribute where attrelid = '{table}'::regclass and attnum > 0
            and not attisdropped and attgenerated = '' and attidentity = '' and attname <> 'tenant_id'
            and has_column_privilege('leasewatch_web', attrelid, attnum, 'insert')"
        );
        let columns = texts(&mut admin, &columns).await;
        let list = |first: &str| {
            std::iter::once(first.to_owned()).chain(columns.clone()).collect::<Vec<_>>().join(", ")
        };
        // By name or as one of one's own that is moved: it never gets to another tenant.
        let insert = format!(
            "insert into {table} ({}) overriding system value select {} from {table}",
            list("tenant_id"),
            list(&FOREIGN.to_string())
        );
        let changes = [
            ("insert", insert),
            ("update", format!("update {table} set tenant_id = {FOREIGN}")),
            ("delete", format!("delete from {table} where tenant_id = {FOREIGN}")),
            ("truncate", format!("truncate {table}")),
        ];
        for (right, change) in changes {
            run(&mut admin, &format!("begin; {}", web())).await.unwrap();
            let done = run(&mut admin, &change).await;
            // Deleting what is not there is nothing; everything else is said to be refused.
            let may_be_nothing = right == "delete" && may_in(&mut admin, right, table).await;
            if !may_be_nothing {
                // Numbers that the database gives are not to be chosen, which is refused before.
                let code = done.unwrap_err();
                assert!([DENIED, "428C9"].contains(&code.as_str()), "{change}: {code}");
            }
            run(&mut admin, "rollback").await.unwrap();
        }
        for right in ["update", "delete"] {
            if !may(&mut admin, right, table).await {
                continue;
            }
            let all = match right {
                "update" => {
                    let column = format!(
                        "select quote_ident(attname) from pg_attribute where attrelid = '{table}'::regclass
                        and attnum > 0 and has_column_privilege('leasewatch_web', attrelid, attnum, 'update')"
                    );
                    let column = &texts(&mut admin, &column).await[0];
                    format!("update {table} set {column} = {column}")
                }
                _ => format!("delete from {table}"),
            };
            run(&mut admin, &format!("begin; {}; {all}; reset role", web())).await.unwrap();
            assert_eq!(rows_of(&mut admin, &tables, FOREIGN).await, before, "{all}");
            run(&mut admin, "rollback").await.unwrap();
        }
    }
}

/// As [`may`], also within a transaction that was refused something.
async fn may_in(admin: &mut PgConnection, right: &str, table: &str) -> bool {
    run(admin, "rollback; begin").await.unwrap();
    may(admin, right, table).await
}

#[tokio::test]
async fn nobody_who_is_let_through_everything_is_the_role_of_pages() {
    let (_test, mut admin, _) = filled().await;
    // A superuser sees everything, whatever policies say: connected as one without a change of role,
    // a test would prove nothing.
    assert_eq!(number(&mut admin, "select count(*) from node").await, 2);
    run(&mut admin, &format!("begin; {}", web())).await.unwrap();
    assert_eq!(number(&mut admin, "select count(*) from node").await, 1);
    run(&mut admin, "rollback").await.unwrap();
    let bypassing = "select rolname::text from pg_roles where (rolsuper or rolbypassrls)
        and pg_has_role('leasewatch_login', oid, 'member')";
    assert_eq!(texts(&mut admin, bypassing).await, Vec::<String>::new());
}

#[test]
fn a_query_loses_its_conditions_and_nothing_else() {
    let types = ["Int4".to_owned(), "Int8".to_owned(), "Int4Array".to_owned()];
    let query = "select a, (select max(b) from event e where e.tenant_id = $1) from node n
        join unnest($3) u(x) on n.tenant_id = $1 where n.name = 'x' and n.at < $2 order by a limit $2";
    assert_eq!(
        stripped(query, &types),
        "select a , ( select max ( b ) from event e ) from node n join unnest ( null::Int4[] ) u ( x ) \
         on true order by a limit all"
    );
}
