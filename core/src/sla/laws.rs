//! Laws of verdicts on random histories of several slots.

use proptest::prelude::*;
use proptest::sample::select;

use super::dialect::{Counted, Filings, count, downtime};
use super::golden::shipped_objective;
use super::profile::{DowntimeRule, Needs, Objective, PartialSlice, Predicate};
use super::unit::combine;
use super::verdict::{Case, Outcome, judge};
use super::window::Window;
use crate::availability::{
    DownCause, DownEvidence, EvidenceClass, EvidenceSource, Ground, SlotFacts, StateStretch,
    Stretch, StretchContent, evaluate,
};
use crate::id::Hash;
use crate::metering::GapCause;
use crate::time::{Period, Timestamp};

/// Milliseconds of a history: 40 pieces of 45 s, so that minutes are hit and missed.
const PIECE_MS: i64 = 45_000;
const PIECES: usize = 40;

/// Gaps that prove nothing, whatever made them: clocks, servers, networks, the agent itself.
const HARMLESS: [GapCause; 11] = [
    GapCause::Conflict,
    GapCause::ClockInvalid,
    GapCause::NvmlError,
    GapCause::NoGpuAttached,
    GapCause::DriverReload,
    GapCause::Dropped,
    GapCause::InstanceRestart,
    GapCause::AgentRestart,
    GapCause::ObserverDown,
    GapCause::NetUnreachable,
    GapCause::Unexplained,
];

#[derive(Debug, Clone)]
struct History {
    pieces: Vec<StretchContent>,
    evidence: Vec<(usize, usize, Ground)>,
    observed: Vec<bool>,
    recorded: Vec<bool>,
}

impl History {
    fn states(&self) -> Vec<StateStretch> {
        let stretches: Vec<Stretch> = self
            .pieces
            .iter()
            .enumerate()
            .map(|(at, content)| Stretch { period: piece(at, at + 1), content: *content })
            .collect();
        let evidence: Vec<DownEvidence> = self
            .evidence
            .iter()
            .map(|(from, to, ground)| DownEvidence {
                period: piece(*from, *to),
                ground: *ground,
                source: EvidenceSource { hash: Hash::of(b"e"), text: String::new() },
            })
            .collect();
        let held = |flags: &[bool]| -> Vec<Period> {
            let holding = flags.iter().enumerate().filter(|(_, flag)| **flag);
            holding.map(|(at, _)| piece(at, at + 1)).collect()
        };
        let recorded = held(&self.recorded);
        evaluate(&SlotFacts {
            contracted: &[window()],
            stretches: &stretches,
            recorded: &recorded,
            reachable: &recorded,
            observer: &held(&self.observed),
            evidence: &evidence,
            exclusions: &[],
            notice_lead_ms: None,
        })
    }
}

fn piece(from: usize, to: usize) -> Period {
    let at = |index: usize| Timestamp(i64::try_from(index).unwrap() * PIECE_MS);
    Period::new(at(from), at(to))
}

fn window() -> Period {
    piece(0, PIECES)
}

fn contents() -> impl Strategy<Value = StretchContent> {
    prop_oneof![
        4 => Just(StretchContent::Measured),
        3 => select(&GapCause::ALL[..]).prop_map(StretchContent::Gap),
    ]
}

/// Evidence that no reading contradicts.
fn grounds() -> impl Strategy<Value = Ground> {
    let classes = select(vec![EvidenceClass::E2, EvidenceClass::E4, EvidenceClass::E5]);
    (classes, select(DownCause::ALL)).prop_map(|(class, cause)| Ground { class, cause })
}

prop_compose! {
    fn histories()(
        pieces in prop::collection::vec(contents(), PIECES),
        evidence in prop::collection::vec((0..PIECES, 1..6_usize, grounds()), 0..4),
        observed in prop::collection::vec(prop::bool::weighted(0.8), PIECES),
        recorded in prop::collection::vec(prop::bool::weighted(0.8), PIECES),
    ) -> History {
        let evidence = evidence
            .into_iter()
            .map(|(from, length, ground)| (from, (from + length).min(PIECES), ground))
            .collect();
        History { pieces, evidence, observed, recorded }
    }
}

fn rules() -> impl Strategy<Value = DowntimeRule> {
    let predicates = prop::collection::vec(select(Predicate::ALL), 1..4);
    (predicates, select(PartialSlice::ALL), 0..200_i64, 1..120_i64, 0..90_i64).prop_map(
        |(predicates, partial_slice, min_consecutive_s, slice_s, buffer_s)| DowntimeRule {
            predicates,
            min_consecutive_s,
            partial_slice,
            slice_s,
            buffer_s,
            from_notice: false,
        },
    )
}

fn needs() -> impl Strategy<Value = Needs> {
    prop_oneof![Just(Needs::All), Just(Needs::Any), (1..4_u32).prop_map(Needs::AtLeast)]
}

fn objective(downtime: &DowntimeRule, needs: Needs) -> Objective {
    let mut objective = shipped_objective("own-objective/usable-gpu");
    objective.downtime = downtime.clone();
    objective.unit.needs = needs;
    objective
}

fn outcome(objective: &Objective, slots: &[Vec<StateStretch>]) -> (i64, i64, Outcome) {
    let members: Vec<&[StateStretch]> = slots.iter().map(Vec::as_slice).collect();
    let whole = Window { period: window(), whole: window() };
    let filings = Filings::default();
    let case = Case { objective, window: whole, as_of: window().end, filings };
    let verdict = judge(&case, &members);
    (verdict.downtime.proven_ms, verdict.downtime.possible_ms, verdict.outcome)
}

/// Each stretch in two.
fn split(states: &[StateStretch]) -> Vec<StateStretch> {
    let halves = |state: &StateStretch| {
        let middle = state.period.start.plus_ms(state.period.ms() / 3);
        let part = |start, end| StateStretch { period: Period::new(start, end), ..state.clone() };
        [part(state.period.start, middle), part(middle, state.period.end)]
    };
    states.iter().flat_map(halves).filter(|state| !state.period.is_empty()).collect()
}

proptest! {
    /// What is proven is never more than what is possible, in any dialect, and what is known for
    /// certain leaves no room between the two.
    #[test]
    fn bounds_are_honest(
        slots in prop::collection::vec(histories(), 1..4),
        rule in rules(),
        needs in needs(),
    ) {
        let objective = objective(&rule, needs);
        let states: Vec<_> = slots.iter().map(History::states).collect();
        let (proven, possible, _) = outcome(&objective, &states);
        prop_assert!((0..=possible).contains(&proven), "{proven} > {possible}");

        let counted: Vec<_> = states.iter().map(|slot| count(slot, &rule.predicates)).collect();
        let timeline = combine(&counted, needs);
        if timeline.iter().all(|part| !matches!(part.counted, Counted::Unknown(_))) {
            prop_assert_eq!(proven, possible);
        }
        // Whatever the unknown stretches turn out to be, the truth lies between the bounds.
        for truth in [Counted::Up, Counted::Down] {
            let mut told = timeline.clone();
            for (index, part) in told.iter_mut().enumerate() {
                let flips = truth == Counted::Down || index % 2 == 0;
                if matches!(part.counted, Counted::Unknown(_)) && flips {
                    part.counted = truth;
                } else if matches!(part.counted, Counted::Unknown(_)) {
                    part.counted = Counted::Down;
                }
            }
            let actual = downtime(&told, &rule, window(), Filings::default());
            let bounds = downtime(&timeline, &rule, window(), Filings::default());
            prop_assert!(bounds.proven_ms <= actual.proven_ms);
            prop_assert!(actual.proven_ms <= bounds.possible_ms);
        }
    }

    /// How stretches are cut, and in which order members come, changes nothing.
    #[test]
    fn splits_and_orders_change_nothing(
        slots in prop::collection::vec(histories(), 1..4),
        rule in rules(),
        needs in needs(),
    ) {
        let objective = objective(&rule, needs);
        let states: Vec<_> = slots.iter().map(History::states).collect();
        let cut: Vec<_> = states.iter().rev().map(|slot| split(slot)).collect();
        prop_assert_eq!(outcome(&objective, &states), outcome(&objective, &cut));
    }

    /// Late data turns unknown into up, and never takes away or adds proven downtime.
    #[test]
    fn late_data_never_changes_what_is_proven(
        history in histories(),
        rule in rules(),
        late in prop::collection::vec(any::<bool>(), PIECES),
    ) {
        let objective = objective(&rule, Needs::All);
        let mut after = history.clone();
        for (at, late) in late.into_iter().enumerate() {
            let harmless =
                HARMLESS.iter().any(|cause| history.pieces[at] == StretchContent::Gap(*cause));
            if late && harmless {
                after.pieces[at] = StretchContent::Measured;
                after.recorded[at] = true;
            }
        }
        let (before, after) = (
            outcome(&objective, &[history.states()]),
            outcome(&objective, &[after.states()]),
        );
        prop_assert_eq!(before.0, after.0);
        prop_assert!(after.1 <= before.1);
        if before.2 == Outcome::Breached {
            prop_assert_eq!(after.2, Outcome::Breached);
        }
    }

    /// C1 and C2: a clock that steps, a server that restarts, a line that is cut make unknown time,
    /// and no downtime; a verdict may become indeterminate by them and never breached.
    #[test]
    fn clocks_servers_and_silence_never_breach(
        history in histories(),
        rule in rules(),
        lost in prop::collection::vec(prop::option::of(select(&HARMLESS[..])), PIECES),
    ) {
        let objective = objective(&rule, Needs::All);
        let mut disturbed = history.clone();
        for (at, cause) in lost.into_iter().enumerate() {
            let Some(cause) = cause else { continue };
            disturbed.pieces[at] = StretchContent::Gap(cause);
            // The server was not there either: what it says of this time is no evidence.
            if cause == GapCause::ObserverDown {
                disturbed.observed[at] = false;
            }
            disturbed.recorded[at] = false;
        }
        let (before, after) = (
            outcome(&objective, &[history.states()]),
            outcome(&objective, &[disturbed.states()]),
        );
        prop_assert!(after.0 <= before.0, "proven downtime grew from {} to {}", before.0, after.0);
        if after.2 == Outcome::Breached {
            prop_assert_eq!(before.2, Outcome::Breached);
        }
    }

    /// Nothing but silence, for whatever reason, and without evidence: never met, never breached.
    #[test]
    fn silence_is_indeterminate(
        causes in prop::collection::vec(select(&HARMLESS[..]), PIECES),
        predicate in select(Predicate::ALL),
    ) {
        let silent = History {
            pieces: causes.into_iter().map(StretchContent::Gap).collect(),
            evidence: Vec::new(),
            observed: vec![false; PIECES],
            recorded: vec![false; PIECES],
        };
        let mut objective = shipped_objective("own-objective/usable-gpu");
        objective.downtime.predicates = vec![predicate];
        let (proven, possible, outcome) = outcome(&objective, &[silent.states()]);
        prop_assert_eq!((proven, possible), (0, window().ms()));
        prop_assert_eq!(outcome, Outcome::Indeterminate);
    }

    /// A unit is what its members are in the same instant, counted one by one.
    #[test]
    fn units_agree_with_counting(slots in prop::collection::vec(histories(), 1..5), needs in needs()) {
        let predicates = [Predicate::Unusable];
        let counted: Vec<_> =
            slots.iter().map(|slot| count(&slot.states(), &predicates)).collect();
        let timeline = combine(&counted, needs);
        for at in 0..PIECES {
            let instant = piece(at, at + 1).start;
            let states: Vec<Counted> = counted
                .iter()
                .map(|slot| slot.iter().find(|part| part.period.contains(instant)).unwrap().counted)
                .collect();
            let unit = timeline.iter().find(|part| part.period.contains(instant)).unwrap();
            let up = states.iter().filter(|state| **state == Counted::Up).count();
            let down = states.iter().filter(|state| **state == Counted::Down).count();
            let needed = match needs {
                Needs::All => states.len(),
                Needs::Any => 1,
                Needs::AtLeast(count) => usize::try_from(count).unwrap().min(states.len()),
            };
            prop_assert_eq!(usize::try_from(unit.members.up).unwrap(), up);
            prop_assert_eq!(unit.counted == Counted::Up, up >= needed);
            prop_assert_eq!(unit.counted == Counted::Down, states.len() - down < needed);
        }
    }
}
