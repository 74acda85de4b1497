//! `fleet`: N simulated nodes that speak the real protocol to a server on this machine.
//!
//! Each node has its own key, connection and chain; it proves itself, sends signed segments and
//! live frames, and answers the server's questions, all on one thread. Bounded: in time, and in
//! bytes that wait for an acknowledgement. A stream that breaks is counted and stays broken, so
//! that nothing is hidden by sending it again.
//!
//! Not here: faults (the tests' part), and any address but loopback.

mod backlog;
mod frame;
mod live;
mod stream;
mod tally;

use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use leasewatch_core::segment::Origin;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use crate::node::BenchNode;
use stream::{Dialer, Stream};
pub use tally::{Report, Tally};

/// Nodes that introduce themselves at the same time.
const HANDSHAKES: usize = 16;
/// How long the last acknowledgements may take.
const DRAIN: Duration = Duration::from_secs(90);

/// Which fleet, and where it sends.
#[derive(Debug, Clone, clap::Args)]
pub struct FleetOptions {
    /// Nodes.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=20_000))]
    pub nodes: u64,
    /// GPUs of each node.
    #[arg(long, default_value_t = 8, value_parser = gpus)]
    pub gpus: usize,
    /// How long the fleet samples, in seconds.
    #[arg(long, default_value_t = 150, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,
    /// Instead: minutes of the past that each node delivers as fast as they are acknowledged. Such
    /// nodes are marked as imported, since a server takes nothing else from before it knew a node.
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(i64).range(1..=1_440))]
    pub backlog: Option<i64>,
    /// Minutes from one segment of a backlog to the next; 1 leaves no hole.
    #[arg(skip = 1)]
    pub backlog_step: i64,
    /// All nodes cut at the full minute, as agents whose clocks agree do, and not spread over it.
    #[arg(long)]
    pub at_the_minute: bool,
    /// The server: `http://127.0.0.1:PORT` or `https://`.
    #[arg(long, default_value = "http://127.0.0.1:7443")]
    pub server: String,
    /// With https: the certificate that the server has to show, a PEM file.
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
}

fn gpus(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|gpus| (1..=16).contains(gpus)).ok_or("must be 1 to 16".to_owned())
}

/// Runs a fleet to its end and prints what became of it.
///
/// # Errors
/// When no stream can be opened, or something was lost or refused.
pub fn run(options: &FleetOptions) -> anyhow::Result<()> {
    let report = run_with(options, || Ok(()))?;
    println!("{report}");
    report.ensure_complete()
}

/// Runs a fleet; `ready` is called when every node is welcomed, before the first segment.
///
/// # Errors
/// As [`run`], and those of `ready`.
pub fn run_with(
    options: &FleetOptions,
    ready: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<Report> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(drive(options, ready))
}

/// What the nodes of a fleet share.
struct Shared {
    options: FleetOptions,
    dialer: Dialer,
    tally: Tally,
    handshakes: Semaphore,
    /// The instant at which everybody may send; `None` before.
    go: watch::Receiver<Option<Instant>>,
}

async fn drive(
    options: &FleetOptions,
    ready: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<Report> {
    let (open_gate, go) = watch::channel(None);
    let shared = Arc::new(Shared {
        dialer: Dialer::new(&options.server, options.certificate.as_deref())?,
        options: options.clone(),
        tally: Tally::new(),
        handshakes: Semaphore::new(HANDSHAKES),
        go,
    });
    let mut nodes = JoinSet::new();
    for number in 0..options.nodes {
        match options.backlog {
            Some(minutes) => spawn(&mut nodes, backlog::node(Arc::clone(&shared), number, minutes)),
            None => spawn(&mut nodes, live::node(Arc::clone(&shared), number)),
        }
    }
    shared.tally.until_settled(options.nodes).await;
    ready()?;
    open_gate.send_replace(Some(Instant::now()));
    while let Some(ended) = nodes.join_next().await {
        if let Err(error) = ended.context("a node of the fleet panicked")? {
            shared.tally.broken(&error);
        }
    }
    Ok(shared.tally.report())
}

fn spawn(
    nodes: &mut JoinSet<anyhow::Result<()>>,
    node: impl Future<Output = anyhow::Result<()>> + Send + 'static,
) {
    nodes.spawn(node);
}

impl Shared {
    /// Opens a node's stream; counted whether it works or not.
    async fn join(&self, node: &BenchNode) -> anyhow::Result<Stream> {
        let _turn = self.handshakes.acquire().await?;
        let opened = Stream::open(&self.dialer, node).await;
        self.tally.settled();
        opened
    }

    /// Waits for the signal that everybody is there.
    async fn until_go(&self) -> anyhow::Result<Instant> {
        let mut go = self.go.clone();
        let at = go.wait_for(Option::is_some).await?;
        (*at).context("the fleet was given up")
    }

    fn node(&self, number: u64) -> BenchNode {
        let origin = match self.options.backlog {
            Some(_) => Origin::Imported,
            None => Origin::Simulated,
        };
        BenchNode::new(number, self.options.gpus, origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fleet is a flood: it must not reach any machine but this one.
    #[test]
    fn only_loopback_is_ever_reached() {
        assert!(Dialer::new("http://127.0.0.1:7443", None).is_ok());
        assert!(Dialer::new("http://[::1]:7443/", None).is_ok());
        for other in ["http://10.0.0.1:7443", "http://example.org:80", "ftp://127.0.0.1:1"] {
            assert!(Dialer::new(other, None).is_err(), "{other}");
        }
        assert!(Dialer::new("https://127.0.0.1:1", None).is_err(), "nothing to trust");
    }
}
