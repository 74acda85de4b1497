//! A year behind the script: what a long range costs the page and the database.

use leasewatch_core::time::HOUR_MS;
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};

use super::script::{Played, start};

/// Hours before the script that are as its first one.
pub(super) const YEAR_BEHIND: i64 = 8_700;

/// Lets the node be a year old, and the hours before the script's month have a place.
pub(super) const A_YEAR_OLD: &str = "
    update node set enrolled_at = enrolled_at - 8760 * 3600000::bigint;
    update slot set first_seen_at = first_seen_at - 8760 * 3600000::bigint;
    select leasewatch_make_partition(t::regclass, '_year', lower, upper)
    from unnest(array['hour_record', 'hour_profile']) as t
    cross join lateral (select (extract(epoch from
        date_trunc('month', to_timestamp(min(hour)::bigint * 3600) at time zone 'UTC')) / 3600)::bigint as upper
        from hour_record) as month
    cross join lateral (select upper - 9000 as lower) as year;
";

/// Copies of the closed hour's record and profile in the hours before it.
pub(super) fn copies(hours: i64) -> String {
    let first = start().hour().0;
    let copy = |table: &str, columns: &str| {
        format!(
            "insert into {table} (tenant_id, node_id, slot_no, hour, gpu_uuid, {columns})
            select tenant_id, node_id, slot_no, back.hour, gpu_uuid, {columns} from {table}
            cross join generate_series({}, {}) as back (hour) where {table}.hour = {first};",
            first - hours,
            first - 1,
        )
    };
    let columns = "revision, state, origin, enrolled_ms, measured_ms, busy_pct_ms, body, hash, \
        previous_hash, written_at";
    copy("hour_record", columns) + &copy("hour_profile", "body")
}

pub(super) async fn a_year_is_at_most_420_points_and_adds_up(played: &Played) {
    let view = played.view("last=1y").await;
    assert_eq!((view.text("detail"), view.0["bucket_ms"].as_i64()), ("hours", Some(24 * HOUR_MS)));
    for series in view.0["series"].as_array().unwrap() {
        // The hour that is copied has two GPUs, so a break stands in each bucket.
        let points = series["points"].as_array().unwrap();
        let bands = points.iter().filter(|point| !point["band"].is_null());
        let starts: std::collections::BTreeSet<&str> =
            bands.map(|point| point["at"].as_str().unwrap()).collect();
        assert!((363..=420).contains(&starts.len()), "{}: {}", series["metric"], starts.len());
    }
    let shares: i64 = view.missing().1.iter().map(|(ms, _)| ms).sum();
    assert_eq!(shares, 300_000 * (YEAR_BEHIND + 1));
    assert_eq!(view.0["sums"], Value::Null, "hours before the first are enrolled and not known");
}

/// The one prepared query that holds a text, as the program has it.
fn query(fragment: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../.sqlx");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let queries = files.map(|file| {
        let json: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        json["query"].as_str().unwrap().to_owned()
    });
    let mut found = queries.filter(|query| query.contains(fragment));
    let query = found.next().unwrap();
    assert_eq!(found.next(), None, "{fragment}");
    query
}

/// Pages of the database that a query touches, and the rows it gives.
async fn cost(played: &Played, fragment: &str, arguments: &str) -> (i64, i64) {
    let mut admin = PgConnection::connect(&played.rig.database.admin_url).await.unwrap();
    let prepare = format!("prepare asked as {}", query(fragment));
    sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut admin).await.unwrap();
    let explain = format!("explain (analyze, buffers, format json) execute asked({arguments})");
    let plan: Value =
        sqlx::query_scalar(AssertSqlSafe(explain)).fetch_one(&mut admin).await.unwrap();
    let plan = &plan[0]["Plan"];
    let number = |name: &str| plan[name].as_i64().unwrap();
    (number("Shared Hit Blocks") + number("Shared Read Blocks"), number("Actual Rows"))
}

pub(super) async fn an_hour_and_a_month_read_their_own_pages_only(played: &Played) {
    // What lies around: many other slots of the same node in the same minutes.
    let others = "insert into segment_block (tenant_id, node_id, slot_no, started_at, ended_at,
            chain_id, sequence, gpu_uuid, body)
        select tenant_id, node_id, other, started_at, ended_at, chain_id, sequence, gpu_uuid, body
        from segment_block cross join generate_series(1, 100) as other where slot_no = 0";
    played.rig.administer(&format!("{others}; analyze")).await;
    let all = |tables: &str| {
        format!("select sum(relpages)::bigint from pg_class where relname ~ '{tables}'")
    };
    let blocks = played.rig.count(&all("^segment_block_d[0-9]+$")).await;
    let mut admin = PgConnection::connect(&played.rig.database.admin_url).await.unwrap();
    let key: String = sqlx::query_scalar("select tenant_id || ',' || node_id from node")
        .fetch_one(&mut admin)
        .await
        .unwrap();
    let (from, to) = (start().0, start().0 + HOUR_MS);
    let ends = format!(
        "select concat_ws(',', min(ended_at), max(ended_at)) from segment
        where ended_at > {from} and started_at < {to}"
    );
    let ends: String = sqlx::query_scalar(AssertSqlSafe(ends)).fetch_one(&mut admin).await.unwrap();

    let (pages, rows) = cost(
        played,
        "slot_no = any ($3) and ended_at between $4 and $5",
        &format!("{key},'{{0}}'::smallint[],{ends}"),
    )
    .await;
    assert_eq!(rows, 55);
    assert!(pages < 55 * 6 && pages * 4 < blocks, "{pages} of {blocks} pages for an hour's blocks");
    let period = format!("{key},{from},{to},{}", to + 2 * 24 * HOUR_MS);
    let (pages, rows) = cost(played, "s.ended_at <= $5 and s.started_at < $4", &period).await;
    assert!(rows == 55 && pages < 200, "{pages} pages for {rows} heads");
    let (pages, _) =
        cost(played, "select body from segment_block", &format!("{key},0::smallint,{to}")).await;
    assert!(pages < 30, "{pages} pages for the last block");

    let first = start().hour().0;
    let month = format!("{key},0::smallint,{},{}", first - 744, first);
    let year = played.rig.count(&all("^hour_profile_(year|m[0-9]+)$")).await;
    let (pages, rows) = cost(played, "select hour, gpu_uuid, body from hour_profile", &month).await;
    assert!(
        rows == 2 * 744 && pages * 4 < year,
        "{pages} of {year} pages for a month's {rows} profiles"
    );
    let year = played.rig.count(&all("^hour_record_(year|m[0-9]+)$")).await;
    let (pages, rows) = cost(played, "and slot_no = $3 and hour >= $4 and hour < $5\n        order by hour, gpu_uuid, revision desc", &month).await;
    assert!(
        rows == 2 * 744 && pages * 4 < year,
        "{pages} of {year} pages for a month's {rows} records"
    );
}
