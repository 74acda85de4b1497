//! GPU-hour measures of one slot, hour by hour; sums of them are what pages show.
//!
//! What time was down or excluded comes from `availability`, as sums of the hour. Where time was
//! measured although it counts as down (a node that computed while it was cut off), the measured
//! parts give way in proportion: the sum stays exact, the split of such an hour is an estimate of
//! its place and nothing else.

use crate::metering::{CounterDelta, HourProfile, HourRecord};
use crate::sample::Metric;
use crate::time::{Hour, Period};

use super::minutes::{Cell, Use, cells};
use super::parts::{Part, Parts, floor_share};
use super::stretch::{ms_within, total_ms, union};

/// Counters of throttled time. Reasons overlap: each is shown, they are never added to each other.
const THROTTLES: [Metric; 5] = [
    Metric::ThrottleSwPower,
    Metric::ThrottleSwThermal,
    Metric::ThrottleHwThermal,
    Metric::ThrottleHwPowerBrake,
    Metric::ThrottleSyncBoost,
];

/// What the contract promises of a GPU, as far as measures depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reference {
    /// The SM clock that a slowed GPU is compared with; `None`: nobody said, and nothing is
    /// adjusted.
    pub sm_clock_mhz: Option<i64>,
    /// The power limit in the contract; an enforced one below it is the provider's doing.
    pub power_limit_mw: Option<i64>,
}

/// Time of one slot and hour by state, as `availability` judged it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StateTime {
    /// Proven down.
    pub down_ms: i64,
    /// Not counted.
    pub excluded_ms: i64,
}

impl StateTime {
    /// What of contracted stretches lies in those that were down, and in those that are excluded.
    /// What is both is excluded.
    #[must_use]
    pub fn within(contracted: &[Period], down: &[Period], excluded: &[Period]) -> Self {
        let contracted = union(contracted.iter().copied());
        let inside = |stretches: &[Period]| -> i64 {
            let stretches = union(stretches.iter().copied());
            stretches.iter().map(|stretch| ms_within(&contracted, *stretch)).sum()
        };
        let both: Vec<Period> = down.iter().chain(excluded).copied().collect();
        let excluded_ms = inside(excluded);
        Self { down_ms: inside(&both) - excluded_ms, excluded_ms }
    }
}

/// What was measured of one GPU in the hour.
#[derive(Debug, Clone, Copy)]
pub struct MeasuredGpu<'a> {
    /// The record.
    pub record: &'a HourRecord,
    /// Its minutes; `None` where none were kept.
    pub profile: Option<&'a HourProfile>,
    /// It is of the model and memory in the contract, or the contract does not say.
    pub is_as_contracted: bool,
    /// Measured time under a fatal condition.
    pub unhealthy_ms: i64,
}

/// One slot in one hour.
#[derive(Debug, Clone, Copy)]
pub struct SlotTime<'a> {
    /// The hour.
    pub hour: Hour,
    /// Contracted stretches; what of them is outside the hour does not count.
    pub contracted: &'a [Period],
    /// Each GPU that sat in the slot.
    pub gpus: &'a [MeasuredGpu<'a>],
    /// Down and excluded time within contracted time.
    pub states: StateTime,
    /// What the contract promises.
    pub reference: Reference,
}

/// Measures of any set of slots and hours.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Measures {
    /// Contracted time in milliseconds.
    pub contracted_ms: i64,
    /// The same by what it was used for, in percent x milliseconds.
    pub parts: Parts,
    /// Visible, answering, and of the right model; in percent x milliseconds, as all below that are
    /// `pct_ms`. The least that can be said: unknown time is not among it.
    pub delivered_pct_ms: i64,
    /// Of delivered time, that without a fatal condition.
    pub healthy_pct_ms: i64,
    /// Booked as idle free although it was measured as busy.
    pub phantom_pct_ms: i64,
    /// Looks like a job that hangs: a hint, and no fault of the provider.
    pub stall_ms: i64,
    /// At least this long a reason held that the provider answers for.
    pub attributable_ms: i64,
    /// Effective time under such a reason whose clock or reference is not known.
    pub unadjusted_pct_ms: i64,
    /// Throttled time by reason, of hours that were contracted as a whole. A reason that was never
    /// read is absent.
    pub throttled: Vec<(Metric, CounterDelta)>,
}

/// Measures one slot in one hour.
#[must_use]
pub fn measure(slot: &SlotTime<'_>) -> Measures {
    let window = slot.hour.period();
    let contracted = union(slot.contracted.iter().map(|part| part.intersect(window)));
    let contracted_ms = total_ms(&contracted);
    let mut sum = Measures { contracted_ms, ..Measures::default() };
    if contracted_ms == 0 {
        return sum;
    }
    let excluded_ms = slot.states.excluded_ms.clamp(0, contracted_ms);
    let down_ms = slot.states.down_ms.clamp(0, contracted_ms - excluded_ms);
    let available = (contracted_ms - excluded_ms - down_ms) * 100;
    for gpu in slot.gpus {
        sum.add_gpu(gpu, &contracted, &slot.reference);
    }
    // Overlap with down time, or more than one GPU claiming the slot's time.
    let measured = sum.parts.total();
    if measured > available {
        sum.parts = sum.parts.scaled_to(available);
        for part in [&mut sum.delivered_pct_ms, &mut sum.healthy_pct_ms, &mut sum.phantom_pct_ms] {
            *part = floor_share(*part, available, measured);
        }
    }
    sum.parts.add(Part::Unknown, available - sum.parts.total());
    sum.parts.add(Part::Unavailable, down_ms * 100);
    sum.parts.add(Part::Excluded, excluded_ms * 100);
    sum
}

impl Measures {
    /// Adds everything of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.contracted_ms += other.contracted_ms;
        self.parts.merge(&other.parts);
        self.delivered_pct_ms += other.delivered_pct_ms;
        self.healthy_pct_ms += other.healthy_pct_ms;
        self.phantom_pct_ms += other.phantom_pct_ms;
        self.stall_ms += other.stall_ms;
        self.attributable_ms += other.attributable_ms;
        self.unadjusted_pct_ms += other.unadjusted_pct_ms;
        for (metric, delta) in &other.throttled {
            self.add_throttle(*metric, *delta);
        }
    }

    /// Effective time, in percent x milliseconds.
    #[must_use]
    pub fn useful_pct_ms(&self) -> i64 {
        self.parts.of(Part::Effective)
    }

    /// The most that can have been delivered: contracted time that was not proven down.
    #[must_use]
    pub fn delivered_most_pct_ms(&self) -> i64 {
        self.parts.total() - self.parts.of(Part::Unavailable)
    }

    /// The law: parts are a partition of contracted time.
    #[must_use]
    pub fn is_conserved(&self) -> bool {
        self.parts.total() == self.contracted_ms * 100
            && self.parts.iter().all(|(_, pct_ms)| pct_ms >= 0)
    }

    fn add_gpu(&mut self, gpu: &MeasuredGpu<'_>, contracted: &[Period], reference: &Reference) {
        let mut used = Use::default();
        for cell in cells(gpu.record, gpu.profile, reference) {
            used.add(&cut(&cell, contracted));
        }
        let measured = used.parts.total();
        let unhealthy = gpu.unhealthy_ms.saturating_mul(100).clamp(0, measured);
        let sick = if gpu.is_as_contracted { unhealthy } else { measured };
        let mut parts = used.parts.scaled_to(measured - sick);
        parts.add(Part::Degraded, sick);
        self.parts.merge(&parts);
        if gpu.is_as_contracted {
            self.delivered_pct_ms += measured;
            self.healthy_pct_ms += measured - unhealthy;
        }
        self.phantom_pct_ms += floor_share(used.phantom_pct_ms, measured - sick, measured);
        self.stall_ms += used.stall_ms;
        self.attributable_ms += used.attributable_ms;
        self.unadjusted_pct_ms += used.unadjusted_pct_ms;
        if ms_within(contracted, gpu.record.hour.period()) == gpu.record.hour.period().ms() {
            for (metric, delta) in &gpu.record.counters {
                self.add_throttle(*metric, *delta);
            }
        }
    }

    fn add_throttle(&mut self, metric: Metric, delta: CounterDelta) {
        if !THROTTLES.contains(&metric) {
            return;
        }
        match self.throttled.iter_mut().find(|(known, _)| *known == metric) {
            Some((_, sum)) => {
                sum.delta = sum.delta.saturating_add(delta.delta);
                sum.covered_ms += delta.covered_ms;
            }
            None => self.throttled.push((metric, delta)),
        }
    }
}

impl Use {
    fn add(&mut self, other: &Self) {
        self.parts.merge(&other.parts);
        self.phantom_pct_ms += other.phantom_pct_ms;
        self.stall_ms += other.stall_ms;
        self.attributable_ms += other.attributable_ms;
        self.unadjusted_pct_ms += other.unadjusted_pct_ms;
    }
}

/// The use of a cell as far as it is contracted; a cell that is partly so gives its share.
fn cut(cell: &Cell, contracted: &[Period]) -> Use {
    let (inside, whole) = (ms_within(contracted, cell.period), cell.period.ms());
    if inside == whole {
        return cell.used;
    }
    let share = |value| floor_share(value, inside, whole);
    let used = &cell.used;
    Use {
        parts: used.parts.scaled_to(share(used.parts.total())),
        phantom_pct_ms: share(used.phantom_pct_ms),
        stall_ms: share(used.stall_ms),
        attributable_ms: share(used.attributable_ms),
        unadjusted_pct_ms: share(used.unadjusted_pct_ms),
    }
}

#[cfg(test)]
mod tests;
