//! Law S: sums of states, and that they add up.

use std::collections::BTreeMap;

use super::{EvidenceClass, ExclusionKind, State, StateStretch, UnknownCause};

/// Milliseconds of unknown time by cause.
pub type UnknownSums = BTreeMap<UnknownCause, i64>;

/// Milliseconds of contracted time by state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StateSums {
    /// All contracted time.
    pub contracted_ms: i64,
    /// Shown to have worked.
    pub up_ms: i64,
    /// Shown not to have worked, by class of evidence.
    pub down_ms: BTreeMap<EvidenceClass, i64>,
    /// Not known, by cause.
    pub unknown_ms: UnknownSums,
    /// Taken out of the account, by cause.
    pub excluded_ms: BTreeMap<ExclusionKind, i64>,
    /// Claimed by a notice that came too late; counted in its state as well, so no part of law S.
    pub disputed_ms: i64,
}

impl StateSums {
    /// Adds up stretches of one or several slots.
    #[must_use]
    pub fn of<'a>(stretches: impl IntoIterator<Item = &'a StateStretch>) -> Self {
        let mut sums = Self::default();
        for stretch in stretches {
            sums.add(stretch);
        }
        sums
    }

    /// Adds one stretch.
    pub fn add(&mut self, stretch: &StateStretch) {
        let ms = stretch.period.ms();
        self.contracted_ms += ms;
        match stretch.state {
            State::Up => self.up_ms += ms,
            State::Down(ground) => *self.down_ms.entry(ground.class).or_default() += ms,
            State::Unknown(cause) => *self.unknown_ms.entry(cause).or_default() += ms,
            State::Excluded(kind) => *self.excluded_ms.entry(kind).or_default() += ms,
        }
        if stretch.disputed {
            self.disputed_ms += ms;
        }
    }

    /// Adds everything of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.contracted_ms += other.contracted_ms;
        self.up_ms += other.up_ms;
        self.disputed_ms += other.disputed_ms;
        merge(&mut self.down_ms, &other.down_ms);
        merge(&mut self.unknown_ms, &other.unknown_ms);
        merge(&mut self.excluded_ms, &other.excluded_ms);
    }

    /// Down by all classes.
    #[must_use]
    pub fn down_total_ms(&self) -> i64 {
        self.down_ms.values().sum()
    }

    /// Unknown by all causes.
    #[must_use]
    pub fn unknown_total_ms(&self) -> i64 {
        self.unknown_ms.values().sum()
    }

    /// Excluded by all causes.
    #[must_use]
    pub fn excluded_total_ms(&self) -> i64 {
        self.excluded_ms.values().sum()
    }

    /// Law S.
    #[must_use]
    pub fn is_conserved(&self) -> bool {
        let parts =
            self.up_ms + self.down_total_ms() + self.unknown_total_ms() + self.excluded_total_ms();
        let all = [&self.up_ms, &self.contracted_ms];
        let negative = all.into_iter().chain(self.down_ms.values()).any(|ms| *ms < 0);
        self.contracted_ms == parts && !negative
    }
}

fn merge<K: Copy + Ord>(into: &mut BTreeMap<K, i64>, from: &BTreeMap<K, i64>) {
    for (key, ms) in from {
        *into.entry(*key).or_default() += ms;
    }
}
