//! Taking stored segments out as a capture: heads, signatures and blocks as they came.
//!
//! Written an hour at a time, so memory does not grow with the period. Not here: the layout
//! (`core::evidence::capture`) and what a reader makes of it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use leasewatch_core::evidence::capture::{self, KeyChange, Part};
use leasewatch_core::evidence::chain::leaf_hash;
use leasewatch_core::evidence::statement::StatementKind;
use leasewatch_core::id::{ChainId, GpuUuid, KeyId, Sequence, Slug};
use leasewatch_core::time::{HOUR_MS, Period, Timestamp};

use crate::clock::Clock;
use crate::config::{Database, ServeOptions};
use crate::embedded_postgres::EmbeddedPostgres;
use crate::serve::{DATABASE, LOGIN, open_database};
use crate::store::audit;
use crate::store::identity_statement::{self, StatementRow};
use crate::store::node::NodeRow;
use crate::store::segment::{self, BlockRow, HeadRow, Place};
use crate::store::{Db, NodeKey, Scope, Tx, node, node_key, slot};

/// What is taken out.
#[derive(Debug, Clone)]
pub struct ExportRequest {
    /// The tenant of the node.
    pub tenant: Slug,
    /// The node's name.
    pub node: String,
    /// Segments that overlap this are taken, whole.
    pub period: Period,
    /// The only GPU or slice whose blocks are taken. Events always are; for what is not, the leaf
    /// hash is.
    pub gpu: Option<GpuUuid>,
    /// Where it is written; must not exist.
    pub file: PathBuf,
}

/// Writes the capture; returns how many segments it holds. Works beside a running server and
/// without one.
///
/// # Errors
/// When the database cannot be opened, the node is not known or has no segment in the period, a
/// block is no longer kept, or the file exists or cannot be written. No file is left then.
pub async fn segments(options: &ServeOptions, request: &ExportRequest) -> anyhow::Result<u64> {
    let running = match options.database {
        Database::Own { .. } => EmbeddedPostgres::running_url(&options.data_dir, LOGIN, DATABASE),
        Database::External { .. } => None,
    };
    if let Some(url) = running {
        let db = Db::connect(&url, 1).await.context("the running database does not answer")?;
        return to_file(&db, request).await;
    }
    let database = open_database(options).await?;
    let written = to_file(&database.db, request).await;
    database.close().await?;
    written
}

async fn to_file(db: &Db, request: &ExportRequest) -> anyhow::Result<u64> {
    let shown = request.file.display();
    let file = File::create_new(&request.file).with_context(|| format!("cannot write {shown}"))?;
    let written = match write(db, request, BufWriter::new(file)).await {
        Ok(0) => Err(anyhow::anyhow!("node {:?} has no segment in this time", request.node)),
        other => other,
    };
    if written.is_err() {
        remove_unfinished(&request.file);
    }
    written
}

fn remove_unfinished(file: &Path) {
    if let Err(error) = std::fs::remove_file(file) {
        tracing::warn!(%error, file = %file.display(), "an unfinished capture cannot be removed");
    }
}

async fn write(db: &Db, request: &ExportRequest, mut out: BufWriter<File>) -> anyhow::Result<u64> {
    let mut tx = db.begin(Scope::Worker).await?;
    let nodes = node::list(&mut tx).await?;
    tx.rollback().await?;
    let wanted = |row: &&node::NodeRow| row.tenant == request.tenant && row.name == request.node;
    let Some(row) = nodes.iter().find(wanted) else {
        bail!("tenant {:?} has no node {:?}", request.tenant.as_str(), request.node);
    };
    let count = capture(db, row, (request.period, request.gpu.as_ref()), &mut out).await?;
    out.into_inner().map_err(std::io::IntoInnerError::into_error)?.sync_all()?;
    note(db, row, request).await?;
    Ok(count)
}

/// Writes the segments of a node that overlap a period as a capture, with the blocks of one GPU alone
/// or with all; returns how many there are.
///
/// # Errors
/// A block is no longer kept, or the statement about a key is missing.
pub(crate) async fn capture(
    db: &Db,
    row: &NodeRow,
    (period, gpu): (Period, Option<&GpuUuid>),
    out: &mut impl Write,
) -> anyhow::Result<u64> {
    let mut keys = db.begin(Scope::Ingest).await?;
    let beginning = beginning(&mut keys, row, period).await?;
    keys.rollback().await?;
    let mut tx = db.begin(Scope::Worker).await?;
    out.write_all(&beginning)?;

    let recorded_until = segment::recorded_until(&mut tx, row.key).await?;
    let end = recorded_until.map_or(period.start, |at| at.min(period.end));
    let places = places(&mut tx, row.key).await?;
    let mut from = period.start.max(row.enrolled_at);
    let mut count = 0;
    while from < end {
        let window = Period::new(from, from.plus_ms(HOUR_MS).min(end));
        let mut heads = segment::heads(&mut tx, row.key, window).await?;
        // One that lies in several windows belongs to the first.
        heads.retain(|row| count == 0 || row.head.period.start >= window.start);
        let mut blocks = blocks(&mut tx, (row.key, &heads), &places).await?;
        for head in &heads {
            let found = blocks.remove(&(head.head.chain, head.head.sequence)).unwrap_or_default();
            out.write_all(&records(head, &found, gpu)?)?;
            count += 1;
        }
        from = window.end;
    }
    tx.rollback().await?;
    out.write_all(&capture::end(count))?;
    Ok(count)
}

async fn note(db: &Db, row: &NodeRow, request: &ExportRequest) -> anyhow::Result<()> {
    let mut tx = db.begin(Scope::Worker).await?;
    let entry = audit::Entry {
        at: Clock::system().now(),
        tenant: Some(row.key.tenant()),
        who: &audit::Who::command(),
        action: audit::Action::Exported,
        object: &format!("segments of {}", row.name),
        detail: &[
            ("from", request.period.start.to_string()),
            ("to", request.period.end.to_string()),
        ],
    };
    audit::write(&mut tx, entry).await?;
    Ok(tx.commit().await?)
}

/// The node's first key, and each change of it before the end of the period, as it was signed.
async fn beginning(tx: &mut Tx, row: &NodeRow, period: Period) -> anyhow::Result<Vec<u8>> {
    let keys = node_key::all(tx, row.key).await?;
    let (first, later) = keys.split_first().context("the node has no key")?;
    let statements = identity_statement::of_node(tx, row.key).await?;
    let mut changes = Vec::new();
    for key in later.iter().take_while(|key| key.added_at < period.end) {
        let key_id = KeyId::of_public_key(&key.public_key);
        let of_key =
            |row: &&StatementRow| row.kind == StatementKind::Rotation && row.key_id == key_id;
        let Some(change) = statements.iter().find(of_key) else {
            bail!(
                "the key of node {:?} changed at {}, and no signed statement of it is stored: take out \
                 what lies before, with --to {}",
                row.name,
                key.added_at,
                key.added_at
            );
        };
        changes.push(KeyChange { server: change.signer, signed: change.signed.clone() });
    }
    Ok(capture::start_over(&first.public_key, &changes))
}

async fn places(tx: &mut Tx, key: NodeKey) -> anyhow::Result<Vec<Place>> {
    let slots = slot::of_node(tx, key).await?;
    let slots = slots.into_iter().map(|row| Place::Slot(row.slot));
    Ok(slots.chain([Place::Host, Place::Events]).collect())
}

type BlocksOf = BTreeMap<(ChainId, Sequence), Vec<(Rank, BlockRow)>>;

/// Where a block stands in its segment: GPUs by UUID, the host, events.
type Rank = (u8, Option<GpuUuid>);

async fn blocks(
    tx: &mut Tx,
    (key, heads): (NodeKey, &[HeadRow]),
    places: &[Place],
) -> anyhow::Result<BlocksOf> {
    let mut found = BlocksOf::new();
    for block in segment::blocks_of(tx, key, places, heads).await? {
        let rank = match block.place {
            Place::Slot(_) => 0,
            Place::Host => 1,
            Place::Events => 2,
        };
        let of_segment = found.entry((block.chain, block.sequence)).or_default();
        of_segment.push(((rank, block.gpu.clone()), block));
    }
    for blocks in found.values_mut() {
        blocks.sort_by(|(a, _), (b, _)| a.cmp(b));
    }
    Ok(found)
}

fn records(
    row: &HeadRow,
    blocks: &[(Rank, BlockRow)],
    only: Option<&GpuUuid>,
) -> anyhow::Result<Vec<u8>> {
    if blocks.len() != usize::from(row.head.block_count) {
        bail!("the blocks of segment {} are no longer kept", row.head.sequence.0);
    }
    let is_taken = |rank: &Rank| match (only, rank) {
        (None, _) | (_, (2, _)) => true,
        (only, (_, gpu)) => only == gpu.as_ref(),
    };
    let part = |(rank, block): &'_ (Rank, BlockRow)| {
        if is_taken(rank) { None } else { Some(leaf_hash(&block.body)) }
    };
    let parts: Vec<Part<'_>> = blocks
        .iter()
        .map(|entry| part(entry).map_or(Part::Block(&entry.1.body), Part::LeftOut))
        .collect();
    Ok(capture::segment(&row.head.statement(), &row.signature, &parts))
}

/// A time on the command line: `YYYY-MM-DDThh:mm:ssZ`.
///
/// # Errors
/// A text that says which form is meant.
pub fn time(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse_iso(text).ok_or_else(|| "must be like 2026-08-01T04:00:00Z".to_owned())
}
