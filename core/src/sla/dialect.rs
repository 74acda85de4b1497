//! The dialect: what a contract counts, and how much of it.
//!
//! Two steps, with `unit` between them. [`count`] maps the states of one slot to what the
//! contract's predicates call up, down, unknown or excluded. [`downtime`] turns the unit's timeline
//! into downtime: outages that are long enough, cut to the window, in whole slices where the
//! contract says so, without what was claimed before, less the buffer.
//!
//! The same steps are taken twice: over what is proven down, and over what may have been down
//! because it is unknown. Each step keeps what is larger larger, so the second is never below the
//! first, and the two bounds of an availability are honest.

use crate::availability::{
    DownCause, EvidenceClass, Ground, Seen, State, StateStretch, UnknownCause, union, without,
};
use crate::metering::GapCause;
use crate::time::{Period, Timestamp};

use super::profile::{DowntimeRule, PartialSlice, Predicate};
use super::unit::UnitStretch;

/// What a contract says of an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Counted {
    /// Shown to be as promised.
    Up,
    /// Shown to be what the contract calls downtime.
    Down,
    /// Neither is shown.
    Unknown(UnknownCause),
    /// Not in the account.
    Excluded,
}

/// A stretch of one slot's contracted time as a contract counts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedStretch {
    /// When.
    pub period: Period,
    /// How it is counted.
    pub counted: Counted,
    /// The grounds by which it is down, in order; empty otherwise.
    pub grounds: Vec<Ground>,
}

/// Downtime of a unit in a window, as the contract counts it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Downtime {
    /// What is proven, in order.
    pub outages: Vec<Outage>,
    /// Proven downtime after the buffer, in ms.
    pub proven_ms: i64,
    /// The same as if all unknown time had been down: the most that it can be. Never below
    /// `proven_ms`.
    pub possible_ms: i64,
    /// Proven downtime that was claimed before and is not in `proven_ms`.
    pub claimed_ms: i64,
}

/// An unbroken stretch of proven downtime.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outage {
    /// What of it counts in the window. Its length is no more than the dialect lets count.
    pub period: Period,
    /// As it was, before the dialect and the window.
    pub actual: Period,
    /// Everything it is known by, in order.
    pub grounds: Vec<Ground>,
}

impl Predicate {
    /// Whether downtime known by `ground` is what this predicate means.
    #[must_use]
    pub fn counts(self, ground: Ground) -> bool {
        let cause = ground.cause;
        match self {
            // Whatever the agent signs about GPUs, it could be reached or not.
            Self::Connectivity => {
                ground.class != EvidenceClass::E1
                    && matches!(cause, DownCause::Connectivity | DownCause::Reboot)
            }
            Self::Disk => cause == DownCause::Disk,
            Self::GpuLost => matches!(cause, DownCause::GpuLost | DownCause::GpuReplaced),
            Self::GpuCount => {
                matches!(cause, DownCause::GpuCount | DownCause::GpuLost | DownCause::GpuReplaced)
            }
            Self::Fabric => cause == DownCause::Fabric,
            Self::Hardware => !cause.is_degradation() && !matches!(cause, DownCause::Connectivity),
            Self::Throttle => cause == DownCause::Throttle,
            Self::Unusable => !cause.is_degradation(),
        }
    }
}

/// The states of one slot as a contract with these predicates counts them.
#[must_use]
pub fn count(stretches: &[StateStretch], predicates: &[Predicate]) -> Vec<CountedStretch> {
    let mut out: Vec<CountedStretch> = Vec::with_capacity(stretches.len());
    for stretch in stretches {
        let (counted, grounds) = counted(stretch, predicates);
        match out.last_mut() {
            Some(last)
                if last.period.end == stretch.period.start
                    && last.counted == counted
                    && last.grounds == grounds =>
            {
                last.period.end = stretch.period.end;
            }
            _ => out.push(CountedStretch { period: stretch.period, counted, grounds }),
        }
    }
    out
}

fn counted(stretch: &StateStretch, predicates: &[Predicate]) -> (Counted, Vec<Ground>) {
    if matches!(stretch.state, State::Excluded(_)) {
        return (Counted::Excluded, Vec::new());
    }
    let working = stretch.seen == Seen::Working;
    let counts = |ground: &Ground| predicates.iter().any(|predicate| predicate.counts(*ground));
    let grounds: Vec<Ground> = stretch
        .grounds
        .iter()
        .copied()
        .filter(|ground| ground.stands(working))
        .filter(counts)
        .collect();
    if grounds.is_empty() {
        (not_down(stretch, predicates), grounds)
    } else {
        (Counted::Down, grounds)
    }
}

/// What shows that nothing of what the predicates name was lost.
fn not_down(stretch: &StateStretch, predicates: &[Predicate]) -> Counted {
    let reach_shows_all =
        predicates.iter().all(|p| matches!(p, Predicate::Connectivity | Predicate::Disk));
    let needs_reach = predicates.contains(&Predicate::Connectivity);
    match stretch.seen {
        _ if reach_shows_all && needs_reach && stretch.reachable => Counted::Up,
        Seen::Working if needs_reach && !stretch.reachable => {
            Counted::Unknown(UnknownCause::Gap(GapCause::NetUnreachable))
        }
        Seen::Working => Counted::Up,
        Seen::NodeOnly(_) if reach_shows_all && !needs_reach => Counted::Up,
        Seen::NodeOnly(_) if reach_shows_all => {
            Counted::Unknown(UnknownCause::Gap(GapCause::NetUnreachable))
        }
        Seen::NodeOnly(cause) | Seen::Nothing(cause) => Counted::Unknown(cause),
    }
}

/// What the tenant sent to the provider before, where a contract looks at it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filings<'a> {
    /// Stretches that were compensated before; they are not counted a second time.
    pub claimed: &'a [Period],
    /// When notices of outages were sent, in any order.
    pub notices: &'a [Timestamp],
}

/// Downtime of a unit in `window`.
#[must_use]
pub fn downtime(
    timeline: &[UnitStretch],
    rule: &DowntimeRule,
    window: Period,
    filings: Filings<'_>,
) -> Downtime {
    let down = |stretch: &&UnitStretch| stretch.counted == Counted::Down;
    let open = |stretch: &&UnitStretch| matches!(stretch.counted, Counted::Unknown(_));
    let proven = union(timeline.iter().filter(down).map(|s| s.period));
    let possible = union(timeline.iter().filter(|s| down(s) || open(s)).map(|s| s.period));

    let counted = |outages: &[Period]| counted_in(&noticed(outages, rule, filings), rule, window);
    let counted_proven = counted(&proven);
    let kept_proven = without(&counted_proven, filings.claimed);
    let kept_possible = without(&counted(&possible), filings.claimed);
    let buffer_ms = rule.buffer_s.saturating_mul(1_000);
    let less_buffer = |periods: &[Period]| (total_ms(periods) - buffer_ms).max(0);
    Downtime {
        outages: kept_proven.iter().map(|period| outage(*period, &proven, timeline)).collect(),
        proven_ms: less_buffer(&kept_proven),
        possible_ms: less_buffer(&kept_possible),
        claimed_ms: total_ms(&counted_proven) - total_ms(&kept_proven),
    }
}

/// Where the contract counts from the tenant's notice: each outage from the first notice in it on,
/// and not at all without one.
fn noticed(outages: &[Period], rule: &DowntimeRule, filings: Filings<'_>) -> Vec<Period> {
    if !rule.from_notice {
        return outages.to_vec();
    }
    let from = |outage: &Period| {
        let inside = filings.notices.iter().filter(|at| outage.contains(**at));
        inside.min().map(|at| Period::new(*at, outage.end))
    };
    outages.iter().filter_map(from).collect()
}

/// What of whole, separate outages counts in a window, as separate periods in order.
fn counted_in(outages: &[Period], rule: &DowntimeRule, window: Period) -> Vec<Period> {
    let min_ms = rule.min_consecutive_s.saturating_mul(1_000);
    let long = outages.iter().filter(|outage| outage.ms() >= min_ms);
    let inside = long.map(|outage| outage.intersect(window));
    let sliced = inside.map(|outage| in_slices(outage, rule).intersect(window));
    union(sliced)
}

fn in_slices(outage: Period, rule: &DowntimeRule) -> Period {
    let slice_ms = rule.slice_s.saturating_mul(1_000).max(1);
    let floor = |at: Timestamp| Timestamp(at.0.div_euclid(slice_ms) * slice_ms);
    let ceil = |at: Timestamp| floor(at.plus_ms(slice_ms - 1));
    match rule.partial_slice {
        _ if outage.is_empty() => outage,
        PartialSlice::Exact => outage,
        PartialSlice::Drop => Period::new(ceil(outage.start), floor(outage.end)),
        PartialSlice::Ceil => Period::new(floor(outage.start), ceil(outage.end)),
        PartialSlice::Floor => {
            let whole_ms = outage.ms() / slice_ms * slice_ms;
            Period::new(outage.start, outage.start.plus_ms(whole_ms))
        }
    }
}

fn outage(period: Period, proven: &[Period], timeline: &[UnitStretch]) -> Outage {
    let meets = |other: Period| !other.intersect(period).is_empty();
    let actual = proven.iter().copied().filter(|outage| meets(*outage));
    let actual = actual.reduce(|a, b| Period::new(a.start, b.end)).unwrap_or(period);
    let mut grounds: Vec<Ground> = timeline
        .iter()
        .filter(|stretch| !stretch.period.intersect(actual).is_empty())
        .flat_map(|stretch| stretch.grounds.iter().copied())
        .collect();
    grounds.sort_unstable();
    grounds.dedup();
    Outage { period, actual, grounds }
}

fn total_ms(periods: &[Period]) -> i64 {
    periods.iter().map(|period| period.ms()).sum()
}
