//! Noise that is the same in every run: a hash of seed, channel and index.

/// A number in `0..below` (0 when `below` is 0).
pub(crate) fn noise(seed: u64, channel: u64, index: u64, below: u32) -> u32 {
    let mixed = mix(mix(mix(seed) ^ channel) ^ index);
    u32::try_from(mixed % u64::from(below.max(1))).unwrap_or(0)
}

/// A hash of a text, to derive identities from.
pub(crate) fn text_hash(seed: u64, text: &str) -> u64 {
    text.bytes().fold(mix(seed), |hash, byte| mix(hash ^ u64::from(byte)))
}

/// The finalizer of SplitMix64.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_stays_in_range_and_depends_on_all_it_is_given() {
        assert!((0..1_000).all(|index| noise(1, 2, index, 10) < 10));
        assert_eq!(noise(1, 2, 3, 0), 0);
        let series =
            |seed, channel| (0..32).map(|i| noise(seed, channel, i, 1_000)).collect::<Vec<_>>();
        assert_eq!(series(1, 1), series(1, 1));
        assert_ne!(series(1, 1), series(2, 1));
        assert_ne!(series(1, 1), series(1, 2));
    }
}
