//! Which load runs on a card at which second: jobs of hours, breaks between them, weekends, and
//! the spells of the story on top.

use std::ops::Range;

use super::story::{Jobs, Spell, Story};
use crate::physics::noise::noise;
use crate::scenario::load::Load;

const DAY_S: i64 = 86_400;

/// What runs from a second on.
#[derive(Debug, Clone)]
pub(super) struct Work {
    pub(super) from_s: i64,
    pub(super) load: Load,
    pub(super) memory_used_mib: Option<u32>,
}

/// One card's loads, ascending; the first begins at or before the first second that is asked for.
#[derive(Debug)]
pub(super) struct Timetable {
    works: Vec<Work>,
    now: usize,
}

impl Timetable {
    /// The timetable of `card` up to second `end_s`; `first_day` is the weekday of second 0,
    /// Monday being 0.
    pub(super) fn new(story: &Story, card: usize, first_day: i64, end_s: i64) -> Self {
        let mut works = jobs(story, card, first_day, end_s);
        let concerns =
            |spell: &&Spell| spell.cards.as_ref().is_none_or(|cards| cards.contains(&card));
        for spell in story.spells.iter().filter(concerns) {
            overlay(&mut works, spell);
        }
        Self { works, now: 0 }
    }

    /// What runs at `second`, which never goes back.
    pub(super) fn at(&mut self, second: i64) -> &Work {
        while self.works.get(self.now + 1).is_some_and(|next| next.from_s <= second) {
            self.now += 1;
        }
        &self.works[self.now]
    }
}

fn jobs(story: &Story, card: usize, first_day: i64, end_s: i64) -> Vec<Work> {
    const BUSY: u64 = 41;
    const IDLE: u64 = 42;
    const SKIP: u64 = 43;
    const KIND: u64 = 44;
    let jobs = &story.jobs;
    // Cards of one job share its draws.
    let group = u64::try_from(card / jobs.cards).unwrap_or(0);
    let draw = |channel: u64, index: u64, range: &Range<u32>| {
        range.start + noise(story.seed, channel << 32 | group, index, range.end - range.start)
    };
    // Somewhere within the first job.
    let mut second = -i64::from(draw(BUSY, u64::MAX, &(0..jobs.busy_min.end))) * 60;
    let mut works = vec![idle(second)];
    let mut index = 0;
    while second < end_s {
        let busy_s = i64::from(draw(BUSY, index, &jobs.busy_min)) * 60;
        let weekend = (first_day + second.div_euclid(DAY_S)).rem_euclid(7) >= 5;
        if !(weekend && draw(SKIP, index, &(0..100)) < jobs.weekend_idle_percent) {
            let load = chosen(jobs, |below| draw(KIND, index, &(0..below)));
            works.push(Work { from_s: second, load, memory_used_mib: None });
        }
        second += busy_s;
        works.push(idle(second));
        second += i64::from(draw(IDLE, index, &jobs.idle_min)) * 60;
        index += 1;
    }
    works
}

fn idle(from_s: i64) -> Work {
    Work { from_s, load: Load::Idle, memory_used_mib: None }
}

fn chosen(jobs: &Jobs, draw: impl Fn(u32) -> u32) -> Load {
    let mut left = draw(jobs.loads.iter().map(|(weight, _)| weight).sum());
    for (weight, load) in &jobs.loads {
        if left < *weight {
            return load.clone();
        }
        left -= weight;
    }
    Load::Idle
}

/// Puts a spell over what ran; what ran before it goes on behind it.
fn overlay(works: &mut Vec<Work>, spell: &Spell) {
    let Range { start, end } = spell.seconds;
    let behind = works.partition_point(|work| work.from_s < end);
    let resumed = works[..behind].last().map(|work| Work { from_s: end, ..work.clone() });
    let first = works.partition_point(|work| work.from_s < start);
    let load = spell.load.clone();
    let told = Work { from_s: start, load, memory_used_mib: spell.memory_used_mib };
    works.splice(first..behind, [told].into_iter().chain(resumed));
    // A spell before the first job would leave nothing in front of it.
    if first == 0 {
        works.insert(0, idle(i64::MIN));
    }
}
