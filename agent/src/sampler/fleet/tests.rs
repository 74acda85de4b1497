mod allocations;

use leasewatch_core::id::GpuUuid;
use leasewatch_core::segment::{EventKind, GpuWiring, Unread};

use super::super::watch::tests::{answer, events, gpu, gpu_at, reads};
use super::{Effects, Fleet, Order, Scan, ScanError, Timing};
use crate::source::nvml::{Failure, FoundGpu, Gone, Lane, Versions};

fn scan(gpus: &[FoundGpu]) -> Scan {
    let versions = Versions { driver: "580.95.05".to_owned(), ..Versions::default() };
    Scan { gpus: gpus.to_vec(), failures: Vec::new(), unanswered: 0, versions }
}

struct Case {
    fleet: Fleet,
    out: Effects,
}

impl Case {
    fn new(known: &[FoundGpu]) -> Self {
        let known = known.iter().map(|gpu| (gpu.bus_id.clone(), gpu.uuid.clone())).collect();
        Self { fleet: Fleet::new(Timing::default(), known, 0), out: Effects::default() }
    }

    fn with(gpus: &[FoundGpu]) -> Self {
        let mut case = Self::new(&[]);
        case.scan(500, scan(gpus));
        case.out = Effects::default();
        case
    }

    fn scan(&mut self, now_ms: i64, scan: Scan) -> Option<Versions> {
        let generation = self.fleet.generation;
        self.fleet.on_scan(now_ms, (generation, Ok(scan)), &mut self.out)
    }

    fn closed(&mut self, now_ms: i64, code: u32) -> Option<Versions> {
        let failed = (self.fleet.generation, Err(ScanError { code, closed: true }));
        self.fleet.on_scan(now_ms, failed, &mut self.out)
    }

    fn tick(&mut self, tick_ms: i64) {
        self.fleet.on_tick(tick_ms, 0, &mut self.out);
    }

    fn take_events(&mut self) -> Vec<EventKind> {
        let kinds = events(&self.out);
        self.out = Effects::default();
        kinds
    }

    /// Orders to read since the last look, as (uuid, reader, lane).
    fn take_reads(&mut self) -> Vec<(GpuUuid, u64, Lane)> {
        let orders = std::mem::take(&mut self.out.orders);
        let read = |order| match order {
            Order::Read { uuid, reader, lane } => Some((uuid, reader, lane)),
            _ => None,
        };
        orders.into_iter().filter_map(read).collect()
    }

    fn ordered_scans(&self) -> usize {
        self.out.orders.iter().filter(|order| matches!(order, Order::Scan)).count()
    }

    fn lost(&self, gpu: &FoundGpu) -> bool {
        self.fleet.live().iter().any(|live| live.uuid == gpu.uuid && live.lost)
    }
}

#[test]
fn a_scan_attaches_each_gpu_once_and_describes_the_host_once() {
    let mut case = Case::new(&[]);
    assert!(case.scan(500, scan(&[gpu(1), gpu(2)])).is_some());
    let attached = case.out.orders.iter().filter(|o| matches!(o, Order::Attach { .. })).count();
    assert_eq!(attached, 2);
    let seen = [gpu(1), gpu(2)].map(|gpu| EventKind::GpuSeen(gpu.inventory));
    assert_eq!(case.take_events(), seen);
    assert_eq!(case.scan(30_000, scan(&[gpu(2), gpu(1)])), None);
    assert_eq!(case.take_events(), []);
    assert!(case.out.orders.is_empty());
}

#[test]
fn the_slow_lane_is_spread_over_the_ticks() {
    let mut case = Case::with(&[gpu(1), gpu(2), gpu(3)]);
    let mut slow = Vec::new();
    for tick in 1..=31 {
        case.tick(tick * 1_000);
        for (uuid, reader, lane) in case.take_reads() {
            case.fleet.on_reply(
                tick * 1_000 + 3,
                &uuid,
                (reader, Ok(answer(tick * 1_000 + 1, 10))),
                &mut Effects::default(),
            );
            if lane == Lane::Slow && tick > 1 {
                slow.push(tick);
            }
        }
    }
    assert_eq!(slow, [13, 14, 15, 28, 29, 30]);
}

#[test]
fn a_hung_gpu_does_not_hold_up_the_others_or_the_watermark_for_ever() {
    let mut case = Case::with(&[gpu(1), gpu(2)]);
    for tick in 1..=10_i64 {
        let tick_ms = tick * 1_000;
        case.tick(tick_ms);
        for (uuid, reader, _) in case.take_reads() {
            if uuid == gpu(2).uuid {
                let reply = (reader, Ok(answer(tick_ms + 2, 30)));
                case.fleet.on_reply(tick_ms + 4, &uuid, reply, &mut case.out);
            }
        }
        let expected = if tick < 6 { 999 } else { tick_ms };
        assert_eq!(case.fleet.watermark(tick_ms), expected, "tick {tick}");
        assert_eq!(case.fleet.is_settled(), tick >= 6);
    }
    let healthy = reads(&case.out).iter().filter(|read| read.uuid == gpu(2).uuid).count();
    assert_eq!(healthy, 10);
    assert_eq!(events(&case.out), [EventKind::CollectorStalled]);
}

#[test]
fn a_gpu_that_is_not_listed_any_more_is_lost_and_may_come_back() {
    let mut case = Case::with(&[gpu(1), gpu(2)]);
    case.scan(30_000, scan(&[gpu(1)]));
    assert_eq!(case.take_events(), [EventKind::GpuLost { nvml_code: 28 }]);
    assert!(case.lost(&gpu(2)));
    case.scan(60_000, scan(&[gpu(1)]));
    assert_eq!(case.take_events(), [], "told once");
    case.scan(90_000, scan(&[gpu(1), gpu(2)]));
    case.tick(91_000);
    for (uuid, reader, _) in case.take_reads() {
        case.fleet.on_reply(91_004, &uuid, (reader, Ok(answer(91_002, 1))), &mut case.out);
    }
    assert_eq!(case.take_events(), [EventKind::GpuBack]);
    assert!(!case.lost(&gpu(2)));
}

#[test]
fn an_incomplete_list_loses_nobody() {
    let mut case = Case::with(&[gpu(1), gpu(2)]);
    let mut unnamed = scan(&[gpu(1)]);
    unnamed.failures.push(Failure::Failed(999));
    case.scan(30_000, unnamed);
    assert_eq!(case.take_events(), []);
    assert!(!case.lost(&gpu(2)));
}

#[test]
fn another_gpu_in_the_same_place_is_a_replacement() {
    let mut case = Case::with(&[gpu(1)]);
    let new = gpu_at("GPU-ffffffff", 1);
    case.scan(30_000, scan(std::slice::from_ref(&new)));
    assert_eq!(
        case.take_events(),
        [
            EventKind::GpuReplaced {
                bus_id: new.bus_id.clone(),
                old: gpu(1).uuid,
                new: new.uuid.clone()
            },
            EventKind::GpuSeen(new.inventory),
        ]
    );
}

#[test]
fn known_gpus_that_are_not_there_are_missing_or_replaced() {
    let mut case = Case::new(&[gpu(1), gpu(2), gpu(3)]);
    let other = gpu_at("GPU-ffffffff", 2);
    case.scan(500, scan(&[gpu(1), other.clone()]));
    let expected = [
        EventKind::GpuSeen(gpu(1).inventory),
        EventKind::GpuSeen(other.inventory.clone()),
        EventKind::GpuReplaced { bus_id: gpu(2).bus_id, old: gpu(2).uuid, new: other.uuid.clone() },
        EventKind::GpuMissing { bus_id: gpu(3).bus_id },
    ];
    assert_eq!(case.take_events(), expected);
    case.scan(30_000, scan(&[gpu(1), other.clone(), gpu(3)]));
    assert_eq!(case.take_events(), [EventKind::GpuBack, EventKind::GpuSeen(gpu(3).inventory)]);
}

#[test]
fn known_gpus_are_not_missing_while_one_has_not_told_its_name() {
    let mut case = Case::new(&[gpu(1), gpu(2)]);
    let mut hung = scan(&[gpu(1)]);
    hung.unanswered = 1;
    case.scan(5_500, hung);
    let seen = EventKind::GpuSeen(gpu(1).inventory);
    assert_eq!(case.take_events(), [EventKind::CollectorStalled, seen]);
    case.scan(30_000, scan(&[gpu(1), gpu(2)]));
    let resumed = EventKind::CollectorResumed { stalled_ms: 24_500 };
    assert_eq!(case.take_events(), [resumed, EventKind::GpuSeen(gpu(2).inventory)]);
}

#[test]
fn zero_gpus_is_a_state_that_is_told_each_minute() {
    let mut case = Case::new(&[]);
    for (now_ms, expected) in [(500, 1), (30_000, 0), (60_500, 1), (90_000, 0)] {
        case.scan(now_ms, scan(&[]));
        assert_eq!(case.take_events(), vec![EventKind::NoGpuAttached; expected], "at {now_ms}");
    }
    case.scan(120_000, scan(&[gpu(1)]));
    case.take_events();
    case.scan(150_000, scan(&[]));
    assert_eq!(
        case.take_events(),
        [EventKind::GpuLost { nvml_code: 28 }, EventKind::NoGpuAttached]
    );
}

#[test]
fn a_missing_library_is_told_and_tried_again_ever_more_rarely() {
    let mut case = Case::new(&[]);
    assert_eq!(case.closed(1_000, 12), Some(Versions::default()), "the host is described anyway");
    assert_eq!(case.take_events(), [EventKind::NvmlUnavailable { nvml_code: 12 }]);
    let mut tried = Vec::new();
    for tick in 2..=90_i64 {
        case.tick(tick * 1_000);
        if case.ordered_scans() > 0 {
            case.out = Effects::default();
            tried.push(tick);
            assert_eq!(case.closed(tick * 1_000, 12), None);
        }
    }
    assert_eq!(tried, [3, 7, 15, 31, 61]);
    assert!(!case.fleet.is_nvml_available());
    let told = case.take_events();
    assert_eq!(told, [EventKind::NvmlUnavailable { nvml_code: 12 }], "once more after a minute");
    case.scan(91_000, scan(&[gpu(1)]));
    assert_eq!(case.take_events(), [EventKind::GpuSeen(gpu(1).inventory)], "no reload");
}

#[test]
fn a_lost_driver_is_closed_once_and_its_return_is_a_reload() {
    let mut case = Case::with(&[gpu(1), gpu(2)]);
    case.tick(1_000);
    for (uuid, reader, _) in case.take_reads() {
        case.fleet.on_reply(1_002, &uuid, (reader, Err(Gone::NoDriver(1))), &mut case.out);
    }
    let is_close = |order: &&Order| matches!(order, Order::Reinitialise { generation: 1 });
    assert_eq!(case.out.orders.iter().filter(is_close).count(), 1);
    assert_eq!(case.ordered_scans(), 1);
    assert_eq!(case.take_events(), [EventKind::NvmlUnavailable { nvml_code: 1 }]);
    case.tick(2_000);
    assert_eq!(case.take_reads(), [], "nobody reads through a closed library");

    let before = case.fleet.generation - 1;
    case.fleet.on_scan(2_500, (before, Ok(scan(&[gpu(1)]))), &mut case.out);
    assert_eq!(case.take_events(), [], "a scan from before the loss is void");
    case.closed(3_000, 9);
    assert_eq!(case.take_events(), [EventKind::NvmlUnavailable { nvml_code: 9 }]);
    case.scan(9_000, scan(&[gpu(1), gpu(2)]));
    assert_eq!(case.take_events(), [EventKind::DriverReloaded]);
    case.tick(10_000);
    assert_eq!(case.take_reads().len(), 2);
}

#[test]
fn a_list_that_fails_once_loses_nobody() {
    let mut case = Case::with(&[gpu(1)]);
    let failed = (0, Err(ScanError { code: 999, closed: false }));
    assert_eq!(case.fleet.on_scan(30_000, failed, &mut case.out), None);
    assert_eq!(case.take_events(), []);
    case.tick(31_000);
    assert_eq!(case.take_reads().len(), 1);
}

#[test]
fn nvml_that_does_not_return_is_noticed() {
    let mut case = Case::new(&[]);
    for tick in 0..=12_i64 {
        case.tick(tick * 1_000);
    }
    assert_eq!(case.take_events(), [EventKind::CollectorStalled]);
    case.scan(12_500, scan(&[gpu(1)]));
    let resumed = EventKind::CollectorResumed { stalled_ms: 12_500 };
    assert_eq!(case.take_events(), [resumed, EventKind::GpuSeen(gpu(1).inventory)]);
}

#[test]
fn a_gpu_that_is_lost_before_it_told_its_name_is_an_event_of_the_node() {
    let mut case = Case::new(&[]);
    for _ in 0..2 {
        let mut lost = scan(&[gpu(1)]);
        lost.failures.push(Failure::Lost(15));
        case.scan(500, lost);
    }
    let seen = EventKind::GpuSeen(gpu(1).inventory);
    assert_eq!(case.take_events(), [EventKind::GpuLost { nvml_code: 15 }, seen]);
}

#[test]
fn one_name_claimed_twice_is_read_once() {
    let mut case = Case::new(&[]);
    case.scan(500, scan(&[gpu(1), gpu_at("GPU-00000001", 2)]));
    assert_eq!(case.fleet.live().len(), 1);
}

#[test]
fn names_that_change_without_end_take_no_more_room() {
    let mut case = Case::new(&[]);
    for n in 0..500_u32 {
        let fresh = gpu_at(&format!("GPU-{n:08x}"), n % 250);
        case.scan(i64::from(n) * 30_000, scan(&[fresh]));
        case.out = Effects::default();
    }
    assert!(case.fleet.live().len() <= super::GPUS_MAX);
}

#[test]
fn ticks_that_were_not_taken_are_counted_for_the_node() {
    let mut case = Case::with(&[]);
    case.fleet.on_tick(1_000, 0, &mut case.out);
    case.fleet.on_tick(9_000, 7, &mut case.out);
    case.take_events();
    case.fleet.on_tick(61_000, 0, &mut case.out);
    assert_eq!(case.take_events(), [EventKind::TicksMissed { count: 7 }]);
}

#[test]
fn nvml_is_opened_anew_for_a_lost_gpu_ever_more_rarely_and_not_while_a_call_hangs() {
    let mut case = Case::with(&[gpu(1), gpu(2)]);
    let (mut reopened, mut hung) = (Vec::new(), None);
    for tick in 1..=1_000_i64 {
        let tick_ms = tick * 1_000;
        case.tick(tick_ms);
        for order in std::mem::take(&mut case.out.orders) {
            let (uuid, reader) = match order {
                Order::Read { uuid, reader, .. } => (uuid, reader),
                Order::Reinitialise { .. } => {
                    reopened.push(tick);
                    continue;
                }
                Order::Scan => {
                    case.scan(tick_ms + 8, scan(&[gpu(1), gpu(2)]));
                    continue;
                }
                _ => continue,
            };
            let is_lost = uuid == gpu(1).uuid;
            let reply = if is_lost { Err(Gone::Lost(15)) } else { Ok(answer(tick_ms + 2, 30)) };
            if tick == 121 && !is_lost {
                hung = Some(reader);
            } else {
                case.fleet.on_reply(tick_ms + 4, &uuid, (reader, reply), &mut case.out);
            }
        }
        if let Some(reader) = hung.take_if(|_| tick == 130) {
            let reply = (reader, Ok(answer(tick_ms + 2, 30)));
            case.fleet.on_reply(tick_ms + 4, &gpu(2).uuid, reply, &mut case.out);
        }
    }
    assert_eq!(reopened, [131, 371, 851]);
    let lost = EventKind::GpuLost { nvml_code: 15 };
    let resumed = EventKind::CollectorResumed { stalled_ms: 9_004 };
    assert_eq!(case.take_events(), [lost, EventKind::CollectorStalled, resumed]);
}

#[test]
fn a_driver_that_fails_at_each_first_read_is_opened_ever_more_rarely() {
    let mut case = Case::with(&[gpu(1)]);
    let mut lost = Vec::new();
    for tick in 1..=120_i64 {
        let tick_ms = tick * 1_000;
        case.tick(tick_ms);
        for order in std::mem::take(&mut case.out.orders) {
            if let Order::Read { uuid, reader, .. } = order {
                lost.push(tick);
                let reply = (reader, Err(Gone::NoDriver(1)));
                case.fleet.on_reply(tick_ms + 1, &uuid, reply, &mut case.out);
            }
        }
        if case.ordered_scans() > 0 || case.fleet.scanning_since_ms.is_some() {
            case.scan(tick_ms + 8, scan(&[gpu(1)]));
        }
    }
    assert_eq!(lost, [1, 2, 7, 16, 33, 65, 97]);
}

#[test]
fn wiring_is_told_of_gpus_that_are_there_and_when_it_is_new() {
    let mut case = Case::with(&[gpu(1)]);
    let wiring = |cpus: &str| GpuWiring {
        numa_nodes: Err(Unread::Unsupported),
        cpus: Ok(cpus.to_owned()),
        nvlinks: Ok(Vec::new()),
        paths: Vec::new(),
    };
    for (of, cpus) in [(1, "0-7"), (1, "0-7"), (2, "0-7"), (1, "8-15"), (1, "0-7")] {
        case.fleet.on_wiring(600, (gpu(of).uuid, wiring(cpus)), &mut case.out);
    }
    let told = ["0-7", "8-15", "0-7"].map(|cpus| EventKind::GpuWired(wiring(cpus)));
    assert_eq!(case.take_events(), told);
}
