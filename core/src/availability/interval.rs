//! Down intervals: what an incident of kind *down* is about.

use crate::time::Period;

use super::{DownCause, EvidenceClass, State, StateStretch};

/// An unbroken stretch in which a slot was down for one cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DownInterval {
    /// When.
    pub period: Period,
    /// What was down.
    pub cause: DownCause,
    /// By which classes it is known, the strongest first.
    pub classes: Vec<EvidenceClass>,
    /// A notice claims some of it, and came too late to exclude it.
    pub disputed: bool,
}

/// The down intervals of a slot's states, in order. Touching stretches of one cause are one.
#[must_use]
pub fn down_intervals(states: &[StateStretch]) -> Vec<DownInterval> {
    let mut out: Vec<DownInterval> = Vec::new();
    for stretch in states {
        let State::Down(ground) = stretch.state else { continue };
        let same = |last: &&mut DownInterval| {
            last.period.end == stretch.period.start && last.cause == ground.cause
        };
        if let Some(last) = out.last_mut().filter(same) {
            last.period.end = stretch.period.end;
            last.disputed |= stretch.disputed;
            if let Err(at) = last.classes.binary_search(&ground.class) {
                last.classes.insert(at, ground.class);
            }
        } else {
            out.push(DownInterval {
                period: stretch.period,
                cause: ground.cause,
                classes: vec![ground.class],
                disputed: stretch.disputed,
            });
        }
    }
    out
}
