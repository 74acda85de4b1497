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
use super::verdict::{UnitSums, Verdict};

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

impl Budget {
    /// The budget of a window of `whole_ms` in all, and what a verdict so far took of it.
    #[must_use]
    pub fn of(target: Target, whole_ms: i64, so_far: &Verdict) -> Self {
        Self {
            allowed_ms: target.allowed_ms(whole_ms),
            spent_ms: so_far.downtime.proven_ms,
            possibly_spent_ms: so_far.downtime.possible_ms,
        }
    }

    /// What is left by what is proven, in ms; negative when it is overdrawn.
    #[must_use]
    pub fn left_ms(self) -> i64 {
        self.allowed_ms - self.spent_ms
    }
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
