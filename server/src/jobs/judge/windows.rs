//! Verdicts of the windows that judged hours lie in.
//!
//! The profile version that is in force at an hour judges it: where versions change within a
//! window, each judges its part. A verdict that nothing asks for any more (other terms, other
//! slots) gets a last revision in which nothing applies.

use leasewatch_core::availability::{Ground, StateStretch};
use leasewatch_core::id::{NodeId, SlotNo, Slug};
use leasewatch_core::money::Money;
use leasewatch_core::sla::claim::ClaimState;
use leasewatch_core::sla::credit::{Charges, credit};
use leasewatch_core::sla::dialect::Filings;
use leasewatch_core::sla::judgement::{Member, Trial, side_by_side};
use leasewatch_core::sla::profile::{CreditForm, OWN_OBJECTIVE, Objective, Profile};
use leasewatch_core::sla::verdict::{Outcome, Verdict};
use leasewatch_core::sla::window::{BillingCycle, LeaseTime, WindowRule};
use leasewatch_core::time::{DAY_MS, Period, Timestamp};

use super::{Case, charges};
use crate::store::claim::{self, ClaimRow};
use crate::store::judge_work::JudgeReason;
use crate::store::verdict::{
    self, Basis, CreditDetail, Details, Figures, Judged, JudgedBy, OutageDetail, VerdictOf,
    VerdictRow,
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
        judged.extend(part.judge(case, &states, &claims));
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
    fn judge(&self, case: &Case, states: &States, claims: &[ClaimRow]) -> Vec<Judged> {
        let nodes = states.within(self.force);
        let lease = lease_time(case);
        let notices: Vec<Timestamp> =
            claims.iter().filter_map(|row| row.claim.notified_at).collect();
        let mut out = Vec::new();
        for asked in &self.asked {
            for objective in &self.profile.objectives {
                let claimed = claimed(claims, objective, self.window_of(objective, &lease, *asked));
                let profile =
                    Profile { objectives: vec![objective.clone()], ..self.profile.clone() };
                let trial = Trial {
                    contract: (self.basis == Basis::Contract).then_some(&profile),
                    own: if self.basis == Basis::Contract { self.own } else { &profile },
                    lease,
                    asked: *asked,
                    as_of: case.as_of(),
                    filings: Filings { claimed: &claimed, notices: &notices },
                };
                let judgement = side_by_side(&trial, &nodes);
                let verdicts = match self.basis {
                    Basis::Contract => judgement.contract,
                    Basis::Quality => judgement.quality,
                };
                for of in verdicts {
                    let Some(unit) = states.unit(of.member) else { continue };
                    let slots = slots_of(of.member, &nodes);
                    let (owed, detail) = self.owed(case, objective, &of.verdict, (&slots, &nodes));
                    let is_over = of.verdict.window.period.end <= case.as_of();
                    out.push(self.judged((unit, &of.verdict, is_over), owed, detail));
                }
            }
        }
        out
    }

    fn window_of(&self, objective: &Objective, lease: &LeaseTime, asked: Period) -> Period {
        let windows = objective.window.windows(lease, asked);
        windows.first().map_or(asked, |window| window.period)
    }

    fn owed(
        &self,
        case: &Case,
        objective: &Objective,
        verdict: &Verdict,
        (unit, nodes): (&[&[StateStretch]], &[Vec<Vec<StateStretch>>]),
    ) -> (Option<Owed>, CreditDetail) {
        let none = CreditDetail::default();
        let Some(rule) = objective.credit.as_ref().filter(|_| self.basis == Basis::Contract) else {
            return (None, none);
        };
        let all: Vec<&[StateStretch]> = nodes.iter().flatten().map(Vec::as_slice).collect();
        let amounts = charges::amounts(case.terms(), verdict.window, unit, &all);
        let mut starts: Vec<Timestamp> = case.lease.sessions.iter().map(|s| s.starts_at).collect();
        starts.push(case.terms().starts_at);
        let charges = Charges {
            unit: amounts.unit,
            lease: amounts.lease,
            // The window before is another verdict's, and its hours may not be loaded.
            prior_lease: None,
            hourly: amounts.hourly,
            starts: &starts,
        };
        match credit(rule, verdict, &charges) {
            Ok(None) => (None, none),
            Ok(Some(owed)) => {
                let detail = CreditDetail {
                    below_ppm: owed.tier.map(|tier| tier.below.ppm()),
                    share_ppm: owed.tier.map(|tier| tier.share.ppm()),
                    credited_ms: owed.credited_ms,
                    limits: owed.limits.iter().map(|limit| limit.name().to_owned()).collect(),
                    missing: None,
                };
                (Some((owed.amount, owed.form)), detail)
            }
            Err(error) => (None, CreditDetail { missing: Some(error.to_string()), ..none }),
        }
    }

    fn judged(
        &self,
        (unit, verdict, is_over): (String, &Verdict, bool),
        credit: Option<Owed>,
        credit_detail: CreditDetail,
    ) -> Judged {
        let window = verdict.window.period;
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
                window: Period::new(
                    window.start.max(self.force.start),
                    window.end.min(self.force.end),
                ),
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

type Owed = (Money, CreditForm);

fn slots_of(member: Member, nodes: &[Vec<Vec<StateStretch>>]) -> Vec<&[StateStretch]> {
    match member {
        Member::All => nodes.iter().flatten().map(Vec::as_slice).collect(),
        Member::Node(node) => nodes[node].iter().map(Vec::as_slice).collect(),
        Member::Slot { node, slot } => vec![nodes[node][slot].as_slice()],
    }
}

/// Downtime that was claimed for another window or objective, and not refused.
fn claimed(claims: &[ClaimRow], objective: &Objective, window: Period) -> Vec<Period> {
    let filed = |row: &&ClaimRow| {
        matches!(row.claim.state, ClaimState::Filed | ClaimState::Accepted { .. })
            && (&row.draft.objective, row.draft.window) != (&objective.id, window)
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
