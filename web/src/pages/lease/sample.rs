//! A lease with something in each section.

#![expect(clippy::unwrap_used, reason = "constants, which a snapshot test renders")]

use std::collections::BTreeMap;

use leasewatch_core::id::Slug;
use leasewatch_core::lease::{
    Billing, BillingUnit, Fee, FeeCycle, Label, LeaseKind, LeaseTerms, Minima, Price, PriceUnit,
    ProfileRef, SessionSource, Share, ShareKind,
};
use leasewatch_core::money::Money;
use leasewatch_core::segment::{Event, EventKind, Origin};
use leasewatch_core::sla::budget::{BURN_PAIRS, BurnState};
use leasewatch_core::sla::verdict::{Outcome, Remedy};
use leasewatch_core::time::{DAY_MS, HOUR_MS, Period, Timestamp, Zone};

use super::super::lease_form::{FieldFault, LeaseMatter};
use super::{
    AssignmentLine, BudgetLine, BurnLine, ClaimMark, DayStates, EnteredSchedule, EnteredSession,
    InventoryLine, JudgementView, LeaseState, LeaseView, NodeName, ReliabilityView, Revision,
    ScheduleLine, SessionLine, Surplus, UnitName, VerdictLine,
};
use crate::deadline::DeadlineLine;
use crate::pages::claim::line_sample;
use crate::pages::sample::NOW;

fn slug(text: &str) -> Slug {
    Slug::new(text).unwrap()
}

fn money(nanos: i128) -> Money {
    Money { nanos, currency: "USD".parse().unwrap() }
}

/// Terms that say everything.
pub(in crate::pages) fn terms() -> LeaseTerms {
    let starts_at = NOW.plus_ms(-30 * DAY_MS);
    let price = |days: i64, nanos| Price {
        from: starts_at.plus_ms(days * DAY_MS),
        amount: money(nanos),
        unit: PriceUnit::GpuHour,
    };
    let label = |text: &str| Label::new(text).unwrap();
    LeaseTerms {
        name: slug("h100-train"),
        provider: slug("acme"),
        product: "8x H100 SXM5".to_owned(),
        kind: LeaseKind::OnDemand,
        share: Share { kind: ShareKind::Mig, ppm: 142_857 },
        region: Some("eu-north-1".to_owned()),
        instance: Some("i-0123456789".to_owned()),
        machine: Some("b7-12".to_owned()),
        order: Some("A-20260701".to_owned()),
        gpu_model: "H100".to_owned(),
        gpu_count: 8,
        currency: money(0).currency,
        tax_ppm: Some(130_000),
        starts_at,
        ends_at: None,
        auto_release_at: Some(NOW.plus_ms(DAY_MS)),
        prices: vec![price(0, 2_490_000_000), price(10, 2_290_000_000)],
        fees: vec![Fee {
            name: "disk".to_owned(),
            amount: money(12_500_000_000),
            cycle: FeeCycle::Month,
        }],
        billing: Billing { unit: BillingUnit::StartedHour, stop_ends_billing: true, month_day: 1 },
        minima: Minima {
            power_limit_mw: Some(700_000),
            memory_mib: Some(81_559),
            sm_clock_mhz: Some(1_980),
            pcie_generation: Some(5),
            pcie_width: Some(16),
            nvlinks: Some(18),
        },
        profile: Some(ProfileRef { id: slug("acme-standard"), version: 2 }),
        zone: Zone::UTC,
        labels: BTreeMap::from([(label("team"), label("nlp"))]),
    }
}

/// A breach that owes something.
fn contract(window: Period) -> VerdictLine {
    VerdictLine {
        is_contract: true,
        objective: "gpu-month".to_owned(),
        unit: UnitName::Gpu { node: "gpu-a".to_owned(), number: 0 },
        window,
        is_over: true,
        outcome: Outcome::Breached,
        target_ppm: Some(999_000),
        whole_ms: 720 * HOUR_MS,
        allowed_ms: Some(2_592_000),
        proven_ms: 10 * HOUR_MS,
        possible_ms: 11 * HOUR_MS,
        known_ms: 719 * HOUR_MS,
        unknown_ms: HOUR_MS,
        remedies: Vec::new(),
        credit: Some("357.50 USD".to_owned()),
        is_credit_missing: false,
        profile: "acme-standard".to_owned(),
        profile_version: 2,
        is_reviewed: false,
        revision: 3,
        hash: "ab".repeat(32),
        is_owed: true,
        claimed_ms: 0,
        claim: None,
    }
}

/// A breach, an indeterminate month and a clean one.
fn judged() -> JudgementView {
    let day = |n: i64, [up, down, unknown, excluded]: [i64; 4]| DayStates {
        starts_at: Timestamp(NOW.0.div_euclid(DAY_MS) * DAY_MS - n * DAY_MS),
        up_ms: up * HOUR_MS,
        down_ms: down * HOUR_MS,
        unknown_ms: unknown * HOUR_MS,
        excluded_ms: excluded * HOUR_MS,
    };
    let window = Period::new(NOW.plus_ms(-30 * DAY_MS), NOW);
    let contract = contract(window);
    let filed = VerdictLine {
        unit: UnitName::Gpu { node: "gpu-a".to_owned(), number: 1 },
        claimed_ms: HOUR_MS,
        claim: Some(ClaimMark { number: 3, state: "filed" }),
        ..contract.clone()
    };
    let quality = VerdictLine {
        is_contract: false,
        objective: "usable-gpu".to_owned(),
        unit: UnitName::Lease,
        outcome: Outcome::Indeterminate,
        is_over: false,
        target_ppm: Some(995_000),
        proven_ms: 0,
        remedies: vec![(Remedy::WaitForEnd, 0), (Remedy::InstallAgent, 11 * HOUR_MS)],
        credit: None,
        is_owed: false,
        profile: "own-objective".to_owned(),
        profile_version: 1,
        ..contract.clone()
    };
    let clean = VerdictLine {
        unit: UnitName::Node("gpu-b".to_owned()),
        is_over: true,
        outcome: Outcome::Met,
        possible_ms: 0,
        known_ms: 720 * HOUR_MS,
        unknown_ms: 0,
        remedies: Vec::new(),
        ..quality.clone()
    };
    let second = VerdictLine {
        unit: UnitName::Gpu { node: "gpu-a".to_owned(), number: 1 },
        outcome: Outcome::Met,
        proven_ms: 0,
        possible_ms: 0,
        credit: None,
        ..contract.clone()
    };
    let days = [[192, 0, 0, 0], [182, 10, 0, 0], [100, 0, 92, 0], [0, 0, 0, 192]];
    JudgementView {
        days: (0..4).rev().zip(days).map(|(n, parts)| day(n, parts)).collect(),
        verdicts: vec![contract, filed, quality, clean],
        budgets: budgets(window),
        judged_until: Some(NOW.hour().start()),
    }
}

/// One budget that burns, and one of which nothing is known.
fn budgets(window: Period) -> Vec<BudgetLine> {
    let burn = |pair: usize, state: BurnState, ppm: Option<i64>| BurnLine {
        long_ms: BURN_PAIRS[pair].long_ms,
        short_ms: BURN_PAIRS[pair].short_ms,
        severity: BURN_PAIRS[pair].severity,
        state,
        long_ppm: ppm,
        short_ppm: ppm,
        short_coverage_ppm: ppm.map(|_| 900_000),
    };
    let burning = BudgetLine {
        is_contract: true,
        objective: "gpu-month".to_owned(),
        unit: UnitName::Gpu { node: "gpu-a".to_owned(), number: 0 },
        window,
        target_ppm: 999_000,
        allowed_ms: 2_592_000,
        allowed_so_far_ms: 1_000_000,
        spent_ms: 1_300_000,
        possibly_spent_ms: 2_000_000,
        burns: vec![
            burn(0, BurnState::Fast, Some(15_060_000)),
            burn(1, BurnState::Slow, Some(2_500_000)),
            burn(2, BurnState::Fast, Some(1_200_000)),
        ],
    };
    let silent = BudgetLine {
        is_contract: false,
        objective: "usable-gpu".to_owned(),
        unit: UnitName::Lease,
        spent_ms: 3_000_000,
        possibly_spent_ms: 3_000_000,
        burns: vec![
            burn(0, BurnState::NoData, None),
            burn(1, BurnState::NoData, None),
            burn(2, BurnState::NotContracted, None),
        ],
        ..burning.clone()
    };
    vec![burning, silent]
}

impl LeaseView {
    pub(super) fn with_everything() -> Self {
        let terms = terms();
        let node = NodeName {
            id: "0f".repeat(16),
            name: "gpu-node-1".to_owned(),
            origin: Origin::Measured,
        };
        let line = |number: i32, gpu: u16| AssignmentLine {
            number,
            node: node.clone(),
            gpu,
            starts_at: terms.starts_at.plus_ms(if gpu == 1 { -DAY_MS } else { 0 }),
            ends_at: (gpu == 2).then_some(NOW),
            written_at: NOW.plus_ms(-DAY_MS),
            written_by: (gpu > 0).then(|| "ada".to_owned()),
            withdrawn_at: (gpu == 3).then_some(NOW),
            reason: (gpu == 3).then(|| "wrong card".to_owned()),
        };
        let session = |number: i32, running: bool| SessionLine {
            number,
            starts_at: NOW.plus_ms(-i64::from(number) * DAY_MS),
            ends_at: (!running).then(|| NOW.plus_ms(-i64::from(number) * DAY_MS + 9 * HOUR_MS)),
            source: if running { SessionSource::Hand } else { SessionSource::Csv },
        };
        let revision = |number: u32| Revision {
            revision: number,
            written_at: NOW.plus_ms(-DAY_MS),
            written_by: (number > 1).then(|| "ada".to_owned()),
            reason: (number > 1).then(|| "see contract".to_owned()),
            terms: terms.clone(),
        };
        let at = NOW.plus_ms(-2 * DAY_MS);
        Self {
            tenant: "default".to_owned(),
            shows_tenant: true,
            state: LeaseState::Running,
            judgement: judged(),
            deadlines: DeadlineLine::samples(),
            claims: vec![line_sample(3, "filed"), line_sample(1, "draft")],
            taken_by: Some(3),
            reliability: Some(ReliabilityView::sample()),
            history: vec![revision(2), revision(1)],
            assignments: (0..4).zip(0..4).map(|(number, gpu)| line(number, gpu)).collect(),
            gpus_unassigned: 6,
            surplus: Some(Surplus { gpus: 9, since: NOW }),
            schedule: Some(ScheduleLine {
                rule: "mon,tue 09:00-21:00".to_owned(),
                zone: "Asia/Shanghai".to_owned(),
                starts_at: NOW,
            }),
            offers: super::super::prices::PricesView::sample().offers,
            offers_cheaper: 2,
            entered_schedule: EnteredSchedule::default(),
            sessions: vec![session(1, true), session(2, false)],
            inventory: vec![InventoryLine {
                node,
                event: Event { at, gpu: None, kind: EventKind::DriverReloaded },
            }],
            may_change: true,
            entered: EnteredSession { starts_at: "yesterday".to_owned(), ..Default::default() },
            faults: vec![FieldFault::new("starts_at", LeaseMatter::Invalid)],
            terms,
        }
    }

    pub(super) fn with_little() -> Self {
        let sample = Self::with_everything();
        let terms = LeaseTerms {
            kind: LeaseKind::Reserved,
            share: Share::WHOLE,
            region: None,
            instance: None,
            machine: None,
            order: None,
            tax_ppm: None,
            auto_release_at: None,
            prices: Vec::new(),
            fees: Vec::new(),
            minima: Minima::default(),
            profile: None,
            labels: BTreeMap::new(),
            ..sample.terms
        };
        Self {
            shows_tenant: false,
            judgement: JudgementView::default(),
            deadlines: Vec::new(),
            claims: Vec::new(),
            taken_by: None,
            reliability: None,
            terms,
            assignments: Vec::new(),
            gpus_unassigned: 8,
            surplus: None,
            schedule: None,
            offers: Vec::new(),
            offers_cheaper: 0,
            entered_schedule: EnteredSchedule::default(),
            sessions: Vec::new(),
            inventory: Vec::new(),
            history: Vec::new(),
            entered: EnteredSession::default(),
            faults: Vec::new(),
            ..sample
        }
    }
}
