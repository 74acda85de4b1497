//! Samples of every page, for snapshots and for looking at them. All values are made up by a
//! small integer recipe; nothing here is a measurement.

mod slices;
mod wiring;

use leasewatch_core::delivery::{NodeState, UnknownReason};
use leasewatch_core::evidence::chain::{ChainStart, ChainStartReason};
use leasewatch_core::id::{ChainId, GpuUuid, NodeId};
use leasewatch_core::metering::{GapCause, HourState};
use leasewatch_core::segment::{Event, EventKind, Origin};
use leasewatch_core::time::{DAY_MS, HOUR_MS, Hour, Period, Timestamp};

use super::node::{AgentHealth, ChainBegun, HostFacts, NodeGpu, NodeView};
use super::overview::{
    Attention, FleetTotals, NodeLane, OverviewView, ProviderLane, Setup, Subject, TenantLane,
};
use super::{GpuRow, NodeName, NodeStatus};
use crate::chart::Cell;
use crate::format::{Datum, Measured, Missing};
use crate::live::LiveValues;
use crate::names::Standing;

/// The instant of every sample: 2026-08-01T14:25:00Z.
pub(crate) const NOW: Timestamp = Timestamp(1_785_594_300_000);

const H100: &str = "NVIDIA H100 80GB HBM3";

/// The character of a GPU's hours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    Training,
    Serving,
    Idle,
    /// Off the bus for the last five hours.
    Lost,
    /// Restarts and an outage of the network.
    Rough,
    /// Utilization cannot be read.
    Unreadable,
    /// Joined nine hours before the end.
    New,
}

fn gpu_cells(habit: Habit, seed: i64, period: Period, origin: Origin) -> Vec<Cell> {
    let hours = period.hours().filter(|hour| hour.start() < NOW);
    hours.map(|hour| cell(habit, seed, hour, origin)).collect()
}

fn cell(habit: Habit, seed: i64, hour: Hour, origin: Origin) -> Cell {
    let end = hour.end().min(NOW);
    let length = end.since(hour.start());
    let before_end = NOW.hour().0 - hour.0;
    let noise = (hour.0 * 7_919 + seed * 104_729).rem_euclid(97);
    let gap = |cause, ms: i64| vec![(cause, ms.min(length))];
    let gaps = match habit {
        Habit::Lost if before_end < 5 => gap(GapCause::GpuLost, length),
        Habit::Lost if before_end == 5 => gap(GapCause::GpuLost, 2_520_000),
        Habit::Rough if before_end == 8 => {
            vec![(GapCause::NodeReboot, 410_000), (GapCause::AgentRestart, 65_000)]
        }
        Habit::Rough if (13..18).contains(&before_end) => gap(GapCause::NetUnreachable, length),
        Habit::Rough if before_end == 18 => gap(GapCause::Unexplained, 1_260_000),
        Habit::Unreadable => gap(GapCause::Unsupported, length),
        _ if noise == 13 => gap(GapCause::AgentRestart, 41_000),
        _ => Vec::new(),
    };
    let enrolled_ms = if habit == Habit::New && before_end > 9 { 0 } else { length };
    let gaps = if enrolled_ms == 0 { Vec::new() } else { gaps };
    let measured_ms = enrolled_ms - gaps.iter().map(|(_, ms)| ms).sum::<i64>();
    let busy_pct = match habit {
        Habit::Training | Habit::Lost | Habit::Rough if before_end % 11 != 3 => 88 + noise % 12,
        Habit::Training | Habit::Lost | Habit::Rough => 35 + noise % 20,
        Habit::Serving | Habit::New => 12 + (hour.0 * 5 + seed).rem_euclid(24) * 3,
        Habit::Idle | Habit::Unreadable => i64::from(noise > 90) * 3,
    };
    let state = match before_end {
        0 => HourState::Open,
        1..=24 => HourState::Provisional,
        _ => HourState::Sealed,
    };
    let busy_pct_ms = busy_pct * measured_ms;
    let flagged_ms = |at: i64, ms: i64| {
        if habit == Habit::Rough && before_end == at { ms.min(measured_ms) } else { 0 }
    };
    Cell {
        period: hour.period(),
        busy_pct_ms,
        measured_ms,
        enrolled_ms,
        frozen_ms: flagged_ms(5, 1_560_000),
        clock_flagged_ms: flagged_ms(6, 540_000),
        gaps,
        state,
        origin,
    }
}

fn live(habit: Habit, seed: i64) -> LiveValues {
    let number = Datum::Number;
    let missing = |missing| Datum::Missing { missing };
    let busy = match habit {
        Habit::Training | Habit::Rough => 96 + seed.rem_euclid(4),
        Habit::Serving | Habit::New => 41 + seed.rem_euclid(9),
        Habit::Idle | Habit::Lost | Habit::Unreadable => 0,
    };
    let values = LiveValues {
        busy_pct: number(busy),
        memory_used_mib: number(600 + busy * 780),
        memory_total_mib: number(81_559),
        power_draw_mw: number(71_400 + busy * 6_130),
        power_limit_mw: number(700_000),
        temperature_c: number(31 + busy * 2 / 5),
    };
    match habit {
        Habit::Lost => LiveValues {
            busy_pct: missing(Missing::ReadError),
            memory_used_mib: missing(Missing::ReadError),
            memory_total_mib: missing(Missing::ReadError),
            power_draw_mw: missing(Missing::ReadError),
            power_limit_mw: missing(Missing::ReadError),
            temperature_c: missing(Missing::ReadError),
        },
        Habit::Unreadable => LiveValues { busy_pct: missing(Missing::Unsupported), ..values },
        _ => values,
    }
}

fn gpu_row(habit: Habit, number: u16, model: &str, node: &NodeName) -> GpuRow {
    let origin = node.origin;
    let seed = i64::from(number);
    let day = Period::new(NOW.plus_ms(-DAY_MS), NOW);
    let strip = gpu_cells(habit, seed, day, origin);
    GpuRow {
        number,
        uuid: format!("GPU-{}{number:04}-9f3a-4d02-8a6b-0d5f7be1{number:04}", &node.id[..4]),
        partition: None,
        model: model.to_owned(),
        live: live(habit, seed),
        lost: habit == Habit::Lost,
        stalled: false,
        day: strip.iter().map(Cell::measured).sum(),
        strip,
    }
}

fn name(digit: char, name: &str, origin: Origin) -> NodeName {
    NodeName { id: format!("4b{digit}f").repeat(8), name: name.to_owned(), origin }
}

fn lane(
    name: NodeName,
    standing: Standing,
    heard_ms_ago: i64,
    (model, habits): (&str, &[Habit]),
) -> NodeLane {
    let mut gpus: Vec<GpuRow> = (0_u16..)
        .zip(habits)
        .map(|(number, habit)| gpu_row(*habit, number, model, &name))
        .collect();
    if standing != Standing::Live(NodeState::Up) {
        gpus.iter_mut().for_each(|gpu| gpu.live = LiveValues::NONE);
    }
    let last_heard_at = Some(NOW.plus_ms(-heard_ms_ago));
    NodeLane { name, status: NodeStatus { standing, last_heard_at }, gpus }
}

pub(super) fn overview() -> OverviewView {
    use Habit::{Idle, Lost, New, Rough, Serving, Training, Unreadable};
    let up = Standing::Live(NodeState::Up);
    let silent = Standing::Live(NodeState::Unknown(UnknownReason::Network));
    let measured = Origin::Measured;
    let train =
        lane(name('1', "train-01", measured), up, 800, (H100, &[Training, Training, Lost, Idle]));
    let serve = lane(
        name('2', "serve-a", measured),
        up,
        1_200,
        ("NVIDIA L40S", &[Serving, New, Unreadable]),
    );
    let rough = lane(
        name('3', "spot-7", measured),
        silent,
        3_180_000,
        ("NVIDIA A100-SXM4-80GB", &[Rough, Rough]),
    );
    let simulated =
        lane(name('4', "demo-0", Origin::Simulated), up, 900, (H100, &[Training, Serving]));
    let imported = lane(
        name('5', "lab-archive", Origin::Imported),
        Standing::Ended,
        9 * HOUR_MS,
        ("NVIDIA GeForce RTX 4090", &[Serving]),
    );
    let attention = attention(&train, &rough);
    let providers = vec![
        provider("nebula", vec![train, serve]),
        provider("cirrus", vec![rough]),
        provider("demo", vec![simulated, imported]),
    ];
    let totals = totals(&providers);
    let tenants = vec![TenantLane { tenant: "default".to_owned(), providers }];
    let running = "18.40 USD".parse().into_iter().collect();
    let deadlines = crate::deadline::DeadlineLine::samples();
    OverviewView { totals, attention, deadlines, tenants, running, setup: Setup::sample() }
}

fn totals(providers: &[ProviderLane]) -> FleetTotals {
    let nodes = || providers.iter().flat_map(|provider| &provider.nodes);
    let expected = || nodes().filter(|node| node.status.standing != Standing::Ended);
    let up = || expected().filter(|node| node.status.standing == Standing::Live(NodeState::Up));
    let gpus = || up().flat_map(|node| &node.gpus);
    let busy: Vec<i64> = gpus().filter_map(|gpu| gpu.live.busy_pct.number()).collect();
    let live = count(busy.len());
    FleetTotals {
        gpus_live: live,
        gpus_expected: count(expected().map(|node| node.gpus.len()).sum()),
        nodes_up: count(up().count()),
        nodes_expected: count(expected().count()),
        busy_now_pct: Datum::Number(busy.iter().sum::<i64>() / live.max(1)),
        power_now_mw: Datum::Number(gpus().filter_map(|gpu| gpu.live.power_draw_mw.number()).sum()),
        day: nodes().flat_map(|node| &node.gpus).map(|gpu| gpu.day).sum(),
    }
}

fn count(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn provider(provider: &str, nodes: Vec<NodeLane>) -> ProviderLane {
    ProviderLane { provider: provider.to_owned(), nodes }
}

fn attention(train: &NodeLane, rough: &NodeLane) -> Vec<Attention> {
    let ago = |ms: i64| Some(NOW.plus_ms(-ms));
    let at =
        |lane: &NodeLane, gpu, at, subject| Attention { node: lane.name.clone(), gpu, at, subject };
    let low: Measured = rough.gpus.iter().map(|gpu| gpu.day).sum();
    vec![
        at(train, Some(2), ago(19_020_000), Subject::GpuLost),
        at(train, Some(2), ago(19_021_000), Subject::Xid { code: 79, count: 1 }),
        at(rough, None, ago(3_180_000), Subject::NodeUnknown { standing: rough.status.standing }),
        at(rough, None, None, Subject::LowCoverage { day: low }),
    ]
}

pub(super) fn empty_overview() -> OverviewView {
    let totals = FleetTotals {
        gpus_live: 0,
        gpus_expected: 0,
        nodes_up: 0,
        nodes_expected: 0,
        busy_now_pct: Datum::NO_DATA,
        power_now_mw: Datum::NO_DATA,
        day: Measured::default(),
    };
    let (attention, tenants, running) = (Vec::new(), Vec::new(), Vec::new());
    let deadlines = Vec::new();
    OverviewView { totals, attention, deadlines, tenants, running, setup: Setup::sample() }
}

pub(super) fn node() -> NodeView {
    use Habit::{Idle, Lost, New, Rough, Serving, Training, Unreadable};
    let habits = [Training, Rough, Lost, Serving, New, Idle, Unreadable, Training];
    let first = NOW.hour().start().plus_ms(-6 * DAY_MS - 14 * HOUR_MS);
    let week = Period::new(first, first.plus_ms(7 * DAY_MS));
    let name = name('1', "train-01", Origin::Measured);
    let mut gpus: Vec<NodeGpu> = (0_u16..)
        .zip(habits)
        .map(|(number, habit)| NodeGpu {
            row: gpu_row(habit, number, H100, &name),
            hours: gpu_cells(habit, number.into(), week, Origin::Measured),
        })
        .collect();
    slices::cut(&mut gpus, 6, week, &name);
    NodeView {
        status: NodeStatus {
            standing: Standing::Live(NodeState::Up),
            last_heard_at: Some(NOW.plus_ms(-800)),
        },
        may_revoke: true,
        labels: vec![("team".to_owned(), "nlp".to_owned())],
        tenant: None,
        provider: "nebula".to_owned(),
        enrolled_at: first.plus_ms(-40 * DAY_MS),
        ended_at: None,
        host: Some(HostFacts {
            hostname: "train-01.nebula.example".to_owned(),
            kernel: "6.8.0-60-generic".to_owned(),
            cpus: 192,
            memory_mib: 2_063_360,
            driver_version: "570.133.20".to_owned(),
            cuda_version: "12.8".to_owned(),
            container: false,
        }),
        wiring: wiring::events(&gpus, NOW.plus_ms(-8 * HOUR_MS)),
        agent: AgentHealth {
            version: Some("0.1.0".to_owned()),
            started_at: Some(NOW.plus_ms(-8 * HOUR_MS)),
            clock_offset_us: Datum::Number(-1_840),
            clock_bound_us: Datum::Number(310),
            backlog_ms: Datum::Number(0),
            cadence_ms: Datum::Number(1_000),
        },
        gpus,
        name,
        week,
        events: node_events(),
        events_left_out: 12,
        chain_starts: vec![lost_state()],
        record_breaks: 1,
        statements: vec![wiring::enrolled(first.plus_ms(-40 * DAY_MS))],
    }
}

pub(super) fn ended_node() -> NodeView {
    let mut view = node();
    let ended_at = view.week.start.plus_ms(2 * DAY_MS + 9 * HOUR_MS + 1_800_000);
    view.name = name('5', "lab-archive", Origin::Imported);
    view.status = NodeStatus { standing: Standing::Ended, last_heard_at: Some(ended_at) };
    view.may_revoke = false;
    view.enrolled_at = view.week.start.plus_ms(20 * HOUR_MS);
    view.ended_at = Some(ended_at);
    view.host = None;
    view.wiring.clear();
    view.agent = AgentHealth {
        version: Some("0.1.0".to_owned()),
        started_at: None,
        clock_offset_us: Datum::NO_DATA,
        clock_bound_us: Datum::NO_DATA,
        backlog_ms: Datum::NO_DATA,
        cadence_ms: Datum::Number(5_000),
    };
    let inside = Period::new(view.enrolled_at, ended_at.hour().start());
    view.gpus.truncate(2);
    for gpu in &mut view.gpus {
        gpu.row.live = LiveValues::NONE;
        gpu.row.strip.clear();
        gpu.row.day = Measured::default();
        gpu.hours.retain(|cell| inside.contains(cell.period.start) && gpu.row.number == 0);
        for cell in &mut gpu.hours {
            (cell.origin, cell.state) = (Origin::Imported, HourState::Sealed);
        }
    }
    view.events.clear();
    view.events_left_out = 0;
    view.chain_starts.clear();
    view.record_breaks = 0;
    view.statements.clear();
    view
}

fn lost_state() -> ChainBegun {
    let start = ChainStart {
        node: NodeId([0x22; 16]),
        chain: ChainId([0x33; 16]),
        at: NOW.plus_ms(-26_399_000),
        reason: ChainStartReason::LostState,
    };
    let statement = String::from_utf8_lossy(&start.statement()).into_owned();
    ChainBegun { start, statement, signature: "0".repeat(128) }
}

fn node_events() -> Vec<Event> {
    let lost = GpuUuid::new("GPU-4b1f0002-9f3a-4d02-8a6b-0d5f7be10002").ok();
    let event = |ms_ago: i64, gpu: Option<&GpuUuid>, kind| {
        Event::new(NOW.plus_ms(-ms_ago), gpu.cloned(), kind)
    };
    vec![
        event(19_020_000, lost.as_ref(), EventKind::GpuLost { nvml_code: 15 }),
        event(19_021_000, lost.as_ref(), EventKind::Xid { code: 79 }),
        event(
            26_400_000,
            None,
            EventKind::AgentStarted {
                version: "0.1.0".to_owned(),
                life_unit: leasewatch_core::segment::LifeUnit {
                    id: leasewatch_core::id::LifeUnitId([7; 16]),
                    kind: leasewatch_core::segment::LifeUnitKind::Host,
                    boot_id: "4d3c2b1a".to_owned(),
                    started_at: NOW.plus_ms(-27_000_000),
                },
                clock_source: "tsc".to_owned(),
            },
        ),
        event(90_000_000, None, EventKind::ClockStepped { by_ms: -1_250 }),
        event(
            180_000_000,
            lost.as_ref(),
            EventKind::PowerLimitChanged { from_mw: 700_000, to_mw: 500_000 },
        ),
        event(181_000_000, lost.as_ref(), EventKind::EccUncorrected { count: 2 }),
    ]
}
