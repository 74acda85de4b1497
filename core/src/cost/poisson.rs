//! Exact 95 % limits of a Poisson mean, in thousandths.
//!
//! To 100 events from a table of the chi-squared limits (lower ones rounded down, upper ones up);
//! beyond it from the square root, which differs from them by less than 0.04.

/// The least mean under which n or more are seen in 2.5 % of cases.
const LOWER: [i64; 101] = [
    0, 25, 242, 618, 1_089, 1_623, 2_201, 2_814, 3_453, 4_115, 4_795, 5_491, 6_200, 6_921, 7_653,
    8_395, 9_145, 9_903, 10_667, 11_439, 12_216, 12_999, 13_787, 14_580, 15_377, 16_178, 16_984,
    17_793, 18_605, 19_421, 20_240, 21_062, 21_887, 22_715, 23_545, 24_378, 25_213, 26_051, 26_891,
    27_732, 28_576, 29_422, 30_269, 31_119, 31_970, 32_823, 33_677, 34_533, 35_391, 36_250, 37_110,
    37_972, 38_836, 39_700, 40_566, 41_433, 42_301, 43_171, 44_041, 44_913, 45_786, 46_660, 47_535,
    48_410, 49_287, 50_165, 51_044, 51_924, 52_804, 53_686, 54_568, 55_451, 56_335, 57_220, 58_105,
    58_992, 59_879, 60_767, 61_655, 62_545, 63_435, 64_325, 65_217, 66_109, 67_001, 67_894, 68_788,
    69_683, 70_578, 71_474, 72_370, 73_267, 74_164, 75_063, 75_961, 76_860, 77_760, 78_660, 79_561,
    80_462, 81_363,
];

/// The largest mean under which n or fewer are seen in 2.5 % of cases.
const UPPER: [i64; 101] = [
    3_689, 5_572, 7_225, 8_768, 10_242, 11_669, 13_060, 14_423, 15_764, 17_085, 18_391, 19_683,
    20_962, 22_231, 23_490, 24_741, 25_983, 27_219, 28_448, 29_671, 30_889, 32_101, 33_309, 34_512,
    35_711, 36_905, 38_097, 39_284, 40_468, 41_649, 42_827, 44_003, 45_175, 46_345, 47_512, 48_677,
    49_840, 51_000, 52_158, 53_315, 54_469, 55_622, 56_772, 57_921, 59_068, 60_214, 61_358, 62_501,
    63_642, 64_781, 65_919, 67_056, 68_192, 69_326, 70_459, 71_591, 72_721, 73_851, 74_979, 76_106,
    77_232, 78_358, 79_482, 80_605, 81_727, 82_848, 83_969, 85_088, 86_207, 87_324, 88_441, 89_557,
    90_673, 91_787, 92_901, 94_014, 95_126, 96_237, 97_348, 98_458, 99_567, 100_676, 101_784,
    102_891, 103_998, 105_104, 106_210, 107_315, 108_419, 109_523, 110_626, 111_728, 112_830,
    113_932, 115_033, 116_133, 117_233, 118_332, 119_431, 120_529, 121_627,
];

/// Half the normal quantile of 97.5 %, in thousandths.
const HALF_QUANTILE: i64 = 980;

/// Limits of the mean when `n` events were seen, in thousandths.
pub(super) fn limits_milli(n: u32) -> (i64, i64) {
    let index = usize::try_from(n).unwrap_or(usize::MAX);
    if let (Some(low), Some(high)) = (LOWER.get(index), UPPER.get(index)) {
        return (*low, *high);
    }
    let root = |count: u64| i64::try_from((count * 1_000_000).isqrt()).unwrap_or(0);
    let square = |milli: i64| milli * milli / 1_000;
    let n = u64::from(n);
    (square(root(n) - HALF_QUANTILE), square(root(n + 1) + 1 + HALF_QUANTILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_limits() {
        assert_eq!(limits_milli(0), (0, 3_689));
        assert_eq!(limits_milli(1), (25, 5_572));
        assert_eq!(limits_milli(10), (4_795, 18_391));
        assert_eq!(limits_milli(100), (81_363, 121_627));
    }

    #[test]
    fn the_root_goes_on_where_the_table_ends() {
        // Exact: 82.266 and 122.724; 361.756 and 441.187.
        let near = |n, low: i64, high: i64| {
            let limits = limits_milli(n);
            assert!((limits.0 - low).abs() < 40 && (limits.1 - high).abs() < 70, "{limits:?}");
        };
        near(101, 82_266, 122_724);
        near(400, 361_756, 441_187);
        for n in 0..500 {
            let (now, next) = (limits_milli(n), limits_milli(n + 1));
            assert!(now.0 < next.0 && now.1 < next.1 && now.0 <= i64::from(n) * 1_000);
        }
        assert!(limits_milli(u32::MAX).1 > i64::from(u32::MAX) * 1_000);
    }
}
