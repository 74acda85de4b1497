//! Heads: signed by their node, in an unbroken chain, and committed in a minute of the log.

use std::collections::BTreeMap;

use leasewatch_core::evidence::bundle::{name, signature_of_line};
use leasewatch_core::evidence::chain::{Head, verify};
use leasewatch_core::evidence::log::leaf::head_leaf;
use leasewatch_core::evidence::statement::StatementKind;
use leasewatch_core::id::{ChainId, Hash, NodeId, Sequence};

use super::{Evidence, at_line};
use crate::report::Fault;

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
    let mut holes = 0;
    let count = evidence.archive.lines(name::HEADS, |number, line| {
        let wrong = |what: &dyn std::fmt::Display| at_line(name::HEADS, number, what);
        let head = Head::from_statement(line).map_err(|error| wrong(&error))?;
        let at = usize::try_from(number - 1).unwrap_or(usize::MAX);
        let signature = signatures.get(at).ok_or_else(|| wrong(&"has no signature"))?;
        let own = keys.get(&head.node).map(Vec::as_slice).unwrap_or_default();
        let signed =
            own.iter().find(|own| verify(StatementKind::Head, line, signature, &own.key).is_ok());
        let signed = signed.ok_or_else(|| wrong(&"is not signed by a key of its node"))?;
        if head.period.end < signed.from || head.period.start > signed.until {
            return Err(wrong(&"is signed by a key that was not valid then"));
        }
        if head.tenant != tenant {
            return Err(wrong(&"is of another tenant"));
        }
        if !committed.contains(&head_leaf(line, signature)) {
            return Err(wrong(&"was committed in no minute that is shown"));
        }
        let place = (head.node, head.chain);
        match last.insert(place, (head.sequence, head.hash())) {
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
    Ok(format!("{count} heads of {} chains, signed and committed", last.len()))
}
