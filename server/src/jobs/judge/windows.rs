//! Verdicts of the windows that judged hours lie in.
//!
//! The profile version that is in force at an hour judges it: where versions change within a
//! window, each judges its part. A verdict that nothing asks for any more (other terms, other
//! slots) gets a last revision in which nothing applies.

use leasewatch_core::availability::{Ground, StateStretch};
use leasewatch_core::id::{NodeId, SlotNo, Slug};
use leasewatch_core::sla::claim::ClaimState;
use leasewatch_core::sla::claim_facts::{CreditDetail, OutageDetail};
use leasewatch_core::sla::dialect::Filings;
use leasewatch_core::sla::judgement::{Member, MemberVerdict, Trial, side_by_side};
use leasewatch_core::sla::profile::{OWN_OBJECTIVE, Objective, Profile};
use leasewatch_core::sla::verdict::{Outcome, Verdict};
use leasewatch_core::sla::window::{BillingCycle, LeaseTime, WindowRule};
use leasewatch_core::time::{DAY_MS, Period, Timestamp};

use super::Case;
use super::charges::{self, Owed, Prior};
use crate::store::claim::{self, ClaimRow};
use crate::store::judge_work::JudgeReason;
use crate::store::verdict::{
    self, Basis, Details, Figures, Judged, JudgedBy, VerdictOf, VerdictRow,
};
use crate::store::{StoreError, Tx, availability, node};

/// Days whose rolling windows are judged when their hours are.
const ROLLING_DAYS: i64 = 40;

/// Judges every window that meets `asked`; returns how many verdicts were written.
pub(super) async fn put(
    tx: &mut Tx,
    case: &Case,
    asked: Period,
    reason: JudgeReason,
) -> Result<u64, StoreError> {
    let span = span(case, asked);
    let states = States::load(tx, case, span).await?;
    let claims = claim::list(tx, case.lease.key.tenant, Some(case.lease.key)).await?;
    let known = verdict::current(tx, case.lease.key, span).await?;
    let mut judged = Vec::new();
    for part in parts(case, asked) {
        let prior = part.prior(tx, case).await?;
        judged.extend(part.judge(case, &states, (&claims, &prior)));
    }
    let is_known = |of: &VerdictOf| known.iter().any(|row| row.judged.of == *of);
    judged.retain(|one| {
        one.outcome != Outcome::NotApplicable || one.figures.whole_ms > 0 || is_known(&one.of)
    });
    let gone = known.iter().filter(|row| is_gone(case, row, &judged, asked));
    let gone: Vec<Judged> = gone.map(|row| no_more(&row.judged)).collect();
    let mut written = 0;
    for one in judged.iter().chain(&gone) {
        let is_new = verdict::put(tx, case.lease.key, one, (reason, case.now)).await?;
        written += u64::from(is_new);
    }
    Ok(written)
}

/// A stretch of asked time, and the profile that judges it.
struct Part<'a> {
    basis: Basis,
    profile: Profile,
    /// When this version is in force.
    force: Period,
    asked: Vec<Period>,
    own: &'a Profile,
}

/// Everything that judges some of `asked`. Rolling windows end with days, so they are asked for
/// day by day.
fn parts(case: &Case, asked: Period) -> Vec<Part<'_>> {
    let Some(own) = case.own(asked.start) else { return Vec::new() };
    let mut parts = Vec::new();
    for (basis, id) in [
        (Basis::Contract, case.terms().profile.as_ref().map(|named| named.id.clone())),
        (Basis::Quality, Slug::new(OWN_OBJECTIVE).ok()),
    ] {
        let Some(id) = id else { continue };
        let mut versions = case.profiles.in_force_over(&id, asked);
        if versions.is_empty() && basis == Basis::Contract {
            versions.extend(case.contract(asked.start).map(|profile| (asked, profile)));
        }
        for (inside, profile) in versions {
            let force = Period::new(
                profile.effective_from.unwrap_or(Timestamp::MIN),
                profile.effective_to.unwrap_or(Timestamp::MAX),
            );
            let is_rolling = |o: &&Objective| matches!(o.window, WindowRule::Rolling { .. });
            let (rolling, fixed): (Vec<&Objective>, Vec<&Objective>) =
                profile.objectives.iter().partition(is_rolling);
            for (objectives, asked) in [(fixed, vec![inside]), (rolling, days(inside))] {
                if !objectives.is_empty() {
                    let objectives = objectives.into_iter().cloned().collect();
                    let profile = Profile { objectives, ..profile.clone() };
                    parts.push(Part { basis, profile, force, asked, own });
                }
            }
        }
    }
    parts
}

/// The last days of UTC that end within `asked`.
fn days(asked: Period) -> Vec<Period> {
    let last = asked.end.0.div_euclid(DAY_MS);
    let first = (asked.start.0.div_euclid(DAY_MS) + 1).max(last - ROLLING_DAYS);
    (first..=last)
        .map(|day| Period::new(Timestamp((day - 1) * DAY_MS), Timestamp(day * DAY_MS)))
        .collect()
}

fn lease_time(case: &Case) -> LeaseTime {
    let terms = case.terms();
    let end = terms.ends_at.unwrap_or(Timestamp::MAX);
    let day = u32::from(terms.billing.month_day);
    let billing = BillingCycle { day, zone: terms.zone };
    LeaseTime { period: Period::new(terms.starts_at, end), billing }
}

/// Everything that windows which meet `asked` reach over.
fn span(case: &Case, asked: Period) -> Period {
    let lease = lease_time(case);
    let mut span = asked;
    for part in parts(case, asked) {
        for objective in &part.profile.objectives {
            for asked in &part.asked {
                for window in objective.window.windows(&lease, *asked) {
                    span.start = span.start.min(window.period.start);
                    span.end = span.end.max(window.period.end);
                }
            }
        }
    }
    span
}

/// The stored states of a lease, by node and slot.
struct States {
    nodes: Vec<(NodeId, Vec<SlotNo>)>,
    stretches: Vec<Vec<Vec<StateStretch>>>,
}

impl States {
    async fn load(tx: &mut Tx, case: &Case, span: Period) -> Result<Self, StoreError> {
        let to = span.end.min(case.now).hour().next();
        let hours = (span.start.hour(), to);
        let rows = availability::current(tx, case.lease.key, hours).await?;
        let (mut nodes, mut stretches) = (Vec::new(), Vec::new());
        for of_node in rows.chunk_by(|a, b| a.judged.node == b.judged.node) {
            let key = of_node[0].judged.node;
            let id = match case.lease.node_id(key) {
                Some(id) => Some(id),
                None => node::by_key(tx, key).await?.map(|row| row.id),
            };
            let Some(id) = id else { continue };
            let (mut slots, mut states) = (Vec::new(), Vec::new());
            for of_slot in of_node.chunk_by(|a, b| a.judged.slot == b.judged.slot) {
                slots.push(of_slot[0].judged.slot);
                let all = of_slot.iter().flat_map(|row| row.judged.stretches.iter().cloned());
                states.push(all.collect());
            }
            nodes.push((id, slots));
            stretches.push(states);
        }
        Ok(Self { nodes, stretches })
    }

    /// The same within `period` alone.
    fn within(&self, period: Period) -> Vec<Vec<Vec<StateStretch>>> {
        let cut = |stretch: &StateStretch| {
            let period = stretch.period.intersect(period);
            (!period.is_empty()).then(|| StateStretch { period, ..stretch.clone() })
        };
        let of_slot = |slot: &Vec<StateStretch>| slot.iter().filter_map(cut).collect();
        self.stretches.iter().map(|node| node.iter().map(of_slot).collect()).collect()
    }

    fn unit(&self, member: Member) -> Option<String> {
        match member {
            Member::All => Some("lease".to_owned()),
            Member::Node(node) => Some(self.nodes.get(node)?.0.to_string()),
            Member::Slot { node, slot } => {
                let (id, slots) = self.nodes.get(node)?;
                Some(format!("{id}/{}", slots.get(slot)?.0))
            }
        }
    }
}

impl Part<'_> {
    /// What the lease cost in the window before each, for clauses that look there.
    async fn prior(&self, tx: &mut Tx, case: &Case) -> Result<Vec<Prior>, StoreError> {
        let lease = lease_time(case);
        let mut prior = Vec::new();
        for objective in self.profile.objectives.iter().filter(|one| charges::looks_back(one)) {
            for asked in &self.asked {
                for window in objective.window.windows(&lease, *asked) {
                    prior.extend(charges::before(tx, case, (objective, window)).await?);
                }
            }
        }
        Ok(prior)
    }

    fn judge(
        &self,
        case: &Case,
        states: &States,
        (claims, prior): (&[ClaimRow], &[Prior]),
    ) -> Vec<Judged> {
        let nodes = states.within(self.force);
        let notices: Vec<Timestamp> =
            claims.iter().filter_map(|row| row.claim.notified_at).collect();
        let mut out = Vec::new();
        for asked in &self.asked {
            for objective in &self.profile.objectives {
                let judge = |claimed: &[Period]| {
                    let filings = Filings { claimed, notices: &notices };
                    self.try_objective(case, (objective, *asked), filings, &nodes)
                };
                for of in judge(&[]) {
                    let Some(unit) = states.unit(of.member) else { continue };
                    // Each unit and window has claims of its own.
                    let claimed = claimed(claims, (objective, &unit), self.clipped(&of.verdict));
                    let is_same = |one: &MemberVerdict| {
                        (one.member, one.verdict.window) == (of.member, of.verdict.window)
                    };
                    let less = (!claimed.is_empty())
                        .then(|| judge(&claimed).into_iter().find(is_same))
                        .flatten();
                    let of = less.unwrap_or(of);
                    let slots = slots_of(of.member, &nodes);
                    let rule = objective.credit.as_ref().filter(|_| self.basis == Basis::Contract);
                    let (owed, detail) = rule.map_or_else(Default::default, |rule| {
                        charges::owed(case, (rule, &of.verdict), (&slots, &nodes), prior)
                    });
                    let is_over = of.verdict.window.period.end <= case.as_of();
                    out.push(self.judged((unit, &of.verdict, is_over), owed, detail));
                }
            }
        }
        out
    }

    fn try_objective(
        &self,
        case: &Case,
        (objective, asked): (&Objective, Period),
        filings: Filings<'_>,
        nodes: &[Vec<Vec<StateStretch>>],
    ) -> Vec<MemberVerdict> {
        let profile = Profile { objectives: vec![objective.clone()], ..self.profile.clone() };
        let trial = Trial {
            contract: (self.basis == Basis::Contract).then_some(&profile),
            own: if self.basis == Basis::Contract { self.own } else { &profile },
            lease: lease_time(case),
            asked,
            as_of: case.as_of(),
            filings,
        };
        let judgement = side_by_side(&trial, nodes);
        match self.basis {
            Basis::Contract => judgement.contract,
            Basis::Quality => judgement.quality,
        }
    }

    /// The window as far as this version judges it.
    fn clipped(&self, verdict: &Verdict) -> Period {
        let Period { start, end } = verdict.window.period;
        Period::new(start.max(self.force.start), end.min(self.force.end))
    }

    fn judged(
        &self,
        (unit, verdict, is_over): (String, &Verdict, bool),
        credit: Option<Owed>,
        credit_detail: CreditDetail,
    ) -> Judged {
        let (sums, downtime) = (&verdict.sums, &verdict.downtime);
        let ground =
            |ground: &Ground| (ground.class.name().to_owned(), ground.cause.name().to_owned());
        let outages = downtime.outages.iter().map(|outage| OutageDetail {
            actual: (outage.actual.start.0, outage.actual.end.0),
            counted: (outage.period.start.0, outage.period.end.0),
            grounds: outage.grounds.iter().map(ground).collect(),
        });
        let lacks = verdict.lacks.iter().map(|lack| (lack.remedy.name().to_owned(), lack.ms));
        let unknown = sums.unknown_ms.iter().map(|(cause, ms)| (cause.name().to_owned(), *ms));
        Judged {
            of: VerdictOf {
                basis: self.basis,
                objective: verdict.objective.clone(),
                unit,
                window: self.clipped(verdict),
            },
            is_over,
            outcome: verdict.outcome,
            target: verdict.target,
            figures: Figures {
                whole_ms: verdict.whole_ms,
                allowed_ms: verdict.allowed_ms,
                proven_ms: downtime.proven_ms,
                possible_ms: downtime.possible_ms,
                claimed_ms: downtime.claimed_ms,
                up_ms: sums.up_ms,
                down_ms: sums.down_ms,
                unknown_ms: sums.unknown_total_ms(),
                excluded_ms: sums.excluded_ms,
            },
            details: Details {
                outages: outages.collect(),
                lacks: lacks.collect(),
                unknown_ms: unknown.collect(),
                credit: credit_detail,
            },
            credit,
            by: JudgedBy {
                id: self.profile.id.clone(),
                version: self.profile.version,
                hash: self.profile.hash,
                is_reviewed: self.profile.reviewed_by.is_some(),
            },
        }
    }
}

fn slots_of(member: Member, nodes: &[Vec<Vec<StateStretch>>]) -> Vec<&[StateStretch]> {
    match member {
        Member::All => nodes.iter().flatten().map(Vec::as_slice).collect(),
        Member::Node(node) => nodes[node].iter().map(Vec::as_slice).collect(),
        Member::Slot { node, slot } => vec![nodes[node][slot].as_slice()],
    }
}

/// Downtime of a unit that was claimed for another window or objective, and not refused. Where
/// single outages are paid for, each is claimed by itself, in the same window too.
fn claimed(
    claims: &[ClaimRow],
    (objective, unit): (&Objective, &str),
    window: Period,
) -> Vec<Period> {
    let filed = |row: &&ClaimRow| {
        let is_other = (&row.draft.objective, row.draft.window) != (&objective.id, window);
        matches!(row.claim.state, ClaimState::Filed | ClaimState::Accepted { .. })
            && claim::overlaps(&row.draft.unit, unit)
            && (is_other || objective.target.is_none())
    };
    claims.iter().filter(filed).flat_map(|row| row.draft.intervals.iter().copied()).collect()
}

/// Whether a stored verdict is one that nothing asks for any more.
fn is_gone(case: &Case, row: &VerdictRow, judged: &[Judged], asked: Period) -> bool {
    let of = &row.judged.of;
    let meets = !of.window.intersect(asked).is_empty();
    let profile = match of.basis {
        Basis::Contract => case.contract(of.window.start),
        Basis::Quality => case.own(of.window.start),
    };
    let has_objective = profile.is_some_and(|profile| profile.objective(&of.objective).is_some());
    let is_done = row.judged.outcome == Outcome::NotApplicable && row.judged.figures.whole_ms == 0;
    meets && !has_objective && !is_done && !judged.iter().any(|one| one.of == *of)
}

fn no_more(judged: &Judged) -> Judged {
    Judged {
        outcome: Outcome::NotApplicable,
        figures: Figures::default(),
        details: Details::default(),
        credit: None,
        ..judged.clone()
    }
}
