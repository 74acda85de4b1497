//! One card: advanced tick by tick, told about faults, asked for readings.

use std::collections::VecDeque;

use super::board::Board;
use super::faults::ActiveFaults;
use super::identity::Identity;
use super::instant::Instant;
use super::mig::{MigCut, MigSlice};
use super::totals::Totals;
use crate::replay::{Incident, Replay};
use crate::scenario::fault::{Effect, Fault, Group};
use crate::scenario::load::{Load, Moment};

/// NVML's event type bits that the simulation sends.
pub(crate) mod event_type {
    pub(crate) const SINGLE_BIT_ECC: u64 = 0x1;
    pub(crate) const DOUBLE_BIT_ECC: u64 = 0x2;
    pub(crate) const XID: u64 = 0x8;
    pub(crate) const SUPPORTED: u64 = SINGLE_BIT_ECC | DOUBLE_BIT_ECC | XID;
}

/// Something that a driver would tell to whoever registered for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CardEvent {
    pub(crate) kind: u64,
    pub(crate) data: u64,
    pub(crate) gpu_instance: u32,
    pub(crate) compute_instance: u32,
}

impl CardEvent {
    /// One that names no instance.
    fn of_card(kind: u64, data: u64) -> Self {
        Self { kind, data, gpu_instance: u32::MAX, compute_instance: u32::MAX }
    }
}

/// One entry of the driver's sample buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BufferedSample {
    /// End of the tick, in microseconds since the scenario's epoch.
    pub(crate) at_us: u64,
    pub(crate) instant: Instant,
}

/// Faults from the control file, numbered so that a card sees when they change.
#[derive(Debug, Default)]
pub(crate) struct ControlFaults {
    pub(crate) generation: u64,
    pub(crate) faults: Vec<Fault>,
}

/// A card and all that it remembers.
#[derive(Debug)]
pub(crate) struct Card {
    pub(crate) slot: usize,
    pub(crate) identity: Identity,
    pub(crate) board: Board,
    pub(crate) active: ActiveFaults,
    pub(crate) shown: Instant,
    pub(crate) totals: Totals,
    /// Over the board's life: a driver reload does not reset it.
    pub(crate) ecc_aggregate: (u64, u64),
    pub(crate) samples: VecDeque<BufferedSample>,
    pub(crate) ticks_per_second: u32,
    /// Where its readings come from, if not from `shown` and `totals`.
    pub(crate) replay: Option<Replay>,
    play: Play,
    done_ticks: u64,
    temperature_milli_c: u32,
    control: Vec<Fault>,
    control_generation: u64,
}

/// What drives a card.
#[derive(Debug)]
pub(crate) struct Play {
    pub(crate) seed: u64,
    pub(crate) load: Load,
    pub(crate) memory_used_mib: Option<u32>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) sample_ring: usize,
    pub(crate) ticks_per_second: u32,
}

impl Card {
    pub(crate) fn new(slot: usize, identity: Identity, board: Board, play: Play) -> Self {
        let active = ActiveFaults::of(slot, 0, &play.faults, &[]);
        Self {
            slot,
            identity,
            board,
            active,
            shown: Instant::default(),
            totals: Totals::default(),
            ecc_aggregate: (0, 0),
            samples: VecDeque::with_capacity(play.sample_ring),
            ticks_per_second: play.ticks_per_second,
            replay: None,
            play,
            done_ticks: 0,
            temperature_milli_c: Instant::ambient_milli_c(),
            control: Vec::new(),
            control_generation: 0,
        }
    }

    /// Advances to `ticks` whole ticks since the epoch and takes over the control file's faults.
    /// Returns what happened on the way.
    pub(crate) fn advance(&mut self, ticks: u64, control: &ControlFaults) -> Vec<CardEvent> {
        let mut events = Vec::new();
        while self.done_ticks < ticks {
            self.tick(&mut events);
        }
        if control.generation != self.control_generation {
            self.take_control(control, &mut events);
        }
        if self.done_ticks == 0 {
            self.shown = self.instant(0);
        }
        events
    }

    /// Goes on with the recording; returns what happened on the way.
    pub(crate) fn advance_replay(&mut self, elapsed_us: u64) -> Vec<CardEvent> {
        let Some(replay) = &mut self.replay else { return Vec::new() };
        let event = |incident| match incident {
            Incident::Xid(code) => CardEvent::of_card(event_type::XID, code),
            Incident::EccUncorrected => CardEvent::of_card(event_type::DOUBLE_BIT_ECC, 0),
        };
        replay.advance(elapsed_us).into_iter().map(event).collect()
    }

    /// The code with which the recording refuses an initialisation at this moment, and whether it
    /// lists the card then.
    pub(crate) fn replay_at(&mut self, elapsed_us: u64) -> (Option<u32>, bool) {
        let Some(replay) = &mut self.replay else { return (None, true) };
        replay.begin(elapsed_us);
        let at_ms = replay.at_ms();
        (replay.recording.init_refusal(at_ms), replay.recording.is_listed(at_ms))
    }

    /// How it is cut into slices; `None` while it is whole.
    pub(crate) fn cut(&self) -> Option<MigCut> {
        match &self.replay {
            Some(replay) => replay.recording.cut(replay.at_ms()),
            None => self.active.mig,
        }
    }

    /// The UUID of a slice of it.
    pub(crate) fn slice_uuid(&self, slice: &MigSlice) -> String {
        let played = self.replay.as_ref().and_then(|replay| replay.recording.slice(slice));
        match played {
            Some(played) => played.recording.uuid.to_string(),
            None => self.identity.mig_uuid(slice),
        }
    }

    /// True while its calls hang because they hung when they were recorded.
    pub(crate) fn is_recorded_hanging(&self) -> bool {
        self.replay.as_ref().is_some_and(|replay| replay.recording.hangs(replay.at_ms()))
    }

    /// The code that a call of this group fails with, if it does.
    pub(crate) fn refusal(&self, group: Group) -> Option<u32> {
        let recorded = || self.replay.as_ref().and_then(|it| it.recording.refusal(it.at_ms()));
        self.active.refusal(group).or_else(recorded)
    }

    /// How many samples the driver's buffer holds at most.
    pub(crate) fn sample_ring(&self) -> usize {
        self.play.sample_ring
    }

    fn tick(&mut self, events: &mut Vec<CardEvent>) {
        let tick = self.done_ticks;
        let per_second = u64::from(self.ticks_per_second);
        if tick.is_multiple_of(per_second) {
            self.begin_second(tick / per_second, events);
        }
        let instant = self.instant(tick);
        self.temperature_milli_c = instant.temperature_milli_c;
        self.totals.add(&instant);
        if self.samples.len() >= self.play.sample_ring {
            self.samples.pop_front();
        }
        let at_us = (tick + 1) * 1_000_000 / per_second;
        if !self.active.frozen {
            self.shown = instant;
        }
        self.samples.push_back(BufferedSample { at_us, instant: self.shown });
        self.done_ticks += 1;
    }

    fn begin_second(&mut self, second: u64, events: &mut Vec<CardEvent>) {
        for at in 0..self.play.faults.len() {
            if self.play.faults[at].at_s == second && self.play.faults[at].concerns(self.slot) {
                let effect = self.play.faults[at].effect.clone();
                self.begin(&effect, events);
            }
        }
        self.active = ActiveFaults::of(self.slot, second, &self.play.faults, &self.control);
    }

    /// Faults that were not in the control file before begin now, the others go on.
    fn take_control(&mut self, control: &ControlFaults, events: &mut Vec<CardEvent>) {
        let mut before = std::mem::replace(&mut self.control, control.faults.clone());
        let slot = self.slot;
        for fault in control.faults.iter().filter(|fault| fault.concerns(slot)) {
            match before.iter().position(|known| known == fault) {
                Some(at) => drop(before.swap_remove(at)),
                None => self.begin(&fault.effect, events),
            }
        }
        self.control_generation = control.generation;
        let tick = self.done_ticks.saturating_sub(1);
        let second = tick / u64::from(self.ticks_per_second);
        self.active = ActiveFaults::of(self.slot, second, &self.play.faults, &self.control);
        if !self.active.frozen {
            // The readings follow at once; the buffer and the counters follow with the next tick.
            self.shown = self.instant(tick);
        }
    }

    /// The one-time part of an effect.
    fn begin(&mut self, effect: &Effect, events: &mut Vec<CardEvent>) {
        let plain = |kind| CardEvent::of_card(kind, 0);
        match effect {
            Effect::Xid { code, gpu_instance, compute_instance } => events.push(CardEvent {
                kind: event_type::XID,
                data: *code,
                gpu_instance: *gpu_instance,
                compute_instance: *compute_instance,
            }),
            Effect::EccCorrected { count } => {
                self.totals.ecc_corrected += count;
                self.ecc_aggregate.0 += count;
                events.push(plain(event_type::SINGLE_BIT_ECC));
            }
            Effect::EccUncorrected { count } => {
                self.totals.ecc_uncorrected += count;
                self.ecc_aggregate.1 += count;
                events.push(plain(event_type::DOUBLE_BIT_ECC));
            }
            Effect::DriverReload {} => {
                self.totals = Totals::default();
                self.samples.clear();
            }
            _ => {}
        }
    }

    fn instant(&self, tick: u64) -> Instant {
        let at = Moment {
            seed: self.play.seed,
            slot: u64::try_from(self.slot).unwrap_or(0),
            tick,
            ticks_per_second: u64::from(self.ticks_per_second),
        };
        let mut demand = self.play.load.demand(at);
        demand.memory_used_mib = self.play.memory_used_mib.or(demand.memory_used_mib);
        Instant::next(&self.board, &self.active, demand, at, self.temperature_milli_c)
    }
}
