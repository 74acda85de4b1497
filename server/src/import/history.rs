//! Import of a simulated node's past: a log that `leasewatch-sim-history` wrote.
//!
//! The log becomes the beginning of the record of an agent that has not run yet: with the key and
//! in the chain of its state directory, which is made here if there is none. Everything in it is
//! simulated and stays marked so; a node with any other origin is refused by the server. The form
//! of the log is our own, so it is read strictly: a line that is not understood ends the import.
//!
//! Rows are sealed while the log is still read, so its length does not matter. An import that
//! broke off goes on behind what was acknowledged when the same log comes again. Not here: a log
//! in front of what an agent has recorded already.

mod line;
mod seal;
mod state;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use leasewatch_core::evidence::chain::{ChainStart, ChainStartReason, SealedSegment};
use leasewatch_core::evidence::statement::{StatementKind, sign};
use leasewatch_core::id::{Hash, Sequence, Slug, clean_text};
use leasewatch_core::segment::Origin;
use leasewatch_core::time::{Period, Timestamp};
use leasewatch_proto::channel::ServerAddress;
use leasewatch_proto::convert::{ChainStartParts, SegmentParts, Welcome};
use leasewatch_proto::v1::agent_message::Kind as ToServer;
use tokio::sync::mpsc;

use super::client::{Lineage, Stream, WINDOW_BYTES, acknowledged, hello};
use super::{ImportError, Joining};
use crate::intake::{Progress, Step};
use line::Lines;
use seal::Sealer;
use state::{AgentState, ChainEnd};

/// Segments that are sealed ahead of what was sent.
const SEALED_AHEAD: usize = 8;

/// What a history import is asked to do.
#[derive(Debug, Clone)]
pub struct HistoryRequest {
    /// The log; `-` is standard input.
    pub file: PathBuf,
    /// State directory of the agent whose past it is.
    pub state_dir: PathBuf,
    /// Name of the node.
    pub node: String,
    /// The tenant that the node belongs to.
    pub tenant: Slug,
    /// The provider of the node.
    pub provider: Slug,
    /// The running server.
    pub server: ServerAddress,
    /// What a new node joins with; `None` where enrolment is open.
    pub join: Option<Joining>,
}

/// What a history import did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryReport {
    /// Public id of the node.
    pub node: String,
    /// Segments that the server acknowledged.
    pub segments: u64,
    /// Segments of the log that it had already.
    pub segments_covered: u64,
    /// From the beginning to the end of the log.
    pub period: Period,
}

/// Imports the past of a simulated node.
///
/// # Errors
/// [`ImportError`]. What was acknowledged before an error stays, and the same log goes on there.
pub async fn run(
    request: &HistoryRequest,
    progress: &Progress,
) -> Result<HistoryReport, ImportError> {
    let name = clean_text(&request.node, 120);
    if name.trim().is_empty() {
        return Err(ImportError::NodeName);
    }
    let state = AgentState::open(&request.state_dir)?;
    let (header, lines) = Lines::open(read_from(&request.file)?)?;
    let identity = &state.identity;
    let lineage = Lineage::of_history(identity, state.chain, Origin::Simulated);
    let hello = hello((&request.tenant, &request.provider, name), identity, &lineage)?;
    let mut stream = Stream::open(&request.server).await?;
    let welcome = stream.shake_hands(&hello, identity, request.join.as_ref()).await?;
    let behind = resumed(&welcome)?;
    if welcome.start_wanted {
        stream.send_start(&start(&state, &welcome)).await?;
    }
    let sealer = Sealer {
        key: identity.signing_key().clone(),
        node: welcome.node,
        tenant: welcome.tenant.clone(),
        chain: state.chain,
        cadence_ms: header.cadence_ms,
        end: welcome.cursor.head.map(|head| (welcome.cursor.sequence, head)),
    };
    let (sealed, queue) = mpsc::channel(SEALED_AHEAD);
    let sealing = tokio::task::spawn_blocking(move || sealer.seal_all(lines, behind, &sealed));
    let sent = send(&mut stream, queue, (header.period, progress)).await?;
    let segments_covered = sealing.await.map_err(|_| ImportError::broken())?;
    let segments = sent.as_ref().map_or(0, |(count, _)| *count);
    if let Some((_, end)) = sent {
        state.finish(end)?;
    }
    let node = welcome.node.to_string();
    Ok(HistoryReport { node, segments, segments_covered, period: header.period })
}

fn read_from(file: &Path) -> Result<Box<dyn BufRead + Send>, ImportError> {
    if file == Path::new("-") {
        return Ok(Box::new(BufReader::with_capacity(1 << 16, std::io::stdin())));
    }
    let fail = |source| ImportError::File { path: file.display().to_string(), source };
    Ok(Box::new(BufReader::with_capacity(1 << 16, std::fs::File::open(file).map_err(fail)?)))
}

/// Signs the start of the agent's chain, which begins now, whatever time its log is of.
fn start(state: &AgentState, welcome: &Welcome) -> ChainStartParts {
    let (chain, at) = (state.chain, welcome.server_time);
    let start = ChainStart { node: welcome.node, chain, at, reason: ChainStartReason::Joined };
    let statement = start.statement();
    let signature = sign(StatementKind::ChainStart, &statement, state.identity.signing_key());
    ChainStartParts { statement, signature }
}

/// How far the server has this very chain. It has nothing else of the node: a past is put in front
/// of nothing.
fn resumed(welcome: &Welcome) -> Result<Option<Timestamp>, ImportError> {
    if welcome.recorded_until.is_some() && welcome.cursor.head.is_none() {
        return Err(ImportError::HasRecorded);
    }
    Ok(welcome.recorded_until)
}

/// Sends what comes out of the queue; returns how much that was, and where the chain ends.
async fn send(
    stream: &mut Stream,
    mut queue: mpsc::Receiver<Result<SealedSegment, ImportError>>,
    (period, progress): (Period, &Progress),
) -> Result<Option<(u64, ChainEnd)>, ImportError> {
    let mut in_flight: Vec<(Sequence, Timestamp, usize)> = Vec::new();
    let mut last: Option<(u64, ChainEnd)> = None;
    let mut open = true;
    loop {
        let bytes: usize = in_flight.iter().map(|(.., bytes)| bytes).sum();
        if open && (in_flight.is_empty() || bytes < WINDOW_BYTES) {
            let Some(sealed) = queue.recv().await else {
                open = false;
                continue;
            };
            let sealed = sealed?;
            let (parts, head) = (SegmentParts::from(&sealed), &sealed.signed.head);
            let weight = parts.blocks.iter().map(Vec::len).sum();
            in_flight.push((head.sequence, head.period.end, weight));
            let count = last.map_or(0, |(count, _)| count) + 1;
            last = Some((count, ChainEnd::of(head)));
            stream.send(ToServer::Segment(parts.into_wire())).await?;
            continue;
        }
        if in_flight.is_empty() {
            return Ok(last);
        }
        if let Some(sequence) = acknowledged(stream.receive().await?)? {
            let done = in_flight.iter().filter(|(sent, ..)| *sent <= sequence).map(|(_, at, _)| at);
            if let Some(at) = done.max() {
                progress.set(delivered(period, *at));
            }
            in_flight.retain(|(sent, ..)| *sent > sequence);
        }
    }
}

/// In hours of the log.
fn delivered(period: Period, at: Timestamp) -> Step {
    let hours = |ms: i64| u64::try_from(ms / leasewatch_core::time::HOUR_MS).unwrap_or(0);
    Step::Delivering(hours(at.since(period.start)), hours(period.ms()))
}

/// The hash that names what belongs to one node and one kind of name.
fn named(kind: &str, public_key: &[u8; 32], rest: &[u8]) -> Hash {
    Hash::of(&[format!("leasewatch/{kind}/v1\n").as_bytes(), public_key, rest].concat())
}

#[cfg(test)]
mod tests;
