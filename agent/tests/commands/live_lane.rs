//! R2: whatever NVML does, live frames go on, and a call that hangs is told within ten seconds.

use std::process::Child;
use std::time::{Duration, Instant};

use leasewatch_core::sample::Reading;
use leasewatch_proto::convert::{LiveFrame, LiveGpu};

use crate::rig::{Rig, sabotaged};
use crate::sink::Sink;

/// What is promised of a call that hangs, in milliseconds.
const TOLD_WITHIN_MS: u32 = 10_000;
/// The server asks for a frame each 250 ms; this many show that they go on.
const FRAMES: usize = 8;
/// For a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(60);

/// Something that NVML does, and how a live frame shows it.
struct Mode {
    name: &'static str,
    faults: &'static str,
    library: Option<&'static str>,
    shows: fn(&LiveFrame) -> bool,
}

const fn mode(name: &'static str, faults: &'static str, shows: fn(&LiveFrame) -> bool) -> Mode {
    Mode { name, faults, library: None, shows }
}

fn any(frame: &LiveFrame, is: impl Fn(&LiveGpu) -> bool) -> bool {
    frame.gpus.iter().any(is)
}

/// The scenario is a minute old when the agent starts.
const MODES: [Mode; 14] = [
    mode("one hangs", "kind = \"hang\"\ncard = 0\nat_s = 63", |f| any(f, |g| g.stalled_ms > 0)),
    mode("all hang", "kind = \"hang\"\nat_s = 63", |f| any(f, |g| g.stalled_ms > 0)),
    mode("each call takes a second", "kind = \"hang\"\ncard = 0\nseconds = 1\nat_s = 63", |f| {
        any(f, |g| g.stalled_ms > 0)
    }),
    mode("one is lost", "kind = \"gpu_lost\"\ncard = 0\nat_s = 63", |f| any(f, |g| g.lost)),
    mode("one needs a reset", "kind = \"reset_required\"\ncard = 0\nat_s = 63", |f| {
        any(f, |g| g.lost)
    }),
    mode("garbage", "kind = \"garbage\"\ncard = 0", |f| {
        any(f, |g| g.busy_pct == Some(Reading::Error))
    }),
    mode("nothing but errors", "kind = \"nvml_error\"\nat_s = 63\ncode = 999", |f| {
        any(f, |g| g.busy_pct == Some(Reading::Error))
    }),
    mode("no devices", "kind = \"zero_devices\"", |f| f.gpus.is_empty() && !f.nvml_unavailable),
    mode("no driver", "kind = \"driver_not_loaded\"", |f| f.nvml_unavailable),
    mode("the driver goes", "kind = \"nvml_error\"\nat_s = 63\ncode = 1", |f| f.nvml_unavailable),
    mode("missing symbols", "kind = \"old_driver\"", |f| {
        any(f, |g| g.memory_used_mib == Some(Reading::Unsupported))
    }),
    mode("masked", "kind = \"masked\"\ncard = 0\nmetrics = [\"power\", \"utilization\"]", |f| {
        any(f, |g| g.power_draw_mw == Some(Reading::Unsupported))
    }),
    Mode {
        name: "no library",
        faults: "kind = \"zero_devices\"",
        library: Some("/nowhere/libnvidia-ml.so.1"),
        shows: |f| f.nvml_unavailable,
    },
    Mode {
        name: "another library",
        faults: "kind = \"zero_devices\"",
        library: Some("libm.so.6"),
        shows: |f| f.nvml_unavailable,
    },
];

/// An agent that is killed when the test is over.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(mode: &Mode, address: &str, promise: Option<&str>) -> (Rig, Running) {
    let faults = format!("[[faults]]\n{}", mode.faults);
    let rig = Rig::of_cards("V100-SXM2-32GB", 40, &faults);
    let state_dir = rig.state_dir().display().to_string();
    let mut command = rig.command(&["run", "--server", address, "--state-dir", &state_dir]);
    if let Some(promise) = promise {
        command =
            rig.command_of(&sabotaged(), &["run", "--server", address, "--state-dir", &state_dir]);
        command.env("LEASEWATCH_SABOTAGE", promise);
    }
    command.args(["--name", mode.name, "--cadence", "200ms"]).stderr(std::process::Stdio::null());
    if let Some(library) = mode.library {
        command.args(["--nvml-library", library]);
    }
    let child = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    (rig, Running(child))
}

/// Waits until the mode shows and frames go on behind it; what is wrong, if anything.
fn fault(sink: &Sink, mode: &Mode, patience: Duration) -> Option<String> {
    let deadline = Instant::now() + patience;
    loop {
        let frames = sink.of(mode.name).frames;
        if let Some(first) = frames.iter().position(mode.shows)
            && frames.len() >= first + FRAMES
        {
            let stalled = frames[first].gpus.iter().map(|gpu| gpu.stalled_ms).max();
            let is_late = stalled.is_some_and(|stalled| stalled > TOLD_WITHIN_MS);
            return is_late.then(|| format!("{}: told after {stalled:?} ms", mode.name));
        }
        if Instant::now() > deadline {
            let shown = frames.iter().filter(|frame| (mode.shows)(frame)).count();
            let count = frames.len();
            return Some(format!("{}: {count} frames, {shown} show it", mode.name));
        }
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

#[test]
fn live_frames_go_on_whatever_nvml_does() {
    let (sink, address) = Sink::start();
    let running: Vec<_> = MODES.iter().map(|mode| start(mode, &address, None)).collect();
    let faults: Vec<_> = MODES.iter().filter_map(|mode| fault(&sink, mode, PATIENCE)).collect();
    assert_eq!(faults, [""; 0]);
    drop(running);
}

#[test]
fn an_agent_whose_live_frames_wait_for_nvml_is_noticed() {
    let (sink, address) = Sink::start();
    let mode = &MODES[1];
    let _running = start(mode, &address, Some("live_waits_for_nvml"));
    let fault = fault(&sink, mode, Duration::from_secs(15));
    assert!(fault.is_some() && !sink.of(mode.name).frames.is_empty(), "{fault:?}");
}
