//! Numbers of a fixed sequence (SplitMix64), for data alone: never for keys or nonces.

#[derive(Debug, Clone)]
pub(super) struct Noise(u64);

impl Noise {
    /// The sequence of a node and a part of it.
    pub(super) fn new(node: u64, part: u64) -> Self {
        let mut noise = Self(node.wrapping_mul(0x5851_f42d_4c95_7f2d) ^ part);
        noise.next();
        noise
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to below `bound`.
    pub(super) fn below(&mut self, bound: i64) -> i64 {
        i64::try_from(self.next() % bound.unsigned_abs().max(1)).unwrap_or(0)
    }

    /// A bell around 0 that ends at about +-`reach`: the sum of four even spreads.
    pub(super) fn bell(&mut self, reach: i64) -> i64 {
        (0..4).map(|_| self.below(reach / 2 + 1)).sum::<i64>() - reach / 4 * 4
    }
}
