//! Error budget and burn rate, while a window runs.
//!
//! `bad(L) = down over the last L / (up + down) over the last L`, from sums of milliseconds, never
//! from averages of ratios; `burn = bad / (1 - target)`. A short window of which less than half is
//! known has no burn: its state is *no data*, never *fine*.

use crate::availability::named;
use crate::metering::Ppm;
use crate::time::{HOUR_MS, Period, Timestamp};

use super::Target;
use super::unit::UnitStretch;
use super::verdict::UnitSums;

/// What may still be down in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget {
    /// How much may be down in the whole window, in ms, rounded down.
    pub allowed_ms: i64,
    /// Proven downtime so far.
    pub spent_ms: i64,
    /// Downtime if all unknown time so far had been down.
    pub possibly_spent_ms: i64,
}

/// How fast a budget is being spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burn {
    /// The pair of windows it is about.
    pub pair: BurnPair,
    /// Burn over the long window in ppm, 1,000,000 being a budget that lasts exactly the window;
    /// `None` where nothing is known.
    pub long: Option<Ppm>,
    /// The same over the short one.
    pub short: Option<Ppm>,
    /// The share of the short window's contracted time that is known; `None` when none was.
    pub short_coverage: Option<Ppm>,
    /// What follows.
    pub state: BurnState,
}

/// Two windows that must both burn fast: the long one shows that it matters, the short one that it
/// goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BurnPair {
    /// The long window, in ms.
    pub long_ms: i64,
    /// The short window, in ms.
    pub short_ms: i64,
    /// The share of the whole budget, in thousandths, that the long window may not use up.
    pub share_milli: i64,
    /// What it leads to.
    pub severity: Severity,
}

named! {
    /// What a fast burn leads to.
    Severity {
        /// Somebody looks at once.
        Page = "page",
        /// Somebody looks soon.
        Ticket = "ticket",
    }
}

named! {
    /// What a pair of windows says.
    BurnState {
        /// Both burn too fast.
        Fast = "fast",
        /// They do not.
        Slow = "slow",
        /// Too little of the short window is known.
        NoData = "no_data",
        /// Nothing was contracted in the short window, or all of it is excluded.
        NotContracted = "not_contracted",
    }
}

/// The pairs of the SRE workbook: 2 % of the budget in an hour, 5 % in six, 10 % in three days.
pub const BURN_PAIRS: [BurnPair; 3] = [
    BurnPair {
        long_ms: HOUR_MS,
        short_ms: HOUR_MS / 12,
        share_milli: 20,
        severity: Severity::Page,
    },
    BurnPair {
        long_ms: 6 * HOUR_MS,
        short_ms: HOUR_MS / 2,
        share_milli: 50,
        severity: Severity::Page,
    },
    BurnPair {
        long_ms: 72 * HOUR_MS,
        short_ms: 6 * HOUR_MS,
        share_milli: 100,
        severity: Severity::Ticket,
    },
];

/// The least share of a short window that must be known.
const COVERAGE_MIN: Ppm = Ppm(500_000);

/// How long after the last judged instant a burn still speaks of now: an hour is judged ten minutes
/// after its end, so what is known is up to 70 minutes old. Behind that, the states are silent.
const FRESH_MS: i64 = 3 * HOUR_MS;

impl Budget {
    /// The budget of a window of `whole_ms` in all, and what a verdict so far took of it: downtime
    /// that is proven, and downtime if all that is unknown had been down.
    #[must_use]
    pub fn of(target: Target, whole_ms: i64, (spent_ms, possibly_spent_ms): (i64, i64)) -> Self {
        Self { allowed_ms: target.allowed_ms(whole_ms), spent_ms, possibly_spent_ms }
    }

    /// What is left by what is proven, in ms; negative when it is overdrawn.
    #[must_use]
    pub fn left_ms(self) -> i64 {
        self.allowed_ms - self.spent_ms
    }
}

/// What a pair says at `now` of a timeline that was judged up to `judged_until`: as of then, and
/// *no data* when nothing was judged for hours.
#[must_use]
pub fn burn_as_of(
    pair: BurnPair,
    timeline: &[UnitStretch],
    (target, window_ms): (Target, i64),
    (judged_until, now): (Timestamp, Timestamp),
) -> Burn {
    let burn = burn(pair, timeline, target, window_ms, judged_until.min(now));
    if now.since(judged_until) <= FRESH_MS {
        return burn;
    }
    Burn { long: None, short: None, short_coverage: None, state: BurnState::NoData, ..burn }
}

/// How fast the budget of a window of `window_ms` burns at `now`, by one pair.
///
/// The pair's thresholds are shares of the budget, so for 30 days they are the workbook's 14.4, 6
/// and 1, and for other windows they are scaled to their length.
#[must_use]
pub fn burn(
    pair: BurnPair,
    timeline: &[UnitStretch],
    target: Target,
    window_ms: i64,
    now: Timestamp,
) -> Burn {
    let last = |ms: i64| UnitSums::of(timeline, Period::new(now.plus_ms(-ms), now));
    let (long, short) = (last(pair.long_ms), last(pair.short_ms));
    let due_ms = short.contracted_ms() - short.excluded_ms;
    let short_coverage = Ppm::of(i128::from(known_ms(&short)), i128::from(due_ms));
    let is_fast = |sums: &UnitSums| is_fast(pair, sums, target, window_ms);
    let state = match short_coverage {
        None => BurnState::NotContracted,
        Some(coverage) if coverage < COVERAGE_MIN => BurnState::NoData,
        Some(_) if is_fast(&long) && is_fast(&short) => BurnState::Fast,
        Some(_) => BurnState::Slow,
    };
    let (long, short) = (burn_ppm(&long, target), burn_ppm(&short, target));
    Burn { pair, long, short, short_coverage, state }
}

fn known_ms(sums: &UnitSums) -> i64 {
    sums.up_ms + sums.down_ms
}

/// `down / known / (1 - target) > share x window / long`, without a division.
fn is_fast(pair: BurnPair, sums: &UnitSums, target: Target, window_ms: i64) -> bool {
    let spare_ppm = i128::from(1_000_000 - target.ppm());
    let burned = i128::from(sums.down_ms) * i128::from(pair.long_ms) * 1_000_000_000;
    let limit = i128::from(pair.share_milli) * i128::from(window_ms) * spare_ppm;
    burned > limit * i128::from(known_ms(sums))
}

/// Burn in ppm; `None` when nothing is known, or a target of 100 % leaves no budget to burn.
fn burn_ppm(sums: &UnitSums, target: Target) -> Option<Ppm> {
    let spare_ppm = i128::from(1_000_000 - target.ppm());
    Ppm::of(i128::from(sums.down_ms) * 1_000_000, i128::from(known_ms(sums)) * spare_ppm)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::availability::UnknownCause;
    use crate::sla::dialect::Counted;
    use crate::sla::unit::Members;
    use crate::time::DAY_MS;

    const MINUTE_MS: i64 = 60_000;
    const NOW: Timestamp = Timestamp(40 * DAY_MS);

    /// Parts of time before now, from the latest back: minutes, and what they were. Before them all
    /// was up.
    fn timeline(parts: &[(i64, Counted)]) -> Vec<UnitStretch> {
        let mut end = NOW;
        let mut out = Vec::new();
        for (minutes, counted) in parts.iter().chain([&(60 * 24 * 35, Counted::Up)]) {
            let start = end.plus_ms(-minutes * MINUTE_MS);
            out.push(UnitStretch {
                period: Period::new(start, end),
                counted: *counted,
                members: Members::default(),
                grounds: Vec::new(),
            });
            end = start;
        }
        out.reverse();
        out
    }

    fn burn_at(pair: usize, target: &str, window_days: i64, parts: &[(i64, Counted)]) -> Burn {
        let target = Target::parse(target).unwrap();
        burn(BURN_PAIRS[pair], &timeline(parts), target, window_days * DAY_MS, NOW)
    }

    #[test]
    fn thresholds_are_those_of_the_workbook_for_30_days() {
        // 1 h at 99 %: burn 14.4 is 8.64 min down of 60. Both windows have to be above.
        let states =
            |pair, target, parts: &[(i64, Counted)]| burn_at(pair, target, 30, parts).state;
        let down = Counted::Down;
        assert_eq!(states(0, "99", &[(8, down)]), BurnState::Slow);
        assert_eq!(states(0, "99", &[(9, down)]), BurnState::Fast);
        assert_eq!(states(0, "99", &[(5, Counted::Up), (9, down)]), BurnState::Slow);
        // 6 h: 6 x 1 % of 360 min are 21.6 min.
        assert_eq!(states(1, "99", &[(21, down)]), BurnState::Slow);
        assert_eq!(states(1, "99", &[(22, down)]), BurnState::Fast);
        // 3 days: 1 x 1 % of 4,320 min are 43.2 min.
        assert_eq!(states(2, "99", &[(43, down)]), BurnState::Slow);
        assert_eq!(states(2, "99", &[(44, down)]), BurnState::Fast);
    }

    #[test]
    fn other_windows_rescale_the_thresholds() {
        // 2 % of the budget of 7 days in an hour: burn 3.36, 2.016 min at 99 %.
        let state = |minutes| burn_at(0, "99", 7, &[(minutes, Counted::Down)]).state;
        assert_eq!(state(2), BurnState::Slow);
        assert_eq!(state(3), BurnState::Fast);
    }

    #[test]
    fn without_data_there_is_no_burn_and_without_a_contract_nothing_to_know() {
        let unknown = Counted::Unknown(UnknownCause::NotEnrolled);
        let half = [(2, Counted::Down), (3, unknown)];
        let burn = burn_at(0, "99", 30, &half);
        assert_eq!((burn.state, burn.short_coverage), (BurnState::NoData, Some(Ppm(400_000))));
        let known = [(3, Counted::Down), (2, unknown), (55, Counted::Down)];
        assert_eq!(burn_at(0, "99", 30, &known).state, BurnState::Fast);
        let stopped = [(5, Counted::Excluded), (55, Counted::Down)];
        let burn = burn_at(0, "99", 30, &stopped);
        assert_eq!((burn.state, burn.short), (BurnState::NotContracted, None));
    }

    #[test]
    fn what_was_judged_long_ago_says_nothing_of_now() {
        let target = Target::parse("99").unwrap();
        let down = timeline(&[(60 * 24, Counted::Down)]);
        let at = |hours: i64| {
            let now = NOW.plus_ms(hours * HOUR_MS);
            burn_as_of(BURN_PAIRS[0], &down, (target, 30 * DAY_MS), (NOW, now))
        };
        assert_eq!((at(0).state, at(3).state), (BurnState::Fast, BurnState::Fast));
        assert_eq!((at(4).state, at(4).long, at(4).short), (BurnState::NoData, None, None));
    }

    #[test]
    fn burn_comes_from_sums_of_time() {
        // 30 min unknown, 6 down, 24 up: 6 of 30 known, not 6 of 60.
        let unknown = Counted::Unknown(UnknownCause::NotEnrolled);
        let parts = [(24, Counted::Up), (6, Counted::Down), (30, unknown)];
        assert_eq!(burn_at(0, "99", 30, &parts).long, Some(Ppm(20_000_000)));
        // A target of 100 % has no budget: anything down is too fast, and no number says how fast.
        let burn = burn_at(0, "100", 30, &[(1, Counted::Down)]);
        assert_eq!((burn.state, burn.long), (BurnState::Fast, None));
    }
}
