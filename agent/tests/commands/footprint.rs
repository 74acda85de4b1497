//! R1: the agent's memory is small, and the same whatever waits in its spool.
//!
//! Of the processor `bench` has the numbers (docs/PERFORMANCE.md).

use std::path::Path;
use std::time::{Duration, Instant as Deadline};

use leasewatch_agent::clock::{self, Anchor, Instant};
use leasewatch_agent::identity::{State, StateDir, load_or_create_key};
use leasewatch_agent::observation::{GpuObservation, Observation, TrackObservation};
use leasewatch_agent::recorder::{Epoch, Gathering, Journal, Writer};
use leasewatch_agent::spool::Quota;
use leasewatch_core::evidence::chain::ClockSource;
use leasewatch_core::id::{BusId, ChainId, EpochId, GpuUuid, LifeUnitId};
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::{LifeUnit, LifeUnitKind, Origin, TrackSource};
use leasewatch_core::time::HOUR_MS;

use crate::rig::{Rig, installed, sabotaged};
use crate::sink::Sink;

const HOURS: i64 = 96;
const MINUTE_MS: i64 = 60_000;
/// Of the unoptimised program, whose code alone is much of it. Measured: 26 MiB.
const MEMORY_MAX_KIB: u64 = 32 * 1_024;
/// Of the program that nodes install: what is promised.
const INSTALLED_MAX_KIB: u64 = 25 * 1_024;
/// What more backlog may cost, once it is longer than the one file of the spool that is read at a
/// time and what the allocator keeps of it.
const BACKLOG_MAX_KIB: u64 = 1_024;
const QUOTA: Quota = Quota { bytes: 128 << 20, hours: 720, reserve_bytes: 0 };

/// Puts minutes of two GPUs into the spool, as an agent does that finds no server.
pub(crate) fn fill(state_dir: &Path, minutes: i64, now: Instant) {
    let dir = StateDir::open(state_dir).unwrap();
    let state = State::load(&dir, ChainId([3; 16])).unwrap();
    let key = load_or_create_key(&dir).unwrap();
    let writer = Writer { key, state_dir: state_dir.to_owned(), quota: QUOTA };
    let anchor = Anchor::at(now);
    let life_unit = LifeUnit {
        id: LifeUnitId([3; 16]),
        kind: LifeUnitKind::Host,
        boot_id: "b".to_owned(),
        started_at: now.wall.plus_ms(-(HOURS + 1) * HOUR_MS),
    };
    let epoch = Epoch {
        id: EpochId([2; 8]),
        life_unit,
        origin: Origin::Simulated,
        cadence_ms: 1_000,
        clock_source: ClockSource::Unknown,
        version: "0.1.0".to_owned(),
        digest: None,
    };
    let journal = Journal::new(writer, epoch, state);
    let full_minute = now.boot_ms - now.wall.0.rem_euclid(MINUTE_MS);
    for minute in -minutes..0 {
        let begin = full_minute + minute * MINUTE_MS;
        let mut gathering = Gathering::new(anchor, begin);
        for second in 1..=20 {
            for number in 1..=2 {
                gathering.on_observation(Observation::Gpu(gpu(number, begin + second * 1_000)));
            }
        }
        let content = gathering.close(begin + 20_000, anchor).unwrap();
        journal.seal(&content, anchor, 2, Vec::new()).unwrap();
    }
}

/// The clocks of a machine that is up for long enough to have recorded all that.
fn up_for_days() -> Instant {
    Instant { boot_ms: clock::boot_ms() + (HOURS + 1) * HOUR_MS, wall: clock::wall() }
}

fn gpu(number: u8, at_boot_ms: i64) -> GpuObservation {
    let noise = (at_boot_ms / 1_000 * 7_919 + i64::from(number)).rem_euclid(101);
    let metrics = [Metric::MemoryUsed, Metric::MemoryBusy, Metric::SmClock];
    GpuObservation {
        uuid: GpuUuid::new(&format!("GPU-{number}")).unwrap(),
        bus_id: BusId::new(&format!("00000000:{number:02}:00.0")).unwrap(),
        partition: None,
        at_boot_ms,
        readings: metrics.map(|metric| (metric, Reading::Number(noise))).to_vec(),
        track: TrackObservation {
            source: TrackSource::Poll,
            period_ms: 1_000,
            points: vec![(at_boot_ms, Reading::Number(noise))],
        },
    }
}

/// Which agent.
#[derive(Debug, Clone, Copy)]
enum Program {
    /// The one of this build.
    Own,
    /// One that breaks a promise.
    Broken(&'static str),
    /// The one that nodes install.
    Installed,
}

/// The most memory in KiB that an agent ever had which delivered so many minutes, and their bytes.
fn peak_after(minutes: i64, program: Program) -> (u64, u64) {
    let rig = Rig::of_cards("H100-SXM5-80GB", 40, "").enrolled();
    fill(&rig.state_dir(), minutes, up_for_days());
    let (sink, address) = Sink::start();
    let state_dir = rig.state_dir().display().to_string();
    let words = ["run", "--server", &address, "--state-dir", &state_dir, "--name", "replays"];
    let mut command = match program {
        Program::Own => rig.command(&words),
        Program::Installed => rig.command_of(&installed(), &words),
        Program::Broken(promise) => {
            let mut command = rig.command_of(&sabotaged(), &words);
            command.env("LEASEWATCH_SABOTAGE", promise);
            command
        }
    };
    let quiet = command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut child = quiet.spawn().unwrap();
    let deadline = Deadline::now() + Duration::from_secs(120);
    let wanted = u64::try_from(minutes).unwrap();
    let delivered = loop {
        let seen = sink.of("replays");
        // The sampler has started as well, and frames go out.
        if seen.acked >= wanted && seen.frames.iter().any(|frame| !frame.gpus.is_empty()) {
            break seen;
        }
        assert!(Deadline::now() < deadline, "{} of {minutes}", seen.acked);
        std::thread::park_timeout(Duration::from_millis(20));
    };
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak = peak.split_whitespace().next().unwrap().parse().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    (peak, delivered.bytes)
}

/// What is wrong with an agent's memory, if anything.
fn fault(program: Program, max_kib: u64) -> Option<String> {
    let (short, _) = peak_after(HOURS * 60 / 2, program);
    let (long, bytes) = peak_after(HOURS * 60, program);
    // More than could lie in memory unnoticed.
    assert!(bytes > 3 * BACKLOG_MAX_KIB * 1_024, "{bytes} bytes are no backlog");
    let says = format!("{short} KiB after half, {long} KiB after {HOURS} hours, {bytes} bytes");
    eprintln!("{says}");
    (long > max_kib || long > short + BACKLOG_MAX_KIB).then_some(says)
}

#[test]
fn a_backlog_of_four_days_takes_no_more_memory_than_one_of_two() {
    assert_eq!(fault(Program::Own, MEMORY_MAX_KIB), None);
}

#[test]
fn the_agent_that_nodes_install_stays_within_25_mib() {
    assert_eq!(fault(Program::Installed, INSTALLED_MAX_KIB), None);
}

#[test]
fn an_agent_that_keeps_what_it_sent_is_noticed() {
    assert!(fault(Program::Broken("keeps_what_it_sent"), MEMORY_MAX_KIB).is_some());
}
