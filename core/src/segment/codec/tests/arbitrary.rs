//! Arbitrary valid blocks.

use super::*;
use crate::id::LifeUnitId;
use crate::sample::{HostMetric, Metric};
use crate::segment::{
    DiskMedium, Event, EventKind, Found, GpuInventory, GpuPaths, GpuWiring, HostInventory, JobEnd,
    LifeUnit, LifeUnitKind, MigInstance, NvlinkGroup, NvlinkRemote, Partition, PathLevel,
    StopReason, Unread, WorkDisk,
};

pub(super) fn blocks() -> impl Strategy<Value = Block> {
    prop_oneof![
        4 => gpu_blocks().prop_map(Block::Gpu),
        1 => host_blocks().prop_map(Block::Host),
        2 => event_blocks().prop_map(Block::Events),
    ]
}

fn times(counts: std::ops::Range<usize>) -> impl Strategy<Value = Vec<Timestamp>> {
    let steps = prop_oneof![
        Just(1_000_i64..1_001).boxed(),
        Just(990_i64..1_010).boxed(),
        Just(1_i64..100_000).boxed(),
    ];
    let list = (0..1_000_000_000_000_i64, steps).prop_flat_map(move |(first, steps)| {
        (Just(first), prop::collection::vec(steps, counts.clone()))
    });
    list.prop_map(|(first, steps)| {
        let mut at = Timestamp::MIN.plus_ms(first);
        steps
            .into_iter()
            .map(|step| {
                at = at.plus_ms(step);
                at
            })
            .collect()
    })
}

/// Readings with gaps or without, all alike or mixed, noisy or in runs.
fn readings(rule: (i64, i64, i64), ticks: usize) -> impl Strategy<Value = Vec<Option<Reading>>> {
    let (min, max, resolution) = rule;
    let (low, high) = (min / resolution, max / resolution);
    let status =
        || prop_oneof![Just(Reading::Unsupported), Just(Reading::Error), Just(Reading::Stale)];
    let near = (low..=high, 1_i64..200).prop_flat_map(move |(base, spread)| {
        let top = base.saturating_add(spread).min(high);
        prop::collection::vec((base..=top).prop_map(Reading::Number), ticks)
    });
    let any_number = || (low..=high).prop_map(Reading::Number);
    let kinds = prop_oneof![
        near,
        prop::collection::vec(any_number(), ticks),
        prop::collection::vec(prop_oneof![9 => any_number(), 1 => status()], ticks),
        status().prop_map(move |status| vec![status; ticks]),
        any_number().prop_map(move |number| vec![number; ticks]),
    ];
    let gaps = prop_oneof![
        Just(vec![true; ticks]),
        (1_usize..16).prop_map(move |each| (0..ticks).map(|n| n % each == 0).collect()),
        prop::collection::vec(any::<bool>(), ticks),
    ];
    (kinds, gaps).prop_map(move |(kinds, mut gaps)| {
        gaps[0] |= gaps.iter().all(|present| !present);
        let scaled = |reading| match reading {
            Reading::Number(number) => Reading::Number(number * resolution),
            other => other,
        };
        kinds.into_iter().zip(gaps).map(|(kind, present)| present.then(|| scaled(kind))).collect()
    })
}

fn columns<M: Recorded + std::fmt::Debug>(
    all: &'static [M],
    ticks: usize,
) -> BoxedStrategy<Vec<Column<M>>> {
    if ticks == 0 {
        return Just(Vec::new()).boxed();
    }
    let subset = prop::sample::subsequence(all, 0..8.min(all.len()));
    subset
        .prop_flat_map(move |metrics| {
            metrics
                .into_iter()
                .map(|metric| {
                    let rule = metric.rule();
                    readings((rule.min, rule.max, rule.resolution), ticks)
                        .prop_map(move |readings| Column { metric, readings })
                })
                .collect::<Vec<_>>()
        })
        .boxed()
}

fn gpu_blocks() -> impl Strategy<Value = GpuBlock> {
    let uuids = prop_oneof![
        "GPU-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}",
        "[A-Za-z0-9-]{1,96}"
    ];
    let parts = (times(0..80), prop::option::of(times(0..100)), uuids, 1_u32..=limits::PERIOD_MS);
    let source = prop::sample::select(&TrackSource::ALL[..]);
    let place = ("[A-Za-z0-9:.-]{1,32}", prop::option::of(partitions()));
    (parts, source, place).prop_flat_map(
        |((ticks, own, uuid, period_ms), source, (bus_id, partition))| {
            let track_times = own.unwrap_or_else(|| ticks.clone());
            let busy = match track_times.len() {
                0 => Just(Vec::new()).boxed(),
                count => readings((0, 100, 1), count).boxed(),
            };
            (busy, columns(Metric::ALL, ticks.len())).prop_map(move |(busy, columns)| {
                let points = track_times.iter().zip(busy);
                let points = points
                    .map(|(at, busy)| TrackPoint { at: *at, busy: busy.unwrap_or(Reading::Error) });
                GpuBlock {
                    uuid: GpuUuid::new(&uuid).unwrap(),
                    bus_id: BusId::new(&bus_id).unwrap(),
                    partition: partition.clone(),
                    ticks: ticks.clone(),
                    track: UtilizationTrack { source, period_ms, points: points.collect() },
                    columns,
                }
            })
        },
    )
}

/// Parents have names that no block of the same strategy has: they hold a double dash.
fn partitions() -> impl Strategy<Value = Partition> {
    let shares = (1_u8..=255).prop_flat_map(|of| (1..=of, Just(of)));
    let parents = prop_oneof!["GPU--[0-9a-f]{4}", "GPU-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{13}"];
    (parents, any::<(u8, u8)>(), shares).prop_map(
        |(parent, (gpu_instance, compute_instance), (slices, slices_of))| Partition {
            parent: GpuUuid::new(&parent).unwrap(),
            instance: MigInstance { gpu_instance, compute_instance },
            slices,
            slices_of,
        },
    )
}

fn host_blocks() -> impl Strategy<Value = HostBlock> {
    times(1..40).prop_flat_map(|ticks| {
        columns(HostMetric::ALL, ticks.len())
            .prop_map(move |columns| HostBlock { ticks: ticks.clone(), columns })
    })
}

fn event_blocks() -> impl Strategy<Value = EventsBlock> {
    let event = ("GPU-[0-9a-f]{4}", event_kinds());
    (times(1..30), prop::collection::vec(event, 30)).prop_map(|(times, events)| {
        let events = times.into_iter().zip(events).map(|(at, (uuid, kind))| {
            let gpu = match &kind {
                EventKind::GpuSeen(inventory) => Some(inventory.uuid.clone()),
                EventKind::GpuReplaced { old, .. } => Some(old.clone()),
                EventKind::AgentStarted { .. }
                | EventKind::Goodbye { .. }
                | EventKind::HostSeen(_)
                | EventKind::DiskSeen(_)
                | EventKind::NoGpuAttached
                | EventKind::NvmlUnavailable { .. }
                | EventKind::ClockStepped { .. }
                | EventKind::JobStarted { .. }
                | EventKind::JobEnded { .. } => None,
                _ => GpuUuid::new(&uuid).ok(),
            };
            Event::new(at, gpu, kind)
        });
        EventsBlock { events: events.collect() }
    })
}

fn job_ends() -> impl Strategy<Value = JobEnd> {
    prop_oneof![(0..=255_i64).prop_map(JobEnd::Exited), (1..=127_i64).prop_map(JobEnd::Signalled)]
}

fn event_kinds() -> impl Strategy<Value = EventKind> {
    let code = -1_000_000_000_000_i64..1_000_000_000_000;
    let count = 0..1_000_000_000_i64;
    let bus_id = BusId::new("00000000:18:00.0").unwrap();
    let (old, new) = (GpuUuid::new("GPU-old").unwrap(), GpuUuid::new("GPU-new").unwrap());
    let fixed = [
        EventKind::GpuBack,
        EventKind::NoGpuAttached,
        EventKind::DriverReloaded,
        EventKind::CollectorStalled,
        EventKind::PartitionRemoved,
        EventKind::GpuMissing { bus_id: bus_id.clone() },
        EventKind::GpuReplaced { bus_id, old, new },
    ];
    prop_oneof![
        prop::sample::select(fixed.to_vec()),
        prop::sample::select(&StopReason::ALL[..]).prop_map(|reason| EventKind::Goodbye { reason }),
        code.clone().prop_map(|nvml_code| EventKind::GpuLost { nvml_code }),
        code.clone().prop_map(|nvml_code| EventKind::NvmlUnavailable { nvml_code }),
        code.clone().prop_map(|code| EventKind::Xid { code }),
        code.prop_map(|by_ms| EventKind::ClockStepped { by_ms }),
        count.clone().prop_map(|count| EventKind::EccUncorrected { count }),
        count.clone().prop_map(|count| EventKind::TicksMissed { count }),
        count.clone().prop_map(|stalled_ms| EventKind::CollectorResumed { stalled_ms }),
        any::<bool>().prop_map(|enabled| EventKind::MigChanged { enabled }),
        (count.clone(), count.clone())
            .prop_map(|(from_mw, to_mw)| EventKind::PowerLimitChanged { from_mw, to_mw }),
        (any::<String>(), count)
            .prop_map(|(metric, count)| EventKind::ReadingsDropped { metric, count }),
        any::<String>().prop_map(|name| EventKind::JobStarted { name }),
        (any::<String>(), job_ends()).prop_map(|(name, end)| EventKind::JobEnded { name, end }),
        inventories(),
        wirings(),
    ]
}

fn inventories() -> impl Strategy<Value = EventKind> {
    let text = || any::<String>();
    let some_text = || prop::option::of(text());
    let number = || prop::option::of(0..1_000_000_i64);
    let started = (text(), text(), text(), any::<bool>()).prop_map(
        |(version, boot_id, clock_source, host)| {
            let kind = if host { LifeUnitKind::Host } else { LifeUnitKind::Container };
            let life_unit =
                LifeUnit { id: LifeUnitId([7; 16]), kind, boot_id, started_at: Timestamp::MIN };
            EventKind::AgentStarted { version, life_unit, clock_source }
        },
    );
    let host = (text(), text(), text(), any::<bool>()).prop_map(
        |(hostname, kernel, driver, container)| {
            EventKind::HostSeen(HostInventory {
                hostname,
                kernel,
                cpus: 192,
                memory_mib: 2_063_000,
                driver_version: driver.clone(),
                nvml_version: driver,
                cuda_version: "12.8".into(),
                container,
            })
        },
    );
    let gpu = (text(), some_text(), some_text(), number(), prop::option::of(partitions()))
        .prop_map(|(name, serial, vbios, limit, partition)| {
            EventKind::GpuSeen(GpuInventory {
                uuid: GpuUuid::new("GPU-1").unwrap(),
                bus_id: BusId::new("0:1").unwrap(),
                index: 3,
                name,
                pci_device_id: 0x2330_10de,
                serial,
                vbios: vbios.clone(),
                part_number: vbios,
                memory_total_mib: limit,
                power_limit_default_mw: limit,
                power_limit_management_mw: limit,
                pcie_generation_max: limit,
                pcie_width_max: limit,
                mig: partition.is_some(),
                partition,
            })
        });
    prop_oneof![started, host, gpu]
}

fn found<T: Clone + std::fmt::Debug + 'static>(
    fact: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = Found<T>> {
    prop_oneof![3 => fact.prop_map(Ok), 1 => prop::sample::select(&Unread::ALL[..]).prop_map(Err)]
}

fn wirings() -> impl Strategy<Value = EventKind> {
    let text = || found(any::<String>());
    let number = || prop::option::of(0..1_000_000_i64);
    let remote = prop::sample::select(&NvlinkRemote::ALL[..]);
    let link = (0..64_i64, any::<bool>(), number(), number(), remote).prop_map(
        |(count, up, version, speed_mb_s, remote)| NvlinkGroup {
            count,
            up,
            version,
            speed_mb_s,
            remote,
        },
    );
    let links = found(prop::collection::vec(link, 0..5));
    let ids = prop::collection::btree_set("[0-9a-f]{4}:[0-9a-f]{2}", 1..9);
    let levels = prop::sample::subsequence(&PathLevel::ALL[..], 0..=6);
    let paths = (levels, prop::option::of(prop::sample::select(&Unread::ALL[..])), ids).prop_map(
        |(levels, unread, ids)| {
            let bus_ids: Vec<BusId> = ids.iter().map(|id| BusId::new(id).unwrap()).collect();
            let all = levels.into_iter().map(Ok).chain(unread.map(Err));
            all.map(|level| GpuPaths { level, bus_ids: bus_ids.clone() }).collect()
        },
    );
    let wiring = (text(), text(), links, paths).prop_map(|(numa_nodes, cpus, nvlinks, paths)| {
        EventKind::GpuWired(GpuWiring { numa_nodes, cpus, nvlinks, paths })
    });
    let medium = found(prop::sample::select(&DiskMedium::ALL[..]));
    let disk = (medium, prop::option::of(any::<String>()))
        .prop_map(|(medium, filesystem)| EventKind::DiskSeen(WorkDisk { medium, filesystem }));
    prop_oneof![wiring, disk]
}
