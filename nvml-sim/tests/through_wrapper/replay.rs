//! Cards that play a capture.

use std::path::Path;

use ed25519_dalek::SigningKey;
use leasewatch_core::evidence::capture::{self, Part};
use leasewatch_core::evidence::chain::{ClockSource, ClockState, HeadDraft, seal};
use leasewatch_core::id::{
    BusId, ChainId, EpochId, GpuUuid, Hash, KeyId, LifeUnitId, Sequence, Slug,
};
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::{
    Block, Column, Event, EventKind, EventsBlock, GpuBlock, GpuInventory, MigInstance, Origin,
    Partition, TrackPoint, TrackSource, UtilizationTrack,
};
use leasewatch_core::time::{Period, Timestamp};
use nvidia_ml_sim::history::{History, story_path};
use nvml_wrapper::Device;
use nvml_wrapper::bitmasks::event::EventTypes;
use nvml_wrapper::enum_wrappers::device::{Clock, Sampling, TemperatureSensor};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::enums::gpm::GpmMetricId;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::gpm_metrics_get;
use nvml_wrapper::structs::device::FieldId;

use crate::play::{Scene, play, play_saying, until};

/// 2026-08-01T04:00:00Z.
const START: Timestamp = Timestamp(1_785_556_800_000);
const UUID: &str = "GPU-0a1b2c3d-0011-2233-4455-66778899aabb";

fn uuid() -> GpuUuid {
    GpuUuid::new(UUID).unwrap()
}

fn key() -> SigningKey {
    SigningKey::from_bytes(&[1; 32])
}

/// Busy at a point of the driver's samples, one each 200 ms.
fn busy(point: i64) -> i64 {
    point * 7 % 101
}

/// Seconds `from_s + 1` to `until_s` of a card, one tick each.
fn gpu(from_s: i64, until_s: i64, source: TrackSource) -> Block {
    let at = |ms: i64| START.plus_ms(ms);
    let seconds = from_s + 1..=until_s;
    let step_ms = if source == TrackSource::DriverSamples { 200 } else { 1_000 };
    let points = from_s * 1_000 / step_ms + 1..=until_s * 1_000 / step_ms;
    let point = |n| TrackPoint { at: at(n * step_ms), busy: Reading::Number(busy(n)) };
    let column = |metric, reading: &dyn Fn(i64) -> Option<Reading>| Column {
        metric,
        readings: seconds.clone().map(reading).collect(),
    };
    let always = |reading| move |_| Some(reading);
    let slow = |second: i64| (second % 5 == 0).then_some(Reading::Number(second * 1_000));
    Block::Gpu(GpuBlock {
        uuid: uuid(),
        bus_id: BusId::new("00000000:18:00.0").unwrap(),
        partition: None,
        ticks: seconds.clone().map(|second| at(second * 1_000)).collect(),
        track: UtilizationTrack {
            source,
            period_ms: u32::try_from(step_ms).unwrap(),
            points: points.map(point).collect(),
        },
        columns: vec![
            column(Metric::MemoryUsed, &always(Reading::Number(40_960))),
            column(Metric::MemoryTotal, &always(Reading::Number(81_559))),
            column(Metric::PowerDraw, &|second| Some(Reading::Number(100_000 + second * 1_000))),
            column(Metric::Temperature, &always(Reading::Error)),
            column(Metric::ClockEventReasons, &always(Reading::Number(0x24))),
            column(Metric::PowerLimitEnforced, &always(Reading::Stale)),
            column(Metric::Energy, &slow),
            column(Metric::FanSpeed, &always(Reading::Unsupported)),
        ],
    })
}

/// Writes segments of (from, until, blocks) and gives the scenario that plays them.
fn scenario(folder: &Path, segments: &[(i64, i64, Vec<Block>)], more: &str) -> String {
    let public = key().verifying_key();
    let mut out = capture::start(public.as_bytes());
    for (number, (from_s, until_s, blocks)) in (1..).zip(segments) {
        let draft = HeadDraft {
            tenant: Slug::new("default").unwrap(),
            node: KeyId::of_public_key(public.as_bytes()).first_node_id(),
            chain: ChainId([3; 16]),
            epoch: EpochId([4; 8]),
            life_unit: LifeUnitId([5; 16]),
            sequence: Sequence(number),
            period: Period::new(START.plus_ms(from_s * 1_000), START.plus_ms(until_s * 1_000)),
            cadence_ms: 1_000,
            origin: Origin::Measured,
            gpu_count: 1,
            previous: (number > 1).then_some(Hash([6; 32])),
            clock: ClockState {
                anchor_wall: START,
                anchor_boot_ms: 0,
                offset_ms: None,
                bound_ms: None,
                source: ClockSource::None,
            },
            checkpoint: None,
            agent_version: "0.1.0".to_owned(),
            agent_digest: None,
        };
        let sealed = seal(draft, blocks, &key()).unwrap();
        let parts: Vec<Part<'_>> = sealed.blocks.iter().map(|bytes| Part::Block(bytes)).collect();
        let signed = &sealed.signed;
        out.extend(capture::segment(&signed.statement, &signed.signature, &parts));
    }
    out.extend(capture::end(u64::try_from(segments.len()).unwrap()));
    std::fs::write(folder.join("node.lws"), out).unwrap();
    format!("driver_version = \"590.48.01\"\n{more}\n[replay]\nfile = \"node.lws\"\n")
}

fn inventory() -> GpuInventory {
    GpuInventory {
        uuid: uuid(),
        bus_id: BusId::new("00000000:18:00.0").unwrap(),
        partition: None,
        index: 0,
        name: "NVIDIA H100 80GB HBM3".to_owned(),
        pci_device_id: 0x2330_10de,
        serial: Some("1650922000001".to_owned()),
        vbios: None,
        part_number: None,
        memory_total_mib: Some(81_559),
        power_limit_default_mw: Some(700_000),
        power_limit_management_mw: None,
        pcie_generation_max: Some(5),
        pcie_width_max: None,
        mig: false,
    }
}

fn event(second: i64, kind: EventKind) -> Event {
    Event::new(START.plus_ms(second * 1_000), Some(uuid()), kind)
}

fn events(list: Vec<Event>) -> Block {
    Block::Events(EventsBlock { events: list })
}

fn samples(device: &Device<'_>) -> Vec<(u64, i64)> {
    let number = |value: &SampleValue| match value {
        SampleValue::U32(value) => i64::from(*value),
        other => panic!("{other:?} is not an unsigned int"),
    };
    let found = device.samples(Sampling::GpuUtilization, None).unwrap();
    found.iter().map(|sample| (sample.timestamp, number(&sample.value))).collect()
}

#[test]
fn a_capture_is_found_again_reading_by_reading() {
    let scene = Scene::Made(|folder| {
        let seen = inventory();
        let blocks = vec![
            gpu(0, 55, TrackSource::DriverSamples),
            events(vec![event(1, EventKind::GpuSeen(seen))]),
        ];
        scenario(folder, &[(0, 55, blocks)], "started_s_ago = 20")
    });
    play("replay::a_capture_is_found_again_reading_by_reading", scene, |stage| {
        let nvml = stage.init();
        assert_eq!(nvml.device_count().unwrap(), 1);
        let device = nvml.device_by_index(0).unwrap();
        assert_eq!(device.uuid().unwrap(), UUID);
        assert_eq!(device.name().unwrap(), "NVIDIA H100 80GB HBM3");
        assert_eq!(device.serial().unwrap(), "1650922000001");
        assert_eq!(device.pci_info().unwrap().pci_device_id, 0x2330_10de);
        // The driver's samples, to the point and the millisecond.
        let (found, power_mw) = until("a read within one point", || {
            let (before, power) = (samples(&device), device.power_usage().unwrap());
            (before == samples(&device)).then_some((before, power))
        });
        let newest = (100..200).find(|n| {
            let wanted = (n - i64::try_from(found.len()).unwrap() + 1..=*n).map(busy);
            wanted.eq(found.iter().map(|(_, busy)| *busy))
        });
        let newest = newest.expect("the points of the recording");
        assert!(found.len() >= 100 && found.windows(2).all(|w| w[1].0 - w[0].0 == 200_000));
        // Power is that of the tick at or after the instant, which is in (newest, newest + 1].
        let ticks = [newest * 200 / 1_000 + 1, (newest * 200).div_euclid(1_000) + 1];
        let second = (i64::from(power_mw) - 100_000) / 1_000;
        assert!(ticks.contains(&second), "{second} at point {newest}");
        let memory = device.memory_info().unwrap();
        assert_eq!((memory.used >> 20, memory.total >> 20), (40_960, 81_559));
        assert_eq!(memory.reserved, u64::MAX, "not recorded is not 0");
        assert_eq!(device.current_throttle_reasons().unwrap().bits(), 0x24);
        assert_eq!(device.total_energy_consumption().unwrap() % 5_000, 0);
        assert_eq!(device.power_management_limit_default().unwrap(), 700_000);
        assert_eq!(device.max_pcie_link_gen().unwrap(), 5);
        // Why there is no number stays apart, and what was not recorded is not made up.
        let temperature = device.temperature(TemperatureSensor::Gpu);
        assert!(matches!(temperature, Err(NvmlError::Unknown)));
        assert!(matches!(device.enforced_power_limit(), Err(NvmlError::Timeout)));
        assert!(matches!(device.fan_speed(0), Err(NvmlError::NotSupported)));
        assert!(matches!(device.clock_info(Clock::SM), Err(NvmlError::NotSupported)));
        assert!(matches!(device.max_pcie_link_width(), Err(NvmlError::NotSupported)));
        assert!(matches!(device.architecture(), Err(NvmlError::NotSupported)));
        let fields = device.field_values_for(&[FieldId(83), FieldId(82)]).unwrap();
        let values = fields.into_iter().map(|field| field.and_then(|it| it.value));
        let values: Vec<_> = values.collect();
        assert!(matches!(values[0], Ok(SampleValue::U64(mj)) if mj % 5_000 == 0), "{values:?}");
        assert!(matches!(values[1], Err(NvmlError::NotSupported)), "{values:?}");
    });
}

#[test]
fn where_nothing_was_recorded_nothing_is_answered() {
    let scene = Scene::Made(|folder| {
        let polled = |from, until| vec![gpu(from, until, TrackSource::Poll)];
        let segments = [(0, 30, polled(0, 30)), (90, 95, polled(90, 95))];
        scenario(folder, &segments, "started_s_ago = 86")
    });
    play("replay::where_nothing_was_recorded_nothing_is_answered", scene, |stage| {
        let nvml = stage.init();
        let device = nvml.device_by_index(0).unwrap();
        assert_eq!(device.uuid().unwrap(), UUID);
        assert!(matches!(device.name(), Err(NvmlError::NotSupported)), "it said no name");
        assert!(matches!(device.power_usage(), Err(NvmlError::Unknown)));
        assert!(matches!(device.utilization_rates(), Err(NvmlError::Unknown)));
        assert!(matches!(
            device.samples(Sampling::GpuUtilization, None),
            Err(NvmlError::NotSupported)
        ));
        let mut seen = Vec::new();
        until("the end of the capture", || {
            match (device.power_usage(), device.utilization_rates()) {
                (Ok(mw), Ok(rates)) => seen.push((i64::from(mw) / 1_000 - 100, rates.gpu)),
                (Err(NvmlError::Unknown), _) if !seen.is_empty() => return Some(()),
                _ => {}
            }
            None
        });
        seen.dedup();
        let seconds: Vec<i64> = seen.iter().map(|(second, _)| *second).collect();
        assert!(seconds.is_sorted() && seconds.first() == Some(&91) && seconds.last() == Some(&95));
        let agree = seen.iter().filter(|(second, gpu)| i64::from(*gpu) == busy(*second)).count();
        // Two calls can lie on both sides of a tick.
        assert!(agree >= 5, "{seen:?}");
    });
}

#[test]
fn losses_and_xids_are_played() {
    let scene = Scene::Made(|folder| {
        let first = vec![
            gpu(0, 12, TrackSource::Poll),
            events(vec![
                event(12, EventKind::Xid { code: 79 }),
                event(13, EventKind::GpuLost { nvml_code: 15 }),
            ]),
        ];
        let second =
            vec![gpu(20, 60, TrackSource::Poll), events(vec![event(21, EventKind::GpuBack)])];
        scenario(folder, &[(0, 13, first), (20, 60, second)], "started_s_ago = 10")
    });
    play("replay::losses_and_xids_are_played", scene, |stage| {
        let nvml = stage.init();
        let device = nvml.device_by_index(0).unwrap();
        assert!(device.power_usage().is_ok());
        let set = nvml.create_event_set().unwrap();
        let set = device.register_events(EventTypes::CRITICAL_XID_ERROR, set).unwrap();
        let xid = until("the XID", || set.wait(500).ok());
        assert!(format!("{:?}", xid.event_data).contains("79"), "{:?}", xid.event_data);
        let lost = || matches!(device.uuid(), Err(NvmlError::GpuLost)).then_some(());
        until("the loss", lost);
        until("the return", || device.power_usage().ok());
    });
}

/// A capture with one change, which has to be named.
fn damaged(folder: &Path, change: fn(&mut Vec<u8>)) -> String {
    let segments = [(0, 5), (5, 10)]
        .map(|(from, until)| (from, until, vec![gpu(from, until, TrackSource::Poll)]));
    let text = scenario(folder, &segments, "");
    let path = folder.join("node.lws");
    let mut bytes = std::fs::read(&path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
    text
}

#[test]
fn a_capture_that_does_not_hold_is_no_session_and_says_why() {
    type Made = fn(&Path) -> String;
    let changes: [(Made, &str); 4] = [
        (
            |folder| {
                damaged(folder, |bytes| {
                    let at = bytes.len() - 100;
                    bytes[at] ^= 1;
                })
            },
            "segment 2 of the capture: ",
        ),
        (|folder| damaged(folder, |bytes| bytes.truncate(bytes.len() - 1)), "ends too early"),
        (|folder| damaged(folder, |bytes| bytes[0] ^= 1), "no capture of version 1"),
        (
            |folder| {
                scenario(folder, &[(0, 5, vec![events(vec![event(1, EventKind::GpuBack)])])], "")
            },
            "the capture holds no GPU",
        ),
    ];
    let name = "replay::a_capture_that_does_not_hold_is_no_session_and_says_why";
    for (made, why) in changes {
        let said = play_saying(name, Scene::Made(made), |stage| {
            assert!(matches!(stage.try_init(), Err(NvmlError::Unknown)));
        });
        let named = |said: &String| {
            said.lines().any(|line| {
                line.starts_with("nvml-sim: ") && line.contains("node.lws: ") && line.contains(why)
            })
        };
        assert!(said.is_none_or(|said| named(&said)), "{why}");
    }
}

#[test]
fn a_story_has_no_captured_past() {
    let folder = tempfile::tempdir().unwrap();
    let captured = scenario(folder.path(), &[(0, 5, vec![gpu(0, 5, TrackSource::Poll)])], "");
    std::fs::write(folder.path().join("captured.toml"), captured).unwrap();
    let demo = std::fs::read_to_string(story_path("demo-a100")).unwrap();
    let story = folder.path().join("story.toml");
    std::fs::write(&story, demo.replace("../demo-a100.toml", "captured.toml")).unwrap();
    let error = History { story, until: START, days: 1 }.write(&mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("not a capture with [replay]"), "{error}");
}

/// A slice of GPU instance `instance`, busy `busy` %, in seconds `from_s + 1` to `until_s`.
fn slice(
    (instance, slices): (u8, u8),
    busy: Option<i64>,
    (from_s, until_s): (i64, i64),
) -> Vec<Block> {
    let partition = Partition {
        parent: uuid(),
        instance: MigInstance { gpu_instance: instance, compute_instance: 0 },
        slices,
        slices_of: 7,
    };
    let name = GpuUuid::new(&format!("MIG-{instance}-{slices}")).unwrap();
    let Block::Gpu(whole) = gpu(from_s, until_s, TrackSource::Poll) else { unreachable!() };
    let reading = busy.map_or(Reading::Unsupported, Reading::Number);
    let point = |at: &Timestamp| TrackPoint { at: *at, busy: reading };
    let used = Reading::Number(i64::from(slices) * 1_000);
    let column =
        |metric, reading| Column { metric, readings: vec![Some(reading); whole.ticks.len()] };
    let columns = vec![
        column(Metric::MemoryUsed, used),
        column(Metric::MemoryTotal, Reading::Number(i64::from(slices) * 11_000)),
        column(
            Metric::SmActive,
            busy.map_or(Reading::Unsupported, |busy| Reading::Number(busy * 9)),
        ),
    ];
    let points = whole.ticks.iter().map(point).collect();
    let track = UtilizationTrack { source: TrackSource::Gpm, period_ms: 1_000, points };
    let seen = GpuInventory {
        uuid: name.clone(),
        index: if slices == 1 { 2 } else { 0 },
        name: format!("H100 MIG {slices}g"),
        partition: Some(partition.clone()),
        mig: true,
        ..inventory()
    };
    let seen = Event::new(
        START.plus_ms(from_s * 1_000 + 1_000),
        Some(name.clone()),
        EventKind::GpuSeen(seen),
    );
    vec![
        Block::Gpu(GpuBlock { uuid: name, partition: Some(partition), track, columns, ..whole }),
        events(vec![seen]),
    ]
}

/// A card with two slices, one of which is cut away and another made in its place.
fn cut_card(folder: &Path) -> String {
    let Block::Gpu(mut whole) = gpu(0, 40, TrackSource::Poll) else { unreachable!() };
    whole.track.points.iter_mut().for_each(|point| point.busy = Reading::Unsupported);
    let readings = vec![Some(Reading::Number(1)); whole.ticks.len()];
    whole.columns.push(Column { metric: Metric::MigMode, readings });
    let mut lists = [
        slice((2, 3), Some(42), (0, 12)),
        slice((9, 1), None, (0, 40)),
        slice((0, 4), Some(77), (12, 40)),
    ]
    .concat();
    let mut happened = Vec::new();
    lists.retain(|block| {
        if let Block::Events(list) = block {
            happened.extend(list.events.clone());
        }
        matches!(block, Block::Gpu(_))
    });
    let gone = Event::new(
        START.plus_ms(12_500),
        Some(GpuUuid::new("MIG-2-3").unwrap()),
        EventKind::PartitionRemoved,
    );
    happened.push(gone);
    happened.sort_by_key(|event| event.at);
    let blocks = [vec![Block::Gpu(whole)], lists, vec![events(happened)]].concat();
    scenario(folder, &[(0, 40, blocks)], "started_s_ago = 5")
}

#[test]
fn slices_are_played_until_they_are_cut_away() {
    let scene = Scene::Made(cut_card);
    play("replay::slices_are_played_until_they_are_cut_away", scene, |stage| {
        let nvml = stage.init();
        let card = nvml.device_by_index(0).unwrap();
        assert_eq!(card.mig_mode().unwrap().current, 1);
        assert_eq!(card.mig_device_count().unwrap(), 7);
        assert!(card.gpm_support().unwrap());
        let first = card.mig_device_by_index(0).unwrap();
        let other = card.mig_device_by_index(2).unwrap();
        assert!(matches!(card.mig_device_by_index(1), Err(NvmlError::NotFound)), "as it was");
        let shape = |slice: &Device<'_>| {
            let attributes = slice.attributes().unwrap();
            let memory = slice.memory_info().unwrap();
            (
                slice.uuid().unwrap(),
                slice.name().unwrap(),
                attributes.compute_instance_slice_count,
                memory.used >> 20,
                memory.total >> 20,
            )
        };
        assert_eq!(
            shape(&first),
            ("MIG-2-3".to_owned(), "H100 MIG 3g".to_owned(), 3, 3_000, 33_000)
        );
        assert_eq!(
            shape(&other),
            ("MIG-9-1".to_owned(), "H100 MIG 1g".to_owned(), 1, 1_000, 11_000)
        );
        assert_eq!(nvml.device_by_uuid("MIG-9-1").unwrap().uuid().unwrap(), "MIG-9-1");
        assert!(matches!(first.power_usage(), Err(NvmlError::NotSupported)));
        let activity = |instance| {
            let [before, after] = [(); 2].map(|()| card.gpm_mig_sample(instance).unwrap());
            let ids = [GpmMetricId::GraphicsUtil, GpmMetricId::SmUtil, GpmMetricId::AnyTensorUtil];
            let found = gpm_metrics_get(&nvml, &before, &after, &ids).unwrap();
            found
                .into_iter()
                .map(|metric| metric.map(|it| format!("{:.1}", it.value)).ok())
                .collect::<Vec<_>>()
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(activity(2), [some("42.0"), some("37.8"), None]);
        assert_eq!(activity(9), [None, None, None], "not measured is no zero");
        assert!(matches!(card.gpm_mig_sample(0), Err(NvmlError::InvalidArg)));
        until("the new cut", || card.gpm_mig_sample(0).is_ok().then_some(()));
        assert!(matches!(first.uuid(), Err(NvmlError::InvalidArg)), "its handle names nothing");
        assert!(nvml.device_by_uuid("MIG-2-3").is_err());
        assert_eq!(other.uuid().unwrap(), "MIG-9-1", "it stayed");
        assert_eq!(activity(0), [some("77.0"), some("69.3"), None]);
    });
}

#[test]
fn a_call_that_hung_hangs_again() {
    let scene = Scene::Made(|folder| {
        let Block::Gpu(mut block) = gpu(0, 40, TrackSource::Poll) else { unreachable!() };
        block.track.points[7..12].iter_mut().for_each(|point| point.busy = Reading::Stale);
        scenario(folder, &[(0, 40, vec![Block::Gpu(block)])], "started_s_ago = 5")
    });
    play("replay::a_call_that_hung_hangs_again", scene, |stage| {
        let nvml = stage.init();
        let device = nvml.device_by_index(0).unwrap();
        let mut seen = Vec::new();
        until("the second after it", || {
            // Utilization before power: a call that hangs returns with what is read after it.
            let (busy, mw) =
                (device.utilization_rates().unwrap().gpu, device.power_usage().unwrap());
            assert!((0..=100).contains(&busy));
            seen.push(i64::from(mw) / 1_000 - 100);
            (seen.last() >= Some(&14)).then_some(())
        });
        seen.dedup();
        let hung = seen.iter().filter(|second| (8..=12).contains(*second)).count();
        assert!(hung == 0 && seen.contains(&7) && seen.contains(&13), "{seen:?}");
    });
}
