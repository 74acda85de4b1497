//! Import of a recording: the folder that `leasewatch-agent record` made, or any spool with its key.
//!
//! The segments are taken as they were signed, over the stream that agents use. Nobody saw them
//! being made: a node of a recording is *imported*, whatever its heads say, so what was measured
//! there does not pass as recorded before this server's eyes; a simulated recording is a simulated
//! node. What is damaged or gone is named, and covered by drops that the recording's key signs.
//! Not here: a recording in front of what an agent has delivered with the same key.

mod files;
mod packed;

use std::path::{Path, PathBuf};

use clap::Args;
use leasewatch_core::evidence::chain::{ChainStart, ChainStartReason, Head};
use leasewatch_core::evidence::statement::{StatementKind, sign};
use leasewatch_core::id::{Sequence, Slug, clean_text};
use leasewatch_core::segment::Origin;
use leasewatch_proto::channel::ServerAddress;
use leasewatch_proto::convert::{ChainStartParts, Welcome};
use leasewatch_proto::v1::agent_message::Kind as ToServer;
use tokio::sync::mpsc;

use super::client::{Lineage, Stream, WINDOW_BYTES, acknowledged, hello};
use super::{Destination, ImportError, Joining};
use crate::identity::Identity;
use crate::intake::{Progress, RecordingFault, RecordingReport, Step};
use files::{Files, Item, Summary};
pub(super) use packed::{Unpacked, is_archive, unpack};

/// Name of the key in a recording.
const KEY: &str = "node.key";
/// Name of its folder of segments.
const SPOOL: &str = "spool";

/// Items that are read ahead of what was sent.
const READ_AHEAD: usize = 8;

/// Options of `import spool`.
#[derive(Debug, Args)]
pub struct SpoolFlags {
    /// The recording: a folder with `node.key` and `spool`.
    pub dir: PathBuf,
    /// Name of the node.
    #[arg(long, value_name = "NAME")]
    pub node: String,
    #[command(flatten)]
    pub destination: Destination,
}

/// A recording, and where it goes.
#[derive(Debug)]
pub struct SpoolRequest {
    /// The folder with `node.key` and `spool`.
    pub dir: PathBuf,
    /// Name of the node.
    pub node: String,
    /// The tenant that the recording has to be of; `None` for whichever it is of.
    pub tenant: Option<Slug>,
    /// The provider of the node.
    pub provider: Slug,
    /// The running server.
    pub server: ServerAddress,
    /// What a new node joins with; `None` where enrolment is open.
    pub join: Option<Joining>,
}

impl SpoolRequest {
    /// As the command line says it.
    ///
    /// # Errors
    /// [`ImportError::Target`] names the option.
    pub fn resolve(flags: SpoolFlags) -> Result<Self, ImportError> {
        let (server, join) = flags.destination.resolve()?;
        let (dir, node, provider) = (flags.dir, flags.node, flags.destination.provider);
        Ok(Self { dir, node, tenant: None, provider, server, join })
    }
}

/// Imports a recording.
///
/// # Errors
/// [`ImportError`]. What was acknowledged before an error stays, and the same command goes on there.
pub async fn run(
    request: &SpoolRequest,
    progress: &Progress,
) -> Result<RecordingReport, ImportError> {
    let name = clean_text(&request.node, 120);
    if name.trim().is_empty() {
        return Err(ImportError::NodeName);
    }
    let identity = identity(&request.dir)?;
    let (folder, key) = (request.dir.join(SPOOL), identity.signing_key().clone());
    let reading = tokio::task::spawn_blocking(move || Files::open(&folder, key));
    let (files, summary) = reading.await.map_err(|_| ImportError::broken())??;
    let first = &summary.first;
    if let Some(chosen) = request.tenant.as_ref().filter(|tenant| **tenant != first.tenant) {
        let (chosen, tenant) = (chosen.to_string(), first.tenant.to_string());
        return Err(ImportError::Recording(RecordingFault::OtherTenant { tenant, chosen }));
    }
    let origin = match first.origin {
        Origin::Simulated => Origin::Simulated,
        Origin::Measured | Origin::Imported => Origin::Imported,
    };
    let lineage = Lineage::of_history(&identity, first.chain, origin);
    let hello = hello((&first.tenant, &request.provider, name), &identity, &lineage)?;
    let mut stream = Stream::open(&request.server).await?;
    let welcome = stream.shake_hands(&hello, &identity, request.join.as_ref()).await?;
    check_node(first, &welcome)?;
    if welcome.start_wanted {
        stream.send_start(&start(&summary, &identity)).await?;
    }
    let behind = welcome.cursor.sequence;
    let (items, queue) = mpsc::channel(READ_AHEAD);
    let reading = tokio::task::spawn_blocking(move || files.read_all(behind, &items));
    let segments = send(&mut stream, queue, (&summary, progress)).await?;
    let mut left_out = reading.await.map_err(|_| ImportError::broken())?;
    left_out.splice(0..0, summary.left_out.iter().cloned());
    Ok(RecordingReport {
        node: welcome.node.to_string(),
        origin,
        segments,
        segments_covered: summary.segments.saturating_sub(segments),
        period: summary.period,
        left_out,
    })
}

/// The key of the recording. None is ever made here.
fn identity(dir: &Path) -> Result<Identity, ImportError> {
    let path = dir.join(KEY);
    if let Err(source) = std::fs::symlink_metadata(&path) {
        return Err(ImportError::File { path: path.display().to_string(), source });
    }
    let identity = Identity::load_or_create_as(dir, KEY);
    identity.map_err(|error| ImportError::State(error.to_string()))
}

/// The heads name the node that they are of: the first one that ever had this key.
fn check_node(first: &Head, welcome: &Welcome) -> Result<(), ImportError> {
    if first.node == welcome.node && first.tenant == welcome.tenant {
        return Ok(());
    }
    Err(ImportError::State("the segments are of another node than the key beside them".to_owned()))
}

/// The start that lies in the recording, else one of the time of its first segment.
fn start(summary: &Summary, identity: &Identity) -> ChainStartParts {
    if let Some(start) = &summary.start {
        return start.clone();
    }
    let (node, chain, at) = (summary.first.node, summary.first.chain, summary.first.period.start);
    let start = ChainStart { node, chain, at, reason: ChainStartReason::Joined };
    let statement = start.statement();
    let signature = sign(StatementKind::ChainStart, &statement, identity.signing_key());
    ChainStartParts { statement, signature }
}

/// Sends what comes out of the queue; returns how many segments that was.
async fn send(
    stream: &mut Stream,
    mut queue: mpsc::Receiver<Item>,
    (summary, progress): (&Summary, &Progress),
) -> Result<u64, ImportError> {
    let mut in_flight: Vec<(Sequence, usize)> = Vec::new();
    let (mut sent, mut open) = (0, true);
    loop {
        let bytes: usize = in_flight.iter().map(|(_, bytes)| bytes).sum();
        if open && (in_flight.is_empty() || bytes < WINDOW_BYTES) {
            let Some(item) = queue.recv().await else {
                open = false;
                continue;
            };
            in_flight.push((item.last(), item.weight()));
            sent += u64::from(matches!(item, Item::Segment { .. }));
            let message = match item {
                Item::Segment { parts, .. } => ToServer::Segment(parts.into_wire()),
                Item::Drop { parts, .. } => ToServer::Drop(parts.into_wire()),
            };
            stream.send(message).await?;
            continue;
        }
        if in_flight.is_empty() {
            return Ok(sent);
        }
        if let Some(sequence) = acknowledged(stream.receive().await?)? {
            in_flight.retain(|(last, _)| *last > sequence);
            let waiting = u64::try_from(in_flight.len()).unwrap_or(0);
            progress.set(Step::Delivering(sent.saturating_sub(waiting), summary.segments));
        }
    }
}

#[cfg(test)]
mod tests;
