//! The tree against the definition of RFC 6962, section 2.1, and its published test data.

use super::*;
use crate::evidence::chain::{merkle_root, verify_inclusion};
use crate::evidence::statement::leaf_hash;
use proptest::prelude::*;

/// Leaves and roots that implementations of certificate transparency test with.
const KNOWN: [(&[u8], &str); 8] = [
    (b"", "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"),
    (b"\x00", "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125"),
    (b"\x10", "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77"),
    (b"\x20\x21", "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"),
    (b"\x30\x31", "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4"),
    (b"\x40\x41\x42\x43", "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef"),
    (
        b"\x50\x51\x52\x53\x54\x55\x56\x57",
        "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    ),
    (
        b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
        "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
    ),
];

#[test]
fn published_roots() {
    let mut range = CompactRange::new(0);
    assert_eq!(range.root(), Some(empty_root()));
    for (data, root) in KNOWN {
        range.push(leaf_hash(data));
        assert_eq!(range.root().unwrap().to_string(), root);
    }
}

fn leaves(count: u64) -> Vec<Hash> {
    (0..count).map(|number| leaf_hash(&number.to_be_bytes())).collect()
}

fn part(all: &[Hash], part: Leaves) -> &[Hash] {
    &all[usize::try_from(part.from).unwrap()..usize::try_from(part.to).unwrap()]
}

/// The hash of a subtree by way of its tile, as a store does it.
fn of_subtree(all: &[Hash], subtree: Subtree) -> Hash {
    let (tile, hashes) = subtree.tile();
    let size = 1_u64 << (8 * tile.level);
    let of_tile: Vec<Hash> = hashes
        .map(|at| {
            let from = (tile.index * 256 + u64::try_from(at).unwrap()) * size;
            merkle_root(part(all, Leaves { from, to: from + size })).unwrap()
        })
        .collect();
    perfect(&of_tile).unwrap()
}

fn hash_of(all: &[Hash], leaves: Leaves) -> Hash {
    let hashes: Vec<Hash> = cover(leaves).into_iter().map(|of| of_subtree(all, of)).collect();
    fold(&hashes).unwrap()
}

#[test]
fn every_proof_of_small_trees() {
    let all = leaves(41);
    for new in 1..=40_u64 {
        let of =
            |size| merkle_root(part(&all, Leaves { from: 0, to: size })).unwrap_or_else(empty_root);
        for index in 0..new {
            let proof: Vec<Hash> = inclusion(index, new)
                .unwrap()
                .into_iter()
                .map(|part| hash_of(&all, part))
                .collect();
            let at = usize::try_from(index).unwrap();
            assert!(verify_inclusion(all[at], at, usize::try_from(new).unwrap(), &proof, of(new)));
        }
        assert_eq!(inclusion(new, new), None);
        for old in 0..=new {
            let mut proof: Vec<Hash> = consistency(old, new)
                .unwrap()
                .into_iter()
                .map(|part| hash_of(&all, part))
                .collect();
            let check = |proof: &[Hash]| is_consistent((old, of(old)), (new, of(new)), proof);
            assert!(check(&proof), "{old} of {new}");
            assert!(!is_consistent((old, of(old + 1)), (new, of(new)), &proof), "{old} of {new}");
            assert!(!is_consistent((old, of(old)), (new, of(new + 1)), &proof) || old == 0);
            proof.push(of(1));
            assert!(!check(&proof), "a hash too many: {old} of {new}");
            proof.pop();
            if proof.pop().is_some() {
                assert!(!check(&proof), "a hash too few: {old} of {new}");
            }
        }
        assert_eq!(consistency(new + 1, new), None);
    }
}

#[test]
fn tiles_of_a_log_of_millions() {
    let at = |level, index| Subtree { level, index }.tile();
    assert_eq!(at(0, 70_000), (Tile { level: 0, index: 273 }, 112..113));
    assert_eq!(at(7, 547), (Tile { level: 0, index: 273 }, 128..256));
    assert_eq!(at(8, 273), (Tile { level: 1, index: 1 }, 17..18));
    assert_eq!(at(63, 0), (Tile { level: 7, index: 0 }, 0..128));
    assert_eq!(cover(Leaves { from: 0, to: u64::MAX }).len(), 64);
    assert_eq!(inclusion(u64::MAX - 1, u64::MAX).unwrap().len(), 63);
}

proptest! {
    #[test]
    fn a_stretch_between_two_ranges_leads_to_the_root(
        size in 1_u64..700,
        from in 0_u64..700,
        to in 0_u64..700,
    ) {
        let (from, to) = (from.min(to).min(size), from.max(to).min(size));
        let all = leaves(size);
        let range = |leaves: Leaves| {
            let hashes: Vec<Hash> = cover(leaves).into_iter().map(|of| of_subtree(&all, of)).collect();
            CompactRange::of_hashes(leaves, &hashes).unwrap()
        };
        let mut whole = range(Leaves { from: 0, to: from });
        for leaf in part(&all, Leaves { from, to }) {
            whole.push(*leaf);
        }
        prop_assert_eq!(&whole, &range(Leaves { from: 0, to }));
        let mut middle = CompactRange::new(from);
        for leaf in part(&all, Leaves { from, to }) {
            middle.push(*leaf);
        }
        prop_assert_eq!(&middle, &range(Leaves { from, to }));
        whole.append(&range(Leaves { from: to, to: size })).unwrap();
        prop_assert_eq!(whole.root(), merkle_root(&all));
        prop_assert_eq!(whole.leaves(), Leaves { from: 0, to: size });
        let again = whole.append(&range(Leaves { from: to, to: size }));
        prop_assert!(to == size || again.is_none());
    }
}
