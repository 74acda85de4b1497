//! `peers`: leasewatch, VictoriaMetrics and Prometheus in turn, on the same samples.
//!
//! Each round gives each program a fresh data directory and the same readings: leasewatch as
//! signed segments over its own protocol, to metered hours; the others through remote write, once
//! with one sample and once with ten samples of each series in a request. Values count only when
//! they read back. What is not the same on both sides stands in `docs/PERFORMANCE.md`; above all,
//! our schema is fixed and theirs takes any label.

mod program;
mod remote_write;

use std::path::PathBuf;

use leasewatch_core::time::{HOUR_MS, Timestamp};

use crate::clock;
use crate::data::{self, NodeSamples, READINGS, SimulatedNode};
use crate::fleet::FleetOptions;
use crate::ingest;
use crate::measure::{Runs, length, real, short};
use crate::programs::{ProgramOptions, Server};
pub use program::find;
use program::{Kind, Peer};
use remote_write::{NodeSeries, Resolution};

/// Readings whose sums are compared: those whose sum over all samples is exact as a float.
const SUMMED: [usize; 5] = [0, 2, 5, 8, 36];
/// Repetitions of the query.
const QUERIES: usize = 10;

/// What to measure.
#[derive(Debug, Clone, clap::Args)]
pub struct PeerOptions {
    /// Nodes of 8 GPUs.
    #[arg(long, default_value_t = 10)]
    nodes: u64,
    /// Minutes of samples, at most an hour.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(i64).range(1..=60))]
    minutes: i64,
    /// Rounds; the median counts.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Where the peers' programs are, or packages of them were unpacked.
    #[arg(long, value_name = "DIR", default_value = "/usr/bin")]
    peers: PathBuf,
    #[command(flatten)]
    programs: ProgramOptions,
}

/// Results of one program in one way of writing.
#[derive(Default)]
struct Row {
    values_per_core_s: Runs,
    bytes_per_value: Runs,
    log_bytes_per_value: Runs,
    wire_bytes_per_value: Runs,
    memory_mib: Runs,
    query_ms: Runs,
}

/// Measures and prints.
///
/// # Errors
/// When a program does not start, or its values do not read back.
pub fn run(options: &PeerOptions) -> anyhow::Result<()> {
    let samples = Samples::new(options);
    let mut ours = Row::default();
    let mut theirs: Vec<(Kind, usize, Row)> = Vec::new();
    for kind in Kind::ALL {
        theirs.extend([1, 10].map(|batch| (kind, batch, Row::default())));
    }
    for _ in 0..options.rounds.max(1) {
        our_round(options, &samples, &mut ours)?;
        for (kind, batch, row) in &mut theirs {
            their_round(options, &samples, (*kind, *batch, Resolution::Declared), row)?;
        }
    }
    print_row("leasewatch, segments of 60 s, signed, metered", &ours);
    for (kind, batch, row) in &theirs {
        print_row(&format!("{}, {batch} sample(s) of a series in a request", kind.name()), row);
        print_ratios(&ours, row);
    }
    for kind in Kind::ALL {
        let mut row = Row::default();
        their_round(options, &samples, (kind, 10, Resolution::Native), &mut row)?;
        println!("{} at native resolution: {} B/value", kind.name(), row.bytes_per_value);
    }
    println!("our schema is fixed; theirs takes any label, and that is part of what they cost");
    Ok(())
}

/// The samples of all nodes, and where they end.
struct Samples {
    nodes: Vec<NodeSamples>,
    end: Timestamp,
    values: f64,
}

impl Samples {
    /// The same stretch that `fleet --backlog` delivers.
    fn new(options: &PeerOptions) -> Self {
        let end = Timestamp(clock::wall().hour().start().0 - HOUR_MS);
        let made = |node| {
            let mut simulated = SimulatedNode::new(node, 8);
            let mut all = NodeSamples { gpus: vec![Vec::new(); 8] };
            for minute in 0..options.minutes {
                let start_ms = end.0 + (minute - options.minutes) * 60_000;
                let minute = simulated.seconds(start_ms, 60);
                for (all, minute) in all.gpus.iter_mut().zip(minute.gpus) {
                    all.extend(minute);
                }
            }
            all
        };
        let nodes: Vec<NodeSamples> = (0..options.nodes).map(made).collect();
        let count: usize = nodes.iter().flat_map(|node| &node.gpus).map(Vec::len).sum();
        Self { nodes, end, values: length(count * READINGS) }
    }

    fn seconds(&self) -> usize {
        self.nodes.first().and_then(|node| node.gpus.first()).map_or(0, Vec::len)
    }

    /// Sum of one reading over everything.
    fn sum(&self, reading: usize, resolution: Resolution) -> f64 {
        let samples = self.nodes.iter().flat_map(|node| &node.gpus).flatten();
        samples.map(|sample| resolution.of(reading, sample.values[reading])).sum()
    }
}

fn our_round(options: &PeerOptions, samples: &Samples, row: &mut Row) -> anyhow::Result<()> {
    let server = Server::start(&options.programs)?;
    let fleet = FleetOptions {
        nodes: options.nodes,
        gpus: 8,
        seconds: 1,
        backlog: Some(options.minutes),
        backlog_step: 1,
        at_the_minute: false,
        server: server.url.clone(),
        certificate: None,
    };
    let result = ingest::measure(&server, &fleet, false)?;
    anyhow::ensure!(
        (result.values() - samples.values).abs() < 0.5,
        "{} values instead of {}",
        result.values(),
        samples.values
    );
    row.values_per_core_s.add(result.values_per_core_s());
    row.bytes_per_value.add(result.bytes_per_value());
    row.log_bytes_per_value.add(result.wal_bytes_per_value());
    row.wire_bytes_per_value.add(result.wire_bytes_per_value());
    row.memory_mib.add(result.memory_mib());
    Ok(())
}

fn their_round(
    options: &PeerOptions,
    samples: &Samples,
    (kind, batch, resolution): (Kind, usize, Resolution),
    row: &mut Row,
) -> anyhow::Result<()> {
    let mut peer = Peer::start(kind, &options.peers, &options.programs)?;
    let mut series = Vec::new();
    for node in 0..options.nodes {
        series.push(NodeSeries::new(node, 8, resolution)?);
    }
    let (before, sent_before) = (peer.usage()?, peer.client.sent_bytes);
    for second in (0..samples.seconds()).step_by(batch) {
        for (series, samples) in series.iter_mut().zip(&samples.nodes) {
            peer.write(&series.body(samples, second..second + batch)?)?;
        }
    }
    let sent = peer.client.sent_bytes - sent_before;
    peer.flush()?;
    let after = peer.usage()?;
    read_back(&mut peer, samples, resolution)?;
    row.values_per_core_s.add(samples.values / (after.cpu_s - before.cpu_s));
    row.memory_mib.add(after.memory_mib);
    row.wire_bytes_per_value.add(real(sent) / samples.values);
    let (kept, log) = peer.bytes_on_disk()?;
    row.bytes_per_value.add(real(kept) / samples.values);
    row.log_bytes_per_value.add(real(log) / samples.values);
    let (gpu, _) = data::gpu_names(options.nodes / 2, 3)?;
    for _ in 0..QUERIES {
        let answer = peer.gpu_hour(gpu.as_str(), samples.end)?;
        row.query_ms.add(answer.took.as_secs_f64() * 1e3);
    }
    Ok(())
}

/// The count of all samples, reading by reading, and exact sums of some readings.
fn read_back(peer: &mut Peer, samples: &Samples, resolution: Resolution) -> anyhow::Result<()> {
    // Two seconds on: the last samples lie within the second that ends the stretch.
    let at = samples.end.plus_ms(2_000);
    let mut count = 0.0;
    for reading in 0..READINGS {
        let query = format!("sum(count_over_time(gpu_{}[2h]))", data::name(reading));
        count += peer.number(&query, at)?.unwrap_or(0.0);
    }
    // Both are whole numbers far below 2^53.
    anyhow::ensure!((count - samples.values).abs() < 0.5, "{count} values of {}", samples.values);
    for reading in SUMMED {
        let name = data::name(reading);
        let sum = peer.number(&format!("sum(sum_over_time(gpu_{name}[2h]))"), at)?;
        let expected = samples.sum(reading, resolution);
        anyhow::ensure!(
            sum.is_some_and(|sum| (sum - expected).abs() < 0.5),
            "{name}: {sum:?} instead of {expected}"
        );
    }
    Ok(())
}

fn print_row(name: &str, row: &Row) {
    println!("{name}");
    println!("  values for each second of a core   {}", row.values_per_core_s);
    println!("  bytes per value kept, with index   {}", row.bytes_per_value);
    println!("  bytes per value of the log         {}", row.log_bytes_per_value);
    println!("  bytes per value on the wire        {}", row.wire_bytes_per_value);
    println!("  memory, MiB                        {}", row.memory_mib);
    if row.query_ms.count() > 0 {
        println!("  one GPU, one hour, to last byte, ms {}", row.query_ms);
    }
}

fn print_ratios(ours: &Row, theirs: &Row) {
    let ratio = |ours: &Runs, theirs: &Runs| match (ours.median(), theirs.median()) {
        (Some(ours), Some(theirs)) if theirs > 0.0 => short(ours / theirs),
        _ => "not measured".to_owned(),
    };
    println!(
        "  leasewatch to it: {} x values, {} x bytes kept, {} x bytes on the wire",
        ratio(&ours.values_per_core_s, &theirs.values_per_core_s),
        ratio(&ours.bytes_per_value, &theirs.bytes_per_value),
        ratio(&ours.wire_bytes_per_value, &theirs.wire_bytes_per_value)
    );
}
