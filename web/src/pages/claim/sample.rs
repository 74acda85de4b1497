//! Claims in each state, and one page with everything.

#![expect(clippy::unwrap_used, reason = "constants, which a snapshot test renders")]

use leasewatch_core::id::Hash;
use leasewatch_core::money::Money;
use leasewatch_core::segment::Origin;
use leasewatch_core::sla::claim::Urgency;
use leasewatch_core::sla::claim_facts::{ClaimFacts, CreditDetail, OutageDetail, UsedAmount};
use leasewatch_core::time::{DAY_MS, HOUR_MS, Period, Zone};

use super::super::claims::ClaimLine;
use super::super::lease::UnitName;
use super::{ClaimView, EnteredStep, StepFault, StepLine};
use crate::pages::sample::NOW;

fn money(nanos: i128) -> Money {
    Money { nanos, currency: "USD".parse().unwrap() }
}

/// A claim in this state; a deadline still counts for one that was not filed.
pub(super) fn line(number: i32, state: &'static str) -> ClaimLine {
    let is_due = matches!(state, "draft" | "notified");
    ClaimLine {
        number,
        tenant: "default".to_owned(),
        lease: "h100-train".to_owned(),
        provider: "Acme Compute".to_owned(),
        origin: (number == 1).then_some(Origin::Simulated),
        objective: "gpu-month".to_owned(),
        unit: UnitName::Gpu { node: "gpu-node-1".to_owned(), number: 0 },
        window: Period::new(NOW.plus_ms(-30 * DAY_MS), NOW),
        state,
        asked: money(36_000_000_000),
        granted: (state == "accepted").then(|| money(30_000_000_000)),
        deadline_at: (number != 4).then(|| NOW.plus_ms(if number == 2 { -1 } else { DAY_MS })),
        zone: Zone::parse("Asia/Shanghai").unwrap(),
        urgency: is_due.then_some(if number == 2 { Urgency::Missed } else { Urgency::Day }),
        drafted_at: NOW.plus_ms(-DAY_MS),
    }
}

fn facts() -> ClaimFacts {
    let at = |hours: i64| NOW.plus_ms(hours * HOUR_MS).0;
    let used = |of: &str, amount: &str, source: &str| UsedAmount {
        of: of.to_owned(),
        amount: amount.to_owned(),
        source: source.to_owned(),
        window: (at(-720), at(0)),
    };
    let outage = |from: i64, to: i64, class: &str, cause: &str| OutageDetail {
        actual: (at(from) - 30_000, at(to) + 30_000),
        counted: (at(from), at(to)),
        grounds: vec![(class.to_owned(), cause.to_owned())],
    };
    ClaimFacts {
        provider: "Acme Compute".to_owned(),
        product: "8x H100 SXM5".to_owned(),
        instance: Some("i-0123456789".to_owned()),
        machine: Some("b7-12".to_owned()),
        order: Some("A-20260701".to_owned()),
        region: Some("eu-north-1".to_owned()),
        gpu_model: "H100".to_owned(),
        gpu_count: 8,
        node: Some("gpu-node-1".to_owned()),
        gpu: Some(0),
        zone: "Asia/Shanghai".to_owned(),
        origin: "simulated".to_owned(),
        target_ppm: Some(999_000),
        is_over: true,
        whole_ms: 720 * HOUR_MS,
        proven_ms: 10 * HOUR_MS,
        unknown_ms: HOUR_MS,
        outages: vec![outage(-300, -294, "E1", "gpu_lost"), outage(-100, -96, "E3", "reboot")],
        credit: CreditDetail {
            below_ppm: Some(990_000),
            share_ppm: Some(250_000),
            limits: vec!["cap".to_owned()],
            used: vec![
                used("unit-charge", "144.00 USD", "terms"),
                used("prior-lease-charge", "1152.00 USD", "bill"),
            ],
            ..CreditDetail::default()
        },
        form: "money".to_owned(),
        source: ("https://acme.example/sla".to_owned(), "2026-07-01".to_owned()),
        is_reviewed: false,
        demands: vec!["the ticket number".to_owned(), "the instances".to_owned()],
    }
}

fn step(name: &str, amount: Option<Money>, words: Option<&str>) -> StepLine {
    StepLine {
        step: name.to_owned(),
        at: NOW.plus_ms(-HOUR_MS),
        amount,
        words: words.map(str::to_owned),
        written_at: NOW,
        written_by: Some("ada".to_owned()),
    }
}

/// A draft, and a step that cannot be.
pub(super) fn draft() -> ClaimView {
    ClaimView {
        line: line(1, "draft"),
        profile: "acme-standard@2".to_owned(),
        profile_hash: Hash([7; 32]),
        verdict_hash: Hash([8; 32]),
        facts: Some(facts()),
        notified_at: None,
        drafted_by: Some("ada".to_owned()),
        steps: Vec::new(),
        next: vec!["notify", "file", "withdraw"],
        entered: EnteredStep { at: "tomorrow".to_owned(), ..EnteredStep::default() },
        fault: Some(StepFault::Time),
    }
}

/// One that was refused.
pub(super) fn refused() -> ClaimView {
    let told = step("notify", None, Some("ticket 4711"));
    let refused = step("refuse", None, Some("maintenance"));
    ClaimView {
        line: ClaimLine { origin: None, ..line(5, "refused") },
        facts: None,
        notified_at: Some(NOW.plus_ms(-HOUR_MS)),
        steps: vec![told, step("file", None, None), refused],
        next: Vec::new(),
        entered: EnteredStep::default(),
        fault: None,
        ..draft()
    }
}
