//! One GPU's measured hour in minutes, each by what its time was used for.
//!
//! Busy and idle time of the hour are exact. Which idle time held memory, which busy time was a
//! phantom and which was slowed down is decided minute by minute: an idle millisecond of a minute
//! that was only partly idle goes with that minute's memory.

use crate::metering::{HourProfile, HourRecord, ProfileCell, ReasonMinutes};
use crate::sample::Metric;
use crate::time::{HOUR_MS, Period};

use super::measures::Reference;
use super::parts::{Part, Parts, floor_share, steps};

/// Memory from which on a GPU is held. Below it lies what drivers and display servers keep.
pub const HELD_MEMORY_MIB: i64 = 100;

/// Busy share from which on a minute with little power looks wrong.
const FULLY_BUSY_PCT: i64 = 95;
/// Share of the power limit below which no kernel keeps a GPU busy.
const LITTLE_POWER_PCT: i64 = 35;

/// NVML's bits of clock event reasons that the provider answers for: hardware thermal slowdown and
/// the external power brake.
const PROVIDER_BITS: [u8; 2] = [6, 7];

/// Some measured time and what it was used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Use {
    /// By part; only measured ones.
    pub(super) parts: Parts,
    /// Of idle free: measured as busy, in percent x milliseconds.
    pub(super) phantom_pct_ms: i64,
    /// Milliseconds that look like a job that hangs.
    pub(super) stall_ms: i64,
    /// Milliseconds, at least, in which a reason held that the provider answers for.
    pub(super) attributable_ms: i64,
    /// Busy time under such a reason whose clock or reference is not known.
    pub(super) unadjusted_pct_ms: i64,
}

/// A stretch of the hour and the use of its measured time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) period: Period,
    pub(super) used: Use,
}

/// The hour in 60 minutes, or in one piece where there is no profile that fits the record.
pub(super) fn cells(
    record: &HourRecord,
    profile: Option<&HourProfile>,
    reference: &Reference,
) -> Vec<Cell> {
    match profile.filter(|profile| fits(record, profile)) {
        Some(profile) => minutes(record, profile, reference),
        None => vec![Cell { period: record.hour.period(), used: unsplit(record) }],
    }
}

/// A profile is used only where it adds up to its record.
fn fits(record: &HourRecord, profile: &HourProfile) -> bool {
    let sums = profile.utilization.iter().fold((0, 0), |sum, m| (sum.0 + m.0, sum.1 + m.1));
    let in_range = |(busy, ms): &(i64, i64)| (0..=HOUR_MS).contains(ms) && *busy <= ms * 100;
    sums == (record.histogram.busy_pct_ms(), record.measured_ms())
        && profile.utilization.iter().all(in_range)
}

fn unsplit(record: &HourRecord) -> Use {
    let (busy, idle) = (record.histogram.busy_pct_ms(), record.histogram.ms_at(0) * 100);
    let mut parts = Parts::default();
    parts.add(Part::Effective, busy);
    parts.add(Part::IdleUnsplit, idle);
    parts.add(Part::Waiting, record.measured_ms() * 100 - busy - idle);
    Use { parts, ..Use::default() }
}

fn minutes(record: &HourRecord, profile: &HourProfile, reference: &Reference) -> Vec<Cell> {
    let idle = idle_by_minute(record.histogram.ms_at(0) * 100, profile);
    let cell = |index: usize, (busy, ms): (i64, i64), idle: i64| {
        let minute = Minute::new(profile, index, busy, ms);
        Cell { period: HourProfile::minute(record.hour, index), used: minute.used(idle, reference) }
    };
    let both = profile.utilization.iter().zip(idle).enumerate();
    both.map(|(index, (minute, idle))| cell(index, *minute, idle)).collect()
}

/// The hour's idle time by minute. A minute without work takes it first, the rest goes to minutes
/// that had some idle time, by how much they were not busy.
fn idle_by_minute(idle_pct_ms: i64, profile: &HourProfile) -> Vec<i64> {
    let range = |index: usize| profile.sums.as_ref()?.busy_range.get(index).copied();
    let mut room = Vec::with_capacity(profile.utilization.len());
    let mut rest = idle_pct_ms;
    for (index, (busy, ms)) in profile.utilization.iter().enumerate() {
        let free = ms * 100 - busy;
        let is_without_work = *busy == 0;
        let had_idle = range(index).is_none_or(|(least, _)| least == 0);
        let whole = if is_without_work { free.min(rest) } else { 0 };
        rest -= whole;
        room.push((whole, if is_without_work || !had_idle { 0 } else { free }));
    }
    let total: i64 = room.iter().map(|(_, free)| free).sum();
    // Never more than there is room for: a profile of other bytes than the record's gives less.
    let spread = rest.min(total);
    let ends = room.iter().scan(0, |sum, (_, free)| {
        *sum += free;
        Some(floor_share(spread, *sum, total))
    });
    let shares: Vec<i64> = steps(ends).map(|(end, start)| end - start).collect();
    room.iter().zip(shares).map(|((whole, _), share)| whole + share).collect()
}

/// What is known of one minute.
struct Minute<'a> {
    busy_pct_ms: i64,
    ms: i64,
    memory: Option<ProfileCell>,
    power: Option<ProfileCell>,
    limit: Option<ProfileCell>,
    sm_clock: Option<ProfileCell>,
    reasons: Option<&'a ReasonMinutes>,
    index: usize,
}

impl<'a> Minute<'a> {
    fn new(profile: &'a HourProfile, index: usize, busy_pct_ms: i64, ms: i64) -> Self {
        let cell = |metric| {
            let (_, cells) = profile.metrics.iter().find(|(known, _)| *known == metric)?;
            cells.get(index).copied().flatten()
        };
        Self {
            busy_pct_ms,
            ms,
            memory: cell(Metric::MemoryUsed),
            power: cell(Metric::PowerDraw),
            limit: cell(Metric::PowerLimitEnforced),
            sm_clock: cell(Metric::SmClock),
            reasons: profile.sums.as_ref().and_then(|sums| sums.reasons.as_ref()),
            index,
        }
    }

    fn used(&self, idle_pct_ms: i64, reference: &Reference) -> Use {
        let mut used = Use { attributable_ms: self.attributable_ms(reference), ..Use::default() };
        if self.ms == 0 {
            return used;
        }
        let is_powerless = self.is_busy_without_power();
        let is_empty = self.memory.is_some_and(|memory| memory.max < HELD_MEMORY_MIB);
        if is_powerless && is_empty {
            used.phantom_pct_ms = self.busy_pct_ms;
            used.parts.add(Part::IdleFree, self.ms * 100);
            return used;
        }
        if is_powerless {
            used.stall_ms = self.ms;
        }
        let idle = match self.memory {
            None => Part::IdleUnsplit,
            Some(memory) if memory.mean >= HELD_MEMORY_MIB => Part::IdleHeld,
            Some(_) => Part::IdleFree,
        };
        used.parts.add(idle, idle_pct_ms);
        used.parts.add(Part::Waiting, self.ms * 100 - self.busy_pct_ms - idle_pct_ms);
        let slowed = floor_share(self.busy_pct_ms, used.attributable_ms, self.ms);
        let lost = self.lost(slowed, reference);
        used.unadjusted_pct_ms = if lost.is_none() { slowed } else { 0 };
        used.parts.add(Part::Degraded, lost.unwrap_or(0));
        used.parts.add(Part::Effective, self.busy_pct_ms - lost.unwrap_or(0));
        used
    }

    fn is_busy_without_power(&self) -> bool {
        let little = self.power.zip(self.limit);
        self.busy_pct_ms >= self.ms * FULLY_BUSY_PCT
            && little.is_some_and(|(power, limit)| {
                power.max.saturating_mul(100) < limit.mean.saturating_mul(LITTLE_POWER_PCT)
            })
    }

    /// Reasons overlap, so of several the longest counts: at least that long one of them held.
    fn attributable_ms(&self, reference: &Reference) -> i64 {
        let wanted = reference.power_limit_mw;
        let below = |limit: ProfileCell| wanted.is_some_and(|wanted| limit.max < wanted);
        if self.limit.is_some_and(below) {
            return self.ms;
        }
        let Some(reasons) = self.reasons else { return 0 };
        let bits = reasons.bits.iter().filter(|(bit, _)| PROVIDER_BITS.contains(bit));
        let longest = bits.filter_map(|(_, minutes)| minutes.get(self.index)).max();
        longest.copied().unwrap_or(0).clamp(0, self.ms)
    }

    /// What of busy time was lost to a clock below the reference; `None` when that is not known.
    fn lost(&self, slowed_pct_ms: i64, reference: &Reference) -> Option<i64> {
        if slowed_pct_ms == 0 {
            return Some(0);
        }
        let wanted = reference.sm_clock_mhz.filter(|mhz| *mhz > 0)?;
        let missing = (wanted - self.sm_clock?.mean).clamp(0, wanted);
        Some(floor_share(slowed_pct_ms, missing, wanted))
    }
}
