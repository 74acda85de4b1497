//! Availability: the four states of a slot's contracted time, as exact stretches.
//!
//! Measurement knows nothing of who pays; this is the judgement beside it. Invariants:
//! 1. **Law S**: `contracted = up + down (by class) + unknown + excluded (by cause)`. Every
//!    millisecond of contracted time is in exactly one place.
//! 2. **Silence alone is unknown**, never down: a gap becomes *down* only by evidence of a class
//!    E1 to E5, and *unknown* is neither good nor bad.
//! 3. **Order does not matter**: permuting, repeating or splitting any input changes nothing.
//! 4. **What the server did not see is no evidence**: probes and failed references count only
//!    while the server itself was recording.
//!
//! Exclusions and notices never touch a measured fact: each stretch keeps what metering saw of it,
//! and every ground that speaks for *down*, so that a contract that counts only some grounds can
//! be judged later (`sla::dialect`). Not here: contracts, targets and money.

mod evidence;
mod exclusion;
mod interval;
mod law;
mod state;

#[cfg(test)]
mod tests;

use crate::metering::GapCause;
use crate::time::Period;

pub(crate) use evidence::named;
pub use evidence::{DownCause, DownEvidence, EvidenceClass, EvidenceSource, Ground, never_seen};
pub use exclusion::{Exclusion, ExclusionCause, ExclusionKind, tenant_stop};
pub use interval::{DownInterval, down_intervals};
pub use law::{StateSums, UnknownSums};
pub use state::evaluate;

/// What metering says of a stretch of a slot's enrolled time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stretch {
    /// When.
    pub period: Period,
    /// What.
    pub content: StretchContent,
}

/// Whether a stretch was measured, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StretchContent {
    /// The GPU was read: it was there and answered.
    Measured,
    /// It was not read, for one cause.
    Gap(GapCause),
}

/// Everything that is known of one slot of one lease. All lists in any order, overlaps and
/// repeats allowed.
#[derive(Debug, Clone, Copy)]
pub struct SlotFacts<'a> {
    /// When the slot is paid for (`lease::contracted`), cut at "now".
    pub contracted: &'a [Period],
    /// What metering says, of every GPU that sat in the slot; empty for a slot never seen.
    pub stretches: &'a [Stretch],
    /// When the node's agent was recording: the periods of its stored segments. A GPU is known to
    /// be lost only while the agent was there to say so.
    pub recorded: &'a [Period],
    /// When the node was shown to be reachable from outside: its agent had a stream open, or probes
    /// succeeded. For a replayed past, which never has a stream, its recorded periods.
    pub reachable: &'a [Period],
    /// When the server itself was recording.
    pub observer: &'a [Period],
    /// What speaks for *down* beside metering.
    pub evidence: &'a [DownEvidence],
    /// What takes time out of the account.
    pub exclusions: &'a [Exclusion],
    /// How long before its start a provider's notice must have been received to exclude time, in
    /// ms; `None` where the contract has no such rule, and then no notice excludes anything.
    pub notice_lead_ms: Option<i64>,
}

/// A stretch of contracted time in one state. Stretches of one slot never overlap and lie in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateStretch {
    /// When.
    pub period: Period,
    /// Its one state, by which law S counts it.
    pub state: State,
    /// What metering saw, whatever the state is.
    pub seen: Seen,
    /// Shown to be reachable from outside. That a GPU was read does not show it: an agent that is
    /// cut off goes on recording.
    pub reachable: bool,
    /// Everything that speaks for *down* here, in order and each once; a contract may count
    /// grounds that are not the state's own. A degradation (throttling, a lost fabric) stands here
    /// and never makes a stretch *down*.
    pub grounds: Vec<Ground>,
    /// A notice claims this time, and came too late to exclude it.
    pub disputed: bool,
}

/// The four states of contracted time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    /// Shown to have worked.
    Up,
    /// Shown not to have worked, by the strongest ground.
    Down(Ground),
    /// Neither is shown.
    Unknown(UnknownCause),
    /// Taken out of the account.
    Excluded(ExclusionKind),
}

/// Why it is unknown whether a slot worked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum UnknownCause {
    /// It was not measured, for this cause.
    Gap(GapCause),
    /// Nothing was enrolled for this time: no agent, or the slot was never seen.
    NotEnrolled,
}

/// What metering saw of a stretch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Seen {
    /// Measured, or answering without offering utilization while the agent recorded.
    Working,
    /// Not measured, and the agent recorded all the while: the node ran.
    NodeOnly(UnknownCause),
    /// Nothing shows whether the node ran.
    Nothing(UnknownCause),
}

impl UnknownCause {
    /// Its name in statements: the gap's, or `not_enrolled`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gap(cause) => cause.name(),
            Self::NotEnrolled => "not_enrolled",
        }
    }
}

impl State {
    /// `up`, `down`, `unknown` or `excluded`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Down(_) => "down",
            Self::Unknown(_) => "unknown",
            Self::Excluded(_) => "excluded",
        }
    }
}

/// The instants that any of `periods` holds, as periods in order that neither overlap nor touch.
#[must_use]
pub fn union(periods: impl IntoIterator<Item = Period>) -> Vec<Period> {
    let mut sorted: Vec<Period> = periods.into_iter().filter(|p| !p.is_empty()).collect();
    sorted.sort_unstable();
    let mut out: Vec<Period> = Vec::with_capacity(sorted.len());
    for period in sorted {
        match out.last_mut() {
            Some(last) if period.start <= last.end => last.end = last.end.max(period.end),
            _ => out.push(period),
        }
    }
    out
}

/// What of `from` none of `taken` holds, in order. `from` is as [`union`] gives it.
#[must_use]
pub fn without(from: &[Period], taken: &[Period]) -> Vec<Period> {
    let taken = union(taken.iter().copied());
    let mut out = Vec::new();
    for period in from {
        let mut at = period.start;
        let first = taken.partition_point(|cut| cut.end <= period.start);
        for cut in taken[first..].iter().take_while(|cut| cut.start < period.end) {
            if at < cut.start {
                out.push(Period::new(at, cut.start));
            }
            at = at.max(cut.end);
        }
        if at < period.end {
            out.push(Period::new(at, period.end));
        }
    }
    out
}
