use proptest::prelude::*;

use super::*;
use crate::metering::{GapCause, MinuteSums, ProfileCell, ReasonMinutes};
use crate::segment::Origin;
use crate::time::HOUR_MS;

const HOUR: Hour = Hour(495_000);
const MINUTE_MS: i64 = 60_000;

/// A minute of the GPU: percent of utilization at each of its seconds is the same.
#[derive(Debug, Clone, Copy)]
struct Said {
    busy_pct: u8,
    memory_mib: Option<i64>,
    power_w: i64,
    sm_mhz: i64,
    hot_ms: i64,
    limit_w: i64,
}

/// A GPU at work: 60 GB held, 600 of 700 W.
const BUSY: Said = Said {
    busy_pct: 100,
    memory_mib: Some(60_000),
    power_w: 600,
    sm_mhz: 1_980,
    hot_ms: 0,
    limit_w: 700,
};
const IDLE: Said = Said { busy_pct: 0, memory_mib: Some(4), power_w: 70, sm_mhz: 345, ..BUSY };

fn cell(value: i64) -> Option<ProfileCell> {
    Some(ProfileCell { min: value, mean: value, max: value })
}

/// A record and a profile of 60 minutes; `None` is a minute that was not measured.
fn hour(minutes: &[Option<Said>]) -> (HourRecord, HourProfile) {
    let mut record = HourRecord::empty(HOUR, "GPU-1".parse().unwrap(), Origin::Measured);
    let mut profile = HourProfile::empty();
    let metrics =
        [Metric::MemoryUsed, Metric::PowerDraw, Metric::PowerLimitEnforced, Metric::SmClock];
    let mut columns = metrics.map(|metric| (metric, vec![None; 60]));
    let (mut hot, mut range) = (vec![0; 60], vec![(0, 0); 60]);
    for (index, said) in minutes.iter().enumerate() {
        let Some(said) = said else {
            record.gaps.add(GapCause::Unexplained, MINUTE_MS);
            continue;
        };
        record.histogram.add(said.busy_pct, MINUTE_MS);
        profile.utilization[index] = (i64::from(said.busy_pct) * MINUTE_MS, MINUTE_MS);
        range[index] = (said.busy_pct, said.busy_pct);
        hot[index] = said.hot_ms;
        let values = [
            said.memory_mib.and_then(cell),
            cell(said.power_w * 1_000),
            cell(said.limit_w * 1_000),
            cell(said.sm_mhz),
        ];
        for ((_, column), value) in columns.iter_mut().zip(values) {
            column[index] = value;
        }
    }
    record.enrolled_ms = HOUR_MS;
    profile.metrics = columns.into();
    let reasons = ReasonMinutes { known_ms: vec![MINUTE_MS; 60], bits: vec![(6, hot)] };
    profile.sums =
        Some(MinuteSums { busy_range: range, reasons: Some(reasons), ..Default::default() });
    (record, profile)
}

/// `count` minutes of each, then unmeasured ones.
fn minutes(runs: &[(usize, Said)]) -> Vec<Option<Said>> {
    let said = runs.iter().flat_map(|(count, said)| std::iter::repeat_n(Some(*said), *count));
    said.chain(std::iter::repeat(None)).take(60).collect()
}

const REFERENCE: Reference = Reference { sm_clock_mhz: Some(1_980), power_limit_mw: Some(700_000) };

fn measured(runs: &[(usize, Said)], states: StateTime) -> Measures {
    let (record, profile) = hour(&minutes(runs));
    let gpu = MeasuredGpu {
        record: &record,
        profile: Some(&profile),
        is_as_contracted: true,
        unhealthy_ms: 0,
    };
    measure(&SlotTime {
        hour: HOUR,
        contracted: &[HOUR.period()],
        gpus: &[gpu],
        states,
        reference: REFERENCE,
    })
}

/// Parts in minutes.
fn table(measures: &Measures) -> Vec<(&'static str, i64)> {
    assert!(measures.is_conserved());
    let parts = measures.parts.iter().filter(|(_, pct_ms)| *pct_ms != 0);
    parts.map(|(part, pct_ms)| (part.name(), pct_ms / MINUTE_MS / 100)).collect()
}

#[test]
fn an_hour_is_split_into_its_parts() {
    let held = Said { memory_mib: Some(30_000), ..IDLE };
    let runs = [(20, BUSY), (10, Said { busy_pct: 40, ..BUSY }), (10, IDLE), (5, held)];
    assert_eq!(
        table(&measured(&runs, StateTime { down_ms: 9 * MINUTE_MS, excluded_ms: 2 * MINUTE_MS })),
        [
            ("effective", 24), // 20 + 40 % of 10
            ("waiting", 6),    // the other 60 % of 10
            ("idle_free", 10),
            ("idle_held", 5),
            ("unavailable", 9),
            ("unknown", 4), // 60 - 45 - 9 - 2
            ("excluded", 2),
        ]
    );
}

#[test]
fn throttling_by_the_provider_costs_what_the_clock_lost() {
    let hot = Said { sm_mhz: 990, hot_ms: MINUTE_MS, ..BUSY };
    let capped = Said { sm_mhz: 990, limit_w: 350, power_w: 340, ..BUSY };
    // Its own power cap at the limit of the contract is normal, whatever the clock.
    let own = Said { sm_mhz: 990, power_w: 700, ..BUSY };
    let sum = measured(&[(20, hot), (20, capped), (20, own)], StateTime::default());
    assert_eq!(table(&sum), [("effective", 40), ("degraded", 20)]);
    assert_eq!(sum.attributable_ms, 40 * MINUTE_MS);
    assert_eq!(sum.healthy_pct_ms, 60 * MINUTE_MS * 100);
}

#[test]
fn a_clock_that_nobody_promised_adjusts_nothing_and_says_so() {
    let hot = Said { sm_mhz: 990, hot_ms: MINUTE_MS, ..BUSY };
    let (record, profile) = hour(&minutes(&[(60, hot)]));
    let gpu = MeasuredGpu {
        record: &record,
        profile: Some(&profile),
        is_as_contracted: true,
        unhealthy_ms: 0,
    };
    let sum = measure(&SlotTime {
        hour: HOUR,
        contracted: &[HOUR.period()],
        gpus: &[gpu],
        states: StateTime::default(),
        reference: Reference::default(),
    });
    assert_eq!(table(&sum), [("effective", 60)]);
    assert_eq!(sum.unadjusted_pct_ms, 60 * MINUTE_MS * 100);
}

#[test]
fn r040_a_phantom_is_measured_as_busy_and_booked_as_idle() {
    // 100 %, 0 MiB, 114 W of 575 W.
    let phantom = Said { memory_mib: Some(0), power_w: 114, limit_w: 575, ..BUSY };
    let hung = Said { memory_mib: Some(20_000), ..phantom };
    let reference = Reference { power_limit_mw: Some(575_000), ..REFERENCE };
    let (record, profile) = hour(&minutes(&[(40, phantom), (20, hung)]));
    let gpu = MeasuredGpu {
        record: &record,
        profile: Some(&profile),
        is_as_contracted: true,
        unhealthy_ms: 0,
    };
    let sum = measure(&SlotTime {
        hour: HOUR,
        contracted: &[HOUR.period()],
        gpus: &[gpu],
        states: StateTime::default(),
        reference,
    });
    assert_eq!(table(&sum), [("effective", 20), ("idle_free", 40)]);
    assert_eq!(sum.phantom_pct_ms, 40 * MINUTE_MS * 100);
    assert_eq!(sum.stall_ms, 20 * MINUTE_MS, "a hang is a hint, the time stays busy");
    assert_eq!(record.histogram.busy_pct_ms(), 60 * MINUTE_MS * 100);
}

#[test]
fn memory_that_was_not_read_splits_no_idle_time() {
    let unread = Said { memory_mib: None, ..IDLE };
    assert_eq!(table(&measured(&[(60, unread)], StateTime::default())), [("idle_unsplit", 60)]);
    let (record, _) = hour(&minutes(&[(30, IDLE), (30, BUSY)]));
    let gpu =
        MeasuredGpu { record: &record, profile: None, is_as_contracted: true, unhealthy_ms: 0 };
    let sum = measure(&SlotTime {
        hour: HOUR,
        contracted: &[HOUR.period()],
        gpus: &[gpu],
        states: StateTime::default(),
        reference: REFERENCE,
    });
    assert_eq!(table(&sum), [("effective", 30), ("idle_unsplit", 30)]);
}

#[test]
fn a_lease_that_begins_within_the_hour_gets_its_own_minutes() {
    let (record, profile) = hour(&minutes(&[(30, BUSY), (30, IDLE)]));
    let gpu = MeasuredGpu {
        record: &record,
        profile: Some(&profile),
        is_as_contracted: true,
        unhealthy_ms: 0,
    };
    let from = HOUR.start().plus_ms(20 * MINUTE_MS);
    let sum = measure(&SlotTime {
        hour: HOUR,
        contracted: &[Period::new(from, HOUR.end().plus_ms(HOUR_MS))],
        gpus: &[gpu],
        states: StateTime::default(),
        reference: REFERENCE,
    });
    assert_eq!(table(&sum), [("effective", 10), ("idle_free", 30)]);
}

#[test]
fn a_wrong_or_sick_gpu_is_degraded_whatever_it_does() {
    let (record, profile) = hour(&minutes(&[(60, BUSY)]));
    let of = |is_as_contracted, unhealthy_ms| {
        let gpu = MeasuredGpu {
            record: &record,
            profile: Some(&profile),
            is_as_contracted,
            unhealthy_ms,
        };
        measure(&SlotTime {
            hour: HOUR,
            contracted: &[HOUR.period()],
            gpus: &[gpu],
            states: StateTime::default(),
            reference: REFERENCE,
        })
    };
    assert_eq!(table(&of(false, 0)), [("degraded", 60)]);
    assert_eq!(of(false, 0).delivered_pct_ms, 0);
    assert_eq!(table(&of(true, 15 * MINUTE_MS)), [("effective", 45), ("degraded", 15)]);
    assert_eq!(of(true, 15 * MINUTE_MS).delivered_pct_ms, HOUR_MS * 100);
}

#[test]
fn a_slot_that_was_never_seen_is_unknown() {
    let sum = measure(&SlotTime {
        hour: HOUR,
        contracted: &[HOUR.period()],
        gpus: &[],
        states: StateTime::default(),
        reference: REFERENCE,
    });
    assert_eq!(table(&sum), [("unknown", 60)]);
}

fn any_said() -> impl Strategy<Value = Option<Said>> {
    let busy = prop_oneof![Just(0_u8), Just(100), 0_u8..=100];
    let memory = prop::option::of(prop_oneof![0_i64..200, Just(60_000)]);
    let said = (busy, memory, 0_i64..700, 200_i64..2_100, 0_i64..=MINUTE_MS, 300_i64..720);
    prop::option::weighted(
        0.8,
        said.prop_map(|(busy_pct, memory_mib, power_w, sm_mhz, hot_ms, limit_w)| Said {
            busy_pct,
            memory_mib,
            power_w,
            sm_mhz,
            hot_ms,
            limit_w,
        }),
    )
}

proptest! {
    /// Whatever was measured, contracted and judged: every moment is in exactly one part.
    #[test]
    fn parts_add_up_to_contracted_time(
        said in prop::collection::vec(any_said(), 60),
        periods in prop::collection::vec((-1_000_000_i64..4_000_000, 0_i64..3_000_000), 0..5),
        states in (0_i64..4_000_000, 0_i64..4_000_000),
        flags in (any::<bool>(), any::<bool>(), 0_i64..4_000_000),
    ) {
        let (record, profile) = hour(&said);
        let gpu = MeasuredGpu {
            record: &record,
            profile: flags.0.then_some(&profile),
            is_as_contracted: flags.1,
            unhealthy_ms: flags.2,
        };
        let at = |ms| HOUR.start().plus_ms(ms);
        let contracted: Vec<_> =
            periods.into_iter().map(|(from, ms)| Period::new(at(from), at(from + ms))).collect();
        let sum = measure(&SlotTime {
            hour: HOUR,
            contracted: &contracted,
            gpus: &[gpu],
            states: StateTime { down_ms: states.0, excluded_ms: states.1 },
            reference: REFERENCE,
        });
        prop_assert!(sum.is_conserved(), "{sum:?}");
        prop_assert!(sum.phantom_pct_ms <= sum.parts.of(Part::IdleFree));
        prop_assert!(sum.healthy_pct_ms <= sum.delivered_pct_ms);
        prop_assert!(sum.delivered_pct_ms <= sum.parts.measured());
        prop_assert!(sum.parts.measured() <= sum.delivered_most_pct_ms());
    }

    /// What was judged down or excluded stands as that, to the millisecond, however a day cuts the
    /// hour; the pieces are the whole.
    #[test]
    fn judged_time_is_never_unknown(
        said in prop::collection::vec(any_said(), 60),
        periods in prop::collection::vec((0_i64..3_600_000, 0_i64..3_000_000), 0..4),
        down in prop::collection::vec((-1_000_000_i64..3_600_000, 0_i64..2_000_000), 0..4),
        excluded in prop::collection::vec((-1_000_000_i64..3_600_000, 0_i64..2_000_000), 0..4),
        cut_ms in 0..=HOUR_MS,
    ) {
        let (record, profile) = hour(&said);
        let gpu = MeasuredGpu {
            record: &record, profile: Some(&profile), is_as_contracted: true, unhealthy_ms: 0,
        };
        let at = |ms| HOUR.start().plus_ms(ms);
        let stretches = |list: &[(i64, i64)]| -> Vec<Period> {
            list.iter().map(|(from, ms)| Period::new(at(*from), at(from + ms))).collect()
        };
        let (contracted, down, excluded) =
            (stretches(&periods), stretches(&down), stretches(&excluded));
        let within = |window: Period| {
            let contracted: Vec<_> = contracted.iter().map(|part| part.intersect(window)).collect();
            let states = StateTime::within(&contracted, &down, &excluded);
            (measure(&SlotTime {
                hour: HOUR, contracted: &contracted, gpus: &[gpu], states, reference: REFERENCE,
            }), states)
        };
        let (whole, states) = within(HOUR.period());
        let known = |part| whole.parts.of(part);
        prop_assert_eq!(known(Part::Unavailable), states.down_ms * 100);
        prop_assert_eq!(known(Part::Excluded), states.excluded_ms * 100);
        prop_assert!(whole.is_conserved());
        let [(mut sum, _), (second, _)] =
            [Period::new(HOUR.start(), at(cut_ms)), Period::new(at(cut_ms), HOUR.end())].map(within);
        sum.merge(&second);
        prop_assert!(sum.is_conserved());
        prop_assert_eq!(sum.contracted_ms, whole.contracted_ms);
        prop_assert_eq!(sum.parts.of(Part::Unavailable), known(Part::Unavailable));
        prop_assert_eq!(sum.parts.of(Part::Excluded), known(Part::Excluded));
    }

    /// The whole hour contracted and nothing down: measured time is measured time.
    #[test]
    fn nothing_measured_is_lost(said in prop::collection::vec(any_said(), 60)) {
        let (record, profile) = hour(&said);
        let gpu = MeasuredGpu {
            record: &record, profile: Some(&profile), is_as_contracted: true, unhealthy_ms: 0,
        };
        let sum = measure(&SlotTime {
            hour: HOUR,
            contracted: &[HOUR.period()],
            gpus: &[gpu],
            states: StateTime::default(),
            reference: REFERENCE,
        });
        prop_assert_eq!(sum.parts.measured(), record.measured_ms() * 100);
        let busy = sum.parts.of(Part::Effective) + sum.parts.of(Part::Degraded) + sum.phantom_pct_ms;
        prop_assert_eq!(busy, record.histogram.busy_pct_ms());
    }
}
