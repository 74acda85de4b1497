use leasewatch_core::id::{BusId, GpuUuid};
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::{EventKind, GpuInventory, TrackSource};

use super::super::fleet::{Effects, Order, Timing};
use super::Watch;
use crate::observation::{GpuObservation, Observation};
use crate::source::nvml::{FAST_LANE, FoundGpu, Gone, GpuRead, Lane, TrackPlan};

/// GPU number `n` in its own place.
pub(in crate::sampler) fn gpu(n: u32) -> FoundGpu {
    gpu_at(&format!("GPU-{n:08x}"), n)
}

/// The GPU `uuid` in place `n`.
pub(in crate::sampler) fn gpu_at(uuid: &str, n: u32) -> FoundGpu {
    let uuid = GpuUuid::new(uuid).expect("a valid uuid");
    let bus_id = BusId::new(&format!("00000000:{n:02X}:00.0")).expect("a valid bus id");
    let inventory = GpuInventory {
        uuid: uuid.clone(),
        bus_id: bus_id.clone(),
        index: i64::from(n),
        name: "NVIDIA H100 80GB HBM3".to_owned(),
        pci_device_id: 0x2330_10de,
        serial: None,
        vbios: None,
        part_number: None,
        memory_total_mib: Some(81_559),
        power_limit_default_mw: Some(700_000),
        power_limit_management_mw: Some(700_000),
        pcie_generation_max: Some(5),
        pcie_width_max: Some(16),
        mig: false,
        partition: None,
    };
    FoundGpu { index: n, uuid, bus_id, inventory }
}

/// What a reader answers: `busy` at `at_boot_ms`.
pub(in crate::sampler) fn answer(at_boot_ms: i64, busy: i64) -> GpuRead {
    GpuRead {
        at_boot_ms,
        readings: vec![
            (Metric::PowerDraw, Reading::Number(311_649)),
            (Metric::Temperature, Reading::Number(54)),
        ],
        plan: TrackPlan::poll(1_000),
        points: vec![(at_boot_ms, Reading::Number(busy))],
        slices: Some(Vec::new()),
    }
}

/// The events of some effects.
pub(in crate::sampler) fn events(out: &Effects) -> Vec<EventKind> {
    let kind = |seen: &Observation| match seen {
        Observation::Event(event) => Some(event.kind.clone()),
        _ => None,
    };
    out.observations.iter().filter_map(kind).collect()
}

/// The GPU observations of some effects.
pub(in crate::sampler) fn reads(out: &Effects) -> Vec<&GpuObservation> {
    fn read(seen: &Observation) -> Option<&GpuObservation> {
        match seen {
            Observation::Gpu(gpu) => Some(gpu),
            _ => None,
        }
    }
    out.observations.iter().filter_map(read).collect()
}

struct Case {
    watch: Watch,
    timing: Timing,
    out: Effects,
}

impl Case {
    fn new() -> Self {
        let mut watch = Watch::new(gpu(1), 1_000);
        watch.attach(7);
        Self { watch, timing: Timing::default(), out: Effects::default() }
    }

    fn tick(&mut self, tick_ms: i64) {
        self.watch.check(tick_ms, &self.timing, &mut self.out);
        self.watch.on_tick(tick_ms, false, &mut self.out);
    }

    fn reply(&mut self, now_ms: i64, reply: Result<GpuRead, Gone>) -> Option<Gone> {
        self.watch.on_reply(now_ms, (7, reply), &mut self.out)
    }

    /// A tick and its answer.
    fn sample(&mut self, tick_ms: i64, busy: i64) {
        self.tick(tick_ms);
        assert_eq!(self.reply(tick_ms + 4, Ok(answer(tick_ms + 2, busy))), None);
    }

    fn points(&self) -> Vec<(i64, Reading)> {
        reads(&self.out).iter().flat_map(|read| read.track.points.clone()).collect()
    }
}

#[test]
fn each_tick_gives_one_read_rounded_and_in_order() {
    let mut case = Case::new();
    case.sample(1_000, 40);
    case.sample(2_000, 41);
    assert_eq!(case.points(), [(1_002, Reading::Number(40)), (2_002, Reading::Number(41))]);
    assert_eq!(reads(&case.out)[0].readings[0], (Metric::PowerDraw, Reading::Number(311_600)));
    let lanes: Vec<_> = case
        .out
        .orders
        .iter()
        .map(|order| match order {
            Order::Read { lane, reader: 7, .. } => *lane,
            other => panic!("unexpected order {other:?}"),
        })
        .collect();
    assert_eq!(lanes, [Lane::Slow, Lane::Fast], "the first read takes everything");
    assert_eq!(case.watch.live.busy, Some(Reading::Number(41)));
}

#[test]
fn a_slow_answer_keeps_its_own_time_and_the_ticks_it_cost_are_counted() {
    let mut case = Case::new();
    for tick in [1_000, 2_000, 3_000] {
        case.tick(tick);
        assert_eq!(case.watch.owes_from(), Some(1_000));
    }
    case.reply(3_400, Ok(answer(1_200, 55)));
    assert_eq!(case.points(), [(1_200, Reading::Number(55))], "not shifted to a later tick");
    assert_eq!(case.watch.owes_from(), None);
    case.watch.flush(60_000, &mut case.out);
    assert_eq!(events(&case.out), [EventKind::TicksMissed { count: 2 }]);
    case.watch.flush(120_000, &mut case.out);
    assert_eq!(events(&case.out).len(), 1, "counted once");
}

#[test]
fn a_call_that_hangs_is_stale_at_each_of_its_ticks_and_never_a_number() {
    let mut case = Case::new();
    case.sample(1_000, 40);
    for tick in [2_000, 3_000, 4_000, 5_000, 6_000] {
        case.tick(tick);
    }
    assert_eq!(case.points().len(), 1, "nothing is said before the watchdog gives up");
    for tick in [7_000, 8_000] {
        case.tick(tick);
    }
    assert_eq!(events(&case.out), [EventKind::CollectorStalled], "told once");
    assert_eq!(case.watch.live.stalled_ms(8_000), Some(6_000));
    let stale: Vec<_> = (2..=8).map(|s| (s * 1_000, Reading::Stale)).collect();
    assert_eq!(case.points()[1..], stale);
    for read in &reads(&case.out)[1..] {
        assert_eq!(read.readings.len(), FAST_LANE.len());
        assert!(read.readings.iter().all(|(_, reading)| *reading == Reading::Stale));
    }
    assert_eq!(case.watch.owes_from(), None, "it holds up nobody's segment");

    case.reply(8_500, Ok(answer(2_001, 99)));
    assert_eq!(case.points().len(), 8, "what it says at last is not recorded");
    assert_eq!(events(&case.out)[1..], [EventKind::CollectorResumed { stalled_ms: 6_500 }]);
    assert_eq!(case.watch.live.stalled_ms(9_000), None);
    case.sample(9_000, 12);
    assert_eq!(case.points().last(), Some(&(9_002, Reading::Number(12))));
}

#[test]
fn a_gpu_that_hangs_before_its_first_answer_has_a_polled_track() {
    let mut case = Case::new();
    for tick in 1..=7 {
        case.tick(tick * 1_000);
    }
    let first = &reads(&case.out)[0].track;
    assert_eq!((first.source, first.period_ms), (TrackSource::Poll, 1_000));
}

#[test]
fn a_lost_gpu_is_an_event_once_and_silent_until_it_answers() {
    let mut case = Case::new();
    case.sample(1_000, 40);
    case.tick(2_000);
    assert_eq!(case.reply(2_001, Err(Gone::Lost(15))), Some(Gone::Lost(15)));
    case.tick(3_000);
    assert_eq!(case.reply(3_001, Err(Gone::Lost(15))), None, "no news");
    assert_eq!(events(&case.out), [EventKind::GpuLost { nvml_code: 15 }]);
    assert_eq!(case.points().len(), 1);
    assert!(case.watch.live.lost && case.watch.live.busy.is_none());
    case.sample(4_000, 0);
    assert_eq!(events(&case.out)[1..], [EventKind::GpuBack]);
    assert_eq!(case.points().last(), Some(&(4_002, Reading::Number(0))));
}

#[test]
fn a_lost_gpu_whose_calls_hang_gives_no_stale_readings() {
    let mut case = Case::new();
    case.tick(1_000);
    case.reply(1_001, Err(Gone::Lost(16)));
    for tick in 2..=12 {
        case.tick(tick * 1_000);
    }
    assert_eq!(
        events(&case.out),
        [EventKind::GpuLost { nvml_code: 16 }, EventKind::CollectorStalled]
    );
    assert_eq!(reads(&case.out).len(), 0);
}

#[test]
fn implausible_numbers_are_errors_and_counted() {
    let mut case = Case::new();
    case.tick(1_000);
    let mut read = answer(1_002, 101);
    read.readings = vec![(Metric::Temperature, Reading::Number(4_000))];
    case.reply(1_004, Ok(read));
    assert_eq!(case.points(), [(1_002, Reading::Error)]);
    assert_eq!(reads(&case.out)[0].readings, [(Metric::Temperature, Reading::Error)]);
    case.watch.flush(60_000, &mut case.out);
    let dropped = |metric: &str| EventKind::ReadingsDropped { metric: metric.to_owned(), count: 1 };
    assert_eq!(events(&case.out), [dropped("busy_pct"), dropped("temperature_c")]);
}

#[test]
fn answers_of_a_reader_that_was_given_up_do_not_count() {
    let mut case = Case::new();
    case.tick(1_000);
    case.watch.detach();
    case.reply(1_004, Ok(answer(1_002, 40)));
    case.watch.attach(8);
    case.tick(2_000);
    case.reply(2_004, Ok(answer(2_002, 40)));
    assert_eq!(reads(&case.out).len(), 0);
    case.watch.on_reply(2_010, (8, Ok(answer(2_003, 50))), &mut case.out);
    assert_eq!(case.points(), [(2_003, Reading::Number(50))]);
}

#[test]
fn times_never_go_back() {
    let mut case = Case::new();
    case.sample(1_000, 40);
    case.tick(2_000);
    case.reply(2_004, Ok(answer(1_002, 41)));
    assert_eq!(case.points(), [(1_002, Reading::Number(40))]);
    case.watch.flush(60_000, &mut case.out);
    assert_eq!(events(&case.out), [EventKind::TicksMissed { count: 1 }]);
}
