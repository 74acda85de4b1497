//! Blocks for tests: small ones by hand, and a simulated minute of a node with the shape of a real
//! one. Deterministic; integers only.

use super::{
    Block, Column, DiskMedium, Event, EventKind, EventsBlock, GpuBlock, GpuPaths, GpuWiring,
    HostBlock, JobEnd, MigInstance, NvlinkGroup, NvlinkRemote, Partition, PathLevel, TrackPoint,
    TrackSource, Unread, UtilizationTrack, WorkDisk,
};
use crate::id::{BusId, GpuUuid};
use crate::sample::{HostMetric, Metric, Reading};
use crate::time::Timestamp;

/// 2026-08-01T04:00:00Z.
pub(crate) const START: Timestamp = Timestamp(1_785_556_800_000);

/// The small GPU block of `docs/EVIDENCE.md`: three ticks, one of them without a reading of the
/// slow column, one failed power reading, an unsupported fan.
pub(crate) fn small_gpu() -> GpuBlock {
    let ticks: Vec<Timestamp> = [0, 1_001, 2_000].map(|ms| START.plus_ms(ms)).to_vec();
    let busy = [Reading::Number(0), Reading::Number(97), Reading::Number(100)];
    let points = ticks.iter().zip(busy).map(|(at, busy)| TrackPoint { at: *at, busy }).collect();
    let column =
        |metric, readings: [Option<Reading>; 3]| Column { metric, readings: readings.to_vec() };
    let number = |value| Some(Reading::Number(value));
    GpuBlock {
        uuid: GpuUuid::new("GPU-0a1b2c3d-0011-2233-4455-66778899aabb").unwrap(),
        bus_id: BusId::new("00000000:18:00.0").unwrap(),
        partition: None,
        ticks,
        track: UtilizationTrack { source: TrackSource::Poll, period_ms: 1_000, points },
        columns: vec![
            column(Metric::MemoryTotal, [None, number(81_559), None]),
            column(Metric::PowerDraw, [number(71_300), Some(Reading::Error), number(698_100)]),
            column(Metric::FanSpeed, [Some(Reading::Unsupported); 3]),
        ],
    }
}

/// The block of a slice of [`small_gpu`], of one compute slice in seven, with the same readings.
pub(crate) fn small_slice() -> GpuBlock {
    let gpu = small_gpu();
    GpuBlock {
        uuid: GpuUuid::new("MIG-0a1b2c3d-0011-5233-8455-66778899aabb").unwrap(),
        partition: Some(Partition {
            parent: gpu.uuid.clone(),
            instance: MigInstance { gpu_instance: 9, compute_instance: 0 },
            slices: 1,
            slices_of: 7,
        }),
        ..gpu
    }
}

/// A host block with one tick.
pub(crate) fn small_host() -> HostBlock {
    let column = |metric, value| Column { metric, readings: vec![Some(Reading::Number(value))] };
    HostBlock {
        ticks: vec![START.plus_ms(1_500)],
        columns: vec![column(HostMetric::CpuBusy, 125), column(HostMetric::Uptime, 86_400)],
    }
}

/// An events block with two events.
pub(crate) fn small_events() -> EventsBlock {
    let gpu = small_gpu().uuid;
    let xid = Event::new(START.plus_ms(900), Some(gpu), EventKind::Xid { code: 48 });
    let missed = Event::new(START.plus_ms(2_000), None, EventKind::TicksMissed { count: 2 });
    EventsBlock { events: vec![xid, missed] }
}

/// An events block of two jobs: one failed, one was killed.
pub(crate) fn small_jobs() -> EventsBlock {
    let event = |ms, kind| Event::new(START.plus_ms(ms), None, kind);
    let name = || "train".to_owned();
    let killed = EventKind::JobEnded { name: "eval".to_owned(), end: JobEnd::Signalled(9) };
    let events = vec![
        event(900, EventKind::JobStarted { name: name() }),
        event(1_900, EventKind::JobEnded { name: name(), end: JobEnd::Exited(1) }),
        event(2_000, killed),
    ];
    EventsBlock { events }
}

/// The wiring of a GPU with a link down and a path that was not told, and a disk.
pub(crate) fn small_wiring() -> EventsBlock {
    let link = |count, up, remote| NvlinkGroup {
        count,
        up,
        version: Some(6),
        speed_mb_s: up.then_some(26_562),
        remote,
    };
    let bus_id = |text| BusId::new(text).unwrap();
    let wiring = GpuWiring {
        numa_nodes: Ok("0".to_owned()),
        cpus: Ok("0-31,64-95".to_owned()),
        nvlinks: Ok(vec![
            link(1, false, NvlinkRemote::Unknown),
            link(17, true, NvlinkRemote::Switch),
        ]),
        paths: vec![
            GpuPaths {
                level: Ok(PathLevel::NumaNode),
                bus_ids: vec![bus_id("00000000:2a:00.0"), bus_id("00000000:3a:00.0")],
            },
            GpuPaths { level: Err(Unread::Denied), bus_ids: vec![bus_id("00000000:9a:00.0")] },
        ],
    };
    let gpu = Some(small_gpu().uuid);
    let disk = WorkDisk { medium: Ok(DiskMedium::Nvme), filesystem: Some("ext4".to_owned()) };
    let events = vec![
        Event::new(START.plus_ms(900), None, EventKind::DiskSeen(disk)),
        Event::new(START.plus_ms(1_000), gpu, EventKind::GpuWired(wiring)),
    ];
    EventsBlock { events }
}

/// How often the metrics of a simulated minute are read.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lanes {
    /// All at each tick, as a monitoring system with one interval does.
    AllFast,
    /// Identity, limits, link and error readings each 15 ticks, as the agent does.
    SlowEach15,
}

/// What a GPU of the simulated node does.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Load {
    Training,
    Inference,
    Idle,
}

/// GPUs of the simulated node.
pub(crate) const GPUS: u64 = 8;
/// Seconds of the simulated minute.
pub(crate) const SECONDS: i64 = 60;
/// Readings of a GPU: 39 columns and the utilization track.
pub(crate) const READINGS: usize = 40;

/// A minute of a node of 8 GPUs (five train, two serve, one idles) with 40 readings each: jitter
/// of the ticks, noise of power, temperatures, clocks in steps, growing counters.
pub(crate) fn node_minute(lanes: Lanes) -> Vec<Block> {
    let mut blocks: Vec<Block> =
        (0..GPUS).map(|gpu| Block::Gpu(SimulatedGpu::new(gpu).minute(lanes))).collect();
    blocks.push(Block::Host(host_minute()));
    blocks
}

/// Numbers of a fixed sequence (SplitMix64).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: i64) -> i64 {
        i64::try_from(self.next() % bound.unsigned_abs().max(1)).unwrap()
    }

    /// A bell around 0 that ends at +-`reach`: the sum of four even spreads.
    fn bell(&mut self, reach: i64) -> i64 {
        (0..4).map(|_| self.below(reach / 2 + 1)).sum::<i64>() - reach / 4 * 4
    }
}

struct SimulatedGpu {
    number: u64,
    load: Load,
    noise: Noise,
    busy: i64,
    power_mw: i64,
    temperature_c: i64,
    energy_mj: i64,
    pcie_kib: [i64; 2],
    nvlink_kib: [i64; 2],
    throttled_ns: i64,
}

impl SimulatedGpu {
    fn new(number: u64) -> Self {
        let mut noise = Noise(number + 1);
        let load = match number {
            0..5 => Load::Training,
            5..7 => Load::Inference,
            _ => Load::Idle,
        };
        let counter = |noise: &mut Noise| 40_000_000_000 + noise.below(1_000_000_000_000);
        Self {
            number,
            load,
            busy: 0,
            power_mw: 70_000,
            temperature_c: 58 + noise.below(6),
            energy_mj: counter(&mut noise),
            pcie_kib: [counter(&mut noise), counter(&mut noise)],
            nvlink_kib: [counter(&mut noise), counter(&mut noise)],
            throttled_ns: counter(&mut noise),
            noise,
        }
    }

    fn minute(mut self, lanes: Lanes) -> GpuBlock {
        let phase = self.noise.below(400);
        let mut ticks = Vec::new();
        let mut points = Vec::new();
        let mut columns: Vec<Column<Metric>> = Vec::new();
        for second in 0..SECONDS {
            let at = START.plus_ms(second * 1_000 + phase + self.noise.bell(6).abs());
            self.step();
            ticks.push(at);
            points.push(TrackPoint { at, busy: Reading::Number(self.busy) });
            for (place, (metric, value)) in self.readings().into_iter().enumerate() {
                if second == 0 {
                    columns.push(Column { metric, readings: Vec::new() });
                }
                let absent = lanes == Lanes::SlowEach15 && is_slow(metric) && second % 15 != 3;
                let reading = value.map_or(Reading::Unsupported, Reading::Number);
                let reading = reading.rounded_to(metric.resolution());
                columns[place].readings.push((!absent).then_some(reading));
            }
        }
        GpuBlock {
            uuid: GpuUuid::new(&format!(
                "GPU-5c0de{:03x}-1111-2222-3333-444455556666",
                self.number
            ))
            .unwrap(),
            bus_id: BusId::new(&format!("00000000:{:02X}:00.0", 0x18 + self.number * 8)).unwrap(),
            partition: None,
            ticks,
            track: UtilizationTrack { source: TrackSource::Poll, period_ms: 1_000, points },
            columns,
        }
    }

    fn step(&mut self) {
        let noise = &mut self.noise;
        self.busy = match self.load {
            Load::Training if noise.below(20) == 0 => 60 + noise.below(40),
            Load::Training => 100 - noise.below(3),
            Load::Inference => (55 + noise.bell(45)).clamp(0, 100),
            Load::Idle => 0,
        };
        let power = match self.load {
            Load::Idle => 71_000 + noise.bell(700),
            _ => 180_000 + self.busy * 4_900 + noise.bell(22_000),
        };
        // The driver averages over about a second.
        self.power_mw = (self.power_mw + 3 * power) / 4;
        self.energy_mj += self.power_mw;
        if noise.below(6) == 0 {
            self.temperature_c = (self.temperature_c + noise.below(3) - 1).clamp(30, 85);
        }
        let active = i64::from(self.load != Load::Idle);
        for kib in &mut self.pcie_kib {
            *kib += active * (1_600_000 + noise.bell(500_000)) + noise.below(40);
        }
        for kib in &mut self.nvlink_kib {
            *kib += i64::from(self.load == Load::Training) * (48_000_000 + noise.bell(6_000_000));
        }
        if self.power_mw > 660_000 {
            self.throttled_ns += noise.below(900_000_000);
        }
    }

    /// 39 readings in the order of their codes.
    fn readings(&mut self) -> Vec<(Metric, Option<i64>)> {
        let capped = self.power_mw > 660_000;
        let idle = self.load == Load::Idle;
        let share = |noise: &mut Noise, busy: i64, of: i64| {
            (busy * of / 100 + noise.bell(60)).clamp(0, 1_000)
        };
        let sm_clock = match (idle, capped) {
            (true, _) => 345,
            (false, true) => 1_980 - 15 * self.noise.below(9),
            (false, false) => 1_980,
        };
        let busy = self.busy;
        let mut rows = vec![
            (Metric::MemoryBusy, (busy * 45 / 100 + self.noise.bell(8)).clamp(0, 100)),
            (Metric::MemoryUsed, if idle { 4 } else { 71_204 + i64::from(busy < 70) * 2 }),
            (Metric::MemoryTotal, 81_559),
            (Metric::MemoryReserved, 551),
            (Metric::PowerDraw, self.power_mw),
            (Metric::Temperature, self.temperature_c),
            (Metric::MemoryTemperature, self.temperature_c + 9 + self.noise.below(2)),
            (Metric::SmClock, sm_clock),
            (Metric::MemoryClock, 2_619),
            (Metric::ClockEventReasons, if idle { 1 } else { 4 * i64::from(capped) }),
            (Metric::PerformanceState, 0),
            (Metric::PowerLimitEnforced, 700_000),
            (Metric::PowerLimitManagement, 700_000),
            (Metric::SmClockMax, 1_980),
            (Metric::MemoryClockMax, 2_619),
            (Metric::Energy, self.energy_mj),
            (Metric::PcieGeneration, 5),
            (Metric::PcieWidth, 16),
            (Metric::PcieReplays, 0),
            (Metric::PcieTx, self.pcie_kib[0]),
            (Metric::PcieRx, self.pcie_kib[1]),
            (Metric::NvlinkActive, 18),
            (Metric::NvlinkTx, self.nvlink_kib[0]),
            (Metric::NvlinkRx, self.nvlink_kib[1]),
            (Metric::EccCorrected, 3),
            (Metric::EccUncorrected, 0),
            (Metric::EccUncorrectedAggregate, 0),
            (Metric::RemappedCorrected, 1),
            (Metric::RemappedUncorrected, 0),
            (Metric::RemapPending, 0),
            (Metric::ThrottleSwPower, self.throttled_ns),
            (Metric::ThrottleSwThermal, 0),
            (Metric::ThrottleHwThermal, 0),
            (Metric::SmActive, share(&mut self.noise, busy, 930)),
            (Metric::TensorActive, share(&mut self.noise, busy, 480)),
            (Metric::DramActive, share(&mut self.noise, busy, 410)),
        ];
        rows.extend([(Metric::ComputeProcesses, i64::from(!idle)), (Metric::MigMode, 0)]);
        let mut rows: Vec<(Metric, Option<i64>)> =
            rows.into_iter().map(|(metric, value)| (metric, Some(value))).collect();
        rows.push((Metric::FanSpeed, None));
        rows.sort_by_key(|(metric, _)| *metric);
        rows
    }
}

/// What the agent reads each 15 s.
fn is_slow(metric: Metric) -> bool {
    !matches!(
        metric,
        Metric::MemoryBusy
            | Metric::MemoryUsed
            | Metric::PowerDraw
            | Metric::Temperature
            | Metric::MemoryTemperature
            | Metric::SmClock
            | Metric::MemoryClock
            | Metric::ClockEventReasons
            | Metric::PerformanceState
            | Metric::PowerLimitEnforced
            | Metric::Energy
            | Metric::SmActive
            | Metric::TensorActive
            | Metric::DramActive
    )
}

fn host_minute() -> HostBlock {
    let mut noise = Noise(99);
    let mut received_kib = 9_000_000_000;
    let ticks: Vec<Timestamp> =
        (0..4).map(|n| START.plus_ms(n * 15_000 + 20 + noise.below(4))).collect();
    let mut columns = [
        HostMetric::CpuBusy,
        HostMetric::MemoryUsed,
        HostMetric::MemoryTotal,
        HostMetric::NetworkRx,
    ]
    .map(|metric| Column { metric, readings: Vec::new() });
    for _ in &ticks {
        received_kib += 300_000 + noise.bell(90_000);
        let values = [210 + noise.bell(40), 412_000 + noise.bell(900), 2_063_000, received_kib];
        for (column, value) in columns.iter_mut().zip(values) {
            column.readings.push(Some(Reading::Number(value)));
        }
    }
    HostBlock { ticks, columns: columns.to_vec() }
}
