//! R094: facts of twelve published agreements, in the wording of a table that was collected from
//! their pages (`R094-sla-facts.csv`, from the project's collection of real inputs).

use super::*;
use crate::sla::claim::{DeadlineRule, DeadlineStart};
use crate::sla::judgement::{Trial, side_by_side};
use crate::sla::profile::{CreditFormula, Profile};
use crate::sla::verdict::Outcome;

const FACTS: &str = include_str!("R094-sla-facts.csv");

/// Each row's provider, and the objectives that express it, in the order of its percentages.
const ROWS: [(&str, &[&str]); 12] = [
    ("CoreWeave (ToS page)", &["coreweave/multi-region", "coreweave/single-region"]),
    ("Atlas Cloud", &["atlas-cloud/multi-region", "atlas-cloud/single-region"]),
    ("Nebius Compute VM", &["nebius-compute/virtual-machine"]),
    ("Nebius managed k8s", &["nebius-kubernetes/control-plane"]),
    ("Yandex Compute (GPU cluster)", &["yandex-compute/gpu-cluster"]),
    ("AWS P4/P5", &["aws-ec2/region", "aws-ec2/instance"]),
    ("Google Cloud A3/A4", &["gcp-gce/single-instance"]),
    ("Azure ND", &["azure-vm/single-premium-disk"]),
    ("Voltage Park VM", &["voltage-park-vm/virtual-machine"]),
    ("Lumin House", &["lumin-house/instance"]),
    ("Nevskiy", &["nevskiy/reserved", "nevskiy/on-demand"]),
    ("GPUhub", &["gpuhub/instance-down"]),
];

fn profile_of(name: &str) -> Profile {
    let id = name.split('/').next().unwrap();
    Profile::parse(shipped().iter().find(|(shipped, _)| *shipped == id).unwrap().1).unwrap()
}

#[test]
fn r094_every_row_is_a_shipped_profile_with_its_percentages() {
    let mut rows = 0;
    for record in csv::Reader::from_reader(FACTS.as_bytes()).records() {
        let record = record.unwrap();
        let (_, objectives) = ROWS.iter().find(|(name, _)| *name == &record[0]).unwrap();
        let stated: Vec<Target> = record[2]
            .split([' ', '/'])
            .filter(|text| text.starts_with(|c: char| c.is_ascii_digit()))
            .map_while(|text| Target::parse(text).ok())
            .take(objectives.len())
            .collect();
        let ours: Vec<Target> =
            objectives.iter().filter_map(|name| shipped_objective(name).target).collect();
        // Voltage Park's table was not in the excerpt, and GPUhub promises no percentage.
        assert_eq!(ours, stated, "{}", &record[0]);
        rows += 1;
    }
    assert_eq!(rows, ROWS.len());
}

#[test]
fn r094_claim_windows() {
    let days = |days, after| DeadlineRule::Days { days, after };
    for (name, rule) in [
        ("coreweave", days(10, DeadlineStart::Incident)),
        ("nebius-compute", days(14, DeadlineStart::PeriodEnd)),
        ("aws-ec2", DeadlineRule::BillingCycles { cycles: 2 }),
        ("gcp-gce", days(60, DeadlineStart::Incident)),
        ("azure-vm", DeadlineRule::MonthsAfterBillingMonth { months: 2 }),
        ("voltage-park-vm", days(30, DeadlineStart::Incident)),
        ("nevskiy", days(30, DeadlineStart::Incident)),
    ] {
        assert_eq!(profile_of(name).deadline, rule, "{name}");
    }
}

#[test]
fn r094_allowances_of_a_30_day_month() {
    let month_ms = 30 * DAY_MS;
    for (target, minutes_times_100) in
        [("99.9", 4_320), ("99.5", 21_600), ("99", 43_200), ("99.99", 432)]
    {
        let allowed_ms = Target::parse(target).unwrap().allowed_ms(month_ms);
        assert_eq!(allowed_ms, minutes_times_100 * 600, "{target}");
    }
}

#[test]
fn r094_tiers_of_the_excerpt() {
    let tiers = |name: &str| match shipped_objective(name).credit.unwrap().formula {
        CreditFormula::Tiers(tiers) => tiers
            .iter()
            .map(|tier| (tier.below.to_string(), tier.share.to_string()))
            .collect::<Vec<_>>(),
        other => panic!("{name}: {other:?}"),
    };
    let expected = |list: &[(&str, &str)]| {
        list.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(tiers("nebius-kubernetes/control-plane"), expected(&[("99.9", "10"), ("95", "25")]));
    assert_eq!(
        tiers("yandex-compute/virtual-machine"),
        expected(&[("99.95", "10"), ("99", "15"), ("95", "30")])
    );
    assert_eq!(
        tiers("lumin-house/instance"),
        expected(&[("99.99", "10"), ("99.9", "25"), ("99", "50"), ("95", "100")])
    );
}

/// A GPU that is slow or throws XIDs stays reachable: no contract downtime, and not nothing.
#[test]
fn r094_a_degraded_reachable_gpu_is_no_contract_downtime_and_both_numbers_are_kept() {
    let month = Zone::UTC.month(2026, 6).unwrap();
    let hours = |from, to| {
        let at = |hour: i64| month.start.plus_ms(hour * HOUR_MS);
        Period::new(at(from), at(to))
    };
    let lost = hours(100, 120);
    let slow = hours(200, 230);
    let measured = without(&[month], &[lost]);
    let stretches: Vec<Stretch> = of(&measured, StretchContent::Measured)
        .chain(of(&[lost], StretchContent::Gap(GapCause::GpuLost)))
        .collect();
    let throttle = Ground { class: EvidenceClass::E1, cause: DownCause::Throttle };
    let source = EvidenceSource { hash: Hash::of(b"reasons"), text: "clock reasons".to_owned() };
    let states = evaluate(&SlotFacts {
        contracted: &[month],
        stretches: &stretches,
        recorded: &[month],
        reachable: &[month],
        observer: &[month],
        evidence: &[DownEvidence { period: slow, ground: throttle, source }],
        exclusions: &[],
        notice_lead_ms: None,
    });
    let contract = profile_of("gcp-gce");
    let own = profile_of("own-objective");
    let billing = BillingCycle { day: 1, zone: Zone::UTC };
    let trial = Trial {
        contract: Some(&contract),
        own: &own,
        lease: LeaseTime { period: month, billing },
        asked: Period::new(month.start.plus_ms(DAY_MS), month.end),
        as_of: month.end.plus_ms(DAY_MS),
        filings: Filings::default(),
    };
    let judgement = side_by_side(&trial, &[vec![states]]);

    // June in Los Angeles begins 7 h later; its last 7 h are July's in UTC.
    let single =
        judgement.contract.iter().find(|one| one.verdict.objective.as_str() == "single-instance");
    let contract = &single.unwrap().verdict;
    assert_eq!(contract.outcome, Outcome::Met, "{contract:?}");
    assert_eq!(contract.downtime.proven_ms, 0);
    let quality = &judgement.quality[0].verdict;
    assert_eq!(quality.outcome, Outcome::Breached);
    assert_eq!(quality.downtime.proven_ms, 20 * HOUR_MS);
    assert_eq!(quality.downtime.outages[0].period, lost);
    // Throttled time is up in both: a ground of its own, which only `throttle` would count.
    assert_eq!(judgement.states.down_total_ms(), 20 * HOUR_MS);
    assert!(judgement.states.is_conserved());
}
