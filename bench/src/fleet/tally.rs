//! What a fleet counted.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use leasewatch_core::evidence::chain::SealedSegment;
use leasewatch_core::id::Hash;
use tokio::sync::Notify;

use crate::measure::{Runs, real, short};
use crate::process;

/// Counts of all nodes, while they run.
#[derive(Debug)]
pub struct Tally {
    counts: Mutex<Counts>,
    changed: Notify,
    cpu_before_s: f64,
}

#[derive(Debug, Default)]
struct Counts {
    settled: u64,
    report: Report,
    first_sent: Option<Instant>,
    last_acked: Option<Instant>,
    lags: Vec<f64>,
}

/// What became of a fleet.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Segments sent.
    pub sent: u64,
    /// Segments acknowledged.
    pub acked: u64,
    /// Segments or drops refused.
    pub refused: u64,
    /// Times that the server asked for segments again.
    pub rewinds: u64,
    /// Streams that ended before they should.
    pub broken: u64,
    /// The first reason of such an end.
    pub first_break: Option<String>,
    /// Readings of GPUs in what was acknowledged.
    pub values: u64,
    /// GPU blocks in it.
    pub blocks: u64,
    /// Exclusive or of the SHA-256 of each GPU block in it: what a reader of the store compares.
    pub digest: [u8; 32],
    /// Bytes of durable messages.
    pub segment_bytes: u64,
    /// Live frames sent.
    pub frames: u64,
    /// Bytes of them.
    pub frame_bytes: u64,
    /// From a segment's sending to its acknowledgement, in milliseconds.
    pub lag_ms: Runs,
    /// From the first segment to the last acknowledgement.
    pub wall: Duration,
    /// Processor time of the fleet itself, in seconds.
    pub cpu_s: f64,
}

impl Tally {
    pub(super) fn new() -> Self {
        let counts = Mutex::new(Counts::default());
        Self { counts, changed: Notify::new(), cpu_before_s: own_cpu_s() }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A node has opened its stream, or failed to.
    pub(super) fn settled(&self) {
        self.counts().settled += 1;
        self.changed.notify_waiters();
    }

    /// Waits until that many nodes have.
    pub(super) async fn until_settled(&self, nodes: u64) {
        loop {
            let changed = self.changed.notified();
            if self.counts().settled >= nodes {
                return;
            }
            changed.await;
        }
    }

    pub(super) fn sent(&self, bytes: usize) {
        let mut counts = self.counts();
        counts.first_sent.get_or_insert_with(Instant::now);
        counts.report.sent += 1;
        counts.report.segment_bytes += wide(bytes);
    }

    pub(super) fn frame(&self, bytes: usize) {
        let mut counts = self.counts();
        counts.report.frames += 1;
        counts.report.frame_bytes += wide(bytes);
    }

    pub(super) fn acked(&self, weight: &Weight, lag: Duration) {
        let mut counts = self.counts();
        counts.last_acked = Some(Instant::now());
        counts.lags.push(lag.as_secs_f64() * 1e3);
        let report = &mut counts.report;
        report.acked += 1;
        report.values += weight.values;
        report.blocks += weight.blocks;
        for (sum, byte) in report.digest.iter_mut().zip(weight.digest) {
            *sum ^= byte;
        }
    }

    pub(super) fn refused(&self) {
        self.counts().report.refused += 1;
    }

    pub(super) fn rewound(&self) {
        self.counts().report.rewinds += 1;
    }

    pub(super) fn broken(&self, error: &anyhow::Error) {
        let report = &mut self.counts().report;
        report.broken += 1;
        report.first_break.get_or_insert_with(|| format!("{error:#}"));
    }

    pub(super) fn report(&self) -> Report {
        let mut counts = self.counts();
        let lag_ms = std::mem::take(&mut counts.lags).into_iter().collect();
        let wall = match (counts.first_sent, counts.last_acked) {
            (Some(first), Some(last)) => last.saturating_duration_since(first),
            _ => Duration::ZERO,
        };
        Report { lag_ms, wall, cpu_s: own_cpu_s() - self.cpu_before_s, ..counts.report.clone() }
    }
}

/// What a segment adds to the counts once it is acknowledged.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weight {
    values: u64,
    blocks: u64,
    digest: [u8; 32],
}

impl Weight {
    /// Of a segment with `values` readings in its first `gpus` blocks.
    pub(super) fn of(sealed: &SealedSegment, gpus: usize, values: usize) -> Self {
        let mut digest = [0; 32];
        for block in sealed.blocks.iter().take(gpus) {
            for (sum, byte) in digest.iter_mut().zip(Hash::of(block).0) {
                *sum ^= byte;
            }
        }
        Self { values: wide(values), blocks: wide(gpus), digest }
    }
}

impl Report {
    /// Segments that were sent and neither acknowledged nor refused.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.sent.saturating_sub(self.acked + self.refused)
    }

    /// # Errors
    /// When anything was lost, refused or broken.
    pub fn ensure_complete(&self) -> anyhow::Result<()> {
        let first = self.first_break.as_deref().unwrap_or("none");
        anyhow::ensure!(
            self.lost() == 0 && self.refused == 0 && self.broken == 0 && self.acked > 0,
            "lost {}, refused {}, broken streams {} (the first: {first})",
            self.lost(),
            self.refused,
            self.broken
        );
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lag =
            |per_mille| self.lag_ms.percentile(per_mille).map_or("not measured".to_owned(), short);
        writeln!(
            f,
            "segments: {} sent, {} acknowledged, {} refused, {} lost; {} rewinds, {} broken streams",
            self.sent,
            self.acked,
            self.refused,
            self.lost(),
            self.rewinds,
            self.broken
        )?;
        writeln!(
            f,
            "from sending to acknowledgement: p50 {} ms, p99 {} ms, longest {} ms",
            lag(500),
            lag(990),
            lag(1_000)
        )?;
        writeln!(
            f,
            "{} values, {} bytes in segments ({} B/value), {} live frames with {} bytes",
            self.values,
            self.segment_bytes,
            short(real(self.segment_bytes) / real(self.values.max(1))),
            self.frames,
            self.frame_bytes
        )?;
        write!(
            f,
            "{} s from the first segment to the last acknowledgement; the fleet itself used {} s of a core",
            short(self.wall.as_secs_f64()),
            short(self.cpu_s)
        )
    }
}

fn own_cpu_s() -> f64 {
    process::usage(std::process::id()).map_or(0.0, |usage| usage.cpu_s)
}

fn wide(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
