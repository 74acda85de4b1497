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
    /// Leaves the year of one GPU out, which takes some minutes to make.
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
        let before = psql.number("select max(node_id) from node")?;
        add(&server, &psql, &backlog(1, YEAR_HOURS, 60, 1))?;
        let node = first_node(&psql, before_as_id(before))?;
        let year = format!("/nodes/{node}/gpus/0?last=1y");
        timed(address, options, "one GPU, one year, page", &year)?;
    }
    Ok(())
}

fn before_as_id(id: f64) -> u64 {
    format!("{id:.0}").parse().unwrap_or(0)
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

/// The public id of the first node behind another.
fn first_node(psql: &Psql, behind: u64) -> anyhow::Result<String> {
    let sql = format!(
        "select encode(public_id, 'hex') from node where node_id > {behind} order by node_id limit 1"
    );
    psql.lines(&sql)?.into_iter().next().context("no node is there")
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
