//! Heads: signed by their node, in an unbroken chain, and committed in a minute of the log.

use std::collections::{BTreeMap, BTreeSet};

use leasewatch_core::evidence::bundle::{name, signature_of_line};
use leasewatch_core::evidence::chain::{Head, verify};
use leasewatch_core::evidence::log::leaf::head_leaf;
use leasewatch_core::evidence::statement::StatementKind;
use leasewatch_core::id::{ChainId, Hash, NodeId, Sequence};
use leasewatch_core::time::{Period, Timestamp};

use super::identity::NodeKey;
use super::{Evidence, at_line};
use crate::report::Fault;

/// Longest hold of a sample.
const HOLD_MS: i64 = 60_000;

pub(super) fn check(evidence: &mut Evidence<'_>) -> Result<String, Fault> {
    let mut signatures = Vec::new();
    evidence.archive.lines(name::HEAD_SIGNATURES, |number, line| {
        let signature = std::str::from_utf8(line).ok().and_then(signature_of_line);
        signatures.push(
            signature.ok_or_else(|| at_line(name::HEAD_SIGNATURES, number, "is no signature"))?,
        );
        Ok(())
    })?;
    let tenant = evidence.manifest()?.scope.tenant.clone();
    let (keys, committed) = (&evidence.keys, &evidence.committed);
    let mut last: BTreeMap<(NodeId, ChainId), (Sequence, Hash)> = BTreeMap::new();
    let (mut holes, mut overdue, mut spans) = (0, 0, Spans::default());
    let count = evidence.archive.lines(name::HEADS, |number, line| {
        let wrong = |what: &dyn std::fmt::Display| at_line(name::HEADS, number, what);
        let head = Head::from_statement(line).map_err(|error| wrong(&error))?;
        let at = usize::try_from(number - 1).unwrap_or(usize::MAX);
        let signature = signatures.get(at).ok_or_else(|| wrong(&"has no signature"))?;
        let own = keys.get(&head.node).ok_or_else(|| wrong(&"is of a node that never joined"))?;
        let holds = |key: &&NodeKey| verify(StatementKind::Head, line, signature, &key.key).is_ok();
        let key = own.keys.iter().find(holds);
        let key = key.ok_or_else(|| wrong(&"is not signed by a key of its node"))?;
        if let Some(objection) = own.objection(key, &head) {
            return Err(wrong(&objection));
        }
        if head.tenant != tenant {
            return Err(wrong(&"is of another tenant"));
        }
        let minute = committed.get(&head_leaf(line, signature));
        let minute = minute.ok_or_else(|| wrong(&"was committed in no minute that is shown"))?;
        overdue += u64::from(key.is_over(*minute));
        spans.see(&head);
        let place = (head.node, head.chain);
        match last.insert(place, (head.sequence, head.hash())) {
            Some((before, hash)) if head.sequence == before && hash != head.hash() => {
                Err(wrong(&"contradicts the head before it: its key has two users"))
            }
            Some((before, hash))
                if head.sequence.0 == before.0 + 1 && head.previous != Some(hash) =>
            {
                Err(wrong(&"does not follow the head before it"))
            }
            Some((before, _)) if head.sequence <= before => Err(wrong(&"stands out of order")),
            Some((before, _)) if head.sequence.0 > before.0 + 1 => {
                holes += 1;
                Ok(())
            }
            _ => Ok(()),
        }
    })?;
    if u64::try_from(signatures.len()).ok() != Some(count) {
        return Err(Fault::Mismatch("there are signatures without heads".to_owned()));
    }
    if holes > 0 {
        evidence.report.notes.push(format!("{holes} stretches of heads are not in this bundle"));
    }
    if overdue > 0 {
        evidence.report.notes.push(format!(
            "{overdue} heads were committed only after their key had been revoked or replaced"
        ));
    }
    for node in spans.contested() {
        evidence.report.notes.push(format!(
            "node {node} is contested: two of its chains tell of the same time, so its key has two users"
        ));
    }
    Ok(format!("{count} heads of {} chains, signed and committed", last.len()))
}

/// From when to when each chain tells.
#[derive(Default)]
struct Spans(BTreeMap<(NodeId, ChainId), Period>);

impl Spans {
    fn see(&mut self, head: &Head) {
        let span = self.0.entry((head.node, head.chain)).or_insert(head.period);
        *span = Period::new(span.start.min(head.period.start), span.end.max(head.period.end));
    }

    /// Nodes with two chains over the same time.
    fn contested(&self) -> BTreeSet<NodeId> {
        let mut spans: Vec<(NodeId, Period)> =
            self.0.iter().map(|((node, _), span)| (*node, *span)).collect();
        spans.sort_by_key(|(node, span)| (*node, span.start));
        let mut contested = BTreeSet::new();
        let mut reach: Option<(NodeId, Timestamp)> = None;
        for (node, span) in spans {
            let before = reach.filter(|(of, _)| *of == node).map(|(_, end)| end);
            // The hold of a chain's first sample may reach back over the end of the one before.
            if before.is_some_and(|end| end.since(span.start) > HOLD_MS) {
                contested.insert(node);
            }
            reach = Some((node, before.map_or(span.end, |end| end.max(span.end))));
        }
        contested
    }
}
