//! How long to wait before the next attempt to connect.

/// Shortest wait, in milliseconds.
pub const BACKOFF_MIN_MS: u64 = 1_000;
/// Longest wait, in milliseconds.
pub const BACKOFF_MAX_MS: u64 = 60_000;
/// Longest wait while a loss is young, in milliseconds: with that, what a page shows is right 15 s
/// after a server that was restarted is back.
pub const BACKOFF_YOUNG_MAX_MS: u64 = 10_000;
/// How long a loss is young, in milliseconds.
pub const YOUNG_LOSS_MS: u64 = 1_800_000;

/// Full jitter: uniform between [`BACKOFF_MIN_MS`] and a ceiling that doubles with each failure,
/// from 4 s up to [`BACKOFF_YOUNG_MAX_MS`], and to [`BACKOFF_MAX_MS`] once the loss is older than
/// [`YOUNG_LOSS_MS`]. `down_ms` is how old it is, `random` any 64 random bits.
///
/// The whole range is random, not a part of it: a fleet that lost its server at one instant must
/// not come back at one instant.
#[must_use]
pub fn backoff_ms(failures: u32, down_ms: u64, random: u64) -> u64 {
    let longest = if down_ms < YOUNG_LOSS_MS { BACKOFF_YOUNG_MAX_MS } else { BACKOFF_MAX_MS };
    let ceiling =
        4_000_u64.checked_shl(failures.saturating_sub(1).min(16)).unwrap_or(longest).min(longest);
    BACKOFF_MIN_MS + random % (ceiling - BACKOFF_MIN_MS + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn waits_stay_between_one_and_sixty_seconds(failures: u32, down_ms: u64, random: u64) {
            let wait = backoff_ms(failures, down_ms, random);
            prop_assert!((BACKOFF_MIN_MS..=BACKOFF_MAX_MS).contains(&wait));
            let young = backoff_ms(failures, down_ms % YOUNG_LOSS_MS, random);
            prop_assert!((BACKOFF_MIN_MS..=BACKOFF_YOUNG_MAX_MS).contains(&young));
        }
    }

    /// Of two hundred agents that lose their server at one instant, the most that try again within
    /// one second, over their first six attempts.
    fn most_within_a_second(mut random: impl FnMut() -> u64) -> usize {
        let mut attempts = std::collections::BTreeMap::<u64, usize>::new();
        for _ in 0..200 {
            let mut at = 0;
            for failures in 1..=6 {
                at += backoff_ms(failures, at, random());
                *attempts.entry(at / 1_000).or_default() += 1;
            }
        }
        attempts.into_values().max().unwrap_or(0)
    }

    #[test]
    fn a_fleet_does_not_come_back_at_one_instant() {
        let mut state = 1_u64;
        let dice = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            state >> 20
        };
        let most = most_within_a_second(dice);
        // A third of them can be back after the shortest waits, between one second and four.
        assert!(most <= 90, "{most} at once");
        assert_eq!(most_within_a_second(|| 0), 200, "without jitter it would");
    }

    #[test]
    fn the_ceiling_doubles_to_ten_seconds_and_later_to_a_minute() {
        let longest = |failures, down_ms| {
            (0..200_000).map(|random| backoff_ms(failures, down_ms, random)).max()
        };
        for down_ms in [0, YOUNG_LOSS_MS] {
            assert_eq!(longest(1, down_ms), Some(4_000));
            assert_eq!(longest(2, down_ms), Some(8_000));
        }
        assert_eq!(longest(40, YOUNG_LOSS_MS - 1), Some(10_000));
        assert_eq!(longest(5, YOUNG_LOSS_MS), Some(60_000));
        assert_eq!(longest(40, YOUNG_LOSS_MS), Some(60_000));
    }
}
