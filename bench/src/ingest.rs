//! `ingest`: a fleet against the real server on its own durable PostgreSQL, and what that costs
//! from the first segment to committed segments and metered hours, with a checkpoint at the end.
//!
//! Values count only when they read back: each stored block is decoded again, and the digest over
//! all of them has to be that of what the fleet sent.

use std::fmt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use leasewatch_core::id::Hash;
use leasewatch_core::segment::Block;

use crate::fleet::{self, FleetOptions, Report};
use crate::measure::{Runs, real, short};
use crate::programs::{ProgramOptions, Server};
use crate::psql::Psql;

/// How long metering may take behind the last acknowledgement.
const METERING: Duration = Duration::from_secs(300);

/// What to measure.
#[derive(Debug, Clone, clap::Args)]
pub struct IngestOptions {
    #[command(flatten)]
    pub fleet: FleetOptions,
    #[command(flatten)]
    pub programs: ProgramOptions,
    /// Without TLS.
    #[arg(long)]
    pub plain: bool,
    /// Repetitions, each on a fresh database.
    #[arg(long, default_value_t = 1)]
    pub repeat: usize,
}

/// Measures and prints.
///
/// # Errors
/// When something was lost, refused, or did not read back.
pub fn run(options: &IngestOptions) -> anyhow::Result<()> {
    let mut rates = Runs::new();
    for _ in 0..options.repeat.max(1) {
        let server = Server::start(&options.programs)?;
        let result = measure(&server, &options.fleet, options.plain)?;
        println!("{result}");
        rates.add(result.values_per_core_s());
    }
    println!("values per second of a core, server and PostgreSQL: {rates}");
    Ok(())
}

/// One run.
#[derive(Debug, Clone)]
pub struct Ingest {
    report: Report,
    server_cpu_s: f64,
    postgres_cpu_s: f64,
    /// From the first segment to the end of the checkpoint.
    wall_s: f64,
    server_mib: f64,
    server_peak_mib: f64,
    postgres_mib: f64,
    wal_bytes: f64,
    commits: f64,
    stored: Stored,
}

/// What the database holds after a run, more than before.
#[derive(Debug, Clone, Copy, Default)]
struct Stored {
    segment_bytes: f64,
    hour_bytes: f64,
    measured_gpu_s: f64,
}

/// Counters before the first segment.
struct Before {
    at: Instant,
    cpu_s: (f64, f64),
    wal: f64,
    commits: f64,
    stored: Stored,
}

/// Runs a fleet against a server that nobody else uses, over TLS unless `plain`.
///
/// # Errors
/// As [`run`].
pub fn measure(server: &Server, fleet: &FleetOptions, plain: bool) -> anyhow::Result<Ingest> {
    let psql = Psql::new(&server.socket_folder());
    let (url, certificate) = match plain {
        true => (server.url.clone(), None),
        false => (server.url.replace("http://", "https://"), Some(server.certificate())),
    };
    let options = FleetOptions { server: url, certificate, ..fleet.clone() };
    // A server that runs has its partitions, its plans and its connections.
    let first = FleetOptions { nodes: 1, seconds: 2, at_the_minute: false, ..options.clone() };
    fleet::run_with(&first, || Ok(()))?.ensure_complete()?;
    until_metered(&psql)?;
    let mut before = None;
    let report = fleet::run_with(&options, || {
        before = Some(Before::now(server, &psql)?);
        Ok(())
    })?;
    report.ensure_complete()?;
    let before = before.ok_or_else(|| anyhow::anyhow!("the fleet never began"))?;
    until_metered(&psql)?;
    psql.lines("checkpoint")?;
    let wall_s = before.at.elapsed().as_secs_f64();
    let after = Before::now(server, &psql)?;
    let (server_use, postgres_use) = server.usage()?;
    read_back(&psql, &report)?;
    Ok(Ingest {
        server_cpu_s: after.cpu_s.0 - before.cpu_s.0,
        postgres_cpu_s: after.cpu_s.1 - before.cpu_s.1,
        wall_s,
        server_mib: server_use.memory_mib,
        server_peak_mib: server.peak_mib()?,
        postgres_mib: postgres_use.memory_mib,
        wal_bytes: after.wal - before.wal,
        commits: after.commits - before.commits,
        stored: Stored {
            segment_bytes: after.stored.segment_bytes - before.stored.segment_bytes,
            hour_bytes: after.stored.hour_bytes - before.stored.hour_bytes,
            measured_gpu_s: after.stored.measured_gpu_s - before.stored.measured_gpu_s,
        },
        report,
    })
}

impl Before {
    fn now(server: &Server, psql: &Psql) -> anyhow::Result<Self> {
        let (own, postgres) = server.usage()?;
        let size = |tables: &str| {
            psql.number(&format!(
                "select coalesce(sum(pg_total_relation_size(i.inhrelid)), 0) from pg_inherits i
                join pg_class p on p.oid = i.inhparent where p.relname in ({tables})"
            ))
        };
        let commits = "select xact_commit from pg_stat_database where datname = 'leasewatch'";
        Ok(Self {
            at: Instant::now(),
            cpu_s: (own.cpu_s, postgres.cpu_s),
            wal: psql.number("select pg_current_wal_lsn() - '0/0'::pg_lsn")?,
            commits: psql.number(commits)?,
            stored: Stored {
                segment_bytes: size("'segment', 'segment_block'")?,
                hour_bytes: size("'hour_record', 'hour_profile'")?,
                measured_gpu_s: psql
                    .number("select coalesce(sum(measured_ms), 0) / 1000.0 from hour_record")?,
            },
        })
    }
}

/// Waits until no hour that has ended waits for metering. Hours that came back for a later look
/// are not waited for.
///
/// # Errors
/// When it takes too long.
pub fn until_metered(psql: &Psql) -> anyhow::Result<()> {
    let waiting = "select count(*) from hour_work where reason = 1
        and (hour + 1) * 3600 < extract(epoch from now()) - 20";
    let deadline = Instant::now() + METERING;
    while psql.number(waiting)? > 0.0 {
        anyhow::ensure!(Instant::now() < deadline, "hours are still not metered");
        sleep(Duration::from_millis(500));
    }
    Ok(())
}

/// Decodes every stored GPU block of the nodes behind the first one; count and digest have to be
/// those of the fleet.
fn read_back(psql: &Psql, report: &Report) -> anyhow::Result<()> {
    let (mut values, mut blocks, mut digest) = (0, 0, [0; 32]);
    let sql = "select encode(body, 'hex') from segment_block
        where slot_no >= 0 and node_id > (select min(node_id) from node)";
    psql.each_line(sql, |line| {
        let bytes = from_hex(line)?;
        for (sum, byte) in digest.iter_mut().zip(Hash::of(&bytes).0) {
            *sum ^= byte;
        }
        let Block::Gpu(gpu) = Block::decode(&bytes)? else { anyhow::bail!("not a GPU's block") };
        let readings = gpu.columns.iter().flat_map(|column| &column.readings).flatten();
        values += u64::try_from(readings.count() + gpu.track.points.len())?;
        blocks += 1;
        Ok(())
    })?;
    anyhow::ensure!(
        (values, blocks, digest) == (report.values, report.blocks, report.digest),
        "{values} values in {blocks} blocks read back, {} in {} were acknowledged, or others",
        report.values,
        report.blocks
    );
    Ok(())
}

fn from_hex(text: &str) -> anyhow::Result<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let pairs = text.as_bytes().chunks(2);
    let bytes = pairs.map(|pair| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    });
    bytes.collect::<Option<_>>().ok_or_else(|| anyhow::anyhow!("not hexadecimal"))
}

impl Ingest {
    /// Values for each second of a core, of the server and PostgreSQL together.
    #[must_use]
    pub fn values_per_core_s(&self) -> f64 {
        real(self.report.values) / (self.server_cpu_s + self.postgres_cpu_s)
    }

    /// Readings of GPUs that were committed and read back.
    #[must_use]
    pub fn values(&self) -> f64 {
        real(self.report.values)
    }

    /// Write-ahead log for each value.
    #[must_use]
    pub fn wal_bytes_per_value(&self) -> f64 {
        self.wal_bytes / real(self.report.values.max(1))
    }

    /// Of the server and PostgreSQL at the end.
    #[must_use]
    pub fn memory_mib(&self) -> f64 {
        self.server_mib + self.postgres_mib
    }

    /// Bytes of segments and blocks with all indexes, for each value.
    #[must_use]
    pub fn bytes_per_value(&self) -> f64 {
        self.stored.segment_bytes / real(self.report.values.max(1))
    }

    /// What was sent for it, live frames included.
    #[must_use]
    pub fn wire_bytes_per_value(&self) -> f64 {
        real(self.report.segment_bytes + self.report.frame_bytes) / real(self.report.values.max(1))
    }
}

impl fmt::Display for Ingest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values = real(self.report.values.max(1));
        let cores = |cpu_s: f64| {
            format!("{} s ({} % of a core)", short(cpu_s), short(cpu_s / self.wall_s * 100.0))
        };
        writeln!(f, "{}", self.report)?;
        writeln!(
            f,
            "server {}, PostgreSQL {}, over {} s: {} values for each second of a core",
            cores(self.server_cpu_s),
            cores(self.postgres_cpu_s),
            short(self.wall_s),
            short(self.values_per_core_s())
        )?;
        writeln!(
            f,
            "stored {} B/value with indexes; hours and profiles {} bytes in all; {} s of GPUs in hour records",
            short(self.bytes_per_value()),
            short(self.stored.hour_bytes),
            short(self.stored.measured_gpu_s)
        )?;
        writeln!(
            f,
            "WAL {} B/value; {} commits, {} a second",
            short(self.wal_bytes / values),
            short(self.commits),
            short(self.commits / self.wall_s)
        )?;
        write!(
            f,
            "memory: server {} MiB (peak {}), PostgreSQL {} MiB",
            short(self.server_mib),
            short(self.server_peak_mib),
            short(self.postgres_mib)
        )
    }
}
