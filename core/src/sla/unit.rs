//! The unit of loss: what is down or up as one, from its members in the same instant.
//!
//! A GPU is its own unit; a node, a cluster, an account or a region combines slots: all must work,
//! any, or k of n ("64 of 72"). Members are counted per stretch and kept, so that a page can say
//! how many were up.

use std::collections::BTreeMap;

use crate::availability::{Ground, UnknownCause};
use crate::time::{Period, Timestamp};

use super::dialect::{Counted, CountedStretch};
use super::profile::Needs;

/// A stretch of a unit's contracted time. Stretches of one unit never overlap and lie in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitStretch {
    /// When.
    pub period: Period,
    /// How the unit is counted.
    pub counted: Counted,
    /// How its members were.
    pub members: Members,
    /// The grounds of members that are down, in order and each once.
    pub grounds: Vec<Ground>,
}

/// How many contracted members were in which state at an instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Members {
    /// As promised.
    pub up: u32,
    /// Down.
    pub down: u32,
    /// Neither is shown.
    pub unknown: u32,
    /// Not in the account.
    pub excluded: u32,
}

impl Members {
    /// All that were contracted.
    #[must_use]
    pub fn contracted(self) -> u32 {
        self.up + self.down + self.unknown + self.excluded
    }

    /// How the unit is, when its unknown members are so for `cause`. A member that is not in the
    /// account is not held against the provider; when none is in it, the unit is not either.
    fn counted(self, needs: Needs, cause: UnknownCause) -> Counted {
        let contracted = self.contracted();
        let promised = match needs {
            Needs::All => contracted,
            Needs::Any => 1,
            Needs::AtLeast(count) => count.min(contracted),
        };
        let needed = promised.saturating_sub(self.excluded).max(1);
        if self.excluded == contracted {
            Counted::Excluded
        } else if self.up >= needed {
            Counted::Up
        } else if self.up + self.unknown < needed {
            Counted::Down
        } else {
            Counted::Unknown(cause)
        }
    }
}

/// The timeline of a unit from those of its members. An instant at which nothing is contracted is
/// in no stretch.
#[must_use]
pub fn combine(members: &[Vec<CountedStretch>], needs: Needs) -> Vec<UnitStretch> {
    let mut changes: Vec<(Timestamp, bool, &CountedStretch)> = members
        .iter()
        .flatten()
        .filter(|stretch| !stretch.period.is_empty())
        .flat_map(|stretch| {
            [(stretch.period.end, false, stretch), (stretch.period.start, true, stretch)]
        })
        .collect();
    changes.sort_unstable_by_key(|(at, begins, _)| (*at, *begins));
    let mut now = Instant::default();
    let mut out: Vec<UnitStretch> = Vec::new();
    let mut since = None;
    for (at, begins, stretch) in changes {
        if let Some(since) = since
            && since < at
            && let Some(next) = now.stretch(Period::new(since, at), needs)
        {
            push(&mut out, next);
        }
        now.change(stretch, begins);
        since = Some(at);
    }
    out
}

fn push(out: &mut Vec<UnitStretch>, next: UnitStretch) {
    match out.last_mut() {
        Some(last)
            if last.period.end == next.period.start
                && last.counted == next.counted
                && last.members == next.members
                && last.grounds == next.grounds =>
        {
            last.period.end = next.period.end;
        }
        _ => out.push(next),
    }
}

/// What holds at an instant: how many members of each kind, and by which grounds.
#[derive(Default)]
struct Instant {
    members: Members,
    causes: BTreeMap<UnknownCause, u32>,
    grounds: BTreeMap<Ground, u32>,
}

impl Instant {
    fn change(&mut self, stretch: &CountedStretch, begins: bool) {
        match stretch.counted {
            Counted::Up => step(&mut self.members.up, begins),
            Counted::Down => step(&mut self.members.down, begins),
            Counted::Excluded => step(&mut self.members.excluded, begins),
            Counted::Unknown(cause) => {
                step(&mut self.members.unknown, begins);
                step(self.causes.entry(cause).or_default(), begins);
            }
        }
        for ground in &stretch.grounds {
            step(self.grounds.entry(*ground).or_default(), begins);
        }
    }

    fn stretch(&self, period: Period, needs: Needs) -> Option<UnitStretch> {
        let cause = self.causes.iter().find(|(_, count)| **count > 0).map(|(cause, _)| *cause);
        let counted = self.members.counted(needs, cause.unwrap_or(UnknownCause::NotEnrolled));
        let grounds = self.grounds.iter().filter(|(_, count)| **count > 0);
        (self.members.contracted() > 0).then(|| UnitStretch {
            period,
            counted,
            members: self.members,
            grounds: grounds.map(|(ground, _)| *ground).collect(),
        })
    }
}

fn step(count: &mut u32, begins: bool) {
    *count = if begins { *count + 1 } else { count.saturating_sub(1) };
}
