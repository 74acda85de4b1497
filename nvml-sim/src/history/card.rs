//! One card on past days: a step of ten seconds at a time.

use leasewatch_core::segment::EventKind;

use super::STEP_S;
use super::story::Story;
use super::timetable::Timetable;
use crate::physics::board::Board;
use crate::physics::faults::ActiveFaults;
use crate::physics::instant::{Instant, enforced_limit_mw};
use crate::physics::totals::Totals;
use crate::scenario::fault::{Effect, Fault};
use crate::scenario::load::{Load, Moment};
use crate::scenario::{CardPlan, Driver};

/// Of the way to its final temperature, in the shares that one tick of the sampler makes, how much
/// a card goes in a step. 60 ticks go 40 % of the way, one goes 1/120.
const WARMING_TICKS: i64 = 47;

/// A card and all that its story has made of it.
#[derive(Debug)]
pub(super) struct PlayedCard<'a> {
    pub(super) slot: usize,
    pub(super) board: Board,
    pub(super) driver: &'a Driver,
    pub(super) active: ActiveFaults,
    pub(super) shown: Instant,
    /// One entry for each step, since the driver was loaded.
    pub(super) totals: Totals,
    pub(super) ecc_uncorrected_aggregate: u64,
    /// The counters at the slow row before.
    pub(super) counted: Totals,
    story: &'a Story,
    faults: Vec<&'a Fault>,
    timetable: Timetable,
    limit_mw: u32,
}

impl<'a> PlayedCard<'a> {
    pub(super) fn new(
        story: &'a Story,
        slot: usize,
        plan: &'a CardPlan,
        timetable: Timetable,
    ) -> Self {
        let board = Board::of(plan);
        let active = ActiveFaults::default();
        Self {
            slot,
            driver: &story.scenario.driver,
            shown: Instant {
                temperature_milli_c: Instant::ambient_milli_c(),
                ..Instant::default()
            },
            totals: Totals::default(),
            ecc_uncorrected_aggregate: 0,
            counted: Totals::default(),
            story,
            faults: story.faults.iter().filter(|fault| fault.concerns(slot)).collect(),
            timetable,
            limit_mw: enforced_limit_mw(&board, &active),
            board,
            active,
        }
    }

    /// Plays the step that ends at `second`; returns what an agent would tell of it, with the
    /// second at which it happened.
    pub(super) fn step(&mut self, second: i64) -> Vec<(i64, EventKind)> {
        let mut events = Vec::new();
        for fault in &self.faults {
            let at_s = i64::try_from(fault.at_s).unwrap_or(i64::MAX);
            if (second - STEP_S..second).contains(&(at_s - 1)) {
                begin(&fault.effect, at_s, (&mut self.totals, &mut events));
                if let Effect::EccUncorrected { count } = fault.effect {
                    self.ecc_uncorrected_aggregate += count;
                }
            }
        }
        // A row is of the time before it.
        self.take_faults(second - 1);
        let limit_mw = enforced_limit_mw(&self.board, &self.active);
        let before = std::mem::replace(&mut self.limit_mw, limit_mw);
        if before != limit_mw {
            let (from_mw, to_mw) = (i64::from(before), i64::from(limit_mw));
            events.push((second, EventKind::PowerLimitChanged { from_mw, to_mw }));
        }
        self.shown = self.instant(second);
        self.totals.add(&self.shown);
        events
    }

    /// The driver was loaded anew.
    pub(super) fn reboot(&mut self) {
        self.totals = Totals::default();
        self.counted = Totals::default();
    }

    fn take_faults(&mut self, second: i64) {
        let second = u64::try_from(second).unwrap_or(0);
        if self.faults.is_empty() {
            return;
        }
        self.active = ActiveFaults::of(self.slot, second, &self.story.faults, &[]);
    }

    fn instant(&mut self, second: i64) -> Instant {
        let per_second = u64::from(self.story.scenario.samples_per_second);
        let at = Moment {
            seed: self.story.seed,
            slot: u64::try_from(self.slot).unwrap_or(0),
            // The last tick before the row.
            tick: (u64::try_from(second).unwrap_or(0) * per_second).saturating_sub(1),
            ticks_per_second: per_second,
        };
        let work = self.timetable.at(second - 1);
        let mut demand = work.load.demand(at);
        demand.memory_used_mib = work.memory_used_mib.or(demand.memory_used_mib);
        let recorded = matches!(work.load, Load::Trace(_));
        let before = self.shown.temperature_milli_c;
        let mut next = Instant::next(&self.board, &self.active, demand, at, before);
        if !self.active.thermal && !recorded {
            next.temperature_milli_c = warmed(before, next.temperature_milli_c);
        }
        next
    }
}

fn warmed(before: u32, after_tick: u32) -> u32 {
    let change = (i64::from(after_tick) - i64::from(before)) * WARMING_TICKS;
    u32::try_from(i64::from(before) + change).unwrap_or(before)
}

/// The one-time part of an effect.
fn begin(effect: &Effect, at_s: i64, (totals, events): (&mut Totals, &mut Vec<(i64, EventKind)>)) {
    match effect {
        Effect::Xid { code, .. } => {
            let code = i64::try_from(*code).unwrap_or(i64::MAX);
            events.push((at_s, EventKind::Xid { code }));
        }
        Effect::EccCorrected { count } => totals.ecc_corrected += count,
        Effect::EccUncorrected { count } => {
            totals.ecc_uncorrected += count;
            let count = i64::try_from(*count).unwrap_or(i64::MAX);
            events.push((at_s, EventKind::EccUncorrected { count }));
        }
        _ => {}
    }
}
