//! Heads, and the minutes in which they were committed.

use std::collections::HashSet;

use leasewatch_core::evidence::bundle::name;
use leasewatch_core::evidence::chain::{Head, leaf_hash};
use leasewatch_core::evidence::log::leaf::head_leaf;
use leasewatch_core::id::{ChainId, Hash, Sequence};
use leasewatch_core::time::{Period, Timestamp};

use super::disclosed::{Place, Shown};
use super::document::Report;
use super::parts::signature_line;
use super::{BundleError, Making};
use crate::export;
use crate::store::log::{self, MinuteRow};
use crate::store::segment::{self, HeadRow};
use crate::store::{LogKey, Tx};

/// Rows of one read.
const ROWS: u32 = 1_000;
const MINUTE_MS: i64 = 60_000;

/// What is known of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// In no minute.
    Unknown,
    /// In a minute of the log.
    InMinute,
    /// In a minute that is shown.
    Shown,
}

/// Heads that may be shown, and the minutes that hold them.
pub(super) struct Found {
    /// By leaf.
    heads: Vec<(Hash, Mark)>,
    /// From the first to the last minute that holds one of them.
    minutes: Option<Period>,
}

impl Found {
    fn mark(&mut self, leaf: Hash, mark: Mark) -> bool {
        let found = self.heads.binary_search_by_key(&leaf, |(own, _)| *own).ok();
        let found = found.and_then(|at| self.heads.get_mut(at));
        found.map(|(_, own)| *own = mark).is_some()
    }

    fn of(&self, leaf: Hash) -> Mark {
        let found = self.heads.binary_search_by_key(&leaf, |(own, _)| *own).ok();
        found.and_then(|at| self.heads.get(at)).map_or(Mark::Unknown, |(_, mark)| *mark)
    }

    fn has_unknown(&self) -> bool {
        self.heads.iter().any(|(_, mark)| *mark == Mark::Unknown)
    }
}

fn leaf_of(row: &HeadRow) -> Hash {
    head_leaf(&row.head.statement(), &row.signature)
}

/// Looks for the heads, and for their minutes among those of the log.
pub(super) async fn gather(making: &mut Making<'_>) -> Result<Found, BundleError> {
    let (mut heads, mut first) = (Vec::new(), Timestamp::MAX);
    for at in 0..making.plan.nodes.len() {
        let mut walk = Walk::of(making, at).await?;
        while let Some(rows) = walk.next(making).await? {
            for row in rows {
                first = first.min(row.received_at);
                heads.push((leaf_of(&row), Mark::Unknown));
            }
        }
    }
    heads.sort_unstable_by_key(|(leaf, _)| *leaf);
    let mut found = Found { heads, minutes: None };
    if !found.heads.is_empty() {
        scan(making, &mut found, first.plus_ms(-MINUTE_MS)).await?;
        // A clock that was put back since dates minutes before what they hold.
        if found.has_unknown() {
            scan(making, &mut found, Timestamp::MIN).await?;
        }
    }
    Ok(found)
}

async fn scan(
    making: &mut Making<'_>,
    found: &mut Found,
    from: Timestamp,
) -> Result<(), BundleError> {
    let mut minutes = Minutes::new(Period::new(from, Timestamp::MAX));
    while let Some(rows) = minutes.next(&mut making.tx, making.plan.log.key).await? {
        for row in rows {
            let mut holds = false;
            for leaf in &row.heads {
                holds |= found.mark(*leaf, Mark::InMinute);
            }
            if holds {
                making.disclosed.add(Some(&row.statement));
                let own = Period::new(row.at, row.at.plus_ms(1));
                let whole = found
                    .minutes
                    .map_or(own, |of| Period::new(of.start.min(own.start), of.end.max(own.end)));
                found.minutes = Some(whole);
            }
        }
    }
    Ok(())
}

/// Writes minutes, their leaves, and heads; returns how many heads.
pub(super) async fn write(
    making: &mut Making<'_>,
    mut found: Found,
    report: &mut Report,
) -> Result<u64, BundleError> {
    write_minutes(making, &mut found, report).await?;
    let mut heads = making.parts.begin(name::HEADS)?;
    let mut signatures = making.parts.begin(name::HEAD_SIGNATURES)?;
    let mut count = 0;
    for at in 0..making.plan.nodes.len() {
        let node = making.plan.nodes[at].node.clone();
        let waiting = log::waiting_heads(&mut making.tx, node.key).await?;
        let waiting: HashSet<(ChainId, Sequence)> = waiting.into_iter().collect();
        let mut walk = Walk::of(making, at).await?;
        while let Some(rows) = walk.next(making).await? {
            for row in rows {
                match found.of(leaf_of(&row)) {
                    Mark::Shown => {
                        heads.line(&row.head.statement())?;
                        signatures.line(signature_line(&row.signature).as_bytes())?;
                        report.add_head(&row);
                        count += 1;
                    }
                    Mark::InMinute => {}
                    Mark::Unknown if waiting.contains(&(row.head.chain, row.head.sequence)) => {}
                    Mark::Unknown => {
                        let number = row.head.sequence.0;
                        let what = format!("segment {number} of node {}", node.name);
                        return Err(BundleError::Altered(what));
                    }
                }
            }
        }
    }
    making.parts.end(heads)?;
    making.parts.end(signatures)?;
    Ok(count)
}

async fn write_minutes(
    making: &mut Making<'_>,
    found: &mut Found,
    report: &mut Report,
) -> Result<(), BundleError> {
    let mut statements = making.parts.begin(name::MINUTES)?;
    let mut trees = making.parts.begin(name::MINUTE_LEAVES)?;
    let file = super::leaves::file(name::MINUTES);
    let mut minutes = found.minutes.map(Minutes::new);
    while let Some(minutes) = &mut minutes {
        let Some(rows) = minutes.next(&mut making.tx, making.plan.log.key).await? else { break };
        for row in rows {
            let Place::Leaf(leaf) = making.disclosed.place(leaf_hash(&row.statement)) else {
                continue;
            };
            let line = statements.line(&row.statement)?;
            making.disclosed.shown.push(Shown { leaf, file, line });
            let leaves: Vec<String> = row.heads.iter().map(Hash::to_string).collect();
            trees.line(leaves.join(" ").as_bytes())?;
            for head in &row.heads {
                found.mark(*head, Mark::Shown);
            }
            report.minutes += 1;
        }
    }
    making.parts.end(statements)?;
    making.parts.end(trees)
}

/// Pages of minutes.
struct Minutes {
    left: Period,
}

impl Minutes {
    fn new(left: Period) -> Self {
        Self { left }
    }

    async fn next(
        &mut self,
        tx: &mut Tx,
        key: LogKey,
    ) -> Result<Option<Vec<MinuteRow>>, BundleError> {
        let rows = log::minutes(tx, key, self.left, 256).await?;
        if let Some(last) = rows.last() {
            self.left.start = last.at.plus_ms(1);
        }
        Ok((!rows.is_empty()).then_some(rows))
    }
}

/// Pages of the heads of a node that are shown: by chain and sequence, one before the window and one
/// after it with them.
struct Walk {
    at: usize,
    period: Period,
    last: Option<Head>,
}

impl Walk {
    async fn of(making: &mut Making<'_>, at: usize) -> Result<Self, BundleError> {
        let (key, window) = (making.plan.nodes[at].node.key, making.plan.asked.window);
        let before = segment::head_before(&mut making.tx, key, window.start).await?;
        let after = segment::head_after(&mut making.tx, key, window.end).await?;
        let start = before.map_or(window.start, |row| row.head.period.start);
        let end = after.map_or(window.end, |row| row.head.period.end);
        Ok(Self { at, period: Period::new(start, end), last: None })
    }

    async fn next(&mut self, making: &mut Making<'_>) -> Result<Option<Vec<HeadRow>>, BundleError> {
        let key = making.plan.nodes[self.at].node.key;
        let mut rows =
            segment::page(&mut making.tx, key, self.period, self.last.as_ref(), ROWS).await?;
        let Some(last) = rows.last() else { return Ok(None) };
        self.last = Some(last.head.clone());
        rows.retain(|row| making.plan.shows(row.head.period));
        Ok(Some(rows))
    }
}

/// Writes the segments of the window as they came, a capture for each node.
pub(super) async fn write_segments(making: &mut Making<'_>) -> Result<(), BundleError> {
    for at in 0..making.plan.nodes.len() {
        let (node, window) = (making.plan.nodes[at].node.clone(), making.plan.asked.window);
        let mut part = making.parts.begin(&format!("segments/{}.capture", node.id))?;
        let written = export::capture(making.db, &node, (window, None), &mut part).await;
        written.map_err(BundleError::Segments)?;
        making.parts.end(part)?;
    }
    Ok(())
}
