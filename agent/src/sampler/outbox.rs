//! The way to the recorder: bounded, never waited for.
//!
//! When it is full, observations of GPUs and host are dropped and counted by the caller; events
//! wait here in order and the watermark waits behind them.

use std::collections::VecDeque;

use leasewatch_core::segment::EventKind;
use tokio::sync::mpsc::Sender;
use tokio::sync::mpsc::error::TrySendError;

use crate::observation::{EventObservation, Observation};

/// Events that wait for room. The oldest go first when even that is full.
const WAITING_MAX: usize = 1_024;

#[derive(Debug)]
pub(super) struct Outbox {
    to_recorder: Sender<Observation>,
    waiting: VecDeque<EventObservation>,
    last_event_ms: i64,
    watermark_ms: i64,
    closed: bool,
}

impl Outbox {
    pub(super) fn new(to_recorder: Sender<Observation>) -> Self {
        Self {
            to_recorder,
            waiting: VecDeque::new(),
            last_event_ms: i64::MIN,
            watermark_ms: i64::MIN,
            closed: false,
        }
    }

    /// True once nobody listens any more.
    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// `at_ms`, or the first instant after the watermark if that is later.
    pub(super) fn after_watermark(&self, at_ms: i64) -> i64 {
        at_ms.max(self.watermark_ms.saturating_add(1))
    }

    /// Sends an observation; false when it found no room.
    pub(super) fn send(&mut self, observation: Observation) -> bool {
        match self.to_recorder.try_send(observation) {
            Ok(()) => true,
            Err(TrySendError::Full(_)) => false,
            Err(TrySendError::Closed(_)) => {
                self.closed = true;
                true
            }
        }
    }

    /// Sends an event, or keeps it until there is room. Its time is moved behind the watermark and
    /// behind the events before it, if it must.
    pub(super) fn event(&mut self, mut event: EventObservation) {
        event.at_boot_ms = self.after_watermark(event.at_boot_ms.max(self.last_event_ms));
        self.last_event_ms = event.at_boot_ms;
        log(&event);
        self.waiting.push_back(event);
        if self.waiting.len() > WAITING_MAX {
            self.waiting.pop_front();
            tracing::error!("an event was dropped: the recorder does not keep up");
        }
        self.flush();
    }

    /// Says that everything up to `at_ms` was sent, unless it was not or has been said.
    pub(super) fn tick_end(&mut self, at_ms: i64) {
        self.flush();
        if self.waiting.is_empty()
            && at_ms > self.watermark_ms
            && self.send(Observation::TickEnd(at_ms))
        {
            self.watermark_ms = at_ms;
        }
    }

    fn flush(&mut self) {
        while let Some(event) = self.waiting.pop_front() {
            if !self.send(Observation::Event(event.clone())) {
                self.waiting.push_front(event);
                return;
            }
        }
    }
}

/// One line for each event, so that the agent's log tells what the page will. Texts in events are
/// hostile; `Debug` escapes them.
fn log(event: &EventObservation) {
    let gpu = event.gpu.as_ref().map_or("", |gpu| gpu.as_str());
    match &event.kind {
        EventKind::NvmlUnavailable { nvml_code } => tracing::warn!(
            nvml.code = nvml_code,
            "NVML is not available: is NVIDIA's driver installed and loaded, and the library readable? trying again"
        ),
        kind if event.urgent => tracing::warn!(gpu.uuid = gpu, event = ?kind, "event"),
        kind => tracing::info!(gpu.uuid = gpu, event = kind.name(), "event"),
    }
}

#[cfg(test)]
mod tests {
    use leasewatch_core::segment::EventKind;
    use tokio::sync::mpsc;

    use super::*;

    fn event(at_boot_ms: i64) -> EventObservation {
        EventObservation { at_boot_ms, gpu: None, kind: EventKind::NoGpuAttached, urgent: false }
    }

    fn drain(from: &mut mpsc::Receiver<Observation>) -> Vec<Observation> {
        std::iter::from_fn(|| from.try_recv().ok()).collect()
    }

    #[test]
    fn events_wait_for_room_and_hold_the_watermark() {
        let (to, mut from) = mpsc::channel(1);
        let mut outbox = Outbox::new(to);
        outbox.event(event(10));
        outbox.event(event(20));
        assert!(!outbox.send(Observation::TickEnd(0)), "no room: the caller counts it");
        outbox.tick_end(30);
        assert_eq!(drain(&mut from), [Observation::Event(event(10))]);
        outbox.tick_end(40);
        assert_eq!(drain(&mut from), [Observation::Event(event(20))]);
        outbox.tick_end(50);
        assert_eq!(drain(&mut from), [Observation::TickEnd(50)]);
    }

    #[test]
    fn event_times_never_descend_nor_fall_behind_the_watermark() {
        let (to, mut from) = mpsc::channel(8);
        let mut outbox = Outbox::new(to);
        outbox.event(event(100));
        outbox.event(event(90));
        outbox.tick_end(200);
        outbox.event(event(150));
        let times: Vec<_> = drain(&mut from)
            .into_iter()
            .filter_map(|seen| match seen {
                Observation::Event(event) => Some(event.at_boot_ms),
                _ => None,
            })
            .collect();
        assert_eq!(times, [100, 100, 201]);
    }

    #[test]
    fn the_watermark_only_grows() {
        let (to, mut from) = mpsc::channel(8);
        let mut outbox = Outbox::new(to);
        for at_ms in [10, 10, 9, 11] {
            outbox.tick_end(at_ms);
        }
        assert_eq!(drain(&mut from), [Observation::TickEnd(10), Observation::TickEnd(11)]);
        drop(from);
        outbox.tick_end(12);
        assert!(outbox.is_closed());
    }
}
