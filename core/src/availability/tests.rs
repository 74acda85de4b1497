//! Each rule of a state by its example, and law S on random facts against counting instant by
//! instant.

use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::id::Hash;
use crate::metering::GapCause;
use crate::segment::StopReason;
use crate::time::Timestamp;

/// Instants of the random facts.
const END: i64 = 60;
const LEAD_MS: i64 = 10;

fn period(start: i64, end: i64) -> Period {
    Period::new(Timestamp(start), Timestamp(end))
}

fn gap(start: i64, end: i64, cause: GapCause) -> Stretch {
    Stretch { period: period(start, end), content: StretchContent::Gap(cause) }
}

fn measured(start: i64, end: i64) -> Stretch {
    Stretch { period: period(start, end), content: StretchContent::Measured }
}

fn evidence(start: i64, end: i64, class: EvidenceClass, cause: DownCause) -> DownEvidence {
    DownEvidence {
        period: period(start, end),
        ground: Ground { class, cause },
        source: EvidenceSource { hash: Hash::of(b"x"), text: "x".to_owned() },
    }
}

fn notice(start: i64, end: i64, received_at: i64) -> Exclusion {
    let cause = ExclusionCause::ProviderMaintenanceAnnounced {
        notice: Hash::of(b"notice"),
        received_at: Timestamp(received_at),
    };
    Exclusion { period: period(start, end), cause }
}

fn stopped(start: i64, end: i64) -> Exclusion {
    Exclusion { period: period(start, end), cause: ExclusionCause::TenantStopped }
}

/// Facts that own their lists.
#[derive(Debug, Clone, Default)]
struct Facts {
    contracted: Vec<Period>,
    stretches: Vec<Stretch>,
    recorded: Vec<Period>,
    reachable: Vec<Period>,
    observer: Vec<Period>,
    evidence: Vec<DownEvidence>,
    exclusions: Vec<Exclusion>,
}

impl Facts {
    /// All of 0 to 100 contracted, recorded, reachable and observed.
    fn of(stretches: &[Stretch]) -> Self {
        let all = vec![period(0, 100)];
        Self {
            contracted: all.clone(),
            stretches: stretches.to_vec(),
            recorded: all.clone(),
            reachable: all.clone(),
            observer: all,
            ..Self::default()
        }
    }

    fn states(&self) -> Vec<StateStretch> {
        evaluate(&SlotFacts {
            contracted: &self.contracted,
            stretches: &self.stretches,
            recorded: &self.recorded,
            reachable: &self.reachable,
            observer: &self.observer,
            evidence: &self.evidence,
            exclusions: &self.exclusions,
            notice_lead_ms: Some(LEAD_MS),
        })
    }

    /// `start-end state`, with class and cause.
    fn words(&self) -> Vec<String> {
        let word = |stretch: &StateStretch| {
            let why = match stretch.state {
                State::Up => String::new(),
                State::Down(ground) => format!(" {} {}", ground.class.name(), ground.cause.name()),
                State::Unknown(cause) => format!(" {}", cause.name()),
                State::Excluded(kind) => format!(" {}", kind.name()),
            };
            let (start, end) = (stretch.period.start.0, stretch.period.end.0);
            let disputed = if stretch.disputed { " disputed" } else { "" };
            format!("{start}-{end} {}{why}{disputed}", stretch.state.name())
        };
        self.states().iter().map(word).collect()
    }
}

#[test]
fn a_lost_gpu_is_down_while_the_agent_says_so() {
    let mut facts =
        Facts::of(&[measured(0, 40), gap(40, 90, GapCause::GpuLost), measured(90, 100)]);
    facts.recorded = vec![period(0, 70), period(90, 100)];
    let expected = ["0-40 up", "40-70 down E1 gpu_lost", "70-90 unknown gpu_lost", "90-100 up"];
    assert_eq!(facts.words(), expected);
}

#[test]
fn a_boot_without_a_shutdown_is_down_and_one_with_it_is_the_tenants() {
    let mut facts =
        Facts::of(&[measured(0, 40), gap(40, 90, GapCause::NodeReboot), measured(90, 100)]);
    facts.recorded = vec![period(0, 42), period(85, 100)];
    assert_eq!(facts.words(), ["0-40 up", "40-90 down E3 reboot", "90-100 up"]);

    // A goodbye makes the gap the agent's own; the next life of the node makes it a stop.
    facts.stretches[1] = gap(40, 90, GapCause::AgentRestart);
    assert_eq!(facts.words()[1], "40-90 unknown agent_restart");
    let next = Some((Timestamp(85), false));
    facts.exclusions.extend(tenant_stop(Timestamp(42), StopReason::Shutdown, next));
    assert_eq!(
        facts.words(),
        [
            "0-40 up",
            "40-42 unknown agent_restart",
            "42-85 excluded tenant_stopped",
            "85-90 unknown agent_restart",
            "90-100 up"
        ]
    );
    // Unless the provider says otherwise.
    facts.evidence = vec![evidence(50, 60, EvidenceClass::E5, DownCause::Connectivity)];
    assert_eq!(facts.words()[3], "50-60 down E5 connectivity");
}

#[test]
fn only_a_goodbye_before_another_life_or_the_leases_end_is_a_stop() {
    let stop = |reason, next| tenant_stop(Timestamp(10), reason, next).map(|e| e.period.end.0);
    let (same, other) = (Some((Timestamp(20), true)), Some((Timestamp(20), false)));
    assert_eq!(stop(StopReason::Shutdown, other), Some(20));
    assert_eq!(stop(StopReason::Shutdown, same), None);
    assert_eq!(stop(StopReason::Shutdown, None), None);
    assert_eq!(stop(StopReason::Upgrade, other), None);
    assert_eq!(stop(StopReason::ImportEnd, None), None);
    assert_eq!(stop(StopReason::LeaseEnd, None), Some(Timestamp::MAX.0));
}

#[test]
fn what_was_read_was_there() {
    let mut facts = Facts::of(&[measured(0, 100)]);
    for class in [EvidenceClass::E1, EvidenceClass::E3] {
        facts.evidence = vec![evidence(20, 30, class, DownCause::GpuLost)];
        assert_eq!(facts.words(), ["0-20 up", "20-30 up", "30-100 up"], "{class:?}");
    }
    // That it could not be reached does not contradict its readings.
    for class in [EvidenceClass::E2, EvidenceClass::E4, EvidenceClass::E5] {
        facts.evidence = vec![evidence(20, 30, class, DownCause::Connectivity)];
        let down = format!("20-30 down {} connectivity", class.name());
        assert_eq!(facts.words(), ["0-20 up", &down, "30-100 up"]);
    }
    facts.evidence = vec![evidence(20, 30, EvidenceClass::E1, DownCause::Throttle)];
    assert_eq!(facts.words()[1], "20-30 up");
    assert_eq!(facts.states()[1].grounds.len(), 1);
}

#[test]
fn probes_are_worth_nothing_while_the_server_was_away() {
    let mut facts = Facts::of(&[gap(0, 100, GapCause::ObserverDown)]);
    facts.recorded = Vec::new();
    facts.observer = vec![period(0, 30), period(60, 100)];
    facts.evidence = vec![evidence(20, 70, EvidenceClass::E4, DownCause::Connectivity)];
    assert_eq!(
        facts.words(),
        [
            "0-20 unknown observer_down",
            "20-30 down E4 connectivity",
            "30-60 unknown observer_down",
            "60-70 down E4 connectivity",
            "70-100 unknown observer_down"
        ]
    );
    // The agent's own word needs the agent.
    facts.evidence = vec![evidence(20, 70, EvidenceClass::E1, DownCause::GpuCount)];
    assert_eq!(facts.states().iter().filter(|s| s.state.name() == "down").count(), 0);
}

#[test]
fn a_slot_that_was_never_seen_is_down_while_its_neighbours_are_measured() {
    let neighbour = [measured(0, 30), gap(30, 50, GapCause::Unexplained), measured(50, 90)];
    let seen = never_seen(&[&neighbour, &[measured(20, 35)]]);
    assert_eq!(seen, [period(0, 35), period(50, 90)]);
    let mut facts = Facts::of(&[]);
    facts.recorded = vec![period(0, 35), period(50, 90)];
    facts.evidence = seen
        .iter()
        .map(|p| evidence(p.start.0, p.end.0, EvidenceClass::E1, DownCause::GpuCount))
        .collect();
    assert_eq!(
        facts.words(),
        [
            "0-35 down E1 gpu_count",
            "35-50 unknown not_enrolled",
            "50-90 down E1 gpu_count",
            "90-100 unknown not_enrolled"
        ]
    );
}

#[test]
fn notices_exclude_when_they_come_in_time() {
    let mut facts =
        Facts::of(&[measured(0, 40), gap(40, 60, GapCause::NodeReboot), measured(60, 100)]);
    facts.exclusions = vec![notice(40, 60, 30)];
    assert_eq!(facts.words()[1], "40-60 excluded provider_maintenance_announced");
    facts.exclusions = vec![notice(40, 60, 31)];
    assert_eq!(facts.words()[1], "40-60 down E3 reboot disputed");
    // Another one that came in time counts.
    facts.exclusions = vec![notice(40, 60, 31), notice(50, 60, 0)];
    assert_eq!(
        facts.words()[1..3],
        ["40-50 down E3 reboot disputed", "50-60 excluded provider_maintenance_announced"]
    );
    // Excluded time stays measured, and is seen.
    facts.exclusions = vec![notice(20, 30, 0)];
    assert_eq!(facts.states()[1].seen, Seen::Working);
    // A contract without the rule has no use for notices.
    let all = [period(0, 100)];
    let states = evaluate(&SlotFacts {
        contracted: &all,
        stretches: &facts.stretches,
        recorded: &all,
        reachable: &all,
        observer: &all,
        evidence: &[],
        exclusions: &facts.exclusions,
        notice_lead_ms: None,
    });
    assert!(states.iter().any(|stretch| stretch.disputed));
    assert_eq!(StateSums::of(&states).excluded_total_ms(), 0);
}

#[test]
fn a_stop_that_something_recorded_contradicts_is_none() {
    let mut facts = Facts::of(&[measured(0, 40), gap(40, 100, GapCause::AgentRestart)]);
    facts.recorded = vec![period(0, 50)];
    facts.exclusions = vec![stopped(20, 100)];
    let words = facts.words();
    assert_eq!(words[0], "0-40 up");
    assert_eq!(words.last().unwrap(), "40-100 excluded tenant_stopped");
}

#[test]
fn a_gpu_in_mig_mode_is_up_while_the_agent_records() {
    let mut facts = Facts::of(&[gap(0, 100, GapCause::Unsupported)]);
    facts.recorded = vec![period(0, 60)];
    assert_eq!(facts.words(), ["0-60 up", "60-100 unknown unsupported"]);
}

#[test]
fn unions_and_differences_are_exact() {
    let all = union([period(5, 9), period(0, 3), period(3, 4), period(6, 7), period(20, 20)]);
    assert_eq!(all, [period(0, 4), period(5, 9)]);
    let rest = without(&all, &[period(1, 2), period(3, 6), period(8, 30)]);
    assert_eq!(rest, [period(0, 1), period(2, 3), period(6, 8)]);
    assert_eq!(without(&all, &[]), all);
}

prop_compose! {
    fn periods(count: usize)(
        list in prop::collection::vec((0..END, 0..20_i64), 0..count),
    ) -> Vec<Period> {
        list.into_iter().map(|(start, length)| period(start, (start + length).min(END))).collect()
    }
}

fn grounds() -> impl Strategy<Value = Ground> {
    (select(EvidenceClass::ALL), select(DownCause::ALL))
        .prop_map(|(class, cause)| Ground { class, cause })
}

fn exclusion_causes() -> impl Strategy<Value = ExclusionCause> {
    prop_oneof![
        (-20..END).prop_map(|at| ExclusionCause::ProviderMaintenanceAnnounced {
            notice: Hash::of(b"notice"),
            received_at: Timestamp(at),
        }),
        Just(ExclusionCause::TenantStopped),
        Just(ExclusionCause::TenantMaintenance),
        Just(ExclusionCause::Other("spot".to_owned())),
    ]
}

prop_compose! {
    fn facts()(
        contracted in periods(6),
        contents in prop::collection::vec(prop_oneof![
            3 => Just(StretchContent::Measured),
            2 => select(&GapCause::ALL[..]).prop_map(StretchContent::Gap),
        ], 12),
        from in 0..3_usize,
        recorded in periods(6),
        reachable in periods(4),
        observer in periods(6),
        evidence in prop::collection::vec((periods(2), grounds()), 0..5),
        exclusions in prop::collection::vec((periods(2), exclusion_causes()), 0..5),
    ) -> Facts {
        let stretches = contents.into_iter().enumerate().skip(from).map(|(at, content)| {
            let start = i64::try_from(at).unwrap() * 5;
            Stretch { period: period(start, start + 5), content }
        });
        let told = evidence.into_iter().flat_map(|(periods, ground)| {
            periods.into_iter().map(move |p| {
                evidence_of(p, ground)
            })
        });
        let exclusions = exclusions.into_iter().flat_map(|(periods, cause)| {
            periods.into_iter().map(move |period| Exclusion { period, cause: cause.clone() })
        });
        Facts {
            contracted,
            stretches: stretches.collect(),
            recorded,
            reachable,
            observer,
            evidence: told.collect(),
            exclusions: exclusions.collect(),
        }
    }
}

fn evidence_of(at: Period, ground: Ground) -> DownEvidence {
    evidence(at.start.0, at.end.0, ground.class, ground.cause)
}

/// Gaps in which a segment of the same time does not show that the node ran then.
const NODE_NOT_SHOWN: [GapCause; 9] = [
    GapCause::Conflict,
    GapCause::ClockInvalid,
    GapCause::Dropped,
    GapCause::NodeReboot,
    GapCause::InstanceRestart,
    GapCause::AgentRestart,
    GapCause::ObserverDown,
    GapCause::NetUnreachable,
    GapCause::Unexplained,
];

/// One instant of the facts.
struct At<'a> {
    facts: &'a Facts,
    at: Timestamp,
    gap: Option<GapCause>,
    works: bool,
    recorded: bool,
}

impl<'a> At<'a> {
    fn new(facts: &'a Facts, at: Timestamp) -> Self {
        let content = facts.stretches.iter().find(|s| s.period.contains(at)).map(|s| s.content);
        let gap = match content {
            Some(StretchContent::Gap(cause)) => Some(cause),
            _ => None,
        };
        let recorded = facts.recorded.iter().any(|period| period.contains(at));
        let works = content == Some(StretchContent::Measured)
            || (gap == Some(GapCause::Unsupported) && recorded);
        Self { facts, at, gap, works, recorded }
    }

    /// Grounds by which it is down.
    fn down(&self) -> Vec<Ground> {
        let here = self.facts.evidence.iter().filter(|e| e.period.contains(self.at));
        let own = match self.gap {
            Some(GapCause::GpuLost) => Some((EvidenceClass::E1, DownCause::GpuLost)),
            Some(GapCause::GpuReplaced) => Some((EvidenceClass::E1, DownCause::GpuReplaced)),
            Some(GapCause::NodeReboot) => Some((EvidenceClass::E3, DownCause::Reboot)),
            _ => None,
        };
        let own = own.map(|(class, cause)| Ground { class, cause });
        here.map(|evidence| evidence.ground)
            .chain(own)
            .filter(|ground| !matches!(ground.cause, DownCause::Throttle | DownCause::Fabric))
            .filter(|ground| match ground.class {
                EvidenceClass::E1 => !self.works && self.recorded,
                EvidenceClass::E3 => !self.works,
                EvidenceClass::E2 | EvidenceClass::E4 => {
                    self.facts.observer.iter().any(|period| period.contains(self.at))
                }
                EvidenceClass::E5 => true,
            })
            .collect()
    }

    fn excluded(&self, wanted: impl Fn(&Exclusion) -> bool) -> Option<ExclusionKind> {
        let here = self.facts.exclusions.iter().filter(|e| e.period.contains(self.at));
        here.filter(|exclusion| wanted(exclusion)).map(|exclusion| exclusion.cause.kind()).min()
    }

    fn state(&self) -> State {
        let in_time = |e: &Exclusion| match e.cause {
            ExclusionCause::ProviderMaintenanceAnnounced { received_at, .. } => {
                e.period.start.0 - received_at.0 >= LEAD_MS
            }
            ExclusionCause::TenantStopped => false,
            _ => true,
        };
        let node_ran =
            self.recorded && !self.gap.is_some_and(|cause| NODE_NOT_SHOWN.contains(&cause));
        let stop = self
            .excluded(|exclusion| exclusion.cause == ExclusionCause::TenantStopped)
            .filter(|_| !self.works && !node_ran);
        let down = self.down();
        let admitted = down.iter().copied().filter(|ground| ground.class == EvidenceClass::E5);
        match (self.excluded(in_time), stop, down.iter().min()) {
            (Some(kind), ..) => State::Excluded(kind),
            (None, Some(kind), _) => admitted.min().map_or(State::Excluded(kind), State::Down),
            (None, None, Some(ground)) => State::Down(*ground),
            (None, None, None) if self.works => State::Up,
            (None, None, None) => {
                State::Unknown(self.gap.map_or(UnknownCause::NotEnrolled, UnknownCause::Gap))
            }
        }
    }
}

/// The state of one instant, by looking at everything that holds there.
fn state_at(facts: &Facts, at: Timestamp) -> Option<State> {
    let contracted = facts.contracted.iter().any(|period| period.contains(at));
    contracted.then(|| At::new(facts, at).state())
}

/// The same facts in another order, some twice, each stretch in two.
fn shuffled(facts: &Facts) -> Facts {
    fn twice<T: Clone>(list: &[T]) -> Vec<T> {
        list.iter().rev().chain(list.iter().take(2)).cloned().collect()
    }
    let halves = |stretch: &Stretch| {
        let middle = stretch.period.start.plus_ms(stretch.period.ms() / 2);
        [
            Stretch { period: Period::new(stretch.period.start, middle), ..*stretch },
            Stretch { period: Period::new(middle, stretch.period.end), ..*stretch },
        ]
    };
    Facts {
        contracted: twice(&facts.contracted),
        stretches: twice(&facts.stretches.iter().flat_map(halves).collect::<Vec<_>>()),
        recorded: twice(&facts.recorded),
        reachable: twice(&facts.reachable),
        observer: twice(&facts.observer),
        evidence: twice(&facts.evidence),
        exclusions: twice(&facts.exclusions),
    }
}

proptest! {
    #[test]
    fn law_s_holds_and_every_instant_has_the_state_that_looking_at_it_gives(facts in facts()) {
        let states = facts.states();
        let sums = StateSums::of(&states);
        let contracted: i64 =
            union(facts.contracted.iter().copied()).iter().map(|period| period.ms()).sum();
        prop_assert!(sums.is_conserved());
        prop_assert_eq!(sums.contracted_ms, contracted);
        prop_assert!(states.windows(2).all(|pair| pair[0].period.end <= pair[1].period.start));
        for at in 0..END {
            let at = Timestamp(at);
            let ours = states.iter().find(|stretch| stretch.period.contains(at)).map(|s| s.state);
            prop_assert_eq!(ours, state_at(&facts, at), "at {}", at.0);
        }
    }

    #[test]
    fn order_repeats_and_splits_change_nothing(facts in facts()) {
        prop_assert_eq!(facts.states(), shuffled(&facts).states());
    }

    #[test]
    fn silence_alone_is_never_down(mut facts in facts()) {
        facts.evidence.clear();
        facts.recorded.clear();
        for stretch in &mut facts.stretches {
            if stretch.content == StretchContent::Gap(GapCause::NodeReboot) {
                stretch.content = StretchContent::Gap(GapCause::Unexplained);
            }
        }
        prop_assert_eq!(StateSums::of(&facts.states()).down_total_ms(), 0);
    }

    #[test]
    fn sums_of_parts_are_the_sum(facts in facts(), cut in 0..END) {
        let part = |contracted: Vec<Period>| StateSums::of(&Facts { contracted, ..facts.clone() }.states());
        let cut_to = |window: Period| facts.contracted.iter().map(|p| p.intersect(window)).collect();
        let mut sum = part(cut_to(period(0, cut)));
        sum.merge(&part(cut_to(period(cut, END))));
        prop_assert_eq!(sum, part(facts.contracted.clone()));
    }
}

#[test]
fn down_intervals_of_one_cause_are_one_whatever_they_are_known_by() {
    let mut facts = Facts::of(&[measured(0, 20), gap(20, 80, GapCause::Unexplained)]);
    facts.recorded = vec![period(0, 20)];
    facts.reachable = vec![period(0, 25)];
    facts.exclusions = vec![notice(50, 55, 49)];
    facts.evidence = vec![
        evidence(10, 40, EvidenceClass::E4, DownCause::Connectivity),
        evidence(30, 60, EvidenceClass::E2, DownCause::Connectivity),
        evidence(60, 70, EvidenceClass::E5, DownCause::Hardware),
    ];
    let found = down_intervals(&facts.states());
    let words: Vec<_> =
        found.iter().map(|i| (i.period, i.cause, i.classes.as_slice(), i.disputed)).collect();
    let both = [EvidenceClass::E2, EvidenceClass::E4];
    assert_eq!(
        words,
        [
            (period(10, 60), DownCause::Connectivity, &both[..], true),
            (period(60, 70), DownCause::Hardware, &[EvidenceClass::E5][..], false),
        ]
    );
    let down_ms: i64 = found.iter().map(|interval| interval.period.ms()).sum();
    assert_eq!(down_ms, StateSums::of(&facts.states()).down_total_ms());
}
