//! The state of each instant of contracted time, by a sweep over everything that begins or ends.
//!
//! Precedence, first that holds:
//! 1. excluded: a notice that came in time, the tenant's maintenance, an exclusion of the contract;
//! 2. down, by the grounds of E2, E4 and E5, and of E1 and E3 where nothing was measured; but a
//!    tenant's stop stands before E1 to E4, and only the provider's own record (E5) before it;
//! 3. up: measured, or answering without utilization (MIG) while the agent recorded;
//! 4. excluded: the tenant's stop, where nothing was measured;
//! 5. unknown.

use std::collections::BTreeMap;

use crate::metering::GapCause;
use crate::time::{Period, Timestamp};

use super::{
    DownCause, EvidenceClass, ExclusionKind, Ground, Seen, SlotFacts, State, StateStretch,
    StretchContent, UnknownCause,
};

/// The states of a slot's contracted time: exact, in order, without overlaps, and with neighbours
/// that differ. Their sum is the contracted time, each instant of it counted once.
#[must_use]
pub fn evaluate(facts: &SlotFacts<'_>) -> Vec<StateStretch> {
    let mut sweep = Sweep::default();
    for change in changes(facts) {
        sweep.apply(change);
    }
    sweep.out
}

/// Something that holds for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    Contracted,
    Measured,
    Gap(GapCause),
    Recorded,
    Reachable,
    Observer,
    Evidence(Ground),
    Excluded(ExclusionKind),
    LateNotice,
}

/// A mark begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Change {
    at: Timestamp,
    mark: Mark,
    begins: bool,
}

fn changes(facts: &SlotFacts<'_>) -> Vec<Change> {
    let mut list = Vec::new();
    let mut add = |period: Period, mark: Mark| {
        if !period.is_empty() {
            list.push(Change { at: period.start, mark, begins: true });
            list.push(Change { at: period.end, mark, begins: false });
        }
    };
    facts.contracted.iter().for_each(|period| add(*period, Mark::Contracted));
    facts.recorded.iter().for_each(|period| add(*period, Mark::Recorded));
    facts.reachable.iter().for_each(|period| add(*period, Mark::Reachable));
    facts.observer.iter().for_each(|period| add(*period, Mark::Observer));
    for stretch in facts.stretches {
        match stretch.content {
            StretchContent::Measured => add(stretch.period, Mark::Measured),
            StretchContent::Gap(cause) => add(stretch.period, Mark::Gap(cause)),
        }
    }
    for evidence in facts.evidence {
        add(evidence.period, Mark::Evidence(evidence.ground));
    }
    for exclusion in facts.exclusions {
        let late = exclusion.is_late(facts.notice_lead_ms);
        let mark = if late { Mark::LateNotice } else { Mark::Excluded(exclusion.cause.kind()) };
        add(exclusion.period, mark);
    }
    list.sort_unstable();
    list
}

#[derive(Default)]
struct Sweep {
    /// How many of each mark hold since `at`.
    holding: BTreeMap<Mark, usize>,
    at: Option<Timestamp>,
    out: Vec<StateStretch>,
}

impl Sweep {
    fn apply(&mut self, change: Change) {
        if let Some(at) = self.at
            && at < change.at
        {
            self.push(Period::new(at, change.at));
        }
        self.at = Some(change.at);
        let count = self.holding.entry(change.mark).or_default();
        *count = if change.begins { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            self.holding.remove(&change.mark);
        }
    }

    fn push(&mut self, period: Period) {
        if !self.has(Mark::Contracted) {
            return;
        }
        let seen = self.seen();
        let grounds = self.grounds();
        let state = self.state(seen, &grounds);
        let disputed = self.has(Mark::LateNotice) && !matches!(state, State::Excluded(_));
        let reachable = self.has(Mark::Reachable);
        let next = StateStretch { period, state, seen, reachable, grounds, disputed };
        match self.out.last_mut() {
            Some(last) if last.continues_as(&next) => last.period.end = period.end,
            _ => self.out.push(next),
        }
    }

    fn has(&self, mark: Mark) -> bool {
        self.holding.contains_key(&mark)
    }

    fn gap(&self) -> Option<GapCause> {
        self.holding.keys().find_map(|mark| match mark {
            Mark::Gap(cause) => Some(*cause),
            _ => None,
        })
    }

    fn seen(&self) -> Seen {
        if self.has(Mark::Measured) {
            return Seen::Working;
        }
        let recorded = self.has(Mark::Recorded);
        let gap = self.gap();
        let cause = gap.map_or(UnknownCause::NotEnrolled, UnknownCause::Gap);
        match gap {
            Some(GapCause::Unsupported) if recorded => Seen::Working,
            None
            | Some(
                GapCause::NvmlError
                | GapCause::GpuLost
                | GapCause::GpuReplaced
                | GapCause::NoGpuAttached
                | GapCause::DriverReload,
            ) if recorded => Seen::NodeOnly(cause),
            // Also a clock that cannot be trusted, and a contradiction: what the agent recorded
            // may have been at another time.
            _ => Seen::Nothing(cause),
        }
    }

    /// Everything that speaks for *down* and may be used here, in order.
    fn grounds(&self) -> Vec<Ground> {
        let from_gap = match self.gap() {
            Some(GapCause::GpuLost) => Some((EvidenceClass::E1, DownCause::GpuLost)),
            Some(GapCause::GpuReplaced) => Some((EvidenceClass::E1, DownCause::GpuReplaced)),
            Some(GapCause::NodeReboot) => Some((EvidenceClass::E3, DownCause::Reboot)),
            _ => None,
        };
        let from_gap = from_gap
            .filter(|_| !self.has(Mark::Measured))
            .map(|(class, cause)| Ground { class, cause });
        let told = self.holding.keys().filter_map(|mark| match mark {
            Mark::Evidence(ground) => Some(*ground),
            _ => None,
        });
        let mut grounds: Vec<Ground> =
            told.chain(from_gap).filter(|ground| self.may_use(*ground)).collect();
        grounds.sort_unstable();
        grounds.dedup();
        grounds
    }

    fn may_use(&self, ground: Ground) -> bool {
        let signed = ground.class == EvidenceClass::E1;
        (!signed || self.has(Mark::Recorded))
            && (!ground.needs_observer() || self.has(Mark::Observer))
    }

    fn state(&self, seen: Seen, grounds: &[Ground]) -> State {
        let early = self.holding.keys().find_map(|mark| match mark {
            Mark::Excluded(kind) if *kind != ExclusionKind::TenantStopped => Some(*kind),
            _ => None,
        });
        if let Some(kind) = early {
            return State::Excluded(kind);
        }
        let working = seen == Seen::Working;
        let mut down = grounds.iter().copied().filter(|ground| ground.is_down(working));
        let stopped = self.has(Mark::Excluded(ExclusionKind::TenantStopped))
            && matches!(seen, Seen::Nothing(_));
        if stopped {
            return down
                .find(|ground| ground.class == EvidenceClass::E5)
                .map_or(State::Excluded(ExclusionKind::TenantStopped), State::Down);
        }
        match (down.next(), seen) {
            (Some(ground), _) => State::Down(ground),
            (None, Seen::Working) => State::Up,
            (None, Seen::NodeOnly(cause) | Seen::Nothing(cause)) => State::Unknown(cause),
        }
    }
}

impl StateStretch {
    /// Whether `next` touches this stretch and says the same.
    pub(crate) fn continues_as(&self, next: &Self) -> bool {
        self.period.end == next.period.start
            && self.state == next.state
            && self.seen == next.seen
            && self.reachable == next.reachable
            && self.disputed == next.disputed
            && self.grounds == next.grounds
    }
}
