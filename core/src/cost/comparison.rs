//! Providers side by side, on equal terms: sums of milliseconds, never averages of ratios, and
//! nothing said of what is not known.
//!
//! Figures of two origins are never added; whoever gathers them keeps one set for each. Not here:
//! prices, which have currencies, and which figure makes a provider good.

use crate::metering::{Grade, Ppm};

use super::Measures;
use super::interruption::{Interruption, InterruptionRate, Unranked, ranked, rate};
use super::parts::Part;

/// What is known of a provider's nodes over some time, from one origin.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProviderFigures {
    /// GPU-milliseconds since its nodes joined.
    pub enrolled_ms: i64,
    /// Of them, measured.
    pub measured_ms: i64,
    /// GPU-milliseconds that are paid for and were judged.
    pub contracted_ms: i64,
    /// Of them, shown to have worked.
    pub up_ms: i64,
    /// Proven down.
    pub down_ms: i64,
    /// Neither.
    pub unknown_ms: i64,
    /// Taken out of the account.
    pub excluded_ms: i64,
    /// Node-milliseconds in which a node was shown to work: of each hour, its longest GPU.
    pub node_up_ms: i64,
    /// Interruptions that the provider answers for.
    pub interruptions: Vec<Interruption>,
    /// Measured on the GPU in the contract, in percent x milliseconds.
    pub delivered_pct_ms: i64,
    /// Busy time that was lost to the provider's throttling, in percent x milliseconds.
    pub degraded_pct_ms: i64,
    /// At least this long a reason for throttling held that the provider answers for.
    pub throttled_ms: i64,
    /// Useful time at the promised clock, in percent x milliseconds.
    pub effective_pct_ms: i64,
}

impl ProviderFigures {
    /// Adds everything of `other`, which is of the same origin.
    pub fn merge(&mut self, other: &Self) {
        for (sum, more) in [
            (&mut self.enrolled_ms, other.enrolled_ms),
            (&mut self.measured_ms, other.measured_ms),
            (&mut self.contracted_ms, other.contracted_ms),
            (&mut self.up_ms, other.up_ms),
            (&mut self.down_ms, other.down_ms),
            (&mut self.unknown_ms, other.unknown_ms),
            (&mut self.excluded_ms, other.excluded_ms),
            (&mut self.node_up_ms, other.node_up_ms),
            (&mut self.delivered_pct_ms, other.delivered_pct_ms),
            (&mut self.degraded_pct_ms, other.degraded_pct_ms),
            (&mut self.throttled_ms, other.throttled_ms),
            (&mut self.effective_pct_ms, other.effective_pct_ms),
        ] {
            *sum += more;
        }
        self.interruptions.extend_from_slice(&other.interruptions);
    }

    /// Adds what was measured of a lease's slots.
    pub fn add_measures(&mut self, measures: &Measures) {
        self.delivered_pct_ms += measures.delivered_pct_ms;
        self.degraded_pct_ms += measures.parts.of(Part::Degraded);
        self.throttled_ms += measures.attributable_ms;
        self.effective_pct_ms += measures.useful_pct_ms();
    }

    /// Measured share of enrolled time; `None` of nothing.
    #[must_use]
    pub fn coverage(&self) -> Option<Ppm> {
        Ppm::of(self.measured_ms.into(), self.enrolled_ms.into())
    }

    /// The same as a grade.
    #[must_use]
    pub fn grade(&self) -> Option<Grade> {
        Grade::of(self.measured_ms, self.enrolled_ms)
    }

    /// Bounds of availability: as if all unknown time had been down, and as if it had been up.
    /// `None` where nothing counts.
    #[must_use]
    pub fn availability(&self) -> Option<(Ppm, Ppm)> {
        let counted_ms = self.contracted_ms - self.excluded_ms;
        let low = Ppm::of(self.up_ms.into(), counted_ms.into())?;
        let high = Ppm::of((counted_ms - self.down_ms).into(), counted_ms.into())?;
        Some((low, high))
    }

    /// How often it interrupts; `None` while no node was shown to work.
    #[must_use]
    pub fn interruption_rate(&self) -> Option<InterruptionRate> {
        rate(&self.interruptions, self.node_up_ms)
    }

    /// Share of delivered time in which the provider throttled; `None` of nothing.
    #[must_use]
    pub fn throttled(&self) -> Option<Ppm> {
        Ppm::of(i128::from(self.throttled_ms) * 100, self.delivered_pct_ms.into())
    }

    /// Share of delivered time that throttling cost; `None` of nothing.
    #[must_use]
    pub fn degraded(&self) -> Option<Ppm> {
        Ppm::of(self.degraded_pct_ms.into(), self.delivered_pct_ms.into())
    }

    /// Whether there is enough to be ranked by.
    ///
    /// # Errors
    /// [`Unranked`] says what is missing.
    pub fn ranked(&self) -> Result<(), Unranked> {
        ranked(self.node_up_ms, self.grade())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::NodeId;
    use crate::time::{HOUR_MS, Period, Timestamp};

    #[test]
    fn what_has_no_data_is_neither_good_nor_bad() {
        let none = ProviderFigures::default();
        assert_eq!((none.coverage(), none.availability()), (None, None));
        assert_eq!((none.throttled(), none.degraded()), (None, None));
        assert_eq!(none.interruption_rate(), None);
        let missing = none.ranked().unwrap_err();
        assert_eq!((missing.missing_node_ms, missing.is_thin), (500 * HOUR_MS, true));
        // Everything was excluded: there is nothing to be available in.
        let excluded = ProviderFigures { contracted_ms: 5, excluded_ms: 5, ..none };
        assert_eq!(excluded.availability(), None);
    }

    #[test]
    fn silence_widens_the_bounds_and_does_not_move_them() {
        let figures = ProviderFigures {
            contracted_ms: 1_100,
            excluded_ms: 100,
            up_ms: 700,
            down_ms: 100,
            unknown_ms: 200,
            ..ProviderFigures::default()
        };
        assert_eq!(figures.availability(), Some((Ppm(700_000), Ppm(900_000))));
    }

    fn figures() -> impl Strategy<Value = ProviderFigures> {
        let ms = 0_i64..1_000_000_000;
        (proptest::array::uniform7(ms.clone()), ms, 0_u8..4).prop_map(|(parts, node_ms, count)| {
            let [measured, gap, up, down, unknown, excluded, effective] = parts;
            let interruption = |n: u8| Interruption {
                node: NodeId([n; 16]),
                period: Period::new(Timestamp(0), Timestamp(i64::from(n) + 1)),
            };
            ProviderFigures {
                enrolled_ms: measured + gap,
                measured_ms: measured,
                contracted_ms: up + down + unknown + excluded,
                up_ms: up,
                down_ms: down,
                unknown_ms: unknown,
                excluded_ms: excluded,
                node_up_ms: node_ms,
                interruptions: (0..count).map(interruption).collect(),
                delivered_pct_ms: measured * 100,
                degraded_pct_ms: measured,
                throttled_ms: measured / 3,
                effective_pct_ms: effective,
            }
        })
    }

    proptest! {
        /// Bounds are in order and within 0 and 1; a sum lies between its parts.
        #[test]
        fn bounds_are_bounds_and_sums_lie_between(a in figures(), b in figures()) {
            let mut sum = a.clone();
            sum.merge(&b);
            let mut other = b.clone();
            other.merge(&a);
            prop_assert_eq!(sum.availability(), other.availability());
            for one in [&a, &b, &sum] {
                if let Some((low, high)) = one.availability() {
                    prop_assert!(Ppm(0) <= low && low <= high && high <= Ppm::ONE);
                }
                prop_assert!(one.coverage().is_none_or(|part| part <= Ppm::ONE));
            }
            let between = |of: fn(&ProviderFigures) -> Option<Ppm>| {
                let all = (of(&a), of(&b), of(&sum));
                let (Some(one), Some(two), Some(both)) = all else { return true };
                (one.min(two)..=one.max(two)).contains(&both)
            };
            prop_assert!(between(ProviderFigures::coverage));
            prop_assert!(between(|one| one.availability().map(|(low, _)| low)));
            prop_assert!(between(|one| one.availability().map(|(_, high)| high)));
            prop_assert!(between(ProviderFigures::degraded));
            prop_assert_eq!(sum.interruptions.len(), a.interruptions.len() + b.interruptions.len());
        }
    }
}
