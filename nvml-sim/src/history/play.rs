//! The walk through a story: step by step, cut into parts where an hour, a run of the agent or the
//! life of a card ends.

use std::collections::VecDeque;

use leasewatch_core::id::{GpuUuid, LifeUnitId};
use leasewatch_core::segment::{Event, EventKind, LifeUnit, LifeUnitKind, StopReason};
use leasewatch_core::time::{DAY_MS, Period, Timestamp};

use super::card::PlayedCard;
use super::columns::Rows;
use super::line::Part;
use super::story::{StopKind, Story};
use super::timetable::Timetable;
use super::{SLOW_EVERY_S, STEP_S};
use crate::physics::noise::text_hash;
use crate::scenario::fault::Effect;

/// NVML's code for a GPU that is lost.
const GPU_IS_LOST: i64 = 15;
const HOUR_S: i64 = 3_600;
/// From the start of a host to that of its agent.
const BOOT_S: i64 = 45;

/// A log while it is made. Seconds count from the story's midnight.
#[derive(Debug)]
pub(super) struct Play<'a> {
    story: &'a Story,
    midnight: Timestamp,
    end_s: i64,
    /// The step that was played last.
    now_s: i64,
    cards: Vec<PlayedCard<'a>>,
    life: LifeUnit,
    stopped: Option<StopKind>,
    /// Stops that are over.
    stops_done: usize,
    lost: Vec<bool>,
    events: Vec<Event>,
    rows: Vec<Rows>,
    /// Parts that ended and were not asked for yet.
    parts: VecDeque<Part<'a>>,
}

impl<'a> Play<'a> {
    pub(super) fn new(story: &'a Story, span: Period) -> Self {
        let offset_ms = story.utc_offset_s * 1_000;
        let days = span.start.plus_ms(offset_ms).0.div_euclid(DAY_MS);
        let midnight = Timestamp(days * DAY_MS).plus_ms(-offset_ms);
        let second = |at: Timestamp| at.since(midnight).div_euclid(1_000);
        let (now_s, end_s) = (second(span.start), second(span.end));
        // 1970 began on a Thursday.
        let first_day = (days + 3).rem_euclid(7);
        let cards = story.scenario.cards.iter().enumerate().map(|(slot, plan)| {
            PlayedCard::new(story, slot, plan, Timetable::new(story, slot, first_day, end_s))
        });
        let life = life(story, midnight.plus_ms((now_s - BOOT_S) * 1_000));
        let mut play = Self {
            cards: cards.collect(),
            lost: vec![false; story.scenario.cards.len()],
            stops_done: story.stops.partition_point(|stop| stop.until_s <= now_s),
            story,
            midnight,
            end_s,
            now_s,
            life,
            stopped: None,
            events: Vec::new(),
            rows: Vec::new(),
            parts: VecDeque::new(),
        };
        play.begin_run(now_s);
        play
    }

    /// The next part; `None` after the last.
    pub(super) fn next_part(&mut self) -> Option<Part<'a>> {
        while self.parts.is_empty() && self.now_s < self.end_s {
            self.follow_stops();
            self.follow_losses();
            self.now_s += STEP_S;
            self.step();
            let is_last = self.now_s >= self.end_s;
            if is_last && self.stopped.is_none() {
                let reason = StopReason::ImportEnd;
                self.tell(self.now_s, None, EventKind::Goodbye { reason });
            }
            if is_last || self.at(self.now_s).0 % (HOUR_S * 1_000) == 0 {
                self.cut();
            }
        }
        self.parts.pop_front()
    }

    /// Ends and begins runs at the stops of the story that lie in the next step.
    fn follow_stops(&mut self) {
        let Some(stop) = self.story.stops.get(self.stops_done).cloned() else { return };
        let next_s = self.now_s + STEP_S;
        if self.stopped.is_none() && stop.at_s < next_s {
            self.stopped = Some(stop.kind);
            if stop.kind == StopKind::Agent {
                let reason = StopReason::Shutdown;
                self.tell(stop.at_s.max(self.now_s), None, EventKind::Goodbye { reason });
            }
            self.cut();
        }
        if self.stopped.is_some() && stop.until_s < next_s {
            self.stopped = None;
            self.stops_done += 1;
            if stop.kind == StopKind::Reboot {
                self.life = life(self.story, self.at(stop.until_s - BOOT_S));
                self.cards.iter_mut().for_each(PlayedCard::reboot);
            }
            if stop.kind != StopKind::Silence {
                self.begin_run(stop.until_s);
            }
        }
    }

    /// The rows of a card before and after it was lost do not stand in one part.
    fn follow_losses(&mut self) {
        let next_s = u64::try_from(self.now_s + STEP_S - 1).unwrap_or(0);
        let losses = || self.story.faults.iter().filter(|fault| fault.effect == Effect::GpuLost {});
        let stays_lost =
            |slot| losses().any(|fault| fault.concerns(slot) && fault.holds_at(next_s));
        if (0..self.lost.len()).any(|slot| self.lost[slot] && !stays_lost(slot)) {
            self.cut();
        }
    }

    /// Plays one step of each card and takes a row of those that answer.
    fn step(&mut self) {
        let (now_s, at) = (self.now_s, self.at(self.now_s));
        let slow = now_s % SLOW_EVERY_S == 0;
        for slot in 0..self.cards.len() {
            let told = self.cards[slot].step(now_s);
            if self.stopped.is_some() {
                continue;
            }
            let gpu = self.story.inventories[slot].uuid.clone();
            for (second, kind) in told {
                self.tell(second, Some(gpu.clone()), kind);
            }
            if self.is_lost(slot, gpu) {
                continue;
            }
            let card = &mut self.cards[slot];
            let (busy, fast) = (card.busy(), card.fast());
            let read = slow.then(|| card.slow());
            let rows = match self.rows.iter().position(|rows| rows.slot == slot) {
                Some(at) => &mut self.rows[at],
                None => {
                    self.rows.push(Rows::new(slot, at));
                    let last = self.rows.len() - 1;
                    &mut self.rows[last]
                }
            };
            rows.push(busy, &fast);
            if let Some(read) = read {
                rows.push_slow(&read);
            }
        }
    }

    /// Whether a card answers now; tells when that changed.
    fn is_lost(&mut self, slot: usize, gpu: GpuUuid) -> bool {
        let lost = self.cards[slot].active.lost;
        match (std::mem::replace(&mut self.lost[slot], lost), lost) {
            (false, true) => {
                // Since the row before: what a row of another card says is later.
                let kind = EventKind::GpuLost { nvml_code: GPU_IS_LOST };
                self.tell(self.now_s - 1, Some(gpu), kind);
            }
            (true, false) => self.tell(self.now_s, Some(gpu), EventKind::GpuBack),
            _ => {}
        }
        lost
    }

    fn begin_run(&mut self, second: i64) {
        let started = EventKind::AgentStarted {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            life_unit: self.life.clone(),
            clock_source: "simulated".to_owned(),
        };
        self.tell(second, None, started);
        for slot in 0..self.cards.len() {
            let inventory = self.story.inventories[slot].clone();
            let gpu = Some(inventory.uuid.clone());
            self.tell(second + 1, gpu, EventKind::GpuSeen(inventory));
            // A new run sees what is there, and does not remember what was lost.
            self.lost[slot] = false;
        }
    }

    fn tell(&mut self, second: i64, gpu: Option<GpuUuid>, kind: EventKind) {
        self.events.push(Event::new(self.at(second), gpu, kind));
    }

    /// Ends the part, if there are rows in it. Events without rows wait for some.
    fn cut(&mut self) {
        if self.rows.is_empty() {
            return;
        }
        let mut events = std::mem::take(&mut self.events);
        events.sort_by_key(|event| event.at);
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_by_key(|rows| rows.slot);
        let gpu_count = self.lost.iter().filter(|lost| !**lost).count();
        self.parts.push_back(Part { story: self.story, gpu_count, events, rows });
    }

    fn at(&self, second: i64) -> Timestamp {
        self.midnight.plus_ms(second * 1_000)
    }
}

/// One boot of the simulated host, named after its beginning.
fn life(story: &Story, started_at: Timestamp) -> LifeUnit {
    let name = format!("{}/{}/{started_at}", story.scenario.name, story.seed);
    let (high, low) = (text_hash(21, &name), text_hash(22, &name));
    let mut id = [0; 16];
    id[..8].copy_from_slice(&high.to_be_bytes());
    id[8..].copy_from_slice(&low.to_be_bytes());
    let boot_id = format!("simulated-{high:016x}");
    LifeUnit { id: LifeUnitId(id), kind: LifeUnitKind::Host, boot_id, started_at }
}
