//! The verdict: whether an objective was kept in a window, with bounds and what would decide.
//!
//! With W the objective's denominator, the availability lies between
//! `A_lo = 1 - possible downtime / W` and `A_hi = 1 - proven downtime / W`. It is *met* when A_lo
//! reaches the target, *breached* when A_hi misses it, *indeterminate* between, and *not
//! applicable* when W is 0. Compared exactly; the ppm are for the eye.

use std::collections::BTreeMap;

use crate::availability::{StateStretch, UnknownCause, named};
use crate::id::Slug;
use crate::metering::{GapCause, Ppm};
use crate::time::{Period, Timestamp};

use super::Target;
use super::dialect::{Counted, Downtime, Filings, count, downtime};
use super::profile::{Denominator, Objective};
use super::unit::{UnitStretch, combine};
use super::window::Window;

/// What is judged.
#[derive(Debug, Clone, Copy)]
pub struct Case<'a> {
    /// By what.
    pub objective: &'a Objective,
    /// Over which time.
    pub window: Window,
    /// Until when anything is known. A window that ends later is not over.
    pub as_of: Timestamp,
    /// What was claimed and noticed before.
    pub filings: Filings<'a>,
}

/// Whether an objective was kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Which.
    pub objective: Slug,
    /// Over which time.
    pub window: Window,
    /// The answer.
    pub outcome: Outcome,
    /// What was promised; `None` where only single outages are paid for.
    pub target: Option<Target>,
    /// W: what downtime is divided by, in ms.
    pub whole_ms: i64,
    /// How much of W may be down without a breach, in ms, rounded down; `None` without a target.
    pub allowed_ms: Option<i64>,
    /// Downtime as the contract counts it; both bounds come from it.
    pub downtime: Downtime,
    /// The unit's time as the contract counts it, before minimum outage, slices and buffer.
    pub sums: UnitSums,
    /// What kept the verdict from being certain, the longest first; empty unless indeterminate.
    pub lacks: Vec<Lack>,
}

named! {
    /// The answer of a verdict.
    Outcome {
        /// Kept, whatever the unknown time was.
        Met = "met",
        /// Missed, whatever the unknown time was.
        Breached = "breached",
        /// The unknown time decides, or the window is not over.
        Indeterminate = "indeterminate",
        /// Nothing was contracted, or nothing is promised in percent.
        NotApplicable = "not_applicable",
    }
}

/// A unit's contracted time in a window, in ms.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnitSums {
    /// As promised.
    pub up_ms: i64,
    /// Down.
    pub down_ms: i64,
    /// Not known, by cause.
    pub unknown_ms: BTreeMap<UnknownCause, i64>,
    /// Not in the account.
    pub excluded_ms: i64,
}

/// Unknown time of one kind, and what to do so that the next window is provable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lack {
    /// What to do.
    pub remedy: Remedy,
    /// How much time was unknown for it, in ms; 0 for a window that is not over.
    pub ms: i64,
}

named! {
    /// What makes the next window provable.
    Remedy {
        /// The window is not over; nothing to do.
        WaitForEnd = "wait_for_end",
        /// Nothing ran on the node: install the agent when the lease begins.
        InstallAgent = "install_agent",
        /// The server was not recording: let it run where it does not sleep.
        KeepServerRunning = "keep_server_running",
        /// Nothing tells a dead node from a cut line: add a prober and reference targets.
        AddProber = "add_prober",
        /// The agent was stopped, or its container was: record stops, and start it with the node.
        RecordStops = "record_stops",
        /// The node's clock was wrong: synchronise it.
        SynchroniseClock = "synchronise_clock",
        /// What was recorded was given up: give the agent more disk.
        EnlargeSpool = "enlarge_spool",
        /// The driver did not answer: look at its version and at other users of it.
        MendDriver = "mend_driver",
        /// Two sources wrote for one gpu: keep one.
        KeepOneSource = "keep_one_source",
        /// The node ran without a gpu: tell whether it was rented with one then.
        RecordSessions = "record_sessions",
    }
}

/// Judges one unit: a GPU's own stretches, or those of all members of a node, cluster or region.
#[must_use]
pub fn judge(case: &Case<'_>, members: &[&[StateStretch]]) -> Verdict {
    verdict(case, &timeline(case.objective, members))
}

/// The timeline of a unit by an objective's predicates and its combination of members.
#[must_use]
pub fn timeline(objective: &Objective, members: &[&[StateStretch]]) -> Vec<UnitStretch> {
    let predicates = &objective.downtime.predicates;
    let counted: Vec<_> = members.iter().map(|slot| count(slot, predicates)).collect();
    combine(&counted, objective.unit.needs)
}

/// Judges a timeline.
#[must_use]
pub fn verdict(case: &Case<'_>, timeline: &[UnitStretch]) -> Verdict {
    let Case { objective, window, as_of, filings } = *case;
    let sums = UnitSums::of(timeline, window.period);
    let whole_ms = sums.whole_ms(objective.denominator, window);
    let mut downtime = downtime(timeline, &objective.downtime, window.period, filings);
    // Whole slices may reach over the edges of what was contracted.
    downtime.possible_ms = downtime.possible_ms.min(whole_ms);
    downtime.proven_ms = downtime.proven_ms.min(downtime.possible_ms);
    let is_over = window.period.end <= as_of;
    let outcome = match objective.target {
        _ if whole_ms == 0 => Outcome::NotApplicable,
        None => Outcome::NotApplicable,
        Some(target) if is_over => outcome(target, &downtime, whole_ms),
        // More time can only make W larger, up to all of the window.
        Some(target) => {
            let length_ms = window.whole.ms();
            let sure = !target.is_reached(length_ms - downtime.proven_ms, length_ms);
            if sure { Outcome::Breached } else { Outcome::Indeterminate }
        }
    };
    let lacks = match outcome {
        Outcome::Indeterminate => sums.lacks(is_over),
        _ => Vec::new(),
    };
    let allowed_ms = objective.target.map(|target| target.allowed_ms(whole_ms));
    Verdict {
        objective: objective.id.clone(),
        window,
        outcome,
        target: objective.target,
        whole_ms,
        allowed_ms,
        downtime,
        sums,
        lacks,
    }
}

fn outcome(target: Target, downtime: &Downtime, whole_ms: i64) -> Outcome {
    if target.is_reached(whole_ms - downtime.possible_ms, whole_ms) {
        Outcome::Met
    } else if target.is_reached(whole_ms - downtime.proven_ms, whole_ms) {
        Outcome::Indeterminate
    } else {
        Outcome::Breached
    }
}

impl Verdict {
    /// A_lo: the availability if all unknown time had been down; `None` when W is 0.
    #[must_use]
    pub fn low(&self) -> Option<Ppm> {
        Ppm::of(i128::from(self.whole_ms - self.downtime.possible_ms), i128::from(self.whole_ms))
    }

    /// A_hi: the availability by what is proven; `None` when W is 0.
    #[must_use]
    pub fn high(&self) -> Option<Ppm> {
        Ppm::of(i128::from(self.whole_ms - self.downtime.proven_ms), i128::from(self.whole_ms))
    }
}

impl UnitSums {
    /// The sums of a timeline within `window`.
    #[must_use]
    pub fn of(timeline: &[UnitStretch], window: Period) -> Self {
        let mut sums = Self::default();
        for stretch in timeline {
            let ms = stretch.period.intersect(window).ms();
            match stretch.counted {
                _ if ms == 0 => {}
                Counted::Up => sums.up_ms += ms,
                Counted::Down => sums.down_ms += ms,
                Counted::Excluded => sums.excluded_ms += ms,
                Counted::Unknown(cause) => *sums.unknown_ms.entry(cause).or_default() += ms,
            }
        }
        sums
    }

    /// Unknown for all causes, in ms.
    #[must_use]
    pub fn unknown_total_ms(&self) -> i64 {
        self.unknown_ms.values().sum()
    }

    /// All contracted time, in ms.
    #[must_use]
    pub fn contracted_ms(&self) -> i64 {
        self.up_ms + self.down_ms + self.unknown_total_ms() + self.excluded_ms
    }

    /// W, in ms. Nothing contracted leaves nothing to judge, in any denominator.
    fn whole_ms(&self, denominator: Denominator, window: Window) -> i64 {
        let contracted_ms = self.contracted_ms();
        match denominator {
            Denominator::Calendar if contracted_ms > 0 => window.period.ms(),
            Denominator::Calendar | Denominator::Contracted => contracted_ms,
            Denominator::ContractedMinusExcluded => contracted_ms - self.excluded_ms,
        }
    }

    fn lacks(&self, is_over: bool) -> Vec<Lack> {
        let mut by_remedy: BTreeMap<Remedy, i64> = BTreeMap::new();
        for (cause, ms) in &self.unknown_ms {
            *by_remedy.entry(Remedy::against(*cause)).or_default() += ms;
        }
        let mut lacks: Vec<Lack> =
            by_remedy.into_iter().map(|(remedy, ms)| Lack { remedy, ms }).collect();
        lacks.sort_by_key(|lack| (std::cmp::Reverse(lack.ms), lack.remedy));
        if !is_over {
            lacks.insert(0, Lack { remedy: Remedy::WaitForEnd, ms: 0 });
        }
        lacks
    }
}

impl Remedy {
    /// What to do against time that is unknown for `cause`.
    #[must_use]
    pub fn against(cause: UnknownCause) -> Self {
        let UnknownCause::Gap(gap) = cause else { return Self::InstallAgent };
        match gap {
            GapCause::Conflict => Self::KeepOneSource,
            GapCause::ClockInvalid => Self::SynchroniseClock,
            GapCause::NvmlError | GapCause::DriverReload | GapCause::Unsupported => {
                Self::MendDriver
            }
            GapCause::NoGpuAttached => Self::RecordSessions,
            GapCause::Dropped => Self::EnlargeSpool,
            GapCause::AgentRestart | GapCause::InstanceRestart => Self::RecordStops,
            GapCause::ObserverDown => Self::KeepServerRunning,
            // The rest is silence: without a second way to look, nobody can say what it was.
            GapCause::GpuLost
            | GapCause::GpuReplaced
            | GapCause::NodeReboot
            | GapCause::NetUnreachable
            | GapCause::Unexplained => Self::AddProber,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::availability::Ground;
    use crate::sla::dialect::Filings;
    use crate::sla::golden::shipped_objective;
    use crate::sla::unit::Members;
    use crate::time::{DAY_MS, HOUR_MS};

    fn part(start_h: i64, end_h: i64, counted: Counted) -> UnitStretch {
        let at = |hour: i64| Timestamp(hour * HOUR_MS);
        let grounds: Vec<Ground> = Vec::new();
        let period = Period::new(at(start_h), at(end_h));
        UnitStretch { period, counted, members: Members::default(), grounds }
    }

    fn verdict_of(timeline: &[UnitStretch], as_of_h: i64) -> Verdict {
        let whole = Period::new(Timestamp(0), Timestamp(30 * DAY_MS));
        let window = Window { period: whole, whole };
        let objective = shipped_objective("own-objective/usable-gpu");
        let as_of = Timestamp(as_of_h * HOUR_MS);
        let case = Case { objective: &objective, window, as_of, filings: Filings::default() };
        verdict(&case, timeline)
    }

    #[test]
    fn a_window_that_runs_is_breached_only_when_nothing_can_mend_it() {
        // 99.5 % of 720 h allow 3.6 h. An hour down in the first two says nothing yet.
        let early = verdict_of(&[part(0, 1, Counted::Up), part(1, 2, Counted::Down)], 2);
        assert_eq!((early.outcome, early.high()), (Outcome::Indeterminate, Some(Ppm(500_000))));
        assert_eq!(early.lacks, [Lack { remedy: Remedy::WaitForEnd, ms: 0 }]);
        let good = verdict_of(&[part(0, 700, Counted::Up)], 700);
        assert_eq!(good.outcome, Outcome::Indeterminate);
        let lost = verdict_of(&[part(0, 4, Counted::Down)], 4);
        assert_eq!(lost.outcome, Outcome::Breached);
        assert_eq!(verdict_of(&[part(0, 720, Counted::Up)], 720).outcome, Outcome::Met);
    }

    #[test]
    fn what_to_do_is_named_by_what_was_unknown_the_longest_first() {
        let unknown = |cause| Counted::Unknown(UnknownCause::Gap(cause));
        let timeline = [
            part(0, 2, unknown(GapCause::ObserverDown)),
            part(2, 3, unknown(GapCause::Unexplained)),
            part(3, 5, unknown(GapCause::NetUnreachable)),
            part(5, 9, Counted::Unknown(UnknownCause::NotEnrolled)),
            part(9, 720, Counted::Up),
        ];
        let lacks: Vec<_> =
            verdict_of(&timeline, 720).lacks.iter().map(|l| (l.remedy, l.ms / HOUR_MS)).collect();
        assert_eq!(
            lacks,
            [(Remedy::InstallAgent, 4), (Remedy::AddProber, 3), (Remedy::KeepServerRunning, 2)]
        );
        // Nothing to do where it is certain.
        assert_eq!(verdict_of(&[part(0, 9, Counted::Down), timeline[3].clone()], 720).lacks, []);
    }

    #[test]
    fn every_cause_has_a_remedy_that_is_not_waiting() {
        for cause in GapCause::ALL {
            assert_ne!(Remedy::against(UnknownCause::Gap(cause)), Remedy::WaitForEnd);
        }
    }
}
