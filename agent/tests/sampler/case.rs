//! A scenario, the sampler that plays it in a child process, and what it said.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use leasewatch_agent::observation::{
    CHANNEL_CAPACITY, EventObservation, GpuObservation, LiveState, Observation,
};
use leasewatch_agent::sampler::{Sampler, SamplerOptions, Timing};
use leasewatch_agent::source::Source;
use leasewatch_core::id::GpuUuid;
use leasewatch_core::sample::{Metric, Reading};
use leasewatch_core::segment::EventKind;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

/// A child that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// Two boards whose names the tests know; `FIRST` is the one that things happen to.
pub(crate) const FIRST: &str = "GPU-11111111-0000-0000-0000-000000000001";
pub(crate) const SECOND: &str = "GPU-22222222-0000-0000-0000-000000000002";
pub(crate) const FIRST_BUS: &str = "00000000:18:00.0";
pub(crate) const SECOND_BUS: &str = "00000000:2A:00.0";

pub(crate) fn scenario(model: &str, driver: &str, faults: &str) -> String {
    format!(
        r#"
driver_version = "{driver}"
started_s_ago = 600
[[cards]]
model = "{model}"
load = {{ shape = "constant", percent = 40 }}
uuid = "{FIRST}"
bus_id = "{FIRST_BUS}"
[[cards]]
model = "{model}"
load = {{ shape = "constant", percent = 70 }}
uuid = "{SECOND}"
bus_id = "{SECOND_BUS}"
{faults}
"#
    )
}

pub(crate) fn fault(kind_and_more: &str) -> String {
    scenario("H100-SXM5-80GB", "590.48.01", &format!("[[faults]]\n{kind_and_more}\n"))
}

/// Plays `scenario` in a child process in which the calling test runs `body`. The test is found by
/// the name of its closure.
pub(crate) fn play<B: FnOnce(&mut Case)>(scenario: &str, body: B) {
    let closure = std::any::type_name::<B>();
    let test = closure.trim_start_matches("sampler::").trim_end_matches("::{{closure}}");
    if is_child() {
        body(&mut Case::start(|_| {}));
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (plan, control) = (directory.path().join("plan.toml"), directory.path().join("control"));
    std::fs::write(&plan, scenario).unwrap();
    let output = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--nocapture"])
        .env(nvidia_ml_sim::SCENARIO_VARIABLE, &plan)
        .env(nvidia_ml_sim::CONTROL_VARIABLE, &control)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}\n{}", text(&output.stdout), text(&output.stderr));
    assert!(text(&output.stdout).contains("1 passed"), "no such test: {test}");
}

/// True in the process that plays the scenario.
pub(crate) fn is_child() -> bool {
    std::env::var_os(nvidia_ml_sim::SCENARIO_VARIABLE).is_some()
}

/// Switches faults of the played scenario on and off.
pub(crate) fn set_control(faults: &str) {
    let path = std::env::var_os(nvidia_ml_sim::CONTROL_VARIABLE).unwrap();
    std::fs::write(path, faults).unwrap();
}

pub(crate) fn library() -> PathBuf {
    nvidia_ml_sim::library_path().expect("cargo builds the simulator beside this test")
}

pub(crate) fn id(uuid: &str) -> GpuUuid {
    GpuUuid::new(uuid).unwrap()
}

/// A sampler and everything that it said.
pub(crate) struct Case {
    pub(crate) sampler: Option<Sampler>,
    pub(crate) live: LiveState,
    pub(crate) from: mpsc::Receiver<Observation>,
    pub(crate) seen: Vec<Observation>,
    /// Text of the scenario that is played.
    pub(crate) scenario: String,
}

impl Case {
    pub(crate) fn start(change: impl FnOnce(&mut SamplerOptions)) -> Self {
        let mut options = SamplerOptions::new(Source::open(&library()), std::env::temp_dir());
        options.timing =
            Timing { cadence_ms: 200, slow_every_ticks: 2, rescan_ms: 1_000, stall_ms: 1_000 };
        change(&mut options);
        let (to, from) = mpsc::channel(CHANNEL_CAPACITY);
        let sampler = Sampler::start(options, to).unwrap();
        let plan = std::env::var_os(nvidia_ml_sim::SCENARIO_VARIABLE).unwrap();
        let scenario = std::fs::read_to_string(plan).unwrap();
        Self { live: sampler.live(), sampler: Some(sampler), from, seen: Vec::new(), scenario }
    }

    /// Starts over with other options; nothing of before is kept.
    pub(crate) fn restart(&mut self, change: impl FnOnce(&mut SamplerOptions)) {
        self.stop();
        *self = Self::start(change);
    }

    /// Reads observations until `is_enough` of all that was seen.
    pub(crate) fn until(&mut self, what: &str, is_enough: impl Fn(&Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_enough(self) {
            match self.from.try_recv() {
                Ok(observation) => self.seen.push(observation),
                Err(TryRecvError::Empty) if Instant::now() < deadline => {
                    // The channel has no waiting receive with a deadline outside a runtime.
                    std::thread::park_timeout(Duration::from_millis(5));
                }
                Err(error) => panic!("no {what} ({error}); seen: {:#?}", self.events()),
            }
        }
    }

    pub(crate) fn until_event(&mut self, what: &str, is_it: impl Fn(&EventObservation) -> bool) {
        self.until(what, |case| case.events().iter().any(|event| is_it(event)));
    }

    /// Waits for `count` more reads of a GPU.
    pub(crate) fn until_reads(&mut self, uuid: &str, count: usize) {
        let wanted = self.reads(uuid).len() + count;
        self.until("reads", |case| case.reads(uuid).len() >= wanted);
    }

    /// Ends the sampler and takes what it still had to say.
    pub(crate) fn stop(&mut self) {
        if let Some(sampler) = self.sampler.take() {
            sampler.stop();
        }
        while let Ok(observation) = self.from.try_recv() {
            self.seen.push(observation);
        }
    }

    pub(crate) fn reads(&self, uuid: &str) -> Vec<&GpuObservation> {
        let mut reads = Vec::new();
        for seen in &self.seen {
            if let Observation::Gpu(gpu) = seen
                && gpu.uuid.as_str() == uuid
            {
                reads.push(gpu);
            }
        }
        reads
    }

    pub(crate) fn events(&self) -> Vec<&EventObservation> {
        let mut events = Vec::new();
        for seen in &self.seen {
            if let Observation::Event(event) = seen {
                events.push(event);
            }
        }
        events
    }

    pub(crate) fn points(&self, uuid: &str) -> Vec<(i64, Reading)> {
        self.reads(uuid).iter().flat_map(|read| read.track.points.clone()).collect()
    }

    /// Every reading of one metric.
    pub(crate) fn column(&self, uuid: &str, metric: Metric) -> Vec<Reading> {
        let reads = self.reads(uuid);
        let all = reads.iter().flat_map(|read| &read.readings);
        all.filter(|(other, _)| *other == metric).map(|(_, reading)| *reading).collect()
    }

    pub(crate) fn happened(&self, kind: &EventKind) -> usize {
        self.events().iter().filter(|event| event.kind == *kind).count()
    }

    /// What holds whatever goes wrong: order, bounds, and that the second GPU is not disturbed.
    pub(crate) fn check_second_is_well(&mut self) {
        // A slow machine may not have come to it yet; one that never does is the fault.
        if self.sampler.is_some() {
            self.until("readings of the second GPU", |case| case.points(SECOND).len() >= 3);
        }
        let points = self.points(SECOND);
        assert!(points.len() >= 3, "the second GPU goes on: {points:?}");
        assert!(points.iter().all(|(_, busy)| *busy == Reading::Number(70)), "{points:?}");
        self.check_order();
    }

    pub(crate) fn check_order(&self) {
        for uuid in [FIRST, SECOND] {
            let points = self.points(uuid);
            assert!(points.windows(2).all(|pair| pair[0].0 < pair[1].0), "{points:?}");
            let reads = self.reads(uuid);
            assert!(reads.windows(2).all(|pair| pair[0].at_boot_ms < pair[1].at_boot_ms));
            for read in reads {
                let codes: Vec<_> = read.readings.iter().map(|(metric, _)| metric.code()).collect();
                assert!(codes.windows(2).all(|pair| pair[0] < pair[1]), "{codes:?}");
            }
        }
        let mut watermark = i64::MIN;
        for seen in &self.seen {
            match seen {
                Observation::TickEnd(at) => {
                    assert!(*at > watermark);
                    watermark = *at;
                }
                Observation::Gpu(gpu) => assert!(gpu.at_boot_ms > watermark, "{gpu:?}"),
                Observation::Host(host) => assert!(host.at_boot_ms > watermark, "{host:?}"),
                Observation::Event(event) => assert!(event.at_boot_ms > watermark, "{event:?}"),
            }
        }
    }

    /// From `first_ms` on nothing is a number.
    pub(crate) fn check_no_numbers_from(&self, uuid: &str, first_ms: i64) {
        for read in self.reads(uuid).iter().filter(|read| read.at_boot_ms >= first_ms) {
            assert!(
                read.readings.iter().all(|(_, reading)| reading.number().is_none()),
                "{read:?}"
            );
            let points = &read.track.points;
            assert!(points.iter().all(|(_, busy)| busy.number().is_none()), "{points:?}");
        }
    }

    /// How many ticks have ended.
    pub(crate) fn ticks(&self) -> usize {
        self.seen.iter().filter(|seen| matches!(seen, Observation::TickEnd(_))).count()
    }

    pub(crate) fn time_of(&self, is_it: impl Fn(&EventKind) -> bool) -> i64 {
        let found = self.events().into_iter().find(|event| is_it(&event.kind));
        found.expect("the event was waited for").at_boot_ms
    }
}

pub(crate) fn fault_free() -> String {
    scenario("H100-SXM5-80GB", "590.48.01", "")
}
