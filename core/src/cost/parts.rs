//! What contracted time was used for: a partition, so that money can follow it.
//!
//! The unit is percent x milliseconds, as the hour record has busy time: a tenth of a second at
//! 30 % is 3,000 of it. So nothing is rounded before the end.

use crate::money::Money;

macro_rules! parts {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $grain:ident, $expression:literal;)+) => {
        /// A part of contracted time. Every moment is in exactly one.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Part {
            $($(#[$doc])* $variant,)+
        }

        impl Part {
            /// Every part, in the order in which they are shown.
            pub const ALL: [Self; Part::COUNT] = [$(Self::$variant,)+];

            /// Its name in exports.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// How it is computed.
            #[must_use]
            pub fn formula(self) -> Formula {
                match self {
                    $(Self::$variant => Formula { expression: $expression, grain: Grain::$grain },)+
                }
            }
        }
    };
}

parts! {
    /// Busy, at the clock that was promised or at one that the provider did not hold down.
    Effective = "effective", Minute, "Σ w·u/100·c, c = min(1, f_sm/f_ref) while provider-throttled, else 1";
    /// Busy time lost to throttling by the provider, and all time of a GPU that was sick or was
    /// not the one in the contract.
    Degraded = "degraded", Minute, "Σ w·u/100·(1 − c) + t(unhealthy) + t(wrong GPU)";
    /// A job ran, and the GPU waited for it: for data, for other ranks, for the host.
    Waiting = "waiting", Millisecond, "Σ w·(100 − u)/100 for 0 < u < 100";
    /// Nothing ran and no memory was held; and time that only looks busy.
    IdleFree = "idle_free", Minute, "Σ w for u = 0, memory < 100 MiB; + phantom";
    /// Nothing ran, and memory was held.
    IdleHeld = "idle_held", Minute, "Σ w for u = 0, memory ≥ 100 MiB";
    /// Nothing ran; whether memory was held was not read.
    IdleUnsplit = "idle_unsplit", Millisecond, "Σ w for u = 0, memory not read";
    /// Proven down.
    Unavailable = "unavailable", Millisecond, "Σ t(down)";
    /// Neither measured nor proven down.
    Unknown = "unknown", Millisecond, "t(contracted) − t(excluded) − t(down) − Σ w";
    /// Announced maintenance, the tenant's own stops, and what else the contract leaves out.
    Excluded = "excluded", Millisecond, "Σ t(excluded)";
}

/// How a number comes about, in symbols that need no translation: `w` is the time of a reading,
/// `u` its utilization in percent, `t` time in a state, `f` a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Formula {
    /// The expression.
    pub expression: &'static str,
    /// The finest time at which its inputs are known.
    pub grain: Grain,
}

/// The finest time at which something is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grain {
    /// Exact.
    Millisecond,
    /// Decided minute by minute.
    Minute,
}

/// Contracted time by part, in percent x milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parts([i64; Part::COUNT]);

impl Part {
    /// How many parts there are.
    pub const COUNT: usize = 9;

    /// Whether it is one of the three idle parts.
    #[must_use]
    pub fn is_idle(self) -> bool {
        matches!(self, Self::IdleFree | Self::IdleHeld | Self::IdleUnsplit)
    }

    /// Whether the time was measured.
    #[must_use]
    pub fn is_measured(self) -> bool {
        !matches!(self, Self::Unavailable | Self::Unknown | Self::Excluded)
    }
}

impl Parts {
    /// Percent x milliseconds of a part.
    #[must_use]
    pub fn of(&self, part: Part) -> i64 {
        self.0[part as usize]
    }

    /// Adds to a part.
    pub fn add(&mut self, part: Part, pct_ms: i64) {
        self.0[part as usize] += pct_ms;
    }

    /// Adds everything of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (part, pct_ms) in other.iter() {
            self.add(part, pct_ms);
        }
    }

    /// Every part.
    pub fn iter(&self) -> impl Iterator<Item = (Part, i64)> + '_ {
        Part::ALL.into_iter().map(|part| (part, self.of(part)))
    }

    /// All parts together: contracted time.
    #[must_use]
    pub fn total(&self) -> i64 {
        self.0.iter().sum()
    }

    /// The three idle parts together.
    #[must_use]
    pub fn idle(&self) -> i64 {
        self.iter().filter(|(part, _)| part.is_idle()).map(|(_, pct_ms)| pct_ms).sum()
    }

    /// The measured parts together.
    #[must_use]
    pub fn measured(&self) -> i64 {
        self.iter().filter(|(part, _)| part.is_measured()).map(|(_, pct_ms)| pct_ms).sum()
    }

    /// Proportionally less, so that all together are `total`, exactly; more is left as it is.
    #[must_use]
    pub(super) fn scaled_to(&self, total: i64) -> Self {
        let whole = self.total();
        if total >= whole {
            return *self;
        }
        let mut scaled = Self::default();
        let ends = self.cumulated().map(|sum| floor_share(total, sum, whole));
        for (part, (end, start)) in Part::ALL.into_iter().zip(steps(ends)) {
            scaled.add(part, end - start);
        }
        scaled
    }

    /// What each part of a payment went for. They add up to `paid` exactly; `None` when there is no
    /// contracted time to spread it over.
    #[must_use]
    pub fn costs(&self, paid: Money) -> Option<[(Part, Money); Part::COUNT]> {
        let whole = i128::from(self.total());
        if whole <= 0 {
            return None;
        }
        let mut before = 0_i128;
        let mut sums = self.cumulated();
        Some(Part::ALL.map(|part| {
            let sum = i128::from(sums.next().unwrap_or(0));
            let end = crate::metering::divide_half_even(paid.nanos.saturating_mul(sum), whole);
            let cost = Money { nanos: end - before, currency: paid.currency };
            before = end;
            (part, cost)
        }))
    }

    fn cumulated(&self) -> impl Iterator<Item = i64> + '_ {
        self.0.iter().scan(0, |sum, pct_ms| {
            *sum += pct_ms;
            Some(*sum)
        })
    }
}

/// `total * part / whole`, rounded down; as `part` grows to `whole`, it grows to `total` in steps
/// that are never larger than those of `part`.
pub(super) fn floor_share(total: i64, part: i64, whole: i64) -> i64 {
    let share = i128::from(total) * i128::from(part) / i128::from(whole.max(1));
    i64::try_from(share).unwrap_or(0)
}

/// Each value with the one before it, from 0 on.
pub(super) fn steps(ends: impl Iterator<Item = i64>) -> impl Iterator<Item = (i64, i64)> {
    ends.scan(0, |start, end| Some((end, std::mem::replace(start, end))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(values: [i64; Part::COUNT]) -> Parts {
        Parts(values)
    }

    #[test]
    fn nothing_to_spread_over_is_not_zero_cost() {
        assert_eq!(Parts::default().costs("1.00 USD".parse().unwrap()), None);
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::HashSet<_> = Part::ALL.iter().map(|p| p.name()).collect();
        assert_eq!(names.len(), Part::COUNT);
    }

    proptest! {
        #[test]
        fn costs_add_up_to_what_was_paid(
            values in prop::array::uniform9(0_i64..400_000_000_000),
            nanos in -1_000_000_000_000_000_i128..1_000_000_000_000_000,
        ) {
            let paid = Money { nanos, currency: "CNY".parse().unwrap() };
            if let Some(costs) = parts(values).costs(paid) {
                prop_assert_eq!(costs.iter().map(|(_, cost)| cost.nanos).sum::<i128>(), nanos);
                for (part, cost) in costs {
                    prop_assert!(parts(values).of(part) > 0 || cost.nanos == 0);
                }
            }
        }

        #[test]
        fn scaling_is_exact_and_takes_from_what_is_there(
            values in prop::array::uniform9(0_i64..400_000_000),
            total in 0_i64..4_000_000_000,
        ) {
            let all = parts(values);
            let scaled = all.scaled_to(total);
            prop_assert_eq!(scaled.total(), total.min(all.total()));
            for (part, pct_ms) in scaled.iter() {
                prop_assert!((0..=all.of(part)).contains(&pct_ms));
            }
        }
    }
}
