//! Which statements of a bundle are in the log, and where.
//!
//! A leaf is the hash of its statement and nothing more, so a statement is found by its hash. Kept
//! are the hashes alone, in order: 48 bytes for each.

use leasewatch_core::evidence::chain::leaf_hash;
use leasewatch_core::id::Hash;

use super::BundleError;
use crate::store::{LogKey, Tx, log};

/// Where a statement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Neither in the log nor waiting for it.
    Unknown,
    /// A leaf of this number.
    Leaf(u64),
    /// Published after the log's size of this bundle, or not yet.
    Later,
}

/// A statement that stands in a file of the bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Shown {
    pub(super) leaf: u64,
    /// Of `name::LEAVES`.
    pub(super) file: usize,
    /// From 1.
    pub(super) line: u32,
}

/// Statements that may be shown, and those that are.
#[derive(Default)]
pub(super) struct Disclosed {
    /// By hash, once they were looked for.
    wanted: Vec<(Hash, Place)>,
    pub(super) shown: Vec<Shown>,
}

impl Disclosed {
    /// A statement to look for.
    pub(super) fn add(&mut self, statement: Option<&[u8]>) {
        self.wanted.extend(statement.map(|bytes| (leaf_hash(bytes), Place::Unknown)));
    }

    /// The same by its hash.
    pub(super) fn add_hash(&mut self, hash: Hash) {
        self.wanted.push((hash, Place::Unknown));
    }

    /// Finds them in the log: as leaves of the first `size`, or later.
    pub(super) async fn locate(
        &mut self,
        tx: &mut Tx,
        key: LogKey,
        size: u64,
    ) -> Result<(), BundleError> {
        self.wanted.sort_unstable_by_key(|(hash, _)| *hash);
        self.wanted.dedup_by_key(|(hash, _)| *hash);
        let end = log::range(tx, key).await?.leaves().to;
        let wanted = &mut self.wanted;
        log::leaves(tx, key, (0, end), |leaf, hash| {
            if let Ok(at) = wanted.binary_search_by_key(&hash, |(own, _)| *own)
                && let Some((_, place)) = wanted.get_mut(at)
                && *place == Place::Unknown
            {
                *place = if leaf < size { Place::Leaf(leaf) } else { Place::Later };
            }
            Ok::<(), BundleError>(())
        })
        .await
    }

    pub(super) fn has_unknown(&self) -> bool {
        self.wanted.iter().any(|(_, place)| *place == Place::Unknown)
    }

    /// These wait to be published.
    pub(super) fn excuse(&mut self, waiting: Vec<Hash>) {
        for hash in waiting {
            if let Ok(at) = self.wanted.binary_search_by_key(&hash, |(own, _)| *own)
                && let Some((_, place)) = self.wanted.get_mut(at)
                && *place == Place::Unknown
            {
                *place = Place::Later;
            }
        }
    }

    /// Where a statement is.
    pub(super) fn place(&self, hash: Hash) -> Place {
        let found = self.wanted.binary_search_by_key(&hash, |(own, _)| *own).ok();
        found.and_then(|at| self.wanted.get(at)).map_or(Place::Unknown, |(_, place)| *place)
    }

    /// The leaf of a statement that is shown; `None` for one that comes later. `what` names one that
    /// was never published.
    pub(super) fn leaf(
        &self,
        hash: Hash,
        what: impl FnOnce() -> String,
    ) -> Result<Option<u64>, BundleError> {
        match self.place(hash) {
            Place::Leaf(leaf) => Ok(Some(leaf)),
            Place::Later => Ok(None),
            Place::Unknown => Err(BundleError::Altered(what())),
        }
    }

    /// The first and the last leaf that may be shown.
    pub(super) fn first_and_last(&self) -> Option<(u64, u64)> {
        let leaves = self.wanted.iter().filter_map(|(_, place)| match place {
            Place::Leaf(leaf) => Some(*leaf),
            _ => None,
        });
        leaves.fold(None, |range, leaf| {
            let (first, last) = range.unwrap_or((leaf, leaf));
            Some((first.min(leaf), last.max(leaf)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_never_published_is_named_and_what_waits_is_not() {
        let hash = |n| Hash([n; 32]);
        let mut disclosed = Disclosed::default();
        for n in [3, 1, 2] {
            disclosed.add_hash(hash(n));
        }
        disclosed.wanted.sort_unstable_by_key(|(hash, _)| *hash);
        disclosed.wanted[0].1 = Place::Leaf(7);
        disclosed.excuse(vec![hash(2), hash(1), hash(9)]);
        let leaf = |n| disclosed.leaf(hash(n), || format!("hour {n}"));
        assert_eq!(leaf(1).unwrap(), Some(7));
        assert_eq!(leaf(2).unwrap(), None);
        let refused = leaf(3).unwrap_err().to_string();
        assert!(refused.starts_with("hour 3 is not what was published"), "{refused}");
        assert_eq!((disclosed.has_unknown(), disclosed.first_and_last()), (true, Some((7, 7))));
    }
}
