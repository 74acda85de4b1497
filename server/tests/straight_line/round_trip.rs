//! What an agent recorded, taken out of the server, played by the simulator, and recorded again by
//! another agent: each reading and each event comes back at its own time, and nothing is made up.
//!
//! What has to come back is worked out from the first recording by the rule of metering alone: a
//! reading describes the time up to its tick.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use leasewatch_core::id::GpuUuid;
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::{Event, EventKind, GpuBlock, GpuInventory, Origin};
use leasewatch_core::time::{HOUR_MS, Timestamp};
use leasewatch_server::clock::Clock;

use crate::fleet::{Agent, Recorded, connect, epoch_wall_ms};
use crate::imports::utf8;
use crate::process::{RunningServer, data_dir, eventually};

const CADENCE: &str = "250ms";
const CADENCE_MS: i64 = 250;
/// Ticks further apart than this have a gap between them.
const LONGEST_HOLD_MS: i64 = 3_000;
/// The time between two reads of the slow lane at this cadence, and some of the start.
const SLOW_MS: i64 = 5_000;
/// A call lies around the time of its tick: so much before it, and on a busy machine so much after.
const AROUND_MS: std::ops::RangeInclusive<i64> = -80..=240;

/// Where the first scenario begins, and when it has been recorded far enough.
const BEGINS_S: i64 = 20;
const UNTIL_S: i64 = BEGINS_S + 18;

/// A card that is cut, one that is hot, capped and has errors, one that falls off for two seconds,
/// one whose calls hang, and one that hides or fails readings.
const FIRST: &str = r#"driver_version = "590.48.01"
[[cards]]
model = "H100-SXM5-80GB"
count = 5
load = { shape = "saw_tooth", period_s = 9 }
[[faults]]
kind = "mig_on"
card = 0
until_s = 30
slices = [
    { compute_slices = 3, gpu_instance = 2, percent = 90 },
    { compute_slices = 2, gpu_instance = 5, compute_instances = 2, percent = 70 },
    { compute_slices = 1, gpu_instance = 9, percent = 0 },
]
[[faults]]
kind = "mig_on"
card = 0
at_s = 30
slices = [{ compute_slices = 7, gpu_instance = 0, percent = 30 }]
[[faults]]
kind = "thermal_throttle"
card = 1
at_s = 28
[[faults]]
kind = "power_limit"
card = 1
at_s = 29
limit_mw = 450000
[[faults]]
kind = "ecc_uncorrected"
card = 1
at_s = 29
count = 3
[[faults]]
kind = "xid"
card = 1
at_s = 30
code = 63
[[faults]]
kind = "gpu_lost"
card = 2
at_s = 29
until_s = 31
[[faults]]
kind = "hang"
card = 3
at_s = 28
until_s = 35
[[faults]]
kind = "masked"
card = 4
metrics = ["energy", "ecc"]
[[faults]]
kind = "nvml_error"
card = 4
at_s = 29
until_s = 33
code = 999
metrics = ["temperature", "clocks"]
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_agent_recorded_is_recorded_again_from_its_capture() {
    let data = data_dir();
    let server = RunningServer::start(data.path());
    let begins = format!("started_s_ago = {BEGINS_S}\n{FIRST}");
    record(&server, data.path(), ("first", &begins), UNTIL_S);
    capture(data.path(), "first");
    let db = connect(data.path()).await;
    let first = Recorded::load(&db, &server, &[], "first").await;
    let (start_ms, end_ms) = first.span;
    let replay = "driver_version = \"590.48.01\"\n[replay]\nfile = \"first.lws\"\n";
    record(&server, data.path(), ("again", replay), (end_ms - start_ms) / 1_000 + 3);
    let again = Recorded::load(&db, &server, &[], "again").await;
    assert_eq!((first.node.origin, again.node.origin), (Origin::Simulated, Origin::Simulated));

    let epoch_ms = epoch_wall_ms(data.path(), "again");
    let moved = |at: Timestamp| at.0 - epoch_ms + start_ms;
    let (recorded, played) = (by_gpu(&first), by_gpu(&again));
    assert_eq!(recorded.keys().collect::<Vec<_>>(), played.keys().collect::<Vec<_>>());
    assert_eq!(recorded.len(), 5 + 4 + 1, "cards, slices, the slice of the second cut");
    for (uuid, blocks) in &played {
        let card = Card::of(&recorded[uuid]);
        compare(uuid, &card, &Card::of(blocks), moved);
    }
    compare_events(&first.events, &again.events, (start_ms, moved));
}

/// Runs an agent on a scenario until it is so old.
fn record(server: &RunningServer, folder: &Path, (name, text): (&'static str, &str), until_s: i64) {
    let epoch = folder.join(format!("{name}.epoch"));
    let text = format!("epoch_file = {epoch:?}\n{text}");
    std::fs::write(folder.join(format!("{name}.toml")), text).unwrap();
    let mut agent = Agent::start(server, folder, name, Some(CADENCE));
    eventually("the scenario's end", || (agent.scenario_second()? >= until_s).then_some(()));
    Agent::stop_all(vec![&mut agent]);
}

fn capture(folder: &Path, name: &str) {
    let now = Clock::system().now();
    let output = Command::new(env!("CARGO_BIN_EXE_leasewatch-server"))
        .args(["export", "segments", "--data-dir"])
        .arg(folder)
        .args(["--node", name, "--from", &now.plus_ms(-HOUR_MS).to_string()])
        .args(["--to", &now.plus_ms(HOUR_MS).to_string()])
        .arg(folder.join(format!("{name}.lws")))
        .env_remove("DATABASE_URL")
        .env_remove("DATABASE_ADMIN_URL")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", utf8(&output.stderr));
}

fn by_gpu(recorded: &Recorded) -> BTreeMap<GpuUuid, Vec<&GpuBlock>> {
    let mut gpus: BTreeMap<GpuUuid, Vec<&GpuBlock>> = BTreeMap::new();
    for block in recorded.slots.iter().flat_map(|slot| &slot.blocks) {
        gpus.entry(block.uuid.clone()).or_default().push(block);
    }
    gpus
}

/// All that was recorded of a GPU or slice, in order of time.
struct Card {
    ticks: Vec<i64>,
    busy: Vec<(i64, Reading)>,
    columns: BTreeMap<Metric, Vec<(i64, Reading)>>,
}

impl Card {
    fn of(blocks: &[&GpuBlock]) -> Self {
        let mut card = Self { ticks: Vec::new(), busy: Vec::new(), columns: BTreeMap::new() };
        for block in blocks {
            card.ticks.extend(block.ticks.iter().map(|tick| tick.0));
            card.busy.extend(block.track.points.iter().map(|point| (point.at.0, point.busy)));
            for column in &block.columns {
                let readings = block.ticks.iter().zip(&column.readings);
                let read = readings.filter_map(|(tick, reading)| Some((tick.0, (*reading)?)));
                card.columns.entry(column.metric).or_default().extend(read);
            }
        }
        card
    }

    /// From where to where it was recorded without a gap around an instant.
    fn stretch(&self, at_ms: i64) -> Option<(i64, i64)> {
        let next = self.ticks.partition_point(|tick| *tick < at_ms);
        let until = *self.ticks.get(next)?;
        let before = next.checked_sub(1).map(|at| self.ticks[at]);
        let joined = before.is_some_and(|before| until - before <= LONGEST_HOLD_MS);
        (joined || at_ms > until - CADENCE_MS).then_some(())?;
        let apart = |pair: &&[i64]| pair[1] - pair[0] > LONGEST_HOLD_MS;
        let from = self.ticks[..=next].windows(2).rfind(|pair| apart(pair)).map(|pair| pair[1]);
        let to = self.ticks[next..].windows(2).find(apart).map(|pair| pair[0]);
        let from = from.unwrap_or(self.ticks[0]) - CADENCE_MS;
        Some((from, to.unwrap_or(self.ticks[self.ticks.len() - 1])))
    }

    /// What a call at an instant has to answer.
    fn answer(&self, readings: &[(i64, Reading)], at_ms: i64) -> Reading {
        let Some((from, to)) = self.stretch(at_ms) else { return Reading::Error };
        let within = |(at, _): &&(i64, Reading)| from < *at && *at <= to;
        let there = readings.iter().filter(within);
        let mut last = None;
        for (at, reading) in there {
            last = Some(*reading);
            if *at >= at_ms {
                break;
            }
        }
        last.unwrap_or(Reading::Error)
    }
}

/// Each reading of the second recording is one that the first has around that time.
fn compare(uuid: &GpuUuid, first: &Card, again: &Card, moved: impl Fn(Timestamp) -> i64) {
    let check = |what: &str, recorded: &[(i64, Reading)], played: &[(i64, Reading)]| {
        // What was never offered is not asked for again, not even where nothing is known.
        let never = recorded.iter().all(|read| read.1 == Reading::Unsupported);
        for (at, reading) in played {
            if never && *reading == Reading::Unsupported {
                continue;
            }
            let at_ms = moved(Timestamp(*at));
            let around = AROUND_MS.step_by(20).map(|by| first.answer(recorded, at_ms + by));
            let around: Vec<Reading> = around.collect();
            assert!(around.contains(reading), "{uuid} {what} {at_ms}: {reading:?} {around:?}");
        }
        let end = |tick: Option<&i64>| moved(Timestamp(*tick.unwrap()));
        let (from, to) = (end(again.ticks.first()), end(again.ticks.last()));
        let covered = |at: i64| from + SLOW_MS < at && at < to - SLOW_MS;
        let number = |(_, reading): &(i64, Reading)| reading.number().is_some();
        let shows = recorded.iter().any(|read| number(read) && covered(read.0));
        assert!(!shows || played.iter().any(number), "{uuid} {what}: no number came back");
    };
    check("busy", &first.busy, &again.busy);
    for (metric, played) in &again.columns {
        match first.columns.get(metric) {
            Some(recorded) => check(metric.name(), recorded, played),
            None => assert!(played.iter().all(|read| read.1 == Reading::Unsupported), "{metric}"),
        }
    }
    let missing: Vec<_> =
        first.columns.keys().filter(|metric| !again.columns.contains_key(metric)).collect();
    assert!(missing.is_empty(), "{uuid}: {missing:?}");
}

/// Events of GPUs, each with how far from its time it may come back.
fn told(event: &Event) -> Option<(String, i64)> {
    let tolerance_ms = match &event.kind {
        EventKind::Xid { .. } => 1_000,
        EventKind::GpuLost { .. } | EventKind::GpuBack | EventKind::CollectorStalled => 1_500,
        EventKind::EccUncorrected { .. }
        | EventKind::PowerLimitChanged { .. }
        | EventKind::MigChanged { .. }
        | EventKind::DriverReloaded
        | EventKind::PartitionRemoved => SLOW_MS,
        // Its length differs by the moment of the call that hung.
        EventKind::CollectorResumed { .. } => {
            return Some((format!("{:?} resumed", event.gpu), 1_500));
        }
        EventKind::GpuSeen(seen) => {
            return Some((format!("{:?}", shown(seen.clone())), i64::MAX));
        }
        _ => return None,
    };
    Some((format!("{:?} {:?}", event.gpu, event.kind), tolerance_ms))
}

/// What of an inventory is played: versions and part numbers always say that they are simulated.
fn shown(seen: GpuInventory) -> GpuInventory {
    GpuInventory { vbios: None, part_number: None, ..seen }
}

fn compare_events(
    first: &[Event],
    again: &[Event],
    (start_ms, moved): (i64, impl Fn(Timestamp) -> i64),
) {
    let offset = |event: &Event| event.at.0 - start_ms;
    let mut wanted: BTreeSet<usize> =
        (0..first.len()).filter(|at| told(&first[*at]).is_some()).collect();
    for event in again {
        let Some((what, tolerance_ms)) = told(event) else { continue };
        let at_ms = moved(event.at) - start_ms;
        let is_it = |other: &&usize| {
            let other = &first[**other];
            told(other).is_some_and(|(found, _)| found == what)
                && offset(other).abs_diff(at_ms) <= tolerance_ms.unsigned_abs()
        };
        let found = wanted.iter().find(is_it).copied();
        let found =
            found.unwrap_or_else(|| panic!("{at_ms}: {event:?} was not recorded: {first:?}"));
        wanted.remove(&found);
    }
    let left: Vec<_> = wanted.iter().map(|at| &first[*at]).collect();
    assert!(left.is_empty(), "not played: {left:?}");
    let kinds: BTreeSet<&str> = again.iter().map(|event| event.kind.name()).collect();
    for kind in [
        "xid",
        "gpu_lost",
        "gpu_back",
        "ecc_uncorrected",
        "power_limit_changed",
        "partition_removed",
        "collector_stalled",
        "collector_resumed",
    ] {
        assert!(kinds.contains(kind), "{kind} is not in {kinds:?}");
    }
}
