//! C1: a node whose clock is off by years, runs fast or slow, and is set now and then.
//!
//! The agent, the server's questions for its clock and the check of a segment's times are written
//! down in their plainest form; estimates and metering are the real ones. A point that counts as
//! measured must lie where the server's clock was when it was read, up to the stated bound.

use proptest::prelude::*;

use super::super::*;
use super::history::{Owned, START, World, block, head, started_event, steady, total};
use crate::delivery::{ClockEstimate, ClockFilter, TimeExchange};
use crate::sample::Reading;
use crate::segment::TrackPoint;

/// Twenty minutes of true time.
const RUN_MS: i64 = 1_200_000;
const YEARS_MS: i64 = 10 * 365 * 86_400_000;
const HOUR_MS: i64 = 3_600_000;
/// A wall clock that leaves the boot clock by more has been set.
const STEP_MS: i64 = 100;
const PROBE_MS: i64 = 15_000;
/// Beyond this error a point places nothing.
const INVALID_MS: i64 = 5_000;
/// Causes that say something of the gpu or the node, and none of them happened.
const DOWN: [GapCause; 5] = [
    GapCause::GpuLost,
    GapCause::GpuReplaced,
    GapCause::DriverReload,
    GapCause::NodeReboot,
    GapCause::InstanceRestart,
];

/// A node's clock, against the server's.
#[derive(Debug, Clone)]
struct NodeClock {
    /// How far it is ahead at the start.
    ahead_ms: i64,
    /// Its milliseconds in a second of true time.
    rate: i64,
    /// When it is set, by how much; ascending.
    steps: Vec<(i64, i64)>,
    /// Way there, way back, and so on, of the questions.
    delays: Vec<i64>,
    /// The segments come hours later, so that the server's own time refuses nothing of them.
    is_late: bool,
}

impl NodeClock {
    fn boot(&self, at: i64) -> i64 {
        at * self.rate / 1_000
    }

    fn wall(&self, at: i64) -> i64 {
        let set: i64 = self.steps.iter().filter(|(when, _)| *when <= at).map(|(_, by)| by).sum();
        START + self.ahead_ms + self.boot(at) + set
    }

    /// What a clock can leave between the last question and a reading of the same segment.
    fn drift_ms(&self) -> i64 {
        (60_000 * 1_000 / self.rate + PROBE_MS + 1_000) * (self.rate - 1_000).abs() / 1_000
    }
}

fn node_clock() -> impl Strategy<Value = NodeClock> {
    let ahead_ms = prop_oneof![
        2 => -600_i64..600,
        2 => -7_000_i64..7_000,
        1 => -HOUR_MS..HOUR_MS,
        1 => -YEARS_MS..YEARS_MS,
    ];
    let rate = prop_oneof![3 => Just(1_000_i64), 2 => 999_i64..=1_001, 2 => 500_i64..=2_000];
    let by = prop_oneof![-8_000_i64..8_000, -2 * HOUR_MS..2 * HOUR_MS, -YEARS_MS..YEARS_MS];
    let steps = proptest::collection::vec((1_000..RUN_MS, by), 0..4);
    let delays = proptest::collection::vec(0_i64..400, 2..9);
    (ahead_ms, rate, steps, delays, any::<bool>()).prop_map(
        |(ahead_ms, rate, mut steps, delays, is_late)| {
            steps.sort_unstable();
            NodeClock { ahead_ms, rate, steps, delays, is_late }
        },
    )
}

/// A segment and the true times of its points.
struct Sealed {
    segment: Owned,
    true_at: Vec<i64>,
}

/// The agent: reads each second of its boot clock, cuts at its full minutes and where it was set.
struct Agent<'a> {
    clock: &'a NodeClock,
    /// Wall and boot.
    anchor: (i64, i64),
    /// Told by the server, and when, by wall and boot clock.
    told: Option<(ClockEstimate, (i64, i64))>,
    open: Vec<(i64, TrackPoint)>,
    from: i64,
    sealed: Vec<Sealed>,
}

impl Agent<'_> {
    fn placed(&self, boot: i64) -> i64 {
        self.anchor.0 + boot - self.anchor.1
    }

    fn check_clock(&mut self, at: i64) {
        let (wall, boot) = (self.clock.wall(at), self.clock.boot(at));
        let by_ms = wall - self.placed(boot);
        if by_ms.abs() <= STEP_MS {
            return;
        }
        self.seal(at);
        self.anchor = (wall, boot);
        self.from = wall;
    }

    fn read(&mut self, at: i64) {
        let placed = self.placed(self.clock.boot(at));
        self.open.push((at, TrackPoint { at: Timestamp(placed), busy: Reading::Number(50) }));
        if placed / 60_000 != (placed + 1_000) / 60_000 {
            self.seal(at);
        }
    }

    fn seal(&mut self, at: i64) {
        let Some((_, last)) = self.open.last() else { return };
        let (period, sequence) = (
            Period::new(Timestamp(self.from), last.at),
            u64::try_from(self.sealed.len()).unwrap() + 1,
        );
        self.from = last.at.0;
        let mut head = head(1, 1, sequence, period);
        head.clock.anchor_wall = Timestamp(self.anchor.0);
        head.clock.anchor_boot_ms = self.anchor.1;
        if let Some((estimate, (wall, boot))) = self.told {
            let aged_ms = (self.clock.boot(at) - boot) / 10_000;
            head.clock.offset_ms = Some(estimate.offset_ms + wall - self.placed(boot));
            head.clock.bound_ms = Some(estimate.bound_ms + aged_ms);
        }
        let (true_at, points): (Vec<i64>, Vec<TrackPoint>) = self.open.drain(..).unzip();
        let events = match sequence {
            1 => vec![started_event(period.start, 1)],
            _ => Vec::new(),
        };
        let block = Some(block(&steady(1_000, 1_000, 1, 50), &points));
        self.sealed.push(Sealed { segment: Owned { head, block, events }, true_at });
    }
}

/// Everything that the node seals and the server takes.
fn recorded(clock: &NodeClock) -> Vec<Sealed> {
    let anchor = (clock.wall(0), clock.boot(0));
    let mut agent =
        Agent { clock, anchor, told: None, open: Vec::new(), from: anchor.0, sealed: Vec::new() };
    let (mut filter, mut next_probe, mut probes) = (ClockFilter::default(), 0, 0);
    for tick in 1.. {
        let at = tick * 1_000 * 1_000 / clock.rate;
        if at > RUN_MS {
            break;
        }
        if at >= next_probe {
            let delay = |n: usize| clock.delays[n % clock.delays.len()];
            let (there, back) = (delay(probes), delay(probes + 1));
            let arrived = START + (clock.wall(at) - START);
            filter.on_exchange(&TimeExchange {
                server_sent_ms: START + at - there,
                agent_received_ms: arrived,
                agent_sent_ms: arrived,
                server_received_ms: START + at + back,
            });
            (next_probe, probes) = (at + PROBE_MS, probes + 2);
            let known = |estimate| (estimate, (clock.wall(at), clock.boot(at)));
            agent.told = filter.estimate().map(known);
        }
        agent.check_clock(at);
        agent.read(at);
    }
    agent.seal(RUN_MS);
    let latest = if clock.is_late { START + RUN_MS + YEARS_MS } else { START + RUN_MS };
    let is_taken = |sealed: &Sealed| {
        let period = sealed.segment.head.period;
        START - 6_000 <= period.start.0 && period.end.0 <= latest + 5_000
    };
    agent.sealed.into_iter().filter(is_taken).collect()
}

/// What is wrong with where the record has its points, if anything.
fn fault(clock: &NodeClock, sealed: &[Sealed]) -> Option<String> {
    for Sealed { segment, true_at } in sealed {
        let enrolled = Some(segment.head.period);
        let alone = World { enrolled, ..World::default() }.meter(std::slice::from_ref(segment));
        if total(&alone).measured_ms() == 0 {
            continue;
        }
        let points = &segment.block.as_ref().unwrap().track.points;
        for (point, at) in points.iter().zip(true_at) {
            let off_ms = (point.at.0 - START - at).abs();
            if off_ms > INVALID_MS + clock.drift_ms() {
                return Some(format!("measured at {}, true at {at}: {off_ms} ms off", point.at));
            }
        }
    }
    // What the server's time holds of it.
    let enrolled = Some(Period::new(Timestamp(START), Timestamp(START + RUN_MS)));
    let segments: Vec<Owned> = sealed.iter().map(|sealed| sealed.segment.clone()).collect();
    if segments.is_empty() {
        return None;
    }
    let records = World { enrolled, ..World::default() }.meter(&segments);
    let sum = total(&records);
    if sum.enrolled_ms != RUN_MS || !records.iter().all(|record| record.sum().is_conserved()) {
        return Some(format!("{} ms are enrolled, and {sum:?}", sum.enrolled_ms));
    }
    let down = DOWN.iter().find(|cause| sum.gaps.ms(**cause) > 0);
    down.map(|cause| format!("{} where nothing happened", cause.name()))
}

proptest! {
    // 60 clocks in the short run.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(60), ..ProptestConfig::default() })]

    #[test]
    fn no_clock_moves_what_was_measured(clock in node_clock()) {
        prop_assert_eq!(fault(&clock, &recorded(&clock)), None);
    }
}

/// The same look has to find a server that believes what a node's clock says.
#[test]
fn a_server_that_believes_a_clock_would_be_noticed() {
    let steady = NodeClock {
        ahead_ms: -1_000,
        rate: 1_000,
        steps: Vec::new(),
        delays: vec![3, 5],
        is_late: true,
    };
    for clock in [
        NodeClock { ahead_ms: HOUR_MS, ..steady.clone() },
        NodeClock { ahead_ms: 8_000, ..steady.clone() },
        NodeClock { rate: 2_000, ..steady.clone() },
        NodeClock { rate: 500, ahead_ms: 60_000, ..steady.clone() },
        NodeClock { steps: vec![(600_000, YEARS_MS)], ..steady.clone() },
        NodeClock { steps: vec![(600_000, 2 * HOUR_MS), (900_000, -HOUR_MS)], ..steady.clone() },
    ] {
        let mut sealed = recorded(&clock);
        assert_eq!(fault(&clock, &sealed), None, "{clock:?}");
        for Sealed { segment, .. } in &mut sealed {
            (segment.head.clock.offset_ms, segment.head.clock.bound_ms) = (None, None);
        }
        assert!(fault(&clock, &sealed).is_some(), "{clock:?}");
    }
}

/// A clock that is right is measured whole: the bound is not kept by measuring nothing.
#[test]
fn a_clock_that_is_right_or_set_right_is_measured() {
    let right = NodeClock {
        ahead_ms: -40,
        rate: 1_000,
        steps: Vec::new(),
        delays: vec![3, 5],
        is_late: false,
    };
    let set_right =
        NodeClock { ahead_ms: -HOUR_MS, steps: vec![(300_000, HOUR_MS)], ..right.clone() };
    for (clock, least_ms) in [(right, RUN_MS - 5_000), (set_right, RUN_MS - 380_000)] {
        let segments: Vec<Owned> =
            recorded(&clock).into_iter().map(|sealed| sealed.segment).collect();
        let enrolled = Some(Period::new(Timestamp(START), Timestamp(START + RUN_MS)));
        let sum = total(&World { enrolled, ..World::default() }.meter(&segments));
        assert!(sum.measured_ms() >= least_ms, "{} ms of {clock:?}", sum.measured_ms());
    }
}
