//! RFC 6962 Merkle trees over leaf hashes: root, and the proof that one leaf is in it.

use sha2::{Digest, Sha256};

use crate::id::Hash;

/// The root over leaf hashes; the hash itself for one leaf, `None` for no leaf.
#[must_use]
pub fn merkle_root(leaves: &[Hash]) -> Option<Hash> {
    match leaves {
        [] => None,
        [leaf] => Some(*leaf),
        _ => {
            let (left, right) = leaves.split_at(split(leaves.len()));
            Some(node_hash(merkle_root(left)?, merkle_root(right)?))
        }
    }
}

/// The hashes that lead from the leaf at `index` to the root, from the leaf upwards; `None` when
/// there is no such leaf. With them one GPU's block can be disclosed without the others.
#[must_use]
pub fn inclusion_proof(leaves: &[Hash], index: usize) -> Option<Vec<Hash>> {
    if index >= leaves.len() {
        return None;
    }
    let mut proof = Vec::new();
    let (mut part, mut at) = (leaves, index);
    while part.len() > 1 {
        let (left, right) = part.split_at(split(part.len()));
        let sibling = if at < left.len() {
            part = left;
            right
        } else {
            at -= left.len();
            part = right;
            left
        };
        proof.push(merkle_root(sibling)?);
    }
    proof.reverse();
    Some(proof)
}

/// True when `proof` shows that `leaf` is the leaf at `index` of the `size` leaves under `root`.
/// A proof that is too long or too short shows nothing.
#[must_use]
pub fn verify_inclusion(leaf: Hash, index: usize, size: usize, proof: &[Hash], root: Hash) -> bool {
    index < size && climb(leaf, index, size, proof) == Some(root)
}

/// The root that follows from a leaf and its proof, taken from the top: the last hash of the proof
/// is the sibling under the root.
fn climb(leaf: Hash, index: usize, size: usize, proof: &[Hash]) -> Option<Hash> {
    match (size, proof.split_last()) {
        (1, None) => Some(leaf),
        (1, Some(_)) | (_, None) => None,
        (_, Some((sibling, below))) => {
            let left = split(size);
            if index < left {
                Some(node_hash(climb(leaf, index, left, below)?, *sibling))
            } else {
                Some(node_hash(*sibling, climb(leaf, index - left, size - left, below)?))
            }
        }
    }
}

/// The largest power of two below `size`, which is at least 2.
fn split(size: usize) -> usize {
    size.div_ceil(2).next_power_of_two()
}

fn node_hash(left: Hash, right: Hash) -> Hash {
    Hash(
        Sha256::new()
            .chain_update([1])
            .chain_update(left.0)
            .chain_update(right.0)
            .finalize()
            .into(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence::statement::leaf_hash;

    fn leaves(count: usize) -> Vec<Hash> {
        (0..count).map(|index| leaf_hash(&index.to_be_bytes())).collect()
    }

    /// The leaf inputs and roots of the certificate transparency project's reference tests.
    #[test]
    fn roots_of_the_reference_tree() {
        let inputs: [&[u8]; 8] = [
            b"",
            b"\x00",
            b"\x10",
            b"\x20\x21",
            b"\x30\x31",
            b"\x40\x41\x42\x43",
            b"\x50\x51\x52\x53\x54\x55\x56\x57",
            b"\x60\x61\x62\x63\x64\x65\x66\x67\x68\x69\x6a\x6b\x6c\x6d\x6e\x6f",
        ];
        let roots = [
            "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
            "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
            "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
            "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
            "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
            "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
            "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
            "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
        ];
        let hashes: Vec<Hash> = inputs.iter().map(|input| leaf_hash(input)).collect();
        for (count, root) in (1..).zip(roots) {
            assert_eq!(merkle_root(&hashes[..count]), root.parse().ok(), "{count} leaves");
        }
        assert_eq!(merkle_root(&[]), None);
    }

    #[test]
    fn every_leaf_of_every_size_can_be_shown_alone() {
        for size in 1..=70 {
            let leaves = leaves(size);
            let root = merkle_root(&leaves).unwrap();
            for (index, leaf) in leaves.iter().enumerate() {
                let proof = inclusion_proof(&leaves, index).unwrap();
                assert!(verify_inclusion(*leaf, index, size, &proof, root));
            }
            assert_eq!(inclusion_proof(&leaves, size), None);
        }
    }

    #[test]
    fn a_proof_shows_nothing_else() {
        let leaves = leaves(11);
        let root = merkle_root(&leaves).unwrap();
        let proof = inclusion_proof(&leaves, 6).unwrap();
        let mut other = proof.clone();
        other[0].0[31] ^= 1;
        let longer = [proof.clone(), vec![root]].concat();
        assert!(verify_inclusion(leaves[6], 6, 11, &proof, root));
        assert!(!verify_inclusion(leaves[6], 7, 11, &proof, root));
        assert!(!verify_inclusion(leaves[6], 17, 11, &proof, root));
        assert!(!verify_inclusion(leaves[5], 6, 11, &proof, root));
        assert!(!verify_inclusion(leaves[6], 6, 11, &proof[1..], root));
        assert!(!verify_inclusion(leaves[6], 6, 11, &longer, root));
        assert!(!verify_inclusion(leaves[6], 6, 11, &other, root));
        assert!(!verify_inclusion(root, 0, 0, &[], root));
    }
}
