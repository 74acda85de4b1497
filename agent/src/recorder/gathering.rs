//! The open segment: what was seen since the last cut, and when the next cut is due.
//!
//! Times are boot milliseconds until [`Gathering::close`]. What belongs behind the cut, or does
//! not fit beside what is already there (another GPU in the same place, another source of a
//! track), waits for the next segment; nothing is thrown away but GPUs beyond the format's bound.

mod part;

use leasewatch_core::id::GpuUuid;
use leasewatch_core::segment::{Block, Event, EventKind, EventsBlock, limits};
use leasewatch_core::time::{Period, Timestamp};

use self::part::{GpuParts, HostPart};
use crate::clock::{Anchor, Instant};
use crate::observation::{EventObservation, Observation};

/// From the first sight of a GPU to the end of the run's first segment, in milliseconds.
const FIRST_SIGHT_MS: i64 = 3_000;
/// Least time between two segments that urgent events closed early, in milliseconds.
const EARLY_EVERY_MS: i64 = 5_000;
/// A silence of more than this between two contents is no part of a segment's period.
const HOLD_MS: i64 = 60_000;
/// A segment closes early at this many events; the format's bound is a little more.
const EVENTS_FULL: usize = limits::EVENTS - 64;
/// A segment closes early at about this many bytes.
const FULL_BYTES: usize = 256 * 1_024;
/// What a value or a track point weighs at worst within a whole segment, about.
const VALUE_BYTES: usize = 4;

/// The content of one segment.
#[derive(Debug)]
pub struct Content {
    start_boot_ms: i64,
    end_boot_ms: i64,
    gpus: GpuParts,
    host: HostPart,
    events: Vec<EventObservation>,
}

impl Content {
    /// When its period starts.
    #[must_use]
    pub fn started_at(&self, anchor: Anchor) -> Timestamp {
        anchor.wall_of(self.start_boot_ms)
    }

    /// Its end, on both clocks.
    #[must_use]
    pub fn ended(&self, anchor: Anchor) -> Instant {
        Instant { boot_ms: self.end_boot_ms, wall: anchor.wall_of(self.end_boot_ms) }
    }

    /// Its period: from the end of the segment before, or from the start of the first weight where
    /// a stretch of recording begins, to the cut. Every time in it lies within.
    #[must_use]
    pub fn period(&self, anchor: Anchor) -> Period {
        Period::new(anchor.wall_of(self.start_boot_ms), anchor.wall_of(self.end_boot_ms))
    }

    /// Its blocks: GPUs by ascending UUID, the host, events.
    #[must_use]
    pub fn blocks(&self, anchor: Anchor) -> Vec<Block> {
        let mut blocks = self.gpus.blocks(anchor);
        blocks.extend(self.host.block(anchor).map(Block::Host));
        let event = |seen: &EventObservation| {
            Event::new(anchor.wall_of(seen.at_boot_ms), seen.gpu.clone(), seen.kind.clone())
        };
        // The recorder's own events can lie a little before the sampler's.
        let mut events: Vec<Event> = self.events.iter().map(event).collect();
        events.sort_by_key(|event| event.at);
        if !events.is_empty() {
            blocks.push(Block::Events(EventsBlock { events }));
        }
        blocks
    }

    fn is_empty(&self) -> bool {
        self.gpus.is_empty() && self.host.is_empty() && self.events.is_empty()
    }

    fn values(&self) -> usize {
        self.gpus.values() + self.host.values()
    }
}

/// The open segment.
#[derive(Debug)]
pub struct Gathering {
    open: Content,
    /// Waits for the next segment, in the order in which it came.
    later: Vec<Observation>,
    /// GPUs of which something waits: what follows must not overtake it.
    waiting: Vec<GpuUuid>,
    events_wait: bool,
    /// Where the last segment ended; `None` before the first.
    ended_boot_ms: Option<i64>,
    cut_boot_ms: i64,
    urgent_boot_ms: Option<i64>,
    early_boot_ms: i64,
    must_close: bool,
    anchor: Anchor,
}

impl Gathering {
    /// Nothing yet, from `now_boot_ms` on.
    #[must_use]
    pub fn new(anchor: Anchor, now_boot_ms: i64) -> Self {
        Self {
            open: empty(now_boot_ms),
            later: Vec::new(),
            waiting: Vec::new(),
            events_wait: false,
            ended_boot_ms: None,
            cut_boot_ms: next_minute(now_boot_ms, anchor),
            urgent_boot_ms: None,
            early_boot_ms: i64::MIN,
            must_close: false,
            anchor,
        }
    }

    /// Takes an observation in; a watermark is not one.
    pub fn on_observation(&mut self, observation: Observation) {
        let is_later = match &observation {
            Observation::Gpu(gpu) => {
                let waits = self.waiting.contains(&gpu.uuid);
                let fits = waits || self.open.gpus.fits(gpu);
                self.must_close |= !fits || self.open.gpus.is_full();
                waits || !fits || gpu.at_boot_ms > self.cut_boot_ms
            }
            Observation::Host(host) => {
                let full = self.open.host.is_full();
                self.must_close |= full;
                full || host.at_boot_ms > self.cut_boot_ms
            }
            Observation::Event(event) => {
                let full = self.open.events.len() >= EVENTS_FULL;
                self.must_close |= full;
                if let Some(at) = self.close_early_at(event) {
                    self.urgent_boot_ms.get_or_insert(at);
                }
                full || self.events_wait || event.at_boot_ms > self.cut_boot_ms
            }
            Observation::TickEnd(_) => return,
        };
        if is_later {
            self.put_off(observation)
        } else {
            self.take(observation)
        }
        self.must_close |= self.open.values().saturating_mul(VALUE_BYTES) >= FULL_BYTES;
    }

    /// When an event asks for its segment to be closed. A run's first sight of its GPUs is shown to
    /// people soon, with the first readings, and not after a whole minute.
    fn close_early_at(&self, event: &EventObservation) -> Option<i64> {
        let first_sight =
            self.ended_boot_ms.is_none() && matches!(event.kind, EventKind::GpuSeen(_));
        match event.urgent {
            true => Some(event.at_boot_ms),
            false => first_sight.then(|| event.at_boot_ms.saturating_add(FIRST_SIGHT_MS)),
        }
    }

    /// Where to cut, now that everything up to `watermark_boot_ms` is here; `None` = not yet.
    #[must_use]
    pub fn due(&mut self, watermark_boot_ms: i64) -> Option<i64> {
        self.skip_empty_minutes(watermark_boot_ms);
        if watermark_boot_ms >= self.cut_boot_ms {
            return Some(self.cut_boot_ms);
        }
        let urgent = self.urgent_boot_ms.is_some_and(|at| at <= watermark_boot_ms)
            && watermark_boot_ms.saturating_sub(self.early_boot_ms) >= EARLY_EVERY_MS;
        if urgent {
            self.early_boot_ms = watermark_boot_ms;
        }
        (urgent || self.must_close).then_some(watermark_boot_ms)
    }

    /// Closes the segment at `cut_boot_ms`: everything at or before it is in, and what waits opens
    /// the next one, whose minutes are counted by `anchor`. `None` when nothing was seen.
    pub fn close(&mut self, cut_boot_ms: i64, anchor: Anchor) -> Option<Content> {
        let mut closed = std::mem::replace(&mut self.open, empty(cut_boot_ms));
        let later = std::mem::take(&mut self.later);
        self.anchor = anchor;
        self.waiting.clear();
        self.events_wait = false;
        self.must_close = false;
        self.urgent_boot_ms = None;
        self.cut_boot_ms = next_minute(cut_boot_ms, anchor);
        let is_empty = closed.is_empty();
        if !is_empty {
            closed.bound(self.ended_boot_ms, cut_boot_ms);
            self.ended_boot_ms = Some(closed.end_boot_ms);
        }
        for observation in later {
            self.on_observation(observation);
        }
        (!is_empty).then_some(closed)
    }

    fn take(&mut self, observation: Observation) {
        match observation {
            Observation::Gpu(gpu) => self.open.gpus.add(gpu),
            Observation::Host(host) => self.open.host.add(host),
            Observation::Event(event) => self.open.events.push(event),
            Observation::TickEnd(_) => {}
        }
    }

    fn put_off(&mut self, observation: Observation) {
        match &observation {
            Observation::Gpu(gpu) if !self.waiting.contains(&gpu.uuid) => {
                self.waiting.push(gpu.uuid.clone());
            }
            Observation::Event(_) => self.events_wait = true,
            _ => {}
        }
        self.later.push(observation);
    }

    /// After a suspend, or while nothing answers, there is nothing to cut minute by minute.
    fn skip_empty_minutes(&mut self, watermark_boot_ms: i64) {
        if !self.open.is_empty() || watermark_boot_ms < self.cut_boot_ms {
            return;
        }
        let next = self.later.iter().map(at_boot_ms).min().unwrap_or(watermark_boot_ms);
        self.cut_boot_ms = next_minute(next.saturating_sub(1), self.anchor);
        self.waiting.clear();
        self.events_wait = false;
        for observation in std::mem::take(&mut self.later) {
            self.on_observation(observation);
        }
    }
}

impl Content {
    /// Sets the period: what the two parts of [`Content::period`]'s rule come to.
    fn bound(&mut self, ended_boot_ms: Option<i64>, cut_boot_ms: i64) {
        let events = self.events.iter().map(|event| event.at_boot_ms);
        let times = || self.gpus.times().chain(self.host.times()).chain(events.clone());
        let first = times().min().unwrap_or(cut_boot_ms);
        let last = times().max().unwrap_or(cut_boot_ms);
        self.start_boot_ms = match ended_boot_ms {
            Some(ended) if first.saturating_sub(ended) <= HOLD_MS => ended.min(first),
            _ => self.gpus.weight_starts().chain([first]).min().unwrap_or(first),
        };
        self.end_boot_ms = cut_boot_ms.max(last);
    }
}

fn empty(at_boot_ms: i64) -> Content {
    Content {
        start_boot_ms: at_boot_ms,
        end_boot_ms: at_boot_ms,
        gpus: GpuParts::default(),
        host: HostPart::default(),
        events: Vec::new(),
    }
}

fn at_boot_ms(observation: &Observation) -> i64 {
    match observation {
        Observation::Gpu(gpu) => gpu.at_boot_ms,
        Observation::Host(host) => host.at_boot_ms,
        Observation::Event(event) => event.at_boot_ms,
        Observation::TickEnd(at) => *at,
    }
}

/// The boot time of the first full minute of the wall clock after an instant.
fn next_minute(after_boot_ms: i64, anchor: Anchor) -> i64 {
    let wall = anchor.wall_of(after_boot_ms).0;
    after_boot_ms.saturating_add(60_000 - wall.rem_euclid(60_000))
}

#[cfg(test)]
mod tests;
