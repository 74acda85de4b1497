//! Stories: what the cards of a scenario did on past days, what went wrong, and when nobody
//! recorded.
//!
//! The grammar is in `nvml-sim/README.md`. Times are seconds since the midnight, in the story's
//! zone, of the day in which the log begins. A story is refused as a whole when any part of it is
//! not understood.

use std::ops::Range;
use std::path::{Path, PathBuf};

use leasewatch_core::id::IdError;
use leasewatch_core::segment::GpuInventory;
use serde::Deserialize;

use super::inventory::inventory;
use crate::physics::board::Board;
use crate::physics::identity::Identity;
use crate::scenario::fault::Fault;
use crate::scenario::load::{Load, Shape};
use crate::scenario::{Scenario, ScenarioError};

/// A story that can be played.
#[derive(Debug)]
pub(super) struct Story {
    pub(super) scenario: Scenario,
    /// Of each card of the scenario.
    pub(super) inventories: Vec<GpuInventory>,
    pub(super) seed: u64,
    pub(super) utc_offset_s: i64,
    pub(super) jobs: Jobs,
    /// Later ones win where they overlap.
    pub(super) spells: Vec<Spell>,
    /// Ascending, apart from each other.
    pub(super) stops: Vec<Stop>,
    pub(super) faults: Vec<Fault>,
}

/// What runs while no spell says anything else.
#[derive(Debug)]
pub(super) struct Jobs {
    /// Cards of one job.
    pub(super) cards: usize,
    /// Minutes that a job takes, from the least to below the most.
    pub(super) busy_min: Range<u32>,
    /// Minutes between two jobs.
    pub(super) idle_min: Range<u32>,
    /// How likely a job of a Saturday or Sunday is left out.
    pub(super) weekend_idle_percent: u32,
    /// What jobs are like, with weights.
    pub(super) loads: Vec<(u32, Load)>,
}

/// Some time in which it is known what ran on some cards.
#[derive(Debug)]
pub(super) struct Spell {
    /// `None` = on every card.
    pub(super) cards: Option<Vec<usize>>,
    pub(super) seconds: Range<i64>,
    pub(super) load: Load,
    /// Memory held, whatever the load needs.
    pub(super) memory_used_mib: Option<u32>,
}

/// Some time in which nothing was recorded.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stop {
    pub(super) at_s: i64,
    pub(super) until_s: i64,
    pub(super) kind: StopKind,
}

/// Why nothing was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StopKind {
    /// The agent was stopped and started again.
    Agent,
    /// The host went down without a word and came up again.
    Reboot,
    /// Nobody knows.
    Silence,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    scenario: PathBuf,
    #[serde(default)]
    seed: u64,
    #[serde(default)]
    utc_offset_h: i64,
    jobs: JobsText,
    #[serde(default)]
    spells: Vec<SpellText>,
    #[serde(default)]
    stops: Vec<Stop>,
    #[serde(default)]
    faults: Vec<Fault>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JobsText {
    #[serde(default = "one")]
    cards: usize,
    busy_min: (u32, u32),
    idle_min: (u32, u32),
    #[serde(default)]
    weekend_idle_percent: u32,
    loads: Vec<LoadText>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LoadText {
    #[serde(default = "one_weight")]
    weight: u32,
    load: Shape,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SpellText {
    cards: Option<Vec<usize>>,
    at_s: i64,
    until_s: i64,
    load: Shape,
    memory_used_mib: Option<u32>,
}

impl Story {
    /// Reads and checks a story, and the scenario that it names beside itself.
    pub(super) fn load(path: &Path) -> Result<Self, ScenarioError> {
        let invalid = |what: String| ScenarioError::Invalid { path: path.to_owned(), what };
        let text = std::fs::read_to_string(path)
            .map_err(|source| ScenarioError::Read { path: path.to_owned(), source })?;
        let file: File = toml::from_str(&text)
            .map_err(|source| ScenarioError::Toml { path: path.to_owned(), source })?;
        let beside = path.parent().unwrap_or(Path::new("")).join(&file.scenario);
        let scenario = Scenario::load(&beside)?;
        if scenario.replay.is_some() {
            let what = "the scenario of a story plays [[cards]], not a capture with [replay]";
            return Err(invalid(what.to_owned()));
        }
        let cards = scenario.cards.len();
        crate::scenario::check_faults(&file.faults, cards).map_err(invalid)?;
        check(&file, cards).map_err(invalid)?;
        let ready = |spell: SpellText| -> Result<Spell, ScenarioError> {
            Ok(Spell {
                cards: spell.cards,
                seconds: spell.at_s..spell.until_s,
                load: spell.load.ready(path)?,
                memory_used_mib: spell.memory_used_mib,
            })
        };
        Ok(Self {
            inventories: inventories(&scenario).map_err(|error| invalid(error.to_string()))?,
            scenario,
            seed: file.seed,
            utc_offset_s: file.utc_offset_h * 3_600,
            jobs: file.jobs.ready(path)?,
            spells: file.spells.into_iter().map(ready).collect::<Result<_, _>>()?,
            stops: file.stops,
            faults: file.faults,
        })
    }
}

fn inventories(scenario: &Scenario) -> Result<Vec<GpuInventory>, IdError> {
    let plans = scenario.cards.iter().enumerate();
    let of_card = |(slot, plan)| {
        inventory(&Identity::of(scenario, slot, plan, false), &Board::of(plan), slot)
    };
    plans.map(of_card).collect()
}

impl JobsText {
    fn ready(self, path: &Path) -> Result<Jobs, ScenarioError> {
        let loads = self.loads.into_iter().map(|text| Ok((text.weight, text.load.ready(path)?)));
        Ok(Jobs {
            cards: self.cards,
            busy_min: self.busy_min.0..self.busy_min.1,
            idle_min: self.idle_min.0..self.idle_min.1,
            weekend_idle_percent: self.weekend_idle_percent,
            loads: loads.collect::<Result<_, ScenarioError>>()?,
        })
    }
}

fn check(file: &File, cards: usize) -> Result<(), String> {
    let jobs = &file.jobs;
    let ascend = |(least, most): (u32, u32)| least < most;
    if !(-12..=14).contains(&file.utc_offset_h) {
        return Err("utc_offset_h is -12 to 14".to_owned());
    }
    if jobs.cards == 0 || !ascend(jobs.busy_min) || !ascend(jobs.idle_min) {
        return Err("jobs have cards, and busy_min and idle_min ascend".to_owned());
    }
    if jobs.loads.iter().map(|text| text.weight).sum::<u32>() == 0 {
        return Err("jobs have loads with a weight".to_owned());
    }
    let named = |spell: &SpellText| spell.cards.iter().flatten().any(|card| *card >= cards);
    if file.spells.iter().any(|spell| named(spell) || spell.until_s <= spell.at_s) {
        return Err("a spell names a card that is not there, or ends before it begins".to_owned());
    }
    check_stops(&file.stops)
}

/// An event needs rows in its hour, so a stop neither begins nor ends at the full hour. The log
/// begins somewhere in the first day, and not in a stop.
fn check_stops(stops: &[Stop]) -> Result<(), String> {
    let inside = |second: i64| (60..=3_540).contains(&second.rem_euclid(3_600));
    let lasts = |stop: &Stop| {
        86_400 <= stop.at_s && stop.at_s < stop.until_s && inside(stop.at_s) && inside(stop.until_s)
    };
    let apart = |pair: &[Stop]| pair[0].until_s + 60 <= pair[1].at_s;
    if stops.iter().all(lasts) && stops.windows(2).all(apart) {
        return Ok(());
    }
    let rule = "stops ascend a minute apart, from the second day on, a minute from full hours";
    Err(rule.to_owned())
}

fn one() -> usize {
    1
}

fn one_weight() -> u32 {
    1
}
