use leasewatch_core::evidence::chain::{open, seal};
use leasewatch_core::id::{BusId, Sequence};
use leasewatch_core::segment::{EventKind, GpuInventory};

use super::*;
use crate::recorder::fixture::{START, gpu, gpu_observation, head_draft, key, slice_observation};

const SECOND: i64 = 1_000;

fn anchor() -> Anchor {
    Anchor::at(START)
}

fn event(at_boot_ms: i64, urgent: bool) -> Observation {
    let kind = EventKind::NoGpuAttached;
    Observation::Event(EventObservation { at_boot_ms, gpu: None, kind, urgent })
}

/// Feeds two GPUs each second of `seconds` after [`START`] and closes what is due.
fn record(gathering: &mut Gathering, seconds: std::ops::Range<i64>) -> Vec<Content> {
    let mut closed = Vec::new();
    for second in seconds {
        let at = START.boot_ms + second * SECOND;
        gathering.on_observation(gpu(1, at));
        gathering.on_observation(gpu(2, at + 3));
        while let Some(cut) = gathering.due(at + 3) {
            closed.extend(gathering.close(cut, anchor()));
        }
    }
    closed
}

/// Seals and opens the content, so that every rule of the format holds, and gives its GPU blocks'
/// tick counts.
fn ticks(content: &Content) -> Vec<usize> {
    let mut draft = head_draft(Sequence::FIRST, None);
    draft.period = content.period(anchor());
    let sealed = seal(draft, &content.blocks(anchor()), &key()).unwrap();
    let signed = &sealed.signed;
    let public = key().verifying_key();
    let opened = open(&signed.statement, &signed.signature, &sealed.blocks, &public).unwrap();
    let gpu_ticks = |block: &Block| match block {
        Block::Gpu(gpu) => Some(gpu.ticks.len()),
        _ => None,
    };
    opened.blocks.iter().filter_map(gpu_ticks).collect()
}

#[test]
fn all_gpus_are_cut_at_full_minutes_and_nothing_is_lost() {
    let mut gathering = Gathering::new(anchor(), START.boot_ms);
    let closed = record(&mut gathering, 1..200);
    let periods: Vec<Period> = closed.iter().map(|content| content.period(anchor())).collect();
    // The first weight begins one period before the first point.
    assert_eq!(periods[0].start, START.wall);
    assert_eq!(periods[0].end, START.wall.plus_ms(50_000));
    for pair in periods.windows(2) {
        assert_eq!(pair[0].end, pair[1].start);
        assert_eq!(pair[1].ms(), 60_000);
        assert_eq!(pair[1].end.0 % 60_000, 0);
    }
    // GPU 2 answers 3 ms behind each second, so its reading at the minute belongs to the next.
    assert_eq!(closed.iter().map(ticks).collect::<Vec<_>>(), [[50, 49], [60, 60], [60, 60]]);
}

#[test]
fn an_urgent_event_closes_early_but_not_more_often_than_every_five_seconds() {
    let mut gathering = Gathering::new(anchor(), START.boot_ms);
    record(&mut gathering, 1..10);
    let at = |second: i64| START.boot_ms + second * SECOND;
    gathering.on_observation(event(at(10), true));
    assert_eq!(gathering.due(at(10) - 1), None);
    assert_eq!(gathering.due(at(10)), Some(at(10)));
    assert!(gathering.close(at(10), anchor()).is_some());
    gathering.on_observation(event(at(11), true));
    assert_eq!(gathering.due(at(14)), None);
    assert_eq!(gathering.due(at(15)), Some(at(15)));
    let second = gathering.close(at(15), anchor()).unwrap();
    assert_eq!(second.period(anchor()).start, anchor().wall_of(at(10)));
}

#[test]
fn the_first_sight_of_a_gpu_is_delivered_with_its_first_readings() {
    let mut gathering = Gathering::new(anchor(), START.boot_ms);
    let at = |second: i64| START.boot_ms + second * SECOND;
    let seen = |second| {
        let gpu = gpu_observation(1, at(second));
        let inventory = GpuInventory {
            uuid: gpu.uuid.clone(),
            bus_id: gpu.bus_id,
            index: 0,
            name: "GPU of a test".to_owned(),
            pci_device_id: 0,
            serial: None,
            vbios: None,
            part_number: None,
            memory_total_mib: None,
            power_limit_default_mw: None,
            power_limit_management_mw: None,
            pcie_generation_max: None,
            pcie_width_max: None,
            mig: false,
            partition: None,
        };
        let (gpu, kind) = (Some(gpu.uuid), EventKind::GpuSeen(inventory));
        Observation::Event(EventObservation { at_boot_ms: at(second), gpu, kind, urgent: false })
    };
    gathering.on_observation(seen(1));
    record(&mut gathering, 1..4);
    assert_eq!(gathering.due(at(3)), None);
    assert_eq!(gathering.due(at(4)), Some(at(4)));
    assert!(gathering.close(at(4), anchor()).is_some());
    // Later sights wait for the minute like everything else.
    gathering.on_observation(seen(6));
    assert_eq!(gathering.due(at(20)), None);
}

#[test]
fn another_gpu_in_the_same_place_waits_for_the_next_segment() {
    let mut gathering = Gathering::new(anchor(), START.boot_ms);
    record(&mut gathering, 1..10);
    let at = START.boot_ms + 10 * SECOND;
    let mut replaced = gpu_observation(9, at);
    replaced.bus_id = BusId::new("00000000:01:00.0").unwrap();
    gathering.on_observation(Observation::Gpu(replaced));
    assert_eq!(gathering.due(at), Some(at));
    assert_eq!(ticks(&gathering.close(at, anchor()).unwrap()), [9, 9]);
    let next = gathering.close(at + 1, anchor()).unwrap();
    assert_eq!(ticks(&next), [1]);
    assert!(next.period(anchor()).contains(anchor().wall_of(at)));
}

#[test]
fn slices_share_a_segment_with_their_gpu_and_with_no_other() {
    let mut gathering = Gathering::new(anchor(), START.boot_ms);
    let at = |second: i64| START.boot_ms + second * SECOND;
    for second in 1..4 {
        gathering.on_observation(gpu(1, at(second)));
        for slice in [9, 10] {
            gathering.on_observation(Observation::Gpu(slice_observation(slice, at(second) + 1)));
        }
    }
    assert_eq!(gathering.due(at(4)), None, "nothing waits");
    // Another GPU takes the place: neither it nor its slices stand in one segment with the old.
    let mut exchanged = gpu_observation(1, at(5));
    exchanged.uuid = GpuUuid::new("GPU-other").unwrap();
    gathering.on_observation(Observation::Gpu(exchanged.clone()));
    assert_eq!(gathering.due(at(6)), Some(at(6)));
    let first = gathering.close(at(6), anchor()).unwrap();
    assert_eq!(ticks(&first), [3, 3, 3]);
    let mut slice = slice_observation(9, at(7));
    slice.partition.as_mut().unwrap().parent = exchanged.uuid;
    gathering.on_observation(Observation::Gpu(slice));
    assert_eq!(ticks(&gathering.close(at(8), anchor()).unwrap()), [1, 1]);
}

#[test]
fn a_fast_cadence_closes_before_the_format_is_full() {
    let mut gathering = Gathering::new(anchor(), START.boot_ms);
    let mut segments = 0;
    let mut recorded = 0;
    for tick in 1..=590 {
        let at = START.boot_ms + tick * 100;
        gathering.on_observation(gpu(1, at));
        while let Some(cut) = gathering.due(at) {
            let content = gathering.close(cut, anchor()).unwrap();
            recorded += ticks(&content)[0];
            segments += 1;
        }
    }
    recorded += ticks(&gathering.close(START.boot_ms + 59_000, anchor()).unwrap())[0];
    assert_eq!((recorded, segments), (590, 2));
}

#[test]
fn a_suspend_is_no_part_of_a_period() {
    let mut gathering = Gathering::new(anchor(), START.boot_ms);
    record(&mut gathering, 1..51);
    let hour = 3_600;
    let closed = record(&mut gathering, hour..hour + 61);
    let period = closed.last().unwrap().period(anchor());
    let first_point = anchor().wall_of(START.boot_ms + hour * SECOND);
    assert_eq!(period.start, first_point.plus_ms(-SECOND));
    assert!(period.ms() <= 61_000);
    closed.iter().for_each(|content| assert!(!ticks(content).is_empty()));
}

#[test]
fn more_events_than_a_block_holds_are_spread_over_segments() {
    let mut gathering = Gathering::new(anchor(), START.boot_ms);
    let at = START.boot_ms + SECOND;
    for _ in 0..2_500 {
        gathering.on_observation(event(at, false));
    }
    let mut counts = Vec::new();
    while let Some(cut) = gathering.due(at + 1) {
        counts.push(gathering.close(cut, anchor()).unwrap().events.len());
    }
    counts.push(gathering.open.events.len());
    assert_eq!(counts.iter().sum::<usize>(), 2_500);
    assert!(counts.iter().all(|count| *count <= limits::EVENTS));
}

#[test]
fn gpus_beyond_the_bound_are_left_out() {
    let mut gathering = Gathering::new(anchor(), START.boot_ms);
    for n in 0..70 {
        gathering.on_observation(gpu(n, START.boot_ms + SECOND));
    }
    let content = gathering.close(START.boot_ms + SECOND, anchor()).unwrap();
    assert_eq!(ticks(&content).len(), limits::GPUS);
}

#[test]
fn nothing_seen_is_nothing_closed() {
    let mut gathering = Gathering::new(anchor(), START.boot_ms);
    let cut = gathering.due(START.boot_ms + 120 * SECOND);
    assert!(cut.is_none_or(|cut| gathering.close(cut, anchor()).is_none()));
}
