//! `pages`: how long the server takes to the last byte of its pages, over HTTP/1.1 on loopback,
//! with fleets of growing size in its database and nobody else asking.

use std::net::SocketAddr;

use anyhow::Context as _;

use crate::fleet::{self, FleetOptions};
use crate::http::Client;
use crate::ingest;
use crate::measure::{Runs, length, short};
use crate::programs::{ProgramOptions, Server};
use crate::psql::Psql;

/// Hours of a year.
const YEAR_HOURS: i64 = 8_760;

/// What to measure.
#[derive(Debug, Clone, clap::Args)]
pub struct PageOptions {
    /// GPUs in the database, growing.
    #[arg(long, value_delimiter = ',', default_value = "8,80,800,8000")]
    gpus: Vec<u64>,
    /// Requests for each page.
    #[arg(long, default_value_t = 20)]
    requests: usize,
    /// Leaves the year of one GPU out, which takes a moment to make.
    #[arg(long)]
    no_year: bool,
    #[command(flatten)]
    programs: ProgramOptions,
}

/// Measures and prints.
///
/// # Errors
/// When a page does not answer with 200.
pub fn run(options: &PageOptions) -> anyhow::Result<()> {
    let server = Server::start(&options.programs)?;
    let psql = Psql::new(&server.socket_folder());
    let address: SocketAddr = server.url.trim_start_matches("http://").parse()?;
    add(&server, &psql, &backlog(1, 60, 1, 8))?;
    let node = of_the_fullest(&psql, "encode(public_id, 'hex')")?;
    let instant = |hour| {
        format!(
            "to_char(to_timestamp({hour} * 3600) at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"
        )
    };
    let from = of_the_fullest(&psql, &instant("hour"))?;
    let to = of_the_fullest(&psql, &instant("(hour + 1)"))?;
    let mut there = 8;
    for gpus in &options.gpus {
        if *gpus > there {
            add(&server, &psql, &backlog((gpus - there) / 8, 2, 1, 8))?;
            there = *gpus;
        }
        timed(address, options, &format!("overview, {gpus} GPUs"), "/")?;
    }
    timed(address, options, "a node of 8 GPUs", &format!("/nodes/{node}"))?;
    let gpu_hour = format!("/nodes/{node}/gpus/3?from={from}&to={to}");
    timed(address, options, "one GPU, one hour, page", &gpu_hour)?;
    let csv = format!("/nodes/{node}/gpus/3/readings.csv?from={from}&to={to}");
    let bytes = timed(address, options, "one GPU, one hour, CSV", &csv)?;
    anyhow::ensure!(bytes > 3_600 * 40, "the hour is not in it: {bytes} bytes");
    if !options.no_year {
        make_a_year(&psql)?;
        let year = format!("/nodes/{node}/gpus/3?last=1y");
        timed(address, options, "one GPU, one year, page", &year)?;
    }
    Ok(())
}

/// Puts a year of hours in front of the fullest one: copies of its records and profiles, as metering
/// wrote them. To record and meter a year takes longer than anybody waits.
fn make_a_year(psql: &Psql) -> anyhow::Result<()> {
    for sql in [
        "update node set enrolled_at = enrolled_at - 8760 * 3600000::bigint
        where (tenant_id, node_id) = (select tenant_id, node_id
            from hour_record order by measured_ms desc, node_id limit 1)",
        "update slot set first_seen_at = first_seen_at - 8760 * 3600000::bigint
        where (tenant_id, node_id) = (select tenant_id, node_id
            from hour_record order by measured_ms desc, node_id limit 1)",
        "select leasewatch_make_partition(t::regclass, '_year', upper - 9000, upper)
        from unnest(array['hour_record', 'hour_profile']) as t
        cross join (select (extract(epoch from date_trunc('month',
            to_timestamp(min(hour)::bigint * 3600) at time zone 'UTC')) / 3600)::bigint as upper
            from hour_record) as month",
    ] {
        psql.lines(sql)?;
    }
    let record = "revision, state, origin, enrolled_ms, measured_ms, busy_pct_ms, body, hash, \
        previous_hash, written_at";
    for (table, columns) in [("hour_profile", "body"), ("hour_record", record)] {
        psql.lines(&format!(
            "insert into {table} (tenant_id, node_id, slot_no, hour, gpu_uuid, {columns})
            select tenant_id, node_id, slot_no, back.hour, gpu_uuid, {columns}
            from {table} o join (select tenant_id, node_id, slot_no, hour from hour_record
                where slot_no = 3 order by measured_ms desc, node_id limit 1) as full_hour
                using (tenant_id, node_id, slot_no, hour)
            cross join lateral generate_series(full_hour.hour - {YEAR_HOURS},
                full_hour.hour - 1) as back (hour) on conflict do nothing"
        ))?;
    }
    psql.lines("analyze")?;
    Ok(())
}

fn backlog(nodes: u64, minutes: i64, step: i64, gpus: usize) -> FleetOptions {
    FleetOptions {
        nodes,
        gpus,
        seconds: 1,
        backlog: Some(minutes),
        backlog_step: step,
        at_the_minute: false,
        server: String::new(),
        certificate: None,
    }
}

fn add(server: &Server, psql: &Psql, fleet: &FleetOptions) -> anyhow::Result<()> {
    let fleet = FleetOptions { server: server.url.clone(), ..fleet.clone() };
    fleet::run_with(&fleet, || Ok(()))?.ensure_complete()?;
    ingest::until_metered(psql)
}

/// Something of the hour record that holds most measured time.
fn of_the_fullest(psql: &Psql, what: &str) -> anyhow::Result<String> {
    let sql = format!(
        "select {what} from hour_record join node using (tenant_id, node_id)
        order by measured_ms desc, node_id limit 1"
    );
    psql.lines(&sql)?.into_iter().next().context("no hour is metered")
}

/// Asks again and again; the first answer, which finds nothing in memory, is not counted.
fn timed(
    address: SocketAddr,
    options: &PageOptions,
    what: &str,
    path: &str,
) -> anyhow::Result<usize> {
    // A connection that waited while data was made would be closed by the server.
    let mut client = Client::connect(address)?;
    let (mut took_ms, mut bytes) = (Runs::new(), 0);
    for request in 0..=options.requests.max(1) {
        let answer = client.get(path)?;
        anyhow::ensure!(answer.status == 200, "{path} answers {}", answer.status);
        bytes = answer.body.len();
        if request > 0 {
            took_ms.add(answer.took.as_secs_f64() * 1e3);
        }
    }
    let p99 = took_ms.percentile(990).map_or(String::new(), short);
    println!("{what:<28} {took_ms} ms, p99 {p99} ms, {} bytes", short(length(bytes)));
    Ok(bytes)
}
