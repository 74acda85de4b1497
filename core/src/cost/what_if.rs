//! What would be if: another utilization, a smaller instance; and prices per useful hour.

use crate::metering::Ppm;
use crate::money::{Money, MoneyError};
use crate::time::HOUR_MS;

use super::measures::Measures;

/// The same work at another utilization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WhatIf {
    /// GPU-milliseconds that would do.
    pub needed_ms: i64,
    /// What would not be paid; negative where more would be needed than there is.
    pub saved: Money,
}

/// Half or six tenths of a GPU's memory, the steps at which a smaller one is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryNeed {
    /// At most 50 % was ever used.
    Half,
    /// At most 60 % was ever used.
    SixTenths,
}

impl MemoryNeed {
    /// The smallest need that a peak stays within.
    fn of(peak_mib: i64, total_mib: i64) -> Option<Self> {
        let within = |percent: i64| peak_mib * 100 <= total_mib * percent;
        match () {
            () if within(50) => Some(Self::Half),
            () if within(60) => Some(Self::SixTenths),
            () => None,
        }
    }

    /// 50 or 60.
    #[must_use]
    pub fn percent(self) -> i64 {
        match self {
            Self::Half => 50,
            Self::SixTenths => 60,
        }
    }
}

/// A hint that a smaller GPU would do: memory that is never filled, and load that comes and goes in
/// a rhythm, so that its lulls are no accident.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverRenting {
    /// The step that the peak stays within.
    pub need: MemoryNeed,
    /// The peak.
    pub memory_peak_mib: i64,
    /// The rhythm.
    pub period_minutes: usize,
}

/// Longest rhythm that is looked for, in minutes.
const PERIOD_MAX: usize = 180;
/// How alike a load must be to itself one rhythm later.
const ALIKE_PCT: i128 = 50;
/// How unlike it must have been in between; a load that never changes has no rhythm.
const UNLIKE_PCT: i128 = 20;

/// What the same effective work would have needed at `utilization`. `None` when there is nothing
/// contracted or the utilization is none.
///
/// # Errors
/// [`MoneyError::Range`] if it does not fit.
pub fn what_if(
    measures: &Measures,
    paid: Money,
    utilization: Ppm,
) -> Result<Option<WhatIf>, MoneyError> {
    let work = i128::from(measures.useful_pct_ms());
    if utilization.0 < 1 || measures.contracted_ms < 1 {
        return Ok(None);
    }
    let needed = crate::metering::divide_half_even(work * 10_000, i128::from(utilization.0));
    let needed_ms = i64::try_from(needed).map_err(|_| MoneyError::Range)?;
    let saved = paid.times(measures.contracted_ms - needed_ms, measures.contracted_ms)?;
    Ok(Some(WhatIf { needed_ms, saved }))
}

/// What an hour of `pct_ms` cost; `None` when there was none of it.
///
/// # Errors
/// [`MoneyError::Range`] if it does not fit.
pub fn per_hour(paid: Money, pct_ms: i64) -> Result<Option<Money>, MoneyError> {
    (pct_ms > 0).then(|| paid.times(HOUR_MS * 100, pct_ms)).transpose()
}

/// Whether a smaller GPU would do. `busy_pct` is the load minute by minute without holes, at least
/// three rhythms long.
#[must_use]
pub fn over_renting(
    busy_pct: &[i64],
    memory_peak_mib: i64,
    memory_total_mib: i64,
) -> Option<OverRenting> {
    let need = MemoryNeed::of(memory_peak_mib, memory_total_mib)?;
    let period_minutes = rhythm(busy_pct)?;
    Some(OverRenting { need, memory_peak_mib, period_minutes })
}

/// The shortest shift after which the load is like itself again, having been unlike itself.
fn rhythm(load: &[i64]) -> Option<usize> {
    let n = i128::try_from(load.len()).ok()?;
    let sum: i128 = load.iter().map(|value| i128::from(*value)).sum();
    let around: Vec<i128> = load.iter().map(|value| i128::from(*value) * n - sum).collect();
    let likeness = |shift: usize| {
        let pairs = around.iter().zip(around.get(shift..)?);
        let (mut product, mut left, mut right) = (0_i128, 0_i128, 0_i128);
        for (a, b) in pairs {
            product += a * b;
            left += a * a;
            right += b * b;
        }
        // Of the larger of both, which is at least their geometric mean: never too alike.
        Some(product * 100 / left.max(right).max(1))
    };
    let longest = PERIOD_MAX.min(load.len() / 3);
    let mut was_unlike = false;
    (1..=longest).find(|shift| {
        let now = likeness(*shift).unwrap_or(0);
        was_unlike |= now < UNLIKE_PCT;
        let next = likeness(shift + 1).unwrap_or(0);
        was_unlike && now >= ALIKE_PCT && now >= next
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(minutes: usize, period: usize, on: usize) -> Vec<i64> {
        (0..minutes).map(|minute| if minute % period < on { 90 } else { 3 }).collect()
    }

    #[test]
    fn a_rhythm_is_found_and_a_steady_load_has_none() {
        assert_eq!(rhythm(&wave(240, 20, 6)), Some(20));
        assert_eq!(rhythm(&wave(240, 7, 3)), Some(7));
        assert_eq!(rhythm(&vec![80; 240]), None);
        assert_eq!(rhythm(&[]), None);
        assert_eq!(rhythm(&wave(50, 20, 6)), None, "less than three rhythms say nothing");
        let once: Vec<i64> = (0..240).map(|minute| if minute < 120 { 0 } else { 90 }).collect();
        assert_eq!(rhythm(&once), None);
    }

    #[test]
    fn hints_need_both_free_memory_and_a_rhythm() {
        let load = wave(240, 30, 10);
        let need = |peak| over_renting(&load, peak, 80_000).map(|hint| hint.need.percent());
        assert_eq!(need(40_000), Some(50));
        assert_eq!(need(40_001), Some(60));
        assert_eq!(need(48_000), Some(60));
        assert_eq!(need(48_001), None);
        assert_eq!(over_renting(&vec![90; 240], 10_000, 80_000), None);
    }

    #[test]
    fn what_if_is_about_the_same_work() {
        let mut measures = Measures { contracted_ms: 100 * HOUR_MS, ..Measures::default() };
        measures.parts.add(crate::cost::Part::Effective, 30 * HOUR_MS * 100);
        measures.parts.add(crate::cost::Part::IdleFree, 70 * HOUR_MS * 100);
        let paid: Money = "200.00 USD".parse().unwrap();
        let at = |ppm| what_if(&measures, paid, Ppm(ppm)).unwrap().unwrap();
        assert_eq!(at(600_000).needed_ms, 50 * HOUR_MS);
        assert_eq!(at(600_000).saved.to_string(), "100.00 USD");
        assert_eq!(at(300_000).saved.to_string(), "0.00 USD");
        assert_eq!(at(200_000).saved.to_string(), "-100.00 USD");
        assert_eq!(what_if(&measures, paid, Ppm(0)), Ok(None));
        let effective = measures.useful_pct_ms();
        assert_eq!(per_hour(paid, effective).unwrap().unwrap().to_string(), "6.666666667 USD");
        assert_eq!(per_hour(paid, 0), Ok(None));
    }
}
