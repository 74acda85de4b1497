//! Replay: cards whose readings come from a capture of recorded segments.
//!
//! [`Capture`] is the file, read and checked as a whole when the scenario is; a [`Recording`] is
//! what it says about one GPU, asked with an instant of the capture. A [`Replay`] knows which
//! instant that is now. Only the edge of `Capture::load` does I/O.
//!
//! The readings of the host are not played.

mod build;
mod recording;
mod slices;

use std::path::Path;
use std::sync::Arc;

use leasewatch_core::evidence::capture::{self, CaptureError};
use leasewatch_core::id::GpuUuid;
use leasewatch_core::sample::Reading;

pub(crate) use recording::{Incident, Recording};

/// Bytes of a capture; a day of a node of eight GPUs has about 30 MiB.
const MAX_BYTES: u64 = 128 << 20;
/// Laps that nobody looked in on and whose XIDs are told all the same.
const SKIPPED_LAPS: usize = 16;

/// Why a capture is not played.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReplayError {
    #[error(transparent)]
    Read(#[from] std::io::Error),
    #[error("the capture is larger than 128 MiB")]
    Size,
    #[error(transparent)]
    Capture(#[from] CaptureError),
    #[error("the capture holds no GPU")]
    Empty,
    #[error("{0} has more than seven slices at once in the capture")]
    Slices(GpuUuid),
}

/// All that a capture says about GPUs.
#[derive(Debug)]
pub(crate) struct Capture {
    /// By bus id.
    pub(crate) cards: Vec<Arc<Recording>>,
    pub(crate) timeline: Timeline,
}

/// From when to when a capture goes, in milliseconds since 1970, and how it is played.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeline {
    pub(crate) start_ms: i64,
    pub(crate) end_ms: i64,
    /// Milliseconds of the capture in one of the scenario.
    pub(crate) speed: u32,
    pub(crate) repeat: bool,
}

/// A recording that is being played.
#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) recording: Arc<Recording>,
    timeline: Timeline,
    now: Position,
}

/// Where in the capture a moment of the scenario lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Position {
    at_ms: i64,
    /// How often the capture was played to its end before.
    lap: i64,
}

impl Capture {
    /// Reads a file and checks every signature, root and block in it.
    pub(crate) fn load(path: &Path, speed: u32, repeat: bool) -> Result<Self, ReplayError> {
        if path.metadata()?.len() > MAX_BYTES {
            return Err(ReplayError::Size);
        }
        let segments = capture::read(&std::fs::read(path)?)?;
        build::capture(&segments, speed, repeat)
    }
}

impl Timeline {
    /// A millisecond is played from its beginning on, the first one at once.
    fn position(&self, elapsed_us: u64) -> Position {
        let passed = elapsed_us.saturating_mul(u64::from(self.speed)) / 1_000;
        let passed = i64::try_from(passed).unwrap_or(i64::MAX / 2);
        let length = (self.end_ms - self.start_ms).max(1);
        let lap = if self.repeat { passed / length } else { 0 };
        Position { at_ms: self.start_ms.saturating_add(passed - lap * length + 1), lap }
    }

    /// When an instant of the capture is played, in microseconds of the scenario.
    fn scenario_us(&self, at_ms: i64, lap: i64) -> u64 {
        let length = (self.end_ms - self.start_ms).max(1);
        let passed = u64::try_from(at_ms - self.start_ms + lap * length).unwrap_or(0);
        passed.saturating_mul(1_000) / u64::from(self.speed)
    }
}

impl Replay {
    pub(crate) fn new(recording: Arc<Recording>, timeline: Timeline) -> Self {
        Self { recording, timeline, now: Position { at_ms: timeline.start_ms, lap: 0 } }
    }

    /// Goes on to a moment of the scenario; returns XIDs and ECC errors on the way, in order. The
    /// end of a lap and the beginning of the next are on the way too.
    pub(crate) fn advance(&mut self, elapsed_us: u64) -> Vec<Incident> {
        let before = std::mem::replace(&mut self.now, self.timeline.position(elapsed_us));
        let (recording, Timeline { start_ms, end_ms, .. }) = (&self.recording, self.timeline);
        if before.lap == self.now.lap {
            return recording.incidents(before.at_ms, self.now.at_ms);
        }
        let skipped = (before.lap + 1..self.now.lap).take(SKIPPED_LAPS);
        let mut incidents = recording.incidents(before.at_ms, end_ms);
        incidents.extend(skipped.flat_map(|_| recording.incidents(start_ms - 1, end_ms)));
        incidents.extend(recording.incidents(start_ms - 1, self.now.at_ms));
        incidents
    }

    /// Begins at a moment of the scenario: what happened before it is over.
    pub(crate) fn begin(&mut self, elapsed_us: u64) {
        self.now = self.timeline.position(elapsed_us);
    }

    /// The instant of the capture that is played now.
    pub(crate) fn at_ms(&self) -> i64 {
        self.now.at_ms
    }

    /// The newest points of the driver's own samples, at most `room`, with their times in
    /// microseconds of the scenario; `None` where the recording was not made from them.
    pub(crate) fn driver_samples(&self, room: usize) -> Option<Vec<(u64, u32)>> {
        let lap = self.now.lap;
        let points = newest(self.recording.driver_points(self.now.at_ms)?, room);
        // The buffer outlives the lap.
        let earlier = if lap > 0 { self.recording.driver_points(i64::MAX)? } else { &[] };
        let earlier = newest(earlier, room - points.len());
        let number = |lap, (at_ms, reading): &(i64, Reading)| {
            let busy = u32::try_from(reading.number()?).ok()?;
            Some((self.timeline.scenario_us(*at_ms, lap), busy))
        };
        let earlier = earlier.iter().filter_map(|point| number(lap - 1, point));
        Some(earlier.chain(points.iter().filter_map(|point| number(lap, point))).collect())
    }
}

fn newest(points: &[(i64, Reading)], room: usize) -> &[(i64, Reading)] {
    &points[points.len().saturating_sub(room)..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline(speed: u32, repeat: bool) -> Timeline {
        Timeline { start_ms: 1_000_000, end_ms: 1_010_000, speed, repeat }
    }

    #[test]
    fn a_capture_is_played_once_or_again_at_its_speed() {
        let at = |timeline: Timeline, second: u64| {
            let Position { at_ms, lap } = timeline.position(second * 1_000_000);
            (at_ms - timeline.start_ms - 1, lap)
        };
        assert_eq!(at(timeline(1, false), 4), (4_000, 0));
        assert_eq!(at(timeline(2, false), 4), (8_000, 0));
        assert_eq!(at(timeline(1, false), 14), (14_000, 0), "past its end");
        assert_eq!(at(timeline(1, true), 14), (4_000, 1));
        assert_eq!(at(timeline(3, true), 14), (2_000, 4));
    }

    #[test]
    fn what_happens_at_either_end_of_a_lap_happens_in_each() {
        let incident = |at_ms, code| (at_ms, Incident::Xid(code));
        let incidents =
            vec![incident(1_000_000, 1), incident(1_005_000, 2), incident(1_010_000, 3)];
        let recording = Arc::new(Recording {
            incidents,
            points: (1..=50).map(|n| (1_000_000 + n * 200, Reading::Number(n))).collect(),
            ..build::tests::empty_card()
        });
        let mut replay = Replay::new(recording, timeline(1, true));
        replay.begin(4_000_000);
        let mut codes = |second: u64| {
            let happened = replay.advance(second * 1_000_000);
            happened
                .into_iter()
                .map(|it| if let Incident::Xid(code) = it { code } else { 0 })
                .collect::<Vec<_>>()
        };
        assert_eq!(codes(4), []);
        assert_eq!(codes(6), [2]);
        assert_eq!(codes(11), [3, 1], "over the end of the lap");
        assert_eq!(codes(14), []);
        assert_eq!(codes(41), [2, 3, 1, 2, 3, 1, 2, 3, 1], "laps that nobody looked in on");
        let samples = replay.driver_samples(8).unwrap();
        let busy: Vec<u32> = samples.iter().map(|(_, busy)| *busy).collect();
        assert_eq!(busy, [48, 49, 50, 1, 2, 3, 4, 5], "of this lap and the one before");
        assert!(samples.windows(2).all(|pair| pair[1].0 - pair[0].0 == 200_000), "{samples:?}");
    }

    #[test]
    fn an_instant_of_the_capture_has_one_time_in_each_lap() {
        let timeline = timeline(4, true);
        for second in [0, 1, 9, 30, 61] {
            let Position { at_ms, lap } = timeline.position(second * 1_000_000);
            let played_us = timeline.scenario_us(at_ms - 1, lap);
            assert!((second * 1_000_000).abs_diff(played_us) < 1_000, "{second}: {played_us}");
        }
    }
}
