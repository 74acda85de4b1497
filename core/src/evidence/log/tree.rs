//! RFC 6962 trees of any size, by arithmetic alone.
//!
//! Whoever keeps the hashes of perfect subtrees (whole powers of two of leaves, each starting at a
//! multiple of its size) can make every root and proof out of a few of them. So a proof is first
//! asked for as *which* subtrees ([`inclusion`], [`consistency`], [`cover`]) and then made of their
//! hashes; nothing here holds a tree. A [`CompactRange`] is the subtrees of a stretch of leaves, to
//! which leaves can be added: 64 hashes at most on each side, however long the log.

use sha2::{Digest as _, Sha256};

use crate::id::Hash;

/// A perfect subtree: the 2^level leaves from `index` * 2^level on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Subtree {
    /// 0 for a leaf.
    pub level: u8,
    /// Its place among those of its level.
    pub index: u64,
}

/// Leaves from `from` to before `to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Leaves {
    /// The first.
    pub from: u64,
    /// The one after the last.
    pub to: u64,
}

/// A row of 256 hashes of one level in eight; the first ones are of leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tile {
    /// 0: of leaves; 1: of 256 leaves each; and so on.
    pub level: u8,
    /// Its place among those of its level.
    pub index: u64,
}

/// Hashes in a tile.
pub const TILE_HASHES: usize = 256;
const TILE_HEIGHT: u8 = 8;

impl Subtree {
    /// Which tile it is made of, and from which to before which of its hashes.
    #[must_use]
    pub fn tile(self) -> (Tile, std::ops::Range<usize>) {
        let above = self.level % TILE_HEIGHT;
        let first = (self.index << above) % 256;
        let tile =
            Tile { level: self.level / TILE_HEIGHT, index: self.index >> (TILE_HEIGHT - above) };
        // Below 256, and at most 128 hashes from there.
        let first = usize::try_from(first).unwrap_or(usize::MAX);
        (tile, first..first + (1 << above))
    }

    fn end(self) -> u64 {
        (self.index + 1) << self.level
    }
}

/// The hash over two subtrees beside each other.
#[must_use]
pub fn node_hash(left: Hash, right: Hash) -> Hash {
    Hash(
        Sha256::new()
            .chain_update([1])
            .chain_update(left.0)
            .chain_update(right.0)
            .finalize()
            .into(),
    )
}

/// The root of a tree without leaves: SHA-256 of nothing.
#[must_use]
pub fn empty_root() -> Hash {
    Hash::of(&[])
}

/// The hash of perfectly many hashes beside each other; `None` unless they are a power of two.
#[must_use]
pub fn perfect(hashes: &[Hash]) -> Option<Hash> {
    match hashes {
        [] => None,
        [one] => Some(*one),
        _ if !hashes.len().is_power_of_two() => None,
        _ => {
            let (left, right) = hashes.split_at(hashes.len() / 2);
            Some(node_hash(perfect(left)?, perfect(right)?))
        }
    }
}

/// The largest perfect subtrees that make up a stretch of leaves, from left to right.
#[must_use]
pub fn cover(leaves: Leaves) -> Vec<Subtree> {
    let mut subtrees = Vec::new();
    let mut at = leaves.from;
    while at < leaves.to {
        let aligned = if at == 0 { 63 } else { at.trailing_zeros() };
        let fits = (leaves.to - at).ilog2();
        let level = aligned.min(fits);
        // At most 63.
        subtrees.push(Subtree { level: u8::try_from(level).unwrap_or(63), index: at >> level });
        at += 1 << level;
    }
    subtrees
}

/// The hash over the subtrees of a stretch that begins at a multiple of its size, rounded up to a
/// power of two: a whole tree, or a part of one that a proof names. `None` for no subtree.
#[must_use]
pub fn fold(hashes: &[Hash]) -> Option<Hash> {
    let (last, rest) = hashes.split_last()?;
    Some(rest.iter().rev().fold(*last, |right, left| node_hash(*left, right)))
}

/// The parts whose hashes lead from a leaf to the root of the first `size` leaves, from the leaf
/// upwards; `None` where there is no such leaf.
#[must_use]
pub fn inclusion(index: u64, size: u64) -> Option<Vec<Leaves>> {
    if index >= size {
        return None;
    }
    let (mut part, mut proof) = (Leaves { from: 0, to: size }, Vec::new());
    while part.to - part.from > 1 {
        let middle = part.from + split(part.to - part.from);
        let (left, right) = (Leaves { to: middle, ..part }, Leaves { from: middle, ..part });
        let (inside, sibling) = if index < middle { (left, right) } else { (right, left) };
        proof.push(sibling);
        part = inside;
    }
    proof.reverse();
    Some(proof)
}

/// The parts whose hashes show that the first `old` of `new` leaves are a tree of before; `None`
/// when there are fewer. Nothing need be shown for an empty or an equal tree.
#[must_use]
pub fn consistency(old: u64, new: u64) -> Option<Vec<Leaves>> {
    if old > new {
        return None;
    }
    if old == 0 || old == new {
        return Some(Vec::new());
    }
    let (mut part, mut proof) = (Leaves { from: 0, to: new }, Vec::new());
    while part.to > old {
        let middle = part.from + split(part.to - part.from);
        let (left, right) = (Leaves { to: middle, ..part }, Leaves { from: middle, ..part });
        let (inside, sibling) = if old <= middle { (left, right) } else { (right, left) };
        proof.push(sibling);
        part = inside;
    }
    // The old tree itself is known to whoever asks.
    if part.from > 0 {
        proof.push(part);
    }
    proof.reverse();
    Some(proof)
}

/// True when `proof` shows that a tree of `old.0` leaves with the root `old.1` is the beginning of
/// the one of `new.0` leaves with the root `new.1`. A proof that is too long or too short shows
/// nothing.
#[must_use]
pub fn is_consistent(old: (u64, Hash), new: (u64, Hash), proof: &[Hash]) -> bool {
    match old.0 {
        0 => proof.is_empty() && old.1 == empty_root() && (new.0 > 0 || new.1 == old.1),
        size if size > new.0 => false,
        size => grow((size, new.0), proof, Some(old.1)) == Some((old.1, new.1)),
    }
}

/// Both roots that follow from a proof, taken from the top. `known` is the old root while the old
/// tree begins where this part does.
fn grow((old, new): (u64, u64), proof: &[Hash], known: Option<Hash>) -> Option<(Hash, Hash)> {
    if old == new {
        return match (known, proof) {
            (Some(root), []) => Some((root, root)),
            (None, [root]) => Some((*root, *root)),
            _ => None,
        };
    }
    let (sibling, below) = proof.split_last()?;
    let left = split(new);
    if old <= left {
        let (before, after) = grow((old, left), below, known)?;
        Some((before, node_hash(after, *sibling)))
    } else {
        let (before, after) = grow((old - left, new - left), below, None)?;
        Some((node_hash(*sibling, before), node_hash(*sibling, after)))
    }
}

/// The largest power of two below `size`, which is at least 2.
fn split(size: u64) -> u64 {
    1 << (size - 1).ilog2()
}

/// The hashes of [`cover`] of a stretch of leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CompactRange {
    from: u64,
    nodes: Vec<(Subtree, Hash)>,
}

impl CompactRange {
    /// No leaves, before leaf number `from`.
    #[must_use]
    pub fn new(from: u64) -> Self {
        Self { from, nodes: Vec::new() }
    }

    /// A stretch whose subtrees have these hashes; `None` unless there are as many as it has.
    #[must_use]
    pub fn of_hashes(leaves: Leaves, hashes: &[Hash]) -> Option<Self> {
        let subtrees = cover(leaves);
        let fits = leaves.from <= leaves.to && subtrees.len() == hashes.len();
        let nodes = subtrees.into_iter().zip(hashes.iter().copied()).collect();
        fits.then_some(Self { from: leaves.from, nodes })
    }

    /// Which leaves.
    #[must_use]
    pub fn leaves(&self) -> Leaves {
        let to = self.nodes.last().map_or(self.from, |(subtree, _)| subtree.end());
        Leaves { from: self.from, to }
    }

    /// Hashes of its subtrees, in their order.
    pub fn hashes(&self) -> impl Iterator<Item = Hash> + '_ {
        self.nodes.iter().map(|(_, hash)| *hash)
    }

    /// Adds the next leaf.
    pub fn push(&mut self, leaf: Hash) {
        let index = self.leaves().to;
        self.add(Subtree { level: 0, index }, leaf);
    }

    /// Adds the leaves that follow; `None`, and nothing added, when there are some in between.
    #[must_use]
    pub fn append(&mut self, next: &Self) -> Option<()> {
        if next.from != self.leaves().to {
            return None;
        }
        for (subtree, hash) in &next.nodes {
            self.add(*subtree, *hash);
        }
        Some(())
    }

    fn add(&mut self, mut subtree: Subtree, mut hash: Hash) {
        while let Some((left, left_hash)) = self.nodes.last().copied() {
            let is_sibling = left.level == subtree.level && left.index + 1 == subtree.index;
            if !is_sibling || left.index % 2 == 1 {
                break;
            }
            self.nodes.pop();
            subtree = Subtree { level: left.level + 1, index: left.index / 2 };
            hash = node_hash(left_hash, hash);
        }
        self.nodes.push((subtree, hash));
    }

    /// The root of the tree of these leaves; `None` unless they begin with the first.
    #[must_use]
    pub fn root(&self) -> Option<Hash> {
        if self.from > 0 {
            return None;
        }
        let hashes: Vec<Hash> = self.hashes().collect();
        Some(fold(&hashes).unwrap_or_else(empty_root))
    }
}

#[cfg(test)]
mod tests;
