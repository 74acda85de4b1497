//! Minutes: which heads were committed when.

use leasewatch_core::evidence::bundle::name;
use leasewatch_core::evidence::log::leaf::Minute;
use leasewatch_core::evidence::log::tree::CompactRange;
use leasewatch_core::id::Hash;

use super::{Evidence, at_line};
use crate::report::Fault;

pub(super) fn check(evidence: &mut Evidence<'_>) -> Result<String, Fault> {
    let mut starts = Vec::new();
    evidence.archive.lines(name::MINUTES, |number, line| {
        let minute =
            Minute::from_statement(line).map_err(|error| at_line(name::MINUTES, number, error))?;
        starts.push(minute.at);
        Ok(())
    })?;
    let mut trees = Vec::new();
    let committed = &mut evidence.committed;
    evidence.archive.lines(name::MINUTE_LEAVES, |number, line| {
        let wrong = || at_line(name::MINUTE_LEAVES, number, "is no list of hashes");
        let text = std::str::from_utf8(line).map_err(|_| wrong())?;
        let at = usize::try_from(number - 1).ok().and_then(|at| starts.get(at));
        let at = at.ok_or_else(|| at_line(name::MINUTE_LEAVES, number, "is of no minute"))?;
        let mut tree = CompactRange::new(0);
        for leaf in text.split(' ').filter(|_| !text.is_empty()) {
            let leaf: Hash = leaf.parse().map_err(|_| wrong())?;
            tree.push(leaf);
            committed.insert(leaf, *at);
        }
        trees.push((tree.leaves().to, tree.root().filter(|_| tree.leaves().to > 0)));
        Ok(())
    })?;
    let (mut last, mut unrecorded_ms) = (None, 0);
    let count = evidence.archive.lines(name::MINUTES, |number, line| {
        let minute =
            Minute::from_statement(line).map_err(|error| at_line(name::MINUTES, number, error))?;
        let at = usize::try_from(number - 1).unwrap_or(usize::MAX);
        if trees.get(at) != Some(&(minute.heads, minute.root)) {
            return Err(at_line(
                name::MINUTES,
                number,
                "its heads are not those of minute_leaves.txt",
            ));
        }
        if last.replace(minute.at).is_some_and(|before| before >= minute.at) {
            return Err(at_line(name::MINUTES, number, "minutes do not ascend"));
        }
        unrecorded_ms += 60_000 - minute.recorded_ms;
        Ok(())
    })?;
    if u64::try_from(trees.len()).ok() != Some(count) {
        let what = format!("{} has more lines than {}", name::MINUTE_LEAVES, name::MINUTES);
        return Err(Fault::Mismatch(what));
    }
    let heads = evidence.committed.len();
    Ok(format!(
        "{heads} heads were committed in {count} minutes; the server was not recording for {unrecorded_ms} ms of them"
    ))
}
