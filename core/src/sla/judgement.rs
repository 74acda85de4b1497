//! Contract and quality of a lease, side by side and never mixed.
//!
//! The contract says what its provider's profile counts, quality what own objectives count. Both
//! are judged over the same states, and neither stands in for the other: a GPU that is there and
//! bad mostly is no contract downtime, and a lease without a profile has no contract verdict.

use crate::availability::{StateStretch, StateSums};
use crate::time::{Period, Timestamp};

use super::dialect::Filings;
use super::profile::{Profile, UnitKind};
use super::verdict::{Case, Verdict, judge};
use super::window::LeaseTime;

/// What is judged by.
#[derive(Debug, Clone, Copy)]
pub struct Trial<'a> {
    /// The provider's profile that is in force; `None` where the lease has none.
    pub contract: Option<&'a Profile>,
    /// Own objectives.
    pub own: &'a Profile,
    /// The lease's time, which cuts windows.
    pub lease: LeaseTime,
    /// The windows that meet this are judged.
    pub asked: Period,
    /// Until when anything is known.
    pub as_of: Timestamp,
    /// What was claimed and noticed before; for the contract alone.
    pub filings: Filings<'a>,
}

/// Both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// By the provider's profile; empty without one.
    pub contract: Vec<MemberVerdict>,
    /// By own objectives.
    pub quality: Vec<MemberVerdict>,
    /// The states of all slots, cut to nothing but contracted time: law S.
    pub states: StateSums,
}

/// A verdict, and whose.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberVerdict {
    /// Of what.
    pub member: Member,
    /// The verdict.
    pub verdict: Verdict,
}

/// The part of a lease that an objective judges as one, by its place in what was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Member {
    /// One slot of a node.
    Slot {
        /// Which node.
        node: usize,
        /// Which of its slots.
        slot: usize,
    },
    /// One node.
    Node(usize),
    /// All of it together.
    All,
}

/// Judges a lease: `nodes` holds the states of each of its nodes' slots. A contracted slot that was
/// never seen is one of them.
#[must_use]
pub fn side_by_side(trial: &Trial<'_>, nodes: &[Vec<Vec<StateStretch>>]) -> Judgement {
    let contract = trial.contract.map(|profile| verdicts(trial, profile, trial.filings, nodes));
    Judgement {
        contract: contract.unwrap_or_default(),
        quality: verdicts(trial, trial.own, Filings::default(), nodes),
        states: StateSums::of(nodes.iter().flatten().flatten()),
    }
}

fn verdicts(
    trial: &Trial<'_>,
    profile: &Profile,
    filings: Filings<'_>,
    nodes: &[Vec<Vec<StateStretch>>],
) -> Vec<MemberVerdict> {
    let mut out = Vec::new();
    for objective in &profile.objectives {
        for window in objective.window.windows(&trial.lease, trial.asked) {
            let case = Case { objective, window, as_of: trial.as_of, filings };
            out.extend(
                members(objective.unit.kind, nodes)
                    .into_iter()
                    .map(|(member, slots)| MemberVerdict { member, verdict: judge(&case, &slots) }),
            );
        }
    }
    out
}

/// What a unit's kind judges as one, each with its slots.
fn members(
    kind: UnitKind,
    nodes: &[Vec<Vec<StateStretch>>],
) -> Vec<(Member, Vec<&[StateStretch]>)> {
    match kind {
        UnitKind::Gpu => nodes
            .iter()
            .enumerate()
            .flat_map(|(node, slots)| {
                slots.iter().enumerate().map(move |(slot, states)| {
                    (Member::Slot { node, slot }, vec![states.as_slice()])
                })
            })
            .collect(),
        UnitKind::Node => nodes
            .iter()
            .enumerate()
            .map(|(node, slots)| (Member::Node(node), slots.iter().map(Vec::as_slice).collect()))
            .collect(),
        UnitKind::Cluster | UnitKind::Account | UnitKind::Region => {
            vec![(Member::All, nodes.iter().flatten().map(Vec::as_slice).collect())]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::availability::{Seen, State};
    use crate::sla::profile::{OWN_OBJECTIVE, shipped};
    use crate::sla::window::BillingCycle;
    use crate::time::Zone;

    fn profile(id: &str) -> Profile {
        Profile::parse(shipped().iter().find(|(shipped, _)| *shipped == id).unwrap().1).unwrap()
    }

    #[test]
    fn each_objective_judges_its_own_units() {
        let month = Zone::UTC.month(2026, 6).unwrap();
        let up = vec![StateStretch {
            period: month,
            state: State::Up,
            seen: Seen::Working,
            reachable: true,
            grounds: Vec::new(),
            disputed: false,
        }];
        let (contract, own) = (profile("aws-ec2"), profile(OWN_OBJECTIVE));
        let trial = Trial {
            contract: Some(&contract),
            own: &own,
            lease: LeaseTime { period: month, billing: BillingCycle { day: 1, zone: Zone::UTC } },
            asked: month,
            as_of: month.end,
            filings: Filings::default(),
        };
        let nodes = [vec![up.clone(), up.clone()], vec![up]];
        let judged = side_by_side(&trial, &nodes);
        let members = |list: &[MemberVerdict]| list.iter().map(|v| v.member).collect::<Vec<_>>();
        assert_eq!(members(&judged.contract), [Member::All, Member::Node(0), Member::Node(1)]);
        let slot = |node, slot| Member::Slot { node, slot };
        assert_eq!(members(&judged.quality), [slot(0, 0), slot(0, 1), slot(1, 0)]);
        assert_eq!(judged.states.contracted_ms, 3 * month.ms());

        let alone = side_by_side(&Trial { contract: None, ..trial }, &nodes);
        assert_eq!((alone.contract.len(), alone.quality), (0, judged.quality));
    }
}
