//! Loads: how busy a card is at each tick of the driver's sampler.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use super::ScenarioError;
use super::trace::{Row, read_trace};
use crate::physics::noise::noise;

/// A load as a scenario names it.
#[derive(Debug, Deserialize)]
#[serde(tag = "shape", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Shape {
    Idle {},
    Training {},
    Inference {},
    SawTooth { period_s: u32 },
    Constant { percent: u32 },
    Script { steps: Vec<(u64, u32)> },
    Trace { file: PathBuf },
}

/// A load that can be played.
#[derive(Debug, Clone)]
pub(crate) enum Load {
    Idle,
    Training,
    Inference,
    SawTooth {
        period_s: u32,
    },
    Constant {
        percent: u32,
    },
    /// `(from second, percent)`, ascending.
    Script(Arc<[(u64, u32)]>),
    /// A recording, repeated from its beginning when it ends.
    Trace(Arc<[Row]>),
}

/// What a load asks of its card for one tick. `None` = follows from the utilization.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Demand {
    pub(crate) busy: u32,
    /// Share of memory held.
    pub(crate) memory_permille: u32,
    /// Share of its time that a busy card spends in tensor cores.
    pub(crate) tensor_permille: u32,
    pub(crate) memory_used_mib: Option<u32>,
    pub(crate) power_mw: Option<u32>,
    pub(crate) temperature_c: Option<u32>,
}

/// A tick of one card: `tick` counts from the scenario's epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub(crate) seed: u64,
    pub(crate) slot: u64,
    pub(crate) tick: u64,
    pub(crate) ticks_per_second: u64,
}

impl Shape {
    /// Checks the shape and reads its recording, if it has one. Paths are relative to the scenario.
    pub(crate) fn ready(&self, scenario: &Path) -> Result<Load, ScenarioError> {
        let invalid = |what: &str| {
            Err(ScenarioError::Invalid { path: scenario.to_owned(), what: what.to_owned() })
        };
        match self {
            Self::Idle {} => Ok(Load::Idle),
            Self::Training {} => Ok(Load::Training),
            Self::Inference {} => Ok(Load::Inference),
            Self::SawTooth { period_s: 0 } => invalid("saw_tooth: period_s is at least 1"),
            Self::SawTooth { period_s } => Ok(Load::SawTooth { period_s: *period_s }),
            Self::Constant { percent: 101.. } => invalid("constant: percent is 0 to 100"),
            Self::Constant { percent } => Ok(Load::Constant { percent: *percent }),
            Self::Script { steps } => {
                let ascending = steps.windows(2).all(|pair| pair[0].0 < pair[1].0);
                let starts = steps.first().is_some_and(|step| step.0 == 0);
                if !ascending || !starts || steps.iter().any(|step| step.1 > 100) {
                    return invalid("script: steps ascend from second 0, percent is 0 to 100");
                }
                Ok(Load::Script(steps.as_slice().into()))
            }
            Self::Trace { file } => {
                let directory = scenario.parent().unwrap_or(Path::new(""));
                Ok(Load::Trace(read_trace(&directory.join(file))?.into()))
            }
        }
    }
}

impl Load {
    pub(crate) fn demand(&self, at: Moment) -> Demand {
        match self {
            Self::Idle => Demand::plain(0, 0),
            Self::Training => Demand { tensor_permille: 520, ..Demand::plain(training(at), 880) },
            Self::Inference => Demand { tensor_permille: 180, ..Demand::plain(inference(at), 700) },
            Self::SawTooth { period_s } => Demand::plain(saw_tooth(at, *period_s), 500),
            Self::Constant { percent } => held(*percent),
            Self::Script(steps) => {
                let started = steps.partition_point(|step| step.0 <= at.second());
                held(steps[started.saturating_sub(1)].1)
            }
            Self::Trace(rows) => traced(at, rows),
        }
    }
}

impl Demand {
    fn plain(busy: u32, memory_permille: u32) -> Self {
        Self {
            busy,
            memory_permille,
            tensor_permille: 300,
            memory_used_mib: None,
            power_mw: None,
            temperature_c: None,
        }
    }
}

impl Moment {
    fn second(self) -> u64 {
        self.tick / self.ticks_per_second
    }

    fn random(self, channel: u64, index: u64, below: u32) -> u32 {
        noise(self.seed, channel << 32 | self.slot, index, below)
    }

    /// The same for all cards of a scenario: a job that spans them dips everywhere at once.
    fn shared_random(self, channel: u64, index: u64, below: u32) -> u32 {
        noise(self.seed, channel << 32 | u64::from(u32::MAX), index, below)
    }
}

/// Steps at 97 to 100 % with a short dip between two of them, and a checkpoint each ten minutes.
fn training(at: Moment) -> u32 {
    const STEP_S: u64 = 20;
    const CHECKPOINT_EVERY_S: u64 = 600;
    const CHECKPOINT_S: u64 = 12;
    let second = at.second();
    if second % CHECKPOINT_EVERY_S >= CHECKPOINT_EVERY_S - CHECKPOINT_S {
        return at.random(1, at.tick, 5);
    }
    let dip_s = u64::from(at.shared_random(2, second / STEP_S, 18));
    if second % STEP_S == dip_s && at.tick % at.ticks_per_second < 3 {
        return 35 + at.random(3, at.tick, 25);
    }
    97 + at.random(4, at.tick, 4)
}

/// Bursts of three seconds over a floor; how many of them follows a wave of ten minutes.
fn inference(at: Moment) -> u32 {
    const BURST_S: u64 = 3;
    const WAVE_S: u64 = 600;
    let second = at.second();
    let phase = second % WAVE_S;
    let wave = u32::try_from(phase.min(WAVE_S - phase) * 60 / (WAVE_S / 2)).unwrap_or(0);
    if at.random(5, second / BURST_S, 100) < 20 + wave {
        60 + at.random(6, at.tick, 36)
    } else {
        4 + at.random(7, at.tick, 18)
    }
}

/// From 0 to 100 % over the period, then down at once.
fn saw_tooth(at: Moment, period_s: u32) -> u32 {
    let period = u64::from(period_s) * at.ticks_per_second;
    u32::try_from(at.tick % period * 101 / period).unwrap_or(100)
}

/// Exactly this much, with memory held only while there is work.
fn held(percent: u32) -> Demand {
    Demand::plain(percent, if percent > 0 { 500 } else { 0 })
}

fn traced(at: Moment, rows: &[Row]) -> Demand {
    let end_ms = rows.last().map_or(1, |row| row.t_ms + 1);
    let now_ms = at.tick * 1_000 / at.ticks_per_second % end_ms;
    let started = rows.partition_point(|row| row.t_ms <= now_ms);
    let row = rows[started.saturating_sub(1)];
    Demand {
        memory_used_mib: Some(row.mem_used_mib),
        power_mw: Some(row.power_mw),
        temperature_c: Some(row.temp_c),
        ..Demand::plain(row.busy, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn busy(load: &Load, second: u64) -> Vec<u32> {
        let tick = |n| Moment { seed: 7, slot: 1, tick: second * 6 + n, ticks_per_second: 6 };
        (0..6).map(|n| load.demand(tick(n)).busy).collect()
    }

    #[test]
    fn a_script_is_followed_to_the_second() {
        let load = Load::Script([(0, 0), (2, 100), (3, 37)].as_slice().into());
        assert_eq!(busy(&load, 1), [0; 6]);
        assert_eq!(busy(&load, 2), [100; 6]);
        assert_eq!(busy(&load, 3), [37; 6]);
        assert_eq!(busy(&load, 1_000), [37; 6]);
    }

    #[test]
    fn a_saw_tooth_rises_through_the_whole_range() {
        let load = Load::SawTooth { period_s: 60 };
        let rise: Vec<u32> = (0..60).flat_map(|second| busy(&load, second)).collect();
        assert!(rise.is_sorted());
        assert_eq!((rise[0], rise[359]), (0, 100));
        assert_eq!(busy(&load, 60)[0], 0);
    }

    #[test]
    fn shapes_keep_their_promise_on_average() {
        let mean = |load: &Load| {
            let all: Vec<u32> = (0..600).flat_map(|second| busy(load, second)).collect();
            assert!(all.iter().all(|percent| *percent <= 100));
            all.iter().sum::<u32>() * 10 / u32::try_from(all.len()).unwrap()
        };
        let training = mean(&Load::Training);
        assert!((930..985).contains(&training), "{training}");
        let inference = mean(&Load::Inference);
        assert!((300..650).contains(&inference), "{inference}");
    }
}
