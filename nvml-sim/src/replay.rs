//! Replay: cards whose readings come from a capture of recorded segments.
//!
//! [`Capture`] is the file, read and checked as a whole when the scenario is; a [`Recording`] is
//! what it says about one GPU, asked with an instant of the capture. A [`Replay`] knows which
//! instant that is now. Only the edge of `Capture::load` does I/O.
//!
//! Slices of a GPU in MIG mode and the readings of the host are not played.

mod build;
mod recording;

use std::path::Path;
use std::sync::Arc;

use leasewatch_core::evidence::capture::{self, CaptureError};

pub(crate) use recording::{Incident, Recording};

/// Bytes of a capture; a day of a node of eight GPUs has about 30 MiB.
const MAX_BYTES: u64 = 128 << 20;

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
        build::capture(&segments, speed, repeat).ok_or(ReplayError::Empty)
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

    /// Goes on to a moment of the scenario; returns XIDs and ECC errors on the way, in order.
    pub(crate) fn advance(&mut self, elapsed_us: u64) -> Vec<Incident> {
        let before = std::mem::replace(&mut self.now, self.timeline.position(elapsed_us));
        let last = if before.lap == self.now.lap { before.at_ms } else { self.timeline.start_ms };
        self.recording.incidents(last, self.now.at_ms)
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
        let points = self.recording.driver_points(self.now.at_ms)?;
        let newest = &points[points.len().saturating_sub(room)..];
        let number = |(at_ms, reading): &(i64, leasewatch_core::sample::Reading)| {
            let busy = u32::try_from(reading.number()?).ok()?;
            Some((self.timeline.scenario_us(*at_ms, self.now.lap), busy))
        };
        Some(newest.iter().filter_map(number).collect())
    }
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
    fn an_instant_of_the_capture_has_one_time_in_each_lap() {
        let timeline = timeline(4, true);
        for second in [0, 1, 9, 30, 61] {
            let Position { at_ms, lap } = timeline.position(second * 1_000_000);
            let played_us = timeline.scenario_us(at_ms - 1, lap);
            assert!((second * 1_000_000).abs_diff(played_us) < 1_000, "{second}: {played_us}");
        }
    }
}
