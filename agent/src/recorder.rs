//! Turns what the sampler saw into sealed segments.
//!
//! [`gathering`](Gathering) collects and cuts, without clock or thread; [`Journal`] seals, keeps
//! the chain's end on disk and holds the spool; the [`Recorder`] is the thread between them. It
//! alone turns boot time into wall time. A segment closes at each full minute of the wall clock
//! (all GPUs share the cut), before it grows too large, at an urgent event (at most once per 5 s),
//! when the wall clock stepped, and at the end with a goodbye.

mod epoch;
#[cfg(test)]
pub(crate) mod fixture;
mod gathering;
mod journal;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use leasewatch_core::id::GpuUuid;
use leasewatch_core::segment::{EventKind, StopReason};
use tokio::sync::mpsc;

use crate::clock::{Anchor, Instant};
use crate::identity::KnownGpu;
use crate::observation::{EventObservation, LiveState, Observation};
use crate::source::host;
use crate::source::nvml::SLICE_PREFIX;

pub use epoch::Epoch;
pub use gathering::{Content, Gathering};
pub use journal::{Journal, JournalError, Writer};

/// The thread's state.
#[derive(Debug)]
pub struct Recorder {
    journal: Arc<Journal>,
    live: LiveState,
    anchor: Anchor,
    gathering: Gathering,
    gpus: BTreeMap<GpuUuid, KnownGpu>,
}

impl Recorder {
    /// A recorder of a new epoch, whose first event is `agent_started`.
    #[must_use]
    pub fn new(journal: Arc<Journal>, live: LiveState, anchor: Anchor, started: &Instant) -> Self {
        let mut gathering = Gathering::new(anchor, started.boot_ms);
        gathering.on_observation(Observation::Event(EventObservation {
            at_boot_ms: started.boot_ms,
            gpu: None,
            kind: EventKind::AgentStarted {
                version: journal.epoch().version.clone(),
                life_unit: journal.epoch().life_unit.clone(),
                clock_source: host::clock_source(Path::new("/")).to_owned(),
            },
            urgent: false,
        }));
        let known = journal.known_gpus();
        let gpus = known.into_iter().map(|gpu| (gpu.uuid.clone(), gpu)).collect();
        Self { journal, live, anchor, gathering, gpus }
    }

    /// Records until the sampler is gone, then says goodbye and seals the rest.
    pub fn run(mut self, mut observations: mpsc::Receiver<Observation>, reason: StopReason) {
        while let Some(observation) = observations.blocking_recv() {
            self.on_observation(observation, Instant::now);
        }
        self.finish(&Instant::now(), reason);
    }

    fn on_observation(&mut self, observation: Observation, now: impl Fn() -> Instant) {
        let Observation::TickEnd(watermark_boot_ms) = observation else {
            self.remember(&observation);
            return self.gathering.on_observation(observation);
        };
        self.check_clock(watermark_boot_ms, &now());
        while let Some(cut) = self.gathering.due(watermark_boot_ms) {
            self.close(cut);
        }
    }

    /// The old anchor's times and the new one's must not stand in one segment.
    fn check_clock(&mut self, watermark_boot_ms: i64, now: &Instant) {
        let old = self.anchor;
        let Some(by_ms) = self.anchor.check(*now) else { return };
        if let Some(content) = self.gathering.close(watermark_boot_ms, self.anchor) {
            self.seal(&content, old);
        }
        tracing::warn!(by_ms, "the wall clock stepped");
        self.gathering.on_observation(Observation::Event(EventObservation {
            at_boot_ms: now.boot_ms.max(watermark_boot_ms.saturating_add(1)),
            gpu: None,
            kind: EventKind::ClockStepped { by_ms },
            urgent: true,
        }));
    }

    fn close(&mut self, cut_boot_ms: i64) {
        if let Some(content) = self.gathering.close(cut_boot_ms, self.anchor) {
            self.seal(&content, self.anchor);
        }
    }

    fn finish(mut self, now: &Instant, reason: StopReason) {
        self.gathering.on_observation(Observation::Event(EventObservation {
            at_boot_ms: now.boot_ms,
            gpu: None,
            kind: EventKind::Goodbye { reason },
            urgent: true,
        }));
        // Twice at most: what found no room in the first segment stands in the second.
        for _ in 0..2 {
            self.close(now.boot_ms);
        }
    }

    fn seal(&self, content: &Content, anchor: Anchor) {
        let snapshot = self.live.snapshot();
        let present = snapshot.gpus.iter().filter(|gpu| !gpu.lost && !gpu.is_slice).count();
        let gpu_count =
            if snapshot.nvml_available { u16::try_from(present).unwrap_or(u16::MAX) } else { 0 };
        let gpus = self.gpus.values().cloned().collect();
        match self.journal.seal(content, anchor, gpu_count, gpus) {
            Ok(sequence) => tracing::debug!(
                segment.sequence = sequence.0,
                started_at = %content.started_at(anchor),
                "segment sealed"
            ),
            Err(error) => tracing::error!(
                error = %error,
                started_at = %content.started_at(anchor),
                "a segment could not be sealed and is lost"
            ),
        }
    }

    /// Which GPU sits where, for the next start and for the names on the live lane.
    fn remember(&mut self, observation: &Observation) {
        let Observation::Event(EventObservation { kind, gpu, .. }) = observation else { return };
        match kind {
            EventKind::GpuSeen(seen) => {
                // A GPU and its slices share a bus id; only a GPU takes the place of another.
                let is_whole = |uuid: &GpuUuid| !uuid.as_str().starts_with(SLICE_PREFIX);
                if seen.partition.is_none() {
                    self.gpus.retain(|uuid, gpu| gpu.bus_id != seen.bus_id || !is_whole(uuid));
                }
                let (bus_id, uuid) = (seen.bus_id.clone(), seen.uuid.clone());
                let gpu = KnownGpu { bus_id, uuid, name: seen.name.clone() };
                self.gpus.insert(seen.uuid.clone(), gpu);
                self.journal.set_known_gpus(self.gpus.values().cloned().collect());
            }
            EventKind::GpuReplaced { old, .. } => {
                self.gpus.remove(old);
            }
            EventKind::PartitionRemoved
                if gpu.as_ref().is_some_and(|slice| self.gpus.remove(slice).is_some()) =>
            {
                self.journal.set_known_gpus(self.gpus.values().cloned().collect());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
