//! The items of a batch inside the writer's transaction: lock their nodes, decide about each in
//! order, write what they add.

use std::collections::{BTreeMap, BTreeSet};

use leasewatch_core::delivery::{
    DropDecision, IncomingDrop, IncomingSegment, SegmentDecision, StartDecision,
};
use leasewatch_core::evidence::chain::leaf_hash;
use leasewatch_core::id::{ChainId, Sequence};
use leasewatch_core::time::{Period, Timestamp};

use super::place::{self, Slots};
use super::rows::Rows;
use super::{Item, Outcome, hours};
use crate::grpc::beginning::CheckedStart;
use crate::grpc::check::{CheckedDrop, CheckedSegment, Refused};
use crate::grpc::{ProvenNode, stored_chain};
use crate::sabotage;
use crate::store::chain::{self, ChainRow, CursorRow, CursorStep, StartRow};
use crate::store::{NodeKey, StoreError, Tx, segment, slot};

/// What an item did to the transaction.
#[derive(Debug)]
pub(super) struct Stored {
    /// What to answer after the commit.
    pub(super) outcome: Outcome,
    /// Whether it was new, so that hours have to be metered.
    pub(super) queued_hours: bool,
    /// Whether it shows two users of one key.
    pub(super) contested: bool,
}

impl Stored {
    fn nothing(outcome: Outcome) -> Self {
        Self { outcome, queued_hours: false, contested: false }
    }
}

/// Puts items into the transaction, in their order.
///
/// # Errors
/// [`StoreError`]; the transaction is of no more use then.
pub(super) async fn all(
    tx: &mut Tx,
    items: &[(&ProvenNode, &Item)],
    now: Timestamp,
) -> Result<Vec<Stored>, StoreError> {
    let mut batch = Batch::open(tx, items.iter().map(|(node, _)| *node), now).await?;
    let mut stored = Vec::with_capacity(items.len());
    for (node, item) in items {
        stored.push(match item {
            Item::Start(start) => batch.put_start(node, start).await?,
            Item::Segment(segment) => batch.put_segment(node, segment).await?,
            Item::Drop(drop) => batch.put_drop(node, drop).await?,
        });
    }
    batch.rows.write(batch.tx).await?;
    Ok(stored)
}

/// What a stream ends with whose chain has no start.
const NOT_BEGUN: &str =
    "a chain begins with its signed chain_start, and this one has none; nothing of it is taken";

/// The transaction, with what the items that were put so far have made of the nodes.
struct Batch<'a, 't> {
    tx: &'t mut Tx,
    now: Timestamp,
    chains: BTreeMap<(NodeKey, ChainId), ChainRow>,
    slots: BTreeMap<NodeKey, Slots>,
    rows: Rows<'a>,
}

impl<'a, 't> Batch<'a, 't> {
    async fn open<'n>(
        tx: &'t mut Tx,
        nodes: impl Iterator<Item = &'n ProvenNode>,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let keys: BTreeSet<_> = nodes.map(|node| (node.key, node.facts.chain)).collect();
        let keys: Vec<_> = keys.into_iter().collect();
        let chains = chain::lock(tx, &keys).await?;
        let mut nodes: Vec<NodeKey> = keys.iter().map(|(node, _)| *node).collect();
        nodes.dedup();
        let mut slots: BTreeMap<NodeKey, Slots> = BTreeMap::new();
        for (node, row) in slot::of_nodes(tx, &nodes).await? {
            slots.entry(node).or_default().insert(row.place, row.slot);
        }
        let chains = keys.into_iter().zip(chains).collect();
        Ok(Self { tx, now, chains, slots, rows: Rows::default() })
    }

    fn chain(&mut self, node: &ProvenNode) -> &mut ChainRow {
        let nothing = ChainRow { cursor: None, start: None };
        self.chains.entry((node.key, node.facts.chain)).or_insert(nothing)
    }

    async fn put_start(
        &mut self,
        node: &ProvenNode,
        new: &CheckedStart,
    ) -> Result<Stored, StoreError> {
        let (key, chain) = (node.key, node.facts.chain);
        let mut row = *self.chain(node);
        if row.start.is_none() {
            row.start = chain::start_hash(self.tx, key, chain).await?;
        }
        let stored = stored_chain(&row);
        let durable = Outcome::Durable(stored.cursor.sequence);
        let outcome = match stored.on_start(leaf_hash(&new.statement)) {
            StartDecision::AlreadyStored => durable,
            StartDecision::Contradiction => Outcome::Ends("another start of this chain is stored"),
            StartDecision::Late => Outcome::Ends("the chain has begun already, without a start"),
            StartDecision::Store if !new.start.reason.is_break() && self.has_any(key).await? => {
                Outcome::Ends(
                    "the node has begun a chain before: a new one has to say what broke it",
                )
            }
            StartDecision::Store => {
                let CheckedStart { start, statement, signature } = new.clone();
                self.chain(node).start = Some(leaf_hash(&statement));
                let row = StartRow { start, statement, signature, received_at: self.now };
                chain::insert_start(self.tx, key, &row).await?;
                durable
            }
        };
        Ok(Stored::nothing(outcome))
    }

    async fn has_any(&mut self, node: NodeKey) -> Result<bool, StoreError> {
        Ok(self.rows.has_chain(node) || chain::has_any(self.tx, node).await?)
    }

    async fn put_segment(
        &mut self,
        node: &ProvenNode,
        new: &'a CheckedSegment,
    ) -> Result<Stored, StoreError> {
        let (key, chain) = (node.key, node.facts.chain);
        let row = *self.chain(node);
        let stored = stored_chain(&row);
        let (cursor, sequence) = (stored.cursor, new.head.sequence);
        let kept = match self.rows.hash_at(key, chain, sequence) {
            None if sequence <= cursor.sequence => {
                segment::hash_at(self.tx, key, chain, sequence).await?
            }
            hash => hash,
        };
        let incoming = IncomingSegment { sequence, head: new.hash, previous: new.head.previous };
        match stored.on_segment(&incoming, kept) {
            SegmentDecision::NotBegun => Ok(Stored::nothing(Outcome::Ends(NOT_BEGUN))),
            SegmentDecision::AlreadyStored => {
                Ok(Stored::nothing(Outcome::Durable(cursor.sequence)))
            }
            SegmentDecision::Ahead if sabotage::is("silent_hole") => {
                self.store_segment(node, new, row.cursor).await
            }
            SegmentDecision::Ahead => Ok(Stored::nothing(Outcome::Rewind(cursor.sequence))),
            SegmentDecision::ChainBroken => {
                let message = "the segment does not follow the head that is stored before it";
                Ok(Stored::nothing(refused(sequence, "chain_broken", message)))
            }
            SegmentDecision::Equivocation => {
                let other = (sequence, new.hash);
                chain::note_equivocation(self.tx, key, chain, other, self.now).await?;
                let message = "another head is stored under this sequence";
                let outcome = refused(sequence, "equivocation", message);
                Ok(Stored { outcome, queued_hours: false, contested: true })
            }
            SegmentDecision::Store(_) => self.store_segment(node, new, row.cursor).await,
        }
    }

    async fn store_segment(
        &mut self,
        node: &ProvenNode,
        new: &'a CheckedSegment,
        cursor: Option<CursorRow>,
    ) -> Result<Stored, StoreError> {
        let (head, key) = (&new.head, node.key);
        let before = self.recorded_before(key, cursor).await?;
        let places = place::gpus(new);
        let slots = self.slots.entry(key).or_default();
        let wanted = places.values().map(|(place, _)| place);
        if !place::bind(self.tx, key, slots, wanted, head.period.start).await? {
            let message = "the node has shown more places for gpus than a host can have";
            return Ok(Stored::nothing(refused(head.sequence, "too_many_slots", message)));
        }
        self.rows.add_segment(node, new, slots, self.now);
        let step = CursorStep { sequence: head.sequence, head_hash: new.hash, period: head.period };
        self.advance(node, step);
        self.rows.queue(key, hours::touched(before, head.period));
        let outcome = Outcome::Durable(head.sequence);
        Ok(Stored { outcome, queued_hours: true, contested: false })
    }

    async fn put_drop(
        &mut self,
        node: &ProvenNode,
        new: &CheckedDrop,
    ) -> Result<Stored, StoreError> {
        let row = *self.chain(node);
        let stored = stored_chain(&row);
        let cursor = stored.cursor;
        let (first, last, last_head) = (new.drop.first, new.drop.last, new.drop.last_head);
        match stored.on_drop(&IncomingDrop { first, last, last_head }) {
            DropDecision::NotBegun => Ok(Stored::nothing(Outcome::Ends(NOT_BEGUN))),
            DropDecision::AlreadyCovered => Ok(Stored::nothing(Outcome::Durable(cursor.sequence))),
            DropDecision::Rewind => Ok(Stored::nothing(Outcome::Rewind(cursor.sequence))),
            DropDecision::Malformed => {
                let message = "the drop ends before it starts";
                Ok(Stored::nothing(refused(first, "malformed_drop", message)))
            }
            DropDecision::MoveCursor(_) => {
                let before = self.recorded_before(node.key, row.cursor).await?;
                chain::insert_drop(self.tx, node.key, &new.drop, &new.signature).await?;
                let step =
                    CursorStep { sequence: last, head_hash: last_head, period: new.credible };
                self.advance(node, step);
                self.rows.queue(node.key, hours::touched(before, new.credible));
                let outcome = Outcome::Durable(last);
                Ok(Stored { outcome, queued_hours: true, contested: false })
            }
        }
    }

    fn advance(&mut self, node: &ProvenNode, step: CursorStep) {
        let Period { start, end } = step.period;
        let chain = self.chain(node);
        chain.cursor = Some(CursorRow {
            sequence: step.sequence,
            head_hash: step.head_hash,
            first_at: chain.cursor.map_or(start, |cursor| cursor.first_at),
            ended_at: chain.cursor.map_or(end, |cursor| cursor.ended_at.max(end)),
        });
        self.rows.advance(node.key, node.facts.chain, step);
    }

    /// Where the record ended before an item: the chain's end, or the node's when a chain begins.
    async fn recorded_before(
        &mut self,
        node: NodeKey,
        cursor: Option<CursorRow>,
    ) -> Result<Option<Timestamp>, StoreError> {
        match cursor {
            Some(cursor) => Ok(Some(cursor.ended_at)),
            None => {
                let stored = segment::recorded_until(self.tx, node).await?;
                Ok(stored.max(self.rows.recorded_until(node)))
            }
        }
    }
}

fn refused(sequence: Sequence, code: &'static str, message: &str) -> Outcome {
    Outcome::Refused(Refused { sequence, code, message: message.to_owned() })
}
